/* Refusals of the calls of recurrences, each at its boundary, and shapes without elements. The numbers that they
 * compute are checked by the conformance cases and the other tests of recurrences. Argument: a device. */
#include <math.h>
#include <string.h>

#include "iclab/iclab.h"
#include "tap.h"

enum { B = 2, H = 3, T = 33, M = 4, N = 5, SEGMENTS = 2 };

/* Operands of a call of either pass, all present and right. */
typedef struct operands {
    icl_backend *backend;
    icl_recurrence_params params;
    icl_tensor out, final;
    icl_recurrence_saved saved;
    icl_recurrence_inputs in, d;
    icl_tensor d_out, d_final;
} operands;

static void make(tap_run *tap, operands *given, icl_tensor *to, size_t rows, size_t columns) {
    icl_error error = {0};
    if (icl_tensor_create(given->backend, 4, (size_t[]){B, H, rows, columns}, to, &error) != ICL_OK ||
        icl_fill(given->backend, *to, 0.1, &error) != ICL_OK)
        tap_ok(tap, false, "an operand: %s", error.message);
}

static void make_inputs(tap_run *tap, operands *given, icl_recurrence_inputs *to) {
    make(tap, given, &to->q, T, M);
    make(tap, given, &to->k, T, M);
    make(tap, given, &to->v, T, N);
    make(tap, given, &to->beta, T, 1);
    make(tap, given, &to->decay, T, M);
    make(tap, given, &to->read_key, T, M);
    make(tap, given, &to->write_key, T, M);
    make(tap, given, &to->state, M, N);
}

static void release_inputs(icl_recurrence_inputs *inputs) {
    icl_tensor *const all[] = {&inputs->q,     &inputs->k,        &inputs->v,         &inputs->beta,
                               &inputs->decay, &inputs->read_key, &inputs->write_key, &inputs->state};
    for (size_t i = 0; i < 8; i++)
        icl_tensor_release(all[i]);
}

static operands make_operands(tap_run *tap, icl_backend *backend) {
    operands x = {.backend = backend, .params = {.delta = true, .scale = 1}};
    make(tap, &x, &x.out, T, N);
    make(tap, &x, &x.final, M, N);
    make(tap, &x, &x.saved.reads, T, N);
    make(tap, &x, &x.saved.states, SEGMENTS * M, N);
    make(tap, &x, &x.d_out, T, N);
    make(tap, &x, &x.d_final, M, N);
    make_inputs(tap, &x, &x.in);
    make_inputs(tap, &x, &x.d);
    return x;
}

static void release_operands(operands *given) {
    icl_tensor *const all[] = {&given->out,          &given->final, &given->saved.reads,
                               &given->saved.states, &given->d_out, &given->d_final};
    for (size_t i = 0; i < 6; i++)
        icl_tensor_release(all[i]);
    release_inputs(&given->in);
    release_inputs(&given->d);
}

static icl_status call(const operands *given, bool is_backward, icl_error *error) {
    if (is_backward)
        return icl_recurrence_backward(given->backend, &given->params, &given->d, given->d_out, given->d_final,
                                       given->final, &given->saved, &given->in, error);
    return icl_recurrence_forward(given->backend, &given->params, given->out, given->final, &given->saved, &given->in,
                                  error);
}

/* Checks that both passes, or the one that has the operand, refuse with these words; `passes`: 1 forward, 2
 * backward. */
static void refused(tap_run *tap, const operands *given, int passes, const char *words) {
    for (int pass = 0; pass < 2; pass++) {
        icl_error error = {0};
        if (!(passes >> pass & 1))
            continue;
        const icl_status status = call(given, pass, &error);
        tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, words), "%s", error.message);
    }
}

static void accepted(tap_run *tap, const operands *given, int passes, const char *what) {
    for (int pass = 0; pass < 2; pass++) {
        icl_error error = {0};
        if (passes >> pass & 1)
            tap_status(tap, call(given, pass, &error), &error, what);
    }
}

enum { FORWARD = 1, BACKWARD = 2, BOTH = 3 };

static void check_inputs(tap_run *tap, const operands *right) {
    operands x = *right;

    accepted(tap, &x, BOTH, "every operand is there");
    x.in.decay = icl_tensor_slice(right->in.decay, 3, 0, 2);
    refused(tap, &x, BOTH, "decay [2, 3, 33, 2] does not broadcast to [2, 3, 33, 4]");
    x = *right;
    x.in.q = (icl_tensor){0};
    refused(tap, &x, BOTH, "q has rank 0");
    x = *right;
    x.in.v = (icl_tensor){0};
    refused(tap, &x, BOTH, "v is no tensor");
}

