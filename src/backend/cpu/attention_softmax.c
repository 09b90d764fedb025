/*
 * Softmax attention: blocks of queries, and on the way back of keys or whole sequences, shared out among the threads.
 * What a block computes, and with how little memory, is in softmax_forward.c and softmax_backward.c of
 * kernels/attention/. Where each sequence has one query, blocks of sequences: softmax_single.c.
 */
#include "backend/cpu/host.h"
#include "iclab/status.h"

/* From so many sequences of keys on, each is a task of the backward pass, in one pass; fewer are shared out in blocks,
 * in two, so that all threads have work. One thread has it anyway. Both give the same bits. */
#define ONE_PASS_BATCH 16

typedef HOST(softmax_plan) softmax_plan;
typedef HOST(softmax_kernel) block_kernel;

typedef struct pass {
    const softmax_plan *plan;
    block_kernel *kernel;
    bool owns_keys;                    /* a sequence is a group, not a head */
    size_t block, blocks_per_sequence; /* rows of a block; one block where a task is a sequence */
    char *workspace;
    size_t workspace_per_thread;
} pass;

static HOST(sequences) sequences_of(const icl_tensor *t) {
    return (HOST(sequences)){host_elements(t), {t->stride[0], t->stride[1], t->stride[2], t->stride[3]}};
}

/* qkv: q, k and v, adjacent among the operands; out: out and log_sum_exp. */
static softmax_plan describe(const icl_attention_params *params, const icl_tensor *out, const icl_tensor *qkv) {
    const size_t heads = qkv[0].shape[1], queries = qkv[0].shape[2], keys = qkv[1].shape[2];
    softmax_plan plan = {.heads = heads,
                         .repeats = heads / qkv[1].shape[1],
                         .queries = queries,
                         .keys = keys,
                         .sources = keys,
                         .reach = queries + keys,
                         .d = qkv[0].shape[3],
                         .e = qkv[2].shape[3],
                         .scale = (real)params->scale,
                         .q = sequences_of(&qkv[0]),
                         .k = sequences_of(&qkv[1]),
                         .v = sequences_of(&qkv[2]),
                         .out = sequences_of(&out[0]),
                         .log_sum_exp = sequences_of(&out[1])};
    if (params->mask == ICL_MASK_QUERY_EXCLUDED && keys > 0)
        plan.sources--;
    if (params->mask == ICL_MASK_CAUSAL)
        plan.reach = keys + 1;
    return plan;
}

/* The place of the sequence of this number. */
static HOST(place) place_of(const softmax_plan *plan, size_t sequence, bool owns_keys) {
    const size_t repeats = owns_keys ? 1 : plan->repeats, heads = plan->heads / (owns_keys ? plan->repeats : 1);
    const size_t head = sequence % heads, group = head / repeats;
    return (HOST(place)){sequence / heads, owns_keys ? group * plan->repeats : head, group};
}

static void run_blocks(void *context, size_t first, size_t last, size_t thread) {
    const pass *x = context;
    for (size_t item = first; item < last; item++)
        x->kernel(x->plan, place_of(x->plan, item / x->blocks_per_sequence, x->owns_keys),
                  item % x->blocks_per_sequence * x->block, x->workspace + thread * x->workspace_per_thread);
}

/* One kernel over the blocks of `rows` queries, or keys, of each sequence. */
static void run_pass(const icl_backend *backend, pass x, block_kernel *kernel, size_t batch, size_t rows,
                     bool owns_keys) {
    const softmax_plan *plan = x.plan;
    const size_t sequences = batch * plan->heads / (owns_keys ? plan->repeats : 1);

    x.kernel = kernel;
    x.owns_keys = owns_keys;
    x.block = host_state(backend)->kernels->softmax_block;
    x.blocks_per_sequence = (rows + x.block - 1) / x.block;
    HOST(run)
    (host_state(backend), sequences * x.blocks_per_sequence,
     batch * plan->heads * plan->queries * (plan->keys + 1) * (plan->d + plan->e + 4), run_blocks, &x);
}

/* A workspace of `bytes` for each thread, and `extra` reals behind them. */
static icl_status take_workspace(icl_backend *backend, size_t bytes, size_t extra, pass *x, real **behind,
                                 icl_error *error) {
    x->workspace_per_thread = host_round_up(bytes, 64);
    bytes = host_state(backend)->threads * x->workspace_per_thread;
    ICL_CHECK(HOST(scratch)(backend, bytes + extra * sizeof(real), &x->workspace, error));
    *behind = (real *)(void *)(x->workspace + bytes);
    return ICL_OK;
}

