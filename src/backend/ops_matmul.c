/* The public matrix products: validation, folding, dispatch. */
#include <stdint.h>
#include <string.h>

#include "backend/dispatch.h"
#include "iclab/status.h"

/* Checks the operands of a product and broadcasts the leading axes of a and b to those of out. */
static icl_status check_product(icl_backend *backend, const char *op, const icl_tensor *out, icl_tensor *a,
                                icl_tensor *b, icl_error *error) {
    size_t shape[ICL_MAX_RANK];
    const int rank = out->rank;

    ICL_CHECK(icl_check_output(backend, op, "out", out, error));
    ICL_CHECK(icl_check_input(backend, op, "a", a, error));
    ICL_CHECK(icl_check_input(backend, op, "b", b, error));
    if (rank < 2 || a->rank < 2 || b->rank < 2)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: ranks %d = %d x %d, expected 2 or more of each", op, rank, a->rank,
                        b->rank);
    const size_t m = out->shape[rank - 2], n = out->shape[rank - 1], k = a->shape[a->rank - 1];
    if (a->shape[a->rank - 2] != m || b->shape[b->rank - 2] != k || b->shape[b->rank - 1] != n) {
        char out_text[ICL_SHAPE_TEXT], a_text[ICL_SHAPE_TEXT], b_text[ICL_SHAPE_TEXT];
        icl_shape_text(out, out_text);
        icl_shape_text(a, a_text);
        icl_shape_text(b, b_text);
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s = %s x %s do not fit, expected [m, n] = [m, k] x [k, n]", op,
                        out_text, a_text, b_text);
    }
    memcpy(shape, out->shape, sizeof shape);
    shape[rank - 2] = m;
    shape[rank - 1] = k;
    ICL_CHECK(icl_broadcast_to(op, "a", rank, shape, a, error));
    shape[rank - 2] = k;
    shape[rank - 1] = n;
    ICL_CHECK(icl_broadcast_to(op, "b", rank, shape, b, error));
    ICL_CHECK(icl_check_overlap(op, out, a, false, error));
    return icl_check_overlap(op, out, b, false, error);
}

static void drop_axis(icl_tensor *tensor, int axis) {
    tensor->rank--;
    for (; axis < tensor->rank; axis++) {
        tensor->shape[axis] = tensor->shape[axis + 1];
        tensor->stride[axis] = tensor->stride[axis + 1];
    }
}

/* Whether stepping along `axis` equals stepping shape[axis + 1] times along the next one. */
static bool continues(const icl_tensor *tensor, int axis) {
    return tensor->stride[axis] == tensor->shape[axis + 1] * tensor->stride[axis + 1];
}

/*
 * One large product instead of many small ones: a leading axis along which b repeats is more rows of a where the
 * layout allows it; a leading axis of extent 1 is no axis.
 */
static void fold(icl_tensor operands[3]) {
    icl_tensor *out = &operands[0], *a = &operands[1], *b = &operands[2];
    for (int axis = out->rank - 3; axis >= 0; axis--) {
        const bool rows = axis == out->rank - 3 && b->stride[axis] == 0;
        if (out->shape[axis] == 1) {
            for (int i = 0; i < 3; i++)
                drop_axis(&operands[i], axis);
        } else if (rows && continues(out, axis) && continues(a, axis)) {
            out->shape[axis + 1] *= out->shape[axis];
            a->shape[axis + 1] *= a->shape[axis];
            for (int i = 0; i < 3; i++)
                drop_axis(&operands[i], axis);
        }
    }
}

icl_status icl_matmul(icl_backend *backend, icl_tensor out, double alpha, icl_tensor a, icl_tensor b, double beta,
                      icl_error *error) {
    const icl_matmul_params params = {alpha, beta};

    ICL_CHECK(check_product(backend, "matmul", &out, &a, &b, error));
    if (icl_tensor_count(&out) > 0) {
        icl_tensor operands[] = {out, a, b};
        fold(operands);
        ICL_CHECK(icl_dispatch(backend, ICL_OP_matmul, &params, operands, error));
    }
    return ICL_OK;
}

icl_status icl_matmul_strict(icl_backend *backend, icl_tensor out, icl_tensor a, icl_tensor b, icl_error *error) {
    ICL_CHECK(check_product(backend, "matmul_strict", &out, &a, &b, error));
    if (icl_tensor_count(&out) > 0) {
        icl_tensor operands[] = {out, a, b};
        ICL_CHECK(icl_dispatch(backend, ICL_OP_matmul_strict, NULL, operands, error));
    }
    return ICL_OK;
}
