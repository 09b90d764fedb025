/*
 * States of recurrences: gates, strengths of writing, eigenvalues of the transitions, and ranks, by layer and head.
 */
#include "probe/states.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/print.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "probe/activations.h"

/* ---- Seeing and measuring ---- */

/* The most positions of a sequence at which the state's rank is measured, because each is an eigenvalue problem. */
#define MOST_RANKS 32

/* Operands of one recurrence on the tape, repeated to their full shape: k, r and w [B, H, L, m], v [B, H, L, n], and
 * beta and decay [B, H, L, channels] if there are any; L = T writes. */
typedef struct recurrence_operands {
    icl_state_trace trace; /* its sizes */
    icl_variable k, read_key, write_key, v, beta, decay;
} recurrence_operands;

typedef struct watcher {
    const icl_model *model;
    icl_state_traces *traces; /* traces of those seen */
    recurrence_operands *all;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
} watcher;

/* Returns x with B, H and L of `shape` and its own last axis, without gaps. */
static icl_variable in_full(icl_tape *tape, const size_t *shape, icl_variable x) {
    const size_t full[] = {shape[0], shape[1], shape[2], icl_tape_value(tape, x).shape[3]};
    return icl_tape_binary(tape, ICL_ADD, icl_tape_filled(tape, 4, full, 0), x);
}

/* Counts the recurrences of this layer in this loop, so far. */
static size_t parts_so_far(const watcher *w, size_t layer, size_t loop) {
    size_t parts = 0;
    for (size_t i = 0; i < w->count; i++)
        parts += w->all[i].trace.layer == layer && w->all[i].trace.loop == loop;
    return parts;
}

static void see(void *user, const icl_sequence_pass *pass, const icl_sequence_layer *layer, bool delta,
                const icl_recurrence_variables *operands) {
    watcher *w = user;
    const icl_tensor k = icl_tape_value(pass->tape, operands->k);
    const size_t positions = w->model->shape.positions;
    recurrence_operands *seen;

    if (w->status != ICL_OK)
        return;
    w->status = icl_grow(&w->all, w->count, &w->capacity, sizeof *w->all, "operands of recurrences", w->error);
    if (w->status != ICL_OK)
        return;
    seen = &w->all[w->count];
    *seen = (recurrence_operands){.k = in_full(pass->tape, k.shape, operands->k),
                                  .v = in_full(pass->tape, k.shape, operands->v)};
    seen->read_key = operands->read_key ? in_full(pass->tape, k.shape, *operands->read_key) : seen->k;
    seen->write_key = operands->write_key ? in_full(pass->tape, k.shape, *operands->write_key) : seen->k;
    if (operands->beta)
        seen->beta = in_full(pass->tape, k.shape, *operands->beta);
    if (operands->decay)
        seen->decay = in_full(pass->tape, k.shape, *operands->decay);
    seen->trace = (icl_state_trace){
        .layer = layer->index,
        .loop = pass->loop,
        .part = parts_so_far(w, layer->index, pass->loop),
        .mixer = icl_sequence_word(layer),
        .is_delta = delta,
        .has_gate = operands->decay != NULL,
        .has_beta = operands->beta != NULL,
        .sequences = k.shape[0],
        .heads = k.shape[1],
        .positions = positions,
        .writes = k.shape[2] / positions,
        .key_width = k.shape[3],
        .value_width = icl_tape_value(pass->tape, operands->v).shape[3],
        .channels = operands->decay ? icl_tape_value(pass->tape, *operands->decay).shape[3] : 1,
        .rank_step = (positions + MOST_RANKS - 1) / MOST_RANKS,
    };
    w->count++;
}

/* The operands of one recurrence on the host, and the state of one head. */
typedef struct operands {
    double *k, *read_key, *write_key, *v, *beta, *decay;
    double *state, *singular; /* [m][n], [min(m, n)] */
} operands;

static void release_operands(operands *host) {
    icl_free(&host->k);
    icl_free(&host->read_key);
    icl_free(&host->write_key);
    icl_free(&host->v);
    icl_free(&host->beta);
    icl_free(&host->decay);
    icl_free(&host->state);
    icl_free(&host->singular);
}

