#include "probe/state_trace.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/singular.h"
#include "probe/watched.h"

/* Positions of a sequence whose state's rank is measured: an eigenvalue problem for each. */
#define MOST_RANKS 32

/* ---- Seeing ---- */

/* Operands of one recurrence on the tape, repeated to their full shape: k [B, H, L, m], v [B, H, L, n], and beta and
 * decay [B, H, L, channels] where there are any; L = T writes. */
typedef struct seen {
    icl_state_trace trace; /* its sizes */
    icl_variable k, v, beta, decay;
} seen;

typedef struct watcher {
    const icl_model *model;
    icl_state_traces *traces; /* of what was seen */
    seen *all;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
} watcher;

/* x with B, H and L of `shape` and its own last axis, without gaps. */
static icl_variable in_full(icl_tape *tape, const size_t *shape, icl_variable x) {
    const size_t full[] = {shape[0], shape[1], shape[2], icl_tape_value(tape, x).shape[3]};
    return icl_tape_binary(tape, ICL_ADD, icl_tape_filled(tape, 4, full, 0), x);
}

/* Recurrences of this layer in this loop, so far. */
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
    seen *to;

    if (w->status != ICL_OK)
        return;
    w->status = icl_grow(&w->all, w->count, &w->capacity, sizeof *w->all, "operands of recurrences", w->error);
    if (w->status != ICL_OK)
        return;
    to = &w->all[w->count];
    *to = (seen){.k = in_full(pass->tape, k.shape, operands->k), .v = in_full(pass->tape, k.shape, operands->v)};
    if (operands->beta)
        to->beta = in_full(pass->tape, k.shape, *operands->beta);
    if (operands->decay)
        to->decay = in_full(pass->tape, k.shape, *operands->decay);
    to->trace = (icl_state_trace){
        .layer = layer->index,
        .loop = pass->loop,
        .part = parts_so_far(w, layer->index, pass->loop),
        .mixer = layer->mixer->word,
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

/* ---- Measuring ---- */

/* The operands of one recurrence on the host, and the state of one head. */
typedef struct operands {
    double *k, *v, *beta, *decay;
    double *state, *singular; /* [m][n], [min(m, n)] */
} operands;

static void operands_release(operands *of) {
    icl_free(&of->k);
    icl_free(&of->v);
    icl_free(&of->beta);
    icl_free(&of->decay);
    icl_free(&of->state);
    icl_free(&of->singular);
}

static icl_status read_variable(const icl_tape *tape, icl_variable variable, double **values, icl_error *error) {
    const icl_tensor tensor = icl_tape_value(tape, variable);

    ICL_CHECK(icl_allocate(icl_tensor_count(&tensor), sizeof **values, "operands of a recurrence", values, error));
    return icl_tensor_read_double(tensor, *values, error);
}

static icl_status read_operands(const icl_tape *tape, const seen *from, operands *to, icl_error *error) {
    const icl_state_trace *trace = &from->trace;
    const size_t m = trace->key_width, n = trace->value_width;

    ICL_CHECK(read_variable(tape, from->k, &to->k, error));
    ICL_CHECK(read_variable(tape, from->v, &to->v, error));
    if (trace->has_beta)
        ICL_CHECK(read_variable(tape, from->beta, &to->beta, error));
    if (trace->has_gate)
        ICL_CHECK(read_variable(tape, from->decay, &to->decay, error));
    ICL_CHECK(icl_allocate(m, n * sizeof *to->state, "state", &to->state, error));
    return icl_allocate(m < n ? m : n, sizeof *to->singular, "singular values", &to->singular, error);
}

static double square_of(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return sum;
}

/* Write `index` of [B][H][T][writes]. */
static icl_state_write measure_write(const icl_state_trace *trace, const operands *from, size_t index) {
    const double keys = square_of(from->k + index * trace->key_width, trace->key_width);
    const double values = square_of(from->v + index * trace->value_width, trace->value_width);
    const double *gates = trace->gates + index * trace->channels;
    const double strength = from->beta ? from->beta[index] : 1;
    icl_state_write made = {strength, fabs(strength) * sqrt(keys * values), gates[0], gates[0]};

    for (size_t i = 1; i < trace->channels; i++) {
        made.least = fmin(made.least, gates[i]);
        made.largest = fmax(made.largest, gates[i]);
    }
    if (trace->is_delta) {
        const double along_key = gates[0] * (1 - strength * keys);
        made.least = trace->key_width > 1 ? fmin(made.least, along_key) : along_key;
        made.largest = trace->key_width > 1 ? fmax(made.largest, along_key) : along_key;
    }
    return made;
}

/* S <- A S + b k v^T. */
static void apply_write(const icl_state_trace *trace, const operands *from, size_t index) {
    const size_t m = trace->key_width, n = trace->value_width;
    const double *k = from->k + index * m, *v = from->v + index * n, *gates = trace->gates + index * trace->channels;
    const double strength = trace->of[index].strength;

    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j < n; j++)
            from->state[i * n + j] *= gates[trace->channels > 1 ? i : 0];
    for (size_t j = 0; j < n; j++) {
        double miss = v[j];
        for (size_t i = 0; trace->is_delta && i < m; i++)
            miss -= from->state[i * n + j] * k[i];
        for (size_t i = 0; i < m; i++)
            from->state[i * n + j] += strength * k[i] * miss;
    }
}

