/* Gradient buffers during the walk backwards: who holds one, who shares one, and how contributions come
 * together. */
#include "tape/record.h"

#include <string.h>

#include "core/allocate.h"

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

/* ---- Slots ---- */

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

void icl_gradient_release(icl_tape *tape, icl_node *node) {
    if (node->slot < 0)
        return;
    icl_gradient_slot *slot = &tape->slots[node->slot];
    if (--slot->users == 0 && !slot->borrowed)
        icl_tensor_release(&slot->tensor);
    node->slot = -1;
}

/* Another node still reads this buffer: leave it to that node. */
static icl_status unshare(icl_tape *tape, icl_node *root, icl_error *error) {
    const int shared = root->slot;
    const icl_status status = new_slot(tape, root, error);
    if (status != ICL_OK)
        return status;
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

/* ---- Contributions ---- */

static icl_status accumulate(icl_tape *tape, icl_variable variable, double factor, icl_tensor contribution,
                             icl_error *error) {
    icl_tensor target;
    double beta;
    const icl_status status = icl_gradient_target(tape, variable, &target, &beta, error);
    if (status != ICL_OK)
        return status;
    return icl_scale_add(tape->backend, target, factor, contribution, beta, beta == 0.0 ? (icl_tensor){0} : target,
                         error);
}

/* The axes of `contribution` along which a variable of this shape was repeated. */
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