static icl_status read_variable(const icl_tape *tape, icl_variable variable, double **values, icl_error *error) {
    const icl_tensor tensor = icl_tape_value(tape, variable);

    ICL_CHECK(icl_allocate(icl_tensor_count(&tensor), sizeof **values, "operands of a recurrence", values, error));
    return icl_tensor_read_double(tensor, *values, error);
}

static icl_status read_operands(const icl_tape *tape, const recurrence_operands *seen, operands *host,
                                icl_error *error) {
    const icl_state_trace *trace = &seen->trace;
    const size_t m = trace->key_width, n = trace->value_width;

    ICL_CHECK(read_variable(tape, seen->k, &host->k, error));
    ICL_CHECK(read_variable(tape, seen->read_key, &host->read_key, error));
    ICL_CHECK(read_variable(tape, seen->write_key, &host->write_key, error));
    ICL_CHECK(read_variable(tape, seen->v, &host->v, error));
    if (trace->has_beta)
        ICL_CHECK(read_variable(tape, seen->beta, &host->beta, error));
    if (trace->has_gate)
        ICL_CHECK(read_variable(tape, seen->decay, &host->decay, error));
    ICL_CHECK(icl_allocate(m, n * sizeof *host->state, "state", &host->state, error));
    return icl_allocate(m < n ? m : n, sizeof *host->singular, "singular values", &host->singular, error);
}

static double square_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return sum;
}

/* The root of 1 - sum_i c_i / (g_i - x) in (low, high), where no g_i with c_i > 0 lies inside, all c_i >= 0 and the
 * function falls through 0, by bisection. */
static double find_root(const double *gates, const double *terms, size_t count, double low, double high) {
    for (int step = 0; step < 200 && low < high; step++) {
        const double x = low + (high - low) / 2;
        double value = 1;
        if (x == low || x == high)
            break;
        for (size_t i = 0; i < count; i++)
            value -= terms[i] > 0 ? terms[i] / (gates[i] - x) : 0;
        *(value > 0 ? &low : &high) = x;
    }
    return low + (high - low) / 2;
}

/* Finds the extreme eigenvalues of (I - b k r^T) Diag(g), with c_i = b k_i r_i g_i >= 0: it is similar to a symmetric
 * matrix, Diag(g) less one of rank one, whose eigenvalues are the g_i with c_i = 0 and the roots of 1 = sum_i c_i /
 * (g_i - x), one below every other g_i (Golub 1973). The least one is at most sum_i c_i below the least g_i. */
static void find_extremes(const double *gates, const double *terms, size_t count, icl_state_write *write) {
    double least = HUGE_VAL, first = -HUGE_VAL, second = -HUGE_VAL, sum = 0;

    write->least = HUGE_VAL;
    write->largest = -HUGE_VAL;
    for (size_t i = 0; i < count; i++) {
        sum += terms[i];
        if (terms[i] > 0) {
            least = fmin(least, gates[i]);
            second = fmax(second, fmin(first, gates[i]));
            first = fmax(first, gates[i]);
        } else {
            write->least = fmin(write->least, gates[i]);
            write->largest = fmax(write->largest, gates[i]);
        }
    }
    if (!(sum > 0))
        return;
    write->least = fmin(write->least, find_root(gates, terms, count, least - sum, least));
    write->largest = fmax(write->largest, find_root(gates, terms, count, fmax(second, least - sum), first));
}

