/* The public recurrences: validation, then dispatch. */
#include <string.h>

#include "backend/dispatch.h"
#include "iclab/ops_recurrence.h"
#include "iclab/status.h"

enum { Q = ICL_RECURRENCE_Q, K, V, BETA, DECAY, READ_KEY, WRITE_KEY, STATE, INPUTS };

static const char *const input_names[INPUTS] = {"q", "k", "v", "beta", "decay", "read_key", "write_key", "state"};
static const char *const gradient_names[INPUTS] = {"gradient of q",         "gradient of k",     "gradient of v",
                                                   "gradient of beta",      "gradient of decay", "gradient of read_key",
                                                   "gradient of write_key", "gradient of state"};

/* One call while it is checked. */
typedef struct call {
    icl_backend *backend;
    const char *op;
    bool delta;
    size_t shape[INPUTS][ICL_MAX_RANK]; /* of the inputs in full */
    size_t batch, heads, tokens, m, n;
} call;

static void list_inputs(const icl_recurrence_inputs *inputs, icl_tensor list[INPUTS]) {
    const icl_tensor all[INPUTS] = {inputs->q,     inputs->k,        inputs->v,         inputs->beta,
                                    inputs->decay, inputs->read_key, inputs->write_key, inputs->state};
    memcpy(list, all, sizeof all);
}

static void set_shape(size_t shape[ICL_MAX_RANK], size_t batch, size_t heads, size_t rows, size_t columns) {
    const size_t of[ICL_MAX_RANK] = {batch, heads, rows, columns};
    memcpy(shape, of, sizeof of);
}

/* The extents, from a tensor [B, H, T, n] and the last axis of q. */
static icl_status find_extents(call *x, const char *role, const icl_tensor *values, const icl_tensor *q,
                               const icl_tensor *decay, icl_error *error) {
    if (values->rank != 4)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has rank %d, expected 4: [batch, heads, tokens, values]", x->op,
                        role, values->rank);
    if (q->rank < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: q is a scalar, expected [batch, heads, tokens, keys]", x->op);
    x->batch = values->shape[0];
    x->heads = values->shape[1];
    x->tokens = values->shape[2];
    x->n = values->shape[3];
    x->m = q->shape[q->rank - 1];
    for (int i = 0; i < INPUTS; i++)
        set_shape(x->shape[i], x->batch, x->heads, x->tokens, x->m);
    x->shape[V][3] = x->n;
    x->shape[BETA][3] = 1;
    if (decay->buffer && decay->rank > 0 && decay->shape[decay->rank - 1] == 1)
        x->shape[DECAY][3] = 1;
    set_shape(x->shape[STATE], x->batch, x->heads, x->m, x->n);
    return ICL_OK;
}

/* Checks the inputs, and views those that are present with their full shapes. */
static icl_status check_inputs(const call *x, icl_tensor inputs[INPUTS], icl_error *error) {
    for (int i = 0; i < INPUTS; i++) {
        if (i > V && !inputs[i].buffer)
            continue;
        if (!x->delta && (i == READ_KEY || i == WRITE_KEY))
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s belongs to the delta term, which is off", x->op,
                            input_names[i]);
        ICL_CHECK(icl_check_input(x->backend, x->op, input_names[i], &inputs[i], error));
        ICL_CHECK(icl_broadcast_to(x->op, input_names[i], 4, x->shape[i], &inputs[i], error));
    }
    return ICL_OK;
}

/* reads and states, as outputs of the forward pass or as inputs of the backward pass. */
static icl_status check_saved(const call *x, const icl_tensor *reads, const icl_tensor *states, bool are_outputs,
                              icl_error *error) {
    const size_t segments = x->tokens / ICL_RECURRENCE_SEGMENT + (x->tokens % ICL_RECURRENCE_SEGMENT != 0);
    const size_t states_shape[] = {x->batch, x->heads, segments * x->m, x->n};

    if (!x->delta && reads->buffer)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: reads belong to the delta term, which is off", x->op);
    for (int i = x->delta ? 0 : 1; i < 2; i++) {
        const char *role = i ? "states" : "reads";
        const icl_tensor *tensor = i ? states : reads;
        if (are_outputs)
            ICL_CHECK(icl_check_output(x->backend, x->op, role, tensor, error));
        else
            ICL_CHECK(icl_check_input(x->backend, x->op, role, tensor, error));
        ICL_CHECK(icl_check_shape(x->op, role, tensor, 4, i ? states_shape : x->shape[V], error));
    }
    return ICL_OK;
}

/* No output overlaps another operand. */
static icl_status check_overlaps(const call *x, const icl_tensor *operands, int outputs, int count, icl_error *error) {
    for (int i = 1; i < count; i++)
        for (int j = 0; j < outputs && j < i; j++)
            if (operands[i].buffer && operands[j].buffer)
                ICL_CHECK(icl_check_overlap(x->op, &operands[j], &operands[i], false, error));
    return ICL_OK;
}

static bool is_empty(const call *x) {
    return x->batch == 0 || x->heads == 0 || x->tokens == 0 || x->m == 0 || x->n == 0;
}

/* to = from, or 0 where there is none; to may be absent. */
static icl_status pass_on(icl_backend *backend, icl_tensor to, icl_tensor from, icl_error *error) {
    if (!to.buffer)
        return ICL_OK;
    return from.buffer ? icl_copy(backend, to, from, error) : icl_fill(backend, to, 0, error);
}

