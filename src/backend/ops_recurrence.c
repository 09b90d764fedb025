/* The public recurrences: iclab/ops_recurrence.h. */
#include <string.h>

#include "backend/call.h"
#include "backend/recurrence.h"
#include "iclab/status.h"

enum { INPUTS = ICL_RECURRENCE_INPUTS, STATE = ICL_RECURRENCE_STATE };

static void list_inputs(const icl_recurrence_inputs *inputs, icl_tensor list[INPUTS]) {
    const icl_tensor all[INPUTS] = {inputs->q,     inputs->k,        inputs->v,         inputs->beta,
                                    inputs->decay, inputs->read_key, inputs->write_key, inputs->state};
    memcpy(list, all, sizeof all);
}

/* Sets the extents that follow from others: the state's, rows of saved states, and gates, of which a token has one, or
 * one for each channel. `out`: the outputs or their gradient. */
static icl_status set_extents(icl_call *call, const char *role, const icl_tensor *out, const icl_tensor *inputs,
                              icl_error *error) {
    const bool from_rows = ((const icl_recurrence_params *)call->params)->from_rows;
    const char *op = icl_op_infos[call->op].name;
    const icl_tensor *q = &inputs[ICL_RECURRENCE_Q], *decay = &inputs[ICL_RECURRENCE_DECAY];

    if (out->rank != 4)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has rank %d, expected 4: [batch, heads, tokens, %s]", op, role,
                        out->rank, from_rows ? "keys" : "values");
    if (q->rank < 1 || q->rank > ICL_MAX_RANK)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: q has rank %d, expected 1 to 4: [batch, heads, tokens, %s]", op,
                        q->rank, from_rows ? "values" : "keys");
    const size_t tokens = out->shape[2], written = out->shape[3], asked = q->shape[q->rank - 1];
    const size_t m = from_rows ? written : asked, n = from_rows ? asked : written;
    const size_t segments = tokens / ICL_RECURRENCE_SEGMENT + (tokens % ICL_RECURRENCE_SEGMENT != 0);
    const bool has_axis = decay->buffer && decay->rank > 0 && decay->rank <= ICL_MAX_RANK;
    const bool is_single = has_axis && decay->shape[decay->rank - 1] == 1;
    icl_call_set(call, 'm', m);
    icl_call_set(call, 'n', n);
    icl_call_set(call, 'o', written);
    icl_call_set(call, 'q', asked);
    icl_call_set(call, 'S', segments * m);
    icl_call_set(call, 'E', is_single ? 1 : m);
    return ICL_OK;
}

/* Refuses operands of the delta term if it is off. operands[reads] is reads, and the inputs begin at
 * operands[inputs]. */
static icl_status check_delta(const icl_call *call, int reads, int inputs, icl_error *error) {
    const icl_recurrence_params *params = call->params;
    const int places[] = {inputs + ICL_RECURRENCE_READ_KEY, inputs + ICL_RECURRENCE_WRITE_KEY, reads};
    const icl_op_info *info = &icl_op_infos[call->op];

    for (int i = 0; !params->delta && i < 3; i++)
        if (call->operands[places[i]].buffer)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: %s belongs to the delta term, which is off", info->name,
                            info->operands[places[i]].name);
    return ICL_OK;
}

/* Runs the call. If there is no token or no channel, the state passes unchanged: `target` becomes a copy of `source`,
 * if both are given. */
static icl_status run(icl_call *call, const icl_tensor *values, icl_tensor target, icl_tensor source,
                      icl_error *error) {
    ICL_CHECK(icl_call_op(call, error));
    const bool is_void = icl_tensor_count(values) == 0;
    return is_void && target.buffer && source.buffer ? icl_copy(call->backend, target, source, error) : ICL_OK;
}

/* ---- The other side ---- */

/* Returns the params of the usual side. */
static icl_recurrence_params usual_side(const icl_recurrence_params *params) {
    return (icl_recurrence_params){.delta = params->delta, .scale = params->scale};
}

