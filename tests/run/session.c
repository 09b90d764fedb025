/* Tests training sessions: snapshots are the models of their steps, in an uninterrupted run and in one that was
 * resumed; and evaluations end a run as train.stop_at and train.stop_after say, in one piece or in parts. */
#include "iclab/session.h"

#include <math.h>
#include <stdlib.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "tap.h"

#include "../core/scratch.h"

enum { MOST = 64, MOST_OVERRIDES = 4 };

static icl_status make_recipe(const char *steps, icl_recipe **recipe, icl_error *error) {
    const char *const settings[] = {"task.d=3",
                                    "task.n=6",
                                    "model.layers=2",
                                    "model.parameterization=diag",
                                    "train.batch=32",
                                    "train.snapshot_every=4",
                                    "eval.every=0",
                                    "train.horizon=20",
                                    steps};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(recipe, error));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        ICL_TRY(icl_recipe_override(*recipe, settings[i], error));
done:
    return status;
}

/* A session up to `steps` of the recipe with overrides, new or resumed; *last receives the last step done. */
typedef struct session {
    icl_backend *backend;
    const char *folder, *steps, *overrides[MOST_OVERRIDES];
    bool resume;
    const icl_session_measure *measure;
    void (*report)(void *user, const icl_session_progress *progress);
    void *user;
} session;

static icl_status run_session(const session *is, uint64_t *last, icl_error *error) {
    icl_session_params params = {.backend = is->backend,
                                 .folder = is->folder,
                                 .resume = is->resume,
                                 .measure = is->measure,
                                 .report = is->report,
                                 .user = is->user};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(is->steps, &recipe, error));
    for (size_t i = 0; i < MOST_OVERRIDES && is->overrides[i]; i++)
        ICL_TRY(icl_recipe_override(recipe, is->overrides[i], error));
    params.recipe = recipe;
    ICL_TRY(icl_session_prepare(&params, &trainer, error));
    if (!is->resume)
        ICL_TRY(icl_run_create(is->folder, recipe, error));
    ICL_TRY(icl_session_train(&params, trainer, error));
    *last = icl_trainer_progress(trainer).step;
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status train(icl_backend *backend, const char *folder, const char *steps, bool resume, icl_error *error) {
    uint64_t last;
    return run_session(&(session){.backend = backend, .folder = folder, .steps = steps, .resume = resume}, &last,
                       error);
}

/* Reads the parameters after `steps` steps of a trainer, and those of the snapshot. */
static icl_status read_both(icl_backend *backend, const char *folder, size_t steps, float *expected, float *seen,
                            size_t *size, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe("train.steps=10", &recipe, error));
    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(icl_trainer_run(trainer, steps, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, expected, error));
    ICL_TRY(icl_run_read_snapshot(folder, steps, icl_trainer_model(trainer), seen, error));
    *size = icl_model_size(icl_trainer_model(trainer));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static void check_snapshots(tap_run *tap, icl_backend *backend, const char *folder, const char *name) {
    static const size_t steps[] = {0, 4, 8};
    float expected[MOST] = {0}, seen[MOST] = {0};
    icl_error error = {0};
    size_t size = 0;

    for (size_t i = 0; i < 3; i++)
        if (tap_status(tap, read_both(backend, folder, steps[i], expected, seen, &size, &error), &error, name))
            tap_ok(tap, size > 0 && memcmp(expected, seen, size * sizeof(float)) == 0,
                   "%s: the snapshot of step %zu has the bits of a trainer's %zu steps", name, steps[i], steps[i]);
    tap_ok(tap,
           read_both(backend, folder, 6, expected, seen, &size, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "train.snapshot_every"),
           "%s: a snapshot that was not taken: %s", name, error.message);
}

/* ---- Runs that end early ---- */

/* Returns the scripted value of the evaluation after 2, 4, … steps, whatever the model is. */
static icl_status scripted(void *user, icl_trainer *trainer, double *value, icl_error *error) {
    static const double values[] = {9, 5, 6, 7, 4, 4, 4, 4, 4, 4};
    (void)user;
    (void)error;
    *value = values[icl_trainer_progress(trainer).step / 2 - 1];
    return ICL_OK;
}

static icl_status train_scripted(icl_backend *backend, const char *folder, const char *const overrides[2],
                                 const char *steps, bool resume, uint64_t *last, icl_error *error) {
    const session is = {.backend = backend,
                        .folder = folder,
                        .steps = steps,
                        .overrides = {overrides[0], overrides[1]},
                        .resume = resume,
                        .measure = &(icl_session_measure){scripted, NULL}};
    return run_session(&is, last, error);
}

