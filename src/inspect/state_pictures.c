/* Pictures of states: maps by head and token, and curves of ranks. */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "inspect/states.h"
#include "numeric/statistics.h"

/* Rows of a map, and curves of a figure. */
enum { MOST_ROWS = 48, MOST_CURVES = 8 };

/* What a map shows of a write; NaN: this recurrence has none. */
typedef double map_value(const icl_state_trace *trace, size_t write);

/* Gates are near 1 and differ in what they leave out. */
static double forgotten_by(const icl_state_trace *trace, size_t write) {
    return trace->has_gate ? 1 - icl_mean(trace->gates + write * trace->channels, trace->channels) : (double)NAN;
}

static double strength_of(const icl_state_trace *trace, size_t write) {
    return trace->has_beta ? trace->of[write].strength : (double)NAN;
}

static double written_by(const icl_state_trace *trace, size_t write) {
    return trace->has_beta ? (double)NAN : trace->of[write].written;
}

static double least_eigenvalue_of(const icl_state_trace *trace, size_t write) {
    return trace->is_delta ? trace->of[write].least : (double)NAN;
}

/* A map's rows: heads of the first sequence, each write of a token a row of its own. */
typedef struct map_rows {
    size_t count, columns;
    double *values; /* [MOST_ROWS][columns] */
    char names[MOST_ROWS][160];
    const char *of_names[MOST_ROWS];
} map_rows;

static void add_map_rows(const icl_inspecting *run, const icl_state_traces *all, const icl_state_trace *trace,
                         map_value *value, map_rows *rows) {
    char head_name[ICL_INSPECT_STATE_NAME];

    for (size_t head = 0; head < trace->heads; head++)
        for (size_t write = 0; write < trace->writes && rows->count < MOST_ROWS; write++) {
            double *row = rows->values + rows->count * rows->columns;
            char *name = rows->names[rows->count];
            for (size_t t = 0; t < trace->positions; t++)
                row[t] = value(trace, (head * trace->positions + t) * trace->writes + write);
            if (isnan(row[0]))
                continue;
            icl_inspect_state_name(run, all, trace, head, head_name);
            if (trace->writes > 1)
                snprintf(name, sizeof rows->names[0], "layer %zu, %s, write %zu", trace->layer + 1, head_name,
                         write + 1);
            else
                snprintf(name, sizeof rows->names[0], "layer %zu, %s", trace->layer + 1, head_name);
            rows->of_names[rows->count] = name;
            rows->count++;
        }
}

/* A map of all heads by token, of the first sequence; nothing where no recurrence has the value. */
static icl_status draw_map(icl_inspecting *run, const icl_state_traces *all, const char *name, const char *title,
                           map_value *value, icl_error *error) {
    map_rows *rows = NULL;
    icl_heat_map map = {.label = "the first sequence", .columns = all->traces[0].positions};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *rows, "rows of a map", &rows, error));
    rows->columns = map.columns;
    ICL_TRY(icl_allocate(MOST_ROWS, map.columns * sizeof *rows->values, "map", &rows->values, error));
    for (size_t i = 0; i < all->count; i++)
        add_map_rows(run, all, &all->traces[i], value, rows);
    map.rows = rows->count;
    map.values = rows->values;
    map.row_names = rows->of_names;
    if (rows->count > 0)
        ICL_TRY(ICL_INSPECT_HEAT_MAPS(run, error, .name = name, .title = title,
                                      .column_label = "token, from the first position on", .count = 1, .maps = &map));
done:
    if (rows)
        icl_free(&rows->values);
    icl_free(&rows);
    return status;
}

/* Points of the curve of one head: positions whose ranks were measured, means over sequences. */
static size_t fill_curve(const icl_state_trace *trace, size_t head, double *x, double *y) {
    size_t count = 0;

    for (size_t t = 0; t < trace->positions; t++) {
        double sum = 0;
        if ((trace->positions - 1 - t) % trace->rank_step != 0)
            continue;
        for (size_t b = 0; b < trace->sequences; b++)
            sum += trace->ranks[(b * trace->heads + head) * trace->positions + t].effective;
        x[count] = (double)t;
        y[count++] = sum / (double)trace->sequences;
    }
    return count;
}

static icl_status draw_ranks(icl_inspecting *run, const icl_state_traces *all, icl_error *error) {
    const size_t positions = all->traces[0].positions;
    icl_series series[MOST_CURVES];
    char labels[MOST_CURVES][128], head_name[ICL_INSPECT_STATE_NAME];
    double *points = NULL; /* [MOST_CURVES][2][positions] */
    size_t count = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(MOST_CURVES, 2 * positions * sizeof *points, "curves", &points, error));
    for (size_t i = 0; i < all->count; i++)
        for (size_t head = 0; head < all->traces[i].heads && count < MOST_CURVES; head++) {
            double *x = points + 2 * count * positions, *y = x + positions;
            const size_t there = fill_curve(&all->traces[i], head, x, y);
            snprintf(labels[count], sizeof labels[0], "layer %zu, %s", all->traces[i].layer + 1,
                     icl_inspect_state_name(run, all, &all->traces[i], head, head_name));
            series[count] = (icl_series){labels[count], ICL_SERIES_LINE, there, x, y, NULL};
            count++;
        }
    ICL_TRY(ICL_INSPECT_FIGURE(run, error, .name = "ranks", .title = "Effective rank of the states",
                               .x_label = "position", .y_label = "effective rank", .count = count, .series = series));
done:
    icl_free(&points);
    return status;
}

icl_status icl_inspect_state_pictures(icl_inspecting *run, const icl_state_traces *all, icl_error *error) {
    static const struct {
        const char *name, *title;
        map_value *value;
    } maps[] = {{"gates", "What a token lets the state forget: 1 - gate, mean over channels", forgotten_by},
                {"strengths", "Strength of writing by token: beta", strength_of},
                {"written", "What is written by token: the norm of k v^T", written_by},
                {"eigenvalues", "Least eigenvalue of the transition by token", least_eigenvalue_of}};
    size_t heads = 0, writes = 0;

    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ICL_CHECK(draw_map(run, all, maps[i].name, maps[i].title, maps[i].value, error));
    ICL_CHECK(draw_ranks(run, all, error));
    for (size_t i = 0; i < all->count; i++) {
        heads += all->traces[i].heads;
        writes += all->traces[i].heads * all->traces[i].writes;
    }
    if (writes > MOST_ROWS || heads > MOST_CURVES)
        return icl_inspect_paragraph(run, error,
                                     "The pictures have the first %d rows and %d curves of %zu and %zu; inspect.csv "
                                     "has the numbers of all.",
                                     MOST_ROWS, MOST_CURVES, writes, heads);
    return ICL_OK;
}
