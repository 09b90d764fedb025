/* Figures: data and script whatever the labels hold, one drawing each, and no picture of other
 * data left beside them. */
#include "iclab/figure.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/file.h"
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

/* Whether the file holds all of these texts, which NULL ends. */
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
                                       "set logscale y\n", "set key outside below height 1.5 ",
                                       "yerrorlines pointtype 7", "with points pointtype 6", "dashtype 3",
                                       "pointinterval 1", "title \"it\\047s theirs\"", NULL}),
           "the script: labels stay strings, and marks and dashes tell the series apart");
    seen.status = ICL_ERROR_IO;
    tap_ok(tap, icl_figure_write(&drawing, &figure, &error) == ICL_ERROR_IO, "a failure to draw is passed on");
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

/* Losses: numbers in cells, and a scale that is logarithmic from a decade on. */
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
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    check_curves(&tap, &scratch);
    check_heat_maps(&tap, &scratch);
    check_amounts(&tap, &scratch);
    check_names(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
