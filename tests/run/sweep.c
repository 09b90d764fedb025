/* Tests sweeps: lists of values, the grid's order, names and results of cells, and their table. */
#include "run/sweep/sweep.h"

#include <math.h>

#include "core/allocate.h"
#include "run/sweep/grid.h"
#include "tap.h"

#include "../core/scratch.h"

/* ---- Lists ---- */

static void test_lists(tap_run *tap) {
    static const struct {
        const char *text, *joined; /* by '|' */
    } good[] = {
        {"1", "1"},
        {" 1 ,2,  3 ", "1|2|3"},
        {"1..3", "1|2|3"},
        {"0, 7..9, 20", "0|7|8|9|20"},
        {"5..5", "5"},
        {"18446744073709551614..18446744073709551615", "18446744073709551614|18446744073709551615"},
        {"\"choice:1,3\", uniform:5", "choice:1,3|uniform:5"},
        {"\"a\"", "a"},
        {"1.5, 1e-3, .5..1", "1.5|1e-3|.5..1"},
        {"5:40:5", "5|10|15|20|25|30|35|40"},
        {"5:9:3", "5|8"},
        {"0:1:0.25", "0|0.25|0.5|0.75|1"},
        {"-.3:.3:.1", "-0.3|-0.2|-0.1|0|0.1|0.2|0.3"},
        {"3:1:-1, 7", "3|2|1|7"},
        {"2:2:5", "2"},
        {"fixed:0:1:0.5, uniform:5", "fixed:0|fixed:0.5|fixed:1|uniform:5"},
        {"a:b:c, 1:2", "a:b:c|1:2"},
    };
    static const char *const bad[] = {"",
                                      " ",
                                      ",",
                                      "1,",
                                      "1,,2",
                                      "\"a",
                                      "\"\"",
                                      "3..1",
                                      "\"a\" b",
                                      "1..10001",
                                      "0..18446744073709551615",
                                      "5:40:0",
                                      "40:5:5",
                                      "5:40:-5",
                                      "0:10000:1",
                                      "1:2:1e-300",
                                      "choice:1,3",
                                      "fixed:0:1:1, 3"};

    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        char joined[256] = "";
        icl_list list = {0};
        icl_error error = {0};
        const icl_status status = icl_list_parse(good[i].text, &list, &error);
        for (size_t k = 0; k < list.count; k++)
            snprintf(joined + strlen(joined), sizeof joined - strlen(joined), "%s%s", k > 0 ? "|" : "", list.values[k]);
        tap_ok(tap, status == ICL_OK && strcmp(joined, good[i].joined) == 0, "%s: %s", good[i].text, joined);
        icl_list_clear(&list);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        icl_list list = {0};
        icl_error error = {0};
        tap_ok(tap, icl_list_parse(bad[i], &list, &error) == ICL_ERROR_INPUT, "'%s': %s", bad[i], error.message);
        icl_list_clear(&list);
    }
}

/* ---- The grid ---- */

static const char text[] = "[sweep]\nrecipe = base.ini\n[set]\ntrain.steps = 7\n"
                           "[grid]\ntrain.seed = 3, 1\ntask.noise = \"choice:1,2\", fixed:1\n"
                           "train.learning_rate = 0.5\n";

static bool cell_is(const icl_sweep *sweep, size_t cell, const char *name, double rate, uint64_t seed) {
    char *own = NULL;
    icl_recipe *recipe = NULL;
    const bool made = icl_sweep_cell_name(sweep, cell, &own, NULL) == ICL_OK &&
                      icl_sweep_cell_recipe(sweep, cell, &recipe, NULL) == ICL_OK;
    const bool good = made && strcmp(own, name) == 0 && icl_recipe_number(recipe, "train", "learning_rate") == rate &&
                      icl_recipe_count(recipe, "train", "seed") == seed &&
                      icl_recipe_count(recipe, "train", "steps") == 7 && /* [set] */
                      icl_recipe_count(recipe, "task", "d") == 3;        /* the recipe */
    tap_note("%s", own ? own : "no name");
    icl_free(&own);
    icl_recipe_destroy(&recipe);
    return good;
}

