/* The public ops of sequence models: iclab/ops_sequence.h. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "backend/call.h"
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
