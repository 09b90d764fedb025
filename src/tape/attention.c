/* Linear and softmax attention. */
#include "tape/record.h"

enum { Q, K, V };

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor q = icl_node_input(tape, node, Q), k = icl_node_input(tape, node, K);
    const icl_tensor v = icl_node_input(tape, node, V);
    size_t shape[3] = {1, 0, 1};

    if (q.rank != 3 || k.rank != 3 || v.rank != 3)
        return icl_fail(error, ICL_ERROR_INPUT, "tape: attention over q, k, v of ranks %d, %d, %d, expected 3", q.rank,
                        k.rank, v.rank);
    for (int i = 0; i < node->input_count; i++) {
        const size_t batch = icl_node_input(tape, node, i).shape[0];
        shape[0] = shape[0] == 1 ? batch : shape[0];
    }
    shape[1] = q.shape[1];
    if (node->params.attention.kind == ICL_ATTENTION_SOFTMAX)
        ICL_CHECK(icl_tensor_create(tape->backend, 3, shape, &node->saved, error));
    shape[2] = v.shape[2];
    ICL_CHECK(icl_tape_output(tape, node, 3, shape, error));
    return icl_attention_forward(tape->backend, &node->params.attention, node->value, node->saved, q, k, v, error);
}

/* Where q alone is wanted, linear attention's d_q_i = scale * sum_j (g_i . v_j) k_j is attention with keys
 * and values exchanged. */
static icl_status query_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_tensor q = icl_node_input(tape, node, Q);
    const size_t shape[3] = {gradient.shape[0], q.shape[1], q.shape[2]};
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_contribution_begin(tape, node->inputs[Q], 3, shape, &d, error));
    ICL_TRY(icl_attention_forward(tape->backend, &node->params.attention, d.tensor, (icl_tensor){0}, gradient,
                                  icl_node_input(tape, node, V), icl_node_input(tape, node, K), error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const bool softmax = node->params.attention.kind == ICL_ATTENTION_SOFTMAX;
    icl_contribution d[ICL_NODE_INPUTS] = {{{0}, {0}, false}};
    icl_tensor inputs[ICL_NODE_INPUTS], copies[ICL_NODE_INPUTS] = {{0}};
    icl_status status = ICL_OK;

    if (!softmax && !icl_gradient_wanted(tape, node->inputs[K]) && !icl_gradient_wanted(tape, node->inputs[V]))
        return query_backward(tape, node, gradient, error);

    for (int i = 0; i < ICL_NODE_INPUTS; i++) {
        inputs[i] = icl_node_input(tape, node, i);
        const size_t shape[3] = {gradient.shape[0], inputs[i].shape[1], inputs[i].shape[2]};
        if (inputs[i].shape[0] != shape[0]) { /* the backward op takes no operand that repeats */
            ICL_TRY(icl_tensor_create(tape->backend, 3, shape, &copies[i], error));
            ICL_TRY(icl_copy(tape->backend, copies[i], inputs[i], error));
            inputs[i] = copies[i];
        }
        ICL_TRY(icl_contribution_begin(tape, node->inputs[i], 3, shape, &d[i], error));
    }
    ICL_TRY(icl_attention_backward(tape->backend, &node->params.attention, d[Q].tensor, d[K].tensor, d[V].tensor,
                                   gradient, softmax ? node->value : (icl_tensor){0}, node->saved, inputs[Q], inputs[K],
                                   inputs[V], error));
    for (int i = 0; i < ICL_NODE_INPUTS; i++)
        ICL_TRY(icl_contribution_end(tape, &d[i], error));
done:
    for (int i = 0; i < ICL_NODE_INPUTS; i++) {
        icl_contribution_drop(&d[i]);
        icl_tensor_release(&copies[i]);
    }
    return status;
}

static const icl_operation attention_operation = {"attention", forward, backward, NULL};

icl_variable icl_tape_attention(icl_tape *tape, const icl_attention_params *params, icl_variable q, icl_variable k,
                                icl_variable v) {
    return icl_tape_record(tape, &(icl_node){.operation = &attention_operation,
                                             .inputs = {q, k, v},
                                             .input_count = 3,
                                             .params.attention = *params});
}
