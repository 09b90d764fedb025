/* Reads reports of sweeps back by heading and name: points and cells of the grid, the picture, and a cell's own
 * report. */
#include "iclab/session.h"
#include "report/report.h"
#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

enum { CELLS = 8, POINTS = 4 };

static const char by_seeds[] = "[sweep]\nrecipe = base.ini\n[grid]\ntrain.seed = 31, 13\n"
                               "task.noise = \"choice:1,2\", fixed:1\ntrain.learning_rate = 0.5, 0.25\n";
static const char alone[] = "[sweep]\nrecipe = base.ini\n[grid]\ntask.n = 6, 60, 600\n";

/* The words of the points, and the numbers of their cells. No two numbers are equal. */
static const char *const points[POINTS][2] = {
    {"choice:1,2", "0.5"}, {"choice:1,2", "0.25"}, {"fixed:1", "0.5"}, {"fixed:1", "0.25"}};
static const double halves[CELLS] = {4, 4.5, 3, 3.75, 1.5, 1.75, 2.5, 2.9375};
static const double losses[CELLS] = {20, 22, 23, 25, 26, 28, 29.5, 30.5};

static void plant(icl_sweep_result results[CELLS]) {
    for (int i = 0; i < CELLS; i++)
        results[i] = (icl_sweep_result){.finished = true,
                                        .steps = (uint64_t)(500 + i),
                                        .skipped_steps = (uint64_t)(70 + i),
                                        .final_loss = losses[i],
                                        .mse = 40.5 + 2 * i,
                                        .se = .0625 + i,
                                        .accuracy = (double)NAN,
                                        .adjusted = 2 * halves[i],
                                        .adjusted_se = .5625 + .25 * i,
                                        .seconds = 100 + i};
}

/* Loads the sweep of that file, and writes its report into the scratch folder; NULL after a failure. */
static char *write_report(tap_run *tap, scratch_folder *scratch, const char *file, size_t size,
                          const icl_sweep_result *results, icl_sweep **sweep) {
    icl_error error = {0};
    icl_status status;

    scratch_write(scratch, "sweep.ini", file, size);
    status = icl_sweep_load(scratch_path(scratch, "sweep.ini"), NULL, sweep, &error);
    if (status == ICL_OK)
        status = icl_sweep_report_write(
            &(icl_sweep_report){.folder = scratch->folder, .sweep = *sweep, .command_line = "iclab sweep it"}, results,
            &error);
    tap_status(tap, status, &error, "a sweep's report");
    return status == ICL_OK ? shown_file(scratch->folder, "report.html") : NULL;
}

/* Checks means over two seeds: if the two values are d apart, the standard error of their mean is d / 2. The last point
 * lost a cell. */
static void check_points(tap_run *tap, const char *html) {
    shown_table table = shown_html(html, "Points of the grid", NULL);

    tap_ok(tap, table.rows == 1 + POINTS && shown_column(&table, "accuracy") == SHOWN_COLUMNS,
           "a row for each point, without an accuracy");
    for (size_t i = 0; i < POINTS; i++) {
        const bool is_whole = i + 1 < POINTS;
        const double *half = halves + 2 * i, *loss = losses + 2 * i;
        char row[64];
        snprintf(row, sizeof row, "%s|%s", points[i][0], points[i][1]);
        shown_is(tap, &table, row, "seeds", "2");
        shown_is(tap, &table, row, "diverged", is_whole ? "0" : "1");
        shown_is_number(tap, &table, row, "half adjusted loss", is_whole ? (half[0] + half[1]) / 2 : half[0], 4);
        shown_is_number(tap, &table, row, "half adjusted loss>\u00b1", is_whole ? (half[1] - half[0]) / 2 : (double)NAN,
                        4);
        shown_is_number(tap, &table, row, "training loss at the end", is_whole ? (loss[0] + loss[1]) / 2 : loss[0], 4);
        shown_is(tap, &table, row, "(tone)", i == 2 ? "strong" : is_whole ? "" : "bad");
    }
    shown_is(tap, &table, "choice:1,2|0.5", "task.noise", "choice:1,2");
    shown_is(tap, &table, "choice:1,2|0.5", "train.learning_rate", "0.5");
    shown_table_release(&table);
}

