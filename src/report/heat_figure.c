/* Matrices as heat maps. */
#include <math.h>
#include <stdio.h>

#include "report/figure_script.h"

/* Up to this many rows and columns a map has signs and names. */
#define MOST_NAMED 24

/* In narrower columns numbers would not fit. */
#define MOST_NUMBERED 10

/* Of a label beside a panel. */
#define LETTERS_A_PANEL 28

/* A cell has a sign from this share of the largest value on; where it is dark, from the second share on, in white. */
#define LEAST_SIGNED "0.05"
#define LEAST_DARK   "0.55"

/* A map of one row or column: gnuplot draws no image of fewer than two. */
#define AS_BOXES ":($1-0.5):($1+0.5):($2-0.5):($2+0.5):%s with boxxyerror fillstyle solid noborder linecolor palette"

static icl_status write_matrix(const icl_drawing *drawing, const char *name, size_t number, const icl_heat_map *map,
                               icl_error *error) {
    icl_text data = {0};
    char suffix[32];
    icl_status status = ICL_OK;

    for (size_t i = 0; i < map->rows * map->columns; i++)
        ICL_TRY(icl_text_number_field(&data, map->values[i], (i + 1) % map->columns == 0 ? "\n" : ",", error));
    snprintf(suffix, sizeof suffix, "-%zu.csv", number);
    ICL_TRY(icl_figure_file(drawing, name, suffix, &data, error));
done:
    icl_text_release(&data);
    return status;
}

static double largest_of(size_t count, const icl_heat_map *maps) {
    double largest = 0;

    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < maps[m].rows * maps[m].columns; i++)
            largest = fmax(largest, fabs(maps[m].values[i]));
    return largest > 0 ? largest : 1;
}

/* From red to blue with equal lightness on both sides of 0, which is why cells have signs. */
static icl_status add_signed_scale(icl_text *script, double largest, icl_error *error) {
    return icl_text_print(
        script, error,
        "set palette defined (-1 '#053061', -0.5 '#92c5de', 0 '#ffffff', 0.5 '#f4a582', 1 '#67001f')\n"
        "largest = %.17g\nset cbrange [-largest:largest]\n"
        "sign(v) = abs(v) < " LEAST_SIGNED " * largest ? '' : v < 0 ? '-' : '+'\n"
        "ink(v) = abs(v) < " LEAST_DARK " * largest ? 0x000000 : 0xffffff\n",
        largest);
}

/* From light to dark, over four decades at most: a loss of rounding errors alone is as good as none. */
static icl_status add_amount_scale(icl_text *script, const icl_heat_figure *figure, double largest, icl_error *error) {
    double least = largest;

    for (size_t m = 0; m < figure->count; m++)
        for (size_t i = 0; i < figure->maps[m].rows * figure->maps[m].columns; i++)
            if (figure->maps[m].values[i] > 0)
                least = fmin(least, figure->maps[m].values[i]);
    least = fmax(least, largest * 1e-4);
    ICL_CHECK(icl_text_print(script, error,
                             "set palette defined (0 '#f7fbff', 0.25 '#c6dbef', 0.5 '#6baed6', 0.75 '#2171b5', 1 "
                             "'#08306b')\nleast = %.17g\nlargest = %.17g\n",
                             least, largest));
    if (largest > 10 * least)
        return icl_text_print(script, error,
                              "set logscale cb\nset cbrange [least:largest]\nshade(v) = v < least ? least : v\nsign(v) "
                              "= sprintf('%%.3g', v)\n"
                              "ink(v) = v < least**0.4 * largest**0.6 ? 0x000000 : 0xffffff\n");
    return icl_text_print(script, error,
                          "set cbrange [0:largest]\nshade(v) = v\nsign(v) = sprintf('%%.3g', v)\n"
                          "ink(v) = v < " LEAST_DARK " * largest ? 0x000000 : 0xffffff\n");
}