static void check_delta(tap_run *tap, const operands *right) {
    operands x = *right;

    x.params.delta = false;
    refused(tap, &x, BOTH, "read_key belongs to the delta term, which is off");
    x.in.read_key = x.d.read_key = (icl_tensor){0};
    refused(tap, &x, BOTH, "write_key belongs to the delta term");
    x.in.write_key = x.d.write_key = (icl_tensor){0};
    refused(tap, &x, BOTH, "reads belongs to the delta term");
    x.saved.reads = (icl_tensor){0};
    accepted(tap, &x, BOTH, "the sum rule with all that it takes");
    x = *right;
    x.saved.reads = (icl_tensor){0};
    refused(tap, &x, BOTH, "reads is no tensor");
    x = *right;
    x.saved.states = icl_tensor_slice(right->saved.states, 2, 0, SEGMENTS * M - 1);
    refused(tap, &x, BOTH, "states has shape [2, 3, 7, 5], expected [2, 3, 8, 5]");
}

static void check_outputs(tap_run *tap, const operands *right) {
    operands x = *right;

    x.out.rank = 3;
    refused(tap, &x, FORWARD, "out has rank 3, expected 4");
    x = *right;
    x.in.beta = (icl_tensor){0};
    refused(tap, &x, BACKWARD, "gradient of beta is wanted, but there is no beta");
    x = *right;
    x.in.state = (icl_tensor){0};
    refused(tap, &x, BACKWARD, "gradient of state is wanted, but there is no state");
    x = *right;
    x.final = (icl_tensor){0};
    accepted(tap, &x, FORWARD, "nobody wants the final state");
    refused(tap, &x, BACKWARD, "final is no tensor");
}

/* Tests one decay for each head, keys shared by all heads, and inputs with one row for all tokens. */
static void check_broadcasts(tap_run *tap, const operands *right) {
    operands x = *right;

    x.in.decay = icl_tensor_reshape(
        icl_tensor_slice(icl_tensor_slice(icl_tensor_slice(right->in.decay, 0, 0, 1), 1, 0, 1), 2, 0, 1), 1,
        (size_t[]){M});
    x.in.k = icl_tensor_slice(right->in.k, 1, 0, 1);
    x.in.v = icl_tensor_slice(right->in.v, 2, 0, 1);
    accepted(tap, &x, BOTH, "inputs broadcast");
    x.d_final = x.in.state = x.d.state = (icl_tensor){0};
    accepted(tap, &x, BOTH, "what is optional is absent");
}

static bool holds(icl_tensor tensor, double value) {
    double values[B * H * T * N];
    bool all = icl_tensor_read_double(tensor, values, NULL) == ICL_OK;
    for (size_t i = 0; i < icl_tensor_count(&tensor); i++)
        all = all && fabs(values[i] - value) < 1e-6;
    return all;
}

/* Without tokens the state stays. Without channels nothing is ever stored. */
static void check_empty(tap_run *tap, const operands *right) {
    operands x = *right;
    icl_error error = {0};

    x.in.q = icl_tensor_slice(right->in.q, 2, 0, 0);
    x.in.k = icl_tensor_slice(right->in.k, 2, 0, 0);
    x.in.v = icl_tensor_slice(right->in.v, 2, 0, 0);
    x.out = icl_tensor_slice(right->out, 2, 0, 0);
    x.in.beta = x.in.decay = x.in.read_key = x.in.write_key = (icl_tensor){0};
    icl_fill(x.backend, right->final, 7, &error);
    tap_ok(tap,
           icl_recurrence_forward(x.backend, &x.params, x.out, x.final, NULL, &x.in, &error) == ICL_OK &&
               holds(right->final, 0.1),
           "without tokens the final state is the initial one");
    x = *right;
    x.in.q = icl_tensor_slice(right->in.q, 3, 0, 0);
    x.in.k = icl_tensor_slice(right->in.k, 3, 0, 0);
    x.in.decay = x.in.read_key = x.in.write_key = x.in.state = (icl_tensor){0};
    icl_fill(x.backend, right->out, 7, &error);
    tap_ok(tap,
           icl_recurrence_forward(x.backend, &x.params, x.out, (icl_tensor){0}, NULL, &x.in, &error) == ICL_OK &&
               holds(right->out, 0),
           "without channels outputs are 0");
}