/* Measures write `index` of [B][H][T][writes]. terms [m] is room. */
static icl_state_write measure_write(const icl_state_trace *trace, const operands *host, size_t index, double *terms) {
    const size_t m = trace->key_width;
    const double *k = host->k + index * m, *r = host->read_key + index * m;
    const double keys = square_of(host->write_key + index * m, m);
    const double values = square_of(host->v + index * trace->value_width, trace->value_width);
    const double *gates = trace->gates + index * trace->channels;
    const double strength = host->beta ? host->beta[index] : 1;
    icl_state_write write = {strength, fabs(strength) * sqrt(keys * values), gates[0], gates[0]};
    double product = 0;

    for (size_t i = 0; i < m; i++) {
        product += k[i] * r[i];
        terms[i] = strength * k[i] * r[i] * gates[trace->channels > 1 ? i : 0];
    }
    for (size_t i = 1; i < trace->channels; i++) {
        write.least = fmin(write.least, gates[i]);
        write.largest = fmax(write.largest, gates[i]);
    }
    if (trace->is_delta && trace->channels > 1) {
        find_extremes(gates, terms, m, &write);
    } else if (trace->is_delta) {
        const double along_key = gates[0] * (1 - strength * product);
        write.least = m > 1 ? fmin(write.least, along_key) : along_key;
        write.largest = m > 1 ? fmax(write.largest, along_key) : along_key;
    }
    return write;
}

/* S <- Diag(g) S, then S <- S + b (w v^T - k (S^T r)^T). */
static void apply_write(const icl_state_trace *trace, const operands *host, size_t index) {
    const size_t m = trace->key_width, n = trace->value_width;
    const double *k = host->k + index * m, *r = host->read_key + index * m, *w = host->write_key + index * m;
    const double *v = host->v + index * n, *gates = trace->gates + index * trace->channels;
    const double strength = trace->of[index].strength;

    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            host->state[i * n + j] *= gates[trace->channels > 1 ? i : 0];
    for (size_t j = 0; j < n; j++) {
        double held = 0;
        for (size_t i = 0; trace->is_delta && i < m; i++)
            held += host->state[i * n + j] * r[i];
        for (size_t i = 0; i < m; i++)
            host->state[i * n + j] += strength * (w[i] * v[j] - k[i] * held);
    }
}

static icl_status measure_rank(const icl_state_trace *trace, const operands *host, icl_state_rank *rank,
                               icl_error *error) {
    const size_t m = trace->key_width, n = trace->value_width, count = m < n ? m : n;

    *rank = (icl_state_rank){(double)NAN, (double)NAN, sqrt(square_of(host->state, m * n))};
    if (!isfinite(rank->norm))
        return ICL_OK;
    ICL_CHECK(icl_singular_values(host->state, m, n, host->singular, error));
    rank->effective = icl_entropy_rank(host->singular, count);
    rank->numeric = 0;
    for (size_t i = 0; i < count; i++)
        rank->numeric += host->singular[i] > ICL_STATE_RANK_SHARE * host->singular[0];
    return ICL_OK;
}

/* Measures head `head` of [B][H]. */
static icl_status measure_states(const icl_state_trace *trace, const operands *host, size_t head, icl_error *error) {
    const size_t first = head * trace->positions;

    memset(host->state, 0, trace->key_width * trace->value_width * sizeof *host->state);
    for (size_t t = 0; t < trace->positions; t++) {
        icl_state_rank *rank = &trace->ranks[first + t];
        for (size_t write = 0; write < trace->writes; write++)
            apply_write(trace, host, (first + t) * trace->writes + write);
        if ((trace->positions - 1 - t) % trace->rank_step == 0)
            ICL_CHECK(measure_rank(trace, host, rank, error));
        else
            *rank = (icl_state_rank){(double)NAN, (double)NAN, (double)NAN};
    }
    return ICL_OK;
}

static icl_status measure_trace(const icl_tape *tape, const recurrence_operands *seen, icl_state_trace *trace,
                                icl_error *error) {
    const size_t heads = trace->sequences * trace->heads, tokens = heads * trace->positions;
    const size_t writes = tokens * trace->writes, gates = writes * trace->channels;
    operands host = {0};
    double *terms = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(trace->key_width, sizeof *terms, "terms of a write", &terms, error));
    ICL_TRY(icl_allocate(writes, sizeof *trace->of, "writes", &trace->of, error));
    ICL_TRY(icl_allocate(gates, sizeof *trace->gates, "gates", &trace->gates, error));
    ICL_TRY(icl_allocate(tokens, sizeof *trace->ranks, "ranks of states", &trace->ranks, error));
    ICL_TRY(read_operands(tape, seen, &host, error));
    for (size_t i = 0; i < gates; i++)
        trace->gates[i] = host.decay ? exp(host.decay[i]) : 1;
    for (size_t i = 0; i < writes; i++)
        trace->of[i] = measure_write(trace, &host, i, terms);
    for (size_t head = 0; head < heads; head++)
        ICL_TRY(measure_states(trace, &host, head, error));
