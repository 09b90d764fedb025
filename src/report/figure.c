/*
 * Figures as data and gnuplot scripts: curves over a pair of axes, and matrices as heat maps.
 */
#include "report/figure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "report/report.h"

/* ---- Axes ---- */

/* A range holds every point with room around it, and numbers stand at chosen places on it. We choose both, because
 * gnuplot's own ranges end in a point or cut its mark, and it warns of an empty range. */

/* Room at either end, as a share of the span of the values. */
#define ROOM 0.04

/* About this many numbers stand on an axis. */
#define MOST_NUMBERS 8

/* A logarithmic axis of at least this many decades has only powers of ten. */
#define MANY_DECADES 2.5

typedef struct axis_range {
    double low, high; /* the range of the values so far; low > high: none */
    bool is_log;      /* takes only values above 0 */
    bool is_whole;    /* all values are whole numbers */
} axis_range;

static axis_range create_axis(bool is_log) {
    return (axis_range){.low = HUGE_VAL, .high = -HUGE_VAL, .is_log = is_log, .is_whole = true};
}

/* Widens the axis by values. Ignores those that are not finite, and those not above 0 on a logarithmic axis. */
static void add_to_axis(axis_range *axis, const double *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(values[i]) || (axis->is_log && values[i] <= 0))
            continue;
        axis->low = fmin(axis->low, values[i]);
        axis->high = fmax(axis->high, values[i]);
        axis->is_whole = axis->is_whole && values[i] == floor(values[i]);
    }
}

static bool has_values(const axis_range *axis) {
    return axis->low <= axis->high;
}

/* Returns the least of 1, 2, 5, 10, 20, … that is not below the value. */
static double round_up(double value) {
    const double power = pow(10, floor(log10(value)));
    return value <= power ? power : value <= 2 * power ? 2 * power : value <= 5 * power ? 5 * power : 10 * power;
}

static icl_status write_range(const char *name, double low, double high, icl_text *script, icl_error *error) {
    if (!isfinite(low) || !isfinite(high)) /* values at the edge of double precision: gnuplot's own range */
        return ICL_OK;
    /* Values that agree in more than three digits need all of theirs. */
    const int digits = high - low > 1e-3 * fmax(fabs(low), fabs(high)) ? 10 : 17;
    return icl_text_print(script, error, "set %srange [%.*g:%.*g]\n", name, digits, low, digits, high);
}

static icl_status write_linear(const axis_range *axis, const char *name, bool wants_whole, icl_text *script,
                               icl_error *error) {
    /* A single value gets a range of its own size around it. */
    const double span = axis->high > axis->low ? axis->high - axis->low : axis->high != 0 ? fabs(axis->high) : 1;
    const double room = axis->high > axis->low ? ROOM * span : span / 2;
    double step = round_up(span / MOST_NUMBERS);

    if (wants_whole && axis->is_whole)
        step = fmax(step, 1);
    ICL_CHECK(write_range(name, axis->low - room, axis->high + room, script, error));
    return icl_text_print(script, error, "set %stics %.10g\n", name, step);
}

/* Writes numbers at those multiples 1, 2 and 5 of powers of ten that lie in the range or, if it is narrow, at steps as
 * on a plain axis. */
static icl_status write_few_decades(double low, double high, const char *name, icl_text *script, icl_error *error) {
    static const int multiples[] = {1, 2, 5};
    const int first = (int)floor(log10(low)), last = (int)floor(log10(high));
    const double step = round_up((high - low) / MOST_NUMBERS), least = ceil(low / step);
    const char *before = "(";
    size_t count = 0;

    ICL_CHECK(icl_text_print(script, error, "set %stics ", name));
    for (int i = 0; i < 3 * (last - first + 1); i++) {
        const int power = first + i / 3;
        const double value = multiples[i % 3] * pow(10, power);
        count += value >= low && value <= high;
    }
    for (int i = 0; i < 3 * (last - first + 1) && count >= 3; i++) {
        const int power = first + i / 3;
        const double value = multiples[i % 3] * pow(10, power);
        if (value < low || value > high)
            continue;
        ICL_CHECK(icl_text_print(script, error, "%s%.10g", before, value));
        before = ", ";
    }
    for (int i = 0; count < 3 && (least + i) * step <= high; i++) {
        ICL_CHECK(icl_text_print(script, error, "%s%.6g", before, (least + i) * step));
        before = ", ";
    }
    return icl_text_print(script, error, ")\n");
}