/* Each cell has a row with its seed and its numbers; one cell has a report. */
static void check_cells(tap_run *tap, const char *html) {
    static const char *const seeds[] = {"31", "13"};
    shown_table table = shown_html(html, "Cells", NULL);

    tap_ok(tap, table.rows == 1 + CELLS, "a row for each cell");
    for (size_t i = 0; i < CELLS; i++) {
        const bool is_whole = i + 1 < CELLS;
        char row[64], expected[32];
        snprintf(row, sizeof row, "%s|%s|%s", points[i / 2][0], points[i / 2][1], seeds[i % 2]);
        shown_is(tap, &table, row, "seed", seeds[i % 2]);
        shown_is_number(tap, &table, row, "half adjusted loss", halves[i], 4);
        shown_is_number(tap, &table, row, "training loss at the end", losses[i], 4);
        snprintf(expected, sizeof expected, "%zu", 500 + i);
        shown_is(tap, &table, row, "steps", expected);
        snprintf(expected, sizeof expected, "%zu", 100 + i);
        shown_is(tap, &table, row, "seconds", expected);
        shown_is(tap, &table, row, "report", i == 3 ? "report" : is_whole ? "none" : "diverged");
        shown_is(tap, &table, row, "(link)", i == 3 ? "./noise-choice-1-2_learning_rate-0.25_seed-13/report.html" : "");
    }
    shown_table_release(&table);
}

/* The picture has words along x, and a curve for each value of the other key. */
static void check_picture(tap_run *tap, scratch_folder *scratch) {
    shown_figure *figure = shown_figure_read(scratch->folder, "errors");

    shown_axes_are(tap, figure, "task.noise", "half adjusted loss");
    tap_ok(tap,
           figure && figure->count == 2 && figure->x_names == 2 && strcmp(figure->x_name[0], points[0][0]) == 0 &&
               strcmp(figure->x_name[1], points[2][0]) == 0,
           "two curves over the two words of the first key");
    for (size_t i = 0; i + 1 < POINTS; i++) {
        const size_t place = i / 2;
        const double *half = halves + 2 * i, x = (double)place;
        char name[64];
        snprintf(name, sizeof name, "train.learning_rate = %s", points[i][1]);
        tap_ok(tap, shown_y(figure, name, x) == (half[0] + half[1]) / 2, "%s over %s", name, points[i][0]);
        tap_ok(tap, shown_bar(figure, name, x) == (half[1] - half[0]) / 2, "with its standard error");
    }
    shown_figure_free(&figure);
}

static void test_seeds(tap_run *tap, scratch_folder *scratch) {
    static const char cell[] = "noise-choice-1-2_learning_rate-0.25_seed-13";
    icl_sweep_result results[CELLS];
    icl_sweep *sweep = NULL;
    char lead[SHOWN_CELL], title[SHOWN_CELL], path[128];

    plant(results);
    results[CELLS - 1].diverged = true;
    (void)icl_folder_create(scratch_path(scratch, cell), NULL);
    snprintf(path, sizeof path, "%s/report.html", cell);
    scratch_write(scratch, path, "x", 1);
    char *html = write_report(tap, scratch, by_seeds, sizeof by_seeds - 1, results, &sweep);
    tap_ok(tap,
           strcmp(shown_element(html, "<p class=\"lead\">", lead),
                  "8 cells, 2 at each point of the grid. The best: task.noise = fixed:1, train.learning_rate = 0.5; "
                  "half adjusted loss 1.6250 \u00b1 0.1250.") == 0,
           "%s", lead);
    tap_ok(tap, strcmp(shown_element(html, "<h1>", title), "A sweep of base.ini") == 0, "%s", title);
    tap_ok(tap,
           strcmp(shown_element(html, "<figcaption>", lead),
                  "Bars are standard errors over seeds. Data: errors.csv; every cell: table.csv.") == 0,
           "%s", lead);
    check_points(tap, html);
    check_cells(tap, html);
    check_picture(tap, scratch);
    shown_table facts = shown_facts(html);
    shown_is(tap, &facts, "command", "value", "iclab sweep it");
    shown_is(tap, &facts, "recipe", "value", "base.ini");
    shown_table_release(&facts);
    icl_sweep_destroy(&sweep);
    free(html);
}