static icl_status read_table(const char *folder, char **table, icl_error *error) {
    char *path = NULL;
    size_t size;
    icl_status status = ICL_OK;

    ICL_TRY(icl_path_join(folder, ICL_RUN_METRICS, &path, error));
    ICL_TRY(icl_file_read(path, 0, table, &size, error));
done:
    icl_free(&path);
    return status;
}

/* Trains in one piece; then in two, the first of which ends after `part`; and once more, which must train nothing. */
static void check_end(tap_run *tap, icl_backend *backend, scratch_folder *scratch, const char *override,
                      const char *part, uint64_t expected) {
    const char *const overrides[] = {"eval.every=2", override};
    char whole[512], parts[512], *tables[2] = {NULL, NULL};
    icl_error error = {0};
    uint64_t last = 0;

    snprintf(whole, sizeof whole, "%s", scratch_path(scratch, "whole"));
    snprintf(parts, sizeof parts, "%s", scratch_path(scratch, "parts"));
    tap_status(tap, train_scripted(backend, whole, overrides, "train.steps=20", false, &last, &error), &error,
               override);
    tap_ok(tap, last == expected, "%s: ends after %d steps (%d)", override, (int)expected, (int)last);
    tap_status(tap, train_scripted(backend, parts, overrides, part, false, &last, &error), &error, part);
    for (int i = 0; i < 2; i++) {
        tap_status(tap, train_scripted(backend, parts, overrides, "train.steps=20", true, &last, &error), &error, part);
        tap_ok(tap, last == expected, "%s, gone on with: ends after %d steps (%d)", override, (int)expected, (int)last);
    }
    tap_status(tap, read_table(whole, &tables[0], &error), &error, "a table");
    tap_status(tap, read_table(parts, &tables[1], &error), &error, "a table");
    tap_ok(tap, tables[0] && tables[1] && strcmp(tables[0], tables[1]) == 0, "%s: the same metrics.csv", override);
    icl_free(&tables[0]);
    icl_free(&tables[1]);
    scratch_remove(scratch_path(scratch, "whole"));
    scratch_remove(scratch_path(scratch, "parts"));
}

static void check_ends(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    static const char *const without[] = {"eval.every=0", "train.stop_after=1"};
    icl_error error = {0};
    uint64_t last;

    check_end(tap, backend, scratch, "train.stop_at=0", "train.steps=10", 20);
    check_end(tap, backend, scratch, "train.stop_at=5", "train.steps=3", 4);
    check_end(tap, backend, scratch, "train.stop_at=4.5", "train.steps=8", 10);
    check_end(tap, backend, scratch, "train.stop_after=1", "train.steps=7", 8);
    check_end(tap, backend, scratch, "train.stop_after=2", "train.steps=12", 16);
    check_end(tap, backend, scratch, "train.stop_after=9", "train.steps=12", 20);
    tap_ok(tap,
           train_scripted(backend, scratch_path(scratch, "none"), without, "train.steps=20", false, &last, &error) ==
                   ICL_ERROR_INPUT &&
               strstr(error.message, "eval.every"),
           "an end by evaluations without any: %s", error.message);
}

/* ---- Progress ---- */

typedef struct heard {
    icl_session_progress reports[MOST];
    size_t count;
} heard;

static void hear(void *user, const icl_session_progress *progress) {
    heard *messages = user;

    if (messages->count < MOST)
        messages->reports[messages->count++] = *progress;
}

/* Three starts of 400 / 4 steps are reported every 50 steps and counted together, with the time to the end of the
 * training that follows them; then the training's own three steps are reported. */
static void check_progress(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    enum { STARTS = 3, OF_EACH = 2, CHUNK = 50, ALL = STARTS * OF_EACH * CHUNK, OWN = 3 };
    static heard all;
    const session is = {.backend = backend,
                        .folder = scratch_path(scratch, "starts"),
                        .steps = "train.steps=3",
                        .overrides = {"train.horizon=400", "train.growth=0", "train.starts=3", "train.polish=off"},
                        .report = hear,
                        .user = &all};
    icl_error error = {0};
    uint64_t last = 0;
    size_t good = 0, own = 0;

    tap_status(tap, run_session(&is, &last, &error), &error, "three starts");
    for (size_t i = 0; i < all.count; i++) {
        const icl_session_progress *now = &all.reports[i];
        const double left = (double)(ALL - now->step + OWN) / now->steps_per_second;
        good += now->starts == STARTS && now->start == i / OF_EACH + 1 && now->step == (i + 1) * CHUNK &&
                now->total_steps == ALL && now->seconds_left == left;
        own += now->starts == 0 && now->start == 0 && now->total_steps == OWN &&
               now->seconds_left == (double)(OWN - now->step) / now->steps_per_second;
    }
    tap_ok(tap, good == (size_t)STARTS * OF_EACH && own > 0 && good + own == all.count,
           "%zu reports of starts and %zu of the training", good, own);
    scratch_remove(scratch_path(scratch, "starts"));
}

