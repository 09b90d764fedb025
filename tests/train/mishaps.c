/* How a trainer handles gradients that are not finite, and single sequences with large gradients: steps are skipped,
 * sequences are dropped or cut at a threshold that follows their norms. All of it is decided on the device, counted,
 * and part of a checkpoint. */
#include "fixture.h"
#include "train/trainer.h"

#define SMALL                                                                                                          \
    "task.d=4", "task.n=6", "task.noise=uniform:2", "train.batch=32", "train.warmup=5", "train.steps=500",             \
        "model.layers=3", "model.space=auto"

enum { BATCH = 32 };

static const char *const adam[] = {SMALL, NULL};
static const char *const sgd[] = {SMALL, "train.optimizer=sgd", "train.learning_rate=0.001", NULL};
static const char *const composed[] = {SMALL, "model.space=composed", NULL};
static const char *const muon[] = {SMALL,
                                   "model.family=sequence",
                                   "model.layers=2",
                                   "model.width=8",
                                   "model.mixer=linear",
                                   "model.norm=none",
                                   "model.output_norm=none",
                                   "model.feed_forward=none",
                                   "train.optimizer=muon",
                                   NULL};
static const char *const clipped[] = {SMALL, "train.sequence_clip=0.25", NULL};

static const char *file_path(void) {
    static char path[64];
    snprintf(path, sizeof path, "test-mishaps-%ld.safetensors", (long)getpid());
    return path;
}

/* Writes parameters so large that the square of a prediction overflows, even in double precision. */
static icl_status write_huge(icl_trainer *trainer, const icl_training_state *state, icl_error *error) {
    const double huge = icl_backend_capabilities(trainer->backend)->element_size == sizeof(double) ? 1e150 : 1e30;
    icl_training_state changed;
    icl_status status = ICL_OK;

    ICL_TRY(icl_training_state_create(trainer, &changed, error));
    changed.step = state->step;
    changed.threshold = state->threshold;
    for (size_t i = 0; i < state->size; i++) {
        changed.vectors[0][i] = huge;
        for (int j = 1; j < ICL_STATE_VECTORS && state->vectors[j]; j++) /* the average, which comes last, is absent */
            changed.vectors[j][i] = state->vectors[j][i];
    }
    ICL_TRY(icl_trainer_write_state(trainer, &changed, error));
done:
    icl_training_state_clear(&changed);
    return status;
}

static bool same_states(const icl_training_state *a, const icl_training_state *b) {
    bool same = true;
    for (int i = 0; i < ICL_STATE_VECTORS && a->vectors[i]; i++)
        same = same && memcmp(a->vectors[i], b->vectors[i], a->size * sizeof(double)) == 0;
    return same;
}

