/* The tape itself: recording, sticky errors, and gradients on the walk backwards. Each op is in the file of its
 * family. */
#include "tape/record.h"

#include <string.h>

#include "core/allocate.h"

/* ---- Shapes ---- */

bool icl_same_shape(const icl_tensor *tensor, int rank, const size_t *shape) {
    if (tensor->rank != rank)
        return false;
    for (int i = 0; i < rank; i++)
        if (tensor->shape[i] != shape[i])
            return false;
    return true;
}

void icl_broadcast_shape(const icl_tensor *a, const icl_tensor *b, int *rank, size_t *shape) {
    *rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < *rank; i++) {
        const int in_a = i - (*rank - a->rank), in_b = i - (*rank - b->rank);
        const size_t from_a = in_a < 0 ? 1 : a->shape[in_a], from_b = in_b < 0 ? 1 : b->shape[in_b];
        shape[i] = from_a == 1 ? from_b : from_a;
    }
}

icl_tensor icl_with_rank(icl_tensor tensor, int rank) {
    icl_tensor out = tensor;
    const int shift = rank - tensor.rank;
    const size_t whole = tensor.rank > 0 ? tensor.shape[0] * tensor.stride[0] : 1;

    out.rank = rank;
    for (int i = 0; i < rank; i++) {
        out.shape[i] = i < shift ? 1 : tensor.shape[i - shift];
        out.stride[i] = i < shift ? (whole == 0 ? 1 : whole) : tensor.stride[i - shift];
    }
    return out;
}

/* ---- Recording ---- */

icl_status icl_tape_create(icl_backend *backend, icl_tape **tape, icl_error *error) {
    const icl_status status = icl_allocate(1, sizeof **tape, "tape", tape, error);
    if (status == ICL_OK)
        (*tape)->backend = backend;
    return status;
}

void icl_tape_rewind(icl_tape *tape, icl_variable last) {
    const size_t kept = (size_t)last.index + 1;

    for (size_t i = kept; i < tape->node_count; i++) {
        icl_node *node = &tape->nodes[i];
        if (node->owns_value)
            icl_tensor_release(&node->value);
        icl_tensor_release(&node->saved);
    }
    tape->node_count = kept < tape->node_count ? kept : tape->node_count;
    tape->drops_out = false;
    tape->error.status = ICL_OK;
    tape->error.message[0] = '\0';
}

void icl_tape_reset(icl_tape *tape) {
    icl_tape_rewind(tape, (icl_variable){-1});
}

/* Releases the tables of rotary positions (sequence.c). */
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

/* ---- Gradients: who holds a buffer, and who shares one ---- */

static icl_node *root_of(icl_tape *tape, icl_variable variable) {
    icl_node *node = &tape->nodes[variable.index];
    while (node->operation && node->operation->view)
        node = &tape->nodes[node->inputs[0].index];
    return node;
}

static icl_tensor view_of_root(const icl_tape *tape, icl_variable variable, icl_tensor root) {
    const icl_node *node = &tape->nodes[variable.index];
    if (!node->operation || !node->operation->view)
        return root;
    return node->operation->view(node, view_of_root(tape, node->inputs[0], root));
}

static icl_status new_slot(icl_tape *tape, icl_node *root, icl_error *error) {
    icl_gradient_slot slot = {.tensor = root->parameter_gradient, .users = 1, .borrowed = root->is_parameter};
    icl_status status =
        icl_grow(&tape->slots, tape->slot_count, &tape->slot_capacity, sizeof *tape->slots, "tape", error);

    if (status == ICL_OK && !slot.borrowed)
        status = icl_tensor_create(tape->backend, root->value.rank, root->value.shape, &slot.tensor, error);
    if (status != ICL_OK)
        return status;
    root->slot = (int)tape->slot_count;
    tape->slots[tape->slot_count++] = slot;
    return ICL_OK;
}

/* Ends the node's use of its slot; the last user releases the buffer. */
static void release_slot(icl_tape *tape, icl_node *node) {
    if (node->slot < 0)
        return;
    icl_gradient_slot *slot = &tape->slots[node->slot];
    if (--slot->users == 0 && !slot->borrowed)
        icl_tensor_release(&slot->tensor);
    node->slot = -1;
}

/* Copies the gradient to a new slot, because another node still reads the shared buffer. */
static icl_status unshare(icl_tape *tape, icl_node *root, icl_error *error) {
    const int shared = root->slot;
    ICL_CHECK(new_slot(tape, root, error));
    tape->slots[shared].users--;
    return icl_copy(tape->backend, tape->slots[root->slot].tensor, tape->slots[shared].tensor, error);
}

bool icl_gradient_wanted(const icl_tape *tape, icl_variable variable) {
    return tape->nodes[variable.index].differentiable;
}

icl_status icl_gradient_target(icl_tape *tape, icl_variable variable, icl_tensor *target, double *beta,
                               icl_error *error) {
    icl_node *root = root_of(tape, variable);
    const bool covers = icl_tensor_count(&tape->nodes[variable.index].value) == icl_tensor_count(&root->value);

    *beta = root->slot < 0 ? 0.0 : 1.0;
    if (root->slot < 0) {
        ICL_CHECK(new_slot(tape, root, error));
        if (!covers)
            ICL_CHECK(icl_fill(tape->backend, tape->slots[root->slot].tensor, 0.0, error));
    } else if (tape->slots[root->slot].users > 1) {
        ICL_CHECK(unshare(tape, root, error));
    }
    *target = view_of_root(tape, variable, tape->slots[root->slot].tensor);
    return ICL_OK;
}