icl_status icl_recurrence_forward(icl_backend *backend, const icl_recurrence_params *params, icl_tensor out,
                                  icl_tensor final, const icl_recurrence_saved *saved,
                                  const icl_recurrence_inputs *inputs, icl_error *error) {
    call x = {.backend = backend, .op = "recurrence_forward", .delta = params->delta};
    icl_tensor operands[ICL_RECURRENCE_FORWARD_INPUTS + INPUTS] = {out, final};
    icl_tensor *const in = operands + ICL_RECURRENCE_FORWARD_INPUTS;

    if (saved) {
        operands[ICL_RECURRENCE_READS] = saved->reads;
        operands[ICL_RECURRENCE_STATES] = saved->states;
    }
    list_inputs(inputs, in);
    ICL_CHECK(icl_check_output(backend, x.op, "out", &out, error));
    ICL_CHECK(find_extents(&x, "out", &out, &in[Q], &in[DECAY], error));
    ICL_CHECK(check_inputs(&x, in, error));
    if (final.buffer) {
        ICL_CHECK(icl_check_output(backend, x.op, "final", &final, error));
        ICL_CHECK(icl_check_shape(x.op, "final", &final, 4, x.shape[STATE], error));
    }
    if (saved)
        ICL_CHECK(check_saved(&x, &saved->reads, &saved->states, true, error));
    ICL_CHECK(
        check_overlaps(&x, operands, ICL_RECURRENCE_FORWARD_INPUTS, ICL_RECURRENCE_FORWARD_INPUTS + INPUTS, error));
    if (!is_empty(&x))
        return icl_dispatch(backend, ICL_OP_recurrence_forward, params, operands, error);
    ICL_CHECK(pass_on(backend, out, (icl_tensor){0}, error));
    ICL_CHECK(pass_on(backend, operands[ICL_RECURRENCE_READS], (icl_tensor){0}, error));
    return pass_on(backend, final, in[STATE], error);
}

/* d_out, d_final and final: everything that flows in beside saved and inputs. */
static icl_status check_flows(const call *x, const icl_tensor flows[3], icl_error *error) {
    static const char *const names[3] = {"d_out", "d_final", "final"};

    for (int i = 0; i < 3; i++) {
        if (i == 1 && !flows[i].buffer)
            continue;
        ICL_CHECK(icl_check_input(x->backend, x->op, names[i], &flows[i], error));
        ICL_CHECK(icl_check_shape(x->op, names[i], &flows[i], 4, x->shape[i ? STATE : V], error));
    }
    return ICL_OK;
}

static icl_status check_gradients(const call *x, const icl_tensor gradients[INPUTS], const icl_tensor inputs[INPUTS],
                                  icl_error *error) {
    for (int i = 0; i < INPUTS; i++) {
        if (!gradients[i].buffer)
            continue;
        if (!inputs[i].buffer)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s is wanted, but there is no %s", x->op, gradient_names[i],
                            input_names[i]);
        ICL_CHECK(icl_check_output(x->backend, x->op, gradient_names[i], &gradients[i], error));
        ICL_CHECK(icl_check_shape(x->op, gradient_names[i], &gradients[i], 4, x->shape[i], error));
    }
    return ICL_OK;
}

icl_status icl_recurrence_backward(icl_backend *backend, const icl_recurrence_params *params,
                                   const icl_recurrence_inputs *gradients, icl_tensor d_out, icl_tensor d_final,
                                   icl_tensor final, const icl_recurrence_saved *saved,
                                   const icl_recurrence_inputs *inputs, icl_error *error) {
    call x = {.backend = backend, .op = "recurrence_backward", .delta = params->delta};
    icl_tensor operands[ICL_RECURRENCE_BACKWARD_INPUTS + INPUTS] = {{0}};
    icl_tensor *const in = operands + ICL_RECURRENCE_BACKWARD_INPUTS, *const flows = operands + INPUTS;
    bool is_wanted = false;

    list_inputs(gradients, operands);
    flows[0] = d_out;
    flows[1] = d_final;
    flows[2] = final;
    flows[3] = saved->reads;
    flows[4] = saved->states;
    list_inputs(inputs, in);
    ICL_CHECK(icl_check_input(backend, x.op, "d_out", &d_out, error));
    ICL_CHECK(find_extents(&x, "d_out", &d_out, &in[Q], &in[DECAY], error));
    ICL_CHECK(check_inputs(&x, in, error));
    ICL_CHECK(check_flows(&x, flows, error));
    ICL_CHECK(check_saved(&x, &saved->reads, &saved->states, false, error));
    ICL_CHECK(check_gradients(&x, operands, in, error));
    ICL_CHECK(check_overlaps(&x, operands, INPUTS, ICL_RECURRENCE_BACKWARD_INPUTS + INPUTS, error));
    for (int i = 0; i < INPUTS; i++)
        is_wanted = is_wanted || operands[i].buffer;
    if (is_wanted && !is_empty(&x))
        return icl_dispatch(backend, ICL_OP_recurrence_backward, params, operands, error);
    for (int i = 0; i < STATE; i++)
        ICL_CHECK(pass_on(backend, operands[i], (icl_tensor){0}, error));
    return pass_on(backend, operands[STATE], d_final, error);
}
