/* Cells: training runs in folders of their own that are begun, gone on with or only loaded, as the folder has it; of
 * reproductions and of sweeps. */
#ifndef ICLAB_RUN_CELL_H
#define ICLAB_RUN_CELL_H

#include "iclab/session.h"

typedef struct icl_cell_params {
    icl_session_params session; /* but for resume */
    /* [icl_model_size], other initial parameters than the recipe's; NULL: the recipe's. */
    const float *initial;
    /* For the record, as in icl_run_facts. */
    const char *recipe_name, *command_line;
    /* Called before the first step, not where all are done: of which step the run goes on, and of how
     * many. May be NULL. */
    void (*begin)(void *user, const char *folder, uint64_t step, uint64_t total_steps);
    void *user; /* of begin */
} icl_cell_params;

/* Whether the folder holds a run of this very recipe; keys that the run's version did not have count as their defaults.
 * ICL_ERROR_INPUT if it holds one of another. */
icl_status icl_cell_find(const char *folder, const icl_recipe *recipe, bool *found, icl_error *error);

/* Whether the folder holds a run of this recipe that came to its end, or diverged: nothing is left to train. Fails as
 * icl_cell_find for a run that did; one that is being trained is not looked at. */
icl_status icl_cell_is_finished(const char *folder, const icl_recipe *recipe, bool *finished, icl_error *error);

/* Trains what the folder still lacks. The trainer holds the last step's parameters, rounded as the folder's file has
 * them. ICL_ERROR_INPUT if the folder holds a run of another recipe or one that started from other parameters.
 * ICL_ERROR_DIVERGED, also where the folder says that it did before, and ICL_ERROR_INTERRUPTED as icl_session_train
 * has them; then *trainer is NULL. */
icl_status icl_cell_train(const icl_cell_params *params, icl_trainer **trainer, icl_error *error);

#endif
