/* Metrics of a training run: reading the table that it writes. */
#include "run/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/number.h"
#include "iclab/run.h"
#include "iclab/session.h"
#include "iclab/text.h"
#include "numeric/statistics.h"

enum { STEP = 0, LOSS = 1, EVALUATION = 4, COLUMNS };

/* The final loss is the mean over the last 1/10 of metrics.csv, because a single batch's is noisy. */
#define FINAL_SHARE 10

void icl_metrics_release(icl_metrics *metrics) {
    icl_free(&metrics->steps);
    icl_free(&metrics->loss);
    icl_free(&metrics->median);
    icl_free(&metrics->low);
    icl_free(&metrics->high);
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

/* Reads the numbers of one line, which ends at a newline or the text's end; NaN for an empty or invalid field. */
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

/* Adds one point of the curve from the finite losses of its rows, which it sorts. A quantile is one of the losses: with
 * fewer than ten, the least and the largest. */
static void add_point(double step, double *losses, size_t finite, icl_metrics *metrics) {
    const size_t at = metrics->count++, tenth = finite / 10;

    metrics->steps[at] = step;
    metrics->loss[at] = finite > 0 ? icl_mean(losses, finite) : (double)NAN;
    metrics->median[at] = icl_median(losses, finite);
    metrics->low[at] = finite > 0 ? losses[tenth] : (double)NAN;
    metrics->high[at] = finite > 0 ? losses[finite - 1 - tenth] : (double)NAN;
}

/* Sums up rows_a_point rows in each point, so that a curve of a million noisy losses can be read. losses [rows_a_point]
 * is scratch. */
static void fill_losses(const char *table, double *losses, icl_metrics *metrics) {
    double values[COLUMNS];
    size_t row = 0, finite = 0;

    for (const char *line = table; *line; line = next_line(line)) {
        read_row(line, values);
        if (isfinite(values[LOSS]))
            losses[finite++] = values[LOSS];
        if (++row % metrics->rows_a_point != 0 && row != metrics->rows)
            continue;
        add_point(values[STEP], losses, finite, metrics);
        finite = 0;
    }
}

/* Keeps every stride-th evaluation, counted back from the last. */
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
    double **const curves[] = {&metrics->steps, &metrics->loss,         &metrics->median,       &metrics->low,
                               &metrics->high,  &metrics->evaluated_at, &metrics->half_adjusted};
    double *losses = NULL;
    icl_status status = ICL_OK;

    count_rows(table, metrics);
    metrics->rows_a_point = metrics->rows > 0 ? stride_of(metrics->rows) : 1;
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        ICL_TRY(icl_allocate(ICL_METRICS_POINTS, sizeof(double), "metrics", curves[i], error));
    ICL_TRY(icl_allocate(metrics->rows_a_point, sizeof *losses, "losses of a point", &losses, error));
    fill_losses(table, losses, metrics);
    if (metrics->evaluations > 0)
        fill_evaluations(table, stride_of(metrics->evaluations), metrics);
done:
    icl_free(&losses);
    return status;
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

icl_status icl_metrics_final_loss(const char *folder, double *loss, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL, *text = NULL;
    size_t size, rows = 0, row = 0, used = 0;
    double sum = 0, values[COLUMNS];

    ICL_TRY(icl_path_join(folder, ICL_RUN_METRICS, &path, error));
    ICL_TRY(icl_file_read(path, 0, &text, &size, error));
    for (const char *line = next_line(text); *line; line = next_line(line))
        rows++;
    for (const char *line = next_line(text); *line; line = next_line(line), row++) {
        read_row(line, values);
        if (row >= rows - (rows + FINAL_SHARE - 1) / FINAL_SHARE && !isnan(values[LOSS])) {
            sum += values[LOSS];
            used++;
        }
    }
    *loss = used > 0 ? sum / (double)used : (double)NAN;
done:
    icl_free(&text);
    icl_free(&path);
    return status;
}
