/* Tests figures: data and script whatever the labels are, one drawing each, and no picture of other data left beside
 * them. */
#include "report/figure.h"

#include <math.h>
#include <stdlib.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "shown_figure.h"
#include "tap.h"

#include "../core/scratch.h"

typedef struct drawn {
    int count;
    char script[64];
    icl_status status;
} drawn;

static icl_status draw(void *user, const char *folder, const char *script, icl_error *error) {
    drawn *seen = user;

    (void)folder;
    seen->count++;
    snprintf(seen->script, sizeof seen->script, "%s", script);
    return seen->status == ICL_OK ? ICL_OK : icl_fail(error, seen->status, "gnuplot failed");
}

/* Says whether the file holds all of these texts, which NULL ends. */
static bool holds(scratch_folder *scratch, const char *name, const char *const *parts) {
    char *text = NULL;
    size_t size;
    bool all = icl_file_read(scratch_path(scratch, name), 0, &text, &size, NULL) == ICL_OK;

    for (; all && *parts; parts++)
        if (!strstr(text, *parts)) {
            tap_note("%s lacks: %s", name, *parts);
            all = false;
        }
    icl_free(&text);
    return all;
}

static void check_curves(tap_run *tap, scratch_folder *scratch) {
    static const double x[] = {1, 2, 4}, y[] = {.5, (double)NAN, .125}, spread[] = {.1, .1, .2};
    const icl_series series[] = {{"ours, \"quoted\"\nand broken", ICL_SERIES_OURS, 3, x, y, spread},
                                 {"it's theirs", ICL_SERIES_PUBLISHED, 2, x, y, NULL},
                                 {"theory", ICL_SERIES_REFERENCE, 2, x, y, NULL},
                                 {"many", ICL_SERIES_LINE, 3, x, y, NULL}};
    const icl_figure figure = {.name = "curve",
                               .title = "it's\nsystem('x')",
                               .x_label = "step",
                               .y_label = "loss",
                               .log_y = true,
                               .count = 4,
                               .series = series};
    drawn seen = {0};
    const icl_drawing drawing = {.folder = scratch->folder, .command = "a test", .draw = draw, .user = &seen};
    icl_error error = {0};

    scratch_write(scratch, "curve.svg", "old", 3);
    scratch_write(scratch, "curve.png", "old", 3);
    tap_status(tap, icl_figure_write(&drawing, &figure, &error), &error, "curves");
    tap_ok(tap, seen.count == 1 && strcmp(seen.script, "curve.gp") == 0, "drawn once, by its script");
    tap_ok(tap,
           !icl_path_exists(scratch_path(scratch, "curve.svg")) && !icl_path_exists(scratch_path(scratch, "curve.png")),
           "no old picture is left");
    tap_ok(tap,
           holds(scratch, "curve.csv",
                 (const char *const[]){"\"ours, \"\"quoted\"\" and broken: step\"", "1,0.5,0.1,1,0.5,,1,0.5,,1,0.5,\n",
                                       "4,0.125,0.2,,,,,,,4,0.125,\n", NULL}),
           "the data, with quotes doubled and fields left empty");
    tap_ok(tap,
           holds(scratch, "curve.gp",
                 (const char *const[]){"set title \"it\\047s system(\\047x\\047)\" noenhanced\n", "set ylabel \"loss\"",
                                       "set logscale y\n", "set key bmargin left horizontal Left reverse height 1.5 ",
                                       "yerrorlines pointtype 7", "with points pointtype 6", "dashtype 3",
                                       "pointinterval 1", "title \"it\\047s theirs\"", NULL}),
           "the script: labels stay strings, and marks and dashes tell the series apart");
    seen.status = ICL_ERROR_IO;
    tap_ok(tap, icl_figure_write(&drawing, &figure, &error) == ICL_ERROR_IO, "a failure to draw is passed on");
}

/* ---- What is shown, by name ---- */

