/* out = alpha a b: d_a = alpha g b^T, d_b = alpha a^T g, summed over the leading axes along which an
 * operand is repeated. */
#include "tape/record.h"

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor a = icl_node_input(tape, node, 0), b = icl_node_input(tape, node, 1);
    size_t shape[ICL_MAX_RANK];
    int rank;
    icl_status status;

    if (a.rank < 2 || b.rank < 2)
        return icl_fail(error, ICL_ERROR_INPUT, "tape: matmul of ranks %d and %d, expected 2 to %d", a.rank, b.rank,
                        ICL_MAX_RANK);
    icl_broadcast_shape(&a, &b, &rank, shape);
    shape[rank - 2] = a.shape[a.rank - 2];
    shape[rank - 1] = b.shape[b.rank - 1];
    status = icl_tape_output(tape, node, rank, shape, error);
    return status == ICL_OK ? icl_matmul(tape->backend, node->value, node->params.scale.alpha, a, b, 0.0, error)
                            : status;
}

static icl_tensor transposed(icl_tensor tensor) {
    return icl_tensor_swap_axes(tensor, tensor.rank - 2, tensor.rank - 1);
}

/* Returns whether the operand has the output's leading axes, so that its gradient is one product. */
static bool has_leading_axes_of(const icl_tensor *operand, const icl_tensor *out) {
    const int shift = out->rank - operand->rank;
    for (int i = 0; i < out->rank - 2; i++)
        if (i < shift ? out->shape[i] != 1 : operand->shape[i - shift] != out->shape[i])
            return false;
    return true;
}

static bool is_one_matrix(const icl_tensor *tensor) {
    for (int i = 0; i < tensor->rank - 2; i++)
        if (tensor->shape[i] != 1)
            return false;
    return true;
}

/* Views all axes but the last as one, if the strides allow. */
static bool fold_rows(icl_tensor tensor, icl_tensor *rows) {
    const int last = tensor.rank - 1;
    size_t extent = 1, stride = tensor.shape[last] * tensor.stride[last];

    for (int i = last - 1; i >= 0; i--) {
        if (tensor.shape[i] == 1)
            continue;
        if (extent != 1 && tensor.stride[i] != extent * stride)
            return false;
        if (extent == 1)
            stride = tensor.stride[i];
        extent *= tensor.shape[i];
    }
    *rows = tensor;
    rows->rank = 2;
    rows->shape[0] = extent;
    rows->stride[0] = stride;
    rows->shape[1] = tensor.shape[last];
    rows->stride[1] = tensor.stride[last];
    return true;
}

/* As fold_rows, but copies the tensor to a temporary if the strides do not allow a view. */
static icl_status matrix_of_rows(icl_backend *backend, icl_tensor tensor, icl_tensor *rows, icl_tensor *temporary,
                                 icl_error *error) {
    if (fold_rows(tensor, rows))
        return ICL_OK;
    ICL_CHECK(icl_tensor_create(backend, tensor.rank, tensor.shape, temporary, error));
    ICL_CHECK(icl_copy(backend, *temporary, tensor, error));
    fold_rows(*temporary, rows);
    return ICL_OK;
}

/* Computes d_b of one matrix b that the whole batch shares: the rows of the batch are the long inner axis of a single
 * product, which replaces a small product per sequence and a sum over them. */
static icl_status shared_matrix_backward(icl_tape *tape, const icl_node *node, icl_tensor g, icl_error *error) {
    const icl_tensor a = icl_node_input(tape, node, 0);
    icl_tensor a_rows = {0}, g_rows = {0}, a_copy = {0}, g_copy = {0}, target;
    double beta;
    icl_status status = ICL_OK;

    ICL_TRY(matrix_of_rows(tape->backend, a, &a_rows, &a_copy, error));
    ICL_TRY(matrix_of_rows(tape->backend, g, &g_rows, &g_copy, error));
    ICL_TRY(icl_gradient_target(tape, node->inputs[1], &target, &beta, error));
    ICL_TRY(icl_matmul(tape->backend, icl_with_rank(target, 2), node->params.scale.alpha, transposed(a_rows), g_rows,
                       beta, error));
done:
    icl_tensor_release(&a_copy);
    icl_tensor_release(&g_copy);
    return status;
}

/* Adds d_own = alpha left right, summed over the output's leading axes that own lacks. */
static icl_status product_backward(icl_tape *tape, const icl_node *node, int own, icl_tensor left, icl_tensor right,
                                   icl_error *error) {
    const icl_tensor operand = icl_node_input(tape, node, own);
    icl_contribution d = {0};
    icl_tensor target;
    size_t shape[ICL_MAX_RANK];
    double beta;
    icl_status status = ICL_OK;

    if (has_leading_axes_of(&operand, &node->value)) {
        ICL_TRY(icl_gradient_target(tape, node->inputs[own], &target, &beta, error));
        ICL_TRY(icl_matmul(tape->backend, icl_with_rank(target, node->value.rank), node->params.scale.alpha, left,
                           right, beta, error));
    } else {
        for (int i = 0; i < node->value.rank - 2; i++)
            shape[i] = node->value.shape[i];
        shape[node->value.rank - 2] = operand.shape[operand.rank - 2];
        shape[node->value.rank - 1] = operand.shape[operand.rank - 1];
        ICL_TRY(icl_contribution_begin(tape, node->inputs[own], node->value.rank, shape, &d, error));
        ICL_TRY(icl_matmul(tape->backend, d.tensor, node->params.scale.alpha, left, right, 0.0, error));
        ICL_TRY(icl_contribution_end(tape, &d, error));
    }
done:
    icl_contribution_drop(&d);
    return status;
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor a = icl_node_input(tape, node, 0), b = icl_node_input(tape, node, 1);

    if (icl_gradient_wanted(tape, node->inputs[0]))
        ICL_CHECK(product_backward(tape, node, 0, gradient, transposed(b), error));
    if (icl_gradient_wanted(tape, node->inputs[1])) {
        if (is_one_matrix(&b))
            ICL_CHECK(shared_matrix_backward(tape, node, gradient, error));
        else
            ICL_CHECK(product_backward(tape, node, 1, transposed(a), gradient, error));
    }
    return ICL_OK;
}

static const icl_operation matmul_operation = {"matmul", forward, backward, NULL};

icl_variable icl_tape_matmul(icl_tape *tape, double alpha, icl_variable a, icl_variable b) {
    return icl_tape_record(tape, &(icl_node){.operation = &matmul_operation,
                                             .inputs = {a, b},
                                             .input_count = 2,
                                             .params.scale = {.alpha = alpha}});
}
