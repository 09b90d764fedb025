/*
 * The states of a sequence model's recurrences, by layer and head: gates, strengths of writing, eigenvalues of the
 * transitions, and ranks (probe/state_trace.h).
 */
#include "inspect/states.h"

#include <math.h>

#include "core/allocate.h"

static const char *const share_names[ICL_INSPECT_QUANTILES] = {"gate: 10 % quantile", "gate: median",
                                                               "gate: 90 % quantile"};

/* ---- Numbers ---- */

static icl_status found(icl_inspecting *run, const icl_state_trace *trace, const char *what, const char *quantity,
                        double value, double standard_error, icl_error *error) {
    return ICL_INSPECT_FOUND(run, error, .layer = trace->layer + 1, .what = what, .quantity = quantity, .value = value,
                             .standard_error = standard_error, .note = trace->mixer);
}

static icl_status report_numbers(icl_inspecting *run, const icl_state_trace *trace, const char *what,
                                 const icl_inspect_state *is, icl_error *error) {
    if (trace->has_gate)
        ICL_CHECK(found(run, trace, what, "gate: mean", is->gate, 0, error));
    for (size_t i = 0; trace->has_gate && i < ICL_INSPECT_QUANTILES; i++)
        ICL_CHECK(found(run, trace, what, share_names[i], is->quantiles[i], 0, error));
    if (trace->has_beta)
        ICL_CHECK(found(run, trace, what, "write strength: mean", is->strength, 0, error));
    ICL_CHECK(found(run, trace, what, "written: mean norm", is->written, 0, error));
    ICL_CHECK(found(run, trace, what, "eigenvalue: least", is->least, 0, error));
    ICL_CHECK(found(run, trace, what, "eigenvalue: largest", is->largest, 0, error));
    ICL_CHECK(found(run, trace, what, "share of writes with a negative eigenvalue", is->negative, 0, error));
    ICL_CHECK(
        found(run, trace, what, "effective rank at the end", is->effective.mean, is->effective.standard_error, error));
    ICL_CHECK(found(run, trace, what, "numeric rank at the end", is->numeric.mean, is->numeric.standard_error, error));
    return found(run, trace, what, "norm of the state at the end", is->norm.mean, is->norm.standard_error, error);
}

/* ---- The whole ---- */

static icl_status summarize(icl_inspecting *run, const icl_state_traces *all, icl_inspect_state *summaries,
                            icl_error *error) {
    char what[ICL_INSPECT_STATE_NAME];

    for (size_t i = 0; i < all->count; i++)
        for (size_t head = 0; head < all->traces[i].heads; head++, summaries++) {
            const icl_state_trace *trace = &all->traces[i];
            ICL_CHECK(icl_inspect_state_measure(trace, head, summaries, error));
            ICL_CHECK(
                report_numbers(run, trace, icl_inspect_state_name(run, all, trace, head, what), summaries, error));
        }
    return ICL_OK;
}

/* The least eigenvalue of all, for the result in a sentence. */
static icl_status conclude(icl_inspecting *run, const icl_state_traces *all, const icl_inspect_state *summaries,
                           icl_error *error) {
    size_t heads = 0, negative = 0;
    double least = HUGE_VAL, largest = -HUGE_VAL;

    for (size_t i = 0; i < all->count; i++)
        heads += all->traces[i].heads;
    for (size_t i = 0; i < heads; i++) {
        least = fmin(least, summaries[i].least);
        largest = fmax(largest, summaries[i].largest);
        negative += summaries[i].negative > 0;
    }
    ICL_CHECK(icl_text_print(&run->lead, error, " Eigenvalues of its states' transitions lie in [%.4g, %.4g]", least,
                             largest));
    return icl_text_print(&run->lead, error, "; heads with negative ones: %zu of %zu.", negative, heads);
}

icl_status icl_inspect_states(icl_inspecting *run, icl_tensor parameters, icl_tensor inputs, icl_error *error) {
    icl_state_traces all = {0};
    icl_inspect_state *summaries = NULL;
    size_t heads = 0;
    icl_status status = ICL_OK;

    icl_inspect_progress(run, "states", 0);
    ICL_TRY(icl_state_traces_measure(run->model, run->params->backend, parameters, inputs, &all, error));
    if (all.count == 0)
        goto done;
    for (size_t i = 0; i < all.count; i++)
        heads += all.traces[i].heads;
    ICL_TRY(icl_allocate(heads, sizeof *summaries, "summaries of heads", &summaries, error));
    ICL_TRY(icl_inspect_section(run, "States: gates, writes, transitions, ranks", error));
    ICL_TRY(summarize(run, &all, summaries, error));
    ICL_TRY(icl_inspect_state_tables(run, &all, summaries, error));
    ICL_TRY(icl_inspect_state_pictures(run, &all, error));
    ICL_TRY(conclude(run, &all, summaries, error));
done:
    icl_free(&summaries);
    icl_state_traces_release(&all);
    return status;
}
