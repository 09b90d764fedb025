/* The recurrence with matrix state, forward and backward. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "conformance/cases.h"

enum { FORWARD = ICL_RECURRENCE_FORWARD_INPUTS, BACKWARD = ICL_RECURRENCE_BACKWARD_INPUTS };

/* The largest number of channels of a case. */
#define LARGEST 64

/* Which of the optional inputs are present; SHARED: all heads share k and v, and the batch shares q and beta;
 * FROM_ROWS: outputs from the other side. */
enum { BETA = 1, STATE = 2, READ_KEY = 4, WRITE_KEY = 8, SHARED = 16, ONLY_OUT = 32, FROM_ROWS = 64 };

typedef enum gates { NO_GATE = 0, CONSTANT, SCALAR, VECTOR } gates;

typedef struct row {
    const char *name; /* what is special about it, or "" */
    bool delta;
    gates gates;
    icl_recurrence_keys keys;
    icl_recurrence_decays decays;
    unsigned has;
    size_t batch, heads, tokens, m, n;
    icl_values values;
} row;

/* The rows have lengths around the segments, widths around vectors, and 1, and data within and outside the ranges that
 * models use. */
static const row rows[] = {
    {"", false, NO_GATE, ICL_KEYS_NORMAL, 0, 0, 1, 1, 1, 1, 1, ICL_VALUES_RANDOM},
    {"", false, NO_GATE, ICL_KEYS_NORMAL, 0, BETA, 2, 3, 33, 17, 8, ICL_VALUES_RANDOM},
    {"", false, NO_GATE, ICL_KEYS_NORMAL, 0, BETA | STATE, 1, 2, 32, 8, 17, ICL_VALUES_INTEGERS},
    {"", false, NO_GATE, ICL_KEYS_NORMAL, 0, STATE | SHARED, 2, 2, 65, 3, 16, ICL_VALUES_INTEGERS},
    {"", false, NO_GATE, ICL_KEYS_NORMAL, 0, STATE, 1, 1, 100, 16, 16, ICL_VALUES_CANCELLING},
    {"", false, NO_GATE, ICL_KEYS_NORMAL, 0, ONLY_OUT, 1, 1, 31, 64, 64, ICL_VALUES_RANDOM},
    {"", false, CONSTANT, ICL_KEYS_NORMAL, ICL_DECAYS_ORDINARY, STATE, 2, 3, 65, 16, 32, ICL_VALUES_RANDOM},
    {"", false, CONSTANT, ICL_KEYS_NORMAL, ICL_DECAYS_ORDINARY, BETA | SHARED, 2, 2, 31, 3, 1, ICL_VALUES_RANDOM},
    {"", false, SCALAR, ICL_KEYS_NORMAL, ICL_DECAYS_ORDINARY, BETA | STATE, 1, 2, 100, 17, 16, ICL_VALUES_RANDOM},
    {"", false, SCALAR, ICL_KEYS_NORMAL, ICL_DECAYS_ORDINARY, 0, 17, 1, 33, 8, 3, ICL_VALUES_RANDOM},
    {"strong", false, SCALAR, ICL_KEYS_NORMAL, ICL_DECAYS_STRONG, STATE, 1, 2, 70, 8, 8, ICL_VALUES_RANDOM},
    {"", false, VECTOR, ICL_KEYS_NORMAL, ICL_DECAYS_ORDINARY, 0, 1, 3, 33, 64, 32, ICL_VALUES_RANDOM},
    {"", false, VECTOR, ICL_KEYS_NORMAL, ICL_DECAYS_ORDINARY, BETA | STATE, 2, 1, 32, 1, 3, ICL_VALUES_RANDOM},
    {"rare", false, VECTOR, ICL_KEYS_NORMAL, ICL_DECAYS_RARE, STATE, 1, 2, 100, 16, 17, ICL_VALUES_RANDOM},
    {"forgetting", false, VECTOR, ICL_KEYS_NORMAL, ICL_DECAYS_FORGET, BETA | STATE, 2, 1, 64, 3, 8, ICL_VALUES_RANDOM},
    {"growing", false, VECTOR, ICL_KEYS_NORMAL, ICL_DECAYS_GROW, STATE, 1, 2, 64, 8, 3, ICL_VALUES_RANDOM},
    {"", true, NO_GATE, ICL_KEYS_UNIT, 0, BETA, 1, 1, 1, 3, 1, ICL_VALUES_RANDOM},
    {"", true, NO_GATE, ICL_KEYS_UNIT, 0, BETA, 2, 2, 100, 16, 16, ICL_VALUES_RANDOM},
    {"", true, NO_GATE, ICL_KEYS_UNIT, 0, STATE, 1, 2, 31, 17, 3, ICL_VALUES_RANDOM},
    {"", true, NO_GATE, ICL_KEYS_UNIT, 0, BETA | STATE | SHARED, 2, 2, 33, 8, 32, ICL_VALUES_RANDOM},
    {"", true, NO_GATE, ICL_KEYS_UNIT, 0, BETA | ONLY_OUT, 1, 1, 32, 64, 64, ICL_VALUES_RANDOM},
    {"reflected", true, NO_GATE, ICL_KEYS_WIDE, 0, BETA | STATE, 1, 2, 65, 8, 17, ICL_VALUES_RANDOM},
    {"repeated", true, NO_GATE, ICL_KEYS_REPEATED, 0, BETA | STATE, 1, 1, 100, 16, 8, ICL_VALUES_RANDOM},
    {"running away", true, NO_GATE, ICL_KEYS_LONG, 0, BETA | STATE, 1, 2, 33, 8, 3, ICL_VALUES_RANDOM},
    {"apart", true, NO_GATE, ICL_KEYS_UNIT, 0, BETA | STATE | READ_KEY | WRITE_KEY, 1, 2, 40, 16, 17,
     ICL_VALUES_RANDOM},
    {"", true, CONSTANT, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, BETA | STATE, 2, 2, 33, 16, 32, ICL_VALUES_RANDOM},
    {"", true, SCALAR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, BETA | STATE, 2, 3, 65, 16, 16, ICL_VALUES_RANDOM},
    {"of many", true, SCALAR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, BETA, 17, 1, 33, 3, 3, ICL_VALUES_RANDOM},
    {"wide", true, SCALAR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, BETA, 1, 1, 100, 64, 32, ICL_VALUES_RANDOM},
    {"strong", true, SCALAR, ICL_KEYS_UNIT, ICL_DECAYS_STRONG, BETA | STATE, 1, 2, 70, 17, 8, ICL_VALUES_RANDOM},
    {"forgetting", true, SCALAR, ICL_KEYS_WIDE, ICL_DECAYS_FORGET, BETA | STATE, 2, 1, 64, 8, 16, ICL_VALUES_RANDOM},
    {"", true, VECTOR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, BETA, 1, 2, 33, 32, 64, ICL_VALUES_RANDOM},
    {"", true, VECTOR, ICL_KEYS_WIDE, ICL_DECAYS_ORDINARY, BETA | STATE, 2, 1, 31, 1, 8, ICL_VALUES_RANDOM},
    {"rare", true, VECTOR, ICL_KEYS_UNIT, ICL_DECAYS_RARE, BETA | STATE, 1, 2, 100, 8, 17, ICL_VALUES_RANDOM},
    {"growing", true, VECTOR, ICL_KEYS_UNIT, ICL_DECAYS_GROW, BETA | STATE, 1, 2, 64, 16, 3, ICL_VALUES_RANDOM},
    {"apart", true, VECTOR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, STATE | READ_KEY | WRITE_KEY, 2, 1, 33, 17, 16,
     ICL_VALUES_RANDOM},
    {"read apart", true, SCALAR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, BETA | READ_KEY, 1, 2, 33, 8, 8,
     ICL_VALUES_RANDOM},
    {"written apart", true, SCALAR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, BETA | WRITE_KEY, 1, 2, 33, 8, 8,
     ICL_VALUES_RANDOM},
    {"strong", true, SCALAR, ICL_KEYS_UNIT, ICL_DECAYS_STRONG, BETA | STATE, 1, 2, 37, 4, 2, ICL_VALUES_RANDOM},
    {"", false, NO_GATE, ICL_KEYS_NORMAL, 0, FROM_ROWS, 1, 1, 1, 3, 1, ICL_VALUES_RANDOM},
    {"", false, NO_GATE, ICL_KEYS_NORMAL, 0, FROM_ROWS | BETA | STATE | SHARED, 2, 2, 65, 3, 16, ICL_VALUES_INTEGERS},
    {"", false, CONSTANT, ICL_KEYS_NORMAL, ICL_DECAYS_ORDINARY, FROM_ROWS | STATE, 2, 3, 40, 16, 32, ICL_VALUES_RANDOM},
    {"", false, VECTOR, ICL_KEYS_NORMAL, ICL_DECAYS_ORDINARY, FROM_ROWS | ONLY_OUT, 2, 2, 33, 32, 17,
     ICL_VALUES_RANDOM},
    {"rare", false, VECTOR, ICL_KEYS_NORMAL, ICL_DECAYS_RARE, FROM_ROWS | STATE, 1, 2, 100, 16, 17, ICL_VALUES_RANDOM},
    {"forgetting", false, VECTOR, ICL_KEYS_NORMAL, ICL_DECAYS_FORGET, FROM_ROWS | BETA | STATE, 2, 1, 64, 3, 8,
     ICL_VALUES_RANDOM},
    {"", true, NO_GATE, ICL_KEYS_UNIT, 0, FROM_ROWS | BETA | STATE, 1, 2, 65, 17, 3, ICL_VALUES_RANDOM},
    {"", true, SCALAR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, FROM_ROWS | BETA | STATE | SHARED, 2, 2, 33, 8, 32,
     ICL_VALUES_RANDOM},
    {"", true, VECTOR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, FROM_ROWS | BETA, 1, 2, 33, 32, 64, ICL_VALUES_RANDOM},
    {"strong", true, VECTOR, ICL_KEYS_UNIT, ICL_DECAYS_STRONG, FROM_ROWS | BETA | STATE, 1, 2, 70, 17, 8,
     ICL_VALUES_RANDOM},
    {"apart", true, VECTOR, ICL_KEYS_UNIT, ICL_DECAYS_ORDINARY, FROM_ROWS | STATE | READ_KEY | WRITE_KEY, 2, 1, 33, 9,
     16, ICL_VALUES_RANDOM},
};