/* Takes a few steps, one that is skipped, and one that is not. */
static icl_status skip_a_step(tap_run *tap, icl_trainer *trainer, icl_training_state state[3], icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_run(trainer, 5, error));
    tap_ok(tap, icl_trainer_progress(trainer).skipped_steps == 0, "no step is skipped at first");
    ICL_TRY(icl_trainer_read_state(trainer, &state[0], error));
    ICL_TRY(write_huge(trainer, &state[0], error));
    ICL_TRY(icl_trainer_read_state(trainer, &state[1], error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_trainer_read_state(trainer, &state[2], error));
    tap_ok(tap, same_states(&state[1], &state[2]) && state[2].step == 6,
           "a gradient that overflows changes neither parameters nor moments");
    tap_ok(tap, icl_trainer_progress(trainer).skipped_steps == 1, "the step is counted");
    state[0].step = 6;
    ICL_TRY(icl_trainer_write_state(trainer, &state[0], error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_trainer_read_state(trainer, &state[2], error));
    tap_ok(tap, !same_states(&state[0], &state[2]) && icl_trainer_progress(trainer).skipped_steps == 0,
           "with good parameters again, training goes on");
done:
    return status;
}

static void test_skipping(tap_run *tap, icl_backend *backend, const char *const *overrides, const char *name) {
    icl_training_state state[3] = {{0}};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_status status = make_trainer(backend, overrides, &trainer, &error);

    for (int i = 0; i < 3 && status == ICL_OK; i++)
        status = icl_training_state_create(trainer, &state[i], &error);
    if (status == ICL_OK)
        status = skip_a_step(tap, trainer, state, &error);
    tap_status(tap, status, &error, name);
    for (int i = 0; i < 3; i++)
        icl_training_state_clear(&state[i]);
    icl_trainer_destroy(&trainer);
}

/* Rounding is tested with 0.1, which single precision cannot represent. */
static void test_rounding(tap_run *tap, icl_backend *backend) {
    static const char *const averaged[] = {"task.d=3", "task.n=4", "train.batch=8", "train.average=2", NULL};
    icl_training_state state = {0};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    size_t rounded = 0;
    icl_status status = make_trainer(backend, averaged, &trainer, &error);

    if (status == ICL_OK)
        status = icl_training_state_create(trainer, &state, &error);
    for (int i = 0; i < ICL_STATE_VECTORS && status == ICL_OK; i++)
        for (size_t k = 0; k < state.size; k++)
            state.vectors[i][k] = .1;
    state.threshold = .1;
    icl_training_state_round(&state);
    for (int i = 0; i < ICL_STATE_VECTORS && status == ICL_OK; i++)
        for (size_t k = 0; k < state.size; k++)
            rounded += state.vectors[i][k] == (double).1f;
    tap_status(tap, status, &error, "a state");
    tap_ok(tap, state.size > 1 && rounded == ICL_STATE_VECTORS * state.size, "all of a state is rounded: %zu of %zu",
           rounded, ICL_STATE_VECTORS * state.size);
    tap_ok(tap, state.threshold == (double).1f, "and its threshold");
    icl_training_state_clear(&state);
    icl_trainer_destroy(&trainer);
}

/* Takes steps that are all skipped, in runs of `stride`, through a checkpoint after `saved` of them. Returns the step
 * at which the trainer gives up; 0 if it does not. */
static uint64_t give_up(icl_backend *backend, size_t stride, size_t saved, icl_error *error) {
    icl_training_state state = {0};
    icl_trainer *trainer = NULL;
    uint64_t step = 0;
    icl_status status;

    ICL_TRY(make_trainer(backend, adam, &trainer, error));
    ICL_TRY(icl_training_state_create(trainer, &state, error));
    ICL_TRY(icl_trainer_run(trainer, 5, error));
    ICL_TRY(icl_trainer_read_state(trainer, &state, error));
    ICL_TRY(write_huge(trainer, &state, error));
    ICL_TRY(icl_trainer_run(trainer, saved, error));
    ICL_TRY(icl_trainer_save(trainer, file_path(), error));
    icl_trainer_destroy(&trainer);
    ICL_TRY(make_trainer(backend, adam, &trainer, error));
    ICL_TRY(icl_trainer_restore(trainer, file_path(), error));
    status = icl_trainer_progress(trainer).skipped_steps == saved ? ICL_OK : ICL_ERROR_INPUT;
    for (size_t done = 0; done < 200 && status == ICL_OK; done += stride)
        status = icl_trainer_run(trainer, stride, error);
    if (status == ICL_ERROR_DIVERGED)
        step = icl_trainer_progress(trainer).step;
done:
    icl_training_state_clear(&state);
    icl_trainer_destroy(&trainer);
    remove(file_path());
    return step;
}

static void test_giving_up(tap_run *tap, icl_backend *backend) {
    icl_error error = {0};

    tap_ok(tap, give_up(backend, 200, 0, &error) == 55, "50 skipped steps in a row are divergence: %s", error.message);
    tap_ok(tap, give_up(backend, 7, 0, &error) == 55, "whatever the length of the runs");
    tap_ok(tap, give_up(backend, 13, 20, &error) == 55, "and through a checkpoint");
}

/* ---- The mean loss of a run ---- */

enum { RUN = 20 };

/* Single sequences with deep sums: their losses differ by orders of magnitude. */
static const char *const wide[] = {"task.d=4",
                                   "task.n=6",
                                   "task.noise=fixed:0",
                                   "train.batch=1",
                                   "train.steps=500",
                                   "train.warmup=0",
                                   "model.layers=4",
                                   "model.scale=raw",
                                   "model.space=composed",
                                   "train.learning_rate=1e-12",
                                   NULL};

/* Takes RUN steps with all parameters at `value`, one by one; sets their losses, NaN if not finite, and the number of
 * finite ones. */
static icl_status lose_alone(icl_trainer *trainer, icl_training_state *state, double value, double losses[RUN],
                             int *finite, icl_error *error) {
    for (size_t i = 0; i < state->size; i++)
        state->vectors[0][i] = value;
    ICL_CHECK(icl_trainer_write_state(trainer, state, error));
    *finite = 0;
    for (int i = 0; i < RUN; i++) {
        ICL_CHECK(icl_trainer_run(trainer, 1, error));
        losses[i] = icl_trainer_progress(trainer).loss;
        *finite += isfinite(losses[i]);
    }
    return ICL_OK;
}

/* Searches for parameters at which about half of the steps overflow. */
static icl_status lose_some(tap_run *tap, icl_trainer *trainer, icl_training_state *state, icl_error *error) {
    const bool is_double = icl_backend_capabilities(trainer->backend)->element_size == sizeof(double);
    double losses[RUN], mean = 0, low = -10, high = is_double ? 20 : 5; /* logarithms */
    int finite = 0;

    for (int trial = 0; trial < 60 && (finite < RUN / 4 || finite > 3 * RUN / 4); trial++) {
        const double middle = (low + high) / 2;
        ICL_CHECK(lose_alone(trainer, state, exp(middle), losses, &finite, error));
        *(finite > RUN / 2 ? &low : &high) = middle;
    }
    for (int i = 0; i < RUN; i++)
        mean += isfinite(losses[i]) ? losses[i] / finite : 0;
    ICL_CHECK(icl_trainer_write_state(trainer, state, error));
    ICL_CHECK(icl_trainer_run(trainer, RUN, error));
    const double loss = icl_trainer_progress(trainer).loss;
    tap_ok(tap, finite > 0 && finite < RUN && fabs(loss / mean - 1) < 1e-6,
           "the mean loss of a run is that of its %d finite steps, of %d: %g, %g", finite, RUN, loss, mean);
    return ICL_OK;
}

static void test_mean_loss(tap_run *tap, icl_backend *backend) {
    icl_training_state state = {0};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_status status = make_trainer(backend, wide, &trainer, &error);

    if (status == ICL_OK)
        status = icl_training_state_create(trainer, &state, &error);
    if (status == ICL_OK)
        status = icl_trainer_read_state(trainer, &state, &error);
    if (status == ICL_OK)
        status = lose_some(tap, trainer, &state, &error);
    tap_status(tap, status, &error, "steps of which some overflow");
    icl_training_state_clear(&state);
    icl_trainer_destroy(&trainer);
}

/* ---- Clipping by sequence ---- */

/* Computes icl_track_threshold on the host, from the norms of the step. */
static double next_threshold(double threshold, double fraction, const double *norms) {
    double above = 0, mean = 0;
    for (int i = 0; i < BATCH; i++) {
        above += norms[i] > threshold;
        mean += norms[i] / BATCH;
    }
    return threshold > 0 ? threshold * exp(0.1 * fmin(above / BATCH / fraction - 1, 5)) : 5 * mean;
}

static icl_status follow_threshold(tap_run *tap, icl_trainer *trainer, icl_error *error) {
    double norms[BATCH], threshold, expected = 0, worst = 0, share = 0;
    enum { STEPS = 400 };
    icl_status status = ICL_OK;

    for (int step = 0; step < STEPS; step++) {
        ICL_TRY(icl_trainer_run(trainer, 1, error));
        ICL_TRY(icl_tensor_read_double(trainer->state.sequence_norms, norms, error));
        for (int i = 0; i < BATCH && step >= STEPS / 2; i++)
            share += norms[i] > expected ? 2.0 / (STEPS * BATCH) : 0;
        if (step == 0) /* the first value, then the update of every step */
            expected = next_threshold(0, 0.25, norms);
        expected = next_threshold(expected, 0.25, norms);
        ICL_TRY(icl_tensor_read_double(trainer->state.threshold, &threshold, error));
        worst = fmax(worst, fabs(threshold - expected) / expected);
        expected = threshold;
    }
    tap_ok(tap, worst < 1e-5, "the threshold starts at 5 mean norms and follows them (%.1e)", worst);
    tap_ok(tap, fabs(share - 0.25) < 0.05, "a quarter of the sequences is cut (%.3f)", share);
done:
    return status;
}

/* Sequences that overflow are left out: if none remains, the gradient is 0, not NaN. */
static icl_status drop_sequences(tap_run *tap, icl_trainer *trainer, icl_training_state *state, icl_error *error) {
    const uint64_t before = icl_trainer_progress(trainer).dropped_sequences;
    double norm, loss;
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_read_state(trainer, state, error));
    ICL_TRY(write_huge(trainer, state, error));
    ICL_TRY(icl_trainer_run(trainer, 1, error));
    ICL_TRY(icl_trainer_read_measures(trainer, &loss, &norm, error));
    const icl_train_progress progress = icl_trainer_progress(trainer);
    tap_ok(tap, before == 0 && progress.dropped_sequences == BATCH && progress.skipped_steps == 0 && norm == 0,
           "sequences whose gradients overflow are dropped and counted (%d of %d)", (int)progress.dropped_sequences,
           BATCH);
    ICL_TRY(icl_trainer_save(trainer, file_path(), error));
    ICL_TRY(icl_trainer_restore(trainer, file_path(), error));
    tap_ok(tap, icl_trainer_progress(trainer).dropped_sequences == BATCH, "a checkpoint keeps the count");
done:
    remove(file_path());
    return status;
}

