/*
 * Recurrences. The op's value is one tensor: the outputs, in memory as [B, T, H, .], so that joining heads is a view,
 * followed by the final state [B, H, m, n] if it is asked for. The caller gets views of it, so the gradients of both
 * meet in one tensor, and the op is differentiated once.
 */
#include "iclab/ops_recurrence.h"

#include "backend/op_families.h"
#include "tape/record.h"

enum { INPUTS = ICL_RECURRENCE_INPUTS };

/* Extents, and the sizes of the parts of the value and of what is saved. */
typedef struct layout {
    size_t batch, heads, tokens, m, n;
    size_t outputs; /* of a token: n, or m from the other side */
    size_t out, reads, state,
        states; /* elements of out, of reads, of the state of all heads, and of all saved states */
} layout;

/* Returns the part of a flat tensor that begins at *start, as a view of this shape, and moves *start after it. */
static icl_tensor part_of(icl_tensor flat, size_t *start, int rank, const size_t *shape) {
    size_t count = 1;
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    const icl_tensor part = icl_tensor_reshape(icl_tensor_slice(flat, 0, *start, count), rank, shape);
    *start += count;
    return part;
}

/* Lists the node's inputs in the order of icl_recurrence_inputs; bit i of `present` says that input i is there. */
static void gather(const icl_tape *tape, const icl_node *node, icl_tensor list[INPUTS]) {
    int next = 0;
    for (int i = 0; i < INPUTS; i++)
        list[i] = node->params.recurrence.present >> i & 1 ? icl_node_input(tape, node, next++) : (icl_tensor){0};
}