static icl_status write_logarithmic(const axis_range *axis, const char *name, icl_text *script, icl_error *error) {
    const double decades = log10(axis->high / axis->low);
    const double room = pow(10, decades > 0.25 ? ROOM * decades : 0.15);
    const double low = axis->low / room, high = axis->high * room;

    ICL_CHECK(icl_text_print(script, error, "set logscale %s\n", name));
    ICL_CHECK(write_range(name, low, high, script, error));
    if (decades < MANY_DECADES)
        return write_few_decades(low, high, name, script, error);
    return icl_text_print(script, error, "set %stics %.10g\n", name, pow(10, ceil(decades / MOST_NUMBERS)));
}

/* Adds the commands for the axis "x" or "y": its range, with room at either end, and its numbers. With `wants_whole`,
 * whole values get whole numbers. An axis without values goes from 0 to 1. */
static icl_status write_axis(const axis_range *axis, const char *name, bool wants_whole, icl_text *script,
                             icl_error *error) {
    if (!has_values(axis))
        return write_range(name, 0, 1, script, error);
    return axis->is_log ? write_logarithmic(axis, name, script, error)
                        : write_linear(axis, name, wants_whole, script, error);
}

/* ---- Scripts of curves and of heat maps ---- */

/* The size of a letter in pixels of a picture. */
enum { LETTER_WIDTH = 8, LINE_HEIGHT = 18 };

/* Returns whether gnuplot takes a byte literally in double quotes; it does so for the bytes of UTF-8, too. */
static bool is_plain(unsigned char byte) {
    return byte >= 0x80 || (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z') || (byte != '\0' && strchr(" .,:;()+-*/=_<>|!?%^~&[]#$", byte) != NULL);
}

icl_status icl_script_text(icl_text *script, const char *text, icl_error *error) {
    enum { LONGEST = 1024 };
    char clean[LONGEST];

    ICL_CHECK(icl_text_append(script, "\"", 1, error));
    for (const char *c = icl_printable(text, clean, sizeof clean); *c != '\0'; c++)
        ICL_CHECK(is_plain((unsigned char)*c) ? icl_text_append(script, c, 1, error)
                                              : icl_text_print(script, error, "\\%03o", (unsigned)(unsigned char)*c));
    return icl_text_append(script, "\"", 1, error);
}

/* Returns where a line of at most `most` bytes ends: before its last blank or, if a word is longer, before the UTF-8
 * character that would go beyond. */
static size_t line_length(const char *text, size_t most) {
    size_t length = strlen(text), end = most;

    if (length <= most)
        return length;
    while (end > 0 && text[end] != ' ')
        end--;
    if (end == 0)
        for (end = most; end > 1 && ((unsigned char)text[end] & 0xc0) == 0x80; end--)
            continue;
    return end;
}

/* Adds such a string, on two lines if the text has more than `most` bytes (4 or more), and cuts it off if it needs more
 * lines, because gnuplot breaks none. */
static icl_status add_lines(icl_text *script, const char *text, size_t most, icl_error *error) {
    enum { LINES = 2 };
    icl_text line = {0};
    icl_status status = ICL_OK;

    for (int i = 1; i <= LINES; i++) {
        const bool is_cut = i == LINES && strlen(text) > most;
        const size_t length = line_length(text, is_cut ? most - 3 : most);
        line.length = 0;
        ICL_TRY(icl_text_append(&line, text, length, error));
        ICL_TRY(icl_text_append(&line, "...", is_cut ? 3 : 0, error));
        ICL_TRY(icl_script_text(script, line.bytes, error));
        text += length + (text[length] == ' ');
        if (*text == '\0' || is_cut)
            break;
        ICL_TRY(icl_text_print(script, error, ".\"\\n\"."));
    }
done:
    icl_text_release(&line);
    return status;
}

/* Begins a script. gnuplot runs the rest twice, for pictures of width x height pixels: SVG for pages, and PNG with
 * twice the pixels, so that it can be enlarged. */
static icl_status begin_script(icl_text *script, const icl_drawing *drawing, const char *name, const char *title,
                               size_t width, size_t height, icl_error *error) {
    ICL_CHECK(icl_text_print(script, error, "# Written by %s. Draw again: gnuplot %s.gp\n", drawing->command, name));
    ICL_CHECK(icl_text_print(script, error,
                             "set datafile separator ','\n"
                             "do for [kind in 'svg png'] {\n"
                             "options = 'noenhanced background \"#ffffff\" font \"sans-serif,%d\"'\n"
                             "if (kind eq 'svg') { eval 'set terminal svg dynamic size %zu,%zu '.options }\n"
                             "if (kind eq 'png') { eval 'set terminal '.(strstrt(GPVAL_TERMINALS, 'pngcairo') > 0 "
                             "? 'pngcairo size %zu,%zu fontscale 1.6 pointscale 2 linewidth 2 '.options "
                             ": 'png size %zu,%zu noenhanced background \"#ffffff\"') }\n"
                             "set output '%s.'.kind\n"
                             "set title ",
                             ICL_FIGURE_FONT, width, height, 2 * width, 2 * height, width, height, name));
    ICL_CHECK(add_lines(script, title, width / LETTER_WIDTH, error));
    return icl_text_print(script, error, " noenhanced\n");
}

/* Adds "set xlabel \"…\""; nothing if the label is NULL. `most` as above. */
static icl_status add_label(icl_text *script, const char *axis, const char *label, size_t most, icl_error *error) {
    if (!label)
        return ICL_OK;
    ICL_CHECK(icl_text_print(script, error, "set %slabel ", axis));
    ICL_CHECK(add_lines(script, label, most, error));
    return icl_text_print(script, error, " noenhanced\n");
}

/* Escapes the name of a place on an axis, because it is a format to gnuplot. */
static icl_status add_tick(icl_text *script, const char *name, icl_error *error) {
    icl_text format = {0};
    icl_status status = ICL_OK;

    for (; *name != '\0'; name++)
        ICL_TRY(icl_text_append(&format, *name == '%' ? "%%" : name, *name == '%' ? 2 : 1, error));
    ICL_TRY(icl_script_text(script, format.bytes ? format.bytes : "", error));
done:
    icl_text_release(&format);
    return status;
}

/* Adds "set xtics (…)": names at 0, 1, … */
static icl_status add_places(icl_text *script, const char *axis, const char *const *names, size_t count,
                             icl_error *error) {
    ICL_CHECK(icl_text_print(script, error, "set %stics scale 0 (", axis));
    for (size_t i = 0; i < count; i++) {
        ICL_CHECK(icl_text_append(script, ", ", i > 0 ? 2 : 0, error));
        ICL_CHECK(add_tick(script, names[i], error));
        ICL_CHECK(icl_text_print(script, error, " %zu", i));
    }
    return icl_text_print(script, error, ")\n");
}

static icl_status path_of(const icl_drawing *drawing, const char *name, const char *suffix, char **path,
                          icl_error *error) {
    icl_text file = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(&file, error, "%s%s", name, suffix));
    ICL_TRY(icl_path_join(drawing->folder, file.bytes, path, error));
done:
    icl_text_release(&file);
    return status;
}