/* Checks shapes from the other side: q has a number for each value, out one for each key; without values out is 0. */
static void check_other_side(tap_run *tap, const operands *right) {
    icl_tensor queries = {0}, outputs = {0}, d_queries = {0}, d_outputs = {0};
    icl_tensor *const all[] = {&queries, &outputs, &d_queries, &d_outputs};
    operands x = *right;
    icl_error error = {0};

    make(tap, &x, &queries, T, N);
    make(tap, &x, &outputs, T, M);
    make(tap, &x, &d_queries, T, N);
    make(tap, &x, &d_outputs, T, M);
    x.params.from_rows = true;
    x.in.q = queries;
    x.out = outputs;
    x.d.q = d_queries;
    x.d_out = d_outputs;
    const operands whole = x;
    accepted(tap, &x, BOTH, "every operand of the other side is there");
    x.in.q = right->in.q;
    refused(tap, &x, FORWARD, "final has shape [2, 3, 4, 5], expected [2, 3, 4, 4]");
    x.in.q.rank = 0;
    refused(tap, &x, BOTH, "q has rank 0, expected 1 to 4: [batch, heads, tokens, values]");
    x = whole;
    x.d_out = right->d_out;
    refused(tap, &x, BACKWARD, "d_final has shape [2, 3, 4, 5], expected [2, 3, 5, 5]");
    x = whole;
    x.out.rank = 3;
    refused(tap, &x, FORWARD, "out has rank 3, expected 4: [batch, heads, tokens, keys]");
    x = whole;
    x.d.q = x.d.state = x.in.state = x.d_final = (icl_tensor){0};
    x.in.q = icl_tensor_slice(queries, 1, 0, 1);
    accepted(tap, &x, BOTH, "queries of the other side broadcast, and what is optional is absent");
    x = whole;
    x.in.q = icl_tensor_slice(queries, 3, 0, 0);
    x.in.v = icl_tensor_slice(right->in.v, 3, 0, 0);
    x.in.state = (icl_tensor){0};
    tap_ok(tap,
           icl_recurrence_forward(x.backend, &x.params, x.out, (icl_tensor){0}, NULL, &x.in, &error) == ICL_OK &&
               holds(outputs, 0),
           "without values outputs of the other side are 0");
    for (size_t i = 0; i < 4; i++)
        icl_tensor_release(all[i]);
}

static void cut_inputs(icl_recurrence_inputs *inputs, size_t tokens) {
    icl_tensor *const rows[] = {&inputs->q,     &inputs->k,        &inputs->v,        &inputs->beta,
                                &inputs->decay, &inputs->read_key, &inputs->write_key};
    for (size_t i = 0; i < 7; i++)
        *rows[i] = icl_tensor_slice(*rows[i], 2, 0, tokens);
}

/* Returns the operands of the first tokens only, at most a segment of them. */
static operands first_tokens(const operands *right, size_t tokens) {
    operands x = *right;
    icl_tensor *const rows[] = {&x.out, &x.saved.reads, &x.d_out};

    for (size_t i = 0; i < 3; i++)
        *rows[i] = icl_tensor_slice(*rows[i], 2, 0, tokens);
    cut_inputs(&x.in, tokens);
    cut_inputs(&x.d, tokens);
    x.saved.states = icl_tensor_slice(x.saved.states, 2, 0, M);
    return x;
}

static bool is_finite(icl_tensor tensor) {
    double values[B * H * T * N];
    bool all = icl_tensor_read_double(tensor, values, NULL) == ICL_OK;
    for (size_t i = 0; i < icl_tensor_count(&tensor); i++)
        all = all && isfinite(values[i]);
    return all;
}

/* The results of a call do not depend on what an earlier call stored, for more tokens or from other numbers. */
static void check_leftovers(tap_run *tap, const operands *right) {
    for (size_t tokens = 1; tokens <= 4; tokens++) {
        const operands more = first_tokens(right, tokens + 1), x = first_tokens(right, tokens);
        icl_error error = {0};
        icl_fill(x.backend, right->in.v, (double)INFINITY, &error);
        icl_fill(x.backend, right->d_out, (double)NAN, &error);
        accepted(tap, &more, BOTH, "operands that are no numbers");
        icl_fill(x.backend, right->in.v, 0.1, &error);
        icl_fill(x.backend, right->d_out, 0.1, &error);
        accepted(tap, &x, BOTH, "a token less, and numbers");
        tap_ok(tap,
               is_finite(x.out) && is_finite(x.d.q) && is_finite(x.d.k) && is_finite(x.d.v) && is_finite(x.d.beta) &&
                   is_finite(x.d.decay) && is_finite(x.d.read_key) && is_finite(x.d.write_key) && is_finite(x.d.state),
               "%zu tokens: every result is a number", tokens);
    }
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (!backend)
        return tap_done(&tap);
    operands x = make_operands(&tap, backend);
    check_inputs(&tap, &x);
    check_delta(&tap, &x);
    check_outputs(&tap, &x);
    check_broadcasts(&tap, &x);
    check_other_side(&tap, &x);
    check_empty(&tap, &x);
    check_leftovers(&tap, &x);
    release_operands(&x);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