done:
    icl_free(&terms);
    release_operands(&host);
    return status;
}

static icl_status measure_all(void *user, const icl_tape *tape, icl_error *error) {
    const watcher *w = user;
    icl_state_traces *traces = w->traces;

    ICL_CHECK(w->status);
    for (size_t i = 0; i < w->count; i++) {
        ICL_CHECK(icl_grow(&traces->traces, traces->count, &traces->capacity, sizeof *traces->traces, "states", error));
        traces->traces[traces->count] = w->all[i].trace;
        ICL_CHECK(measure_trace(tape, &w->all[i], &traces->traces[traces->count++], error));
    }
    return ICL_OK;
}

icl_status icl_state_traces_measure(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                    icl_tensor inputs, icl_state_traces *traces, icl_error *error) {
    watcher w = {.model = model, .traces = traces, .error = error};
    const icl_sequence_watch watch = {.recurrence = see, .user = &w};
    icl_status status;

    *traces = (icl_state_traces){0};
    status = icl_watched_run(model, backend, parameters, inputs, &watch, measure_all, error);
    icl_free(&w.all);
    return status;
}

void icl_state_traces_release(icl_state_traces *traces) {
    for (size_t i = 0; i < traces->count; i++) {
        icl_free(&traces->traces[i].of);
        icl_free(&traces->traces[i].gates);
        icl_free(&traces->traces[i].ranks);
    }
    icl_free(&traces->traces);
    *traces = (icl_state_traces){0};
}

/* ---- Numbers of a head on all sequences ---- */

static const double shares[ICL_INSPECT_QUANTILES] = {0.1, 0.5, 0.9};

/* Names the head, and its recurrence if its layer has several; returns text. */
static const char *name_head(const icl_inspection *run, const icl_state_traces *traces, const icl_state_trace *trace,
                             size_t head, char text[ICL_INSPECT_STATE_NAME]) {
    char name[ICL_INSPECT_CELL];
    bool parts = false;

    for (size_t i = 0; i < traces->count; i++)
        parts = parts || (traces->traces[i].layer == trace->layer && traces->traces[i].part > 0);
    icl_inspect_head(run, trace->loop, head, name);
    if (parts)
        snprintf(text, ICL_INSPECT_STATE_NAME, "state %zu, %s", trace->part + 1, name);
    else
        snprintf(text, ICL_INSPECT_STATE_NAME, "%s", name);
    return text;
}

/* Returns a quantile of sorted `values`, linear between two of them. */
static double quantile(const double *values, size_t count, double share) {
    const double at = share * (double)(count - 1);
    const size_t below = (size_t)at;
    return below + 1 < count ? values[below] + (at - (double)below) * (values[below + 1] - values[below])
                             : values[count - 1];
}

static icl_status summarize_gates(const icl_state_trace *trace, size_t head, icl_inspect_state *summary,
                                  icl_error *error) {
    const size_t each = trace->positions * trace->writes * trace->channels, count = trace->sequences * each;
    double *gates = NULL;

    ICL_CHECK(icl_allocate(count, sizeof *gates, "gates", &gates, error));
    for (size_t b = 0; b < trace->sequences; b++)
        for (size_t i = 0; i < each; i++)
            gates[b * each + i] = trace->gates[(b * trace->heads + head) * each + i];
    summary->gate = icl_mean(gates, count);
    icl_sort_ascending(gates, count);
    for (size_t i = 0; i < ICL_INSPECT_QUANTILES; i++)
        summary->quantiles[i] = quantile(gates, count, shares[i]);
    icl_free(&gates);
    return ICL_OK;
}

