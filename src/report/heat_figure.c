/* Matrices as heat maps. */
#include <math.h>
#include <stdio.h>

#include "report/figure_script.h"

/* Up to this many rows and columns a map has signs and names. */
#define MOST_NAMED 24

/* A cell has a sign from this share of the largest value on; where it is dark, from the second share on, in white. */
#define LEAST_SIGNED "0.05"
#define LEAST_DARK   "0.55"

/* A map of one row or column: gnuplot draws no image of fewer than two. */
#define AS_BOXES                                                                                                       \
    "using 1:2:($1-0.5):($1+0.5):($2-0.5):($2+0.5):3 with boxxyerror fillstyle solid noborder linecolor palette"

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

/* What the panels share: their places, and one scale from red to blue with equal lightness on both sides of 0, which is
 * why cells have signs. */
static icl_status add_panels(icl_text *script, const icl_heat_figure *figure, size_t rows, size_t columns,
                             icl_error *error) {
    const double largest = largest_of(figure->count, figure->maps);

    ICL_CHECK(icl_text_print(script, error, "unset title\nset multiplot layout %zu,%zu title ", rows, columns));
    ICL_CHECK(icl_text_quote(script, figure->title, ICL_SCRIPT_QUOTE, error));
    ICL_CHECK(
        icl_text_print(script, error,
                       " noenhanced\n"
                       "set palette defined (-1 '#053061', -0.5 '#92c5de', 0 '#ffffff', 0.5 '#f4a582', 1 '#67001f')\n"
                       "largest = %.17g\n"
                       "set cbrange [-largest:largest]\nset size square\nunset key\n"
                       "sign(v) = abs(v) < " LEAST_SIGNED " * largest ? '' : v < 0 ? '-' : '+'\n"
                       "ink(v) = abs(v) < " LEAST_DARK " * largest ? 0x000000 : 0xffffff\n",
                       largest));
    ICL_CHECK(icl_script_label(script, "x", figure->column_label, error));
    ICL_CHECK(icl_script_label(script, "y", figure->row_label, error));
    return icl_script_label(script, "cb", figure->value_label, error);
}

/* "set xtics ('x1' 0, …)", or none. */
static icl_status add_names(icl_text *script, const char *axis, const char *const *names, size_t count,
                            icl_error *error) {
    if (!names || count > MOST_NAMED)
        return icl_text_print(script, error, "unset %stics\n", axis);
    ICL_CHECK(icl_text_print(script, error, "set %stics scale 0 (", axis));
    for (size_t i = 0; i < count; i++) {
        ICL_CHECK(icl_text_append(script, ", ", i > 0 ? 2 : 0, error));
        ICL_CHECK(icl_text_quote(script, names[i], ICL_SCRIPT_QUOTE, error));
        ICL_CHECK(icl_text_print(script, error, " %zu", i));
    }
    return icl_text_print(script, error, ")\n");
}

/* Row 0 is on top, as matrices are written. `pixels` makes gnuplot draw rectangles: viewers smooth an image. */
static icl_status add_map(icl_text *script, const char *name, size_t number, const icl_heat_map *map,
                          icl_error *error) {
    const bool is_small = map->rows <= MOST_NAMED && map->columns <= MOST_NAMED;
    const bool is_line = map->rows == 1 || map->columns == 1;

    ICL_CHECK(icl_text_print(script, error, "set title "));
    ICL_CHECK(icl_text_quote(script, map->label, ICL_SCRIPT_QUOTE, error));
    ICL_CHECK(icl_text_print(script, error, " noenhanced\n"));
    ICL_CHECK(add_names(script, "x", map->column_names, map->columns, error));
    ICL_CHECK(add_names(script, "y", map->row_names, map->rows, error));
    ICL_CHECK(icl_text_print(script, error,
                             "set xrange [-0.5:%zu.5]\nset yrange [%zu.5:-0.5]\nplot '%s-%zu.csv' matrix %s%s",
                             map->columns - 1, map->rows - 1, name, number, is_line ? AS_BOXES : "with image",
                             is_small && !is_line ? " pixels" : ""));
    if (is_small)
        ICL_CHECK(icl_text_print(script, error,
                                 ", \\\n    '' matrix using 1:2:(sign($3)):(ink($3)) with labels textcolor rgb "
                                 "variable"));
    return icl_text_print(script, error, "\n");
}

icl_status icl_heat_figure_write(const icl_drawing *drawing, const icl_heat_figure *figure, icl_error *error) {
    enum { FEW = 2, PANEL = 260, LARGE_PANEL = 380, PER_ROW = 4, TITLE = 40, LEAST_WIDTH = 560 };
    const size_t panel = figure->count <= FEW ? LARGE_PANEL : PANEL;
    const size_t columns = figure->count < PER_ROW ? figure->count : PER_ROW;
    const size_t rows = (figure->count + PER_ROW - 1) / PER_ROW;
    const size_t width = panel * columns > LEAST_WIDTH ? panel * columns : LEAST_WIDTH;
    icl_text script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_script_begin(&script, drawing, figure->name, figure->title, width, panel * rows + TITLE, error));
    ICL_TRY(add_panels(&script, figure, rows, columns, error));
    for (size_t m = 0; m < figure->count; m++) {
        ICL_TRY(write_matrix(drawing, figure->name, m + 1, &figure->maps[m], error));
        ICL_TRY(add_map(&script, figure->name, m + 1, &figure->maps[m], error));
    }
    ICL_TRY(icl_text_print(&script, error, "unset multiplot\n"));
    ICL_TRY(icl_script_finish(&script, drawing, figure->name, error));
done:
    icl_text_release(&script);
    return status;
}
