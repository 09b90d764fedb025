/* Figures: the data as CSV, and a gnuplot script beside it that draws SVG and PNG. Marks, dashes and lightness tell series apart, so
 * that a figure can be read without colours. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/file.h"
#include "core/number.h"
#include "lab/reproduce/reproduce.h"

/* ---- Text that grows ---- */

typedef struct text {
    char *bytes;
    size_t length, capacity;
} text;

static icl_status reserve(text *t, size_t more, icl_error *error) {
    char *larger = NULL;
    icl_status status;

    if (t->length + more < t->capacity)
        return ICL_OK;
    t->capacity = 2 * t->capacity + more + 1024;
    status = icl_allocate(t->capacity, 1, "figure", &larger, error);
    if (status != ICL_OK)
        return status;
    if (t->length > 0)
        memcpy(larger, t->bytes, t->length);
    icl_free(&t->bytes);
    t->bytes = larger;
    return ICL_OK;
}

static icl_status add(text *t, icl_error *error, const char *format, ...) ICL_PRINTF(3, 4);

static icl_status add(text *t, icl_error *error, const char *format, ...) {
    enum { LONGEST = 2048 };
    va_list arguments;
    const icl_status status = reserve(t, LONGEST, error);

    if (status != ICL_OK)
        return status;
    va_start(arguments, format);
    const int length = vsnprintf(t->bytes + t->length, LONGEST, format, arguments);
    va_end(arguments);
    t->length += length < LONGEST ? (size_t)length : LONGEST - 1;
    return ICL_OK;
}

/* A number as a field; NaN leaves it empty. */
static icl_status add_number(text *t, double value, const char *after, icl_error *error) {
    char digits[ICL_NUMBER_CAPACITY] = "";

    return add(t, error, "%s%s", isnan(value) ? digits : icl_format_number(value, digits), after);
}

/* Text between the single quotes of a gnuplot string. */
static icl_status add_quoted(text *t, const char *content, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(add(t, error, "'"));
    for (; *content; content++)
        ICL_TRY(add(t, error, *content == '\'' ? "''" : "%c", *content));
    ICL_TRY(add(t, error, "'"));
done:
    return status;
}

static icl_status write_text(const icl_reproducing *run, const char *name, const char *suffix, const text *t,
                             icl_error *error) {
    char file[256];
    char *path = NULL;
    icl_status status = ICL_OK;

    snprintf(file, sizeof file, "%s%s", name, suffix);
    ICL_TRY(icl_path_join(run->params->folder, file, &path, error));
    ICL_TRY(icl_file_write(path, t->bytes, t->length, error));
done:
    icl_free(&path);
    return status;
}

static icl_status draw(const icl_reproducing *run, const char *name, icl_error *error) {
    char script[256];

    if (!run->params->draw)
        return ICL_OK;
    snprintf(script, sizeof script, "%s.gp", name);
    return run->params->draw(run->params->user, run->params->folder, script, error);
}

/* ---- Curves ---- */

/* Three columns a series: x, y and the standard error of y; series of fewer points leave their fields empty. */
static icl_status add_rows(text *t, const icl_figure *figure, icl_error *error) {
    size_t rows = 0;
    icl_status status = ICL_OK;

    for (size_t s = 0; s < figure->count; s++) {
        const icl_series *series = &figure->series[s];
        const char *after = s + 1 < figure->count ? "," : "\n";
        rows = series->count > rows ? series->count : rows;
        ICL_TRY(add(t, error, "\"%s: %s\",\"%s: %s\",\"%s: standard error\"%s", series->label,
                    figure->x_label, series->label, figure->y_label, series->label, after));
    }
    for (size_t i = 0; i < rows; i++)
        for (size_t s = 0; s < figure->count; s++) {
            const icl_series *series = &figure->series[s];
            const bool there = i < series->count;
            ICL_TRY(add_number(t, there ? series->x[i] : (double)NAN, ",", error));
            ICL_TRY(add_number(t, there ? series->y[i] : (double)NAN, ",", error));
            ICL_TRY(add_number(t, there && series->error ? series->error[i] : (double)NAN,
                               s + 1 < figure->count ? "," : "\n", error));
        }
done:
    return status;
}