/* ---- metrics.csv ---- */

/* With a warm-up of four steps and a rate that halves at each step, step k, counted from 0, has 0.02 / 2^k, in the
 * warm-up times (k + 1) / 4. */
static double expected_rate(size_t k) {
    return 0.02 / pow(2, (double)k) * (k < 4 ? (double)(k + 1) / 4 : 1);
}

/* Each row has the learning rate of its own step. */
static void check_rates(tap_run *tap, icl_backend *backend, scratch_folder *scratch) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    char folder[512], *table = NULL;
    size_t good = 0, rows = 0;
    icl_error error = {0};
    icl_status status = make_recipe("train.steps=6", &recipe, &error);
    static const char *const overrides[] = {"train.warmup=4",       "train.learning_rate=0.02", "train.schedule=step",
                                            "train.step_every=1",   "train.step_factor=0.5",    "train.horizon=0",
                                            "train.metrics_every=1"};

    snprintf(folder, sizeof folder, "%s", scratch_path(scratch, "rates"));
    for (size_t i = 0; i < sizeof overrides / sizeof *overrides && status == ICL_OK; i++)
        status = icl_recipe_override(recipe, overrides[i], &error);
    const icl_session_params params = {.backend = backend, .folder = folder, .recipe = recipe};
    if (status == ICL_OK)
        status = icl_session_prepare(&params, &trainer, &error);
    if (status == ICL_OK)
        status = icl_run_create(folder, recipe, &error);
    if (status == ICL_OK)
        status = icl_session_train(&params, trainer, &error);
    if (status == ICL_OK)
        status = read_table(folder, &table, &error);
    tap_status(tap, status, &error, "six steps with rates that change");
    double columns[4] = {0}; /* step, loss, gradient norm, rate */
    for (const char *line = table ? strchr(table, '\n') : NULL; line && line[1];
         line = strchr(line + 1, '\n'), rows++) {
        char *at = (char *)line;
        for (size_t i = 0; i < 4 && *at; i++)
            columns[i] = strtod(at + 1, &at);
        tap_note("step %g: learning rate %g", columns[0], columns[3]);
        good += rows < 6 && columns[0] == (double)rows + 1 && fabs(columns[3] - expected_rate(rows)) < 1e-12;
    }
    tap_ok(tap, rows == 6 && good == 6, "every row has the rate of its own step");
    if (trainer)
        tap_ok(tap,
               (float)columns[1] == icl_trainer_losses(trainer, &rows)[rows - 1] &&
                   (float)columns[2] == icl_trainer_gradient_norms(trainer, &rows)[rows - 1],
               "the last one its loss %g and its gradient norm %g", columns[1], columns[2]);
    icl_free(&table);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    scratch_remove(scratch_path(scratch, "rates"));
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");
    scratch_folder scratch;
    char folder[512];
    icl_error error = {0};

    if (!backend)
        return tap_done(&tap);
    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "whole"));
    tap_status(&tap, train(backend, folder, "train.steps=10", false, &error), &error, "10 steps");
    check_snapshots(&tap, backend, folder, "in one piece");
    scratch_remove(scratch_path(&scratch, "whole"));

    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "parts"));
    tap_status(&tap, train(backend, folder, "train.steps=5", false, &error), &error, "5 steps");
    tap_status(&tap, train(backend, folder, "train.steps=10", true, &error), &error, "5 more");
    check_snapshots(&tap, backend, folder, "in two pieces");
    scratch_write(&scratch, "parts/metrics.csv", "step,loss\n", 10);
    tap_ok(&tap,
           train(backend, folder, "train.steps=12", true, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "parts/metrics.csv"),
           "metrics of another program are refused: %s", error.message);
    scratch_remove(scratch_path(&scratch, "parts"));
    check_ends(&tap, backend, &scratch);
    check_rates(&tap, backend, &scratch);
    check_progress(&tap, backend, &scratch);
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
