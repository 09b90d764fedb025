/* Training sessions: snapshots are the models of their steps, of a run in one piece as of one that was stopped. */
#include "iclab/session.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "tap.h"

#include "scratch_run.h"

enum { MOST = 64 };

static icl_status make_recipe(const char *steps, icl_recipe **recipe, icl_error *error) {
    const char *const settings[] = {"task.d=3",
                                    "task.n=6",
                                    "model.layers=2",
                                    "model.parameterization=diag",
                                    "train.batch=32",
                                    "train.snapshot_every=4",
                                    "eval.every=0",
                                    "train.horizon=10",
                                    steps};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(recipe, error));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        ICL_TRY(icl_recipe_override(*recipe, settings[i], error));
done:
    return status;
}

/* A session of `steps`, new or going on. */
static icl_status train(icl_backend *backend, const char *folder, const char *steps, bool resume, icl_error *error) {
    icl_session_params params = {.backend = backend, .folder = folder, .resume = resume};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe(steps, &recipe, error));
    params.recipe = recipe;
    ICL_TRY(icl_session_prepare(&params, &trainer, error));
    if (!resume)
        ICL_TRY(icl_run_create(folder, recipe, error));
    ICL_TRY(icl_session_train(&params, trainer, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* The parameters after `steps` steps by the trainer alone, and as the snapshot has them. */
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
    scratch_remove_run(&scratch, "whole");

    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "parts"));
    tap_status(&tap, train(backend, folder, "train.steps=5", false, &error), &error, "5 steps");
    tap_status(&tap, train(backend, folder, "train.steps=10", true, &error), &error, "5 more");
    check_snapshots(&tap, backend, folder, "in two pieces");
    scratch_remove_run(&scratch, "parts");
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
