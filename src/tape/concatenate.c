/* Concatenation: the gradient of a part is its slice. A node has few inputs: many parts are joined a few at a time, and
 * what comes out of that likewise. */
#include <string.h>

#include "core/allocate.h"
#include "iclab/ops_sequence.h"
#include "tape/record.h"

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
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

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const int axis = node->params.view.axis;
    size_t start = 0;

    for (int i = 0; i < node->input_count; i++) {
        const size_t own = icl_node_input(tape, node, i).shape[axis];
        ICL_CHECK(icl_gradient_add(tape, node->inputs[i], 1.0, icl_tensor_slice(gradient, axis, start, own), error));
        start += own;
    }
    return ICL_OK;
}

static const icl_operation concatenate_operation = {"concatenate", forward, backward, NULL};

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