/* Writes a file of the figure: its name, then the suffix. */
static icl_status write_file(const icl_drawing *drawing, const char *name, const char *suffix, const icl_text *content,
                             icl_error *error) {
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(path_of(drawing, name, suffix, &path, error));
    ICL_TRY(icl_file_write(path, content->bytes ? content->bytes : "", content->length, error));
done:
    icl_free(&path);
    return status;
}

/* Ends the script, writes it as NAME.gp, and draws. */
static icl_status finish_script(icl_text *script, const icl_drawing *drawing, const char *name, icl_error *error) {
    static const char *const pictures[] = {".svg", ".png"};
    icl_text file = {0};
    char *old = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_text_print(script, error, "unset output\n}\n"));
    ICL_TRY(write_file(drawing, name, ".gp", script, error));
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        ICL_TRY(path_of(drawing, name, pictures[i], &old, error));
        (void)remove(old);
        icl_free(&old);
    }
    ICL_TRY(icl_text_print(&file, error, "%s.gp", name));
    if (drawing->draw)
        ICL_TRY(drawing->draw(drawing->user, drawing->folder, file.bytes, error));
done:
    icl_free(&old);
    icl_text_release(&file);
    return status;
}

icl_status icl_script_write(const icl_drawing *drawing, const char *name, size_t width, size_t height,
                            const char *commands, icl_error *error) {
    icl_text script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(begin_script(&script, drawing, name, "", width, height, error));
    ICL_TRY(icl_text_append(&script, commands, strlen(commands), error));
    ICL_TRY(finish_script(&script, drawing, name, error));
done:
    icl_text_release(&script);
    return status;
}

/* ---- Curves ---- */