static icl_status measure_rank(const icl_state_trace *trace, const operands *from, icl_state_rank *rank,
                               icl_error *error) {
    const size_t m = trace->key_width, n = trace->value_width, count = m < n ? m : n;

    *rank = (icl_state_rank){(double)NAN, (double)NAN, sqrt(square_of(from->state, m * n))};
    if (!isfinite(rank->norm))
        return ICL_OK;
    ICL_CHECK(icl_singular_values(from->state, m, n, from->singular, error));
    rank->effective = icl_entropy_rank(from->singular, count);
    rank->numeric = 0;
    for (size_t i = 0; i < count; i++)
        rank->numeric += from->singular[i] > ICL_STATE_RANK_SHARE * from->singular[0];
    return ICL_OK;
}

/* Head `head` of [B][H]. */
static icl_status measure_states(const icl_state_trace *trace, const operands *from, size_t head, icl_error *error) {
    const size_t first = head * trace->positions;

    memset(from->state, 0, trace->key_width * trace->value_width * sizeof *from->state);
    for (size_t t = 0; t < trace->positions; t++) {
        icl_state_rank *rank = &trace->ranks[first + t];
        for (size_t write = 0; write < trace->writes; write++)
            apply_write(trace, from, (first + t) * trace->writes + write);
        if ((trace->positions - 1 - t) % trace->rank_step == 0)
            ICL_CHECK(measure_rank(trace, from, rank, error));
        else
            *rank = (icl_state_rank){(double)NAN, (double)NAN, (double)NAN};
    }
    return ICL_OK;
}

static icl_status measure(const icl_tape *tape, const seen *from, icl_state_trace *trace, icl_error *error) {
    const size_t heads = trace->sequences * trace->heads, tokens = heads * trace->positions;
    const size_t writes = tokens * trace->writes, gates = writes * trace->channels;
    operands of = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(writes, sizeof *trace->of, "writes", &trace->of, error));
    ICL_TRY(icl_allocate(gates, sizeof *trace->gates, "gates", &trace->gates, error));
    ICL_TRY(icl_allocate(tokens, sizeof *trace->ranks, "ranks of states", &trace->ranks, error));
    ICL_TRY(read_operands(tape, from, &of, error));
    for (size_t i = 0; i < gates; i++)
        trace->gates[i] = of.decay ? exp(of.decay[i]) : 1;
    for (size_t i = 0; i < writes; i++)
        trace->of[i] = measure_write(trace, &of, i);
    for (size_t head = 0; head < heads; head++)
        ICL_TRY(measure_states(trace, &of, head, error));
done:
    operands_release(&of);
    return status;
}

/* ---- The whole ---- */

static icl_status measure_all(void *user, const icl_tape *tape, icl_error *error) {
    const watcher *w = user;
    icl_state_traces *traces = w->traces;

    ICL_CHECK(w->status);
    for (size_t i = 0; i < w->count; i++) {
        ICL_CHECK(icl_grow(&traces->traces, traces->count, &traces->capacity, sizeof *traces->traces, "states", error));
        traces->traces[traces->count] = w->all[i].trace;
        ICL_CHECK(measure(tape, &w->all[i], &traces->traces[traces->count++], error));
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
