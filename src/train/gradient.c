#include "train/gradient.h"

#include "iclab/status.h"
#include "train/loops.h"

/* [B, 1, 1] -> [B]. */
static icl_tensor first_axis(icl_tensor column) {
    column.rank = 1;
    return column;
}

/* What a model's own ops read and write. */
static icl_model_tensors tensors_of(const icl_differentiation *what) {
    icl_model_tensors with = what->with;

    with.tokens = what->batch->inputs;
    with.gram = icl_batch_side(what->batch, ICL_SIDE_GRAM);
    with.query = icl_batch_side(what->batch, ICL_SIDE_QUERY);
    with.targets = first_axis(what->batch->targets);
    return with;
}

static icl_status differentiate_fused(const icl_differentiation *what, icl_tensor *losses, icl_error *error) {
    const icl_model_tensors with = tensors_of(what);

    *losses = with.losses;
    return icl_model_gradient_fused(what->model, icl_tape_backend(what->tape), what->depth, &with, error);
}

static icl_status differentiate_on_tape(const icl_differentiation *what, icl_tensor *losses, icl_error *error) {
    const icl_batch *batch = what->batch;
    const icl_variable each =
        icl_record_losses(what, what->tape, what->with.gradient, batch->inputs, batch->targets, batch->weights);
    const icl_status status = icl_tape_backward(what->tape, each, error);

    if (status == ICL_OK)
        *losses = first_axis(icl_tape_value(what->tape, each));
    return status;
}

icl_status icl_differentiate(const icl_differentiation *what, icl_tensor *losses, icl_error *error) {
    const bool is_fused = icl_model_can(what->model, ICL_MODEL_FUSED) && !what->batch->weights.buffer;
    return is_fused ? differentiate_fused(what, losses, error) : differentiate_on_tape(what, losses, error);
}

icl_status icl_predict_batch(const icl_differentiation *what, icl_tensor *outputs, icl_error *error) {
    icl_status status;

    if (icl_model_can(what->model, ICL_MODEL_FUSED)) {
        const icl_model_tensors with = tensors_of(what);
        *outputs = with.predictions;
        return icl_model_predict_fused(what->model, icl_tape_backend(what->tape), what->depth, &with, error);
    }
    icl_tape_reset(what->tape);
    const icl_variable made = icl_model_record(what->model, what->tape, what->with.parameters, (icl_tensor){0},
                                               what->batch->inputs, what->depth);
    status = icl_tape_status(what->tape, error);
    *outputs = icl_tape_value(what->tape, made);
    return status;
}