/* Sets the shapes of the inputs, from operand `first` on. */
static void set_inputs(icl_case *c, const row *r, int first) {
    const size_t batch = r->batch, heads = r->heads, tokens = r->tokens, m = r->m, n = r->n;
    const bool shared = r->has & SHARED;
    const size_t own_batch = shared ? 1 : batch, own_heads = shared ? 1 : heads;
    const size_t decays = r->gates == CONSTANT ? 1 : tokens;

    icl_case_set_shape(c, first + ICL_RECURRENCE_Q, 4, own_batch, heads, tokens, r->has & FROM_ROWS ? n : m);
    icl_case_set_shape(c, first + ICL_RECURRENCE_K, 4, batch, own_heads, tokens, m);
    icl_case_set_shape(c, first + ICL_RECURRENCE_V, 4, batch, own_heads, tokens, n);
    icl_case_set_shape(c, first + ICL_RECURRENCE_BETA, r->has & BETA ? 4 : -1, own_batch, heads, tokens, 1);
    icl_case_set_shape(c, first + ICL_RECURRENCE_DECAY, r->gates ? 4 : -1, r->gates == CONSTANT ? 1 : batch, heads,
                       decays, r->gates == VECTOR ? m : 1);
    icl_case_set_shape(c, first + ICL_RECURRENCE_READ_KEY, r->has & READ_KEY ? 4 : -1, batch, own_heads, tokens, m);
    icl_case_set_shape(c, first + ICL_RECURRENCE_WRITE_KEY, r->has & WRITE_KEY ? 4 : -1, batch, own_heads, tokens, m);
    icl_case_set_shape(c, first + ICL_RECURRENCE_STATE, r->has & STATE ? 4 : -1, own_batch, heads, m, n);
}

