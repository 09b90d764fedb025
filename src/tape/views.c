/* Views, whose gradients are views of their input's gradient; and place, fill and concatenate, which make new
 * tensors. */
#include "tape/record.h"

#include <string.h>

#include "core/allocate.h"
#include "iclab/ops_sequence.h"

static icl_status view_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    (void)error;
    node->value = node->operation->view(node, icl_node_input(tape, node, 0));
    return ICL_OK;
}

static bool is_axis(icl_tensor tensor, int axis) {
    return axis >= 0 && axis < tensor.rank;
}

/* ---- Slice ---- */

static icl_status slice_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);
    const int axis = node->params.view.axis;
    const size_t start = node->params.view.start, count = node->params.view.count;

    if (!is_axis(in, axis))
        return icl_fail(error, ICL_ERROR_INPUT, "tape: slice along axis %d of a tensor of rank %d", axis, in.rank);
    if (start > in.shape[axis] || count > in.shape[axis] - start)
        return icl_fail(error, ICL_ERROR_INPUT, "tape: slice of %zu from %zu along axis %d, whose extent is %zu", count,
                        start, axis, in.shape[axis]);
    return view_forward(tape, node, error);
}

static icl_tensor slice_view(const icl_node *node, icl_tensor input) {
    return icl_tensor_slice(input, node->params.view.axis, node->params.view.start, node->params.view.count);
}

static const icl_operation slice_operation = {"slice", slice_forward, NULL, slice_view};

icl_variable icl_tape_slice(icl_tape *tape, icl_variable in, int axis, size_t start, size_t count) {
    return icl_tape_record(tape, &(icl_node){.operation = &slice_operation,
                                             .inputs = {in},
                                             .input_count = 1,
                                             .params.view = {.axis = axis, .start = start, .count = count}});
}

/* ---- Swapped axes ---- */

static icl_status swap_axes_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);
    if (!is_axis(in, node->params.view.axis) || !is_axis(in, node->params.view.other))
        return icl_fail(error, ICL_ERROR_INPUT, "tape: swap of axes %d and %d of a tensor of rank %d",
                        node->params.view.axis, node->params.view.other, in.rank);
    return view_forward(tape, node, error);
}

static icl_tensor swap_axes_view(const icl_node *node, icl_tensor input) {
    return icl_tensor_swap_axes(input, node->params.view.axis, node->params.view.other);
}

static const icl_operation swap_axes_operation = {"swap_axes", swap_axes_forward, NULL, swap_axes_view};

icl_variable icl_tape_swap_axes(icl_tape *tape, icl_variable in, int first, int second) {
    return icl_tape_record(tape, &(icl_node){.operation = &swap_axes_operation,
                                             .inputs = {in},
                                             .input_count = 1,
                                             .params.view = {.axis = first, .other = second}});
}

/* ---- Detach ---- */

static icl_tensor same_view(const icl_node *node, icl_tensor input) {
    (void)node;
    return input;
}

static const icl_operation detach_operation = {"detach", view_forward, NULL, same_view};

icl_variable icl_tape_detach(icl_tape *tape, icl_variable in) {
    return icl_tape_record(
        tape, &(icl_node){.operation = &detach_operation, .inputs = {in}, .input_count = 1, .constant = true});
}

/* ---- Reshape ---- */

static icl_status reshape_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);
    size_t count = 1;

    for (int i = 0; i < node->params.reshape.rank; i++)
        count *= node->params.reshape.shape[i];
    if (count != icl_tensor_count(&in))
        return icl_fail(error, ICL_ERROR_INPUT, "tape: reshape of %zu elements to %zu", icl_tensor_count(&in), count);
    if (!icl_tensor_is_contiguous(&in))
        return icl_fail(error, ICL_ERROR_INPUT, "tape: reshape of a view that is not contiguous");
    return view_forward(tape, node, error);
}

static icl_tensor reshape_view(const icl_node *node, icl_tensor input) {
    return icl_tensor_reshape(input, node->params.reshape.rank, node->params.reshape.shape);
}

static const icl_operation reshape_operation = {"reshape", reshape_forward, NULL, reshape_view};

icl_variable icl_tape_reshape(icl_tape *tape, icl_variable in, int rank, const size_t *shape) {
    icl_node node = {.operation = &reshape_operation, .inputs = {in}, .input_count = 1};
    node.params.reshape.rank = rank;
    if (rank < 0 || rank > ICL_MAX_RANK) {
        if (tape->error.status == ICL_OK)
            icl_fail(&tape->error, ICL_ERROR_INPUT, "tape: reshape to rank %d, expected 0 to %d", rank, ICL_MAX_RANK);
        return (icl_variable){-1};
    }
    for (int i = 0; i < rank; i++)
        node.params.reshape.shape[i] = shape[i];
    return icl_tape_record(tape, &node);
}

/* ---- Place ---- */

static icl_tensor block_of(const icl_node *node, icl_tensor whole, icl_tensor block) {
    for (int i = 0; i < whole.rank; i++)
        whole = icl_tensor_slice(whole, i, node->params.start[i], block.shape[i]);
    return whole;
}

