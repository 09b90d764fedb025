#include "run/metrics.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/run.h"
#include "iclab/session.h"

enum { STEP = 0, LOSS = 1, EVALUATION = 4, COLUMNS };

void icl_metrics_release(icl_metrics *metrics) {
    icl_free(&metrics->steps);
    icl_free(&metrics->loss);
    icl_free(&metrics->evaluated_at);
    icl_free(&metrics->half_adjusted);
}

const icl_evaluated icl_evaluated_none = {(double)NAN, (double)NAN, 0};

void icl_evaluated_add(icl_evaluated *evaluated, double value) {
    if (isnan(value))
        return;
    evaluated->last = value;
    evaluated->since_least = value < evaluated->least || isnan(evaluated->least) ? 0 : evaluated->since_least + 1;
    if (evaluated->since_least == 0)
        evaluated->least = value;
}

/* The numbers of one line, which ends at a newline or the text's end; NaN for what is empty or none. */
static void read_row(const char *line, double values[COLUMNS]) {
    for (int column = 0; column < COLUMNS; column++) {
        const size_t length = strcspn(line, ",\n");
        if (length == 0 || !icl_parse_number(line, length, &values[column]))
            values[column] = (double)NAN;
        line += length + (line[length] == ',');
    }
}

static const char *next_line(const char *line) {
    line += strcspn(line, "\n");
    return line + (*line == '\n');
}

static void count_rows(const char *table, icl_metrics *metrics) {
    double values[COLUMNS];

    metrics->all = icl_evaluated_none;
    for (const char *line = table; *line; line = next_line(line)) {
        read_row(line, values);
        metrics->rows++;
        metrics->evaluations += !isnan(values[EVALUATION]);
        icl_evaluated_add(&metrics->all, values[EVALUATION]);
    }
}

/* Means of so many rows each, so that a curve of a million noisy losses can be read. */
static void fill_losses(const char *table, icl_metrics *metrics) {
    double values[COLUMNS], sum = 0;
    size_t row = 0, finite = 0;

    for (const char *line = table; *line; line = next_line(line)) {
        read_row(line, values);
        if (isfinite(values[LOSS])) {
            sum += values[LOSS];
            finite++;
        }
        if (++row % metrics->rows_a_point != 0 && row != metrics->rows)
            continue;
        metrics->steps[metrics->count] = values[STEP];
        metrics->loss[metrics->count++] = finite > 0 ? sum / (double)finite : (double)NAN;
        sum = 0;
        finite = 0;
    }
}

/* Every stride-th evaluation, counted back from the last. */
static void fill_evaluations(const char *table, size_t stride, icl_metrics *metrics) {
    const size_t all = metrics->evaluations;
    double values[COLUMNS];
    size_t seen = 0;

    metrics->evaluations = 0;
    for (const char *line = table; *line; line = next_line(line)) {
        read_row(line, values);
        if (isnan(values[EVALUATION]))
            continue;
        if ((all - ++seen) % stride != 0)
            continue;
        metrics->evaluated_at[metrics->evaluations] = values[STEP];
        metrics->half_adjusted[metrics->evaluations++] = values[EVALUATION];
    }
}

static size_t stride_of(uint64_t count) {
    return (size_t)((count + ICL_METRICS_POINTS - 1) / ICL_METRICS_POINTS);
}

static icl_status fill(const char *table, icl_metrics *metrics, icl_error *error) {
    count_rows(table, metrics);
    metrics->rows_a_point = metrics->rows > 0 ? stride_of(metrics->rows) : 1;
    ICL_CHECK(icl_allocate(ICL_METRICS_POINTS, sizeof(double), "metrics", &metrics->steps, error));
    ICL_CHECK(icl_allocate(ICL_METRICS_POINTS, sizeof(double), "metrics", &metrics->loss, error));
    ICL_CHECK(icl_allocate(ICL_METRICS_POINTS, sizeof(double), "metrics", &metrics->evaluated_at, error));
    ICL_CHECK(icl_allocate(ICL_METRICS_POINTS, sizeof(double), "metrics", &metrics->half_adjusted, error));
    fill_losses(table, metrics);
    if (metrics->evaluations > 0)
        fill_evaluations(table, stride_of(metrics->evaluations), metrics);
    return ICL_OK;
}

icl_status icl_metrics_read(const char *folder, icl_metrics *metrics, icl_error *error) {
    const size_t header = strlen(ICL_METRICS_HEADER);
    char *path = NULL, *text = NULL;
    size_t size;
    icl_status status = ICL_OK;

    *metrics = (icl_metrics){0};
    ICL_TRY(icl_path_join(folder, ICL_RUN_METRICS, &path, error));
    ICL_TRY(icl_file_read(path, 0, &text, &size, error));
    if (strncmp(text, ICL_METRICS_HEADER, header) != 0 || text[header] != '\n')
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s: other columns: expected " ICL_METRICS_HEADER, path));
    ICL_TRY(fill(text + header + 1, metrics, error));
done:
    icl_free(&text);
    icl_free(&path);
    return status;
}