static void test_grid(tap_run *tap, const icl_sweep *sweep) {
    tap_ok(tap, icl_sweep_cells(sweep) == 4 && icl_sweep_axes(sweep) == 3 && icl_sweep_seeds(sweep) == 2,
           "four cells, three axes, two seeds");
    tap_ok(tap,
           strcmp(icl_sweep_axis(sweep, 0), "task.noise") == 0 &&
               strcmp(icl_sweep_axis(sweep, 1), "train.learning_rate") == 0 &&
               strcmp(icl_sweep_axis(sweep, 2), "train.seed") == 0,
           "axes as the recipe's keys are ordered, the seed last");
    tap_ok(tap, strcmp(icl_sweep_value(sweep, 1, 0), "choice:1,2") == 0, "quotes are gone");
    tap_ok(tap, cell_is(sweep, 0, "noise-choice-1-2_learning_rate-0.5_seed-3", 0.5, 3), "the first cell");
    tap_ok(tap, cell_is(sweep, 1, "noise-choice-1-2_learning_rate-0.5_seed-1", 0.5, 1), "seeds go fastest");
    tap_ok(tap, cell_is(sweep, 3, "noise-fixed-1_learning_rate-0.5_seed-1", 0.5, 1), "the last cell");
}

/* Tests values whose names differ only in the hash. */
static void test_long_names(tap_run *tap, scratch_folder *scratch) {
    char list[2][400], file[4096], *names[2] = {NULL, NULL};
    icl_sweep *sweep = NULL;
    icl_error error = {0};

    for (int i = 0; i < 2; i++) {
        snprintf(list[i], sizeof list[i], "spectrum:1");
        while (strlen(list[i]) < 380)
            strcat(list[i], ",1");
        strcat(list[i], i == 0 ? ",2" : ",3");
    }
    snprintf(file, sizeof file,
             "[sweep]\nrecipe = base.ini\n[grid]\ntask.covariance = \"%.150s\n %.100s\n %.100s\n %s\",\n "
             "\"%.150s\n %.100s\n "
             "%.100s\n %s\"\n",
             list[0], list[0] + 150, list[0] + 250, list[0] + 350, list[1], list[1] + 150, list[1] + 250,
             list[1] + 350);
    scratch_write(scratch, "long.ini", file, strlen(file));
    if (tap_status(tap, icl_sweep_load(scratch_path(scratch, "long.ini"), NULL, &sweep, &error), &error,
                   "values of 380 characters")) {
        for (size_t i = 0; i < 2; i++)
            tap_status(tap, icl_sweep_cell_name(sweep, i, &names[i], &error), &error, "its name");
        if (names[0] && names[1])
            tap_ok(tap, strlen(names[0]) < 200 && strcmp(names[0], names[1]) != 0, "%s, %s", names[0], names[1]);
    }
    icl_free(&names[0]);
    icl_free(&names[1]);
    icl_sweep_destroy(&sweep);
}

/* ---- The table ---- */

static bool has_line(const char *lines, const char *line) {
    const char *found = strstr(lines, line);
    return found && (found == lines || found[-1] == '\n') && found[strlen(line)] == '\n';
}

/* Two points have two seeds each. The error is half of the adjusted loss if all cells have one, and a point with a cell
 * that diverged is never best, however small the errors of its others. */
static void test_points(tap_run *tap, const icl_sweep *sweep) {
    icl_sweep_result results[4];
    icl_sweep_points points = {0};
    icl_error error = {0};

    for (int i = 0; i < 4; i++)
        results[i] = (icl_sweep_result){.finished = true,
                                        .final_loss = 1,
                                        .mse = 10 * (i + 1),
                                        .se = .5,
                                        .adjusted = 8 - 2 * i,
                                        .adjusted_se = .25};
    if (tap_status(tap, icl_sweep_find_points(sweep, results, &points, &error), &error, "points"))
        tap_ok(tap,
               points.count == 2 && points.is_adjusted && points.best == 1 && points.of[1].cell == 2 &&
                   points.of[0].error == 3.5 && points.of[0].se == .5 && points.of[1].error == 1.5,
               "the least distance to the oracle is best: %g and %g", points.of[0].error, points.of[1].error);
    tap_ok(tap, points.close == 0, "the other is worse by 2 with a standard error of %g", hypot(.5, .5));
    icl_sweep_free_points(&points);
    results[0].adjusted = 6.5; /* means 3.125 and 1.5, errors .125 and .5: 1.625 apart, 3.15 errors */
    results[3].adjusted = -2;  /* means 3.125 and .5, errors .125 and 1.5: 1.74 errors apart */
    if (tap_status(tap, icl_sweep_find_points(sweep, results, &points, &error), &error, "points within errors"))
        tap_ok(tap, points.best == 1 && points.close == 1, "the other is not clearly worse: %g +- %g and %g +- %g",
               points.of[0].error, points.of[0].se, points.of[1].error, points.of[1].se);
    icl_sweep_free_points(&points);
    results[0].adjusted = 8;
    results[3].adjusted = 2;
    results[0].adjusted = (double)NAN;
    if (tap_status(tap, icl_sweep_find_points(sweep, results, &points, &error), &error, "one without it"))
        tap_ok(tap, !points.is_adjusted && points.best == 0 && points.of[0].error == 15 && points.of[0].se == 5,
               "makes it the error on fresh sequences: %g", points.of[0].error);
    icl_sweep_free_points(&points);
    results[1].diverged = true;
    if (tap_status(tap, icl_sweep_find_points(sweep, results, &points, &error), &error, "one that diverged"))
        tap_ok(tap,
               points.best == 1 && points.of[0].diverged == 1 && points.of[0].error == 10 && isnan(points.of[0].se),
               "is left out of its mean, and its point is not best");
    icl_sweep_free_points(&points);
    results[3].diverged = true;
    if (tap_status(tap, icl_sweep_find_points(sweep, results, &points, &error), &error, "one at every point"))
        tap_ok(tap, points.best == points.count, "leaves none that is best");
    icl_sweep_free_points(&points);
}