static void test_sequence_clip(tap_run *tap, icl_backend *backend) {
    icl_training_state state = {0};
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    icl_status status = make_trainer(backend, clipped, &trainer, &error);

    if (status == ICL_OK)
        status = icl_training_state_create(trainer, &state, &error);
    if (status == ICL_OK)
        status = follow_threshold(tap, trainer, &error);
    if (status == ICL_OK)
        status = drop_sequences(tap, trainer, &state, &error);
    tap_status(tap, status, &error, "train.sequence_clip = 0.25");
    icl_training_state_clear(&state);
    icl_trainer_destroy(&trainer);
}

/* The message about parameters that are not finite has the step, and the loss and norm that it left on the device. */
static void test_words(tap_run *tap, icl_backend *backend) {
    double history[ICL_HISTORY_LENGTH] = {0};
    icl_trainer *trainer = NULL;
    icl_training_state state = {0};
    icl_error error = {0}, said = {0};
    icl_status status = ICL_OK, collected = ICL_OK;

    ICL_TRY(make_trainer(backend, adam, &trainer, &error));
    ICL_TRY(icl_training_state_create(trainer, &state, &error));
    ICL_TRY(icl_trainer_run(trainer, 1, &error)); /* makes room for a loss, which is removed again */
    trainer->state.loss_count = 0;
    ICL_TRY(icl_trainer_read_state(trainer, &state, &error));
    state.vectors[0][1] = (double)NAN;
    ICL_TRY(icl_trainer_write_state(trainer, &state, &error));
    history[ICL_HISTORY_LOSS] = 3.5;
    history[ICL_HISTORY_NORM] = .75;
    trainer->state.gradient_norm = 0;
    ICL_TRY(icl_tensor_write_double(trainer->state.history, history, &error));
    collected = icl_trainer_collect(trainer, 7, 1, &said);
done:
    tap_status(tap, status, &error, "parameters that are not finite");
    tap_ok(tap, collected == ICL_ERROR_DIVERGED && strstr(said.message, "loss 3.5, gradient norm 0.75"), "%s",
           said.message);
    tap_ok(tap, trainer && icl_trainer_progress(trainer).gradient_norm == .75, "the largest norm so far");
    icl_training_state_clear(&state);
    icl_trainer_destroy(&trainer);
}

