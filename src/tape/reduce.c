/* Reductions. The gradient of the output has extent 1 on every reduced axis, and broadcasts back to the input. */
#include "tape/record.h"

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);
    size_t shape[ICL_MAX_RANK] = {0};
    icl_status status;

    for (int i = 0; i < in.rank; i++)
        shape[i] = node->params.reduce.axes & 1u << i ? 1 : in.shape[i];
    status = icl_tape_output(tape, node, in.rank, shape, error);
    return status == ICL_OK
               ? icl_reduce(tape->backend, node->params.reduce.kind, node->params.reduce.axes, node->value, in, error)
               : status;
}

/* d = 2 in g */
static icl_status sum_of_squares_derivative(icl_backend *backend, icl_tensor d, icl_tensor g, icl_tensor in,
                                            icl_error *error) {
    ICL_CHECK(icl_scale_add(backend, d, 2.0, in, 0.0, (icl_tensor){0}, error));
    return icl_binary(backend, ICL_MULTIPLY, d, d, g, error);
}

/* d = in g / out, and the subgradient 0 if out = 0: the divisor out + (out = 0) is never 0. */
static icl_status norm_derivative(icl_backend *backend, icl_tensor d, icl_tensor g, icl_tensor in, icl_tensor out,
                                  icl_error *error) {
    icl_tensor divisor = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, out.rank, out.shape, &divisor, error));
    ICL_TRY(icl_fill(backend, divisor, 0.0, error));
    ICL_TRY(icl_binary(backend, ICL_EQUAL, divisor, divisor, out, error));
    ICL_TRY(icl_binary(backend, ICL_ADD, divisor, divisor, out, error));
    ICL_TRY(icl_binary(backend, ICL_DIVIDE, d, in, divisor, error));
    ICL_TRY(icl_binary(backend, ICL_MULTIPLY, d, d, g, error));
done:
    icl_tensor_release(&divisor);
    return status;
}

/* d = g (in = out) / the number of elements that equal out: ties share equally, which is the subgradient of least
 * norm. */
static icl_status max_derivative(icl_backend *backend, unsigned axes, icl_tensor d, icl_tensor g, icl_tensor in,
                                 icl_tensor out, icl_error *error) {
    icl_tensor winners = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, out.rank, out.shape, &winners, error));
    ICL_TRY(icl_binary(backend, ICL_EQUAL, d, in, out, error));
    ICL_TRY(icl_reduce(backend, ICL_SUM, axes, winners, d, error));
    ICL_TRY(icl_binary(backend, ICL_DIVIDE, winners, g, winners, error));
    ICL_TRY(icl_binary(backend, ICL_MULTIPLY, d, d, winners, error));
done:
    icl_tensor_release(&winners);
    return status;
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);
    const icl_reduce_kind kind = node->params.reduce.kind;
    const double count = (double)icl_tensor_count(&in) / (double)icl_tensor_count(&gradient);
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    if (icl_tensor_count(&in) == 0) /* the input is empty, but its gradient must exist */
        return icl_gradient_add(tape, node->inputs[0], 0.0, in, error);
    if (kind == ICL_SUM || kind == ICL_MEAN)
        return icl_gradient_add(tape, node->inputs[0], kind == ICL_SUM ? 1.0 : 1.0 / count, gradient, error);

    ICL_TRY(icl_contribution_begin(tape, node->inputs[0], in.rank, in.shape, &d, error));
    if (kind == ICL_SUM_OF_SQUARES)
        ICL_TRY(sum_of_squares_derivative(tape->backend, d.tensor, gradient, in, error));
    else if (kind == ICL_NORM)
        ICL_TRY(norm_derivative(tape->backend, d.tensor, gradient, in, node->value, error));
    else
        ICL_TRY(max_derivative(tape->backend, node->params.reduce.axes, d.tensor, gradient, in, node->value, error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation reduce_operation = {"reduce", forward, backward, NULL};

icl_variable icl_tape_reduce(icl_tape *tape, icl_reduce_kind kind, unsigned axes, icl_variable in) {
    return icl_tape_record(tape, &(icl_node){.operation = &reduce_operation,
                                             .inputs = {in},
                                             .input_count = 1,
                                             .constant = kind == ICL_ARGMAX,
                                             .params.reduce = {kind, axes}});
}