/* Pixels of a picture without its key; those of a key's entry without its text; and those left for labels at the
 * axes. */
enum { WIDTH = 560, HEIGHT = 430, SAMPLE = 60, AXIS_WIDTH = 410, AXIS_HEIGHT = 260 };

/* The most letters on a line in an entry of the key. */
enum { LETTERS_A_LINE = (WIDTH - 2 * SAMPLE) / LETTER_WIDTH };

/* The angle of names along x that would otherwise meet. */
#define SLANT "35"

/* About this many marks stand on a line of many points. */
#define MARKS_A_LINE 12

/* Adds the header of three columns a series: x, y and the standard error of y; series of fewer points leave their
 * fields empty. */
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

/* Adds how gnuplot draws a series. `colour` is its place among the series that are not published, so that a published
 * series has the colour and the shape of mark of our series before it. */
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
        return icl_text_print(script, error, " with %s pointtype %d pointsize 0.4 linecolor '%s'",
                              series->error ? "yerrorbars" : "points", filled[colour % MARKS], of);
    case ICL_SERIES_LINE:
    default:
        return icl_text_print(script, error,
                              " with linespoints pointtype %d pointsize 0.6 pointinterval %zu linewidth 1.5 "
                              "linecolor '%s'",
                              filled[colour % MARKS], 1 + series->count / MARKS_A_LINE, of);
    }
}

/* Limits y to the figure's least_y and most_y, so that a value outside these does not widen the axis. */
static double within(const icl_figure *figure, double y) {
    if (figure->least_y > 0 && y < figure->least_y)
        return figure->least_y;
    return figure->most_y > 0 && y > figure->most_y ? figure->most_y : y;
}

/* Returns whether a series is drawn with bars. */
static bool has_bars(const icl_series *series) {
    return series->error && (series->style == ICL_SERIES_OURS || series->style == ICL_SERIES_CLOUD);
}

/* Measures the axis with the ends of standard errors, which may lie where a logarithmic axis has no place. */
static axis_range measure_y(const icl_figure *figure) {
    axis_range axis = create_axis(figure->log_y);

    for (size_t s = 0; s < figure->count; s++) {
        const icl_series *series = &figure->series[s];
        const bool is_band = series->style == ICL_SERIES_BAND;
        const bool has_error = has_bars(series);
        for (size_t i = 0; i < series->count; i++) {
            const double y = series->y[i], spread = has_error && isfinite(series->error[i]) ? series->error[i] : 0;
            const double ends[] = {within(figure, y), within(figure, is_band ? series->error[i] : y + spread),
                                   within(figure, y - spread)};
            add_to_axis(&axis, ends, figure->log_y && y - spread < y / 10 ? 2 : 3);
        }
    }
    return axis;
}

static axis_range measure_x(const icl_figure *figure) {
    axis_range axis = create_axis(figure->log_x);

    for (size_t s = 0; s < figure->count; s++)
        add_to_axis(&axis, figure->series[s].x, figure->series[s].count);
    return axis;
}

static icl_status add_named_axis(icl_text *script, const icl_figure *figure, icl_error *error) {
    size_t longest = 0;

    for (size_t i = 0; i < figure->x_name_count; i++)
        longest = strlen(figure->x_names[i]) > longest ? strlen(figure->x_names[i]) : longest;
    if ((longest + 1) * figure->x_name_count * LETTER_WIDTH > WIDTH * 4 / 5)
        ICL_CHECK(icl_text_print(script, error, "set xtics rotate by " SLANT " right\n"));
    ICL_CHECK(add_places(script, "x", figure->x_names, figure->x_name_count, error));
    return icl_text_print(script, error, "set xrange [-0.5:%zu.5]\n", figure->x_name_count - 1);
}

static icl_status add_axes(icl_text *script, const icl_figure *figure, icl_error *error) {
    const axis_range x = measure_x(figure), y = measure_y(figure);

    ICL_CHECK(add_label(script, "x", figure->x_label, AXIS_WIDTH / LETTER_WIDTH, error));
    ICL_CHECK(add_label(script, "y", figure->y_label, AXIS_HEIGHT / LETTER_WIDTH, error));
    ICL_CHECK(figure->x_names ? add_named_axis(script, figure, error) : write_axis(&x, "x", true, script, error));
    return write_axis(&y, "y", false, script, error);
}

