/*
 * Gradients and predictions of batches: by the ops for a whole model that it may have of its own, on the tape, or on
 * the tape in micro-batches.
 *
 * Micro-batches are for models whose family asks for them (icl_model.sequences_at_once), on the host. A batch of B
 * sequences has P parts, P = min(64, B / sequences_at_once), whatever the number of threads. A part takes its sequences
 * `sequences_at_once` at a time and adds up their gradients in this order; the sum over the parts is that of
 * icl_reduce. So the bits do not depend on who did which part.
 */
#ifndef ICLAB_TRAIN_GRADIENT_H
#define ICLAB_TRAIN_GRADIENT_H

#include "iclab/model_family.h"
#include "iclab/task.h"

/* ---- How: decided once ---- */

typedef enum icl_gradient_way {
    ICL_GRADIENT_FUSED = 0,
    ICL_GRADIENT_ON_TAPE,
    ICL_GRADIENT_IN_MICROBATCHES
} icl_gradient_way;

/* How the gradient of a step is taken. icl_gradient_plan_choose decides it, and everything else asks it. */
typedef struct icl_gradient_plan {
    icl_gradient_way way; /* of each slice */
    size_t sequences;     /* of a slice */
    size_t slices;        /* of a step: each is drawn and differentiated by itself */
    size_t at_once;       /* sequences of a micro-batch; 0: batches are never divided */
    bool predicts_fused;  /* where losses with weights are differentiated on the tape, too */
    bool cuts_sequences;  /* those whose own gradients are large: train.sequence_clip */
    bool keeps_losses;    /* of the sequences of a step, in memory of the caller's */
} icl_gradient_plan;

/* What the decision follows from. */
typedef struct icl_gradient_wish {
    const icl_model *model;
    const icl_backend *backend;
    const icl_batch *batch; /* of a slice */
    size_t slices;
    bool cuts_sequences;
    bool is_whole; /* never in micro-batches */
} icl_gradient_wish;

icl_gradient_plan icl_gradient_plan_choose(const icl_gradient_wish *wish);

/* ---- The work ---- */

/* A model and a backend, both borrowed, with what is kept from batch to batch: tapes, gradients of parts. */
typedef struct icl_differentiator icl_differentiator;

icl_status icl_differentiator_create(icl_backend *backend, const icl_model *model, const icl_gradient_plan *plan,
                                     icl_differentiator **differentiator, icl_error *error);
void icl_differentiator_destroy(icl_differentiator **differentiator);

/* Gives back what the last gradient or prediction left on the tape. */
void icl_differentiator_reset(icl_differentiator *differentiator);

/* One batch, and the model at a depth. */
typedef struct icl_gradient_call {
    const icl_batch *batch;
    size_t depth;
    icl_loop_window window; /* of the loss; zero: behind the last loop, gradients through all */

    /* parameters and gradient [N]; losses [B], memory for model's own ops; norms [B] and threshold [1], where these
     * have them. What belongs to the batch is filled in here. */
    icl_model_tensors with;
} icl_gradient_call;

/* Writes the gradient of the mean of the batch's losses, in the way of the plan. *losses [B] becomes theirs, good until
 * the next call. */
icl_status icl_differentiate(icl_differentiator *differentiator, const icl_gradient_call *call, icl_tensor *losses,
                             icl_error *error);

/* Reads the outputs of a batch of any size back to the host: [B][S][q]. */
icl_status icl_predict_batch(icl_differentiator *differentiator, const icl_gradient_call *call, float *outputs,
                             icl_error *error);

/* Bytes of the gradients that all parts of a batch of a step and all workers have, of a plan with micro-batches. */
double icl_differentiator_gradient_bytes(const icl_differentiator *differentiator);

#endif
