/* Figures as their reader sees them: points by the curve's name in the key, values of a map by the names of its row and
 * column, axes by their labels. They are read from the script that gnuplot draws and from the data that it names. */
#ifndef ICLAB_TESTS_SHOWN_FIGURE_H
#define ICLAB_TESTS_SHOWN_FIGURE_H

#include "shown_table.h"

enum { SHOWN_POINTS = 1024, SHOWN_SERIES = 12, SHOWN_NAMES = 64 };

typedef struct shown_series {
    char title[256], style[32];
    size_t count; /* the number of points whose x and y are numbers */
    bool has_third;
    double x[SHOWN_POINTS], y[SHOWN_POINTS], third[SHOWN_POINTS]; /* third: bars, or the upper edge of a band */
} shown_series;

typedef struct shown_map {
    char label[256];
    size_t row_names, column_names;
    char rows[SHOWN_NAMES][128], columns[SHOWN_NAMES][128];
    shown_table values; /* without headings */
} shown_map;

typedef struct shown_figure {
    char title[512], x_label[256], y_label[256], value_label[256];
    double x_range[2], y_range[2];
    bool log_x, log_y;
    size_t x_names, count, maps; /* count: of the curves */
    char x_name[SHOWN_NAMES][128];
    shown_series series[SHOWN_SERIES];
    shown_map map[SHOWN_SERIES];
} shown_figure;

static inline void shown_figure_free(shown_figure **figure) {
    for (size_t i = 0; *figure && i < (*figure)->maps; i++)
        shown_table_release(&(*figure)->map[i].values);
    free(*figure);
    *figure = NULL;
}

/* ---- The script ---- */

/* Reads a string of gnuplot's, in one or several pieces; a newline in it becomes a blank. Returns the text after it. */
static inline const char *shown_string(const char *at, char *text, size_t size) {
    size_t length = 0;

    while (*at == '"') {
        for (at++; *at && *at != '"'; at++) {
            char byte = *at;
            if (*at == '\\' && at[1] == 'n') {
                byte = ' ';
                at++;
            } else if (*at == '\\') {
                byte = (char)strtol((const char[]){at[1], at[2], at[3], '\0'}, NULL, 8);
                at += 3;
            }
            if (length + 1 < size)
                text[length++] = byte;
        }
        at += *at == '"';
        at += at[0] == '.' && at[1] == '"';
    }
    text[length] = '\0';
    return at;
}

/* Reads ("a" 0, "b" 1): each name at its position; in a format "%%" is a percent sign. */
static inline size_t shown_names(const char *at, char names[SHOWN_NAMES][128]) {
    size_t count = 0;

    while (*at && *at != '\n' && *at != ')') {
        char text[128];
        size_t length = 0;
        at = shown_string(at + strcspn(at, "\"\n"), text, sizeof text);
        const unsigned long place = strtoul(at, NULL, 10);
        if (place != count || count == SHOWN_NAMES)
            shown_give_up("a name out of its place", text);
        for (const char *c = text; *c; c++)
            if (c[0] != '%' || c[1] != '%')
                names[count][length++] = *c;
        names[count++][length] = '\0';
        at += strcspn(at, ",)\n");
    }
    return count;
}

/* Reads 'NAME.csv' every ::1 using 1:2:3 with STYLE … title "…". The header names the curve and the axes. */
static inline void shown_series_read(shown_figure *figure, const shown_table *data, const char *entry) {
    shown_series *series = &figure->series[figure->count++];
    const char *style = strstr(entry, " with ") + strlen(" with ");
    char expected[600], *end = NULL;

    (void)shown_string(strstr(entry, " title ") + strlen(" title "), series->title, sizeof series->title);
    snprintf(series->style, sizeof series->style, "%.*s", (int)strcspn(style, " "), style);
    const size_t x = strtoul(strstr(entry, " using ") + strlen(" using "), &end, 10) - 1;
    const size_t y = strtoul(end + 1, &end, 10) - 1, third = *end == ':' ? strtoul(end + 1, NULL, 10) - 1 : y;
    series->has_third = third != y;
    snprintf(expected, sizeof expected, "%s: %s", series->title, figure->x_label);
    if (third >= data->columns || strcmp(data->cells[x], expected) != 0)
        shown_give_up("x of another heading", data->cells[x]);
    for (size_t row = 1; row < data->rows; row++) {
        char *const *cells = data->cells + row * SHOWN_COLUMNS;
        if (*cells[x] == '\0' || *cells[y] == '\0' || series->count == SHOWN_POINTS)
            continue;
        series->x[series->count] = strtod(cells[x], NULL);
        series->y[series->count] = strtod(cells[y], NULL);
        series->third[series->count++] = *cells[third] ? strtod(cells[third], NULL) : (double)NAN;
    }
}

