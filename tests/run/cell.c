/* Tests cells: a run folder is resumed only by the cell that it began as, and one that diverged is not trained
 * again. */
#include "run/cell.h"

#include "iclab/recipe.h"
#include "tap.h"

#include "../core/scratch.h"

enum { LAYERS = 2, SIZE = 4 * LAYERS };

/* Counts how often a training begins. */
static void count_begin(void *user, const char *folder, uint64_t step, uint64_t total_steps) {
    (void)folder, (void)step, (void)total_steps;
    ++*(int *)user;
}

static icl_status train(icl_backend *backend, const char *folder, const char *rate, const float *initial, int *begun,
                        icl_error *error) {
    const char *const settings[] = {
        "task.d=3",       "task.n=6",        "model.layers=2", "model.parameterization=diag",
        "train.batch=32", "train.steps=100", "eval.every=0",   rate};
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        ICL_TRY(icl_recipe_override(recipe, settings[i], error));
    ICL_TRY(icl_cell_train(&(icl_cell_params){.session = {.backend = backend, .recipe = recipe, .folder = folder},
                                              .initial = initial,
                                              .recipe_name = "cell",
                                              .begin = count_begin,
                                              .user = begun},
                           &trainer, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

static void test_origin(tap_run *tap, icl_backend *backend, const char *folder) {
    static const char rate[] = "train.learning_rate=0.01";
    float one[SIZE], other[SIZE];
    icl_error error = {0};
    int begun = 0;

    for (int i = 0; i < SIZE; i++) {
        one[i] = .01F * (float)(i + 1);
        other[i] = .02F;
    }
    tap_status(tap, train(backend, folder, rate, one, &begun, &error), &error, "from given parameters");
    tap_status(tap, train(backend, folder, rate, one, &begun, &error), &error, "from the same again");
    tap_ok(tap, begun == 1, "it was trained once: %d", begun);
    tap_ok(tap,
           train(backend, folder, rate, other, &begun, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "started from other parameters"),
           "from others: %s", error.message);
    tap_ok(tap, begun == 1, "which is refused before a step: %d", begun);
}

static void test_divergence(tap_run *tap, icl_backend *backend, const char *folder) {
    static const char rate[] = "train.learning_rate=1000000";
    icl_error error = {0};
    int begun = 0;

    tap_ok(tap, train(backend, folder, rate, NULL, &begun, &error) == ICL_ERROR_DIVERGED, "diverges: %s",
           error.message);
    tap_ok(tap, train(backend, folder, rate, NULL, &begun, &error) == ICL_ERROR_DIVERGED,
           "and still has the next time: %s", error.message);
    tap_ok(tap, begun == 1, "without training again: %d", begun);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");
    scratch_folder scratch;
    char folder[512];

    if (!backend)
        return tap_done(&tap);
    scratch_open(&scratch);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "grown"));
    test_origin(&tap, backend, folder);
    snprintf(folder, sizeof folder, "%s", scratch_path(&scratch, "diverged"));
    test_divergence(&tap, backend, folder);
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