static void summarize_writes(const icl_state_trace *trace, size_t head, icl_inspect_state *summary) {
    const size_t each = trace->positions * trace->writes;
    const double share = 1 / (double)(trace->sequences * each);

    summary->least = HUGE_VAL;
    summary->largest = -HUGE_VAL;
    for (size_t b = 0; b < trace->sequences; b++)
        for (size_t i = 0; i < each; i++) {
            const icl_state_write *write = &trace->of[(b * trace->heads + head) * each + i];
            summary->strength += share * write->strength;
            summary->written += share * write->written;
            summary->least = fmin(summary->least, write->least);
            summary->largest = fmax(summary->largest, write->largest);
            summary->negative += write->least < -ICL_STATE_ROUNDING ? share : 0;
        }
}

static icl_status summarize_ranks(const icl_state_trace *trace, size_t head, icl_inspect_state *summary,
                                  icl_error *error) {
    const size_t count = trace->sequences;
    double *values = NULL; /* [3][count] */

    ICL_CHECK(icl_allocate(count, 3 * sizeof *values, "ranks", &values, error));
    for (size_t b = 0; b < count; b++) {
        const icl_state_rank *last = &trace->ranks[(b * trace->heads + head + 1) * trace->positions - 1];
        values[b] = last->effective;
        values[count + b] = last->numeric;
        values[2 * count + b] = last->norm;
    }
    summary->effective.mean = icl_mean(values, count);
    summary->effective.standard_error = icl_standard_error(values, count);
    summary->numeric.mean = icl_mean(values + count, count);
    summary->numeric.standard_error = icl_standard_error(values + count, count);
    summary->norm.mean = icl_mean(values + 2 * count, count);
    summary->norm.standard_error = icl_standard_error(values + 2 * count, count);
    icl_free(&values);
    return ICL_OK;
}

icl_status icl_inspect_state_measure(const icl_state_trace *trace, size_t head, icl_inspect_state *summary,
                                     icl_error *error) {
    summarize_writes(trace, head, summary);
    ICL_CHECK(summarize_gates(trace, head, summary, error));
    return summarize_ranks(trace, head, summary, error);
}

/* ---- Tables ---- */

typedef icl_status add_row(icl_inspection *run, const char *layer, const icl_state_trace *trace, const char *what,
                           const icl_inspect_state *is, icl_error *error);