/* A point of one seed has the error and the standard error of its cell's evaluation, half of both if they are those of
 * the adjusted loss. */
static void test_one_seed(tap_run *tap, scratch_folder *scratch) {
    static const char file[] = "[sweep]\nrecipe = base.ini\n[grid]\ntask.noise = fixed:1, fixed:2\n";
    icl_sweep_result results[2] = {{.finished = true, .mse = 3, .se = .75, .adjusted = 8, .adjusted_se = 5},
                                   {.finished = true, .mse = 7, .se = .5, .adjusted = 2, .adjusted_se = .25}};
    icl_sweep_points points = {0};
    icl_sweep *sweep = NULL;
    icl_error error = {0};

    scratch_write(scratch, "one.ini", file, strlen(file));
    if (tap_status(tap, icl_sweep_load(scratch_path(scratch, "one.ini"), NULL, &sweep, &error), &error, "one seed")) {
        if (tap_status(tap, icl_sweep_find_points(sweep, results, &points, &error), &error, "its points"))
            tap_ok(tap,
                   points.of[0].error == 4 && points.of[0].se == 2.5 && points.of[1].error == 1 &&
                       points.of[1].se == .125 && points.best == 1 && points.close == 1,
                   "half of the adjusted loss: %g +- %g and %g +- %g", points.of[0].error, points.of[0].se,
                   points.of[1].error, points.of[1].se);
        icl_sweep_free_points(&points);
        results[0].adjusted = (double)NAN;
        if (tap_status(tap, icl_sweep_find_points(sweep, results, &points, &error), &error, "points without it"))
            tap_ok(tap,
                   points.of[0].error == 3 && points.of[0].se == .75 && points.of[1].error == 7 &&
                       points.of[1].se == .5 && points.best == 0 && points.close == 0,
                   "the error on fresh sequences: %g +- %g and %g +- %g", points.of[0].error, points.of[0].se,
                   points.of[1].error, points.of[1].se);
        icl_sweep_free_points(&points);
    }
    icl_sweep_destroy(&sweep);
}

/* Cells of two seeds each: 1 and 3; 2 and one that diverged. */
static void test_table(tap_run *tap, const icl_sweep *sweep) {
    const double nan = (double)NAN;
    const icl_sweep_result results[] = {
        {true, false, 7, 0, 1, 10, 0.5, nan, 1, 0.25, 2, false},
        {true, false, 7, 1, 3, 30, 0.5, nan, nan, nan, 2, false},
        {true, false, 7, 0, 2, 20, 0.5, nan, 2, 0.25, 2, false},
        {true, true, 0, 0, nan, nan, nan, nan, nan, nan, 1, false},
    };
    icl_sweep_texts texts = {0};
    icl_error error = {0};

    if (!tap_status(tap, icl_sweep_write_texts(sweep, results, &texts, &error), &error, "a table"))
        return;
    printf("# %.*s …\n", (int)strcspn(texts.table, "\n"), texts.table);
    tap_ok(tap, has_line(texts.cells_csv, "\"choice:1,2\",0.5,3,7,0,0,1,10,0.5,0.5,0.125,2"), "CSV: a cell");
    tap_ok(tap, has_line(texts.cells_csv, "fixed:1,0.5,1,0,0,1,,,,,,1"), "CSV: one that diverged");
    tap_ok(tap, has_line(texts.means_csv, "\"choice:1,2\",0.5,2,0,2,1,20,10,,"),
           "CSV: means with standard errors sd / sqrt(n), and none of what is not there");
    tap_ok(tap, has_line(texts.means_csv, "fixed:1,0.5,2,1,2,,20,,1,"),
           "CSV: one that diverged is left out, and counted");
    tap_ok(tap,
           strstr(texts.json, "{\"cell\":\"noise-fixed-1_learning_rate-0.5_seed-1\",\"task.noise\":\"fixed:1\"") &&
               strstr(texts.means_json, "\"mean_mse\":20,\"se_mse\":10,\"mean_half_adjusted\":null"),
           "JSON: cells and means");
    tap_ok(tap, strstr(texts.table, "means over seeds") != NULL, "for people: both tables");
    icl_sweep_free_texts(&texts);
}