static icl_case forward_case(const row *r) {
    const size_t segments = (r->tokens + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT;
    const int kept = r->has & ONLY_OUT ? -1 : 4;
    icl_case c = {.op = ICL_OP_recurrence_forward};

    icl_case_set_shape(&c, ICL_RECURRENCE_OUT, 4, r->batch, r->heads, r->tokens, r->has & FROM_ROWS ? r->m : r->n);
    icl_case_set_shape(&c, ICL_RECURRENCE_FINAL, kept, r->batch, r->heads, r->m, r->n);
    icl_case_set_shape(&c, ICL_RECURRENCE_READS, r->delta ? kept : -1, r->batch, r->heads, r->tokens, r->n);
    icl_case_set_shape(&c, ICL_RECURRENCE_STATES, kept, r->batch, r->heads, segments * r->m, r->n);
    set_inputs(&c, r, FORWARD);
    return c;
}

static icl_case backward_case(const row *r) {
    const icl_case forward = forward_case(r);
    const size_t tokens = r->tokens, m = r->m, n = r->n;
    const size_t segments = (tokens + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT;
    const size_t rows_of[ICL_RECURRENCE_INPUTS] = {tokens, tokens, tokens, tokens, tokens, tokens, tokens, m};
    const size_t asked = r->has & FROM_ROWS ? n : m, written = r->has & FROM_ROWS ? m : n;
    const size_t width[ICL_RECURRENCE_INPUTS] = {asked, m, n, 1, r->gates == VECTOR ? m : 1, m, m, n};
    icl_case c = {.op = ICL_OP_recurrence_backward};

    for (int i = 0; i < ICL_RECURRENCE_INPUTS; i++)
        icl_case_set_shape(&c, i, forward.rank[FORWARD + i], r->batch, r->heads, rows_of[i], width[i]);
    icl_case_set_shape(&c, ICL_RECURRENCE_BACKWARD_D_OUT, 4, r->batch, r->heads, tokens, written);
    icl_case_set_shape(&c, ICL_RECURRENCE_BACKWARD_D_FINAL, r->has & ONLY_OUT ? -1 : 4, r->batch, r->heads, m, n);
    icl_case_set_shape(&c, ICL_RECURRENCE_BACKWARD_FINAL, 4, r->batch, r->heads, m, n);
    icl_case_set_shape(&c, ICL_RECURRENCE_BACKWARD_READS, r->delta ? 4 : -1, r->batch, r->heads, tokens, n);
    icl_case_set_shape(&c, ICL_RECURRENCE_BACKWARD_STATES, 4, r->batch, r->heads, segments * m, n);
    set_inputs(&c, r, BACKWARD);
    return c;
}

static void add_row(icl_case_list *list, const row *r, bool is_backward) {
    static const char *const gate_names[] = {"", " constant", " scalar", " vector"};
    char what[64];
    icl_case c = is_backward ? backward_case(r) : forward_case(r);

    const bool from_rows = r->has & FROM_ROWS;
    c.params.recurrence = (icl_recurrence_case){{r->delta, 0.25, from_rows}, r->keys, r->decays};
    c.values = r->values;
    snprintf(what, sizeof what, "recurrence %s %s%s%s%s%s", is_backward ? "backward" : "forward",
             r->delta ? "delta" : "sum", from_rows ? " from rows" : "", gate_names[r->gates], *r->name ? " " : "",
             r->name);
    icl_cases_add(list, c, what);
}

/* Adds every row, and a small copy of it, whose bounds are close to the numbers. The copy has a start state, because
 * without one the first token has gradients of 0. */
static void add_cases(icl_case_list *list, bool is_backward) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        row small = rows[i];
        add_row(list, &rows[i], is_backward);
        small.batch = small.heads = 1 + i % 2;
        small.tokens = 2;
        small.m = small.n = 2 + i % 2;
        small.has |= STATE;
        add_row(list, &small, is_backward);
    }
}

