/* Models trained for the reproductions of recall: a cell for each mixer, size and seed. */
#ifndef ICLAB_PAPERS_RECALL_TRAINED_H
#define ICLAB_PAPERS_RECALL_TRAINED_H

#include "iclab/train.h"
#include "papers/reproduce.h"

/* What overrides the recipe for one training. */
typedef struct icl_recall_cell {
    const char *name;         /* of its run folder, runs/NAME-seedN */
    const char *recipe;       /* of tools/recipes */
    const char *task, *model; /* "section.key=value", separated by blanks */
    size_t key_width;         /* model.key_width; 0: the recipe's */
    size_t steps, sequences;  /* of training; of the evaluation */
    uint32_t seed;            /* of training; the evaluation has the run's */
} icl_recall_cell;

/* Trains a cell, or loads what is finished there. The caller frees both. ICL_ERROR_DIVERGED as icl_reproduce_train. */
icl_status icl_recall_train(icl_reproducing *run, const icl_recall_cell *cell, icl_recipe **recipe,
                            icl_trainer **trainer, icl_error *error);

#endif
