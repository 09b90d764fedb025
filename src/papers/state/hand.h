/*
 * State tracking by hand: a layer of the delta rule whose writes a table gives for each symbol, run by the library's
 * recurrence on the device, as a whole and position by position.
 *
 *     S <- S - beta k (S^T k)^T + beta k v        n_h times for each symbol;    o_h = S^T q_h
 *
 * With one value S is a vector [m], and a write with v = 0, beta = 2 and a unit key reflects it: S <- (I - 2 k k^T) S.
 */
#ifndef ICLAB_PAPERS_STATE_HAND_H
#define ICLAB_PAPERS_STATE_HAND_H

#include "papers/reproduce.h"

enum { ICL_HAND_MOST_SYMBOLS = 121, ICL_HAND_MOST_WRITES = 4, ICL_HAND_MOST_WIDTH = 5 };

/* One write: beta, v, and k [m]. */
typedef struct icl_hand_write {
    double strength, value, key[ICL_HAND_MOST_WIDTH];
} icl_hand_write;

typedef struct icl_hand_layer {
    size_t symbols, writes, width; /* V, n_h, m */
    icl_hand_write table[ICL_HAND_MOST_SYMBOLS][ICL_HAND_MOST_WRITES];
    /* The class of a state [m], whose numbers are rounded to whole ones; SIZE_MAX where it is that of no class. */
    size_t (*classify)(const struct icl_hand_layer *layer, const int *state);
    const void *settings; /* of classify */
} icl_hand_layer;

/* What a form of the layer gave: the share of right classes, and the largest distance of a state's number from a whole
 * one. */
typedef struct icl_hand_tally {
    double share, deviation;
} icl_hand_tally;

enum { ICL_HAND_WHOLE = 0, ICL_HAND_STEPWISE, ICL_HAND_FORMS };

/* Runs the layer in both forms on `sequences` words of a task of task.family = state, all of one length. */
icl_status icl_hand_run(const icl_reproducing *run, const icl_task *words, const icl_hand_layer *layer,
                        size_t sequences, icl_hand_tally tallies[ICL_HAND_FORMS], icl_error *error);

#endif
