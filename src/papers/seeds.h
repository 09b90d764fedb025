/* What reproductions share: models of a recipe, trained with several seeds and evaluated on the same sequences. */
#ifndef ICLAB_PAPERS_SEEDS_H
#define ICLAB_PAPERS_SEEDS_H

#include "papers/reproduce.h"

enum { ICL_SEEDED_NAME = 64, ICL_SEEDED_OVERRIDES = 4 };

/* One training. */
typedef struct icl_seeded_cell {
    const char *name;   /* of the run folder, runs/NAME-seedN */
    const char *recipe; /* by name */
    /* Lists of "section.key=value", separated by blanks, in this order and behind what is below; NULL: none. */
    const char *overrides[ICL_SEEDED_OVERRIDES];
    size_t steps;         /* 0: the parameters stay as they begin, and there is no run folder */
    uint32_t seed;        /* of the training; sequences for evaluation are those of the run's seed for all cells */
    const float *initial; /* icl_model_size parameters to begin with; NULL: the recipe's; not with 0 steps */
    size_t sequences;     /* of the evaluation; 0: the recipe's */
    bool is_needed;       /* other trainings begin with it; not with `initial` */
} icl_seeded_cell;

/* What came of it. Zero to begin with, and released also after a failure. */
typedef struct icl_seeded {
    icl_recipe *recipe; /* what it was made of */
    icl_trainer *trainer;
} icl_seeded;

/* Trains the cell. ICL_ERROR_DIVERGED as icl_reproduce_train. */
icl_status icl_reproduce_train_seed(icl_reproducing *run, const icl_seeded_cell *cell, icl_seeded *made,
                                    icl_error *error);
void icl_seeded_release(icl_seeded *made);

/* Gives the trainer the parameters behind `step` steps of a cell with train.snapshot_every, which divides them. */
icl_status icl_reproduce_go_to_step(const icl_reproducing *run, const icl_seeded_cell *cell, uint64_t step,
                                    icl_trainer *trainer, icl_error *error);

/* Trains it at each learning rate, in runs/NAME-RATE-seedN, and compares the one with the most right answers with the
 * reference predictors. NULL where all diverged, or where workers share the trainings. The cell leaves the last of its
 * lists of overrides free. */
icl_status icl_reproduce_evaluate_best_rate(icl_reproducing *run, const icl_seeded_cell *cell, size_t rates,
                                            const char *const *learning_rates, icl_evaluation **evaluation,
                                            icl_error *error);

/* Trains it and compares it with the reference predictors of its recipe. */
icl_status icl_reproduce_evaluate_seed(icl_reproducing *run, const icl_seeded_cell *cell, icl_evaluation **evaluation,
                                       icl_error *error);

#endif
