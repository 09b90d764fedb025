/* Tests a sweep's cells: the final loss is the mean over the last tenth of the rows, however few there are; and if
 * another worker finishes a cell between a worker's look at it and its claim, it is not trained again. */
#include <math.h>
#include <stdlib.h>

#include "core/allocate.h"
#include "core/file.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/run.h"
#include "run/sweep/sweep.h"
#include "tap.h"

#include "../core/scratch.h"

/* ---- Another worker, planted by the linker's --wrap ---- */

static char rival[512]; /* the result file that it writes as the claim is asked for; empty: no rival */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
icl_status __real_icl_lock_claim(const char *folder, const char *name, icl_lock **lock, icl_error *error);
icl_status __wrap_icl_lock_claim(const char *folder, const char *name, icl_lock **lock, icl_error *error);

icl_status __wrap_icl_lock_claim(const char *folder, const char *name, icl_lock **lock, icl_error *error) {
    static const char result[] =
        "{\"diverged\":false,\"steps\":5,\"skipped_steps\":2,\"final_loss\":42,\"mse\":3,\"se\":4,"
        "\"accuracy\":0.5,\"adjusted\":6,\"adjusted_se\":7,\"seconds\":8}\n";
    if (rival[0] != '\0')
        ICL_CHECK(icl_file_write(rival, result, strlen(result), error));
    return __real_icl_lock_claim(folder, name, lock, error);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* ---- One cell ---- */

static icl_status load(scratch_folder *scratch, int steps, icl_sweep **sweep, icl_error *error) {
    char text[256];

    snprintf(text, sizeof text, "[sweep]\nrecipe = base.ini\n[grid]\ntrain.steps = %d\n", steps);
    scratch_write(scratch, "sweep.ini", text, strlen(text));
    return icl_sweep_load(scratch_path(scratch, "sweep.ini"), NULL, sweep, error);
}

/* Returns the mean of the last `used` losses of metrics.csv; NaN unless it has `rows` rows. */
static double last_losses(const char *folder, size_t rows, size_t used, icl_error *error) {
    char *path = NULL, *text = NULL;
    double sum = 0;
    size_t size, row = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_path_join(folder, ICL_RUN_METRICS, &path, error));
    ICL_TRY(icl_file_read(path, 0, &text, &size, error));
    for (const char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n'), row++)
        if (row + used >= rows)
            sum += strtod(strchr(line + 1, ',') + 1, NULL) / (double)used;
done:
    icl_free(&path);
    icl_free(&text);
    return status == ICL_OK && row == rows ? sum : (double)NAN;
}

static void count_trainings(void *user, const char *text) {
    *(size_t *)user += strstr(text, ": training") != NULL;
}

static void remove_cell(scratch_folder *scratch, const char *name) {
    scratch_remove(scratch_path(scratch, name));
    scratch_remove(scratch_path(scratch, "claims"));
}

/* Works on a sweep of one cell; with a rival, the rival finishes the cell before the claim. */
static icl_status work(scratch_folder *scratch, icl_backend *backend, int steps, bool has_rival,
                       icl_sweep_result *result, size_t *trainings, double *expected, icl_error *error) {
    icl_sweep *sweep = NULL;
    char *name = NULL, folder[512];
    icl_status status = ICL_OK;

    *trainings = 0;
    ICL_TRY(load(scratch, steps, &sweep, error));
    ICL_TRY(icl_sweep_cell_name(sweep, 0, &name, error));
    snprintf(folder, sizeof folder, "%s", scratch_path(scratch, name));
    if (has_rival) {
        ICL_TRY(icl_folder_create(folder, error));
        snprintf(rival, sizeof rival, "%.480s/result.json", folder);
    }
    ICL_TRY(icl_sweep_work(
        &(icl_sweep_work_params){
            .sweep = sweep, .folder = scratch->folder, .backend = backend, .say = count_trainings, .user = trainings},
        error));
    ICL_TRY(icl_sweep_read_result(sweep, scratch->folder, 0, result, error));
    if (!has_rival)
        *expected = last_losses(folder, (size_t)steps, ((size_t)steps + 9) / 10, error);
done:
    rival[0] = '\0';
    if (name)
        remove_cell(scratch, name);
    icl_text_free(&name);
    icl_sweep_destroy(&sweep);
    return status;
}

int main(void) {
    static const char base[] =
        "[task]\nd = 3\nn = 5\n[model]\nlayers = 1\nparameterization = diag\n[train]\nbatch = 8\n"
        "warmup = 0\nmetrics_every = 1\n[eval]\nsequences = 64\nevery = 0\n";
    static const int steps[] = {1, 5, 9, 10, 11, 20, 21};
    tap_run tap = {0};
    scratch_folder scratch;
    icl_sweep_result result = {0};
    size_t trainings = 0;
    double expected = 0;
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");

    scratch_open(&scratch);
    scratch_write(&scratch, "base.ini", base, strlen(base));
    for (size_t i = 0; backend && i < sizeof steps / sizeof *steps; i++)
        if (tap_status(&tap, work(&scratch, backend, steps[i], false, &result, &trainings, &expected, &error), &error,
                       "a cell"))
            tap_ok(&tap, trainings == 1 && fabs(result.final_loss / expected - 1) < 1e-12,
                   "%d rows: the final loss is the mean of the last %d, %g", steps[i], (steps[i] + 9) / 10, expected);
    if (backend && tap_status(&tap, work(&scratch, backend, 5, true, &result, &trainings, &expected, &error), &error,
                              "a cell that another worker finishes"))
        tap_ok(&tap,
               trainings == 0 && result.finished && !result.diverged && result.steps == 5 &&
                   result.skipped_steps == 2 && result.final_loss == 42 && result.mse == 3 && result.se == 4 &&
                   result.accuracy == .5 && result.adjusted == 6 && result.adjusted_se == 7 && result.seconds == 8,
               "it is left as that worker left it: %zu trainings, final loss %g", trainings, result.final_loss);
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