/* Returns whether a series has a point for which its axes have a place: gnuplot warns of one without. */
static bool can_be_drawn(const icl_figure *figure, const icl_series *series) {
    for (size_t i = 0; i < series->count; i++)
        if (isfinite(series->x[i]) && isfinite(series->y[i]) && (!figure->log_x || series->x[i] > 0) &&
            (!figure->log_y || series->y[i] > 0))
            return true;
    return false;
}

/* Returns the height of the picture and, below it, the rows of its key; a long entry has several lines. */
static size_t height_of(const icl_figure *figure) {
    size_t longest = 1, entries = 0, lines = 1, a_row;

    for (size_t s = 0; s < figure->count; s++)
        if (can_be_drawn(figure, &figure->series[s])) {
            const size_t length = strlen(figure->series[s].label);
            longest = length > longest ? length : longest;
            lines = length / LETTERS_A_LINE + 1 > lines ? length / LETTERS_A_LINE + 1 : lines;
            entries++;
        }
    a_row = WIDTH / (longest * LETTER_WIDTH + SAMPLE);
    a_row = a_row > 0 ? a_row : 1;
    return HEIGHT + (entries + a_row - 1) / a_row * lines * LINE_HEIGHT;
}

static icl_status add_series(icl_text *script, const icl_figure *figure, size_t s, size_t colour, icl_error *error) {
    const icl_series *series = &figure->series[s];
    const bool has_third = series->style == ICL_SERIES_BAND || has_bars(series);

    ICL_CHECK(icl_text_print(script, error, "'%s.csv' every ::1 using %zu:%zu", figure->name, 3 * s + 1, 3 * s + 2));
    if (has_third)
        ICL_CHECK(icl_text_print(script, error, ":%zu", 3 * s + 3));
    ICL_CHECK(add_style(script, series, colour, error));
    ICL_CHECK(icl_text_print(script, error, " title "));
    return add_lines(script, series->label, LETTERS_A_LINE, error);
}

static icl_status add_plot(icl_text *script, const icl_figure *figure, icl_error *error) {
    const char *before = "plot ";
    size_t colour = 0;

    /* The extra height separates a key of several rows from the label of the axis above it. */
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
    ICL_TRY(write_file(drawing, figure->name, ".csv", &data, error));
    ICL_TRY(begin_script(&script, drawing, figure->name, figure->title, WIDTH, height_of(figure), error));
    ICL_TRY(add_axes(&script, figure, error));
    ICL_TRY(add_plot(&script, figure, error));
    ICL_TRY(finish_script(&script, drawing, figure->name, error));
done:
    icl_text_release(&data);
    icl_text_release(&script);
    return status;
}

/* ---- Heat maps ---- */

/* Matrices as heat maps. */

/* The most rows or columns of a map with signs and names. */
#define MOST_NAMED 24

/* The most columns of a map with numbers: in narrower columns they would not fit. */
#define MOST_NUMBERED 10

/* The letters of a label next to a panel. */
#define LETTERS_A_PANEL 28

/* A cell gets a sign from the first share of the largest value on; from the second on it is dark and the sign white. */
#define LEAST_SIGNED "0.05"
#define LEAST_DARK   "0.55"

/* Draws a map of one row or column as boxes, because gnuplot draws no image of fewer than two. */
#define AS_BOXES ":($1-0.5):($1+0.5):($2-0.5):($2+0.5):%s with boxxyerror fillstyle solid noborder linecolor palette"

static icl_status write_matrix(const icl_drawing *drawing, const char *name, size_t number, const icl_heat_map *map,
                               icl_error *error) {
    icl_text data = {0};
    char suffix[32];
    icl_status status = ICL_OK;

    for (size_t i = 0; i < map->rows * map->columns; i++)
        ICL_TRY(icl_text_number_field(&data, map->values[i], (i + 1) % map->columns == 0 ? "\n" : ",", error));
    snprintf(suffix, sizeof suffix, "-%zu.csv", number);
    ICL_TRY(write_file(drawing, name, suffix, &data, error));
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

/* Adds a scale from red to blue with equal lightness on both sides of 0, which is why cells have signs. */
static icl_status add_signed_scale(icl_text *script, double largest, icl_error *error) {
    return icl_text_print(
        script, error,
        "set palette defined (-1 '#053061', -0.5 '#92c5de', 0 '#ffffff', 0.5 '#f4a582', 1 '#67001f')\n"
        "largest = %.17g\nset cbrange [-largest:largest]\n"
        "sign(v) = abs(v) < " LEAST_SIGNED " * largest ? '' : v < 0 ? '-' : '+'\n"
        "ink(v) = abs(v) < " LEAST_DARK " * largest ? 0x000000 : 0xffffff\n",
        largest);
}

/* Adds a scale from light to dark, over at most four decades: smaller losses are rounding errors and look like the
 * least. */
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
                              "set cblabel offset -1.5,0\nset logscale cb\nset cbrange [least:largest]\nshade(v) = v < "
                              "least ? least : v\nsign(v) "
                              "= sprintf('%%.3g', v)\n"
                              "ink(v) = v < least**0.4 * largest**0.6 ? 0x000000 : 0xffffff\n");
    return icl_text_print(script, error,
                          "set cbrange [0:largest]\nshade(v) = v\nsign(v) = sprintf('%%.3g', v)\n"
                          "ink(v) = v < " LEAST_DARK " * largest ? 0x000000 : 0xffffff\n");
}