static layout layout_of(const icl_recurrence_params *params, const icl_tensor list[INPUTS]) {
    layout shape = {.batch = 1, .heads = 1, .tokens = 1};
    for (int i = 0; i < INPUTS; i++) {
        const icl_tensor x = icl_with_rank(list[i], 4);
        if (!x.buffer)
            continue;
        shape.batch = shape.batch == 1 ? x.shape[0] : shape.batch;
        shape.heads = shape.heads == 1 ? x.shape[1] : shape.heads;
        if (i != ICL_RECURRENCE_STATE)
            shape.tokens = shape.tokens == 1 ? x.shape[2] : shape.tokens;
    }
    shape.m = icl_with_rank(list[ICL_RECURRENCE_K], 4).shape[3];
    shape.n = icl_with_rank(list[ICL_RECURRENCE_V], 4).shape[3];
    shape.outputs = params->from_rows ? shape.m : shape.n;
    shape.out = shape.batch * shape.tokens * shape.heads * shape.outputs;
    shape.reads = shape.batch * shape.tokens * shape.heads * shape.n;
    shape.state = shape.batch * shape.heads * shape.m * shape.n;
    shape.states = (shape.tokens + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT * shape.state;
    return shape;
}

/* Returns views of the value, or of its gradient: out [B, H, T, outputs], and the final state, which is absent unless
 * asked for. */
static void split_value(const layout *shape, icl_tensor value, icl_tensor *out, icl_tensor *final) {
    size_t start = 0;
    *out = icl_tensor_swap_axes(
        part_of(value, &start, 4, (const size_t[]){shape->batch, shape->tokens, shape->heads, shape->outputs}), 1, 2);
    *final = start < value.shape[0] || shape->state == 0
                 ? part_of(value, &start, 4, (const size_t[]){shape->batch, shape->heads, shape->m, shape->n})
                 : (icl_tensor){0};
}

/* Returns views of node->saved. `final` is left as it is if the value holds it. */
static icl_recurrence_saved split_saved(const icl_node *node, const layout *shape, icl_tensor *final) {
    const size_t rows = shape->tokens == 0 ? 0 : (shape->tokens - 1) / ICL_RECURRENCE_SEGMENT + 1;
    icl_recurrence_saved saved = {0};
    size_t start = 0;

    if (node->params.recurrence.call.delta)
        saved.reads =
            part_of(node->saved, &start, 4, (const size_t[]){shape->batch, shape->heads, shape->tokens, shape->n});
    saved.states =
        part_of(node->saved, &start, 4, (const size_t[]){shape->batch, shape->heads, rows * shape->m, shape->n});
    if (!node->params.recurrence.has_final)
        *final = part_of(node->saved, &start, 4, (const size_t[]){shape->batch, shape->heads, shape->m, shape->n});
    return saved;
}

static icl_status forward(icl_tape *tape, icl_node *node, icl_error *error) {
    icl_tensor list[INPUTS], out, final;
    icl_recurrence_saved saved = {0};
    const bool has_final = node->params.recurrence.has_final;

    gather(tape, node, list);
    for (int i = 0; i < INPUTS; i++)
        if (list[i].rank > 4 || (i <= ICL_RECURRENCE_V && list[i].rank < 1))
            return icl_fail(error, ICL_ERROR_INPUT, "tape: recurrence over an input of rank %d, expected 4",
                            list[i].rank);
    const layout shape = layout_of(&node->params.recurrence.call, list);
    const size_t count = shape.out + (has_final ? shape.state : 0);
    const size_t saved_count =
        (node->params.recurrence.call.delta ? shape.reads : 0) + shape.states + (has_final ? 0 : shape.state);

    ICL_CHECK(icl_tape_output(tape, node, 1, &count, error));
    if (node->differentiable)
        ICL_CHECK(icl_tensor_create(tape->backend, 1, &saved_count, &node->saved, error));
    split_value(&shape, node->value, &out, &final);
    if (node->differentiable)
        saved = split_saved(node, &shape, &final);
    const icl_recurrence_inputs inputs = icl_recurrence_named(list);
    return icl_recurrence_forward(tape->backend, &node->params.recurrence.call, out, final,
                                  node->differentiable ? &saved : NULL, &inputs, error);
}

static icl_status backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    icl_tensor list[INPUTS], d_list[INPUTS] = {{0}}, d_out, d_final, out, final;
    icl_contribution d[INPUTS] = {{{0}, {0}, false}};
    icl_status status = ICL_OK;

    gather(tape, node, list);
    const layout is = layout_of(&node->params.recurrence.call, list);
    split_value(&is, gradient, &d_out, &d_final);
    split_value(&is, node->value, &out, &final);
    const icl_recurrence_saved saved = split_saved(node, &is, &final);
    for (int i = 0, next = 0; i < INPUTS; i++) {
        const icl_variable input = node->inputs[next];
        if (!list[i].buffer)
            continue;
        next++;
        if (!icl_gradient_wanted(tape, input))
            continue;
        const size_t rows = i == ICL_RECURRENCE_STATE ? is.m : is.tokens;
        const size_t columns = i == ICL_RECURRENCE_STATE ? is.n : icl_with_rank(list[i], 4).shape[3];
        const size_t shape[4] = {is.batch, is.heads, rows, columns};
        ICL_TRY(icl_contribution_begin(tape, input, 4, shape, &d[i], error));
        d_list[i] = d[i].tensor;
    }
    const icl_recurrence_inputs inputs = icl_recurrence_named(list), gradients = icl_recurrence_named(d_list);
    ICL_TRY(icl_recurrence_backward(tape->backend, &node->params.recurrence.call, &gradients, d_out, d_final, final,
                                    &saved, &inputs, error));
    for (int i = 0; i < INPUTS; i++)
        if (d_list[i].buffer)
            ICL_TRY(icl_contribution_end(tape, &d[i], error));
done:
    for (int i = 0; i < INPUTS; i++)
        icl_contribution_drop(&d[i]);
    return status;
}

static const icl_operation recurrence_operation = {"recurrence", forward, backward, NULL};

icl_variable icl_tape_recurrence(icl_tape *tape, const icl_recurrence_params *params,
                                 const icl_recurrence_variables *inputs, icl_variable *final) {
    const icl_variable *const list[INPUTS] = {&inputs->q,    &inputs->k,       &inputs->v,        inputs->beta,
                                              inputs->decay, inputs->read_key, inputs->write_key, inputs->state};
    icl_node node = {.operation = &recurrence_operation,
                     .params.recurrence = {.call = *params, .has_final = final != NULL}};
    icl_tensor tensors[INPUTS] = {{0}};

    for (int i = 0; i < INPUTS; i++)
        if (list[i]) {
            tensors[i] = icl_tape_value(tape, *list[i]);
            node.params.recurrence.present |= 1U << i;
            node.inputs[node.input_count++] = *list[i];
        }
    const icl_variable value = icl_tape_record(tape, &node);
    if (final)
        *final = value;
    if (!icl_tape_value(tape, value).buffer)
        return value;
    const layout is = layout_of(params, tensors);
    const size_t shape[4] = {is.batch, is.tokens, is.heads, is.outputs}, state[4] = {is.batch, is.heads, is.m, is.n};
    if (final)
        *final = icl_tape_reshape(tape, icl_tape_slice(tape, value, 0, is.out, is.state), 4, state);
    return icl_tape_swap_axes(tape, icl_tape_reshape(tape, icl_tape_slice(tape, value, 0, 0, is.out), 4, shape), 1, 2);
}
