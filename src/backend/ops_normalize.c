/* The public ops that normalize rows: validation, then dispatch. */
#include "backend/dispatch.h"
#include "iclab/status.h"

const char *icl_norm_name(icl_norm_kind kind) {
    static const char *const names[ICL_NORM_COUNT] = {"layer", "rms", "unit"};
    return (unsigned)kind < ICL_NORM_COUNT ? names[kind] : "unknown";
}

static icl_status check_params(const char *op, const icl_normalize_params *params, const icl_tensor *rows,
                               icl_error *error) {
    if ((unsigned)params->kind >= ICL_NORM_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown kind %d", op, (int)params->kind);
    if (!(params->epsilon >= 0))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: epsilon %g, expected 0 or a number above", op, params->epsilon);
    if (rows->rank < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: a tensor of rank 0, expected rows along the last axis", op);
    return ICL_OK;
}

/* A vector with an element for each of a row's. */
static icl_status check_vector(icl_backend *backend, const char *op, const char *role, const icl_tensor *rows,
                               const icl_tensor *vector, icl_error *error) {
    ICL_CHECK(icl_check_input(backend, op, role, vector, error));
    return icl_check_shape(op, role, vector, 1, &rows->shape[rows->rank - 1], error);
}

icl_status icl_normalize(icl_backend *backend, const icl_normalize_params *params, icl_tensor out, icl_tensor in,
                         icl_tensor gain, icl_tensor shift, icl_error *error) {
    static const char op[] = "normalize";
    static const char *const roles[] = {"out", "in", "gain", "shift"};
    const icl_tensor operands[] = {out, in, gain, shift};

    ICL_CHECK(icl_check_output(backend, op, roles[0], &out, error));
    ICL_CHECK(check_params(op, params, &out, error));
    ICL_CHECK(icl_check_input(backend, op, roles[1], &in, error));
    ICL_CHECK(icl_check_shape(op, roles[1], &in, out.rank, out.shape, error));
    ICL_CHECK(icl_check_overlap(op, &out, &in, true, error));
    for (int i = 2; i < 4; i++)
        if (operands[i].buffer) {
            ICL_CHECK(check_vector(backend, op, roles[i], &out, &operands[i], error));
            ICL_CHECK(icl_check_overlap(op, &out, &operands[i], false, error));
        }
    if (icl_tensor_count(&out) > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_normalize, params, operands, error));
    return ICL_OK;
}

icl_status icl_normalize_backward(icl_backend *backend, const icl_normalize_params *params, icl_tensor d_in,
                                  icl_tensor d_gain, icl_tensor d_shift, icl_tensor d_out, icl_tensor in,
                                  icl_tensor gain, icl_error *error) {
    static const char op[] = "normalize_backward";
    static const char *const roles[] = {"d_in", "d_gain", "d_shift", "d_out", "in", "gain"};
    const icl_tensor operands[] = {d_in, d_gain, d_shift, d_out, in, gain};

    ICL_CHECK(icl_check_output(backend, op, roles[0], &d_in, error));
    ICL_CHECK(check_params(op, params, &d_in, error));
    for (int i = 1; i < 6; i++) {
        const bool is_vector = i < 3 || i == 5;
        if (is_vector && !operands[i].buffer)
            continue;
        if (i < 3)
            ICL_CHECK(icl_check_output(backend, op, roles[i], &operands[i], error));
        if (is_vector) {
            ICL_CHECK(check_vector(backend, op, roles[i], &d_in, &operands[i], error));
        } else {
            ICL_CHECK(icl_check_input(backend, op, roles[i], &operands[i], error));
            ICL_CHECK(icl_check_shape(op, roles[i], &operands[i], d_in.rank, d_in.shape, error));
        }
        for (int j = 0; j < i && j < 3; j++)
            ICL_CHECK(icl_check_overlap(op, &operands[j], &operands[i], false, error));
    }
    if (icl_tensor_count(&d_in) > 0)
        return icl_dispatch(backend, ICL_OP_normalize_backward, params, operands, error);
    for (int i = 1; i < 3; i++) /* sums over no rows */
        if (operands[i].buffer)
            ICL_CHECK(icl_fill(backend, operands[i], 0, error));
    return ICL_OK;
}
