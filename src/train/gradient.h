/*
 * Gradients and predictions of batches: by the model's own fused ops if it has any, on the tape, or on the tape in
 * micro-batches.
 *
 * Micro-batches are used on the host, for models whose family asks for them (icl_model.sequences_at_once). A batch of B
 * sequences has P = min(64, B / sequences_at_once) parts, whatever the number of threads. A part takes its sequences
 * `sequences_at_once` at a time and adds up their gradients in this order; icl_reduce then sums over the parts. So the
 * bits do not depend on which thread did which part. With products of bfloat16, which want more rows, four times as
 * many sequences are taken at a time, P is the next smaller power of two, so that threads have equal shares, and a part
 * of fewer than twice as many is not cut.
 */
#ifndef ICLAB_TRAIN_GRADIENT_H
#define ICLAB_TRAIN_GRADIENT_H

#include "iclab/model_family.h"
#include "iclab/task.h"

/* ---- The plan, which is decided once ---- */

typedef enum icl_gradient_way {
    ICL_GRADIENT_FUSED = 0,
    ICL_GRADIENT_ON_TAPE,
    ICL_GRADIENT_IN_MICROBATCHES
} icl_gradient_way;

/* How the gradient of a step is computed. icl_gradient_plan_choose decides it, and all other code asks the plan. */
typedef struct icl_gradient_plan {
    icl_gradient_way way; /* of each slice */
    size_t sequences;     /* of a slice */
    size_t slices;        /* of a step: each is drawn and differentiated by itself */
    size_t at_once;       /* sequences of a micro-batch; 0: batches are never divided */
    size_t most;          /* sequences of the slice's largest micro-batch */
    bool parts_are_even;  /* see above: as with products of bfloat16 */
    bool predicts_fused;  /* by own ops, even if weights force the loss onto the tape */
    bool cuts_sequences;  /* train.sequence_clip: large gradients of sequences are cut */
    bool keeps_losses;    /* the caller provides memory for a step's losses */
} icl_gradient_plan;

/* The inputs of the decision. */
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

/* A borrowed model and backend, with what is kept between batches: tapes, gradients of parts. */
typedef struct icl_differentiator icl_differentiator;

icl_status icl_differentiator_create(icl_backend *backend, const icl_model *model, const icl_gradient_plan *plan,
                                     icl_differentiator **differentiator, icl_error *error);
void icl_differentiator_destroy(icl_differentiator **differentiator);

/* Releases what the last gradient or prediction left on the tape. */
void icl_differentiator_reset(icl_differentiator *differentiator);

/* One batch, and the depth of the model. */
typedef struct icl_gradient_call {
    const icl_batch *batch;
    size_t depth;
    icl_loop_window window; /* of the loss; zero: the last loop, gradients through all */
    icl_dropout_numbers dropout;
    double turn_penalty; /* train.turn_penalty, only of gradients, and without a window */

    /* The caller sets parameters and gradient [N]; losses [B], if the model has own ops; norms [B] and threshold [1],
     * if it cuts sequences. The call fills in what belongs to the batch. */
    icl_model_tensors with;
} icl_gradient_call;

/* Writes the gradient of the mean of the batch's losses, as the plan says. *losses [B] becomes the losses, which are
 * valid until the next call. */
icl_status icl_differentiate(icl_differentiator *differentiator, const icl_gradient_call *call, icl_tensor *losses,
                             icl_error *error);

/* Reads the outputs of a batch of any size back to the host: [B][S][q]. */
icl_status icl_predict_batch(icl_differentiator *differentiator, const icl_gradient_call *call, float *outputs,
                             icl_error *error);

/* Returns the bytes of the gradients of all parts of a step's batch and of all workers, for a plan with
 * micro-batches. */
double icl_differentiator_gradient_bytes(const icl_differentiator *differentiator);

#endif