/* With several ranks the first failure is kept, with its message, until the next collective call takes it. */
static void test_kept_failures(tap_run *tap) {
    const icl_ranks two = {.count = 2}, one = {.count = 1};
    icl_sharing sharing = {.ranks = &two};
    const icl_error first = {.status = ICL_ERROR_MEMORY, .message = "the first"};
    const icl_error second = {.status = ICL_ERROR_DEVICE, .message = "the second"};
    icl_error error = {0};

    tap_ok(tap,
           icl_sharing_keep_failure(&sharing, ICL_ERROR_MEMORY, &first) == ICL_OK &&
               icl_sharing_keep_failure(&sharing, ICL_ERROR_DEVICE, &second) == ICL_OK,
           "two failures are kept");
    tap_ok(tap,
           icl_sharing_take_failure(&sharing, &error) == ICL_ERROR_MEMORY && strcmp(error.message, "the first") == 0,
           "the first is taken: %s", error.message);
    error = second;
    tap_ok(tap, icl_sharing_take_failure(&sharing, &error) == ICL_OK && strcmp(error.message, "the second") == 0,
           "once: there is none behind it, and no words change");
    sharing.ranks = &one;
    tap_ok(tap,
           icl_sharing_keep_failure(&sharing, ICL_ERROR_MEMORY, &first) == ICL_ERROR_MEMORY &&
               icl_sharing_take_failure(&sharing, NULL) == ICL_OK,
           "a rank alone keeps none");
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");

    if (!backend)
        return tap_done(&tap);
    test_skipping(&tap, backend, adam, "adam");
    test_skipping(&tap, backend, sgd, "sgd");
    test_skipping(&tap, backend, composed, "on the tape");
    test_skipping(&tap, backend, muon, "muon");
    test_giving_up(&tap, backend);
    test_rounding(&tap, backend);
    test_mean_loss(&tap, backend);
    test_sequence_clip(&tap, backend);
    test_words(&tap, backend);
    test_kept_failures(&tap);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