/* No two numbers are equal. */
static void check_shown_curves(tap_run *tap, scratch_folder *scratch) {
    static const double x[] = {2, 3, 5}, y[] = {31, 37, 41}, spread[] = {.7, 1.1, 1.3}, low[] = {17, 19, 23},
                        high[] = {43, 47, 53}, x2[] = {7, 11}, y2[] = {28.5, 29.5};
    const icl_series series[] = {{"quantiles", ICL_SERIES_BAND, 3, x, low, high},
                                 {"ours, 50% \"new\"", ICL_SERIES_OURS, 3, x, y, spread},
                                 {"theirs", ICL_SERIES_PUBLISHED, 2, x2, y2, NULL}};
    const icl_figure figure = {.name = "shown",
                               .title = "A title",
                               .x_label = "steps, in thousands",
                               .y_label = "loss (squares of y's unit)",
                               .log_x = true,
                               .count = 3,
                               .series = series};
    const icl_drawing drawing = {.folder = scratch->folder, .command = "a test"};
    icl_error error = {0};

    tap_status(tap, icl_figure_write(&drawing, &figure, &error), &error, "curves to be read");
    shown_figure *seen = shown_figure_read(scratch->folder, "shown");
    tap_ok(tap, seen && seen->count == 3 && strcmp(seen->title, "A title") == 0, "three curves under their title");
    shown_axes_are(tap, seen, "steps, in thousands", "loss (squares of y's unit)");
    for (size_t s = 0; seen && s < 3; s++)
        for (size_t i = 0; i < series[s].count; i++) {
            const double at = series[s].x[i];
            tap_ok(tap,
                   shown_y(seen, series[s].label, at) == series[s].y[i] &&
                       (!series[s].error || shown_bar(seen, series[s].label, at) == series[s].error[i]),
                   "%s at %g", series[s].label, at);
        }
    tap_ok(tap,
           strcmp(shown_curve(seen, "quantiles")->style, "filledcurves") == 0 &&
               strcmp(shown_curve(seen, "ours, 50% \"new\"")->style, "yerrorlines") == 0 &&
               strcmp(shown_curve(seen, "theirs")->style, "points") == 0,
           "each drawn as what it is");
    tap_ok(tap, seen && seen->log_x && !seen->log_y, "the axis of x alone is logarithmic");
    tap_ok(tap,
           seen && seen->x_range[0] > 1 && seen->x_range[0] < 2 && seen->x_range[1] > 11 && seen->x_range[1] < 13 &&
               seen->y_range[0] > 15 && seen->y_range[0] < 17 && seen->y_range[1] > 53 && seen->y_range[1] < 55,
           "each axis spans its own values");
    shown_figure_free(&seen);
}

/* No matrix is square, and no two numbers are equal. */
static void check_shown_maps(tap_run *tap, scratch_folder *scratch) {
    static const char *const rows[] = {"top", "bottom, 50%"}, *const columns[] = {"left", "middle", "right"};
    static const double values[2][6] = {{1.5, -2.5, 3.5, -4.5, 5.5, 6.5}, {-.25, .75, 1.25, 1.75, 2.25, -2.75}};
    const icl_heat_map maps[] = {
        {.label = "P", .rows = 2, .columns = 3, .values = values[0], .row_names = rows, .column_names = columns},
        {.label = "Q", .rows = 2, .columns = 3, .values = values[1], .row_names = rows, .column_names = columns}};
    const icl_heat_figure figure = {.name = "shown-map",
                                    .title = "Maps",
                                    .row_label = "what is read",
                                    .column_label = "what is written",
                                    .value_label = "weight",
                                    .count = 2,
                                    .maps = maps};
    const icl_drawing drawing = {.folder = scratch->folder, .command = "a test"};
    icl_error error = {0};

    for (int amounts = 0; amounts < 2; amounts++) {
        icl_heat_figure either = figure;
        either.amounts = amounts == 1;
        tap_status(tap, icl_heat_figure_write(&drawing, &either, &error), &error, "maps to be read");
        shown_figure *seen = shown_figure_read(scratch->folder, "shown-map");
        tap_ok(tap,
               seen && seen->maps == 2 && strcmp(seen->title, "Maps") == 0 && strcmp(seen->value_label, "weight") == 0,
               "two maps under their title, with what their colours are");
        shown_axes_are(tap, seen, "what is written", "what is read");
        for (size_t m = 0; m < 2; m++)
            for (size_t i = 0; i < 6; i++)
                tap_ok(tap, shown_value(seen, maps[m].label, rows[i / 3], columns[i % 3]) == values[m][i], "%s: %s, %s",
                       maps[m].label, rows[i / 3], columns[i % 3]);
        shown_figure_free(&seen);
    }
}

