#include "iclab/figure.h"

#include <math.h>

#include <string.h>

#include "report/axis.h"
#include "report/figure_script.h"

/* Pixels of a picture without its key; what a key's entry has beside its text; and what is left for labels beside the
 * axes. */
enum { WIDTH = 560, HEIGHT = 430, SAMPLE = 60, AXIS_WIDTH = 410, AXIS_HEIGHT = 260 };

/* Of a key's entry. */
enum { LETTERS_A_LINE = (WIDTH - 2 * SAMPLE) / ICL_SCRIPT_LETTER };

/* Names along x that would meet are turned. */
#define SLANT "35"

/* A line of many points has about this many marks. */
#define MARKS_A_LINE 12

/* Three columns a series: x, y and the standard error of y; series of fewer points leave their fields empty. */
static icl_status add_header(icl_text *data, const icl_figure *figure, icl_error *error) {
    icl_text heading = {0};
    icl_status status = ICL_OK;

    for (size_t s = 0; s < figure->count; s++)
        for (int column = 0; column < 3; column++) {
            const bool is_band = figure->series[s].style == ICL_SERIES_BAND;
            const char *const names[] = {figure->x_label, is_band ? "from" : figure->y_label,
                                         is_band ? "to" : "standard error"};
            heading.length = 0;
            ICL_TRY(icl_text_print(&heading, error, "%s: %s", figure->series[s].label, names[column]));
            ICL_TRY(icl_text_quote(data, heading.bytes, '"', error)); /* gnuplot reads line by line */
            ICL_TRY(icl_text_print(data, error, s + 1 == figure->count && column == 2 ? "\n" : ","));
        }
done:
    icl_text_release(&heading);
    return status;
}

static icl_status add_rows(icl_text *data, const icl_figure *figure, icl_error *error) {
    size_t rows = 0;

    for (size_t s = 0; s < figure->count; s++)
        rows = figure->series[s].count > rows ? figure->series[s].count : rows;
    for (size_t i = 0; i < rows; i++)
        for (size_t s = 0; s < figure->count; s++) {
            const icl_series *series = &figure->series[s];
            const bool there = i < series->count;
            ICL_CHECK(icl_text_number_field(data, there ? series->x[i] : (double)NAN, ",", error));
            ICL_CHECK(icl_text_number_field(data, there ? series->y[i] : (double)NAN, ",", error));
            ICL_CHECK(icl_text_number_field(data, there && series->error ? series->error[i] : (double)NAN,
                                            s + 1 < figure->count ? "," : "\n", error));
        }
    return ICL_OK;
}

static const char *const colours[] = {"#000000", "#0072b2", "#d55e00", "#009e73",
                                      "#cc79a7", "#7f7f7f", "#e69f00", "#56b4e9"};
enum { COLOURS = sizeof colours / sizeof *colours };

/* How gnuplot draws a series: `colour` is its place among those that are not published, so that a published series has
 * the colour and the shape of mark of the one of ours before it. */
static icl_status add_style(icl_text *script, const icl_series *series, size_t colour, icl_error *error) {
    static const int filled[] = {7, 5, 9, 13, 11}, open[] = {6, 4, 8, 12, 10};
    enum { MARKS = sizeof filled / sizeof *filled };
    const char *const of = colours[colour % COLOURS];

    switch (series->style) {
    case ICL_SERIES_BAND:
        return icl_text_print(script, error, " with filledcurves fillstyle solid noborder linecolor '#c6d7e8'");
    case ICL_SERIES_OURS:
        return icl_text_print(script, error, " with %s pointtype %d pointsize 0.8 linewidth 1.5 linecolor '%s'",
                              series->error ? "yerrorlines" : "linespoints", filled[colour % MARKS], of);
    case ICL_SERIES_PUBLISHED:
        return icl_text_print(script, error, " with points pointtype %d pointsize 1.4 linewidth 1.5 linecolor '%s'",
                              open[colour % MARKS], of);
    case ICL_SERIES_REFERENCE:
        return icl_text_print(script, error, " with lines dashtype %zu linewidth 1.5 linecolor '%s'", 2 + colour % 4,
                              of);
    case ICL_SERIES_CLOUD:
        return icl_text_print(script, error, " with points pointtype %d pointsize 0.4 linecolor '%s'",
                              filled[colour % MARKS], of);
    case ICL_SERIES_LINE:
    default:
        return icl_text_print(script, error,
                              " with linespoints pointtype %d pointsize 0.6 pointinterval %zu linewidth 1.5 "
                              "linecolor '%s'",
                              filled[colour % MARKS], 1 + series->count / MARKS_A_LINE, of);
    }
}

/* ---- Axes ---- */

/* A value that lies outside by the figure's own word does not widen its axis. */
static double within(const icl_figure *figure, double y) {
    if (figure->least_y > 0 && y < figure->least_y)
        return figure->least_y;
    return figure->most_y > 0 && y > figure->most_y ? figure->most_y : y;
}

/* With the ends of standard errors, which may not reach what a logarithmic axis has no place for. */
static icl_figure_axis measure_y(const icl_figure *figure) {
    icl_figure_axis axis = icl_figure_axis_create(figure->log_y);

    for (size_t s = 0; s < figure->count; s++) {
        const icl_series *series = &figure->series[s];
        const bool has_error = series->error && series->style == ICL_SERIES_OURS;
        const bool is_band = series->style == ICL_SERIES_BAND;
        for (size_t i = 0; i < series->count; i++) {
            const double y = series->y[i], spread = has_error && isfinite(series->error[i]) ? series->error[i] : 0;
            const double ends[] = {within(figure, y), within(figure, is_band ? series->error[i] : y + spread),
                                   within(figure, y - spread)};
            icl_figure_axis_add(&axis, ends, figure->log_y && y - spread < y / 10 ? 2 : 3);
        }
    }
    return axis;
}

