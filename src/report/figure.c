#include "iclab/figure.h"

#include <math.h>

#include "report/figure_script.h"

/* A line of many points has about this many marks. */
#define MARKS_A_LINE 12

/* Three columns a series: x, y and the standard error of y; series of fewer points leave their fields empty. */
static icl_status add_header(icl_text *data, const icl_figure *figure, icl_error *error) {
    icl_text heading = {0};
    icl_status status = ICL_OK;

    for (size_t s = 0; s < figure->count; s++)
        for (int column = 0; column < 3; column++) {
            const char *const names[] = {figure->x_label, figure->y_label, "standard error"};
            heading.length = 0;
            ICL_TRY(icl_text_print(&heading, error, "%s: %s", figure->series[s].label, names[column]));
            ICL_TRY(icl_text_field(data, heading.bytes, s + 1 == figure->count && column == 2 ? "\n" : ",", error));
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

static icl_status add_axes(icl_text *script, const icl_figure *figure, icl_error *error) {
    ICL_CHECK(icl_script_label(script, "x", figure->x_label, error));
    ICL_CHECK(icl_script_label(script, "y", figure->y_label, error));
    if (figure->x_names) {
        ICL_CHECK(icl_script_names(script, "x", figure->x_names, figure->x_name_count, error));
        ICL_CHECK(icl_text_print(script, error, "set xrange [-0.5:%zu.5]\n", figure->x_name_count - 1));
    }
    if (figure->log_x)
        ICL_CHECK(icl_text_print(script, error, "set logscale x\n"));
    if (figure->log_y)
        ICL_CHECK(icl_text_print(script, error, "set logscale y\n"));
    if (figure->least_y > 0)
        ICL_CHECK(icl_text_print(script, error, "set yrange [%g:*]\n", figure->least_y));
    return ICL_OK;
}

static icl_status add_plot(icl_text *script, const icl_figure *figure, icl_error *error) {
    size_t colour = 0;

    /* The height is what parts a key of several rows from the label of the axis above it. */
    ICL_CHECK(icl_text_print(script, error, "set grid\nset key outside below height 1.5 noenhanced\nplot"));
    for (size_t s = 0; s < figure->count; s++) {
        const icl_series *series = &figure->series[s];
        const bool is_published = series->style == ICL_SERIES_PUBLISHED;
        const bool has_error = series->error && series->style == ICL_SERIES_OURS;
        ICL_CHECK(icl_text_print(script, error, "%s '%s.csv' every ::1 using %zu:%zu", s > 0 ? ", \\\n    " : "",
                                 figure->name, 3 * s + 1, 3 * s + 2));
        if (has_error)
            ICL_CHECK(icl_text_print(script, error, ":%zu", 3 * s + 3));
        ICL_CHECK(add_style(script, series, is_published && colour > 0 ? colour - 1 : colour, error));
        colour += !is_published;
        ICL_CHECK(icl_text_print(script, error, " title "));
        ICL_CHECK(icl_script_text(script, series->label, error));
    }
    return icl_text_print(script, error, "\n");
}

icl_status icl_figure_write(const icl_drawing *drawing, const icl_figure *figure, icl_error *error) {
    enum { WIDTH = 800, HEIGHT = 600 };
    icl_text data = {0}, script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(add_header(&data, figure, error));
    ICL_TRY(add_rows(&data, figure, error));
    ICL_TRY(icl_figure_file(drawing, figure->name, ".csv", &data, error));
    ICL_TRY(icl_script_begin(&script, drawing, figure->name, figure->title, WIDTH, HEIGHT, error));
    ICL_TRY(add_axes(&script, figure, error));
    ICL_TRY(add_plot(&script, figure, error));
    ICL_TRY(icl_script_finish(&script, drawing, figure->name, error));
done:
    icl_text_release(&data);
    icl_text_release(&script);
    return status;
}