static const char *const colours[] = {"#000000", "#0072b2", "#d55e00", "#009e73",
                                      "#cc79a7", "#7f7f7f", "#e69f00", "#56b4e9"};
enum { COLOURS = sizeof colours / sizeof *colours };

/* How gnuplot draws a series: `colour` is its place among those that are not published, so that a published series has the colour of
 * the one of ours before it. */
static icl_status add_style(text *t, const icl_series *series, size_t colour, icl_error *error) {
    static const int filled[] = {7, 5, 9, 13, 11}, open[] = {6, 4, 8, 12, 10};
    enum { MARKS = sizeof filled / sizeof *filled };
    const char *const of = colours[colour % COLOURS];

    switch (series->style) {
    case ICL_SERIES_OURS:
        return add(t, error, " with %s pointtype %d pointsize 0.8 linewidth 1.5 linecolor '%s'",
                   series->error ? "yerrorlines" : "linespoints", filled[colour % MARKS], of);
    case ICL_SERIES_PUBLISHED:
        return add(t, error, " with points pointtype %d pointsize 1.4 linewidth 1.5 linecolor '%s'",
                   open[colour % MARKS], of);
    case ICL_SERIES_REFERENCE:
        return add(t, error, " with lines dashtype %zu linewidth 1.5 linecolor '%s'", 2 + colour % 4, of);
    case ICL_SERIES_CLOUD:
        return add(t, error, " with points pointtype %d pointsize 0.4 linecolor '%s'", filled[colour % MARKS],
                   of);
    case ICL_SERIES_LINE:
    default:
        return add(t, error, " with lines linewidth 1.5 linecolor '%s'", of);
    }
}

/* What every script begins with: gnuplot runs the rest twice, once for each kind of picture. */
static icl_status add_head(text *t, const icl_reproducing *run, const char *name, const char *title,
                           int width, int height, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(add(t, error, "# Written by iclab reproduce %s. Draw again: gnuplot %s.gp\n",
                run->reproduction->name, name));
    ICL_TRY(add(t, error,
                "set datafile separator ','\n"
                "do for [kind in 'svg png'] {\n"
                "options = 'size %d,%d noenhanced background \"#ffffff\"'\n"
                "if (kind eq 'svg') { eval 'set terminal svg dynamic '.options }\n"
                "if (kind eq 'png') { eval 'set terminal '.(strstrt(GPVAL_TERMINALS, 'pngcairo') > 0 ? "
                "'pngcairo ' : 'png ').options }\n"
                "set output '%s.'.kind\n",
                width, height, name));
    ICL_TRY(add(t, error, "set title "));
    ICL_TRY(add_quoted(t, title, error));
    ICL_TRY(add(t, error, " noenhanced\n"));
done:
    return status;
}

static icl_status add_axis(text *t, const char *axis, const char *label, bool is_log, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(add(t, error, "set %slabel ", axis));
    ICL_TRY(add_quoted(t, label, error));
    ICL_TRY(add(t, error, " noenhanced\n"));
    if (is_log)
        ICL_TRY(add(t, error, "set logscale %s\n", axis));
done:
    return status;
}

static icl_status add_plot(text *t, const icl_figure *figure, icl_error *error) {
    size_t colour = 0;
    icl_status status = ICL_OK;

    ICL_TRY(add(t, error, "set grid\nset key outside below noenhanced\nplot"));
    for (size_t s = 0; s < figure->count; s++) {
        const icl_series *series = &figure->series[s];
        const bool is_published = series->style == ICL_SERIES_PUBLISHED;
        const bool has_error = series->error && series->style == ICL_SERIES_OURS;
        ICL_TRY(add(t, error, "%s '%s.csv' every ::1 using %zu:%zu", s > 0 ? ", \\\n    " : "", figure->name,
                    3 * s + 1, 3 * s + 2));
        if (has_error)
            ICL_TRY(add(t, error, ":%zu", 3 * s + 3));
        ICL_TRY(add_style(t, series, is_published && colour > 0 ? colour - 1 : colour, error));
        colour += !is_published;
        ICL_TRY(add(t, error, " title "));
        ICL_TRY(add_quoted(t, series->label, error));
    }
    ICL_TRY(add(t, error, "\nunset output\n}\n"));
done:
    return status;
}

