/* The public elementwise, reduction and optimizer ops: validation, then dispatch. */
#include "iclab/ops.h"

#include <assert.h>

#include "backend/dispatch.h"
#include "iclab/status.h"

static const char *const unary_names[] = {
#define NAME(kind, name, positive) #name,
    ICL_UNARY_KINDS(NAME)
#undef NAME
};

static const char *const binary_names[] = {
#define NAME(kind, name) #name,
    ICL_BINARY_KINDS(NAME)
#undef NAME
};

static const char *const reduce_names[ICL_REDUCE_COUNT] = {
    "sum", "mean", "max", "argmax", "sum_of_squares", "norm",
};

const char *icl_unary_name(icl_unary_kind kind) {
    return (unsigned)kind < ICL_UNARY_COUNT ? unary_names[kind] : "unknown";
}

const char *icl_binary_name(icl_binary_kind kind) {
    return (unsigned)kind < ICL_BINARY_COUNT ? binary_names[kind] : "unknown";
}

const char *icl_reduce_name(icl_reduce_kind kind) {
    return (unsigned)kind < ICL_REDUCE_COUNT ? reduce_names[kind] : "unknown";
}

/* Checks an output and the inputs that broadcast against it (an absent optional input is passed over), and dispatches.
 * operands[0] is the output. */
static icl_status elementwise(icl_backend *backend, icl_op op, const char *name, const void *params,
                              icl_tensor *operands, bool last_optional, icl_error *error) {
    static const char *const roles[] = {"out", "the first input", "the second input"};
    const int inputs = icl_op_infos[op].inputs;
    icl_tensor *out = &operands[0];

    assert(inputs <= 2);
    ICL_CHECK(icl_check_output(backend, name, roles[0], out, error));
    for (int i = 1; i <= inputs; i++) {
        if (i == inputs && last_optional && !operands[i].buffer)
            continue;
        ICL_CHECK(icl_check_input(backend, name, roles[i], &operands[i], error));
        ICL_CHECK(icl_broadcast_to(name, roles[i], out->rank, out->shape, &operands[i], error));
        ICL_CHECK(icl_check_overlap(name, out, &operands[i], true, error));
    }
    if (icl_tensor_count(out) > 0)
        ICL_CHECK(icl_dispatch(backend, op, params, operands, error));
    return ICL_OK;
}

icl_status icl_fill(icl_backend *backend, icl_tensor out, double value, icl_error *error) {
    return elementwise(backend, ICL_OP_fill, "fill", &value, &out, false, error);
}

icl_status icl_copy(icl_backend *backend, icl_tensor out, icl_tensor in, icl_error *error) {
    icl_tensor operands[] = {out, in};
    return elementwise(backend, ICL_OP_copy, "copy", NULL, operands, false, error);
}

icl_status icl_random_fill(icl_backend *backend, const icl_random_params *params, icl_tensor out, icl_error *error) {
    if ((unsigned)params->distribution > ICL_CHOICE)
        return icl_fail(error, ICL_ERROR_INPUT, "random_fill: unknown distribution %d", (int)params->distribution);
    if (params->distribution == ICL_CHOICE && (params->choice_count < 1 || params->choice_count > ICL_MAX_CHOICES))
        return icl_fail(error, ICL_ERROR_INPUT, "random_fill: %u choices, expected 1..%d", params->choice_count,
                        ICL_MAX_CHOICES);
    return elementwise(backend, ICL_OP_random_fill, "random_fill", params, &out, false, error);
}

icl_status icl_unary(icl_backend *backend, icl_unary_kind kind, icl_tensor out, icl_tensor in, icl_error *error) {
    icl_tensor operands[] = {out, in};
    if ((unsigned)kind >= ICL_UNARY_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "unary: unknown kind %d", (int)kind);
    return elementwise(backend, ICL_OP_unary, icl_unary_name(kind), &kind, operands, false, error);
}

icl_status icl_binary(icl_backend *backend, icl_binary_kind kind, icl_tensor out, icl_tensor a, icl_tensor b,
                      icl_error *error) {
    icl_tensor operands[] = {out, a, b};
    if ((unsigned)kind >= ICL_BINARY_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "binary: unknown kind %d", (int)kind);
    return elementwise(backend, ICL_OP_binary, icl_binary_name(kind), &kind, operands, false, error);
}

icl_status icl_scale_add(icl_backend *backend, icl_tensor out, double alpha, icl_tensor a, double beta, icl_tensor b,
                         icl_error *error) {
    icl_tensor operands[] = {out, a, b};
    const icl_scale_add_params params = {alpha, beta};
    return elementwise(backend, ICL_OP_scale_add, "scale_add", &params, operands, true, error);
}

icl_status icl_reduce(icl_backend *backend, icl_reduce_kind kind, unsigned axes, icl_tensor out, icl_tensor in,
                      icl_error *error) {
    icl_tensor operands[] = {out, in};
    const icl_reduce_params params = {kind, axes};
    size_t shape[ICL_MAX_RANK] = {0};

    if ((unsigned)kind >= ICL_REDUCE_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "reduce: unknown kind %d", (int)kind);
    const char *name = icl_reduce_name(kind);
    ICL_CHECK(icl_check_output(backend, name, "out", &out, error));
    ICL_CHECK(icl_check_input(backend, name, "the input", &in, error));
    if (axes >> in.rank)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: axes 0x%x name an axis past rank %d", name, axes, in.rank);
    for (int axis = 0; axis < in.rank; axis++)
        shape[axis] = axes >> axis & 1 ? 1 : in.shape[axis];
    ICL_CHECK(icl_check_shape(name, "out", &out, in.rank, shape, error));
    ICL_CHECK(icl_check_overlap(name, &out, &in, false, error));
    if (icl_tensor_count(&out) > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_reduce, &params, operands, error));
    return ICL_OK;
}

/* ---- Optimizer steps ---- */

/* A tensor of one element. */
static icl_status check_scalar(const char *op, const char *role, const icl_tensor *tensor, icl_error *error) {
    char text[ICL_SHAPE_TEXT];

    if (icl_tensor_count(tensor) == 1)
        return ICL_OK;
    icl_shape_text(tensor, text);
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has shape %s, expected one element", op, role, text);
}

icl_status icl_track_threshold(icl_backend *backend, double fraction, icl_tensor threshold, icl_tensor dropped,
                               icl_tensor norms, icl_error *error) {
    static const char op[] = "track_threshold";
    const icl_tensor operands[] = {threshold, dropped, norms};

    if (!(fraction > 0 && fraction <= 1))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: fraction %g, expected a number above 0, at most 1", op, fraction);
    ICL_CHECK(icl_check_output(backend, op, "threshold", &threshold, error));
    ICL_CHECK(icl_check_output(backend, op, "dropped", &dropped, error));
    ICL_CHECK(icl_check_input(backend, op, "norms", &norms, error));
    ICL_CHECK(check_scalar(op, "threshold", &threshold, error));
    ICL_CHECK(check_scalar(op, "dropped", &dropped, error));
    if (norms.rank != 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: norms has rank %d, expected 1", op, norms.rank);
    ICL_CHECK(icl_check_overlap(op, &threshold, &dropped, false, error));
    ICL_CHECK(icl_check_overlap(op, &threshold, &norms, false, error));
    ICL_CHECK(icl_check_overlap(op, &dropped, &norms, false, error));
    return icl_tensor_count(&norms) > 0 ? icl_dispatch(backend, ICL_OP_track_threshold, &fraction, operands, error)
                                        : icl_fill(backend, dropped, 0, error);
}
