/* A batch in slices: its gradient is the mean of theirs, a step is as it would be in one piece, and training continues
 * from a checkpoint. */
#include "fixture.h"

#include "train/trainer.h"

/* FIRST steps end within a refresh of 3, and the other steps go beyond it. */
enum { SLICES = 4, STEPS = 9, FIRST = 4 };

#define SMALL "task.d=4", "task.n=6", "train.warmup=2", "train.steps=40", "train.clip=0"

static const char *const linear[] = {SMALL, "model.layers=2", NULL};
static const char *const diagonal[] = {
    SMALL, "model.layers=3", "model.parameterization=diag", "task.sampler=gram", "train.sequence_clip=0.1", NULL};
static const char *const softmax[] = {SMALL, "model.family=softmax", "model.layers=1", NULL};
static const char *const sequence[] = {
    SMALL, "model.family=sequence", "model.layers=1", "model.width=8", "model.heads=2", "train.weight_decay=0.1", NULL};
/* A task of symbols, with weights for positions. */
static const char *const symbols[] = {"task.family=recall",
                                      "task.vocabulary=8",
                                      "task.length=10",
                                      "task.pairs=3",
                                      "model.family=sequence",
                                      "model.layers=1",
                                      "model.width=8",
                                      "train.warmup=2",
                                      "train.steps=40",
                                      "train.clip=0",
                                      NULL};
static const char *const refreshed[] = {SMALL, "model.layers=2", "train.refresh=3", NULL};

/* Makes the case's trainer with this batch, in so many slices. */
static icl_status make(icl_backend *backend, const char *const *settings, const char *batch, const char *slices,
                       icl_trainer **trainer, icl_error *error) {
    const char *all[16];
    size_t count = 0;

    for (; settings[count]; count++)
        all[count] = settings[count];
    all[count++] = batch;
    all[count++] = slices;
    all[count] = NULL;
    return make_trainer(backend, all, trainer, error);
}

/* Measures gradient and loss of batch `number` of 8 sequences at the initial parameters, without the cut by
 * sequence_clip in the first step. */
