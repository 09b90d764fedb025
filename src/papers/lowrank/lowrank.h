/* What the checks on what training changes share (Li and others 2024, arXiv 2406.17167): trained cells with what they
 * began with. */
#ifndef ICLAB_PAPERS_LOWRANK_LOWRANK_H
#define ICLAB_PAPERS_LOWRANK_LOWRANK_H

#include "papers/seeds.h"

enum { ICL_LOWRANK_WIDTH = 32, ICL_LOWRANK_HIDDEN = 4 * ICL_LOWRANK_WIDTH }; /* of the blocks */

/* A trained cell, and its parameters before and after. Zero to begin with, and released also after a failure. */
typedef struct icl_lowrank_trained {
    icl_seeded made;
    float *before, *after;
} icl_lowrank_trained;

icl_status icl_lowrank_train(icl_reproducing *run, const icl_seeded_cell *cell, icl_lowrank_trained *out,
                             icl_error *error);
void icl_lowrank_release(icl_lowrank_trained *trained);

/* One block of softmax attention and a feed-forward of ReLUs that learns, by plain gradient descent, the labels of
 * noisy patterns of `item_size` numbers. */
icl_status icl_lowrank_train_block(icl_reproducing *run, const char *name, size_t patterns, size_t labels,
                                   size_t item_size, icl_lowrank_trained *out, icl_error *error);

/* What neurons of small magnitude carry (neurons.c). */
icl_status icl_lowrank_neurons(icl_reproducing *run, icl_error *error);

#endif