/* Adds the layout of the panels and their common scale. */
static icl_status add_panels(icl_text *script, const icl_heat_figure *figure, size_t rows, size_t columns,
                             size_t letters, icl_error *error) {
    const double largest = largest_of(figure->count, figure->maps);

    ICL_CHECK(icl_text_print(script, error, "unset title\nset multiplot layout %zu,%zu title ", rows, columns));
    ICL_CHECK(add_lines(script, figure->title, letters, error));
    ICL_CHECK(icl_text_print(script, error, " noenhanced\n%sunset key\n", figure->amounts ? "" : "set size square\n"));
    ICL_CHECK(figure->amounts ? add_amount_scale(script, figure, largest, error)
                              : add_signed_scale(script, largest, error));
    ICL_CHECK(add_label(script, "x", figure->column_label, LETTERS_A_PANEL, error));
    ICL_CHECK(add_label(script, "y", figure->row_label, LETTERS_A_PANEL, error));
    return add_label(script, "cb", figure->value_label, LETTERS_A_PANEL, error);
}

static icl_status add_names(icl_text *script, const char *axis, const char *const *names, size_t count,
                            icl_error *error) {
    if (!names || count > MOST_NAMED)
        return icl_text_print(script, error, "unset %stics\n", axis);
    return add_places(script, axis, names, count, error);
}

/* Adds a map with row 0 on top, as matrices are written. `pixels` makes gnuplot draw rectangles, because viewers smooth
 * an image. */
static icl_status add_map(icl_text *script, const icl_heat_figure *figure, size_t number, icl_error *error) {
    const icl_heat_map *map = &figure->maps[number - 1];
    const bool is_small = map->rows <= MOST_NAMED && map->columns <= MOST_NAMED;
    const bool is_line = map->rows == 1 || map->columns == 1;

    ICL_CHECK(icl_text_print(script, error, "set title "));
    ICL_CHECK(add_lines(script, map->label, LETTERS_A_PANEL, error));
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

/* Returns the height of a panel: of its width, or more, so that the names of rows stand apart. */
static size_t panel_height(const icl_heat_figure *figure, size_t width) {
    enum { MARGINS = 140 };
    size_t most = 0;

    for (size_t m = 0; m < figure->count; m++)
        if (figure->maps[m].row_names && figure->maps[m].rows <= MOST_NAMED && figure->maps[m].rows > most)
            most = figure->maps[m].rows;
    return most * LINE_HEIGHT + MARGINS > width ? most * LINE_HEIGHT + MARGINS : width;
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
    /* Two panels a row, as P and Q of a layer, can be read on a phone. */
    const size_t most = figure->count <= SOME ? PAIR : PER_ROW;
    const size_t columns = figure->count < most ? figure->count : most;
    const size_t rows = (figure->count + most - 1) / most;
    const size_t width = panel * columns > least_width ? panel * columns : least_width;
    icl_text script = {0};
    icl_status status = ICL_OK;

    ICL_TRY(begin_script(&script, drawing, figure->name, figure->title, width,
                         panel_height(figure, panel) * rows + TITLE, error));
    ICL_TRY(add_panels(&script, figure, rows, columns, width / LETTER_WIDTH, error));
    for (size_t m = 0; m < figure->count; m++) {
        ICL_TRY(write_matrix(drawing, figure->name, m + 1, &figure->maps[m], error));
        ICL_TRY(add_map(&script, figure, m + 1, error));
    }
    ICL_TRY(icl_text_print(&script, error, "unset multiplot\n"));
    ICL_TRY(finish_script(&script, drawing, figure->name, error));
done:
    icl_text_release(&script);
    return status;
}