static icl_status add_writes(icl_inspection *run, const char *layer, const icl_state_trace *trace, const char *what,
                             const icl_inspect_state *summary, icl_error *error) {
    char texts[ICL_INSPECT_QUANTILES + 3][ICL_INSPECT_CELL];
    const double none = (double)NAN;
    const char *cells[ICL_INSPECT_QUANTILES + 5] = {layer, what};

    icl_inspect_number(trace->has_gate ? summary->gate : none, texts[0]);
    for (size_t i = 0; i < ICL_INSPECT_QUANTILES; i++)
        icl_inspect_number(trace->has_gate ? summary->quantiles[i] : none, texts[1 + i]);
    icl_inspect_number(trace->has_beta ? summary->strength : none, texts[ICL_INSPECT_QUANTILES + 1]);
    icl_inspect_number(summary->written, texts[ICL_INSPECT_QUANTILES + 2]);
    for (size_t i = 0; i < ICL_INSPECT_QUANTILES + 3; i++)
        cells[2 + i] = texts[i];
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status add_states(icl_inspection *run, const char *layer, const icl_state_trace *trace, const char *what,
                             const icl_inspect_state *summary, icl_error *error) {
    const size_t most = trace->key_width < trace->value_width ? trace->key_width : trace->value_width;
    char texts[6][ICL_INSPECT_CELL];

    icl_inspect_number(summary->least, texts[0]);
    icl_inspect_number(summary->largest, texts[1]);
    icl_print(texts[2], sizeof texts[2], "%.3g %%", 100 * summary->negative);
    icl_inspect_measured(summary->effective.mean, summary->effective.standard_error, texts[3]);
    icl_inspect_measured(summary->numeric.mean, summary->numeric.standard_error, texts[4]);
    snprintf(texts[5], sizeof texts[5], "%zu", most);
    const char *const cells[] = {layer, what, texts[0], texts[1], texts[2], texts[3], texts[4], texts[5]};
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

/* Adds a row for each head of each recurrence; `summaries` are in that order. */
static icl_status add_table(icl_inspection *run, const icl_state_traces *traces, const icl_inspect_state *summaries,
                            const icl_report_column *columns, size_t count, add_row *add, icl_error *error) {
    char layer[64], what[ICL_INSPECT_STATE_NAME];

    ICL_CHECK(icl_inspect_table_begin(run, columns, count, error));
    for (size_t i = 0; i < traces->count; i++)
        for (size_t head = 0; head < traces->traces[i].heads; head++) {
            const icl_state_trace *trace = &traces->traces[i];
            snprintf(layer, sizeof layer, "%zu, %s", trace->layer + 1, trace->mixer);
            ICL_CHECK(add(run, layer, trace, name_head(run, traces, trace, head, what), summaries++, error));
        }
    return icl_inspect_table_end(run, error);
}

static icl_status write_state_tables(icl_inspection *run, const icl_state_traces *traces,
                                     const icl_inspect_state *summaries, icl_error *error) {
    static const icl_report_column writes[] = {{"layer", false},         {"head", false},  {"gate, mean", true},
                                               {"10 %", true},           {"median", true}, {"90 %", true},
                                               {"write strength", true}, {"written", true}};
    static const icl_report_column states[] = {{"layer", false},       {"head", false},   {"least eigenvalue", true},
                                               {"largest", true},      {"below 0", true}, {"effective rank", true},
                                               {"numeric rank", true}, {"at most", true}};

    ICL_CHECK(add_table(run, traces, summaries, writes, sizeof writes / sizeof *writes, add_writes, error));
    ICL_CHECK(icl_inspect_paragraph(
        run, error,
        "The gate is the factor by which a token lets the state decay, over all tokens (and channels, where each has "
        "one); written is the norm of beta k v^T. A dash: the mixer has none."));
    ICL_CHECK(add_table(run, traces, summaries, states, sizeof states / sizeof *states, add_states, error));
    return icl_inspect_paragraph(
        run, error,
        "Eigenvalues of the transition that one write makes: the gates, and for the delta rule g (1 - beta |k|^2) "
        "along the key; below 0: the share of writes with a negative one, beyond the rounding of a write of strength "
        "1, %.2g. Ranks are of the state behind the last token: exp(entropy) of its singular values over their sum, "
        "and how many are above %g of the largest.",
        ICL_STATE_ROUNDING, ICL_STATE_RANK_SHARE);
}

/* ---- Pictures ---- */

/* The most rows of a map, and the most curves of a figure. */
enum { MOST_ROWS = 48, MOST_CURVES = 8 };

/* The number of a write that a map shows; NaN if this recurrence has none. */
typedef double map_value(const icl_state_trace *trace, size_t write);

/* Returns 1 minus the mean gate, because gates are near 1 and differ in their distance from it. */
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

/* The rows of a map: heads of the first sequence; each write of a token has a row of its own. */
typedef struct map_rows {
    size_t count, columns;
    double *values; /* [MOST_ROWS][columns] */
    char names[MOST_ROWS][160];
    const char *of_names[MOST_ROWS];
} map_rows;

static void add_map_rows(const icl_inspection *run, const icl_state_traces *traces, const icl_state_trace *trace,
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
            name_head(run, traces, trace, head, head_name);
            if (trace->writes > 1)
                snprintf(name, sizeof rows->names[0], "layer %zu, %s, write %zu", trace->layer + 1, head_name,
                         write + 1);
            else
                snprintf(name, sizeof rows->names[0], "layer %zu, %s", trace->layer + 1, head_name);
            rows->of_names[rows->count] = name;
            rows->count++;
        }
}

/* Draws a map of all heads by token, of the first sequence; nothing if no recurrence has the value. */
static icl_status draw_map(icl_inspection *run, const icl_state_traces *traces, const char *name, const char *title,
                           map_value *value, icl_error *error) {
    map_rows *rows = NULL;
    icl_heat_map map = {.label = "the first sequence", .columns = traces->traces[0].positions};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(1, sizeof *rows, "rows of a map", &rows, error));
    rows->columns = map.columns;
    ICL_TRY(icl_allocate(MOST_ROWS, map.columns * sizeof *rows->values, "map", &rows->values, error));
    for (size_t i = 0; i < traces->count; i++)
        add_map_rows(run, traces, &traces->traces[i], value, rows);
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

/* Adds the mean over sequences at each position whose ranks were measured. */
static icl_status add_ranks(const icl_state_trace *trace, size_t head, icl_curves *curves, icl_error *error) {
    for (size_t t = 0; t < trace->positions; t++) {
        double sum = 0;
        if ((trace->positions - 1 - t) % trace->rank_step != 0)
            continue;
        for (size_t b = 0; b < trace->sequences; b++)
            sum += trace->ranks[(b * trace->heads + head) * trace->positions + t].effective;
        ICL_CHECK(icl_curves_point(curves, (double)t, sum / (double)trace->sequences, error));
    }
    return ICL_OK;
}

static icl_status draw_ranks(icl_inspection *run, const icl_state_traces *traces, icl_error *error) {
    icl_curves curves = ICL_CURVES(.name = "ranks", .title = "Effective rank of the states", .x_label = "position",
                                   .y_label = "effective rank");
    char name[ICL_INSPECT_STATE_NAME];
    icl_status status = ICL_OK;

    for (size_t i = 0; i < traces->count; i++)
        for (size_t head = 0; head < traces->traces[i].heads && curves.curve_count < MOST_CURVES; head++) {
            const icl_state_trace *trace = &traces->traces[i];
            ICL_TRY(icl_curves_begin(&curves, ICL_SERIES_LINE, error, "layer %zu, %s", trace->layer + 1,
                                     name_head(run, traces, trace, head, name)));
            ICL_TRY(add_ranks(trace, head, &curves, error));
        }
    ICL_TRY(icl_inspect_curves(run, &curves, error));
done:
    icl_curves_release(&curves);
    return status;
}

static icl_status draw_states(icl_inspection *run, const icl_state_traces *traces, icl_error *error) {
    static const struct {
        const char *name, *title;
        map_value *value;
    } maps[] = {{"gates", "What a token lets the state forget: 1 - gate, mean over channels", forgotten_by},
                {"strengths", "Strength of writing by token: beta", strength_of},
                {"written", "What is written by token: the norm of k v^T", written_by},
                {"eigenvalues", "Least eigenvalue of the transition by token", least_eigenvalue_of}};
    size_t heads = 0, writes = 0;

    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ICL_CHECK(draw_map(run, traces, maps[i].name, maps[i].title, maps[i].value, error));
    ICL_CHECK(draw_ranks(run, traces, error));
    for (size_t i = 0; i < traces->count; i++) {
        heads += traces->traces[i].heads;
        writes += traces->traces[i].heads * traces->traces[i].writes;
    }
    if (writes > MOST_ROWS || heads > MOST_CURVES)
        return icl_inspect_paragraph(run, error,
                                     "The pictures have the first %d rows and %d curves of %zu and %zu; inspect.csv "
                                     "has the numbers of all.",
                                     MOST_ROWS, MOST_CURVES, writes, heads);
    return ICL_OK;
}

/* ---- Inspections of states ---- */

static const char *const share_names[ICL_INSPECT_QUANTILES] = {"gate: 10 % quantile", "gate: median",
                                                               "gate: 90 % quantile"};

static icl_status found(icl_inspection *run, const icl_state_trace *trace, const char *what, const char *quantity,
                        double value, double standard_error, icl_error *error) {
    return ICL_INSPECT_FOUND(run, error, .layer = trace->layer + 1, .what = what, .quantity = quantity, .value = value,
                             .standard_error = standard_error, .note = trace->mixer);
}

static icl_status report_state(icl_inspection *run, const icl_state_trace *trace, const char *what,
                               const icl_inspect_state *summary, icl_error *error) {
    if (trace->has_gate)
        ICL_CHECK(found(run, trace, what, "gate: mean", summary->gate, 0, error));
    for (size_t i = 0; trace->has_gate && i < ICL_INSPECT_QUANTILES; i++)
        ICL_CHECK(found(run, trace, what, share_names[i], summary->quantiles[i], 0, error));
    if (trace->has_beta)
        ICL_CHECK(found(run, trace, what, "write strength: mean", summary->strength, 0, error));
    ICL_CHECK(found(run, trace, what, "written: mean norm", summary->written, 0, error));
    ICL_CHECK(found(run, trace, what, "eigenvalue: least", summary->least, 0, error));
    ICL_CHECK(found(run, trace, what, "eigenvalue: largest", summary->largest, 0, error));
    ICL_CHECK(found(run, trace, what, "share of writes with a negative eigenvalue", summary->negative, 0, error));
    ICL_CHECK(found(run, trace, what, "effective rank at the end", summary->effective.mean,
                    summary->effective.standard_error, error));
    ICL_CHECK(found(run, trace, what, "numeric rank at the end", summary->numeric.mean, summary->numeric.standard_error,
                    error));
    return found(run, trace, what, "norm of the state at the end", summary->norm.mean, summary->norm.standard_error,
                 error);
}

static icl_status summarize_heads(icl_inspection *run, const icl_state_traces *traces, icl_inspect_state *summaries,
                                  icl_error *error) {
    char what[ICL_INSPECT_STATE_NAME];

    for (size_t i = 0; i < traces->count; i++)
        for (size_t head = 0; head < traces->traces[i].heads; head++, summaries++) {
            const icl_state_trace *trace = &traces->traces[i];
            ICL_CHECK(icl_inspect_state_measure(trace, head, summaries, error));
            ICL_CHECK(report_state(run, trace, name_head(run, traces, trace, head, what), summaries, error));
        }
    return ICL_OK;
}

/* Reports the least of all eigenvalues, for the result in a sentence. */
static icl_status conclude_states(icl_inspection *run, const icl_state_traces *traces,
                                  const icl_inspect_state *summaries, icl_error *error) {
    size_t heads = 0, negative = 0;
    double least = HUGE_VAL, largest = -HUGE_VAL;

    for (size_t i = 0; i < traces->count; i++)
        heads += traces->traces[i].heads;
    for (size_t i = 0; i < heads; i++) {
        least = fmin(least, summaries[i].least);
        largest = fmax(largest, summaries[i].largest);
        negative += summaries[i].negative > 0;
    }
    ICL_CHECK(icl_text_print(&run->lead, error, " Eigenvalues of its states' transitions lie in [%.4g, %.4g]", least,
                             largest));
    return icl_text_print(&run->lead, error, "; heads with negative ones: %zu of %zu.", negative, heads);
}

icl_status icl_inspect_states(icl_inspection *run, icl_tensor parameters, icl_tensor inputs, icl_error *error) {
    icl_state_traces traces = {0};
    icl_inspect_state *summaries = NULL;
    size_t heads = 0;
    icl_status status = ICL_OK;

    icl_inspect_progress(run, "states", 0);
    ICL_TRY(icl_state_traces_measure(run->model, run->params->backend, parameters, inputs, &traces, error));
    if (traces.count == 0)
        goto done;
    for (size_t i = 0; i < traces.count; i++)
        heads += traces.traces[i].heads;
    ICL_TRY(icl_allocate(heads, sizeof *summaries, "summaries of heads", &summaries, error));
    ICL_TRY(icl_inspect_section(run, "States: gates, writes, transitions, ranks", error));
    ICL_TRY(summarize_heads(run, &traces, summaries, error));
    ICL_TRY(write_state_tables(run, &traces, summaries, error));
    ICL_TRY(draw_states(run, &traces, error));
    ICL_TRY(conclude_states(run, &traces, summaries, error));
done:
    icl_free(&summaries);
    icl_state_traces_release(&traces);
    return status;
}
