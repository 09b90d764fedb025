/* Tests sessions with train.starts and train.polish: a run that is stopped among its starts, between its steps or
 * within its polish ends with the bits of one that is not; and a run that goes on does so from the result of its steps,
 * not of its polish. */
#include "iclab/session.h"

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "recipes.h"
#include "run/cell.h"
#include "tap.h"

#include "../core/scratch.h"

enum { STEPS = 24, SIZE = 18 };

typedef struct session {
    icl_backend *backend;
    const char *folder, *override;
    uint64_t stop_at; /* the step whose report sets the flag; STEPS: before the polish; 0: before all */
    bool stops, resume;
    volatile sig_atomic_t stop;
} session;

static void stop_there(void *user, const icl_session_progress *progress) {
    session *is = user;
    if (is->stops && progress->step >= is->stop_at)
        is->stop = 1;
}

static icl_status open_recipe(const char *override, icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(make_recipe("",
                        "task.d=3 task.n=6 task.noise=fixed:0 task.sampler=gram model.layers=2 "
                        "model.parameterization=sparse train.batch=64 train.starts=2 train.polish=on "
                        "train.steps=24 train.horizon=24 eval.every=0",
                        recipe, error));
    if (override)
        ICL_TRY(icl_recipe_override(*recipe, override, error));
done:
    return status;
}

/* Trains, or resumes. values [SIZE] receive the model's file, if there is one. */
static icl_status run(session *is, float *values, icl_error *error) {
    icl_session_params params = {.backend = is->backend,
                                 .folder = is->folder,
                                 .resume = is->resume,
                                 .stop = &is->stop,
                                 .report = stop_there,
                                 .user = is};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    is->stop = is->stops && is->stop_at == 0;
    ICL_TRY(open_recipe(is->override, &recipe, error));
    params.recipe = recipe;
    ICL_TRY(icl_session_prepare(&params, &trainer, error));
    if (!is->resume)
        ICL_TRY(icl_run_create(is->folder, recipe, error));
    ICL_TRY(icl_session_train(&params, trainer, error));
    ICL_TRY(icl_run_read_model(is->folder, icl_trainer_model(trainer), values, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static void check_stopped(tap_run *tap, session is, const float *whole, const char *name) {
    float values[SIZE] = {0};
    icl_error error = {0};

    is.stops = true;
    const icl_status stopped = run(&is, values, &error);
    tap_ok(tap, stopped == ICL_ERROR_INTERRUPTED, "stopped %s: %s", name, error.message);
    is.stops = false;
    is.resume = true;
    if (tap_status(tap, run(&is, values, &error), &error, "it goes on"))
        tap_ok(tap, memcmp(values, whole, sizeof values) == 0, "%s: the bits of a run in one piece", name);
}

/* Trains half of the steps with a polish, and then the other half: the first polish leaves no trace. */
static void check_extended(tap_run *tap, session is, const float *whole) {
    float values[SIZE] = {0};
    icl_error error = {0};

    is.override = "train.steps=12";
    if (!tap_status(tap, run(&is, values, &error), &error, "half of the steps"))
        return;
    tap_ok(tap, memcmp(values, whole, sizeof values) != 0, "are not yet the whole");
    is.override = NULL;
    is.resume = true;
    if (tap_status(tap, run(&is, values, &error), &error, "and the other half"))
        tap_ok(tap, memcmp(values, whole, sizeof values) == 0, "come to the bits of a run in one piece");
}

/* Checks that the override changes the model. */
static void check_differs(tap_run *tap, session is, const float *whole) {
    float values[SIZE] = {0};
    icl_error error = {0};

    if (tap_status(tap, run(&is, values, &error), &error, is.override))
        tap_ok(tap, memcmp(values, whole, sizeof values) != 0, "%s: another model", is.override);
}

static icl_status train_cell(icl_backend *backend, const char *folder, float *values, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(open_recipe(NULL, &recipe, error));
    const icl_cell_params params = {.session = {.backend = backend, .recipe = recipe, .folder = folder},
                                    .recipe_name = "test"};
    ICL_TRY(icl_cell_train(&params, &trainer, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* A finished cell returns its polished model at once. */
static void check_cell(tap_run *tap, icl_backend *backend, const char *folder, const float *whole) {
    float values[SIZE] = {0};
    double gradient = 0;
    icl_error error = {0};

    for (int time = 0; time < 2; time++)
        if (tap_status(tap, train_cell(backend, folder, values, &error), &error, time ? "again" : "as a cell"))
            tap_ok(tap, memcmp(values, whole, sizeof values) == 0, "the polished parameters");
    const icl_status status = icl_run_read_number(folder, "polish_gradient", &gradient, &error);
    tap_ok(tap, status == ICL_OK && gradient > 0, "run.json says how far from a stationary point they are: %.3g",
           gradient);
}

int main(void) {
    static const char *const names[] = {"whole", "starts", "steps", "polish", "half", "one", "off", "cell"};
    enum { RUNS = sizeof names / sizeof *names };
    char folders[RUNS][512];
    scratch_folder scratch;
    float whole[SIZE] = {0};
    session is = {0};
    icl_error error = {0};
    tap_run tap = {0};

    scratch_open(&scratch);
    for (size_t i = 0; i < RUNS; i++)
        snprintf(folders[i], sizeof folders[i], "%s", scratch_path(&scratch, names[i]));
    if (tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &is.backend, &error), &error,
                   "cpu opens")) {
        is.folder = folders[0];
        tap_status(&tap, run(&is, whole, &error), &error, "a run in one piece");
        for (size_t i = 1; i <= 3; i++) {
            is.folder = folders[i];
            is.stop_at = (i - 1) * STEPS / 2;
            check_stopped(&tap, is, whole, names[i]);
        }
        is.folder = folders[4];
        check_extended(&tap, is, whole);
        is.folder = folders[5];
        is.override = "train.starts=1";
        check_differs(&tap, is, whole);
        is.folder = folders[6];
        is.override = "train.polish=off";
        check_differs(&tap, is, whole);
        check_cell(&tap, is.backend, folders[7], whole);
    }
    icl_backend_close(&is.backend);
    scratch_close(&scratch);
    return tap_done(&tap);
}
