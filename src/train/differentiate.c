/* Batches, predictions and the gradient of the batch at hand, by the model's own ops or on the tape. */
#include "train/trainer.h"

/* [B, 1, 1] -> [B]. */
static icl_tensor first_axis(icl_tensor column) {
    column.rank = 1;
    return column;
}

static icl_tensor parameter_view(icl_tensor flat, const icl_parameter_info *info) {
    return icl_tensor_reshape(icl_tensor_slice(flat, 0, info->offset, info->count), info->rank, info->shape);
}

/* Records the model's prediction for the tokens, at the depth of the current step. */
static icl_variable record_prediction(icl_trainer *trainer, icl_tensor tokens, bool differentiable) {
    const icl_growth_stage stage = icl_growth_stage_at(&trainer->growth, trainer->step);
    icl_tape *tape = trainer->tape;

    icl_tape_reset(tape);
    for (size_t i = 0; i < icl_model_parameter_count(trainer->model); i++) {
        const icl_parameter_info *info = icl_model_parameter(trainer->model, i);
        const icl_tensor value = parameter_view(trainer->parameters, info);
        trainer->variables[i] = differentiable
                                    ? icl_tape_parameter(tape, value, parameter_view(trainer->gradient, info))
                                    : icl_tape_constant(tape, value);
    }
    return icl_model_predict_at_depth(trainer->model, tape, trainer->variables,
                                      icl_tape_constant(tape, tokens), stage.depth);
}

/* The gradient of the batch's mean of (prediction - target)^2 on the tape, and the predictions. */
static icl_status differentiate_on_tape(icl_trainer *trainer, icl_tensor *predictions, icl_error *error) {
    icl_tape *tape = trainer->tape;
    const icl_variable prediction = record_prediction(trainer, trainer->batch.tokens, true);
    const icl_variable target = icl_tape_constant(tape, trainer->batch.targets);
    const icl_variable difference = icl_tape_binary(tape, ICL_SUBTRACT, prediction, target);
    const icl_variable sum = icl_tape_reduce(tape, ICL_SUM_OF_SQUARES, 7, difference);
    const icl_variable loss = icl_tape_scale(tape, 1.0 / (double)trainer->batch.tokens.shape[0], sum);
    const icl_status status = icl_tape_backward(tape, loss, error);

    if (status == ICL_OK)
        *predictions = first_axis(icl_tape_value(tape, prediction));
    return status;
}

/* What a fused model reads and writes for a batch of b sequences. */
static icl_model_tensors fused_tensors(const icl_trainer *trainer, const icl_batch *batch,
                                       icl_tensor predictions) {
    return (icl_model_tensors){
        .tokens = batch->tokens,
        .gram = batch->gram,
        .query = batch->query,
        .parameters = trainer->parameters,
        .predictions = predictions,
        .targets = first_axis(batch->targets),
        .gradient = trainer->gradient,
    };
}

/* The same gradient and predictions by the model's own ops, cut sequence by sequence at the threshold, where there is one. */
static icl_status differentiate_fused(icl_trainer *trainer, bool is_cut, icl_tensor *predictions,
                                      icl_error *error) {
    const icl_growth_stage stage = icl_growth_stage_at(&trainer->growth, trainer->step);
    const size_t size = trainer->batch.targets.shape[0];
    const icl_tensor to = icl_tensor_slice(trainer->predictions, 0, 0, size);
    icl_model_tensors with = fused_tensors(trainer, &trainer->batch, to);

    if (trainer->threshold.buffer)
        with.norms = icl_tensor_slice(trainer->sequence_norms, 0, 0, size);
    if (is_cut)
        with.threshold = trainer->threshold;
    *predictions = to;
    return icl_model_gradient_fused(trainer->model, trainer->backend, stage.depth, &with, error);
}

icl_status icl_trainer_differentiate_batch(icl_trainer *trainer, bool is_cut, icl_answers *answers,
                                           icl_error *error) {
    answers->targets = first_axis(trainer->batch.targets);
    return icl_model_is_fused(trainer->model)
               ? differentiate_fused(trainer, is_cut, &answers->predictions, error)
               : differentiate_on_tape(trainer, &answers->predictions, error);
}

/* Before the first step the threshold has no value: then the norms come first. */
icl_status icl_trainer_differentiate(icl_trainer *trainer, icl_tensor dropped, icl_answers *answers,
                                     icl_error *error) {
    icl_status (*const differentiate)(icl_trainer *, bool, icl_answers *, icl_error *) =
        trainer->slices > 1 ? icl_trainer_differentiate_slices : icl_trainer_differentiate_batch;
    icl_status status = ICL_OK;

    if (trainer->slices == 1)
        ICL_TRY(icl_trainer_draw(trainer, trainer->step / trainer->refresh, error));
    if (trainer->threshold.buffer && trainer->step == 0) {
        ICL_TRY(differentiate(trainer, false, answers, error));
        status = icl_track_threshold(trainer->backend, trainer->update.fraction, trainer->threshold, dropped,
                                     trainer->sequence_norms, error);
        ICL_TRY(icl_trainer_keep_failure(trainer, status, error));
    }
    ICL_TRY(differentiate(trainer, true, answers, error));
done:
    return status;
}

icl_status icl_trainer_draw(icl_trainer *trainer, uint64_t number, icl_error *error) {
    icl_status status = ICL_OK;

    if (trainer->batch_number == number)
        return ICL_OK;
    trainer->batch_number = ICL_NO_BATCH;
    ICL_TRY(icl_task_sample(trainer->task, trainer->backend, ICL_FOR_TRAINING, trainer->seed, number,
                            &trainer->batch, error));
    trainer->batch_number = number;
done:
    return status;
}

/* ---- Predictions ---- */

static icl_status predict_fused(icl_trainer *trainer, const icl_batch *batch, float *predictions,
                                icl_error *error) {
    const icl_growth_stage stage = icl_growth_stage_at(&trainer->growth, trainer->step);
    icl_tensor made = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(trainer->backend, 1, batch->targets.shape, &made, error));
    const icl_model_tensors with = fused_tensors(trainer, batch, made);
    ICL_TRY(icl_model_predict_fused(trainer->model, trainer->backend, stage.depth, &with, error));
    ICL_TRY(icl_tensor_read(made, predictions, error));
done:
    icl_tensor_release(&made);
    return status;
}

icl_status icl_trainer_predict(icl_trainer *trainer, const icl_batch *batch, float *predictions,
                               icl_error *error) {
    if (icl_model_is_fused(trainer->model))
        return predict_fused(trainer, batch, predictions, error);
    const icl_variable prediction = record_prediction(trainer, batch->tokens, false);
    icl_status status = icl_tape_status(trainer->tape, error);
    if (status == ICL_OK)
        status = icl_tensor_read(icl_tape_value(trainer->tape, prediction), predictions, error);
    icl_tape_reset(trainer->tape);
    return status;
}
