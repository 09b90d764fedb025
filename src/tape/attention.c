/* Linear and softmax attention. */
#include "tape/record.h"

enum { Q, K, V, INPUTS };

/*
 * With heads the node's value is [B, T, H, e], and models get a view of it with two axes swapped. A model that
 * continues with [B, T, H e] swaps them back and reshapes, without a copy; its gradient does so, too.
 */
static icl_tensor by_heads(icl_tensor value) {
    return value.rank == 4 ? icl_tensor_swap_axes(value, 1, 2) : value;
}

/* Writes the shape of `like`, but with this batch size. */
static void shape_with_batch(const icl_tensor *like, size_t batch, size_t shape[ICL_MAX_RANK]) {
    for (int axis = 0; axis < like->rank; axis++)
        shape[axis] = axis == 0 ? batch : like->shape[axis];
}

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor q = icl_node_input(tape, node, Q), k = icl_node_input(tape, node, K);
    const icl_tensor v = icl_node_input(tape, node, V);
    const int rank = q.rank;
    size_t shape[ICL_MAX_RANK], batch = 1;

    if (rank < 3 || rank > 4 || k.rank != rank || v.rank != rank)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "tape: attention over q, k, v of ranks %d, %d, %d, expected 3, or 4 with heads", q.rank, k.rank,
                        v.rank);
    for (int i = 0; i < INPUTS; i++)
        batch = batch == 1 ? icl_node_input(tape, node, i).shape[0] : batch;
    shape_with_batch(&q, batch, shape);
    shape[rank - 1] = 1;
    if (node->params.attention.kind == ICL_ATTENTION_SOFTMAX)
        ICL_CHECK(icl_tensor_create(tape->backend, rank, shape, &node->saved, error));
    shape[rank - 1] = v.shape[rank - 1];
    if (rank == 4) {
        shape[1] = q.shape[2];
        shape[2] = q.shape[1];
    }
    ICL_CHECK(icl_tape_output(tape, node, rank, shape, error));
    return icl_attention_forward(tape->backend, &node->params.attention, by_heads(node->value), node->saved, q, k, v,
                                 error);
}

/* Computes the gradient of q if no other is wanted: in linear attention, d_q_i = scale * sum_j (g_i . v_j) k_j is
 * attention with keys and values exchanged. */
static icl_status query_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor q = icl_node_input(tape, node, Q);
    size_t shape[ICL_MAX_RANK];
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    shape_with_batch(&q, gradient.shape[0], shape);
    ICL_TRY(icl_contribution_begin(tape, node->inputs[Q], q.rank, shape, &d, error));
    ICL_TRY(icl_attention_forward(tape->backend, &node->params.attention, d.tensor, (icl_tensor){0}, by_heads(gradient),
                                  icl_node_input(tape, node, V), icl_node_input(tape, node, K), error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const bool softmax = node->params.attention.kind == ICL_ATTENTION_SOFTMAX;
    icl_contribution d[INPUTS] = {{{0}, {0}, false}};
    icl_tensor inputs[INPUTS], copies[INPUTS] = {{0}};
    icl_status status = ICL_OK;

    if (!softmax && !icl_gradient_wanted(tape, node->inputs[K]) && !icl_gradient_wanted(tape, node->inputs[V]))
        return query_backward(tape, node, gradient, error);

    for (int i = 0; i < INPUTS; i++) {
        size_t shape[ICL_MAX_RANK] = {0};
        inputs[i] = icl_node_input(tape, node, i);
        shape_with_batch(&inputs[i], gradient.shape[0], shape);
        if (inputs[i].shape[0] != shape[0]) { /* the backward op accepts no repeated operand */
            ICL_TRY(icl_tensor_create(tape->backend, inputs[i].rank, shape, &copies[i], error));
            ICL_TRY(icl_copy(tape->backend, copies[i], inputs[i], error));
            inputs[i] = copies[i];
        }
        ICL_TRY(icl_contribution_begin(tape, node->inputs[i], inputs[i].rank, shape, &d[i], error));
    }
    ICL_TRY(icl_attention_backward(tape->backend, &node->params.attention, d[Q].tensor, d[K].tensor, d[V].tensor,
                                   by_heads(gradient), softmax ? by_heads(node->value) : (icl_tensor){0}, node->saved,
                                   inputs[Q], inputs[K], inputs[V], error));
    for (int i = 0; i < INPUTS; i++)
        ICL_TRY(icl_contribution_end(tape, &d[i], error));
done:
    for (int i = 0; i < INPUTS; i++) {
        icl_contribution_drop(&d[i]);
        icl_tensor_release(&copies[i]);
    }
    return status;
}

static const icl_operation attention_operation = {"attention", forward, backward, NULL};

icl_variable icl_tape_attention(icl_tape *tape, const icl_attention_params *params, icl_variable q, icl_variable k,
                                icl_variable v) {
    const icl_variable out = icl_tape_record(tape, &(icl_node){.operation = &attention_operation,
                                                               .inputs = {q, k, v},
                                                               .input_count = INPUTS,
                                                               .params.attention = *params});
    return icl_tape_value(tape, out).rank == 4 ? icl_tape_swap_axes(tape, out, 1, 2) : out;
}
