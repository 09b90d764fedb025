/* The public ops of sequence models: iclab/ops_sequence.h and iclab/ops_recurrence.h. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "backend/call.h"
#include "backend/op_families.h"
#include "iclab/ops_sequence.h"
#include "iclab/status.h"

/* ---- Normalization ---- */

const char *icl_norm_name(icl_norm_kind kind) {
    static const char *const names[ICL_NORM_COUNT] = {"layer", "rms", "unit"};
    return (unsigned)kind < ICL_NORM_COUNT ? names[kind] : "unknown";
}

static icl_status call_norm(icl_backend *backend, icl_op op, const icl_normalize_params *params, icl_tensor *operands,
                            icl_error *error) {
    const char *name = icl_op_infos[op].name;
    icl_call call = {.backend = backend, .op = op, .params = params, .operands = operands};

    if ((unsigned)params->kind >= ICL_NORM_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown kind %d", name, (int)params->kind);
    if (!(params->epsilon >= 0))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: epsilon %g, expected 0 or a number above", name, params->epsilon);
    return icl_call_op(&call, error);
}

icl_status icl_normalize(icl_backend *backend, const icl_normalize_params *params, icl_tensor out, icl_tensor in,
                         icl_tensor gain, icl_tensor shift, icl_error *error) {
    icl_tensor operands[] = {out, in, gain, shift};
    return call_norm(backend, ICL_OP_normalize, params, operands, error);
}

icl_status icl_normalize_backward(icl_backend *backend, const icl_normalize_params *params, icl_tensor d_in,
                                  icl_tensor d_gain, icl_tensor d_shift, icl_tensor d_out, icl_tensor in,
                                  icl_tensor gain, icl_error *error) {
    icl_tensor operands[] = {d_in, d_gain, d_shift, d_out, in, gain};
    return call_norm(backend, ICL_OP_normalize_backward, params, operands, error);
}

/* ---- Rows by number ---- */

static icl_status check_table(const char *op, const char *role, const icl_tensor *table, icl_error *error) {
    if (table->rank == 2 && table->shape[0] > ICL_MOST_SYMBOLS)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has %zu rows, expected at most 2^24 = %zu", op, role,
                        table->shape[0], ICL_MOST_SYMBOLS);
    return ICL_OK;
}

icl_status icl_look_up(icl_backend *backend, icl_tensor out, icl_tensor table, icl_tensor symbols, icl_error *error) {
    icl_tensor operands[] = {out, table, symbols};
    icl_call call = {.backend = backend, .op = ICL_OP_look_up, .operands = operands};

    ICL_CHECK(check_table("look_up", "table", &table, error));
    return icl_call_op(&call, error);
}

icl_status icl_look_up_backward(icl_backend *backend, icl_tensor d_table, icl_tensor d_out, icl_tensor symbols,
                                icl_error *error) {
    icl_tensor operands[] = {d_table, d_out, symbols};
    icl_call call = {.backend = backend, .op = ICL_OP_look_up_backward, .operands = operands};

    ICL_CHECK(check_table("look_up_backward", "d_table", &d_table, error));
    ICL_CHECK(icl_call_validate(&call, error));
    if (icl_tensor_count(&symbols) > INT32_MAX)
        return icl_fail(error, ICL_ERROR_INPUT, "look_up_backward: %zu symbols, expected at most 2^31 - 1",
                        icl_tensor_count(&symbols));
    return icl_call_run(&call, error);
}

/* ---- Short convolutions ---- */

icl_status icl_convolve(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor kernel, icl_error *error) {
    icl_tensor operands[] = {out, in, kernel};
    return icl_call_op(&(icl_call){.backend = backend, .op = ICL_OP_convolve, .operands = operands}, error);
}

icl_status icl_convolve_backward(icl_backend *backend, icl_tensor d_in, icl_tensor d_kernel, icl_tensor d_out,
                                 icl_tensor in, icl_tensor kernel, icl_error *error) {
    icl_tensor operands[] = {d_in, d_kernel, d_out, in, kernel};
    return icl_call_op(&(icl_call){.backend = backend, .op = ICL_OP_convolve_backward, .operands = operands}, error);
}

/* ---- Rotary positions ---- */