/* Tests a sweep over one key of numbers, without seeds or an oracle: the picture has errors on fresh sequences, with
 * those of the evaluation. */
static void test_alone(tap_run *tap, scratch_folder *scratch) {
    icl_sweep_result results[CELLS];
    icl_sweep *sweep = NULL;
    char lead[SHOWN_CELL];

    plant(results);
    for (size_t i = 0; i < CELLS; i++)
        results[i].adjusted = results[i].adjusted_se = (double)NAN;
    char *html = write_report(tap, scratch, alone, sizeof alone - 1, results, &sweep);
    shown_table table = shown_html(html, "Points of the grid", NULL), cells = shown_html(html, "Cells", NULL);
    shown_figure *figure = shown_figure_read(scratch->folder, "errors");
    tap_ok(tap,
           strstr(shown_element(html, "<p class=\"lead\">", lead),
                  "The best: task.n = 6; error on fresh sequences 40.5000 \u00b1 0.0625. 2 others are not clearly"),
           "%s", lead);
    shown_axes_are(tap, figure, "task.n", "error on fresh sequences");
    tap_ok(tap, figure && figure->log_x, "numbers of two decades stand on a logarithmic axis");
    for (size_t i = 0; i < 3; i++) {
        static const double n[] = {6, 60, 600};
        char row[16];
        snprintf(row, sizeof row, "%g", n[i]);
        shown_is_number(tap, &table, row, "error on fresh sequences", results[i].mse, 4);
        shown_is_number(tap, &table, row, "error on fresh sequences>\u00b1", results[i].se, 4);
        shown_is_number(tap, &table, row, "training loss at the end", results[i].final_loss, 4);
        shown_is(tap, &table, row, "seeds", "1");
        shown_is_number(tap, &cells, row, "error on fresh sequences", results[i].mse, 4);
        tap_ok(tap, shown_y(figure, "the model", n[i]) == results[i].mse, "the curve at %s", row);
        tap_ok(tap, shown_bar(figure, "the model", n[i]) == results[i].se, "and its bar");
    }
    shown_figure_free(&figure);
    shown_table_release(&table);
    shown_table_release(&cells);
    icl_sweep_destroy(&sweep);
    free(html);
}

/* A sweep over a task with classes shows a loss and the share of right answers; a cell that diverged has neither. */
static void test_accuracy(tap_run *tap, scratch_folder *scratch) {
    icl_sweep_result results[CELLS];
    icl_sweep *sweep = NULL;

    plant(results);
    for (int i = 0; i < CELLS; i++) {
        results[i].is_loss = true;
        results[i].adjusted = results[i].adjusted_se = (double)NAN;
        results[i].accuracy = .25 + .03125 * i;
    }
    results[CELLS - 1].diverged = true;
    results[CELLS - 1].accuracy = (double)NAN;
    char *html = write_report(tap, scratch, by_seeds, sizeof by_seeds - 1, results, &sweep);
    shown_table table = shown_html(html, "Points of the grid", NULL), cells = shown_html(html, "Cells", NULL);
    shown_is_number(tap, &table, "choice:1,2|0.25", "accuracy", (results[2].accuracy + results[3].accuracy) / 2, 4);
    shown_is_number(tap, &table, "fixed:1|0.25", "accuracy", results[6].accuracy, 4);
    shown_is_number(tap, &table, "fixed:1|0.25", "error on fresh sequences", results[6].mse, 4);
    shown_is_number(tap, &cells, "choice:1,2|0.25|13", "accuracy", results[3].accuracy, 4);
    shown_is_number(tap, &cells, "fixed:1|0.25|13", "accuracy", (double)NAN, 4);
    shown_is_number(tap, &cells, "fixed:1|0.25|31", "error on fresh sequences", results[6].mse, 4);
    shown_table_release(&table);
    shown_table_release(&cells);
    icl_sweep_destroy(&sweep);
    free(html);
}