/* ---- One query a sequence ---- */

/* Scores of so many keys are kept for each lane: 256 KiB for floats in the widest lanes. */
#define MOST_KEYS_OF_SINGLE 1024

typedef void single_kernel(const softmax_plan *plan, HOST(place) at, size_t count, void *workspace);

typedef struct single_pass {
    const softmax_plan *plan;
    single_kernel *kernel;
    size_t batch, block, blocks; /* of each head */
    char *workspace;
    size_t workspace_per_thread;
} single_pass;

/* Fewer would leave more lanes empty than one query does, whose block is narrow, and cost the gathering of keys. */
#define LEAST_SINGLES 16

/* Whether lanes are sequences of the batch: one query would leave the lanes of a block of queries empty. The choice
 * looks at nothing but the shape. */
static bool is_single(const softmax_plan *plan, size_t batch) {
    return plan->queries == 1 && batch >= LEAST_SINGLES && plan->keys <= MOST_KEYS_OF_SINGLE;
}

static void run_sequences(void *context, size_t first, size_t last, size_t thread) {
    const single_pass *x = context;
    for (size_t item = first; item < last; item++) {
        const size_t head = item / x->blocks, start = item % x->blocks * x->block, left = x->batch - start;
        x->kernel(x->plan, (HOST(place)){start, head, head / x->plan->repeats}, left < x->block ? left : x->block,
                  x->workspace + thread * x->workspace_per_thread);
    }
}

static icl_status run_single(icl_backend *backend, const softmax_plan *plan, single_kernel *kernel, size_t batch,
                             icl_error *error) {
    const HOST(state) *state = host_state(backend);
    single_pass x = {.plan = plan, .kernel = kernel, .batch = batch, .block = state->kernels->softmax_block};

    x.blocks = (batch + x.block - 1) / x.block;
    x.workspace_per_thread = host_round_up(state->kernels->softmax_single_workspace(plan), 64);
    ICL_CHECK(HOST(scratch)(backend, state->threads * x.workspace_per_thread, &x.workspace, error));
    HOST(run)
    (state, plan->heads * x.blocks, batch * plan->heads * (plan->keys + 1) * (plan->d + plan->e + 4), run_sequences,
     &x);
    return ICL_OK;
}

/* ---- Either ---- */

icl_status HOST(softmax_forward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                 icl_error *error) {
    const HOST(kernels) *kernels = host_state(backend)->kernels;
    const softmax_plan plan = describe(params, operands, operands + 2);
    pass x = {.plan = &plan};
    real *unused;

    if (is_single(&plan, operands[0].shape[0]))
        return run_single(backend, &plan, kernels->softmax_single_forward, operands[0].shape[0], error);
    ICL_CHECK(take_workspace(backend, kernels->softmax_forward_workspace(&plan), 0, &x, &unused, error));
    run_pass(backend, x, kernels->softmax_forward, operands[0].shape[0], plan.queries, false);
    return ICL_OK;
}

icl_status HOST(softmax_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    const HOST(kernels) *kernels = host_state(backend)->kernels;
    softmax_plan plan = describe(params, operands + 4, operands + 6);
    const size_t batch = operands[6].shape[0];
    const bool in_one_pass = host_state(backend)->threads == 1 || batch * operands[7].shape[1] >= ONE_PASS_BATCH;
    pass x = {.plan = &plan};

    plan.d_q = sequences_of(&operands[0]);
    plan.d_k = sequences_of(&operands[1]);
    plan.d_v = sequences_of(&operands[2]);
    plan.d_out = sequences_of(&operands[3]);
    if (is_single(&plan, batch) && plan.repeats == 1)
        return run_single(backend, &plan, kernels->softmax_single_backward, batch, error);
    ICL_CHECK(take_workspace(backend, kernels->softmax_backward_workspace(&plan, in_one_pass),
                             batch * plan.heads * plan.queries, &x, &plan.row_terms, error));
    if (in_one_pass) {
        run_pass(backend, x, kernels->softmax_backward_sequence, batch, 1, true);
    } else {
        run_pass(backend, x, kernels->softmax_backward_queries, batch, plan.queries, false);
        run_pass(backend, x, kernels->softmax_backward_keys, batch, plan.keys, true);
    }
    return ICL_OK;
}