static icl_status measure_alone(icl_backend *backend, const char *const *settings, uint64_t number, double *gradient,
                                double *loss, icl_error *error) {
    icl_trainer *trainer = NULL;
    icl_training_state state = {0};
    double norm;
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, settings, "train.batch=8", "train.slices=1", &trainer, error));
    ICL_TRY(icl_training_state_create(trainer, &state, error));
    ICL_TRY(icl_trainer_read_state(trainer, &state, error));
    state.step = number;
    ICL_TRY(icl_trainer_write_state(trainer, &state, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_trainer_read_gradient(trainer, gradient, error));
    ICL_TRY(icl_trainer_read_measures(trainer, loss, &norm, error));
done:
    icl_training_state_clear(&state);
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status measure_slices(icl_backend *backend, const char *const *settings, double *gradient, double *loss,
                                 icl_error *error) {
    icl_trainer *trainer = NULL;
    double norm;
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, settings, "train.batch=32", "train.slices=4", &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_trainer_read_gradient(trainer, gradient, error));
    ICL_TRY(icl_trainer_read_measures(trainer, loss, &norm, error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* The device's elements round the mean once; its loss is a sum over 32 in another order than over 4 times 8. */
static void test_first_step(tap_run *tap, icl_backend *backend, const char *const *settings, const char *name) {
    const bool is_float = icl_backend_capabilities(backend)->element_size == sizeof(float);
    const double epsilon = is_float ? 0x1p-23 : 0x1p-52;
    static double gradient[MAX_PARAMETERS], part[MAX_PARAMETERS], mean[MAX_PARAMETERS];
    double loss = 0, part_loss = 0, mean_loss = 0;
    bool same = true;
    icl_error error = {0};

    memset(mean, 0, sizeof mean);
    memset(gradient, 0, sizeof gradient);
    for (uint64_t slice = 0; slice < SLICES; slice++) {
        memset(part, 0, sizeof part);
        if (!tap_status(tap, measure_alone(backend, settings, slice, part, &part_loss, &error), &error,
                        "a slice as a batch of its own"))
            return;
        mean_loss += part_loss / SLICES;
        for (size_t i = 0; i < MAX_PARAMETERS; i++)
            mean[i] += part[i];
    }
    if (!tap_status(tap, measure_slices(backend, settings, gradient, &loss, &error), &error, "all of them"))
        return;
    for (size_t i = 0; i < MAX_PARAMETERS; i++) {
        const double expected = mean[i] / SLICES;
        same = same && gradient[i] == (is_float ? (double)(float)expected : expected);
    }
    tap_ok(tap, same && gradient[0] != 0, "%s: the gradient is the mean of the slices', to the bit", name);
    tap_ok(tap, fabs(loss - mean_loss) <= 40 * epsilon * mean_loss, "%s: so is the loss, %g and %g", name, loss,
           mean_loss);
}

/* Trains STEPS steps, saved after `first` and restored; 0: without a pause. */
static icl_status train(icl_backend *backend, const char *const *settings, size_t first, float *values,
                        icl_error *error) {
    icl_trainer *trainer = NULL;
    char path[64];
    icl_status status = ICL_OK;

    snprintf(path, sizeof path, "test-slices-%ld.safetensors", (long)getpid());
    ICL_TRY(make(backend, settings, "train.batch=32", "train.slices=4", &trainer, error));
    if (first > 0) {
        ICL_TRY(icl_trainer_run(trainer, first, error));
        ICL_TRY(icl_trainer_save(trainer, path, error));
        icl_trainer_destroy(&trainer);
        ICL_TRY(make(backend, settings, "train.batch=32", "train.slices=4", &trainer, error));
        ICL_TRY(icl_trainer_restore(trainer, path, error));
    }
    ICL_TRY(icl_trainer_run(trainer, STEPS - first, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
done:
    (void)remove(path);
    icl_trainer_destroy(&trainer);
    return status;
}

static void test_restoring(tap_run *tap, icl_backend *backend, const char *const *settings, const char *name) {
    static float whole[MAX_PARAMETERS], parts[MAX_PARAMETERS];
    icl_error error = {0};

    memset(whole, 0, sizeof whole);
    memset(parts, 0, sizeof parts);
    if (tap_status(tap, train(backend, settings, 0, whole, &error), &error, "all steps") &&
        tap_status(tap, train(backend, settings, FIRST, parts, &error), &error, "some, and the others"))
        tap_ok(tap, memcmp(whole, parts, sizeof whole) == 0 && whole[0] != 0, "%s: the same bits", name);
}

static void test_refusal(tap_run *tap, icl_backend *backend) {
    const icl_ranks ranks = {.count = 5};
    icl_trainer *trainer = NULL;
    icl_error error = {0};

    tap_ok(tap,
           make(backend, linear, "train.batch=32", "train.slices=3", &trainer, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "train.slices = 3: expected a divisor"),
           "slices of two sizes: %s", error.message);
    if (tap_status(tap, make(backend, linear, "train.batch=32", "train.slices=4", &trainer, &error), &error,
                   "four slices"))
        tap_ok(tap, icl_trainer_set_ranks(trainer, &ranks, &error) == ICL_ERROR_INPUT, "for five ranks: %s",
               error.message);
    icl_trainer_destroy(&trainer);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        const char *const *settings;
        bool first_step; /* compared only if no sequence is cut at a threshold of its own batch */
    } cases[] = {{"full", linear, true},
                 {"diagonal, clipped", diagonal, false},
                 {"softmax", softmax, true},
                 {"sequence, some without decay", sequence, true},
                 {"symbols, weighted", symbols, true},
                 {"refreshed", refreshed, false}};
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].first_step)
            test_first_step(&tap, backend, cases[i].settings, cases[i].name);
        test_restoring(&tap, backend, cases[i].settings, cases[i].name);
    }
    test_refusal(&tap, backend);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
