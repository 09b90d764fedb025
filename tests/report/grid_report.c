/* Reads reports of evaluation grids back by heading and name: each number is the grid's own. */
#include "core/allocate.h"
#include "iclab/run.h"
#include "report/report.h"
#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

static const char *const regression[] = {"task.d=2",       "task.n=8",           "task.noise=fixed:1",
                                         "model.layers=1", "eval.sequences=300", "eval.predictors=ols,constrr",
                                         "train.seed=41",  "eval.seed=43",       NULL};
static const char *const sequence[] = {"task.family=dynamical-system",
                                       "task.hidden=2",
                                       "task.positions=4",
                                       "model.family=sequence",
                                       "model.layers=1",
                                       "model.width=4",
                                       "eval.sequences=50",
                                       "eval.predictors=all",
                                       NULL};

typedef struct fixture {
    scratch_folder scratch;
    icl_backend *backend;
    icl_recipe *recipe;
    icl_evaluation_grid *grid;
    char *html;
} fixture;

static icl_status make_run(fixture *f, const char *const *settings, icl_error *error) {
    icl_trainer *trainer = NULL;
    char path[512];
    icl_status status = ICL_OK;

    snprintf(path, sizeof path, "%s/" ICL_RUN_MODEL, f->scratch.folder);
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &f->backend, error));
    ICL_TRY(icl_recipe_create_complete(&f->recipe, error));
    for (; *settings; settings++)
        ICL_TRY(icl_recipe_override(f->recipe, *settings, error));
    ICL_TRY(icl_run_create(f->scratch.folder, f->recipe, error));
    ICL_TRY(icl_trainer_create(f->backend, f->recipe, &trainer, error));
    ICL_TRY(icl_trainer_export(trainer, path, error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* Evaluates an untrained model over the values of the keys, and writes the report. */
static bool open_fixture(tap_run *tap, fixture *f, const char *const *settings, const char *over) {
    const icl_run_facts facts = {.recipe_name = "recipes/a.ini", .command_line = "iclab eval it", .seed = 47};
    icl_error error = {0};
    icl_status status = ICL_OK;

    scratch_open(&f->scratch);
    ICL_TRY(make_run(f, settings, &error));
    ICL_TRY(icl_evaluation_grid_create(f->recipe, &over, 1, &f->grid, &error));
    ICL_TRY(icl_evaluation_grid_run(
        f->grid, &(icl_evaluation_grid_params){.backend = f->backend, .folder = f->scratch.folder}, &error));
    ICL_TRY(icl_grid_report_write(&(icl_grid_report){.folder = f->scratch.folder, .grid = f->grid, .facts = &facts},
                                  &error));
    f->html = shown_file(f->scratch.folder, ICL_REPORT_FILE);
done:
    return tap_status(tap, status, &error, over);
}

static void close_fixture(fixture *f) {
    free(f->html);
    icl_evaluation_grid_destroy(&f->grid);
    icl_recipe_destroy(&f->recipe);
    icl_backend_close(&f->backend);
    scratch_close(&f->scratch);
}

/* ---- Numbers of the grid ---- */

/* Checks a row of the table: each predictor's loss, and one standard error, the model's. */
static void check_row(tap_run *tap, const fixture *f, const shown_table *table, size_t cell, const char *row) {
    shown_is_number(tap, table, row, "model>\u00b1", icl_evaluation_grid_score(f->grid, cell, 0)->se, 4);
    for (size_t i = 0; i < icl_evaluation_grid_predictors(f->grid); i++)
        shown_is_number(tap, table, row, icl_evaluation_grid_predictor(f->grid, i),
                        icl_evaluation_grid_score(f->grid, cell, i)->mse, 4);
}

static void check_words(tap_run *tap, const fixture *f, const char *title, const char *lead) {
    shown_table facts = shown_facts(f->html);
    char text[SHOWN_CELL];

    tap_ok(tap, strcmp(shown_element(f->html, "<h1>", text), title) == 0, "%s", text);
    tap_ok(tap, strcmp(shown_element(f->html, "<p class=\"lead\">", text), lead) == 0, "%s", text);
    shown_is(tap, &facts, "command", "value", "iclab eval it");
    shown_is(tap, &facts, "recipe", "value", "recipes/a.ini");
    shown_is(tap, &facts, "seed of training", "value", "47");
    shown_table_release(&facts);
}

/* ---- One key ---- */

/* Tests values that are numbers after a word that all of them share. */
static void test_one_key(tap_run *tap) {
    static const char *const noises[] = {"fixed:0.5", "fixed:2", "fixed:30"};
    static const double x[] = {.5, 2, 30};
    fixture f = {0};

    if (open_fixture(tap, &f, regression, "task.noise=fixed:0.5,fixed:2,fixed:30")) {
        shown_table table = shown_html(f.html, "Losses", NULL);
        shown_figure *figure = shown_figure_read(f.scratch.folder, "loss");
        check_words(tap, &f, "a.ini over task.noise",
                    "The trained model and the reference predictors on 3 tasks, 300 fresh sequences of each.");
        shown_axes_are(tap, figure, "task.noise = fixed:", "squared error (squares of y's unit)");
        tap_ok(tap, figure && figure->count == icl_evaluation_grid_predictors(f.grid) && figure->log_x,
               "a curve for each predictor");
        for (size_t cell = 0; cell < 3; cell++) {
            check_row(tap, &f, &table, cell, noises[cell]);
            for (size_t i = 0; i < icl_evaluation_grid_predictors(f.grid); i++) {
                const icl_score *score = icl_evaluation_grid_score(f.grid, cell, i);
                const char *name = icl_evaluation_grid_predictor(f.grid, i);
                tap_ok(tap, shown_y(figure, name, x[cell]) == score->mse, "%s at %g", name, x[cell]);
                if (i == 0)
                    tap_ok(tap, shown_bar(figure, name, x[cell]) == score->se, "its bar at %g", x[cell]);
            }
        }
        tap_ok(tap,
               strcmp(shown_curve(figure, "model")->style, "yerrorlines") == 0 &&
                   strcmp(shown_curve(figure, "ols")->style, "lines") == 0,
               "marks and bars are the model's");
        shown_figure_free(&figure);
        shown_table_release(&table);
    }
    close_fixture(&f);
}

/* A loss far below the model's, here of least squares without noise, is cut off; the model's own never is. */
static void test_range(tap_run *tap) {
    fixture f = {0};

    if (open_fixture(tap, &f, regression, "task.noise=fixed:0,fixed:3000")) {
        shown_figure *figure = shown_figure_read(f.scratch.folder, "loss");
        const double model = icl_evaluation_grid_score(f.grid, 0, 0)->mse, exact = shown_y(figure, "ols", 0);
        const double largest = shown_y(figure, "model", 3000), low = figure ? figure->y_range[0] : 0;
        tap_ok(tap, model < 1e-6 * largest && model > low, "the model's least loss, %g of %g, is above %g", model,
               largest, low);
        tap_ok(tap, exact < 1e-6 * model && exact < low, "that of least squares, %g, is not", exact);
        shown_figure_free(&figure);
    }
    close_fixture(&f);
}

/* ---- Two keys ---- */

static void test_two_keys(tap_run *tap) {
    static const char *const n[] = {"5", "9", "14"}, *const noises[] = {"choice:1,2", "fixed:3"};
    fixture f = {0};

    if (open_fixture(tap, &f, regression, "task.noise=\"choice:1,2\",fixed:3,task.n=5,9,14")) {
        shown_table table = shown_html(f.html, "Losses", NULL);
        shown_figure *map = shown_figure_read(f.scratch.folder, "map");
        shown_figure *figure = shown_figure_read(f.scratch.folder, "loss");
        check_words(tap, &f, "a.ini over task.noise and task.n",
                    "The trained model and the reference predictors on 6 tasks, 300 fresh sequences of each.");
        shown_axes_are(tap, map, "task.n", "task.noise");
        tap_ok(tap, map && strcmp(map->value_label, "squared error (squares of y's unit)") == 0,
               "what its colours are");
        shown_axes_are(tap, figure, "task.noise", "squared error (squares of y's unit)");
        for (size_t cell = 0; cell < 6; cell++) {
            const icl_score *score = icl_evaluation_grid_score(f.grid, cell, 0);
            const size_t place = cell / 3;
            char row[64], name[64];
            snprintf(row, sizeof row, "%s|%s", noises[place], n[cell % 3]);
            snprintf(name, sizeof name, "task.n = %s", n[cell % 3]);
            check_row(tap, &f, &table, cell, row);
            tap_ok(tap, shown_value(map, "", noises[place], n[cell % 3]) == score->mse, "on the map, too");
            tap_ok(tap, shown_y(figure, name, (double)place) == score->mse, "and on the curve %s", name);
            tap_ok(tap, shown_bar(figure, name, (double)place) == score->se, "with its standard error");
        }
        tap_ok(tap, figure && figure->x_names == 2 && strcmp(figure->x_name[1], "fixed:3") == 0, "over words");
        shown_figure_free(&figure);
        shown_figure_free(&map);
        shown_table_release(&table);
    }
    close_fixture(&f);
}

/* ---- Positions ---- */

static void test_positions(tap_run *tap) {
    static const char *const names[] = {"task.process_noise = 0.1", "task.process_noise = 0.5"};
    fixture f = {0};

    if (open_fixture(tap, &f, sequence, "task.process_noise=0.1,0.5")) {
        shown_figure *figure = shown_figure_read(f.scratch.folder, "curves");
        shown_axes_are(tap, figure, "position", "squared error (squares of y's unit)");
        for (size_t cell = 0; cell < 2; cell++) {
            const icl_score *score = icl_evaluation_grid_score(f.grid, cell, 0);
            tap_ok(tap, score->position_count > 1, "several positions");
            for (size_t i = 0; i < score->position_count; i++) {
                const double position = (double)score->positions[i].position;
                tap_ok(tap, shown_y(figure, names[cell], position) == score->positions[i].loss, "%s at %g", names[cell],
                       position);
                tap_ok(tap, shown_bar(figure, names[cell], position) == score->positions[i].se, "and its bar");
            }
        }
        shown_figure_free(&figure);
    }
    close_fixture(&f);
}

int main(void) {
    tap_run tap = {0};

    test_one_key(&tap);
    test_range(&tap);
    test_two_keys(&tap);
    test_positions(&tap);
    return tap_done(&tap);
}