static void check_heat_maps(tap_run *tap, scratch_folder *scratch) {
    static const double values[] = {1, -2, (double)NAN, 0};
    static const char *const names[] = {"x'1", "y"};
    static double many[30 * 30];
    const icl_heat_map maps[] = {
        {.label = "P", .rows = 2, .columns = 2, .values = values, .row_names = names, .column_names = names},
        {.label = "large", .rows = 30, .columns = 30, .values = many},
        {.label = "row", .rows = 1, .columns = 30, .values = many}};
    const icl_heat_figure figure = {.name = "map", .title = "Maps", .value_label = "weight", .count = 3, .maps = maps};
    const icl_drawing drawing = {.folder = scratch->folder, .command = "a test"};
    icl_error error = {0};

    tap_status(tap, icl_heat_figure_write(&drawing, &figure, &error), &error, "heat maps");
    tap_ok(tap, holds(scratch, "map-1.csv", (const char *const[]){"1,-2\n,0\n", NULL}), "the data of one map");
    tap_ok(tap,
           holds(scratch, "map.gp",
                 (const char *const[]){"largest = 2\n", "(\"x\\0471\" 0, \"y\" 1)", "set cblabel \"weight\"",
                                       "with image pixels, ", "'map-2.csv' matrix with image\n", "sign($3)", NULL}),
           "the script: one scale, names, signs in small maps");
    tap_ok(tap, holds(scratch, "map.gp", (const char *const[]){"'map-3.csv' matrix using", "with boxxyerror", NULL}),
           "a single row, of which gnuplot draws no image, is drawn in boxes");
}

/* Tests maps of losses: numbers in cells, and a scale that is logarithmic if the losses span a decade. */
static void check_amounts(tap_run *tap, scratch_folder *scratch) {
    static const double values[2][4] = {{1, 2, 4, 8}, {1e-9, 2, 4, 8}};
    const icl_drawing drawing = {.folder = scratch->folder, .command = "a test"};
    icl_error error = {0};

    for (int wide = 0; wide < 2; wide++) {
        const icl_heat_map map = {.label = "", .rows = 2, .columns = 2, .values = values[wide]};
        const icl_heat_figure figure = {.name = "amounts", .title = "t", .count = 1, .maps = &map, .amounts = true};
        tap_status(tap, icl_heat_figure_write(&drawing, &figure, &error), &error, "a map of amounts");
        tap_ok(tap, holds(scratch, "amounts.gp", (const char *const[]){"sprintf('%.3g', v)", "sign($3)", NULL}),
               "numbers in cells");
        tap_ok(tap, holds(scratch, "amounts.gp", (const char *const[]){"set logscale cb", NULL}) == (wide == 1),
               "%s scale", wide ? "a logarithmic" : "a plain");
    }
}

/* Words along x. */
static void check_names(tap_run *tap, scratch_folder *scratch) {
    static const double x[] = {0, 1}, y[] = {1, 2};
    const icl_series series = {"ours", ICL_SERIES_OURS, 2, x, y, NULL};
    const icl_figure figure = {.name = "words",
                               .title = "t",
                               .count = 1,
                               .series = &series,
                               .x_names = (const char *const[]){"it's", "50%"},
                               .x_name_count = 2};
    const icl_drawing drawing = {.folder = scratch->folder, .command = "a test"};
    icl_error error = {0};

    tap_status(tap, icl_figure_write(&drawing, &figure, &error), &error, "words along x");
    tap_ok(tap,
           holds(scratch, "words.gp",
                 (const char *const[]){"set xtics scale 0 (\"it\\047s\" 0, \"50%%\" 1)\n", "set xrange [-0.5:1.5]\n",
                                       NULL}),
           "the script names them");
    tap_ok(tap, !holds(scratch, "words.gp", (const char *const[]){"set xtics rotate", NULL}), "beside each other");
    icl_figure crowded = figure;
    crowded.name = "crowded";
    crowded.x_names = (const char *const[]){"a name that is much longer than half of the picture is wide", "50%"};
    tap_status(tap, icl_figure_write(&drawing, &crowded, &error), &error, "long words along x");
    tap_ok(tap, holds(scratch, "crowded.gp", (const char *const[]){"set xtics rotate by", NULL}), "are slanted");
}

