/* What the parts of an inspection of states share (states.c). */
#ifndef ICLAB_INSPECT_STATES_H
#define ICLAB_INSPECT_STATES_H

#include "inspect/inspecting.h"
#include "probe/state_trace.h"

/* Quantiles of gates: 10 %, median, 90 %; bytes of what a head is called. */
enum { ICL_INSPECT_QUANTILES = 3, ICL_INSPECT_STATE_NAME = 96 };

/* What one head of one recurrence does on all sequences. */
typedef struct icl_inspect_state {
    double gate, quantiles[ICL_INSPECT_QUANTILES];
    double strength, written;
    double least, largest, negative; /* eigenvalues, and the share of writes with one below 0 */
    struct {
        double mean, standard_error;
    } effective, numeric, norm; /* of the state behind the last token */
} icl_inspect_state;

/* Fills `to`, zero to begin with, for one head of the trace. */
icl_status icl_inspect_state_measure(const icl_state_trace *trace, size_t head, icl_inspect_state *to,
                                     icl_error *error);

/* The head, and which of its layer's recurrences it is of, where there are several; returns text. */
const char *icl_inspect_state_name(const icl_inspecting *run, const icl_state_traces *all, const icl_state_trace *trace,
                                   size_t head, char text[ICL_INSPECT_STATE_NAME]);

/* Tables with a row for each head of each recurrence; `summaries` in that order. */
icl_status icl_inspect_state_tables(icl_inspecting *run, const icl_state_traces *all,
                                    const icl_inspect_state *summaries, icl_error *error);

/* Maps of gates, strengths and eigenvalues by token, and ranks by position. */
icl_status icl_inspect_state_pictures(icl_inspecting *run, const icl_state_traces *all, icl_error *error);

#endif
