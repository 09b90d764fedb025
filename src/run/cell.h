/* Cells of reproductions and of sweeps: training runs in folders of their own, which are begun, continued or only
 * loaded, depending on what the folder holds. */
#ifndef ICLAB_RUN_CELL_H
#define ICLAB_RUN_CELL_H

#include "iclab/session.h"

typedef struct icl_cell_params {
    icl_session_params session; /* resume is not read */
    /* Initial parameters [icl_model_size] that replace the recipe's; NULL: the recipe's. */
    const float *initial;
    /* Texts for the record, as in icl_run_facts. */
    const char *recipe_name, *command_line;
    /* Called before the first step, unless no step is left, with the step at which the run goes on and the number of
     * all steps. May be NULL. */
    void (*begin)(void *user, const char *folder, uint64_t step, uint64_t total_steps);
    void *user; /* passed to begin */
} icl_cell_params;

/* Sets *found to whether the folder holds a run of this very recipe; keys that the run's version did not have count as
 * their defaults. ICL_ERROR_INPUT if it holds a run of another recipe. */
icl_status icl_cell_find(const char *folder, const icl_recipe *recipe, bool *found, icl_error *error);

/* Sets *finished to whether the folder holds a run of this recipe that was completed or diverged, so that nothing is
 * left to train. Fails as icl_cell_find does if such a run has another recipe; does not look at one that is being
 * trained. */
icl_status icl_cell_is_finished(const char *folder, const icl_recipe *recipe, bool *finished, icl_error *error);

/* Trains what the folder still lacks. The trainer then holds the last step's parameters, rounded as the folder's file
 * has them. ICL_ERROR_INPUT if the folder holds a run of another recipe or one that started from other parameters.
 * ICL_ERROR_DIVERGED (also if the folder records an earlier divergence) and ICL_ERROR_INTERRUPTED as for
 * icl_session_train; then *trainer is NULL. */
icl_status icl_cell_train(const icl_cell_params *params, icl_trainer **trainer, icl_error *error);

#endif