/* ---- Axes ---- */

/* Reads a range that the script sets; false if it sets none. */
static bool range_of(scratch_folder *scratch, const char *script, const char *axis, double range[2]) {
    char command[32], *text = NULL;
    const char *at;
    size_t size;
    bool found = false;

    snprintf(command, sizeof command, "set %srange [", axis);
    if (icl_file_read(scratch_path(scratch, script), 0, &text, &size, NULL) == ICL_OK) {
        at = strstr(text, command);
        if (at) {
            char *colon, *end;
            range[0] = strtod(at + strlen(command), &colon);
            range[1] = *colon == ':' ? strtod(colon + 1, &end) : 0;
            found = *colon == ':' && end > colon + 1;
        }
    }
    icl_free(&text);
    return found;
}

static bool draw_axes(tap_run *tap, scratch_folder *scratch, const icl_figure *figure, double x[2], double y[2]) {
    const icl_drawing drawing = {.folder = scratch->folder, .command = "a test"};
    icl_error error = {0};
    char script[64];

    snprintf(script, sizeof script, "%s.gp", figure->name);
    return tap_status(tap, icl_figure_write(&drawing, figure, &error), &error, figure->name) &&
           range_of(scratch, script, "x", x) && range_of(scratch, script, "y", y);
}

/* Every point lies inside, and so do the ends of bars and bands; a single point gets a range that is not of width 0. */
static void check_ranges(tap_run *tap, scratch_folder *scratch) {
    static const double layers[] = {1, 2, 3}, losses[] = {4, 2, 3}, spread[] = {0, 1.5, 0}, above[] = {9, 2, 3},
                        one[] = {1}, loss[] = {.5}, times[] = {1.7e12, 1.7e12 + 10, 1.7e12 + 20},
                        none[] = {(double)NAN}, spiky[] = {4, 1e6, 3}, small[] = {8, .1, 1};
    double x[2] = {0}, y[2] = {0};
    bool drawn_at_all;
    icl_series bars = {"ours", ICL_SERIES_OURS, 3, layers, losses, spread};
    icl_figure figure = {.name = "axes", .title = "t", .count = 1, .series = &bars};

    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap, drawn_at_all && x[0] < 1 && x[0] > .5 && x[1] > 3 && x[1] < 3.5 && y[0] < .5 && y[1] > 4 && y[1] < 5,
           "room about every point and bar: [%g, %g] and [%g, %g]", x[0], x[1], y[0], y[1]);
    tap_ok(tap, holds(scratch, "axes.gp", (const char *const[]){"set xtics 1\n", NULL}), "whole numbers at layers");
    bars = (icl_series){"band", ICL_SERIES_BAND, 3, layers, losses, above};
    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap,
           drawn_at_all && y[1] > 9 && y[0] < 2 && y[0] > 1 &&
               holds(scratch, "axes.gp", (const char *const[]){"using 1:2:3 with filledcurves", NULL}) &&
               holds(scratch, "axes.csv", (const char *const[]){"band: from", "band: to", NULL}),
           "a band is drawn up to its upper edge");
    bars = (icl_series){"one", ICL_SERIES_LINE, 1, one, loss, NULL};
    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap, drawn_at_all && x[0] < 1 && x[1] > 1 && y[0] < .5 && y[1] > .5,
           "one step has a range of its own: [%g, %g]", x[0], x[1]);
    bars = (icl_series){"times", ICL_SERIES_LINE, 3, times, times, NULL};
    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap, drawn_at_all && x[0] < times[0] && x[0] > times[0] - 2 && x[1] > times[2] && x[1] < times[2] + 2,
           "values that differ in their last digits have a range: [%.17g, %.17g]", x[0], x[1]);
    bars = (icl_series){"one", ICL_SERIES_LINE, 1, one, loss, NULL};
    figure.log_y = true;
    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap, drawn_at_all && y[0] < .5 && y[1] > .5 && fabs(y[1] / y[0] - pow(10, .3)) < 1e-6,
           "on a logarithmic axis, too, of .3 decades: [%g, %g]", y[0], y[1]);
    bars = (icl_series){"small", ICL_SERIES_LINE, 3, layers, small, NULL};
    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap,
           drawn_at_all && y[0] < .1 && y[1] > 8 && fabs(log10(y[1] / y[0]) - 1.08 * log10(80)) < 1e-6 &&
               holds(scratch, "axes.gp", (const char *const[]){"set ytics (0.1, 0.2, 0.5, 1, 2, 5)\n", NULL}),
           "two decades have numbers in between, and a twenty-fifth of them at either end");
    bars = (icl_series){"none", ICL_SERIES_LINE, 1, one, none, NULL};
    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap,
           drawn_at_all && y[0] < y[1] &&
               holds(scratch, "axes.gp", (const char *const[]){"no number here can be drawn", "plot NaN", NULL}),
           "a figure without a number says so");
    bars = (icl_series){"spiky", ICL_SERIES_LINE, 3, layers, spiky, NULL};
    figure.log_y = false;
    figure.most_y = 8;
    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap, drawn_at_all && y[1] > 8 && y[1] < 9, "a spike lies above where it may: %g", y[1]);
    figure.least_y = 3.5; /* of 4, 10^6 and 3 */
    drawn_at_all = draw_axes(tap, scratch, &figure, x, y);
    tap_ok(tap, drawn_at_all && y[0] < 3.5 && y[0] > 3.1, "what is too small lies below where it may: %g", y[0]);
}

