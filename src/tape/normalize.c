/* Rows that are normalized. Inputs: the rows, then gain and shift, those that are there. */
#include "tape/record.h"

enum { IN = 0, MOST_INPUTS = 3 };

/* Where gain and shift stand among the inputs; 0: absent. */
static int gain_of(const icl_node *node) {
    return node->params.normalize.has_gain ? 1 : 0;
}

static int shift_of(const icl_node *node) {
    return node->params.normalize.has_shift ? 1 + gain_of(node) : 0;
}

static icl_tensor optional_input(const icl_tape *tape, const icl_node *node, int input) {
    return input > 0 ? icl_node_input(tape, node, input) : (icl_tensor){0};
}

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, IN);

    ICL_CHECK(icl_tape_output(tape, node, in.rank, in.shape, error));
    return icl_normalize(tape->backend, &node->params.normalize.how, node->value, in,
                         optional_input(tape, node, gain_of(node)), optional_input(tape, node, shift_of(node)), error);
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    icl_contribution d[MOST_INPUTS] = {{{0}, {0}, false}};
    icl_status status = ICL_OK;

    for (int i = 0; i < node->input_count; i++) {
        const icl_tensor input = icl_node_input(tape, node, i);
        if (i == IN || icl_gradient_wanted(tape, node->inputs[i]))
            ICL_TRY(icl_contribution_begin(tape, node->inputs[i], input.rank, input.shape, &d[i], error));
    }
    ICL_TRY(icl_normalize_backward(tape->backend, &node->params.normalize.how, d[IN].tensor,
                                   gain_of(node) ? d[gain_of(node)].tensor : (icl_tensor){0},
                                   shift_of(node) ? d[shift_of(node)].tensor : (icl_tensor){0}, gradient,
                                   icl_node_input(tape, node, IN), optional_input(tape, node, gain_of(node)), error));
    for (int i = 0; i < node->input_count; i++)
        if (d[i].tensor.buffer)
            ICL_TRY(icl_contribution_end(tape, &d[i], error));
done:
    for (int i = 0; i < MOST_INPUTS; i++)
        icl_contribution_drop(&d[i]);
    return status;
}

static const icl_operation normalize_operation = {"normalize", forward, backward, NULL};

icl_variable icl_tape_normalize(icl_tape *tape, const icl_normalize_params *params, icl_variable in,
                                const icl_variable *gain, const icl_variable *shift) {
    icl_node node = {.operation = &normalize_operation,
                     .inputs = {in},
                     .input_count = 1,
                     .params.normalize = {*params, gain != NULL, shift != NULL}};
    if (gain)
        node.inputs[node.input_count++] = *gain;
    if (shift)
        node.inputs[node.input_count++] = *shift;
    return icl_tape_record(tape, &node);
}