/* Reads 'NAME-1.csv' matrix …, with row 0 on top. */
static inline void shown_map_read(shown_figure *figure, const char *folder, const char *entry) {
    shown_map *map = &figure->map[figure->maps++];
    char name[256], *text;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(entry + 1, "'"), entry + 1);
    text = shown_file(folder, name);
    map->values = shown_csv(text);
    free(text);
    if ((map->row_names > 0 && map->row_names != map->values.rows) ||
        (map->column_names > 0 && map->column_names != map->values.columns) ||
        figure->x_range[1] != (double)map->values.columns - .5 || figure->x_range[0] != -.5 ||
        figure->y_range[0] != (double)map->values.rows - .5 || figure->y_range[1] != -.5)
        shown_give_up("a map that does not fit its axes", name);
}

static inline const char *shown_behind(const char *line, const char *words) {
    return strncmp(line, words, strlen(words)) == 0 ? line + strlen(words) : NULL;
}

/* [LOW:HIGH] */
static inline void shown_range(const char *at, double range[2]) {
    char *colon;

    range[0] = strtod(at + 1, &colon);
    range[1] = strtod(colon + 1, NULL);
}

static inline void shown_setting_read(shown_figure *figure, const char *line) {
    shown_map *map = &figure->map[figure->maps]; /* the next map */
    const char *at;

    if ((at = shown_behind(line, "set multiplot")))
        (void)shown_string(strchr(at, '"'), figure->title, sizeof figure->title);
    else if ((at = shown_behind(line, "set title ")) && figure->title[0] == '\0')
        (void)shown_string(at, figure->title, sizeof figure->title);
    else if (at)
        (void)shown_string(at, map->label, sizeof map->label);
    else if ((at = shown_behind(line, "set xlabel ")))
        (void)shown_string(at, figure->x_label, sizeof figure->x_label);
    else if ((at = shown_behind(line, "set ylabel ")))
        (void)shown_string(at, figure->y_label, sizeof figure->y_label);
    else if ((at = shown_behind(line, "set cblabel ")))
        (void)shown_string(at, figure->value_label, sizeof figure->value_label);
    else if ((at = shown_behind(line, "set xrange ")))
        shown_range(at, figure->x_range);
    else if ((at = shown_behind(line, "set yrange ")))
        shown_range(at, figure->y_range);
    else if ((at = shown_behind(line, "set xtics scale 0 "))) {
        map->column_names = shown_names(at, map->columns);
        figure->x_names = shown_names(at, figure->x_name);
    } else if ((at = shown_behind(line, "set ytics scale 0 ")))
        map->row_names = shown_names(at, map->rows);
    figure->log_x = figure->log_x || shown_behind(line, "set logscale x");
    figure->log_y = figure->log_y || shown_behind(line, "set logscale y");
}