/* Long labels are broken into lines, and a legend of many rows makes its picture higher. */
static void check_lengths(tap_run *tap, scratch_folder *scratch) {
    static const double x[] = {1, 2};
    const icl_series two[] = {{"a", ICL_SERIES_OURS, 2, x, x, NULL}, {"b", ICL_SERIES_OURS, 2, x, x, NULL}};
    const icl_series many[] = {{"the first of all the curves that there are", ICL_SERIES_OURS, 2, x, x, NULL},
                               {"the second of all the curves that there are, it's of a name that takes two lines",
                                ICL_SERIES_OURS, 2, x, x, NULL}};
    icl_figure figure = {.name = "long",
                         .title = "A title that is longer than the picture is wide, so that it has to be broken",
                         .y_label = "half the squared distance to the oracle (squares of y's unit)",
                         .count = 2,
                         .series = two};
    const icl_drawing drawing = {.folder = scratch->folder, .command = "a test"};
    icl_error error = {0};

    tap_status(tap, icl_figure_write(&drawing, &figure, &error), &error, "long labels");
    tap_ok(tap,
           holds(scratch, "long.gp",
                 (const char *const[]){"so that it has to be\".\"\\n\".\"broken\" noenhanced\n",
                                       "set ylabel \"half the squared distance to the\".\"\\n\".\"oracle",
                                       "(squares of y\\047s unit)\" ", "size 560,448 ", NULL}),
           "are broken between words");
    figure.y_label = "a\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4"
                     "\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4\u00e4";
    tap_status(tap, icl_figure_write(&drawing, &figure, &error), &error, "a word that is longer than its axis");
    tap_ok(tap, holds(scratch, "long.gp", (const char *const[]){"\u00e4\".\"\\n\".\"\u00e4", NULL}),
           "is broken between characters");
    figure.y_label = "a label that is so long that two lines have no room for all the words that it consists of";
    tap_status(tap, icl_figure_write(&drawing, &figure, &error), &error, "a label of three lines");
    tap_ok(tap, holds(scratch, "long.gp", (const char *const[]){"lines have no room for all...\" noenh", NULL}),
           "is cut off behind the second");
    figure.series = many;
    tap_status(tap, icl_figure_write(&drawing, &figure, &error), &error, "a long key");
    tap_ok(tap,
           holds(scratch, "long.gp",
                 (const char *const[]){"it\\047s of a\".\"\\n\".\"name that takes two lines\"", "size 560,502 ", NULL}),
           "and the picture grows with its key");
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    check_curves(&tap, &scratch);
    check_shown_curves(&tap, &scratch);
    check_shown_maps(&tap, &scratch);
    check_heat_maps(&tap, &scratch);
    check_amounts(&tap, &scratch);
    check_names(&tap, &scratch);
    check_ranges(&tap, &scratch);
    check_lengths(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
