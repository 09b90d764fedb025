/* What one head of a recurrence does on all sequences, in numbers. */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "inspect/states.h"
#include "numeric/statistics.h"

static const double shares[ICL_INSPECT_QUANTILES] = {0.1, 0.5, 0.9};

const char *icl_inspect_state_name(const icl_inspecting *run, const icl_state_traces *all, const icl_state_trace *trace,
                                   size_t head, char text[ICL_INSPECT_STATE_NAME]) {
    char name[ICL_INSPECT_CELL];
    bool parts = false;

    for (size_t i = 0; i < all->count; i++)
        parts = parts || (all->traces[i].layer == trace->layer && all->traces[i].part > 0);
    icl_inspect_head(run, trace->loop, head, name);
    if (parts)
        snprintf(text, ICL_INSPECT_STATE_NAME, "state %zu, %s", trace->part + 1, name);
    else
        snprintf(text, ICL_INSPECT_STATE_NAME, "%s", name);
    return text;
}

/* `values` are sorted. Between two of them: linear. */
static double quantile(const double *values, size_t count, double share) {
    const double at = share * (double)(count - 1);
    const size_t below = (size_t)at;
    return below + 1 < count ? values[below] + (at - (double)below) * (values[below + 1] - values[below])
                             : values[count - 1];
}

static icl_status summarize_gates(const icl_state_trace *trace, size_t head, icl_inspect_state *to, icl_error *error) {
    const size_t each = trace->positions * trace->writes * trace->channels, count = trace->sequences * each;
    double *gates = NULL;

    ICL_CHECK(icl_allocate(count, sizeof *gates, "gates", &gates, error));
    for (size_t b = 0; b < trace->sequences; b++)
        for (size_t i = 0; i < each; i++)
            gates[b * each + i] = trace->gates[(b * trace->heads + head) * each + i];
    to->gate = icl_mean(gates, count);
    icl_sort_ascending(gates, count);
    for (size_t i = 0; i < ICL_INSPECT_QUANTILES; i++)
        to->quantiles[i] = quantile(gates, count, shares[i]);
    icl_free(&gates);
    return ICL_OK;
}

static void summarize_writes(const icl_state_trace *trace, size_t head, icl_inspect_state *to) {
    const size_t each = trace->positions * trace->writes;
    const double share = 1 / (double)(trace->sequences * each);

    to->least = HUGE_VAL;
    to->largest = -HUGE_VAL;
    for (size_t b = 0; b < trace->sequences; b++)
        for (size_t i = 0; i < each; i++) {
            const icl_state_write *write = &trace->of[(b * trace->heads + head) * each + i];
            to->strength += share * write->strength;
            to->written += share * write->written;
            to->least = fmin(to->least, write->least);
            to->largest = fmax(to->largest, write->largest);
            to->negative += write->least < 0 ? share : 0;
        }
}

static icl_status summarize_ranks(const icl_state_trace *trace, size_t head, icl_inspect_state *to, icl_error *error) {
    const size_t count = trace->sequences;
    double *values = NULL; /* [3][count] */

    ICL_CHECK(icl_allocate(count, 3 * sizeof *values, "ranks", &values, error));
    for (size_t b = 0; b < count; b++) {
        const icl_state_rank *last = &trace->ranks[(b * trace->heads + head + 1) * trace->positions - 1];
        values[b] = last->effective;
        values[count + b] = last->numeric;
        values[2 * count + b] = last->norm;
    }
    to->effective.mean = icl_mean(values, count);
    to->effective.standard_error = icl_standard_error(values, count);
    to->numeric.mean = icl_mean(values + count, count);
    to->numeric.standard_error = icl_standard_error(values + count, count);
    to->norm.mean = icl_mean(values + 2 * count, count);
    to->norm.standard_error = icl_standard_error(values + 2 * count, count);
    icl_free(&values);
    return ICL_OK;
}

icl_status icl_inspect_state_measure(const icl_state_trace *trace, size_t head, icl_inspect_state *to,
                                     icl_error *error) {
    summarize_writes(trace, head, to);
    ICL_CHECK(summarize_gates(trace, head, to, error));
    return summarize_ranks(trace, head, to, error);
}