static void forward_cases(icl_case_list *list) {
    add_cases(list, false);
}

static void backward_cases(icl_case_list *list) {
    add_cases(list, true);
}

/* ---- Values ---- */

static double normal(const icl_case *c, int operand, size_t index) {
    return (double)icl_normal_from_word(icl_random_word((icl_random_key){c->seed, (uint32_t)operand, 0}, index));
}

/* Returns a number from 0 to 1. */
static double uniform(const icl_case *c, int operand, size_t index) {
    return ((double)icl_random_word((icl_random_key){c->seed, (uint32_t)operand, 0}, index) + 0.5) * 0x1p-32;
}

static void make_unit(double *x, size_t m) {
    double squares = 0;
    for (size_t i = 0; i < m; i++)
        squares += x[i] * x[i];
    for (size_t i = 0; i < m; i++)
        x[i] /= sqrt(squares);
}

/* Writes row `at` of an operand, scaled to length 1. */
static void unit_row(const icl_case *c, int operand, size_t at, size_t m, double *x) {
    for (size_t i = 0; i < m; i++)
        x[i] = normal(c, operand, at * m + i);
    make_unit(x, m);
}

/* Writes keys of length 1. Keys that read the state are near `key`, as if they were k times a gate. */
static void unit_keys(const icl_case *c, int operand, int key, float *values) {
    const size_t m = c->shape[operand][3], count = icl_case_count(c, operand);
    const bool repeated = c->params.recurrence.keys >= ICL_KEYS_REPEATED;
    double x[LARGEST], other[LARGEST];

    for (size_t at = 0; at * m < count; at++) {
        unit_row(c, key, repeated ? 0 : at, m, x);
        unit_row(c, operand, at, m, other);
        for (size_t i = 0; i < m && operand != key; i++)
            x[i] += 0.25 * other[i];
        make_unit(x, m);
        for (size_t i = 0; i < m; i++)
            values[at * m + i] = (float)x[i];
    }
}

