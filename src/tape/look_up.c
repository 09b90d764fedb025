/* Rows by number. The gradient of the table adds the rows of one number up; symbols have none. */
#include "iclab/ops_sequence.h"

#include <string.h>

#include "tape/record.h"

enum { TABLE, SYMBOLS };

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor table = icl_node_input(tape, node, TABLE), symbols = icl_node_input(tape, node, SYMBOLS);
    size_t shape[ICL_MAX_RANK];

    if (table.rank != 2 || symbols.rank >= ICL_MAX_RANK)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "tape: look-up of symbols of rank %d in a table of rank %d, expected at most %d, and 2",
                        symbols.rank, table.rank, ICL_MAX_RANK - 1);
    memcpy(shape, symbols.shape, sizeof shape);
    shape[symbols.rank] = table.shape[1];
    ICL_CHECK(icl_tape_output(tape, node, symbols.rank + 1, shape, error));
    return icl_look_up(tape->backend, node->value, table, symbols, error);
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor table = icl_node_input(tape, node, TABLE);
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    if (!icl_gradient_wanted(tape, node->inputs[TABLE]))
        return ICL_OK;
    ICL_TRY(icl_contribution_begin(tape, node->inputs[TABLE], 2, table.shape, &d, error));
    ICL_TRY(icl_look_up_backward(tape->backend, d.tensor, gradient, icl_node_input(tape, node, SYMBOLS), error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation look_up_operation = {"look_up", forward, backward, NULL};

icl_variable icl_tape_look_up(icl_tape *tape, icl_variable table, icl_variable symbols) {
    return icl_tape_record(tape,
                           &(icl_node){.operation = &look_up_operation, .inputs = {table, symbols}, .input_count = 2});
}