static icl_status place_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor base = icl_node_input(tape, node, 0), block = icl_node_input(tape, node, 1);

    if (base.rank != block.rank)
        return icl_fail(error, ICL_ERROR_INPUT, "tape: a block of rank %d placed into a tensor of rank %d", block.rank,
                        base.rank);
    for (int i = 0; i < base.rank; i++)
        if (node->params.start[i] > base.shape[i] || block.shape[i] > base.shape[i] - node->params.start[i])
            return icl_fail(error, ICL_ERROR_INPUT,
                            "tape: a block of %zu placed at %zu along axis %d, whose extent is %zu", block.shape[i],
                            node->params.start[i], i, base.shape[i]);
    ICL_CHECK(icl_tape_output(tape, node, base.rank, base.shape, error));
    ICL_CHECK(icl_copy(tape->backend, node->value, base, error));
    return icl_copy(tape->backend, block_of(node, node->value, block), block, error);
}

static icl_status place_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor block = icl_node_input(tape, node, 1);
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_gradient_add(tape, node->inputs[1], 1.0, block_of(node, gradient, block), error));
    if (icl_gradient_wanted(tape, node->inputs[0])) {
        ICL_TRY(icl_contribution_begin(tape, node->inputs[0], gradient.rank, gradient.shape, &d, error));
        ICL_TRY(icl_copy(tape->backend, d.tensor, gradient, error));
        ICL_TRY(icl_fill(tape->backend, block_of(node, d.tensor, block), 0.0, error));
        ICL_TRY(icl_contribution_end(tape, &d, error));
    }
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation place_operation = {"place", place_forward, place_backward, NULL};

icl_variable icl_tape_place(icl_tape *tape, icl_variable base, icl_variable block, const size_t *start) {
    icl_node node = {.operation = &place_operation, .inputs = {base, block}, .input_count = 2};
    const int rank = icl_tape_value(tape, base).rank;
    for (int i = 0; i < rank; i++)
        node.params.start[i] = start[i];
    return icl_tape_record(tape, &node);
}

/* ---- Fill ---- */

static icl_status filled_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_status status = icl_tape_output(tape, node, node->params.fill.rank, node->params.fill.shape, error);
    return status == ICL_OK ? icl_fill(tape->backend, node->value, node->params.fill.value, error) : status;
}

static const icl_operation filled_operation = {"filled", filled_forward, NULL, NULL};

icl_variable icl_tape_filled(icl_tape *tape, int rank, const size_t *shape, double value) {
    icl_node node = {.operation = &filled_operation};
    node.params.fill.rank = rank;
    node.params.fill.value = value;
    if (rank >= 0 && rank <= ICL_MAX_RANK)
        for (int i = 0; i < rank; i++)
            node.params.fill.shape[i] = shape[i];
    return icl_tape_record(tape, &node);
}

/* ---- Concatenate ---- */

/* The gradient of a part is its slice. A node has few inputs, so many parts are joined a few at a time, and the results
 * are joined likewise. */

static icl_status concatenate_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const int axis = node->params.view.axis;
    icl_tensor parts[ICL_NODE_INPUTS] = {icl_node_input(tape, node, 0)};
    size_t shape[ICL_MAX_RANK] = {0};

    for (int i = 0; i < node->input_count; i++) {
        parts[i] = icl_node_input(tape, node, i);
        if (axis < 0 || axis >= parts[i].rank || parts[i].rank != parts[0].rank)
            return icl_fail(error, ICL_ERROR_INPUT, "tape: concatenation along axis %d of tensors of rank %d and %d",
                            axis, parts[0].rank, parts[i].rank);
    }
    memcpy(shape, parts[0].shape, (size_t)parts[0].rank * sizeof *shape);
    for (int i = 1; i < node->input_count; i++)
        shape[axis] += parts[i].shape[axis];
    ICL_CHECK(icl_tape_output(tape, node, parts[0].rank, shape, error));
    return icl_concatenate(tape->backend, node->value, axis, (size_t)node->input_count, parts, error);
}

static icl_status concatenate_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const int axis = node->params.view.axis;
    size_t start = 0;

    for (int i = 0; i < node->input_count; i++) {
        const size_t own = icl_node_input(tape, node, i).shape[axis];
        ICL_CHECK(icl_gradient_add(tape, node->inputs[i], 1.0, icl_tensor_slice(gradient, axis, start, own), error));
        start += own;
    }
    return ICL_OK;
}

static const icl_operation concatenate_operation = {"concatenate", concatenate_forward, concatenate_backward, NULL};

static icl_variable join(icl_tape *tape, int axis, size_t count, const icl_variable *parts) {
    icl_node node = {.operation = &concatenate_operation, .input_count = (int)count};
    memcpy(node.inputs, parts, count * sizeof *parts);
    node.params.view.axis = axis;
    return icl_tape_record(tape, &node);
}

icl_variable icl_tape_concatenate(icl_tape *tape, int axis, size_t count, const icl_variable *parts) {
    icl_variable *joined = NULL, result = {-1};

    if (tape->error.status != ICL_OK)
        return result;
    if (count == 0) {
        icl_fail(&tape->error, ICL_ERROR_INPUT, "tape: concatenation of nothing");
        return result;
    }
    if (count <= ICL_NODE_INPUTS)
        return join(tape, axis, count, parts);
    const size_t groups = (count + ICL_NODE_INPUTS - 1) / ICL_NODE_INPUTS;
    if (icl_allocate(groups, sizeof *joined, "parts", &joined, &tape->error) != ICL_OK)
        return result;
    for (size_t i = 0; i < groups; i++) {
        const size_t first = i * ICL_NODE_INPUTS, left = count - first;
        joined[i] = join(tape, axis, left < ICL_NODE_INPUTS ? left : ICL_NODE_INPUTS, parts + first);
    }
    result = icl_tape_concatenate(tape, axis, groups, joined);
    icl_free(&joined);
    return result;
}