static void strengths(const icl_case *c, int operand, float *values) {
    static const double factors[ICL_KEYS_COUNT] = {[ICL_KEYS_UNIT] = 1, [ICL_KEYS_WIDE] = 2};
    const icl_recurrence_keys keys = c->params.recurrence.keys;

    for (size_t i = 0; i < icl_case_count(c, operand); i++)
        values[i] = keys == ICL_KEYS_REPEATED ? 1.9F
                    : keys == ICL_KEYS_LONG   ? 2.25F
                                              : (float)(factors[keys] * uniform(c, operand, i));
}

static double log_gate(const icl_case *c, int operand, size_t i) {
    const double ordinary = -log1p(exp(normal(c, operand, i) - 3)), chance = uniform(c, operand + 100, i);
    const size_t *shape = c->shape[operand];

    switch (c->params.recurrence.decays) {
    case ICL_DECAYS_STRONG:
        return -2 * chance;
    case ICL_DECAYS_RARE:
        return chance < 0.02 ? -40 : ordinary;
    case ICL_DECAYS_FORGET:
        return chance < 0.1 ? -(double)INFINITY : ordinary;
    case ICL_DECAYS_GROW: /* up by e^12 and down again: the sum over a segment is about 0, but not within it */
        return (i / shape[3] % 32 < 16 ? 0.75 : -0.75) + 0.01 * (chance - 0.5);
    default:
        return ordinary;
    }
}

/* Writes one of the eight inputs; operand `first` is q. */
static void input_values(const icl_case *c, int first, int operand, float *values) {
    const bool is_plain = c->values != ICL_VALUES_RANDOM || c->params.recurrence.keys == ICL_KEYS_NORMAL;
    const int which = operand - first;

    if (which == ICL_RECURRENCE_DECAY)
        for (size_t i = 0; i < icl_case_count(c, operand); i++)
            values[i] = (float)log_gate(c, operand, i);
    else if (is_plain || which == ICL_RECURRENCE_Q || which == ICL_RECURRENCE_V || which == ICL_RECURRENCE_STATE)
        icl_case_values(c, operand, false, values);
    else if (which == ICL_RECURRENCE_BETA)
        strengths(c, operand, values);
    else
        unit_keys(c, operand, which == ICL_RECURRENCE_READ_KEY ? first + ICL_RECURRENCE_K : operand, values);
}

static void forward_inputs(const icl_case *c, int operand, float *const *operands) {
    input_values(c, FORWARD, operand, operands[operand]);
}

static void backward_inputs(const icl_case *c, int operand, float *const *operands) {
    if (operand >= BACKWARD)
        input_values(c, BACKWARD, operand, operands[operand]);
    else
        icl_case_values(c, operand, false, operands[operand]);
}

/* Replaces the operands that the backward pass takes from the forward pass. */
static icl_status backward_results(const icl_case *c, int operand, float *const *operands, icl_error *error) {
    if (operand >= BACKWARD || operand == ICL_RECURRENCE_BACKWARD_D_OUT || operand == ICL_RECURRENCE_BACKWARD_D_FINAL)
        return ICL_OK;
    return icl_truth_recurrence_results(c, operand, operands, error);
}

/* ---- Calls ---- */

static icl_recurrence_inputs gather(const icl_tensor *t) {
    return (icl_recurrence_inputs){.q = t[ICL_RECURRENCE_Q],
                                   .k = t[ICL_RECURRENCE_K],
                                   .v = t[ICL_RECURRENCE_V],
                                   .beta = t[ICL_RECURRENCE_BETA],
                                   .decay = t[ICL_RECURRENCE_DECAY],
                                   .read_key = t[ICL_RECURRENCE_READ_KEY],
                                   .write_key = t[ICL_RECURRENCE_WRITE_KEY],
                                   .state = t[ICL_RECURRENCE_STATE]};
}