/* If there are more curves than can be told apart, the first eight are shown, which the caption says. */
static void test_many(tap_run *tap, scratch_folder *scratch) {
    enum { RATES = 9 };
    static const char many[] = "[sweep]\nrecipe = base.ini\n[grid]\ntask.n = 6, 60\n"
                               "train.learning_rate = .1, .2, .3, .4, .5, .6, .7, .8, .9\n";
    icl_sweep_result results[2 * RATES];
    icl_sweep *sweep = NULL;
    char caption[SHOWN_CELL];

    for (int i = 0; i < 2 * RATES; i++)
        results[i] =
            (icl_sweep_result){.finished = true, .mse = 40.5 + 2 * i, .accuracy = (double)NAN, .adjusted = (double)NAN};
    char *html = write_report(tap, scratch, many, sizeof many - 1, results, &sweep);
    shown_figure *figure = shown_figure_read(scratch->folder, "errors");
    tap_ok(tap, figure && figure->count == RATES - 1 && shown_y(figure, "train.learning_rate = .8", 60) == 72.5,
           "eight curves");
    tap_ok(tap,
           strcmp(shown_element(html, "<figcaption>", caption),
                  "Bars are standard errors. Data: errors.csv; every cell: table.csv. The first 8 of 9 curves.") == 0,
           "%s", caption);
    shown_figure_free(&figure);
    icl_sweep_destroy(&sweep);
    free(html);
}

/* ---- A cell ---- */

static void check_cell(tap_run *tap, const char *html, const icl_sweep_result *result) {
    static const char *const facts[][2] = {{"command", "iclab sweep it"},
                                           {"recipe", "base.ini"},
                                           {"seed", "13"},
                                           {"steps", "503 (73 skipped; 0 sequences left out)"},
                                           {"this command trained for", "103 s, and 0 s to its first step"}};
    shown_table table = shown_html(html, "On fresh sequences", NULL), from = shown_facts(html);
    char lead[SHOWN_CELL], title[SHOWN_CELL];

    shown_is_number(tap, &table, "model", "mse", result->mse, 4);
    shown_is_number(tap, &table, "model", "mse>se", result->se, 4);
    shown_is_number(tap, &table, "model", "half_adjusted", result->adjusted / 2, 4);
    shown_is_number(tap, &table, "model", "half_adjusted>se", result->adjusted_se / 2, 4);
    tap_ok(tap, table.columns == 5 + 2, "and no column of what a cell does not keep");
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        shown_is(tap, &from, facts[i][0], "value", facts[i][1]);
    tap_ok(tap,
           strcmp(shown_element(html, "<p class=\"lead\">", lead),
                  "On 4321 fresh sequences the model's half_adjusted is 3.7500 \u00b1 0.6562.") == 0,
           "%s", lead);
    tap_ok(tap, strcmp(shown_element(html, "<h1>", title), "base.ini, seed 13, 503 steps") == 0, "%s", title);
    shown_table_release(&table);
    shown_table_release(&from);
}

static void test_cell(tap_run *tap, scratch_folder *scratch) {
    enum { CELL = 3 };
    icl_sweep_result results[CELLS];
    icl_sweep *sweep = NULL;
    icl_backend *backend = tap_open_device(tap, "cpu");
    char *html = NULL;
    icl_error error = {0};

    plant(results);
    scratch_write(scratch, "sweep.ini", by_seeds, sizeof by_seeds - 1);
    scratch_write(scratch, "metrics.csv", ICL_METRICS_HEADER "\n", sizeof ICL_METRICS_HEADER);
    if (tap_status(tap, icl_sweep_load(scratch_path(scratch, "sweep.ini"), NULL, &sweep, &error), &error, "a sweep")) {
        const icl_sweep_report report = {.folder = scratch->folder, .sweep = sweep, .command_line = "iclab sweep it"};
        tap_status(tap, icl_sweep_cell_report_write(&report, backend, CELL, scratch->folder, &results[CELL], &error),
                   &error, "a cell's report");
        html = shown_file(scratch->folder, "report.html");
        check_cell(tap, html, &results[CELL]);
    }
    free(html);
    icl_sweep_destroy(&sweep);
    icl_backend_close(&backend);
}

int main(void) {
    static const char base[] = "[task]\nd = 3\nn = 5\n[train]\nseed = 11\n[eval]\nseed = 17\nsequences = 4321\n";
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    scratch_write(&scratch, "base.ini", base, sizeof base - 1);
    test_seeds(&tap, &scratch);
    test_alone(&tap, &scratch);
    test_accuracy(&tap, &scratch);
    test_many(&tap, &scratch);
    test_cell(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
