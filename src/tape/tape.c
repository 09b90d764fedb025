/* The tape itself: recording, sticky errors and the walk backwards. What each op does is in the file of
 * its family. */
#include "tape/record.h"

#include <string.h>

#include "core/allocate.h"

icl_status icl_tape_create(icl_backend *backend, icl_tape **tape, icl_error *error) {
    const icl_status status = icl_allocate(1, sizeof **tape, "tape", tape, error);
    if (status == ICL_OK)
        (*tape)->backend = backend;
    return status;
}

void icl_tape_reset(icl_tape *tape) {
    for (size_t i = 0; i < tape->node_count; i++) {
        icl_node *node = &tape->nodes[i];
        if (node->owns_value)
            icl_tensor_release(&node->value);
        icl_tensor_release(&node->saved);
    }
    tape->node_count = 0;
    tape->error.status = ICL_OK;
    tape->error.message[0] = '\0';
}

/* The tables of rotate.c. */
static void release_rotary(icl_tape *tape) {
    while (tape->rotary) {
        icl_rotary_table *next = tape->rotary->next;
        icl_tensor_release(&tape->rotary->angles);
        icl_free(&tape->rotary);
        tape->rotary = next;
    }
}

void icl_tape_destroy(icl_tape **tape) {
    if (!*tape)
        return;
    icl_tape_reset(*tape);
    release_rotary(*tape);
    icl_free(&(*tape)->nodes);
    icl_free(&(*tape)->slots);
    icl_free(tape);
}

icl_status icl_tape_status(const icl_tape *tape, icl_error *error) {
    if (tape->error.status != ICL_OK && error)
        *error = tape->error;
    return tape->error.status;
}

void icl_tape_fail(icl_tape *tape, const icl_error *error) {
    if (tape->error.status == ICL_OK)
        tape->error = *error;
}

icl_backend *icl_tape_backend(const icl_tape *tape) {
    return tape->backend;
}

static bool is_on_tape(const icl_tape *tape, icl_variable variable) {
    return variable.index >= 0 && (size_t)variable.index < tape->node_count;
}

icl_tensor icl_tape_value(const icl_tape *tape, icl_variable variable) {
    if (tape->error.status != ICL_OK || !is_on_tape(tape, variable))
        return (icl_tensor){0};
    return tape->nodes[variable.index].value;
}

icl_tensor icl_node_input(const icl_tape *tape, const icl_node *node, int input) {
    return tape->nodes[node->inputs[input].index].value;
}

icl_status icl_tape_output(icl_tape *tape, icl_node *node, int rank, const size_t *shape, icl_error *error) {
    const icl_status status = icl_tensor_create(tape->backend, rank, shape, &node->value, error);
    node->owns_value = status == ICL_OK;
    return status;
}

static icl_status check_inputs(const icl_tape *tape, const icl_node *node, icl_error *error) {
    for (int i = 0; i < node->input_count; i++)
        if (!is_on_tape(tape, node->inputs[i]))
            return icl_fail(error, ICL_ERROR_INPUT, "tape: input %d of %s is variable %d, but the tape holds %zu", i,
                            node->operation->name, node->inputs[i].index, tape->node_count);
    return ICL_OK;
}

icl_variable icl_tape_record(icl_tape *tape, icl_node *node) {
    icl_status status = tape->error.status;
    icl_error *error = &tape->error;

    if (status != ICL_OK)
        return (icl_variable){-1};
    node->slot = -1;
    ICL_TRY(icl_grow(&tape->nodes, tape->node_count, &tape->node_capacity, sizeof *tape->nodes, "tape", error));
    if (node->operation) {
        ICL_TRY(check_inputs(tape, node, error));
        for (int i = 0; i < node->input_count; i++)
            node->differentiable |= !node->constant && tape->nodes[node->inputs[i].index].differentiable;
        ICL_TRY(node->operation->forward(tape, node, error));
    }
    tape->nodes[tape->node_count] = *node;
    return (icl_variable){(int)tape->node_count++};

done:
    error->status = status;
    if (node->owns_value)
        icl_tensor_release(&node->value);
    icl_tensor_release(&node->saved);
    return (icl_variable){-1};
}

icl_variable icl_tape_constant(icl_tape *tape, icl_tensor value) {
    return icl_tape_record(tape, &(icl_node){.value = value});
}

icl_variable icl_tape_parameter(icl_tape *tape, icl_tensor value, icl_tensor gradient) {
    if (tape->error.status == ICL_OK && !icl_same_shape(&gradient, value.rank, value.shape))
        icl_fail(&tape->error, ICL_ERROR_INPUT, "tape: a parameter's gradient must have the shape of its value");
    return icl_tape_record(
        tape,
        &(icl_node){.value = value, .parameter_gradient = gradient, .is_parameter = true, .differentiable = true});
}

/* ---- The walk backwards ---- */

static icl_status seed(icl_tape *tape, icl_variable loss, icl_error *error) {
    const double count = (double)icl_tensor_count(&tape->nodes[loss.index].value);
    icl_tensor target;
    double beta;
    const icl_status status = icl_gradient_target(tape, loss, &target, &beta, error);
    return status == ICL_OK ? icl_fill(tape->backend, target, 1.0 / count, error) : status;
}

/* Inputs stand before outputs, so in reverse order every gradient is complete when its node is reached. */
static icl_status walk(icl_tape *tape, icl_variable loss, icl_error *error) {
    for (int i = loss.index; i >= 0; i--) {
        icl_node *node = &tape->nodes[i];
        if (node->slot < 0 || !node->operation)
            continue;
        const icl_status status = node->operation->backward(tape, node, tape->slots[node->slot].tensor, error);
        if (status != ICL_OK)
            return status;
        icl_gradient_release(tape, node);
    }
    return ICL_OK;
}

static icl_status zero_unreached(icl_tape *tape, icl_error *error) {
    for (size_t i = 0; i < tape->node_count; i++) {
        const icl_node *node = &tape->nodes[i];
        if (node->is_parameter && node->slot < 0) {
            const icl_status status = icl_fill(tape->backend, node->parameter_gradient, 0.0, error);
            if (status != ICL_OK)
                return status;
        }
    }
    return ICL_OK;
}

icl_status icl_tape_backward(icl_tape *tape, icl_variable loss, icl_error *error) {
    icl_status status = icl_tape_status(tape, error);

    if (status != ICL_OK)
        return status;
    if (!is_on_tape(tape, loss))
        return icl_fail(error, ICL_ERROR_INPUT, "tape: the loss is variable %d, but the tape holds %zu", loss.index,
                        tape->node_count);
    if (icl_tensor_count(&tape->nodes[loss.index].value) == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "tape: the loss has no elements, expected at least one");
    if (icl_gradient_wanted(tape, loss)) {
        ICL_TRY(seed(tape, loss, error));
        ICL_TRY(walk(tape, loss, error));
    }
    ICL_TRY(zero_unreached(tape, error));

done:
    for (size_t i = 0; i < tape->node_count; i++)
        icl_gradient_release(tape, &tape->nodes[i]);
    tape->slot_count = 0;
    return status;
}
