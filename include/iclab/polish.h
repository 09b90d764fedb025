/*
 * The last stage of training a linear transformer (train.polish): L-BFGS in double precision on fixed sequences, and
 * how far from a stationary point the result is.
 *
 * The loss has a heavy tail, so that the minimum of any fixed set may lie far from that of all sequences. Therefore as
 * many other sequences are held out: the iterate that lowers their mean loss most is taken, and only if it lowers it by
 * more than a standard error of the paired difference; else the parameters stay as the steps left them. If so few
 * sequences dominate the loss that a set's mean says little, rounds follow: each draws either set from sixteen times
 * the sequences, keeps those that have the largest loss at an earlier round's end, and a weighted part of the others,
 * and goes on from where the round before it ended.
 */
#ifndef ICLAB_POLISH_H
#define ICLAB_POLISH_H

#include <stdbool.h>
#include <stdint.h>

#include "iclab/export.h"
#include "iclab/json.h"
#include "iclab/status.h"

ICL_C_BEGIN

/* The outcome of a polish. Losses are means of the full squared error. */
typedef struct icl_polish_result {
    uint64_t sequences;  /* the number of fixed sequences, and of held-out ones; 0: there was no polish */
    uint64_t iterations; /* of L-BFGS, in all rounds */
    bool is_taken;       /* whether its iterate was taken; otherwise the parameters did not change */
    double loss;         /* mean loss of the held-out sequences, at the result */
    /* 1 - ratio of the best iterate's held-out loss to that at the start of the last round. 0: no iterate was
     * better. */
    double gain;
    double gain_se; /* its standard error */
    /* How far the loss of the fixed sequences fell below their loss at the result, relative to that. The expected loss
     * is at most about that far above its minimum nearby, because a fitted sample flatters. */
    double below;
    double gradient;    /* |g| |theta| / loss at the result, g the gradient on the held-out sequences */
    double gradient_se; /* what sampling alone adds to it: sqrt(E |g - E g|^2) |theta| / loss */
} icl_polish_result;

/* Prints three lines for people; freed with icl_text_free. */
ICL_API icl_status icl_polish_text(const icl_polish_result *result, char **text, icl_error *error);

/* Adds polish_sequences, polish_iterations, polish_is_taken, polish_loss, polish_gain, polish_gain_se, polish_below,
 * polish_gradient and polish_gradient_se, as in run.json and result.json; adds nothing if there was no polish. */
ICL_API void icl_polish_add_json(const icl_polish_result *result, icl_json *json);

ICL_C_END

#endif