icl_status icl_reproduce_figure(icl_reproducing *run, const icl_figure *figure, icl_error *error) {
    text data = {0}, script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(add_rows(&data, figure, error));
    ICL_TRY(write_text(run, figure->name, ".csv", &data, error));
    ICL_TRY(add_head(&script, run, figure->name, figure->title, 800, 600, error));
    ICL_TRY(add_axis(&script, "x", figure->x_label, figure->log_x, error));
    ICL_TRY(add_axis(&script, "y", figure->y_label, figure->log_y, error));
    if (figure->least_y > 0)
        ICL_TRY(add(&script, error, "set yrange [%g:*]\n", figure->least_y));
    ICL_TRY(add_plot(&script, figure, error));
    ICL_TRY(write_text(run, figure->name, ".gp", &script, error));
    ICL_TRY(draw(run, figure->name, error));
done:
    icl_free(&data.bytes);
    icl_free(&script.bytes);
    return status;
}

/* ---- Heat maps ---- */

static icl_status write_matrix(const icl_reproducing *run, const char *name, size_t number,
                               const icl_heat_map *map, icl_error *error) {
    text data = {0};
    char suffix[32];
    icl_status status = ICL_OK;

    for (size_t i = 0; i < map->rows * map->columns; i++)
        ICL_TRY(add_number(&data, map->values[i], (i + 1) % map->columns == 0 ? "\n" : ",", error));
    snprintf(suffix, sizeof suffix, "-%zu.csv", number);
    ICL_TRY(write_text(run, name, suffix, &data, error));
done:
    icl_free(&data.bytes);
    return status;
}

static double largest_of(size_t count, const icl_heat_map *maps) {
    double largest = 0;

    for (size_t m = 0; m < count; m++)
        for (size_t i = 0; i < maps[m].rows * maps[m].columns; i++)
            largest = fmax(largest, fabs(maps[m].values[i]));
    return largest > 0 ? largest : 1;
}

/* What the panels share: their places, and one scale from red to blue with equal lightness on both sides of 0. */
static icl_status add_panels(text *t, const char *title, size_t rows, size_t columns, double largest,
                             icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(add(t, error, "unset title\nset multiplot layout %zu,%zu title ", rows, columns));
    ICL_TRY(add_quoted(t, title, error));
    ICL_TRY(
        add(t, error,
            " noenhanced\n"
            "set palette defined (-1 '#053061', -0.5 '#92c5de', 0 '#ffffff', 0.5 '#f4a582', 1 '#67001f')\n"
            "set cbrange [%g:%g]\nset yrange [*:*] reverse\nset size square\nunset xtics\nunset "
            "ytics\nunset key\n",
            -largest, largest));
done:
    return status;
}

icl_status icl_reproduce_heat_maps(icl_reproducing *run, const char *name, const char *title, size_t count,
                                   const icl_heat_map *maps, icl_error *error) {
    enum { PANEL = 260, PER_ROW = 4 };
    const size_t columns = count < PER_ROW ? count : PER_ROW, rows = (count + PER_ROW - 1) / PER_ROW;
    text script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(add_head(&script, run, name, title, (int)(PANEL * columns), (int)(PANEL * rows) + 40, error));
    ICL_TRY(add_panels(&script, title, rows, columns, largest_of(count, maps), error));
    for (size_t m = 0; m < count; m++) {
        ICL_TRY(write_matrix(run, name, m + 1, &maps[m], error));
        ICL_TRY(add(&script, error, "set title "));
        ICL_TRY(add_quoted(&script, maps[m].label, error));
        ICL_TRY(add(&script, error, " noenhanced\nplot '%s-%zu.csv' matrix with image\n", name, m + 1));
    }
    ICL_TRY(add(&script, error, "unset multiplot\nunset output\n}\n"));
    ICL_TRY(write_text(run, name, ".gp", &script, error));
    ICL_TRY(draw(run, name, error));
done:
    icl_free(&script.bytes);
    return status;
}
