/*
 * train.turn_penalty: the loss of the first step against cosines of the residual stream by plain loops, whatever way a
 * batch is divided; the step against differences of that loss; what evaluations leave out; refusals. Numbers are those
 * of ref, in double precision.
 */
#include <math.h>
#include <string.h>

#include "fixture.h"
#include "probe/activations.h"
#include "train/trainer.h"

enum { MOST_OWN = 4, MOST_NUMBERS = 4096, PENALTY = 3 /* the penalty of `with` */ };

#define SHARED                                                                                                         \
    "task.family=recall", "task.vocabulary=12", "task.length=12", "task.pairs=3", "model.family=sequence",             \
        "model.layers=3", "model.width=8", "model.heads=2", "model.positions=learned", "model.init=0.3",               \
        "train.steps=40", "train.warmup=0", "train.clip=0", "train.optimizer=sgd", "train.momentum=0",                 \
        "train.schedule=constant", "train.learning_rate=0.001"

static icl_status make(icl_backend *backend, const char *const *own, icl_trainer **trainer, icl_error *error) {
    static const char *const shared[] = {SHARED};
    enum { COUNT = sizeof shared / sizeof *shared };
    const char *all[COUNT + MOST_OWN + 1] = {NULL};

    memcpy(all, shared, sizeof shared);
    for (size_t i = 0; i < MOST_OWN && own[i]; i++)
        all[COUNT + i] = own[i];
    return make_trainer(backend, all, trainer, error);
}

/* Reads the loss of the first step from these parameters; NULL: those that the trainer begins with. *gradient [N], if
 * not NULL, is what the step took away, over the learning rate. */
static icl_status first_loss(icl_backend *backend, const char *const *own, const float *at, double *loss,
                             double *gradient, icl_error *error) {
    static float before[MOST_NUMBERS], after[MOST_NUMBERS];
    icl_trainer *trainer = NULL;
    double norm;
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, own, &trainer, error));
    if (at)
        ICL_TRY(icl_trainer_set_parameters(trainer, at, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, before, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_trainer_read_measures(trainer, loss, &norm, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, after, error));
    for (size_t i = 0; gradient && i < icl_model_size(icl_trainer_model(trainer)); i++)
        gradient[i] = ((double)before[i] - (double)after[i]) / 0.001;
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* ---- The loss ---- */

/* Returns the sum over layers of the mean over tokens of 1 - cos. */
static double turns_of(const icl_residual_stream *stream) {
    double sum = 0;

    for (size_t stage = 1; stage < stream->stages; stage++)
        for (size_t token = 0; token < stream->tokens; token++) {
            const float *a = icl_residual_stream_stage(stream, stage - 1) + token * stream->width;
            const float *b = icl_residual_stream_stage(stream, stage) + token * stream->width;
            double ab = 0, aa = 0, bb = 0;
            for (size_t i = 0; i < stream->width; i++) {
                ab += (double)a[i] * (double)b[i];
                aa += (double)a[i] * (double)a[i];
                bb += (double)b[i] * (double)b[i];
            }
            sum += (1 - ab / sqrt(aa * bb)) / (double)stream->tokens;
        }
    return sum;
}

/* Measures the turns of the first batch at the initial parameters [N], which it reads. */
static icl_status measure_turns(icl_backend *backend, const char *const *own, size_t batch, float *values,
                                double *turns, icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_residual_stream stream = {0};
    icl_tensor parameters = {0};
    icl_batch first = {.size = 0};
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, own, &trainer, error));
    const icl_task *task = icl_trainer_task(trainer);
    const size_t size = icl_model_size(icl_trainer_model(trainer));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_TRAINING, batch, &first, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_TRAINING, 1, 0, &first, error));
    ICL_TRY(icl_tensor_create(backend, 1, &size, &parameters, error));
    ICL_TRY(icl_tensor_write(parameters, values, error));
    ICL_TRY(icl_residual_stream_read(icl_trainer_model(trainer), backend, parameters, first.inputs, &stream, error));
    *turns = turns_of(&stream);
