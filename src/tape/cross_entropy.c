/* Cross-entropy of logits and the numbers of classes, which have no gradient. */
#include "tape/record.h"

enum { LOGITS = 0, CLASSES };

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor logits = icl_node_input(tape, node, LOGITS), classes = icl_node_input(tape, node, CLASSES);

    ICL_CHECK(icl_tape_output(tape, node, classes.rank, classes.shape, error));
    return icl_cross_entropy(tape->backend, node->value, logits, classes, error);
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor logits = icl_node_input(tape, node, LOGITS), classes = icl_node_input(tape, node, CLASSES);
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    if (!icl_gradient_wanted(tape, node->inputs[LOGITS]))
        return ICL_OK;
    ICL_TRY(icl_contribution_begin(tape, node->inputs[LOGITS], logits.rank, logits.shape, &d, error));
    ICL_TRY(icl_cross_entropy_backward(tape->backend, d.tensor, gradient, logits, classes, error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation cross_entropy_operation = {"cross_entropy", forward, backward, NULL};

icl_variable icl_tape_cross_entropy(icl_tape *tape, icl_variable logits, icl_variable classes) {
    return icl_tape_record(
        tape, &(icl_node){.operation = &cross_entropy_operation, .inputs = {logits, classes}, .input_count = 2});
}