/* ---- Gradients: how contributions come together ---- */

static icl_status accumulate(icl_tape *tape, icl_variable variable, double factor, icl_tensor contribution,
                             icl_error *error) {
    icl_tensor target;
    double beta;
    ICL_CHECK(icl_gradient_target(tape, variable, &target, &beta, error));
    return icl_scale_add(tape->backend, target, factor, contribution, beta, beta == 0.0 ? (icl_tensor){0} : target,
                         error);
}

/* Returns the axes of `contribution` along which a variable with this value was repeated. */
static unsigned repeated_axes(const icl_tensor *contribution, const icl_tensor *value) {
    const int shift = contribution->rank - value->rank;
    unsigned axes = 0;
    for (int i = 0; i < contribution->rank; i++)
        if (contribution->shape[i] != 1 && (i < shift || value->shape[i - shift] == 1))
            axes |= 1u << i;
    return axes;
}

icl_status icl_gradient_add(icl_tape *tape, icl_variable variable, double factor, icl_tensor contribution,
                            icl_error *error) {
    const icl_tensor value = tape->nodes[variable.index].value;
    const unsigned axes = repeated_axes(&contribution, &value);
    icl_tensor sum = {0};
    size_t shape[ICL_MAX_RANK];
    icl_status status = ICL_OK;

    if (!icl_gradient_wanted(tape, variable))
        return ICL_OK;
    if (axes == 0)
        return accumulate(tape, variable, factor, icl_with_rank(contribution, value.rank), error);
    for (int i = 0; i < contribution.rank; i++)
        shape[i] = axes & 1u << i ? 1 : contribution.shape[i];
    ICL_TRY(icl_tensor_create(tape->backend, contribution.rank, shape, &sum, error));
    ICL_TRY(icl_reduce(tape->backend, ICL_SUM, axes, sum, contribution, error));
    ICL_TRY(accumulate(tape, variable, factor, icl_with_rank(sum, value.rank), error));
done:
    icl_tensor_release(&sum);
    return status;
}

icl_status icl_gradient_share(icl_tape *tape, icl_variable variable, const icl_node *node, icl_tensor contribution,
                              icl_error *error) {
    icl_node *input = &tape->nodes[variable.index];
    const bool is_root = root_of(tape, variable) == input;

    if (!is_root || input->is_parameter || !input->differentiable || input->slot >= 0 ||
        !icl_same_shape(&contribution, input->value.rank, input->value.shape))
        return icl_gradient_add(tape, variable, 1.0, contribution, error);
    input->slot = node->slot;
    tape->slots[node->slot].users++;
    return ICL_OK;
}

icl_status icl_contribution_begin(icl_tape *tape, icl_variable variable, int rank, const size_t *shape,
                                  icl_contribution *contribution, icl_error *error) {
    double beta;

    *contribution = (icl_contribution){.variable = variable};
    if (icl_gradient_wanted(tape, variable) && root_of(tape, variable)->slot < 0 &&
        icl_same_shape(&tape->nodes[variable.index].value, rank, shape))
        return icl_gradient_target(tape, variable, &contribution->tensor, &beta, error);
    contribution->temporary = true;
    return icl_tensor_create(tape->backend, rank, shape, &contribution->tensor, error);
}

icl_status icl_contribution_end(icl_tape *tape, icl_contribution *contribution, icl_error *error) {
    icl_status status = ICL_OK;
    if (contribution->temporary)
        status = icl_gradient_add(tape, contribution->variable, 1.0, contribution->tensor, error);
    icl_contribution_drop(contribution);
    return status;
}

void icl_contribution_drop(icl_contribution *contribution) {
    if (contribution->temporary)
        icl_tensor_release(&contribution->tensor);
    contribution->temporary = false;
}

/* ---- The walk backwards ---- */

static icl_status seed(icl_tape *tape, icl_variable loss, icl_error *error) {
    const double count = (double)icl_tensor_count(&tape->nodes[loss.index].value);
    icl_tensor target;
    double beta;
    const icl_status status = icl_gradient_target(tape, loss, &target, &beta, error);
    return status == ICL_OK ? icl_fill(tape->backend, target, 1.0 / count, error) : status;
}

/* Inputs precede outputs, so in reverse order every gradient is complete when its node is reached. */
static icl_status walk(icl_tape *tape, icl_variable loss, icl_error *error) {
    for (int i = loss.index; i >= 0; i--) {
        icl_node *node = &tape->nodes[i];
        if (node->slot < 0 || !node->operation)
            continue;
        ICL_CHECK(node->operation->backward(tape, node, tape->slots[node->slot].tensor, error));
        release_slot(tape, node);
    }
    return ICL_OK;
}

static icl_status zero_unreached(icl_tape *tape, icl_error *error) {
    for (size_t i = 0; i < tape->node_count; i++) {
        const icl_node *node = &tape->nodes[i];
        if (node->is_parameter && node->slot < 0)
            ICL_CHECK(icl_fill(tape->backend, node->parameter_gradient, 0.0, error));
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
        release_slot(tape, &tape->nodes[i]);
    tape->slot_count = 0;
    return status;
}