done:
    icl_residual_stream_release(&stream);
    icl_tensor_release(&parameters);
    icl_batch_release(&first);
    icl_trainer_destroy(&trainer);
    return status;
}

/* A batch of 80 is differentiated in parts, one of 8 as a whole; slices are drawn one by one. The stream is read in
 * floats, so that cosines of eight numbers, each off by 2^-24, are off by less than 1e-6. */
static void check_loss(tap_run *tap, icl_backend *backend, size_t batch, const char *more) {
    static float values[MOST_NUMBERS];
    const char *size = batch == 8 ? "train.batch=8" : "train.batch=80";
    const char *const without[] = {size, more, NULL}, *const with[] = {size, more, "train.turn_penalty=3", NULL};
    double plain = 0, loss = 0, turns = 0;
    icl_error error = {0};
    icl_status status = first_loss(backend, without, NULL, &plain, NULL, &error);

    if (status == ICL_OK)
        status = first_loss(backend, with, NULL, &loss, NULL, &error);
    if (status == ICL_OK)
        status = measure_turns(backend, without, batch, values, &turns, &error);
    tap_ok(tap, status == ICL_OK && fabs(loss - plain - PENALTY * turns) < 3 * PENALTY * 1e-6 && turns > 0.1,
           "%s, %s: loss %.6g, %.6g without, three layers turn by %.6g %s", size, more, loss, plain, turns,
           error.message);
}

/* ---- The gradient ---- */

/* The loss changes along the step by the square of its gradient, to second order; parameters are floats. */
static void check_gradient(tap_run *tap, icl_backend *backend) {
    static const char *const with[] = {"train.batch=80", "train.turn_penalty=3", NULL};
    static float values[MOST_NUMBERS], moved[MOST_NUMBERS];
    static double gradient[MOST_NUMBERS];
    double loss[2] = {0}, at = 0, turns = 0, square = 0, difference = 0;
    icl_error error = {0};
    icl_status status = measure_turns(backend, with, 80, values, &turns, &error);

    if (status == ICL_OK)
        status = first_loss(backend, with, NULL, &at, gradient, &error);
    for (size_t i = 0; i < MOST_NUMBERS; i++)
        square += gradient[i] * gradient[i];
    for (int side = 0; side < 2 && status == ICL_OK; side++) {
        for (size_t i = 0; i < MOST_NUMBERS; i++)
            moved[i] = (float)((double)values[i] + (side == 0 ? 1 : -1) * 2e-3 * gradient[i]);
        status = first_loss(backend, with, moved, &loss[side], NULL, &error);
    }
    difference = (loss[0] - loss[1]) / 4e-3;
    tap_ok(tap, status == ICL_OK && square > 0.1 && fabs(difference / square - 1) < 5e-3,
           "the square of the gradient is %.6g, by differences %.6g %s", square, difference, error.message);
}

/* ---- What is refused ---- */

static void check_refusal(tap_run *tap, icl_backend *backend, const char *const *own, const char *expected) {
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    const icl_status status = make_trainer(backend, own, &trainer, &error);

    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, expected), "%s", error.message);
    icl_trainer_destroy(&trainer);
}

int main(void) {
    tap_run tap = {0};
    icl_backend *ref = tap_open_device(&tap, "ref:threads=1");

    if (ref) {
        check_loss(&tap, ref, 8, "train.slices=1");
        check_loss(&tap, ref, 80, "train.slices=1");
        check_loss(&tap, ref, 8, "model.loops=2");
        check_gradient(&tap, ref);
        check_refusal(&tap, ref, (const char *[]){"model.family=linear", "train.turn_penalty=1", NULL},
                      "expected 0: this model has no residual stream");
        check_refusal(&tap, ref, (const char *[]){SHARED, "train.turn_penalty=1", "train.loop_window=1", NULL},
                      "expected 0 beside train.loop_window");
        check_refusal(&tap, ref, (const char *[]){SHARED, "train.turn_penalty=1", "train.polish=on", NULL},
                      "expected 0 beside train.loop_window");
    }
    icl_backend_close(&ref);
    return tap_done(&tap);
}
