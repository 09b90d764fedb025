/* Tests the curves of a run: means if there are many rows, all rows if there are few, and always the last
 * evaluation. */
#include "run/metrics.h"

#include <math.h>

#include "iclab/session.h"
#include "iclab/text.h"
#include "tap.h"

#include "../core/scratch.h"

/* Writes a table of `rows` steps with loss = step; every `every`-th row has an evaluation of 2 step. */
static void write_table(scratch_folder *scratch, int rows, int every) {
    icl_text table = {0};
    icl_status status = icl_text_print(&table, NULL, "%s\n", ICL_METRICS_HEADER);

    for (int step = 1; step <= rows && status == ICL_OK; step++)
        status = step % every == 0 ? icl_text_print(&table, NULL, "%d,%d,0.5,0.01,%d\n", step, step, 2 * step)
                                   : icl_text_print(&table, NULL, "%d,%d,0.5,0.01,\n", step, step);
    scratch_write(scratch, "metrics.csv", table.bytes ? table.bytes : "", table.length);
    icl_text_release(&table);
}

static void check_table(tap_run *tap, scratch_folder *scratch, int rows, int every, size_t a_point) {
    icl_metrics metrics;
    icl_error error = {0};
    bool losses = true, evaluations = true;

    write_table(scratch, rows, every);
    if (tap_status(tap, icl_metrics_read(scratch->folder, &metrics, &error), &error, "read")) {
        for (size_t i = 0; i < metrics.count; i++) {
            const double first = (double)(i * a_point + 1), last = fmin((double)((i + 1) * a_point), rows);
            losses = losses && metrics.steps[i] == last && metrics.loss[i] == 0.5 * (first + last);
        }
        for (size_t i = 0; i < metrics.evaluations; i++)
            evaluations = evaluations && metrics.half_adjusted[i] == 2 * metrics.evaluated_at[i] &&
                          (i == 0 || metrics.evaluated_at[i] > metrics.evaluated_at[i - 1]);
        tap_ok(tap,
               metrics.rows == (uint64_t)rows && metrics.rows_a_point == a_point &&
                   metrics.count == ((size_t)rows + a_point - 1) / a_point && metrics.count <= ICL_METRICS_POINTS &&
                   losses,
               "%d rows: %zu points, means of %zu", rows, metrics.count, metrics.rows_a_point);
        tap_ok(tap,
               evaluations && metrics.evaluations <= ICL_METRICS_POINTS &&
                   (metrics.evaluations > 0) == (rows >= every) &&
                   (rows < every || (int)metrics.evaluated_at[metrics.evaluations - 1] == rows / every * every),
               "%zu evaluations, the last among them", metrics.evaluations);
    }
    icl_metrics_release(&metrics);
}

/* Each point has losses of 1 to 19 and a spike: the mean follows the spike, the median and the quantiles do not. */
static void check_quantiles(tap_run *tap, scratch_folder *scratch) {
    enum { A_POINT = 20, ROWS = A_POINT * ICL_METRICS_POINTS };
    icl_text table = {0};
    icl_status status = icl_text_print(&table, NULL, "%s\n", ICL_METRICS_HEADER);
    icl_metrics metrics;
    icl_error error = {0};
    bool same = true;

    for (int i = 0; i < ROWS && status == ICL_OK; i++)
        status =
            icl_text_print(&table, NULL, "%d,%g,,,\n", i + 1, i % A_POINT == 7 ? 1e6 : i % A_POINT + (i % A_POINT < 7));
    scratch_write(scratch, "metrics.csv", table.bytes ? table.bytes : "", table.length);
    icl_text_release(&table);
    if (tap_status(tap, icl_metrics_read(scratch->folder, &metrics, &error), &error, "spikes")) {
        for (size_t i = 0; i < metrics.count; i++)
            same = same && metrics.median[i] == 10.5 && metrics.low[i] == 3 && metrics.high[i] == 18 &&
                   metrics.loss[i] > 5e4;
        tap_ok(tap, metrics.count == ICL_METRICS_POINTS && same,
               "the median is %g, the quantiles %g and %g, the mean %g", metrics.median[0], metrics.low[0],
               metrics.high[0], metrics.loss[0]);
    }
    icl_metrics_release(&metrics);
}

/* A loss that was not finite is left out of its mean; a group without any has none. */
static void check_gaps(tap_run *tap, scratch_folder *scratch) {
    static const char table[] = ICL_METRICS_HEADER "\n1,2,,,\n2,nan,,,\n3,inf,,,7\n";
    icl_metrics metrics;
    icl_error error = {0};

    scratch_write(scratch, "metrics.csv", table, sizeof table - 1);
    if (tap_status(tap, icl_metrics_read(scratch->folder, &metrics, &error), &error, "read"))
        tap_ok(tap,
               metrics.count == 3 && metrics.loss[0] == 2 && isnan(metrics.loss[1]) && isnan(metrics.loss[2]) &&
                   metrics.median[0] == 2 && metrics.low[0] == 2 && metrics.high[0] == 2 && isnan(metrics.median[1]) &&
                   isnan(metrics.low[1]) && isnan(metrics.high[1]) && metrics.evaluations == 1 &&
                   metrics.half_adjusted[0] == 7,
               "losses that are not finite leave a gap");
    icl_metrics_release(&metrics);
    scratch_write(scratch, "metrics.csv", "step,loss\n1,2\n", 14);
    tap_ok(tap, icl_metrics_read(scratch->folder, &metrics, &error) == ICL_ERROR_INPUT, "other columns: %s",
           error.message);
    icl_metrics_release(&metrics);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;

    scratch_open(&scratch);
    check_table(&tap, &scratch, 0, 1, 1);
    check_table(&tap, &scratch, 7, 3, 1);
    check_table(&tap, &scratch, ICL_METRICS_POINTS, 1, 1);
    check_table(&tap, &scratch, ICL_METRICS_POINTS + 1, 1, 2);
    check_table(&tap, &scratch, 9 * ICL_METRICS_POINTS - 1, 4, 9);
    check_quantiles(&tap, &scratch);
    check_gaps(&tap, &scratch);
    scratch_close(&scratch);
    return tap_done(&tap);
}
