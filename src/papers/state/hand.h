/*
 * State tracking by hand: a layer of the delta rule whose writes a table gives for each symbol, run by the library's
 * recurrence on the device, as a whole and position by position.
 */
#ifndef ICLAB_PAPERS_STATE_HAND_H
#define ICLAB_PAPERS_STATE_HAND_H

#include "papers/reproduce.h"

/* A form of the layer gives this: the share of right classes, and the largest distance of a state's number from a whole
 * one. */
typedef struct icl_hand_tally {
    double share, deviation;
} icl_hand_tally;

enum { ICL_HAND_WHOLE = 0, ICL_HAND_STEPWISE, ICL_HAND_FORMS };

/* Runs the layer of parity (points = 0), or of permutations of so many points, all or the even ones, in both forms on
 * words of a task of task.family = state with that rule, all of one length. */
icl_status icl_hand_run(const icl_reproducing *run, const icl_task *words, size_t points, bool is_even,
                        icl_hand_tally tallies[ICL_HAND_FORMS], icl_error *error);

#endif