/* Tests values with commas and quotes, which are written as in RFC 4180. */
static void test_quotes(tap_run *tap, scratch_folder *scratch) {
    static const char file[] = "[sweep]\nrecipe = base.ini\n[grid]\ntrain.init = \"a, \"\"b\"\"\", \"c\"\"d\"\n";
    const icl_sweep_result results[2] = {{.finished = true, .steps = 3}, {.finished = true, .steps = 4}};
    icl_sweep_texts texts = {0};
    icl_sweep *sweep = NULL;
    icl_error error = {0};

    scratch_write(scratch, "quotes.ini", file, strlen(file));
    if (tap_status(tap, icl_sweep_load(scratch_path(scratch, "quotes.ini"), NULL, &sweep, &error), &error, "quotes") &&
        tap_status(tap, icl_sweep_write_texts(sweep, results, &texts, &error), &error, "their table"))
        tap_ok(tap, strstr(texts.cells_csv, "\n\"a, \"\"b\"\"\",3,") && strstr(texts.cells_csv, "\n\"c\"\"d\",4,"),
               "CSV: quotes are doubled: %.12s", strchr(texts.cells_csv, '\n') + 1);
    icl_sweep_free_texts(&texts);
    icl_sweep_destroy(&sweep);
}

/* A task of classes has an accuracy and no oracle: a quantity has a column only if it exists. */
static void test_accuracy(tap_run *tap, const icl_sweep *sweep) {
    const double nan = (double)NAN;
    icl_sweep_result results[4];
    icl_sweep_texts texts = {0};
    icl_error error = {0};

    for (int i = 0; i < 4; i++)
        results[i] = (icl_sweep_result){.finished = true,
                                        .mse = 1,
                                        .se = .5,
                                        .accuracy = .25 * (i + 1),
                                        .adjusted = nan,
                                        .adjusted_se = nan,
                                        .seconds = 2,
                                        .is_loss = true};
    results[0].diverged = true;
    if (!tap_status(tap, icl_sweep_write_texts(sweep, results, &texts, &error), &error, "a table of classes"))
        return;
    tap_ok(tap, strstr(texts.cells_csv, "final_loss,loss,se,accuracy,seconds\n") && !strstr(texts.table, "adjusted"),
           "%.*s", (int)strcspn(texts.cells_csv, "\n"), texts.cells_csv);
    tap_ok(tap, has_line(texts.means_csv, "fixed:1,0.5,2,0,0,0,1,0,0.875,0.125"), "means have the accuracy");
    icl_sweep_free_texts(&texts);
}

int main(void) {
    static const char base[] = "[task]\nd = 3\nn = 5\n";
    tap_run tap = {0};
    scratch_folder scratch;
    icl_sweep *sweep = NULL;
    icl_error error = {0};

    test_lists(&tap);
    scratch_open(&scratch);
    scratch_write(&scratch, "base.ini", base, strlen(base));
    scratch_write(&scratch, "sweep.ini", text, strlen(text));
    if (tap_status(&tap, icl_sweep_load(scratch_path(&scratch, "sweep.ini"), NULL, &sweep, &error), &error,
                   "a sweep's file, its recipe beside it")) {
        test_grid(&tap, sweep);
        test_table(&tap, sweep);
        test_accuracy(&tap, sweep);
        test_points(&tap, sweep);
    }
    icl_sweep_destroy(&sweep);
    test_long_names(&tap, &scratch);
    test_quotes(&tap, &scratch);
    test_one_seed(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
