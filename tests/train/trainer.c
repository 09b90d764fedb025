/* The training loop: reproducible to the bit, restartable at any step, with divergence reported, and free of
 * allocations. */
#include "core/safetensors.h"
#include "fixture.h"

#define SMALL "task.d=4", "task.n=6", "task.noise=uniform:2", "train.batch=32", "train.warmup=5", "train.steps=60"

static const char *const adam[] = {SMALL, "model.parameterization=full", "model.layers=2", NULL};
static const char *const sgd[] = {SMALL,
                                  "model.parameterization=gd++",
                                  "model.layers=3",
                                  "train.optimizer=sgd",
                                  "train.schedule=step",
                                  "train.step_every=7",
                                  "train.learning_rate=0.001",
                                  NULL};
static const char *const growing[] = {SMALL, "model.parameterization=diag", "model.layers=4", "train.growth=10", NULL};
static const char *const clipped[] = {SMALL,
                                      "model.parameterization=diag",
                                      "model.layers=3",
                                      "model.space=auto",
                                      "task.sampler=gram",
                                      "train.sequence_clip=0.1",
                                      NULL};

static const char *const refreshed[] = {SMALL, "model.parameterization=sparse-b", "model.layers=2", "train.refresh=9",
                                        NULL};

static const char *const tied[] = {SMALL, "model.parameterization=gd++", "model.layers=3", "model.tied=true", NULL};

static const char *file_path(void) {
    static char path[64];
    snprintf(path, sizeof path, "test-trainer-%ld.safetensors", (long)getpid());
    return path;
}