/* Creates what the forward pass keeps, where the caller does not want it: memory[i] stays empty if it does. */
static icl_status create_kept(icl_backend *backend, bool delta, const icl_tensor *v, const icl_tensor *k,
                              icl_tensor memory[2], icl_tensor *const kept[2], icl_error *error) {
    const size_t batch = v->shape[0], heads = v->shape[1], tokens = v->shape[2], m = k->shape[3], n = v->shape[3];
    const size_t segments = tokens / ICL_RECURRENCE_SEGMENT + (tokens % ICL_RECURRENCE_SEGMENT != 0);
    const size_t rows[2] = {tokens, segments * m};

    for (int i = delta ? 0 : 1; i < 2; i++) {
        if (kept[i]->buffer)
            continue;
        ICL_CHECK(icl_tensor_create(backend, 4, (const size_t[]){batch, heads, rows[i], n}, &memory[i], error));
        *kept[i] = memory[i];
    }
    return ICL_OK;
}

/* Runs the usual forward pass for its states and reads, with k as a query whose outputs are of no use, and then the
 * backend's pass over rows, which needs them. */
static icl_status forward_from_rows(icl_call *call, icl_error *error) {
    const icl_recurrence_params params = usual_side(call->params);
    icl_tensor *const operands = call->operands, *const in = operands + ICL_RECURRENCE_FORWARD_INPUTS;
    const icl_tensor *v = &in[ICL_RECURRENCE_V], *k = &in[ICL_RECURRENCE_K];
    icl_recurrence_saved saved = {operands[ICL_RECURRENCE_READS], operands[ICL_RECURRENCE_STATES]};
    icl_tensor unused = {0}, memory[2] = {{0}};
    icl_recurrence_inputs inputs = icl_recurrence_named(in);
    icl_status status = ICL_OK;

    inputs.q = *k;
    ICL_TRY(create_kept(call->backend, params.delta, v, k, memory, (icl_tensor *const[]){&saved.reads, &saved.states},
                        error));
    ICL_TRY(icl_tensor_create(call->backend, 4, v->shape, &unused, error));
    ICL_TRY(
        icl_recurrence_forward(call->backend, &params, unused, operands[ICL_RECURRENCE_FINAL], &saved, &inputs, error));
    operands[ICL_RECURRENCE_READS] = saved.reads;
    operands[ICL_RECURRENCE_STATES] = saved.states;
    operands[ICL_RECURRENCE_FINAL] = (icl_tensor){0}; /* it is written */
    ICL_TRY(icl_call_run(call, error));
done:
    icl_tensor_release(&unused);
    for (int i = 0; i < 2; i++)
        icl_tensor_release(&memory[i]);
    return status;
}

/* Computes gradients by the duality in ops_recurrence.h: that of q is the outputs of a usual forward pass that d_out
 * queries, and the others are those of a usual backward pass in which d_out and q change places. */
static icl_status backward_from_rows(icl_call *call, icl_error *error) {
    const icl_recurrence_params params = usual_side(call->params);
    const icl_tensor *operands = call->operands, *in = operands + ICL_RECURRENCE_BACKWARD_INPUTS;
    const icl_tensor d_out = operands[ICL_RECURRENCE_BACKWARD_D_OUT], q = in[ICL_RECURRENCE_Q];
    const icl_recurrence_saved saved = {operands[ICL_RECURRENCE_BACKWARD_READS],
                                        operands[ICL_RECURRENCE_BACKWARD_STATES]};
    icl_recurrence_inputs gradients = icl_recurrence_named(operands), inputs = icl_recurrence_named(in);

    inputs.q = d_out;
    gradients.q = (icl_tensor){0};
    if (operands[ICL_RECURRENCE_Q].buffer)
        ICL_CHECK(icl_recurrence_forward(call->backend, &params, operands[ICL_RECURRENCE_Q], (icl_tensor){0}, NULL,
                                         &inputs, error));
    return icl_recurrence_backward(call->backend, &params, &gradients, q, operands[ICL_RECURRENCE_BACKWARD_D_FINAL],
                                   operands[ICL_RECURRENCE_BACKWARD_FINAL], &saved, &inputs, error);
}