static icl_status call_forward(const icl_case *c, icl_backend *on, const icl_tensor *t, icl_error *error) {
    const icl_recurrence_saved saved = {t[ICL_RECURRENCE_READS], t[ICL_RECURRENCE_STATES]};
    const icl_recurrence_inputs inputs = gather(t + FORWARD);
    return icl_recurrence_forward(on, &c->params.recurrence.params, t[ICL_RECURRENCE_OUT], t[ICL_RECURRENCE_FINAL],
                                  saved.states.buffer ? &saved : NULL, &inputs, error);
}

static icl_status call_backward(const icl_case *c, icl_backend *on, const icl_tensor *t, icl_error *error) {
    const icl_recurrence_saved saved = {t[ICL_RECURRENCE_BACKWARD_READS], t[ICL_RECURRENCE_BACKWARD_STATES]};
    const icl_recurrence_inputs gradients = gather(t), inputs = gather(t + BACKWARD);
    return icl_recurrence_backward(on, &c->params.recurrence.params, &gradients, t[ICL_RECURRENCE_BACKWARD_D_OUT],
                                   t[ICL_RECURRENCE_BACKWARD_D_FINAL], t[ICL_RECURRENCE_BACKWARD_FINAL], &saved,
                                   &inputs, error);
}

/* ---- What is timed ---- */

/* Writes unit keys, strengths from 0 to 1, and decays so weak that no segment loses more than e^4. */
static icl_status fill_inputs(icl_backend *backend, const icl_tensor *t, icl_error *error) {
    const icl_random_params strength = {.distribution = ICL_UNIFORM, .key = {.seed = 11}, .high = 1};
    const icl_random_params decay = {.distribution = ICL_UNIFORM, .key = {.seed = 12}, .low = -0.12F};
    const icl_tensor key = t[ICL_RECURRENCE_K];

    ICL_CHECK(icl_spherical(backend, key, key, (icl_tensor){0}, (icl_tensor){0}, error));
    if (t[ICL_RECURRENCE_BETA].buffer)
        ICL_CHECK(icl_random_fill(backend, &strength, t[ICL_RECURRENCE_BETA], error));
    if (t[ICL_RECURRENCE_DECAY].buffer)
        ICL_CHECK(icl_random_fill(backend, &decay, t[ICL_RECURRENCE_DECAY], error));
    return ICL_OK;
}

static icl_status fill_forward(const icl_case *c, icl_backend *backend, const icl_tensor *t, icl_error *error) {
    (void)c;
    return fill_inputs(backend, t + FORWARD, error);
}

/* Runs the forward pass, whose output goes to the place of v's gradient. */
static icl_status fill_backward(const icl_case *c, icl_backend *backend, const icl_tensor *t, icl_error *error) {
    const icl_recurrence_saved saved = {t[ICL_RECURRENCE_BACKWARD_READS], t[ICL_RECURRENCE_BACKWARD_STATES]};
    ICL_CHECK(fill_inputs(backend, t + BACKWARD, error));
    const icl_recurrence_inputs inputs = gather(t + BACKWARD);
    return icl_recurrence_forward(backend, &c->params.recurrence.params, t[ICL_RECURRENCE_V],
                                  t[ICL_RECURRENCE_BACKWARD_FINAL], &saved, &inputs, error);
}

/* Returns the operations. For each token and head, in units of m n: forward 4, one more with decay, two more with the
 * delta term; backward 10, one more with decay, two more with the delta term. */
static double flops(const icl_case *c) {
    const bool is_backward = c->op == ICL_OP_recurrence_backward;
    const size_t *out = c->shape[is_backward ? ICL_RECURRENCE_BACKWARD_D_OUT : ICL_RECURRENCE_OUT];
    const int first = is_backward ? BACKWARD : FORWARD;
    const double square = (double)c->shape[first + ICL_RECURRENCE_K][3] * (double)c->shape[first + ICL_RECURRENCE_V][3];
    const double units =
        (is_backward ? 10 : 4) + (c->rank[first + ICL_RECURRENCE_DECAY] >= 0) + 2 * c->params.recurrence.params.delta;
    return units * square * (double)out[0] * (double)out[1] * (double)out[2];
}