/* What the panels share: their places, and one scale. */
static icl_status add_panels(icl_text *script, const icl_heat_figure *figure, size_t rows, size_t columns,
                             size_t letters, icl_error *error) {
    const double largest = largest_of(figure->count, figure->maps);

    ICL_CHECK(icl_text_print(script, error, "unset title\nset multiplot layout %zu,%zu title ", rows, columns));
    ICL_CHECK(icl_script_lines(script, figure->title, letters, error));
    ICL_CHECK(icl_text_print(script, error, " noenhanced\n%sunset key\n", figure->amounts ? "" : "set size square\n"));
    ICL_CHECK(figure->amounts ? add_amount_scale(script, figure, largest, error)
                              : add_signed_scale(script, largest, error));
    ICL_CHECK(icl_script_label(script, "x", figure->column_label, LETTERS_A_PANEL, error));
    ICL_CHECK(icl_script_label(script, "y", figure->row_label, LETTERS_A_PANEL, error));
    return icl_script_label(script, "cb", figure->value_label, LETTERS_A_PANEL, error);
}

static icl_status add_names(icl_text *script, const char *axis, const char *const *names, size_t count,
                            icl_error *error) {
    if (!names || count > MOST_NAMED)
        return icl_text_print(script, error, "unset %stics\n", axis);
    return icl_script_names(script, axis, names, count, error);
}

/* Row 0 is on top, as matrices are written. `pixels` makes gnuplot draw rectangles: viewers smooth an image. */
static icl_status add_map(icl_text *script, const icl_heat_figure *figure, size_t number, icl_error *error) {
    const icl_heat_map *map = &figure->maps[number - 1];
    const bool is_small = map->rows <= MOST_NAMED && map->columns <= MOST_NAMED;
    const bool is_line = map->rows == 1 || map->columns == 1;

    ICL_CHECK(icl_text_print(script, error, "set title "));
    ICL_CHECK(icl_script_lines(script, map->label, LETTERS_A_PANEL, error));
    ICL_CHECK(icl_text_print(script, error, " noenhanced\n"));
    ICL_CHECK(add_names(script, "x", map->column_names, map->columns, error));
    ICL_CHECK(add_names(script, "y", map->row_names, map->rows, error));
    ICL_CHECK(icl_text_print(script, error,
                             "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\nplot '%s-%zu.csv' matrix ",
                             map->columns - 1, map->rows - 1, figure->name, number));
    if (is_line)
        ICL_CHECK(icl_text_print(script, error, "using 1:2" AS_BOXES, figure->amounts ? "(shade($3))" : "3"));
    else
        ICL_CHECK(icl_text_print(script, error, "%swith image%s", figure->amounts ? "using 1:2:(shade($3)) " : "",
                                 is_small ? " pixels" : ""));
    if (figure->amounts ? map->rows <= MOST_NAMED && map->columns <= MOST_NUMBERED : is_small)
        ICL_CHECK(icl_text_print(script, error,
                                 ", \\\n    '' matrix using 1:2:(sign($3)):(ink($3)) with labels textcolor rgb "
                                 "variable"));
    return icl_text_print(script, error, "\n");
}

icl_status icl_heat_figure_write(const icl_drawing *drawing, const icl_heat_figure *figure, icl_error *error) {
    enum {
        FEW = 2,
        PANEL = 260,
        LARGE_PANEL = 380,
        PAIR = 2,
        SOME = 8,
        PER_ROW = 4,
        TITLE = 40,
        LEAST_WIDTH = 560,
        NUMBERED_WIDTH = 720
    };
    const size_t panel = figure->count <= FEW ? LARGE_PANEL : PANEL;
    const size_t least_width = figure->amounts ? NUMBERED_WIDTH : LEAST_WIDTH;
    /* Two beside each other, as P and Q of a layer are, can be read on a phone. */
    const size_t most = figure->count <= SOME ? PAIR : PER_ROW;
    const size_t columns = figure->count < most ? figure->count : most;
    const size_t rows = (figure->count + most - 1) / most;
    const size_t width = panel * columns > least_width ? panel * columns : least_width;
    icl_text script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_script_begin(&script, drawing, figure->name, figure->title, width, panel * rows + TITLE, error));
    ICL_TRY(add_panels(&script, figure, rows, columns, width / ICL_SCRIPT_LETTER, error));
    for (size_t m = 0; m < figure->count; m++) {
        ICL_TRY(write_matrix(drawing, figure->name, m + 1, &figure->maps[m], error));
        ICL_TRY(add_map(&script, figure, m + 1, error));
    }
    ICL_TRY(icl_text_print(&script, error, "unset multiplot\n"));
    ICL_TRY(icl_script_finish(&script, drawing, figure->name, error));
done:
    icl_text_release(&script);
    return status;
}
