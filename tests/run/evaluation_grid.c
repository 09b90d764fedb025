/* Tests evaluation grids: each cell against icl_evaluate of the same recipe and against closed forms, the table on both
 * sides of a verdict, and refusals. */
#include "run/evaluation_grid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "../core/scratch.h"
#include "core/allocate.h"
#include "iclab/run.h"
#include "tap.h"

/* ---- A run ---- */

/* d = 2, sigma = 5, and a model of zeros, which predicts 0. */
static const char *const regression[] = {"task.d=2",
                                         "task.n=8",
                                         "task.noise=5",
                                         "model.layers=1",
                                         "model.parameterization=diag",
                                         "eval.predictors=ols",
                                         "eval.sequences=2000",
                                         "eval.fit_sequences=64"};

static icl_status make_run(icl_backend *backend, const char *folder, const char *const *settings, size_t count,
                           icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;
    icl_trainer *trainer = NULL;
    float *zeros = NULL;
    char path[600];

    snprintf(path, sizeof path, "%s/" ICL_RUN_MODEL, folder);
    ICL_TRY(icl_recipe_create_complete(recipe, error));
    for (size_t i = 0; i < count; i++)
        ICL_TRY(icl_recipe_override(*recipe, settings[i], error));
    ICL_TRY(icl_run_create(folder, *recipe, error));
    ICL_TRY(icl_trainer_create(backend, *recipe, &trainer, error));
    ICL_TRY(icl_allocate(icl_model_size(icl_trainer_model(trainer)), sizeof *zeros, "zeros", &zeros, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, zeros, error));
    ICL_TRY(icl_trainer_export(trainer, path, error));
done:
    icl_free(&zeros);
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status run_grid(icl_backend *backend, const char *folder, const icl_recipe *recipe, const char *over,
                           icl_evaluation_grid **grid, icl_error *error) {
    ICL_CHECK(icl_evaluation_grid_create(recipe, &over, 1, grid, error));
    return icl_evaluation_grid_run(*grid, &(icl_evaluation_grid_params){.backend = backend, .folder = folder}, error);
}

/* ---- Cells ---- */

static bool same_number(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static bool same_score(const icl_score *a, const icl_score *b) {
    bool same = strcmp(a->predictor, b->predictor) == 0 && a->position_count == b->position_count &&
                same_number(a->mse, b->mse) && same_number(a->se, b->se) && same_number(a->adjusted, b->adjusted);
    for (size_t s = 0; same && s < a->position_count; s++)
        same = a->positions[s].loss == b->positions[s].loss && a->positions[s].se == b->positions[s].se;
    return same;
}

/* Says whether a cell has the scores that `iclab eval RUN --set FIRST --set SECOND` would have. */
static bool cell_is(icl_backend *backend, const char *folder, const icl_recipe *recipe, const icl_evaluation_grid *grid,
                    size_t cell, const char *const settings[2], icl_error *error) {
    bool same = false;
    icl_status status = ICL_OK;
    icl_recipe *changed = NULL;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;

    ICL_TRY(icl_recipe_clone(recipe, &changed, error));
    for (size_t i = 0; i < 2; i++)
        if (settings[i])
            ICL_TRY(icl_recipe_override(changed, settings[i], error));
    ICL_TRY(icl_trained_load(backend, folder, changed, &trainer, error));
    ICL_TRY(icl_evaluate(backend, trainer, changed, &evaluation, error));
    same = evaluation->count == icl_evaluation_grid_predictors(grid);
    for (size_t i = 0; same && i < evaluation->count; i++)
        same = same_score(&evaluation->scores[i], icl_evaluation_grid_score(grid, cell, i));
done:
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&changed);
    return same;
}

/* With x and w standard normal, E (w^T x)^2 = d, and least squares is off by sigma^2 tr E (X^T X)^-1 =
 * sigma^2 d / (n - d - 1): 10 and 50/57 here, above and below the 2 of zeros. */
static void test_closed_forms(tap_run *tap, icl_backend *backend, const char *folder, const icl_recipe *recipe) {
    static const double expected[] = {50.0 / 5, 50.0 / 57};
    icl_evaluation_grid *grid = NULL;
    icl_evaluation_grid_texts texts = {0};
    icl_error error = {0};

    if (tap_status(tap, run_grid(backend, folder, recipe, "task.n=8,60", &grid, &error), &error, "one key") &&
        tap_status(tap, icl_evaluation_grid_write_texts(grid, &texts, &error), &error, "its texts")) {
        tap_ok(tap, icl_evaluation_grid_cells(grid) == 2 && icl_evaluation_grid_predictors(grid) == 2,
               "two cells of two predictors");
        for (size_t cell = 0; cell < 2; cell++) {
            const icl_score *model = icl_evaluation_grid_score(grid, cell, 0);
            const icl_score *ols = icl_evaluation_grid_score(grid, cell, 1);
            tap_ok(tap, fabs(model->mse - 2) < 5 * model->se, "n = %s: zeros lose d: %g +- %g",
                   icl_evaluation_grid_value(grid, cell, 0), model->mse, model->se);
            tap_ok(tap, fabs(ols->mse - expected[cell]) < 5 * ols->se,
                   "least squares loses sigma^2 d / (n - d - 1) = %g: %g +- %g", expected[cell], ols->mse, ols->se);
        }
        tap_ok(tap, strstr(texts.table, "  ols: in 1 of 2 cells (8)\n"), "the verdict names the cell");
        tap_ok(tap, strstr(texts.table, "2000 fresh sequences a cell"), "and the table its sequences");
        tap_ok(tap,
               strncmp(texts.csv, "\"task.n\",predictor,mse,se,", 25) == 0 && strstr(texts.csv, "\n\"60\",\"ols\","),
               "CSV");
        tap_ok(tap, strncmp(texts.json, "{\"task.n\":\"8\",\"predictor\":\"model\",\"mse\":", 40) == 0, "JSON");
        tap_ok(tap, texts.positions_csv[0] == '\0', "no positions where one is scored");
    }
    icl_evaluation_grid_free_texts(&texts);
    icl_evaluation_grid_destroy(&grid);
}

static void test_words(tap_run *tap, icl_backend *backend, const char *folder, const icl_recipe *recipe) {
    static const char *const over[][2] = {{"task.n=8,9", "  ols: everywhere\n"},
                                          {"task.n=60:61:1", "  ols: nowhere\n"}};

    for (size_t i = 0; i < 2; i++) {
        icl_evaluation_grid *grid = NULL;
        icl_evaluation_grid_texts texts = {0};
        icl_error error = {0};
        if (tap_status(tap, run_grid(backend, folder, recipe, over[i][0], &grid, &error), &error, over[i][0]) &&
            tap_status(tap, icl_evaluation_grid_write_texts(grid, &texts, &error), &error, "its texts"))
            tap_ok(tap, strstr(texts.table, over[i][1]), "the verdict on all cells");
        icl_evaluation_grid_free_texts(&texts);
        icl_evaluation_grid_destroy(&grid);
    }
}

static void test_two_keys(tap_run *tap, icl_backend *backend, const char *folder, const icl_recipe *recipe) {
    static const char *const cells[][2] = {{"task.noise=fixed:0.5", "task.n=6"},
                                           {"task.noise=fixed:0.5", "task.n=9"},
                                           {"task.noise=choice:1,3", "task.n=6"},
                                           {"task.noise=choice:1,3", "task.n=9"}};
    icl_evaluation_grid *grid = NULL;
    icl_evaluation_grid_texts texts = {0};
    icl_error error = {0};

    if (tap_status(tap,
                   run_grid(backend, folder, recipe, "task.noise=0.5,\"choice:1,3\", task.n = 6:9:3", &grid, &error),
                   &error, "two keys") &&
        tap_status(tap, icl_evaluation_grid_write_texts(grid, &texts, &error), &error, "their texts")) {
        for (size_t cell = 0; cell < 4; cell++)
            tap_ok(tap, cell_is(backend, folder, recipe, grid, cell, cells[cell], &error), "cell %s, %s is eval's",
                   cells[cell][0], cells[cell][1]);
        tap_ok(tap,
               icl_evaluation_grid_score(grid, 0, 1)->mse != icl_evaluation_grid_score(grid, 1, 1)->mse &&
                   icl_evaluation_grid_score(grid, 0, 1)->mse != icl_evaluation_grid_score(grid, 2, 1)->mse,
               "either key changes it");
        tap_ok(tap, strstr(texts.table, "\nthe model, with task.n across\ntask.noise"), "the model by both keys");
        tap_ok(tap, strstr(texts.csv, "\n\"choice:1,3\",\"9\",\"ols\","), "CSV, the last key fastest");
    }
    icl_evaluation_grid_free_texts(&texts);
    icl_evaluation_grid_destroy(&grid);
}

/* Tests a sequence model that is scored at every position. */
static void test_positions(tap_run *tap, icl_backend *backend, const char *folder) {
    static const char *const settings[] = {"task.family=dynamical-system",
                                           "task.hidden=2",
                                           "task.positions=6",
                                           "model.family=sequence",
                                           "model.layers=1",
                                           "model.width=4",
                                           "eval.sequences=50"};
    static const char *const cell[2] = {"task.process_noise=0.5", NULL};
    icl_recipe *recipe = NULL;
    icl_evaluation_grid *grid = NULL;
    icl_evaluation_grid_texts texts = {0};
    icl_error error = {0};

    if (tap_status(tap, make_run(backend, folder, settings, sizeof settings / sizeof *settings, &recipe, &error),
                   &error, "a run of a sequence model") &&
        tap_status(tap, run_grid(backend, folder, recipe, "task.process_noise=0.1,0.5", &grid, &error), &error,
                   "its grid") &&
        tap_status(tap, icl_evaluation_grid_write_texts(grid, &texts, &error), &error, "its texts")) {
        tap_ok(tap, cell_is(backend, folder, recipe, grid, 1, cell, &error), "a cell is eval's, at every position");
        tap_ok(tap,
               strncmp(texts.positions_csv, "\"task.process_noise\",predictor,position,mse,se,", 47) == 0 &&
                   strstr(texts.positions_csv, "\n\"0.5\",\"model\","),
               "positions.csv");
    }
    icl_evaluation_grid_free_texts(&texts);
    icl_evaluation_grid_destroy(&grid);
    icl_recipe_destroy(&recipe);
}

/* ---- Refusals ---- */

static void test_refusals(tap_run *tap, icl_backend *backend, const char *folder, const icl_recipe *recipe) {
    static const struct {
        const char *over, *says;
    } bad[] = {
        {"5,6", "expected section.key="},
        {"task.n", "expected section.key="},
        {"task.nn=5", "nearest known one is task.n"},
        {"model.layers=1,2", "trained with it"},
        {"train.steps=5", "trained with it"},
        {"task.n=", "at least one value"},
        {"task.n=5,", "none of them empty"},
        {"task.n=5,,task.noise=1", "none of them empty"},
        {"task.n=40:5:5", "leads from FIRST to LAST"},
        {"task.n=9..5", "smaller number first"},
        {"task.n=5:40:0", "step other than 0"},
        {"task.n=5,5", "listed twice"},
        {"task.n=0", "expected a whole number from 1"},
        {"task.noise=choice:1,3", "expected quotes"},
        {"task.n=5,task.n=6", "every key once"},
        {"task.n=5,task.noise=1,eval.seed=2", "one key or two"},
        {"task.n=1..1001", "1001 cells: expected 1 to 1000"},
        {"task.n=1..26,eval.seed=1..39", "1014 cells: expected 1 to 1000"},
        {"task.n=5,task.noise=1,loud", "cell task.n=5, task.noise=loud: --over: task.noise = loud: expected"},
        {"task.noise=fixed:-1", "cell task.noise=fixed:-1: "},
        {"task.rotate=false", "cell task.rotate=false: "},
        {"task.rotate=true", "task.covariance = identity does not read it"},
        {"task.d=2,3", "cell task.d=3: "},
        {"eval.predictors=ols,oracel", "cell eval.predictors=oracel: "},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        icl_evaluation_grid *grid = NULL;
        icl_error error = {0};
        tap_ok(tap,
               run_grid(backend, folder, recipe, bad[i].over, &grid, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, bad[i].says) && !strchr(error.message, '\n'),
               "%s: %s", bad[i].over, error.message);
        icl_evaluation_grid_destroy(&grid);
    }
}

/* Tests the largest grid that is accepted, and a key of the model that a grid may change. */
static void test_limits(tap_run *tap, const icl_recipe *recipe) {
    static const char *const good[] = {"task.n=1..1000", "model.loops=1,2"};

    for (size_t i = 0; i < 2; i++) {
        icl_evaluation_grid *grid = NULL;
        icl_error error = {0};
        tap_status(tap, icl_evaluation_grid_create(recipe, &good[i], 1, &grid, &error), &error, good[i]);
        icl_evaluation_grid_destroy(&grid);
    }
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");
    icl_recipe *recipe = NULL;
    icl_error error = {0};
    scratch_folder scratch;
    char folder[2][512];

    if (!backend)
        return tap_done(&tap);
    scratch_open(&scratch);
    for (int i = 0; i < 2; i++)
        snprintf(folder[i], sizeof folder[i], "%s", scratch_path(&scratch, i == 0 ? "regression" : "positions"));
    if (tap_status(&tap,
                   make_run(backend, folder[0], regression, sizeof regression / sizeof *regression, &recipe, &error),
                   &error, "a run")) {
        test_closed_forms(&tap, backend, folder[0], recipe);
        test_words(&tap, backend, folder[0], recipe);
        test_two_keys(&tap, backend, folder[0], recipe);
        test_refusals(&tap, backend, folder[0], recipe);
        test_limits(&tap, recipe);
    }
    test_positions(&tap, backend, folder[1]);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&backend);
    scratch_close(&scratch);
    return tap_done(&tap);
}