/* ---- The ops ---- */

icl_status icl_recurrence_forward(icl_backend *backend, const icl_recurrence_params *params, icl_tensor out,
                                  icl_tensor final, const icl_recurrence_saved *saved,
                                  const icl_recurrence_inputs *inputs, icl_error *error) {
    icl_tensor operands[ICL_RECURRENCE_FORWARD_INPUTS + INPUTS] = {out, final};
    icl_tensor *const in = operands + ICL_RECURRENCE_FORWARD_INPUTS;
    icl_call call = {.backend = backend, .op = ICL_OP_recurrence_forward, .params = params, .operands = operands};

    if (saved) {
        operands[ICL_RECURRENCE_READS] = saved->reads;
        operands[ICL_RECURRENCE_STATES] = saved->states;
        call.required = (unsigned)params->delta << ICL_RECURRENCE_READS | 1U << ICL_RECURRENCE_STATES;
    }
    list_inputs(inputs, in);
    ICL_CHECK(check_delta(&call, ICL_RECURRENCE_READS, ICL_RECURRENCE_FORWARD_INPUTS, error));
    ICL_CHECK(set_extents(&call, "out", &out, in, error));
    if (params->from_rows) {
        ICL_CHECK(icl_call_validate(&call, error));
        return forward_from_rows(&call, error);
    }
    return run(&call, &out, final, in[STATE], error);
}

icl_status icl_recurrence_backward(icl_backend *backend, const icl_recurrence_params *params,
                                   const icl_recurrence_inputs *gradients, icl_tensor d_out, icl_tensor d_final,
                                   icl_tensor final, const icl_recurrence_saved *saved,
                                   const icl_recurrence_inputs *inputs, icl_error *error) {
    icl_tensor operands[ICL_RECURRENCE_BACKWARD_INPUTS + INPUTS] = {{0}};
    icl_tensor *const in = operands + ICL_RECURRENCE_BACKWARD_INPUTS;
    icl_call call = {.backend = backend,
                     .op = ICL_OP_recurrence_backward,
                     .params = params,
                     .operands = operands,
                     .required = (unsigned)params->delta << ICL_RECURRENCE_BACKWARD_READS};

    list_inputs(gradients, operands);
    operands[ICL_RECURRENCE_BACKWARD_D_OUT] = d_out;
    operands[ICL_RECURRENCE_BACKWARD_D_FINAL] = d_final;
    operands[ICL_RECURRENCE_BACKWARD_FINAL] = final;
    operands[ICL_RECURRENCE_BACKWARD_READS] = saved->reads;
    operands[ICL_RECURRENCE_BACKWARD_STATES] = saved->states;
    list_inputs(inputs, in);
    for (int i = ICL_RECURRENCE_BETA; i < INPUTS; i++)
        if (operands[i].buffer && !in[i].buffer)
            return icl_fail(error, ICL_ERROR_INPUT, "recurrence_backward: %s is wanted, but there is no %s",
                            icl_op_infos[call.op].operands[i].name,
                            icl_op_infos[call.op].operands[ICL_RECURRENCE_BACKWARD_INPUTS + i].name);
    ICL_CHECK(check_delta(&call, ICL_RECURRENCE_BACKWARD_READS, ICL_RECURRENCE_BACKWARD_INPUTS, error));
    ICL_CHECK(set_extents(&call, "d_out", &d_out, in, error));
    if (params->from_rows) {
        ICL_CHECK(icl_call_validate(&call, error));
        return backward_from_rows(&call, error);
    }
    return run(&call, &d_out, operands[STATE], d_final, error);
}
