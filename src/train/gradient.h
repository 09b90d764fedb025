/* Predictions and gradients of a batch, by the model's own ops or on the tape. */
#ifndef ICLAB_TRAIN_GRADIENT_H
#define ICLAB_TRAIN_GRADIENT_H

#include "iclab/model.h"
#include "iclab/task.h"

/* A model at a depth, a batch, and the tape of their backend, which is reset. */
typedef struct icl_differentiation {
    const icl_model *model;
    icl_tape *tape;
    size_t depth;
    icl_loop_window window; /* of the loss; zero: behind the last loop, gradients through all (loops.h) */
    const icl_batch *batch;

    /* parameters and gradient [N]; losses [B], memory for model's own ops; norms [B] and threshold [1], where these
     * have them. What belongs to the batch is filled in here. */
    icl_model_tensors with;
} icl_differentiation;

/* Writes the gradient of the mean of the batch's losses. *losses [B] becomes theirs, until the tape is reset. */
icl_status icl_differentiate(const icl_differentiation *what, icl_tensor *losses, icl_error *error);

/* *outputs becomes a view of the outputs until the tape is reset: [B, S, q], or [B] from the model's own ops, which
 * write to with.predictions. */
icl_status icl_predict_batch(const icl_differentiation *what, icl_tensor *outputs, icl_error *error);

#endif