/* Reads a figure, to be freed with shown_figure_free; NULL if the folder has no such script. */
static inline shown_figure *shown_figure_read(const char *folder, const char *name) {
    char file[256];
    shown_figure *figure = calloc(1, sizeof *figure);

    snprintf(file, sizeof file, "%s.gp", name);
    char *script = shown_file(folder, file);
    snprintf(file, sizeof file, "%s.csv", name);
    char *text = shown_file(folder, file);
    shown_table data = shown_csv(text);
    for (const char *line = script; figure && line && *line; line += strcspn(line, "\n"), line += *line == '\n') {
        const char *entry = strncmp(line, "plot '", 6) == 0  ? line + 5
                            : strncmp(line, "    '", 5) == 0 ? line + 4
                                                             : NULL;
        if (!entry)
            shown_setting_read(figure, line);
        else if (strstr(entry, " every ::1 ") && figure->count < SHOWN_SERIES)
            shown_series_read(figure, &data, entry);
        else if (entry[1] != '\'' && figure->maps + 1 < SHOWN_SERIES)
            shown_map_read(figure, folder, entry);
    }
    if (!script)
        shown_figure_free(&figure);
    shown_table_release(&data);
    free(script);
    free(text);
    return figure;
}

/* ---- What it shows ---- */

/* Returns the curve with that name in the key; one without points if there is none. */
static inline const shown_series *shown_curve(const shown_figure *figure, const char *title) {
    static const shown_series none = {.count = 0};

    for (size_t i = 0; figure && i < figure->count; i++)
        if (strcmp(figure->series[i].title, title) == 0)
            return &figure->series[i];
    return &none;
}

/* Return a curve's value at x, and its bar or upper edge there; NaN if there is none. */
static inline double shown_y(const shown_figure *figure, const char *title, double x) {
    const shown_series *series = shown_curve(figure, title);

    for (size_t i = 0; i < series->count; i++)
        if (series->x[i] == x)
            return series->y[i];
    return (double)NAN;
}

static inline double shown_bar(const shown_figure *figure, const char *title, double x) {
    const shown_series *series = shown_curve(figure, title);

    for (size_t i = 0; i < series->count && series->has_third; i++)
        if (series->x[i] == x)
            return series->third[i];
    return (double)NAN;
}

/* Returns the map with that label; NULL if there is none. */
static inline const shown_map *shown_map_of(const shown_figure *figure, const char *label) {
    for (size_t m = 0; figure && m < figure->maps; m++)
        if (strcmp(figure->map[m].label, label) == 0)
            return &figure->map[m];
    return NULL;
}

/* Returns a value of the map with that label; NaN if there is none. */
static inline double shown_value(const shown_figure *figure, const char *label, const char *row, const char *column) {
    const shown_map *map = shown_map_of(figure, label);

    for (size_t i = 0; map && i < map->row_names; i++)
        for (size_t j = 0; j < map->column_names; j++)
            if (strcmp(map->rows[i], row) == 0 && strcmp(map->columns[j], column) == 0 &&
                *map->values.cells[i * SHOWN_COLUMNS + j])
                return strtod(map->values.cells[i * SHOWN_COLUMNS + j], NULL);
    return (double)NAN;
}

/* Returns the number in a column of the row with that name; NaN if there is none. */
static inline double shown_at(const shown_map *map, const char *row, size_t column) {
    for (size_t i = 0; map && i < map->row_names && column < map->values.columns; i++)
        if (strcmp(map->rows[i], row) == 0)
            return strtod(map->values.cells[i * SHOWN_COLUMNS + column], NULL);
    return (double)NAN;
}

/* Returns whether the map with that label is this matrix [rows][columns], row 0 on top. */
static inline bool shown_matrix_is(const shown_figure *figure, const char *label, size_t rows, size_t columns,
                                   const double *matrix) {
    const shown_map *map = shown_map_of(figure, label);
    bool same = map && map->values.rows == rows && map->values.columns == columns;

    for (size_t i = 0; same && i < rows * columns; i++)
        same = strtod(map->values.cells[i / columns * SHOWN_COLUMNS + i % columns], NULL) == matrix[i];
    return same;
}

/* Checks the labels of the axes. */
static inline void shown_axes_are(tap_run *tap, const shown_figure *figure, const char *x_label, const char *y_label) {
    if (!tap_ok(tap, figure && strcmp(figure->x_label, x_label) == 0 && strcmp(figure->y_label, y_label) == 0,
                "%s over %s", y_label, x_label))
        tap_note("seen: %s over %s", figure ? figure->y_label : "", figure ? figure->x_label : "");
}

#endif
