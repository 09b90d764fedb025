#include "run/passage.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/loss.h"
#include "iclab/task.h"
#include "run/evaluation.h"
#include "run/writer.h"
#include "train/trainer.h"

/* A window on the host. */
typedef struct window {
    icl_batch batch;                           /* of one sequence */
    float *inputs, *targets, *weights, *model; /* [T], [T], [T], [T, 256] */
    double *outputs;                           /* [256] */
} window;

static void window_release(window *w) {
    icl_batch_release(&w->batch);
    icl_free(&w->inputs);
    icl_free(&w->targets);
    icl_free(&w->weights);
    icl_free(&w->model);
    icl_free(&w->outputs);
}

static icl_status window_create(icl_trainer *trainer, window *w, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const icl_task_shape *shape = icl_task_get_shape(task);

    ICL_CHECK(icl_batch_create(task, trainer->backend, ICL_FOR_EVALUATION, 1, &w->batch, error));
    ICL_CHECK(icl_allocate(shape->positions, sizeof *w->inputs, "a window", &w->inputs, error));
    ICL_CHECK(icl_allocate(shape->positions, sizeof *w->targets, "a window", &w->targets, error));
    ICL_CHECK(icl_allocate(shape->positions, sizeof *w->weights, "a window", &w->weights, error));
    ICL_CHECK(icl_allocate(shape->outputs, sizeof *w->outputs, "outputs", &w->outputs, error));
    return icl_allocate(shape->positions, shape->outputs * sizeof *w->model, "predictions", &w->model, error);
}

/* Draws and predicts window `number`; *state goes on from window to window where the task carries it. */
static icl_status predict(icl_trainer *trainer, size_t number, icl_decoder **state, window *w, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);

    ICL_CHECK(icl_task_sample(task, trainer->backend, ICL_FOR_EVALUATION, 0, number, &w->batch, error));
    ICL_CHECK(icl_tensor_read(w->batch.inputs, w->inputs, error));
    ICL_CHECK(icl_tensor_read(w->batch.targets, w->targets, error));
    ICL_CHECK(icl_tensor_read(w->batch.weights, w->weights, error));
    return icl_task_get_text(task)->carries ? icl_trainer_decode_on(trainer, &w->batch, state, w->model, error)
                                            : icl_trainer_predict(trainer, &w->batch, w->model, error);
}

static void keep(const icl_task_shape *shape, const window *w, char *bytes, double *bits) {
    bytes[0] = (char)(unsigned char)w->inputs[0]; /* A float above 127 has no value of type char. */
    bits[0] = (double)NAN;
    for (size_t t = 0; t < shape->positions; t++) {
        const double target = (double)w->targets[t];
        for (size_t k = 0; k < shape->outputs; k++)
            w->outputs[k] = (double)w->model[t * shape->outputs + k];
        bytes[t + 1] = (char)(unsigned char)target;
        bits[t + 1] =
            w->weights[t] > 0 ? icl_loss_of(shape->loss, shape->outputs, w->outputs, &target) / log(2) : (double)NAN;
    }
}

static icl_status read_windows(icl_trainer *trainer, size_t bytes, icl_passages *passages, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const icl_task_shape *shape = icl_task_get_shape(task);
    const size_t asked = bytes / shape->positions;
    icl_decoder *state = NULL;
    window w = {0};
    icl_status status = ICL_OK;

    passages->count = icl_sequences_available(task, asked > 0 ? asked : 1);
    passages->length = shape->positions + 1;
    ICL_TRY(icl_allocate(passages->count, passages->length, "passages", &passages->bytes, error));
    ICL_TRY(
        icl_allocate(passages->count, passages->length * sizeof *passages->bits, "their bits", &passages->bits, error));
    ICL_TRY(window_create(trainer, &w, error));
    for (size_t i = 0; i < passages->count; i++) {
        ICL_TRY(predict(trainer, i, &state, &w, error));
        keep(shape, &w, passages->bytes + i * passages->length, passages->bits + i * passages->length);
    }
done:
    icl_decoder_destroy(&state);
    window_release(&w);
    return status;
}

static icl_status write_text(icl_trainer *trainer, size_t count, char *bytes, icl_error *error) {
    icl_writer writer = {
        .sampler = {.temperature = 1, .top_p = 1, .keeps_utf8 = icl_task_get_text(icl_trainer_task(trainer))->is_utf8}};
    icl_status status = ICL_OK;

    ICL_TRY(
        icl_writer_open(icl_trainer_model(trainer), trainer->backend, icl_trainer_evaluated(trainer), &writer, error));
    for (const char *prompt = ICL_FIRST_PROMPT; *prompt; prompt++) {
        ICL_TRY(icl_writer_show(&writer, (unsigned char)*prompt, error));
        icl_sampler_take(&writer.sampler, (unsigned char)*prompt);
    }
    for (size_t i = 0; i < count; i++) {
        unsigned char byte;
        ICL_TRY(icl_writer_draw(&writer, ICL_WRITER_SEED, i, count, &byte, error));
        ICL_TRY(icl_writer_show(&writer, byte, error));
        bytes[i] = (char)byte;
    }
done:
    icl_writer_close(&writer);
    return status;
}

icl_status icl_passages_read(icl_trainer *trainer, size_t bytes, size_t count, icl_passages *passages,
                             icl_error *error) {
    ICL_CHECK(read_windows(trainer, bytes, passages, error));
    if (!icl_model_can(icl_trainer_model(trainer), ICL_MODEL_DECODES))
        return ICL_OK;
    ICL_CHECK(icl_allocate(count, 1, "new text", &passages->written, error));
    return write_text(trainer, count, passages->written, error);
}
