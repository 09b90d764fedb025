/*
 * Models of recipes, trained with several seeds: what most reproductions make their points of. A cell says what is
 * trained, and what came of it is a recipe and a trainer.
 */
#ifndef ICLAB_PAPERS_TRAINED_H
#define ICLAB_PAPERS_TRAINED_H

#include "papers/reproduce.h"

enum { ICL_TRAINED_NAME = 64, ICL_TRAINED_LISTS = 3 };

/* One training. */
typedef struct icl_trained_cell {
    const char *name;   /* of the run folder, runs/NAME-seedN */
    const char *recipe; /* of tools/recipes */
    /* "section.key=value", separated by blanks, in this order and behind what is below; NULL: none. */
    const char *overrides[ICL_TRAINED_LISTS];
    size_t steps;  /* of training; 0: the recipe's */
    uint32_t seed; /* of training; sequences for evaluation are those of the run's seed for all cells */
} icl_trained_cell;

/* Zero to begin with, and released also after a failure. */
typedef struct icl_trained {
    icl_recipe *recipe;
    icl_trainer *trainer;
} icl_trained;

/* Trains the cell, goes on with what its folder holds, or only loads what is finished there, as icl_reproduce_train. */
icl_status icl_trained_make(icl_reproducing *run, const icl_trained_cell *cell, icl_trained *made, icl_error *error);
void icl_trained_release(icl_trained *trained);

/* Gives the trainer the parameters behind `step` steps of a cell with train.snapshot_every, which divides them. */
icl_status icl_trained_go_to(const icl_reproducing *run, const icl_trained_cell *cell, icl_trained *trained,
                             uint64_t step, icl_error *error);

#endif
