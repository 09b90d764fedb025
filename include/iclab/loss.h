/*
 * Losses: what a model's outputs cost, on the tape for training and on the host for evaluation.
 *
 * A position has q outputs z and c target numbers y, c = icl_loss_target_size:
 *     squared error   sum_k (z_k - y_k)^2                      c = q
 *     cross-entropy   log sum_k exp(z_k) - z_y                 c = 1: the class y, a whole number from 0 to q - 1
 *     logistic        sum_k log(1 + exp(z_k)) - y_k z_k        c = q: each y_k is 0 or 1
 * The loss of a sequence is the mean of weight times the above over its S scored positions, and a batch's loss is the
 * mean over its sequences. A class outside 0 to q - 1 makes a loss NaN.
 */
#ifndef ICLAB_LOSS_H
#define ICLAB_LOSS_H

#include <stdbool.h>

#include "iclab/tape.h"

ICL_C_BEGIN

/* How a model's outputs are compared with the targets. */
typedef enum icl_loss_kind {
    ICL_LOSS_SQUARED_ERROR = 0,
    ICL_LOSS_CROSS_ENTROPY,
    ICL_LOSS_LOGISTIC,
    ICL_LOSS_COUNT
} icl_loss_kind;

/* "squared error", "cross-entropy", "logistic"; for messages. */
ICL_API const char *icl_loss_name(icl_loss_kind kind);

/* Returns c, the target numbers of a position with q outputs. */
ICL_API size_t icl_loss_target_size(icl_loss_kind kind, size_t outputs);

/* Returns whether the loss comes with another metric, the accuracy. For the squared error the loss is the metric. */
ICL_API bool icl_loss_has_accuracy(icl_loss_kind kind);

/* Computes on the host, for one position with outputs [q] and target [c], the loss and the share of right answers. The
 * share is 1 if the largest output is the class's, 1 / m if it is one of m that are largest; for the logistic loss it
 * is the share of outputs that are above 0 if their target is 1, and not above 0 otherwise. */
ICL_API double icl_loss_of(icl_loss_kind kind, size_t count, const double *outputs, const double *target);
ICL_API double icl_loss_accuracy(icl_loss_kind kind, size_t count, const double *outputs, const double *target);

/* Records the losses [B, 1, 1] of the sequences for outputs [B, S, q] and targets [B, S, c]. weights [B, S, 1], or
 * absent if all are 1. icl_tape_backward from here differentiates their mean. */
ICL_API icl_variable icl_tape_loss(icl_tape *tape, icl_loss_kind kind, icl_variable outputs, icl_tensor targets,
                                   icl_tensor weights);

ICL_C_END

#endif
