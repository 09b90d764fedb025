/* Short causal convolutions. */
#include "iclab/ops_sequence.h"
#include "tape/record.h"

enum { IN, KERNEL };

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, IN);

    if (in.rank != 3)
        return icl_fail(error, ICL_ERROR_INPUT, "tape: convolution of a tensor of rank %d, expected 3", in.rank);
    ICL_CHECK(icl_tape_output(tape, node, 3, in.shape, error));
    return icl_convolve(tape->backend, node->value, in, icl_node_input(tape, node, KERNEL), error);
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor in[2] = {icl_node_input(tape, node, IN), icl_node_input(tape, node, KERNEL)};
    icl_contribution d[2] = {{.temporary = false}, {.temporary = false}};
    icl_status status = ICL_OK;

    for (int i = 0; i < 2; i++)
        if (icl_gradient_wanted(tape, node->inputs[i]))
            ICL_TRY(icl_contribution_begin(tape, node->inputs[i], in[i].rank, in[i].shape, &d[i], error));
    ICL_TRY(icl_convolve_backward(tape->backend, d[IN].tensor, d[KERNEL].tensor, gradient, in[IN], in[KERNEL], error));
    for (int i = 0; i < 2; i++)
        if (d[i].tensor.buffer)
            ICL_TRY(icl_contribution_end(tape, &d[i], error));
done:
    for (int i = 0; i < 2; i++)
        icl_contribution_drop(&d[i]);
    return status;
}

static const icl_operation convolve_operation = {"convolve", forward, backward, NULL};

icl_variable icl_tape_convolve(icl_tape *tape, icl_variable in, icl_variable kernel) {
    return icl_tape_record(tape,
                           &(icl_node){.operation = &convolve_operation, .inputs = {in, kernel}, .input_count = 2});
}