/* clang-format off */
#define AXES4(a, b, c, d)      {4, {a, b, c, d}}
#define HEADS(b, h, t, d)      AXES4(b, h, t, d)
#define GATED(b, h, t, d)      HEADS(b, h, t, d), HEADS(b, h, t, d), HEADS(b, h, t, d), HEADS(b, h, t, 1), \
                               HEADS(b, h, t, 1), ICL_ABSENT, ICL_ABSENT, ICL_ABSENT
#define SUMS(b, h, t, d)       HEADS(b, h, t, d), HEADS(b, h, t, d), HEADS(b, h, t, d), ICL_ABSENT, \
                               ICL_ABSENT, ICL_ABSENT, ICL_ABSENT, ICL_ABSENT
#define STATES(b, h, t, d)     HEADS(b, h, (t) / 32 * (d), d)
#define FORWARD_OF(inputs, b, h, t, d) \
    {HEADS(b, h, t, d), ICL_ABSENT, ICL_ABSENT, ICL_ABSENT, inputs(b, h, t, d)}
#define GATED_BACKWARD(b, h, t, d) \
    {GATED(b, h, t, d), HEADS(b, h, t, d), ICL_ABSENT, HEADS(b, h, d, d), HEADS(b, h, t, d), STATES(b, h, t, d), \
     GATED(b, h, t, d)}
#define SUM_BACKWARD(b, h, t, d) \
    {SUMS(b, h, t, d), HEADS(b, h, t, d), ICL_ABSENT, HEADS(b, h, d, d), ICL_ABSENT, STATES(b, h, t, d), \
     SUMS(b, h, t, d)}
#define DELTA {.recurrence = {.params = {true, 0.125}, .keys = ICL_KEYS_UNIT}}
#define SUM   {.recurrence = {.params = {false, 0.125}}}
#define ROWS  {.recurrence = {.params = {true, 0.125, true}, .keys = ICL_KEYS_UNIT}}
/* clang-format on */

static const icl_timed_shape forward_timed[] = {
    {"recurrence forward gated delta T 64 d 16 (32 x 4)", DELTA, FORWARD_OF(GATED, 32, 4, 64, 16)},
    {"recurrence forward gated delta T 256 d 32 (32 x 4)", DELTA, FORWARD_OF(GATED, 32, 4, 256, 32)},
    {"recurrence forward gated delta T 1024 d 64 (8 x 8)", DELTA, FORWARD_OF(GATED, 8, 8, 1024, 64), true},
    {"recurrence forward gated delta T 4096 d 64 (2 x 8)", DELTA, FORWARD_OF(GATED, 2, 8, 4096, 64), true},
    {"recurrence forward sum T 256 d 32 (32 x 4)", SUM, FORWARD_OF(SUMS, 32, 4, 256, 32), true},
    {"recurrence forward gated delta from rows T 256 d 32 (32 x 4)", ROWS, FORWARD_OF(GATED, 32, 4, 256, 32), true},
};
static const icl_timed_shape backward_timed[] = {
    {"recurrence backward gated delta T 64 d 16 (32 x 4)", DELTA, GATED_BACKWARD(32, 4, 64, 16)},
    {"recurrence backward gated delta T 256 d 32 (32 x 4)", DELTA, GATED_BACKWARD(32, 4, 256, 32)},
    {"recurrence backward gated delta T 1024 d 64 (8 x 8)", DELTA, GATED_BACKWARD(8, 8, 1024, 64), true},
    {"recurrence backward gated delta T 4096 d 64 (2 x 8)", DELTA, GATED_BACKWARD(2, 8, 4096, 64), true},
    {"recurrence backward sum T 256 d 32 (32 x 4)", SUM, SUM_BACKWARD(32, 4, 256, 32), true},
    {"recurrence backward gated delta from rows T 256 d 32 (32 x 4)", ROWS, GATED_BACKWARD(32, 4, 256, 32), true},
};

const icl_described_op icl_described_recurrence_forward =
    ICL_DESCRIBED(forward_timed, .call = call_forward, .truth = icl_truth_recurrence_forward, .cases = forward_cases,
                  .inputs = forward_inputs, .flops = flops, .fill = fill_forward);
const icl_described_op icl_described_recurrence_backward = ICL_DESCRIBED(
    backward_timed, .call = call_backward, .truth = icl_truth_recurrence_backward, .cases = backward_cases,
    .inputs = backward_inputs, .results = backward_results, .flops = flops, .fill = fill_backward);
