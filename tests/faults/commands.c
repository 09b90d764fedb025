/*
 * The test does all that eval --over, sweep, bench and devices do but print; command_lines.c has the commands whole.
 * Allocations fail, one for each path of calls that leads to one. Each time the outcome is an error of one line or that
 * of the undisturbed run, and nothing is held afterwards.
 */
#include "attempts.h"
#include "iclab/backend.h"
#include "iclab/bench.h"
#include "iclab/evaluation_grid.h"
#include "iclab/sweep.h"
#include "iclab/text.h"

#include "../core/scratch.h"

static const char settings[] = "task.d=2 task.n=3 model.layers=1 train.batch=4 train.slices=2 train.steps=2 "
                               "train.polish=off eval.sequences=2 eval.every=0 eval.fit_sequences=4";

typedef struct surroundings {
    char run[512], grid[512];
} surroundings;

static icl_status open_host(icl_backend **backend, icl_error *error) {
    return icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, backend, error);
}

/* ---- What is attempted; each leaves a text ---- */

static icl_status evaluate_grid(void *context, char **text, icl_error *error) {
    static const char *const over[] = {"task.n=3,4", "task.noise=fixed:0.5,fixed:1"};
    const surroundings *around = context;
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_evaluation_grid *grid = NULL;
    icl_evaluation_grid_texts texts = {0};
    char *name = NULL;
    icl_text all = {0};
    icl_status status = ICL_OK;

    ICL_TRY(fault_make_recipe(settings, &recipe, error));
    ICL_TRY(open_host(&backend, error));
    ICL_TRY(icl_evaluation_grid_create(recipe, over, 2, &grid, error));
    ICL_TRY(icl_evaluation_grid_name(grid, &name, error));
    ICL_TRY(
        icl_evaluation_grid_run(grid, &(icl_evaluation_grid_params){.backend = backend, .folder = around->run}, error));
    ICL_TRY(icl_evaluation_grid_write_texts(grid, &texts, error));
    ICL_TRY(icl_text_print(&all, error, "%s%s%s%s", name, texts.table, texts.csv, texts.json));
    *text = all.bytes;
    all = (icl_text){0};
done:
    icl_text_release(&all);
    icl_text_free(&name);
    icl_evaluation_grid_free_texts(&texts);
    icl_evaluation_grid_destroy(&grid);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

static icl_status tell_sweep(void *context, char **text, icl_error *error) {
    const surroundings *around = context;
    icl_sweep *sweep = NULL;
    icl_sweep_texts texts = {0};
    icl_sweep_points points = {0};
    icl_sweep_result results[8] = {{0}};
    icl_recipe *recipe = NULL;
    char *name = NULL;
    icl_text all = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_sweep_load(around->grid, &sweep, error));
    ICL_TRY(icl_sweep_cells(sweep) == 8 ? ICL_OK : icl_fail(error, ICL_ERROR_INPUT, "not eight cells"));
    for (size_t i = 0; i < 8; i++)
        results[i] = (icl_sweep_result){.finished = true, .steps = 2, .mse = 1 + (double)i, .se = .1, .final_loss = 2};
    ICL_TRY(icl_sweep_cell_name(sweep, 3, &name, error));
    ICL_TRY(icl_sweep_cell_recipe(sweep, 3, &recipe, error));
    ICL_TRY(icl_sweep_write_texts(sweep, results, &texts, error));
    ICL_TRY(icl_sweep_find_points(sweep, results, &points, error));
    ICL_TRY(icl_text_print(&all, error, "%s%s%s%s%s%s", name, texts.table, texts.cells_csv, texts.means_csv, texts.json,
                           texts.means_json));
    ICL_TRY(icl_text_print(&all, error, "%zu points, best %zu, %g", points.count, points.best, points.of[0].error));
    *text = all.bytes;
    all = (icl_text){0};
done:
    icl_text_release(&all);
    icl_text_free(&name);
    icl_recipe_destroy(&recipe);
    icl_sweep_free_texts(&texts);
    icl_sweep_free_points(&points);
    icl_sweep_destroy(&sweep);
    return status;
}

static icl_status count_row(void *user, const icl_bench_row *row, icl_error *error) {
    (void)row;
    (void)error;
    ++*(size_t *)user;
    return ICL_OK;
}

/* The times differ, and which rows there are does not. */
static icl_status measure(void *context, char **text, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_backend *backend = NULL;
    icl_text all = {0};
    size_t rows = 0;
    icl_status status = ICL_OK;

    (void)context;
    ICL_TRY(fault_make_recipe(settings, &recipe, error));
    ICL_TRY(open_host(&backend, error));
    const icl_bench_params params = {
        .device = backend, .recipe = recipe, .recipe_name = "tiny", .callback = count_row, .user = &rows};
    ICL_TRY(icl_bench(&params, error));
    ICL_TRY(icl_text_print(&all, error, "%zu rows", rows));
    *text = all.bytes;
    all = (icl_text){0};
done:
    icl_text_release(&all);
    icl_backend_close(&backend);
    icl_recipe_destroy(&recipe);
    return status;
}

/* A list of devices is whole, or there is none: each allocation fails that comes before a device is opened. */
static void check_devices(tap_run *tap) {
    icl_device *devices = NULL;
    size_t whole = 0, count = 0;
    unsigned reported = 0, cut = 0;
    icl_status status = ICL_ERROR_MEMORY;
    icl_error error = {0};

    if (!tap_status(tap, icl_devices_list(NULL, &devices, &whole, &error), &error, "devices"))
        return;
    icl_devices_free(&devices);
    for (uint64_t nth = 1; status == ICL_ERROR_MEMORY; nth++) {
        fault_arm(FAULT_ALLOCATION, nth, false);
        status = icl_devices_list(NULL, &devices, &count, &error);
        fault_disarm();
        reported += status == ICL_ERROR_MEMORY;
        cut += status == ICL_OK && count != whole;
        icl_devices_free(&devices);
    }
    tap_ok(tap, status == ICL_OK && reported > 0 && cut == 0, "%u faults reported before a list of all %zu devices",
           reported, whole);
}

int main(void) {
    static const char grid[] = "[sweep]\nrecipe = versatile\n\n[grid]\nmodel.layers = 1, 2\n"
                               "train.learning_rate = 0.1, 0.2\ntrain.seed = 1..2\n";
    tap_run tap = {0};
    surroundings around;
    scratch_folder scratch;
    icl_recipe *recipe = NULL;
    icl_error error = {0};

    scratch_open(&scratch);
    scratch_write(&scratch, "grid.ini", grid, sizeof grid - 1);
    snprintf(around.grid, sizeof around.grid, "%s", scratch_path(&scratch, "grid.ini"));
    snprintf(around.run, sizeof around.run, "%s", scratch_path(&scratch, "run"));
    if (tap_status(&tap, fault_make_recipe(settings, &recipe, &error), &error, "a recipe") &&
        tap_status(&tap, fault_make_run(around.run, recipe, &error), &error, "a run")) {
        fault_check_text(&tap, evaluate_grid, &around, FAULT_ALLOCATION, "a grid of evaluations");
        fault_check_text(&tap, tell_sweep, &around, FAULT_ALLOCATION, "texts of a sweep");
        fault_check_text(&tap, measure, &around, FAULT_ALLOCATION, "what a step takes");
        check_devices(&tap);
    }
    icl_recipe_destroy(&recipe);
    scratch_close(&scratch);
    return tap_done(&tap);
}
