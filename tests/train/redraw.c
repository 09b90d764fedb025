/* Directions of favor that are redrawn before each step: they differ by step and by seed, are orthogonal, and are the
 * same with and without a checkpoint; fixed directions stay, and maps without directions are refused. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../core/scratch.h"
#include "core/allocate.h"
#include "iclab/iclab.h"
#include "iclab/status.h"
#include "tap.h"

enum { D = 4, M = 4, MOST_NUMBERS = 4096 };

typedef struct fixture {
    icl_recipe *recipe;
    icl_trainer *trainer;
    float values[MOST_NUMBERS];
} fixture;

static icl_status open_fixture(fixture *f, icl_backend *backend, const char *const *own, icl_error *error) {
    static const char *const all[] = {"task.family=associative",   "task.keys=4",    "task.writes=4",
                                      "model.family=fast-weights", "model.layers=1", "model.width=4",
                                      "model.feature_map=favor:4", "train.batch=8",  "train.steps=100",
                                      "train.schedule=constant",   "train.warmup=0", NULL};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&f->recipe, error));
    for (size_t i = 0; all[i]; i++)
        ICL_TRY(icl_recipe_override(f->recipe, all[i], error));
    for (size_t i = 0; own[i]; i++)
        ICL_TRY(icl_recipe_override(f->recipe, own[i], error));
    ICL_TRY(icl_trainer_create(backend, f->recipe, &f->trainer, error));
done:
    return status;
}

static void close_fixture(fixture *f) {
    icl_trainer_destroy(&f->trainer);
    icl_recipe_destroy(&f->recipe);
}

/* Runs some steps, and reads the parameters. */
static icl_status run_steps(fixture *f, size_t steps, icl_error *error) {
    if (steps > 0)
        ICL_CHECK(icl_trainer_run(f->trainer, steps, error));
    return icl_trainer_get_parameters(f->trainer, f->values, error);
}

static const float *directions(const fixture *f) {
    const icl_model *model = icl_trainer_model(f->trainer);
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strstr(icl_model_parameter(model, i)->name, "directions"))
            return f->values + icl_model_parameter(model, i)->offset;
    return NULL;
}

/* Trains `steps` steps in all, saved and restored before the last one if `is_restored`, and reads the parameters. */
static icl_status train(icl_backend *backend, const char *kind, const char *seed, size_t steps, bool is_restored,
                        fixture *f, icl_error *error) {
    const char *const own[] = {kind, seed, NULL};
    fixture first = {.recipe = NULL};
    scratch_folder scratch;
    icl_status status = ICL_OK;

    scratch_open(&scratch);
    ICL_TRY(open_fixture(f, backend, own, error));
    if (!is_restored) {
        status = run_steps(f, steps, error);
        goto done;
    }
    ICL_TRY(open_fixture(&first, backend, own, error));
    ICL_TRY(run_steps(&first, steps - 1, error));
    ICL_TRY(icl_trainer_save(first.trainer, scratch_path(&scratch, "checkpoint"), error));
    ICL_TRY(icl_trainer_restore(f->trainer, scratch.path, error));
    ICL_TRY(run_steps(f, 1, error));
done:
    close_fixture(&first);
    scratch_close(&scratch);
    return status;
}

static bool same(const fixture *a, const fixture *b) {
    return memcmp(directions(a), directions(b), sizeof(float) * D * M) == 0;
}

/* Returns the largest cosine between two columns. */
static double largest_cosine(const float *columns) {
    double largest = 0;

    for (size_t a = 0; a < M; a++)
        for (size_t b = 0; b < a; b++) {
            double product = 0, of_a = 0, of_b = 0;
            for (size_t i = 0; i < D; i++) {
                product += (double)columns[i * M + a] * (double)columns[i * M + b];
                of_a += (double)columns[i * M + a] * (double)columns[i * M + a];
                of_b += (double)columns[i * M + b] * (double)columns[i * M + b];
            }
            largest = fmax(largest, fabs(product) / sqrt(of_a * of_b));
        }
    return largest;
}

static void test_draws(tap_run *tap, icl_backend *backend) {
    static const struct {
        const char *kind, *seed;
        size_t steps;
        bool is_restored;
    } runs[] = {
        {"model.directions=drawn", "train.seed=1", 0, false}, {"model.directions=drawn", "train.seed=1", 3, false},
        {"model.directions=drawn", "train.seed=1", 4, false}, {"model.directions=drawn", "train.seed=2", 3, false},
        {"model.directions=drawn", "train.seed=1", 3, true},  {"model.directions=fixed", "train.seed=1", 3, false}};
    static fixture f[sizeof runs / sizeof *runs];
    icl_error error = {0};
    bool is_ready = true;

    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        is_ready =
            tap_status(tap,
                       train(backend, runs[i].kind, runs[i].seed, runs[i].steps, runs[i].is_restored, &f[i], &error),
                       &error, runs[i].kind) &&
            is_ready;
    if (is_ready) {
        const size_t size = icl_model_size(icl_trainer_model(f[1].trainer));
        tap_ok(tap, !same(&f[0], &f[1]) && !same(&f[1], &f[2]), "other directions at each step");
        tap_ok(tap, !same(&f[1], &f[3]), "and for each seed");
        tap_ok(tap, largest_cosine(directions(&f[1])) < 1e-5, "orthogonal: largest cosine %.2g",
               largest_cosine(directions(&f[1])));
        tap_ok(tap, memcmp(f[1].values, f[4].values, size * sizeof(float)) == 0, "a checkpoint changes no bit");
        tap_ok(tap, same(&f[0], &f[5]), "fixed ones stay");
        tap_ok(tap, memcmp(f[1].values, f[5].values, size * sizeof(float)) != 0, "and train another model");
    }
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        close_fixture(&f[i]);
}

static void test_refusal(tap_run *tap, icl_backend *backend) {
    static const char *const own[] = {"model.feature_map=dpfp:1", "model.directions=drawn", NULL};
    static fixture f;
    icl_error error = {0};

    tap_ok(tap, open_fixture(&f, backend, own, &error) == ICL_ERROR_INPUT && strstr(error.message, "favor:M"),
           "refused: %s", error.message);
    close_fixture(&f);
}

int main(int count, char **arguments) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, count > 1 ? arguments[1] : "cpu");

    if (backend) {
        test_draws(&tap, backend);
        test_refusal(&tap, backend);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
