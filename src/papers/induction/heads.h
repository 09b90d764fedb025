/*
 * What the heads of two layers of attention look at in a context of two pairs of an item and its label, with a query
 * that is one of the items (the task "classification"): means over sequences, of the head that does it most.
 *     previous token   layer 1, from each label to the item before it
 *     induction        layer 2, from the query to the label of the pair that it is like, less that to the other label
 */
#ifndef ICLAB_PAPERS_INDUCTION_HEADS_H
#define ICLAB_PAPERS_INDUCTION_HEADS_H

#include "papers/reproduce.h"

enum { ICL_HEADS_SEQUENCES = 512 };

/* The sequences, and room for parameters. Zero to begin with, and released also after a failure. */
typedef struct icl_heads {
    icl_batch batch;
    icl_tensor parameters;
    float *values;                     /* [N] */
    size_t asked[ICL_HEADS_SEQUENCES]; /* the pair that the query is like */
} icl_heads;

icl_status icl_heads_open(const icl_reproducing *run, const icl_trainer *trainer, uint32_t seed, icl_heads *heads,
                          icl_error *error);
void icl_heads_release(icl_heads *heads);

/* Of the trainer's parameters. */
icl_status icl_heads_measure(const icl_reproducing *run, icl_heads *heads, icl_trainer *trainer, double *previous,
                             double *induction, icl_error *error);

#endif
