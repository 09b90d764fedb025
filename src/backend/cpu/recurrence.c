/* Recurrences: the threads share batches and heads, and in the forward pass blocks of their values. kernels/recurrence/
 * describes what a block computes, and how little memory it takes. */
#include <string.h>

#include "backend/cpu/host.h"
#include "iclab/status.h"

enum { K = ICL_RECURRENCE_K, V = ICL_RECURRENCE_V, DECAY = ICL_RECURRENCE_DECAY, INPUTS = ICL_RECURRENCE_INPUTS };

typedef HOST(recurrence_plan) recurrence_plan;

typedef struct pass {
    const recurrence_plan *plan;
    const HOST(kernels) * kernels;
    size_t block, blocks; /* forward: values of a block; blocks, or from rows segments, of a batch and head */
    char *workspace;
    size_t workspace_per_thread;
} pass;

static HOST(recurrence_operand) operand_of(const icl_tensor *t) {
    HOST(recurrence_operand) x = {0};
    if (!t->buffer)
        return x;
    x.elements = host_elements(t);
    memcpy(x.stride, t->stride, sizeof x.stride);
    return x;
}

static recurrence_plan describe(const icl_recurrence_params *params, const icl_tensor *inputs) {
    const icl_tensor *values = &inputs[V];
    recurrence_plan plan = {.items = values->shape[0] * values->shape[1],
                            .heads = values->shape[1],
                            .tokens = values->shape[2],
                            .m = inputs[K].shape[3],
                            .n = values->shape[3],
                            .scale = (real)params->scale,
                            .delta = params->delta,
                            .by_channel = inputs[DECAY].buffer && inputs[DECAY].shape[3] > 1};
    for (int i = 0; i < INPUTS; i++)
        plan.input[i] = operand_of(&inputs[i]);
    return plan;
}

/* Runs `items` tasks of `work` multiply-adds each, with a workspace of `bytes` for each thread. */
static icl_status run(icl_backend *backend, pass *sweep, size_t items, size_t work, size_t bytes,
                      icl_thread_items *task, icl_error *error) {
    const HOST(state) *state = host_state(backend);

    sweep->workspace_per_thread = host_round_up(bytes, 64);
    ICL_CHECK(HOST(scratch)(backend, state->threads * sweep->workspace_per_thread, &sweep->workspace, error));
    HOST(run)(state, items, items * work, task, sweep);
    return ICL_OK;
}

static void run_blocks(void *context, size_t first, size_t last, size_t thread) {
    const pass *sweep = context;
    for (size_t item = first; item < last; item++) {
        const size_t start = item % sweep->blocks * sweep->block, left = sweep->plan->n - start;
        sweep->kernels->recurrence_forward(sweep->plan, item / sweep->blocks, start,
                                           left < sweep->block ? left : sweep->block,
                                           sweep->workspace + thread * sweep->workspace_per_thread);
    }
}

static void run_rows(void *context, size_t first, size_t last, size_t thread) {
    const pass *sweep = context;
    for (size_t item = first; item < last; item++)
        sweep->kernels->recurrence_rows(sweep->plan, item / sweep->blocks, item % sweep->blocks,
                                        sweep->workspace + thread * sweep->workspace_per_thread);
}

static void run_backward(void *context, size_t first, size_t last, size_t thread) {
    const pass *sweep = context;
    for (size_t item = first; item < last; item++)
        sweep->kernels->recurrence_backward(sweep->plan, item, sweep->workspace + thread * sweep->workspace_per_thread);
}

/* The most bytes of a state that leave room in the nearest cache for the tokens' rows. */
#define LARGEST_STATE ((size_t)24 << 10)

/* Returns how many values a block has: as many as the kernel takes, or fewer if the state would be large or threads
 * would have no work. The results are the same. */
static size_t choose_block(const HOST(state) * state, const recurrence_plan *plan, size_t items) {
    const size_t lanes = state->kernels->recurrence_lanes;
    size_t block = state->kernels->recurrence_block;
    while (block > lanes &&
           (block * plan->m * sizeof(real) > LARGEST_STATE || items * ((plan->n + block - 1) / block) < state->threads))
        block = host_round_up(block / 2, lanes);
    return block;
}

icl_status HOST(recurrence_forward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                    icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_tensor *out = &operands[ICL_RECURRENCE_OUT];
    const size_t items = out->shape[0] * out->shape[1];
    recurrence_plan plan = describe(params, &operands[ICL_RECURRENCE_FORWARD_INPUTS]);
    pass sweep = {.plan = &plan, .kernels = state->kernels, .block = choose_block(state, &plan, items)};

    plan.out = operand_of(out);
    plan.final = operand_of(&operands[ICL_RECURRENCE_FINAL]);
    plan.reads = operand_of(&operands[ICL_RECURRENCE_READS]);
    plan.states = operand_of(&operands[ICL_RECURRENCE_STATES]);
    if (((const icl_recurrence_params *)params)->from_rows) {
        sweep.blocks = (plan.tokens + ICL_RECURRENCE_SEGMENT - 1) / ICL_RECURRENCE_SEGMENT;
        return run(backend, &sweep, items * sweep.blocks, ICL_RECURRENCE_SEGMENT * plan.m * plan.n * 3,
                   state->kernels->recurrence_rows_workspace(&plan), run_rows, error);
    }
    sweep.blocks = (plan.n + sweep.block - 1) / sweep.block;
    return run(backend, &sweep, items * sweep.blocks,
               plan.tokens * plan.m * (plan.n < sweep.block ? plan.n : sweep.block) * 3,
               state->kernels->recurrence_forward_workspace(&plan), run_blocks, error);
}

icl_status HOST(recurrence_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                     icl_error *error) {
    const HOST(kernels) *kernels = host_state(backend)->kernels;
    const icl_tensor *d_out = &operands[ICL_RECURRENCE_BACKWARD_D_OUT];
    recurrence_plan plan = describe(params, &operands[ICL_RECURRENCE_BACKWARD_INPUTS]);
    pass sweep = {.plan = &plan, .kernels = kernels};

    for (int i = 0; i < INPUTS; i++)
        plan.gradient[i] = operand_of(&operands[i]);
    plan.d_out = operand_of(d_out);
    plan.d_final = operand_of(&operands[ICL_RECURRENCE_BACKWARD_D_FINAL]);
    plan.final = operand_of(&operands[ICL_RECURRENCE_BACKWARD_FINAL]);
    plan.reads = operand_of(&operands[ICL_RECURRENCE_BACKWARD_READS]);
    plan.states = operand_of(&operands[ICL_RECURRENCE_BACKWARD_STATES]);
    return run(backend, &sweep, d_out->shape[0] * d_out->shape[1], plan.tokens * plan.m * plan.n * 7,
               kernels->recurrence_backward_workspace(&plan), run_backward, error);
}