icl_status icl_rotate(icl_backend *backend, bool inverse, icl_tensor out, icl_tensor in, icl_tensor angles,
                      icl_error *error) {
    icl_tensor operands[] = {out, in, angles};
    icl_call call = {.backend = backend, .op = ICL_OP_rotate, .params = &inverse, .operands = operands};

    if (in.rank < 2 || in.rank > ICL_MAX_RANK)
        return icl_fail(error, ICL_ERROR_INPUT, "rotate: in has rank %d, expected 2 to %d", in.rank, ICL_MAX_RANK);
    const size_t width = in.shape[in.rank - 1];
    if (width % 2 != 0)
        return icl_fail(error, ICL_ERROR_INPUT, "rotate: rows of %zu elements, expected an even number", width);
    icl_call_set(&call, 'h', width / 2);
    return icl_call_op(&call, error);
}

/* ---- Concatenation ---- */

/* Checks that the part has out's shape, except for its extent along the axis. */
static icl_status check_part(icl_backend *backend, const char *op, const icl_tensor *out, int axis, size_t number,
                             const icl_tensor *part, icl_error *error) {
    size_t shape[ICL_MAX_RANK];
    char role[32];

    snprintf(role, sizeof role, "part %zu", number);
    ICL_CHECK(icl_check_input(backend, op, role, part, error));
    memcpy(shape, out->shape, sizeof shape);
    shape[axis] = part->rank == out->rank ? part->shape[axis] : 1;
    ICL_CHECK(icl_check_shape(op, role, part, out->rank, shape, error));
    return icl_check_overlap(op, out, part, false, error);
}

icl_status icl_concatenate(icl_backend *backend, icl_tensor out, int axis, size_t count, const icl_tensor *ins,
                           icl_error *error) {
    static const char op[] = "concatenate";
    size_t extent = 0;

    ICL_CHECK(icl_check_output(backend, op, "out", &out, error));
    if (axis < 0 || axis >= out.rank)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: axis %d of a tensor of rank %d", op, axis, out.rank);
    for (size_t i = 0; i < count; i++) {
        ICL_CHECK(check_part(backend, op, &out, axis, i, &ins[i], error));
        if (ins[i].shape[axis] > out.shape[axis] - extent)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: parts 0 to %zu are longer than out along axis %d, %zu", op, i,
                            axis, out.shape[axis]);
        extent += ins[i].shape[axis];
    }
    if (extent < out.shape[axis])
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu parts of %zu along axis %d in all, expected out's %zu", op,
                        count, extent, axis, out.shape[axis]);
    extent = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t own = ins[i].shape[axis];
        ICL_CHECK(icl_copy(backend, icl_tensor_slice(out, axis, extent, own), ins[i], error));
        extent += own;
    }
    return ICL_OK;
}

/* ---- Cross-entropy ---- */

static icl_status validate_classes(icl_call *call, const icl_tensor *logits, icl_error *error) {
    ICL_CHECK(icl_call_validate(call, error));
    if (logits->shape[logits->rank - 1] > ICL_MAX_CLASSES)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu classes, expected at most %zu", call->name,
                        logits->shape[logits->rank - 1], ICL_MAX_CLASSES);
    return ICL_OK;
}

icl_status icl_cross_entropy(icl_backend *backend, icl_tensor losses, icl_tensor logits, icl_tensor classes,
                             icl_error *error) {
    icl_tensor operands[] = {losses, logits, classes};
    icl_call call = {.backend = backend, .op = ICL_OP_cross_entropy, .operands = operands};

    ICL_CHECK(validate_classes(&call, &logits, error));
    if (icl_tensor_count(&logits) == 0)
        return icl_fill(backend, losses, (double)NAN, error); /* rows without a class */
    return icl_call_run(&call, error);
}

icl_status icl_cross_entropy_backward(icl_backend *backend, icl_tensor d_logits, icl_tensor d_losses, icl_tensor logits,
                                      icl_tensor classes, icl_error *error) {
    icl_tensor operands[] = {d_logits, d_losses, logits, classes};
    icl_call call = {.backend = backend, .op = ICL_OP_cross_entropy_backward, .operands = operands};

    ICL_CHECK(validate_classes(&call, &logits, error));
    return icl_call_run(&call, error);
}

/* ---- Recurrences ---- */

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

/* ---- Recurrences: the other side ---- */

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

/* ---- Recurrences: the ops ---- */

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