static icl_figure_axis measure_x(const icl_figure *figure) {
    icl_figure_axis axis = icl_figure_axis_create(figure->log_x);

    for (size_t s = 0; s < figure->count; s++)
        icl_figure_axis_add(&axis, figure->series[s].x, figure->series[s].count);
    return axis;
}

static icl_status add_named_axis(icl_text *script, const icl_figure *figure, icl_error *error) {
    size_t longest = 0;

    for (size_t i = 0; i < figure->x_name_count; i++)
        longest = strlen(figure->x_names[i]) > longest ? strlen(figure->x_names[i]) : longest;
    if ((longest + 1) * figure->x_name_count * ICL_SCRIPT_LETTER > WIDTH * 4 / 5)
        ICL_CHECK(icl_text_print(script, error, "set xtics rotate by " SLANT " right\n"));
    ICL_CHECK(icl_script_names(script, "x", figure->x_names, figure->x_name_count, error));
    return icl_text_print(script, error, "set xrange [-0.5:%zu.5]\n", figure->x_name_count - 1);
}

static icl_status add_axes(icl_text *script, const icl_figure *figure, icl_error *error) {
    const icl_figure_axis x = measure_x(figure), y = measure_y(figure);

    ICL_CHECK(icl_script_label(script, "x", figure->x_label, AXIS_WIDTH / ICL_SCRIPT_LETTER, error));
    ICL_CHECK(icl_script_label(script, "y", figure->y_label, AXIS_HEIGHT / ICL_SCRIPT_LETTER, error));
    ICL_CHECK(figure->x_names ? add_named_axis(script, figure, error)
                              : icl_figure_axis_write(&x, "x", true, script, error));
    return icl_figure_axis_write(&y, "y", false, script, error);
}

/* ---- The plot ---- */

/* Whether a series has a point that its axes have a place for: gnuplot warns of one without. */
static bool can_be_drawn(const icl_figure *figure, const icl_series *series) {
    for (size_t i = 0; i < series->count; i++)
        if (isfinite(series->x[i]) && isfinite(series->y[i]) && (!figure->log_x || series->x[i] > 0) &&
            (!figure->log_y || series->y[i] > 0))
            return true;
    return false;
}

/* Below the picture's own height, the rows of its key; a long entry has several lines. */
static size_t height_of(const icl_figure *figure) {
    size_t longest = 1, entries = 0, lines = 1, a_row;

    for (size_t s = 0; s < figure->count; s++)
        if (can_be_drawn(figure, &figure->series[s])) {
            const size_t length = strlen(figure->series[s].label);
            longest = length > longest ? length : longest;
            lines = length / LETTERS_A_LINE + 1 > lines ? length / LETTERS_A_LINE + 1 : lines;
            entries++;
        }
    a_row = WIDTH / (longest * ICL_SCRIPT_LETTER + SAMPLE);
    a_row = a_row > 0 ? a_row : 1;
    return HEIGHT + (entries + a_row - 1) / a_row * lines * ICL_SCRIPT_LINE;
}

static icl_status add_series(icl_text *script, const icl_figure *figure, size_t s, size_t colour, icl_error *error) {
    const icl_series *series = &figure->series[s];
    const bool has_third = series->style == ICL_SERIES_BAND || (series->error && series->style == ICL_SERIES_OURS);

    ICL_CHECK(icl_text_print(script, error, "'%s.csv' every ::1 using %zu:%zu", figure->name, 3 * s + 1, 3 * s + 2));
    if (has_third)
        ICL_CHECK(icl_text_print(script, error, ":%zu", 3 * s + 3));
    ICL_CHECK(add_style(script, series, colour, error));
    ICL_CHECK(icl_text_print(script, error, " title "));
    return icl_script_lines(script, series->label, LETTERS_A_LINE, error);
}

static icl_status add_plot(icl_text *script, const icl_figure *figure, icl_error *error) {
    const char *before = "plot ";
    size_t colour = 0;

    /* The height is what parts a key of several rows from the label of the axis above it. */
    ICL_CHECK(icl_text_print(script, error,
                             "set grid\nset key bmargin left horizontal Left reverse height 1.5 noenhanced\n"));
    for (size_t s = 0; s < figure->count; s++) {
        const icl_series *series = &figure->series[s];
        const bool is_published = series->style == ICL_SERIES_PUBLISHED;
        if (can_be_drawn(figure, series)) {
            ICL_CHECK(icl_text_print(script, error, "%s", before));
            ICL_CHECK(add_series(script, figure, s, is_published && colour > 0 ? colour - 1 : colour, error));
            before = ", \\\n    ";
        }
        colour += !is_published && series->style != ICL_SERIES_BAND;
    }
    if (strcmp(before, "plot ") == 0)
        return icl_text_print(script, error,
                              "set label 'no number here can be drawn' at graph 0.5,0.5 center\nplot NaN notitle\n");
    return icl_text_print(script, error, "\n");
}

icl_status icl_figure_write(const icl_drawing *drawing, const icl_figure *figure, icl_error *error) {
    icl_text data = {0}, script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(add_header(&data, figure, error));
    ICL_TRY(add_rows(&data, figure, error));
    ICL_TRY(icl_figure_file(drawing, figure->name, ".csv", &data, error));
    ICL_TRY(icl_script_begin(&script, drawing, figure->name, figure->title, WIDTH, height_of(figure), error));
    ICL_TRY(add_axes(&script, figure, error));
    ICL_TRY(add_plot(&script, figure, error));
    ICL_TRY(icl_script_finish(&script, drawing, figure->name, error));
done:
    icl_text_release(&data);
    icl_text_release(&script);
    return status;
}
