/* Tables of states: what is written, and what the states are. */
#include <math.h>
#include <stdio.h>

#include "core/print.h"
#include "inspect/states.h"

typedef icl_status add_row(icl_inspecting *run, const char *layer, const icl_state_trace *trace, const char *what,
                           const icl_inspect_state *is, icl_error *error);

static icl_status add_writes(icl_inspecting *run, const char *layer, const icl_state_trace *trace, const char *what,
                             const icl_inspect_state *is, icl_error *error) {
    char texts[ICL_INSPECT_QUANTILES + 3][ICL_INSPECT_CELL];
    const double none = (double)NAN;
    const char *cells[ICL_INSPECT_QUANTILES + 5] = {layer, what};

    icl_inspect_number(trace->has_gate ? is->gate : none, texts[0]);
    for (size_t i = 0; i < ICL_INSPECT_QUANTILES; i++)
        icl_inspect_number(trace->has_gate ? is->quantiles[i] : none, texts[1 + i]);
    icl_inspect_number(trace->has_beta ? is->strength : none, texts[ICL_INSPECT_QUANTILES + 1]);
    icl_inspect_number(is->written, texts[ICL_INSPECT_QUANTILES + 2]);
    for (size_t i = 0; i < ICL_INSPECT_QUANTILES + 3; i++)
        cells[2 + i] = texts[i];
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status add_states(icl_inspecting *run, const char *layer, const icl_state_trace *trace, const char *what,
                             const icl_inspect_state *is, icl_error *error) {
    const size_t most = trace->key_width < trace->value_width ? trace->key_width : trace->value_width;
    char texts[6][ICL_INSPECT_CELL];

    icl_inspect_number(is->least, texts[0]);
    icl_inspect_number(is->largest, texts[1]);
    icl_print(texts[2], sizeof texts[2], "%.3g %%", 100 * is->negative);
    icl_inspect_measured(is->effective.mean, is->effective.standard_error, texts[3]);
    icl_inspect_measured(is->numeric.mean, is->numeric.standard_error, texts[4]);
    snprintf(texts[5], sizeof texts[5], "%zu", most);
    const char *const cells[] = {layer, what, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5]};
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

/* A row for each head of each recurrence; `summaries` in that order. */
static icl_status add_table(icl_inspecting *run, const icl_state_traces *all, const icl_inspect_state *summaries,
                            const icl_report_column *columns, size_t count, add_row *add, icl_error *error) {
    char layer[64], what[ICL_INSPECT_STATE_NAME];

    ICL_CHECK(icl_inspect_table_begin(run, columns, count, error));
    for (size_t i = 0; i < all->count; i++)
        for (size_t head = 0; head < all->traces[i].heads; head++) {
            const icl_state_trace *trace = &all->traces[i];
            snprintf(layer, sizeof layer, "%zu, %s", trace->layer + 1, trace->mixer);
            ICL_CHECK(add(run, layer, trace, icl_inspect_state_name(run, all, trace, head, what), summaries++, error));
        }
    return icl_inspect_table_end(run, error);
}

icl_status icl_inspect_state_tables(icl_inspecting *run, const icl_state_traces *all,
                                    const icl_inspect_state *summaries, icl_error *error) {
    static const icl_report_column writes[] = {{"layer", false},         {"head", false},  {"gate, mean", true},
                                               {"10 %", true},           {"median", true}, {"90 %", true},
                                               {"write strength", true}, {"written", true}};
    static const icl_report_column states[] = {{"layer", false},       {"head", false},   {"least eigenvalue", true},
                                               {"largest", true},      {"below 0", true}, {"effective rank", true},
                                               {"numeric rank", true}, {"at most", true}};

    ICL_CHECK(add_table(run, all, summaries, writes, sizeof writes / sizeof *writes, add_writes, error));
    ICL_CHECK(icl_inspect_paragraph(
        run, error,
        "The gate is the factor by which a token lets the state decay, over all tokens (and channels, where each has "
        "one); written is the norm of beta k v^T. A dash: the mixer has none."));
    ICL_CHECK(add_table(run, all, summaries, states, sizeof states / sizeof *states, add_states, error));
    return icl_inspect_paragraph(
        run, error,
        "Eigenvalues of the transition that one write makes: the gates, and for the delta rule g (1 - beta |k|^2) "
        "along the key; below 0: the share of writes with a negative one. Ranks are of the state behind the last "
        "token: exp(entropy) of its singular values over their sum, and how many are above %g of the largest.",
        ICL_STATE_RANK_SHARE);
}
