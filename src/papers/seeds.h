/* What reproductions share: models of a recipe, trained with several seeds and evaluated on the same sequences. */
#ifndef ICLAB_PAPERS_SEEDS_H
#define ICLAB_PAPERS_SEEDS_H

#include "papers/reproduce.h"

enum { ICL_SEEDED_NAME = 64 };

/* One training. */
typedef struct icl_seeded_cell {
    const char *name;      /* of the run folder, runs/NAME-seedN */
    const char *recipe;    /* by name */
    const char *overrides; /* "section.key=value", separated by blanks; or "" */
    size_t steps;          /* 0: the parameters stay as they begin, and there is no run folder */
    uint32_t seed;         /* of the training; sequences for evaluation are those of the run's seed for all cells */
    const float *initial;  /* icl_model_size parameters to begin with; NULL: the recipe's; not with 0 steps */
    size_t sequences;      /* of the evaluation; 0: the recipe's */
} icl_seeded_cell;

/* Trains the cell. *recipe receives what it was made of; both are the caller's, also after a failure, and NULL to begin
 * with. ICL_ERROR_DIVERGED as icl_reproduce_train. */
icl_status icl_reproduce_train_seed(icl_reproducing *run, const icl_seeded_cell *cell, icl_recipe **recipe,
                                    icl_trainer **trainer, icl_error *error);

/* Gives the trainer the parameters behind `step` steps of a cell with train.snapshot_every, which divides them. */
icl_status icl_reproduce_go_to_step(const icl_reproducing *run, const icl_seeded_cell *cell, uint64_t step,
                                    icl_trainer *trainer, icl_error *error);

/* Trains it and compares it with the reference predictors of its recipe. */
icl_status icl_reproduce_evaluate_seed(icl_reproducing *run, const icl_seeded_cell *cell, icl_evaluation **evaluation,
                                       icl_error *error);

#endif
