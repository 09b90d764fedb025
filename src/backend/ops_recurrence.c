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

/* Sets the extents that follow from others: rows of saved states, and gates, of which a token has one, or one for each
 * channel. */
static icl_status set_extents(icl_call *call, const char *role, const icl_tensor *values, const icl_tensor *inputs,
                              icl_error *error) {
    const char *op = icl_op_infos[call->op].name;
    const icl_tensor *q = &inputs[ICL_RECURRENCE_Q], *decay = &inputs[ICL_RECURRENCE_DECAY];

    if (values->rank != 4)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has rank %d, expected 4: [batch, heads, tokens, values]", op,
                        role, values->rank);
    if (q->rank < 1 || q->rank > ICL_MAX_RANK)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: q has rank %d, expected 1 to 4: [batch, heads, tokens, keys]", op,
                        q->rank);
    const size_t tokens = values->shape[2], m = q->shape[q->rank - 1];
    const size_t segments = tokens / ICL_RECURRENCE_SEGMENT + (tokens % ICL_RECURRENCE_SEGMENT != 0);
    const bool has_axis = decay->buffer && decay->rank > 0 && decay->rank <= ICL_MAX_RANK;
    const bool is_single = has_axis && decay->shape[decay->rank - 1] == 1;
    icl_call_set(call, 'm', m);
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
    return run(&call, &d_out, operands[STATE], d_final, error);
}