/* Trains `steps`, in runs of `stride`, and reads the parameters. */
static icl_status train(icl_backend *backend, const char *const *overrides, size_t steps, size_t stride, float *values,
                        icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_trainer(backend, overrides, &trainer, error));
    for (size_t done = 0; done < steps; done += stride)
        ICL_TRY(icl_trainer_run(trainer, stride, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* Saves after `first` steps, and continues in a new trainer. */
static icl_status train_in_two(icl_backend *backend, const char *const *overrides, size_t first, size_t steps,
                               float *values, icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_trainer(backend, overrides, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, first, error));
    ICL_TRY(icl_trainer_save(trainer, file_path(), error));
    icl_trainer_destroy(&trainer);
    ICL_TRY(make_trainer(backend, overrides, &trainer, error));
    ICL_TRY(icl_trainer_restore(trainer, file_path(), error));
    ICL_TRY(icl_trainer_run(trainer, steps - first, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
done:
    icl_trainer_destroy(&trainer);
    remove(file_path());
    return status;
}

static size_t size_of_model(icl_backend *backend, const char *const *overrides) {
    icl_trainer *trainer = NULL;
    const icl_status status = make_trainer(backend, overrides, &trainer, NULL);
    const size_t size = status == ICL_OK ? icl_model_size(icl_trainer_model(trainer)) : 0;
    icl_trainer_destroy(&trainer);
    return size;
}

static void test_bits(tap_run *tap, icl_backend *backend, const char *const *overrides, const char *name) {
    const size_t bytes = size_of_model(backend, overrides) * sizeof(float);
    float once[MAX_PARAMETERS], again[MAX_PARAMETERS], start[MAX_PARAMETERS];
    icl_error error = {0};

    tap_status(tap, train(backend, overrides, 0, 1, start, &error), &error, "no steps");
    tap_status(tap, train(backend, overrides, 60, 60, once, &error), &error, "60 steps");
    tap_ok(tap, bytes > 0 && memcmp(start, once, bytes) != 0, "%s: training moves the parameters", name);
    tap_status(tap, train(backend, overrides, 60, 60, again, &error), &error, "60 steps again");
    tap_ok(tap, memcmp(once, again, bytes) == 0, "%s: the same bits twice", name);
    tap_status(tap, train(backend, overrides, 60, 7, again, &error), &error, "60 steps in runs of 7");
    tap_ok(tap, memcmp(once, again, bytes) == 0, "%s: the same bits in runs of 7", name);
    tap_status(tap, train_in_two(backend, overrides, 23, 60, again, &error), &error,
               "saved after 23, restored, went on");
    tap_ok(tap, memcmp(once, again, bytes) == 0, "%s: the same bits through a checkpoint", name);
}

static void test_progress(tap_run *tap, icl_backend *backend) {
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_train_progress progress;
    size_t count = 0;
    double mean = 0.0;

    if (!tap_status(tap, make_trainer(backend, adam, &trainer, &error), &error, "trainer"))
        return;
    tap_status(tap, icl_trainer_run(trainer, 25, &error), &error, "25 steps");
    const float *losses = icl_trainer_losses(trainer, &count);
    for (size_t i = 0; i < count; i++)
        mean += (double)losses[i] / 25;
    progress = icl_trainer_progress(trainer);
    size_t norm_count = 0;
    const float *norms = icl_trainer_gradient_norms(trainer, &norm_count);
    const double last = progress.gradient_norm; /* on the reference device not rounded to float */
    tap_ok(tap, norm_count == 25 && norms[0] > 0 && fabs((double)norms[24] - last) < 1e-6 * last,
           "as many norms as losses, the last one of the last step");
    tap_ok(tap, count == 25 && progress.step == 25 && progress.total_steps == 60, "progress counts the steps");
    tap_ok(tap, fabs(progress.loss - mean) < 1e-6 * mean && progress.gradient_norm > 0.0,
           "progress holds the mean loss");
    tap_status(tap, icl_trainer_run(trainer, 1000, &error), &error, "the rest");
    icl_trainer_losses(trainer, &count);
    tap_ok(tap, count == 35 && icl_trainer_progress(trainer).step == 60, "a run ends with the budget");
    icl_trainer_destroy(&trainer);
}

/* The first loss is the mean squared error of the initial model on training batch 0. */
static void test_first_loss(tap_run *tap, icl_backend *backend) {
    icl_trainer *trainer = NULL;
    icl_batch batch = {{0}};
    float predictions[32] = {0}, targets[32] = {0};
    double loss = 0.0;
    size_t count = 0;
    icl_error error = {0};
    icl_status status = make_trainer(backend, adam, &trainer, &error);

    if (status == ICL_OK)
        status = icl_batch_create(icl_trainer_task(trainer), backend, ICL_FOR_TRAINING, 32, &batch, &error);
    if (status == ICL_OK)
        status = icl_task_sample(icl_trainer_task(trainer), backend, ICL_FOR_TRAINING, 1, 0, &batch, &error);
    if (status == ICL_OK)
        status = icl_trainer_predict(trainer, &batch, predictions, &error);
    if (status == ICL_OK)
        status = icl_tensor_read(batch.targets, targets, &error);
    if (status == ICL_OK)
        status = icl_trainer_run(trainer, 1, &error);
    if (tap_status(tap, status, &error, "predict, then one step")) {
        for (int i = 0; i < 32; i++)
            loss += pow((double)predictions[i] - (double)targets[i], 2) / 32;
        tap_ok(tap, fabs((double)icl_trainer_losses(trainer, &count)[0] - loss) < 1e-5 * loss,
               "the loss is the mean squared error of the predictions: %g", loss);
    }
    icl_batch_release(&batch);
    icl_trainer_destroy(&trainer);
}

/* With a negligible learning rate, a batch that is kept has the same loss again, and a new one a different loss. */
static void test_refresh(tap_run *tap, icl_backend *backend) {
    static const char *const still[] = {SMALL, "model.layers=2", "train.refresh=9", "train.learning_rate=1e-12", NULL};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    size_t count = 0, kept = 0, renewed = 0;

    if (!tap_status(tap, make_trainer(backend, still, &trainer, &error), &error, "trainer"))
        return;
    tap_status(tap, icl_trainer_run(trainer, 60, &error), &error, "60 steps");
    const float *losses = icl_trainer_losses(trainer, &count);
    for (size_t i = 1; i < count; i++) {
        const double change = fabs((double)losses[i] - (double)losses[i - 1]);
        kept += i % 9 != 0 && change < 1e-5 * (double)losses[i];
        renewed += i % 9 == 0 && change > 1e-3 * (double)losses[i];
    }
    tap_ok(tap, count == 60 && kept == 53 && renewed == 6, "a batch of 9 steps: %zu kept, %zu renewed", kept, renewed);
    icl_trainer_destroy(&trainer);
}

/* Steps of 1000 lead to parameters whose gradients overflow: all further steps are skipped, until
 * the trainer gives up. */
static void test_divergence(tap_run *tap, icl_backend *backend) {
    static const char *const wild[] = {SMALL,
                                       "model.layers=4",
                                       "model.scale=raw",
                                       "train.optimizer=sgd",
                                       "train.steps=200",
                                       "train.clip=0",
                                       "train.learning_rate=1000",
                                       "train.warmup=0",
                                       NULL};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    char expected[64];

    if (!tap_status(tap, make_trainer(backend, wild, &trainer, &error), &error, "trainer"))
        return;
    tap_ok(tap, icl_trainer_run(trainer, 200, &error) == ICL_ERROR_DIVERGED, "a learning rate of 1000 diverges");
    tap_note("%s", error.message);
    const icl_train_progress progress = icl_trainer_progress(trainer);
    snprintf(expected, sizeof expected, "at step %llu:", (unsigned long long)progress.step);
    tap_ok(tap, progress.step >= 2 && progress.step < 200 && strstr(error.message, expected),
           "the message names the step");
    tap_ok(tap, icl_trainer_save(trainer, file_path(), &error) == ICL_ERROR_DIVERGED && access(file_path(), F_OK) != 0,
           "a diverged trainer is not saved");
    tap_ok(tap, icl_trainer_run(trainer, 1, &error) == ICL_ERROR_DIVERGED, "nor trained further");
    icl_trainer_destroy(&trainer);
}

/* Sets one parameter of a small model to `value`, then takes a step. */
static icl_status step_with_parameter(tap_run *tap, icl_backend *backend, float value, icl_error *error) {
    static const char *const settings[] = {SMALL, NULL};
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    if (!tap_status(tap, make_trainer(backend, settings, &trainer, error), error, "trainer"))
        return ICL_ERROR_INPUT;
    const size_t size = icl_model_size(icl_trainer_model(trainer));
    float *parameters = calloc(size, sizeof *parameters);
    if (!parameters)
        abort();
    parameters[size - 1] = value;
    ICL_TRY(icl_trainer_set_parameters(trainer, parameters, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
done:
    free(parameters);
    icl_trainer_destroy(&trainer);
    return status;
}

/* A step does not change a parameter that makes the gradient overflow; the parameter decides whether training
 * continues. */
static void test_parameters(tap_run *tap, icl_backend *backend) {
    icl_error error = {0};
    tap_ok(tap, step_with_parameter(tap, backend, 3e38F, &error) == ICL_OK, "a huge parameter is no divergence");
    const float values[] = {INFINITY, -INFINITY, NAN};
    for (int i = 0; i < 3; i++)
        tap_ok(tap,
               step_with_parameter(tap, backend, values[i], &error) == ICL_ERROR_DIVERGED &&
                   strstr(error.message, "the parameters are not finite"),
               "one that is %g is: %s", (double)values[i], error.message);
}

static void test_steady_state(tap_run *tap, icl_backend *backend) {
    icl_trainer *trainer = NULL;
    icl_error error = {0};

    if (!tap_status(tap, make_trainer(backend, growing, &trainer, &error), &error, "trainer"))
        return;
    tap_status(tap, icl_trainer_run(trainer, 35, &error), &error, "grow to full depth");
    const icl_backend_statistics before = icl_backend_get_statistics(backend);
    tap_status(tap, icl_trainer_run(trainer, 20, &error), &error, "20 steps");
    const icl_backend_statistics after = icl_backend_get_statistics(backend);
    tap_ok(tap, after.allocations == before.allocations, "training allocates nothing on the device");
    tap_ok(tap, after.bytes_live == before.bytes_live, "training holds no more and no less memory");
    tap_note("%.0f ops a step", (double)(after.ops - before.ops) / 20.0);
    icl_trainer_destroy(&trainer);
}

/* One op samples, one differentiates, one updates; one more checks the parameters after each chunk. */
static void test_ops(tap_run *tap, icl_backend *backend) {
    icl_trainer *trainer = NULL;
    icl_error error = {0};

    if (!tap_status(tap, make_trainer(backend, clipped, &trainer, &error), &error, "trainer"))
        return;
    tap_status(tap, icl_trainer_run(trainer, 1, &error), &error, "the first step");
    const icl_backend_statistics before = icl_backend_get_statistics(backend);
    tap_status(tap, icl_trainer_run(trainer, 20, &error), &error, "20 steps");
    const icl_backend_statistics after = icl_backend_get_statistics(backend);
    tap_ok(tap, after.ops - before.ops == 20 * 3 + 1,
           "20 steps on Gram matrices, and a look at the parameters, are %llu ops",
           (unsigned long long)(after.ops - before.ops));
    tap_ok(tap, after.launches - before.launches <= 20 * 4 + 2, "and at most four launches each: %llu",
           (unsigned long long)(after.launches - before.launches));
    icl_trainer_destroy(&trainer);
}

static void refuse(tap_run *tap, icl_backend *backend, const char *const *overrides, const char *needle) {
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_status status = make_trainer(backend, overrides, &trainer, &error);

    if (tap_status(tap, status, &error, "trainer")) {
        status = icl_trainer_restore(trainer, file_path(), &error);
        tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, needle), "refused: %s", error.message);
    }
    icl_trainer_destroy(&trainer);
}

/* Tests steps with as many digits as a checkpoint may have, with one more, and with none. */
static void test_steps(tap_run *tap, icl_backend *backend) {
    static const struct {
        const char *step, *refusal;
    } cases[] = {{"999999999999999999", "no recipe in the metadata"},
                 {"1000000000000000000", "no step in the metadata"},
                 {"12 steps", "step is no whole number"},
                 {"none", "no step in the metadata"},
                 {"-1", "no step in the metadata"}};
    const float number = 1;
    const icl_named_tensor tensor = {.name = "parameters", .rank = 1, .shape = {1}, .data = &number};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const icl_metadata step = {"iclab.step", cases[i].step};
        icl_error error = {0};
        tap_status(tap, icl_safetensors_write(file_path(), &tensor, 1, &step, 1, &error), &error, cases[i].step);
        refuse(tap, backend, adam, cases[i].refusal);
    }
    remove(file_path());
}

static void test_foreign_checkpoints(tap_run *tap, icl_backend *backend) {
    static const char *const other_batch[] = {SMALL, "model.parameterization=full", "model.layers=2", "train.batch=64",
                                              NULL};
    static const char *const other_model[] = {SMALL, "model.parameterization=full", "model.layers=3", NULL};
    static const char *const other_task[] = {SMALL, "model.parameterization=full", "model.layers=2", "task.n=7", NULL};
    static const char *const same_schedule[] = {
        SMALL, "model.parameterization=full", "model.layers=2", "train.steps=70", "train.horizon=60", NULL};
    static const char *const other_schedule[] = {SMALL, "model.parameterization=full", "model.layers=2",
                                                 "train.horizon=61", NULL};
    static const char *const longer[] = {
        SMALL, "model.parameterization=full", "model.layers=2", "train.steps=70", "eval.every=3", NULL};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_status status = make_trainer(backend, adam, &trainer, &error);

    if (status == ICL_OK)
        status = icl_trainer_save(trainer, file_path(), &error);
    tap_status(tap, status, &error, "save");
    icl_trainer_destroy(&trainer);
    refuse(tap, backend, other_batch, "train.batch = 64: expected 32, with which");
    refuse(tap, backend, other_model, "model.layers = 3: expected 2, with which");
    refuse(tap, backend, other_task, "task.n = 7: expected 6, with which");
    refuse(tap, backend, other_schedule, "train.horizon = 61: expected 0, with which");
    status = make_trainer(backend, same_schedule, &trainer, &error);
    if (status == ICL_OK)
        status = icl_trainer_restore(trainer, file_path(), &error);
    tap_status(tap, status, &error, "train.horizon = 60 is the schedule of 60 steps");
    icl_trainer_destroy(&trainer);
    status = make_trainer(backend, longer, &trainer, &error);
    if (status == ICL_OK)
        status = icl_trainer_restore(trainer, file_path(), &error);
    tap_status(tap, status, &error, "more steps and another evaluation are no other recipe");
    if (status == ICL_OK)
        status = icl_trainer_export(trainer, file_path(), &error);
    tap_status(tap, status, &error, "export");
    refuse(tap, backend, adam, "no step in the metadata");
    icl_trainer_destroy(&trainer);
    remove(file_path());
    status = make_trainer(backend, adam, &trainer, &error);
    if (status == ICL_OK)
        status = icl_trainer_restore(trainer, file_path(), &error);
    tap_ok(tap, status == ICL_ERROR_IO, "a missing checkpoint: %s", error.message);
    icl_trainer_destroy(&trainer);
}

static void test_bad_recipes(tap_run *tap, icl_backend *backend) {
    static const char *const bad_growth[] = {SMALL, "model.layers=4", "train.growth=30", NULL};
    static const char *const composed_clip[] = {SMALL, "model.space=composed", "train.sequence_clip=0.1", NULL};
    static const char *const composed_gram[] = {SMALL, "model.space=composed", "task.sampler=gram", NULL};
    static const char *const tied_clip[] = {SMALL, "model.tied=true", "train.sequence_clip=0.1", NULL};
    static const char *const tied_growth[] = {SMALL, "model.tied=true", "train.growth=10", NULL};
    icl_trainer *trainer = NULL;
    icl_error error = {0};

    tap_ok(tap,
           make_trainer(backend, tied_clip, &trainer, &error) == ICL_ERROR_INPUT && !trainer &&
               strstr(error.message, "train.sequence_clip"),
           "clipping sequences of a tied model: %s", error.message);
    tap_ok(tap,
           make_trainer(backend, tied_growth, &trainer, &error) == ICL_ERROR_INPUT && !trainer &&
               strstr(error.message, "train.growth"),
           "growing a tied model: %s", error.message);
    tap_ok(tap, make_trainer(backend, bad_growth, &trainer, &error) == ICL_ERROR_INPUT && !trainer,
           "growth past the budget: %s", error.message);
    tap_ok(tap,
           make_trainer(backend, composed_clip, &trainer, &error) == ICL_ERROR_INPUT && !trainer &&
               strstr(error.message, "train.sequence_clip"),
           "clipping sequences on the tape: %s", error.message);
    tap_ok(tap,
           make_trainer(backend, composed_gram, &trainer, &error) == ICL_ERROR_INPUT && !trainer &&
               strstr(error.message, "task.sampler"),
           "Gram matrices on the tape: %s", error.message);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    test_bits(&tap, backend, adam, "adam");
    test_bits(&tap, backend, sgd, "sgd");
    test_bits(&tap, backend, growing, "growth");
    test_bits(&tap, backend, clipped, "sequence clipping");
    test_bits(&tap, backend, refreshed, "a batch for nine steps");
    test_bits(&tap, backend, tied, "tied layers");
    test_refresh(&tap, backend);
    test_progress(&tap, backend);
    test_first_loss(&tap, backend);
    test_divergence(&tap, backend);
    test_parameters(&tap, backend);
    test_steady_state(&tap, backend);
    test_ops(&tap, backend);
    test_foreign_checkpoints(&tap, backend);
    test_steps(&tap, backend);
    test_bad_recipes(&tap, backend);
    /* A backend may keep what it made for a model, for the next one like it. */
    const size_t kept = icl_backend_get_statistics(backend).bytes_live;
    test_bits(&tap, backend, adam, "adam once more");
    test_bits(&tap, backend, clipped, "sequence clipping once more");
    tap_ok(&tap, icl_backend_get_statistics(backend).bytes_live == kept, "everything was given back");
    icl_backend_close(&backend);
    return tap_done(&tap);
}
