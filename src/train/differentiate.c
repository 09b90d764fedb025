/* Batches, predictions and the gradient of the batch at hand. */
#include "train/gradient.h"
#include "train/trainer.h"

static icl_differentiation differentiation(const icl_trainer *trainer, const icl_batch *batch) {
    return (icl_differentiation){
        .model = trainer->model,
        .tape = trainer->tape,
        .depth = icl_growth_stage_at(&trainer->growth, trainer->step).depth,
        .window = icl_loop_window_at(&trainer->loops, trainer->step),
        .batch = batch,
        .with = {.parameters = trainer->parameters, .gradient = trainer->gradient},
    };
}

icl_status icl_trainer_differentiate_batch(icl_trainer *trainer, bool is_cut, icl_tensor *losses, icl_error *error) {
    icl_differentiation what = differentiation(trainer, &trainer->batch);
    const size_t size = trainer->batch.size;

    if (trainer->sequence_losses.buffer)
        what.with.losses = icl_tensor_slice(trainer->sequence_losses, 0, 0, size);
    if (trainer->threshold.buffer)
        what.with.norms = icl_tensor_slice(trainer->sequence_norms, 0, 0, size);
    if (is_cut)
        what.with.threshold = trainer->threshold;
    return icl_parts_divide(trainer->batch_parts, size)
               ? icl_parts_differentiate(trainer->batch_parts, &what, losses, error)
               : icl_differentiate(&what, losses, error);
}

/* Before the first step the threshold has no value: then the norms come first. */
icl_status icl_trainer_differentiate(icl_trainer *trainer, icl_tensor dropped, icl_tensor *losses, icl_error *error) {
    icl_status (*const differentiate)(icl_trainer *, bool, icl_tensor *, icl_error *) =
        trainer->slices > 1 ? icl_trainer_differentiate_slices : icl_trainer_differentiate_batch;

    if (trainer->slices == 1)
        ICL_CHECK(icl_trainer_draw(trainer, trainer->step / trainer->refresh, error));
    if (trainer->threshold.buffer && trainer->step == 0) {
        ICL_CHECK(differentiate(trainer, false, losses, error));
        const icl_status status = icl_track_threshold(trainer->backend, trainer->update.fraction, trainer->threshold,
                                                      dropped, trainer->sequence_norms, error);
        ICL_CHECK(icl_trainer_keep_failure(trainer, status, error));
    }
    return differentiate(trainer, true, losses, error);
}

icl_status icl_trainer_draw(icl_trainer *trainer, uint64_t number, icl_error *error) {
    if (trainer->batch_number == number)
        return ICL_OK;
    trainer->batch_number = ICL_NO_BATCH;
    ICL_CHECK(icl_task_sample(trainer->task, trainer->backend, ICL_FOR_TRAINING, trainer->seed, number, &trainer->batch,
                              error));
    trainer->batch_number = number;
    return ICL_OK;
}

/* ---- Predictions ---- */

icl_status icl_trainer_check_batch(const icl_trainer *trainer, const icl_batch *batch, const char *call,
                                   icl_error *error) {
    const bool is_readable = batch->inputs.buffer ? batch->inputs.rank > 0 && batch->inputs.shape[0] == batch->size
                                                  : icl_model_can(trainer->model, ICL_MODEL_READS_GRAM);
    const icl_task_shape *expected = icl_task_get_shape(trainer->task);
    char text[ICL_TASK_SHAPE_TEXT], expected_text[ICL_TASK_SHAPE_TEXT];

    if (is_readable && icl_task_shape_equal(&batch->shape, expected))
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "%s: a batch of %zu %s inputs, of %s, expected the trainer's own: %s", call,
                    batch->size, batch->inputs.buffer ? "with" : "without", icl_task_shape_text(&batch->shape, text),
                    icl_task_shape_text(expected, expected_text));
}

/* Sequences `first` and on, `count` of them, on the tape; *bytes is what it then holds. */
static icl_status predict_rows(icl_trainer *trainer, const icl_batch *batch, size_t first, size_t count, float *outputs,
                               size_t *bytes, icl_error *error) {
    const icl_batch rows = {
        .shape = batch->shape, .size = count, .inputs = icl_tensor_slice(batch->inputs, 0, first, count)};
    const icl_differentiation what = differentiation(trainer, &rows);
    const size_t before = icl_backend_get_statistics(trainer->backend).bytes_live;
    icl_tensor made;
    icl_status status = ICL_OK;

    ICL_TRY(icl_predict_batch(&what, &made, error));
    *bytes = icl_backend_get_statistics(trainer->backend).bytes_live - before;
    ICL_TRY(icl_tensor_read(made, outputs + first * batch->shape.scored * batch->shape.outputs, error));
done:
    icl_tape_reset(trainer->tape);
    return status;
}

/* Evaluations have more sequences than a step, and a tape keeps every value. So a few sequences show how much one
 * takes, and then come as many at a time as a part of the memory holds, or half as many where it does not, and so
 * on. */
static icl_status predict_on_tape(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error) {
    enum { FEW = 64 };
    const size_t allowed = (size_t)1 << 28; /* bytes */
    size_t at_once = batch->size < FEW ? batch->size : FEW, first = 0, bytes = 0;

    while (first < batch->size) {
        const size_t left = batch->size - first, count = left < at_once ? left : at_once;
        const icl_status status = predict_rows(trainer, batch, first, count, outputs, &bytes, error);
        if (status == ICL_ERROR_MEMORY && count > 1) {
            at_once = (count + 1) / 2;
            continue;
        }
        ICL_CHECK(status);
        if (first == 0 && count == FEW && bytes < allowed)
            at_once = (size_t)((double)allowed / (double)(bytes + 1) * FEW);
        first += count;
    }
    return ICL_OK;
}

icl_status icl_trainer_predict(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error) {
    const bool is_fused = icl_model_can(trainer->model, ICL_MODEL_FUSED);
    icl_differentiation what = differentiation(trainer, batch);
    icl_tensor made = {0};
    icl_status status = ICL_OK;

    ICL_CHECK(icl_trainer_check_batch(trainer, batch, "icl_trainer_predict", error));
    if (!is_fused && !icl_parts_divide(trainer->batch_parts, batch->size))
        return predict_on_tape(trainer, batch, outputs, error);
    if (is_fused)
        ICL_TRY(icl_tensor_create(trainer->backend, 1, &batch->size, &what.with.predictions, error));
    ICL_TRY(is_fused ? icl_predict_batch(&what, &made, error)
                     : icl_parts_predict(trainer->batch_parts, &what, &made, error));
    ICL_TRY(icl_tensor_read(made, outputs, error));
done:
    icl_tensor_release(&what.with.predictions);
    icl_tape_reset(trainer->tape);
    return status;
}
