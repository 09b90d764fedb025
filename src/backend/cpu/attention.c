/* Attention: its work is cut into blocks, which the threads share. */
#include <string.h>

#include "backend/cpu/host.h"
#include "iclab/status.h"

/* ---- Panels ---- */

/* Panels hold a matrix [rows][columns] as [columns / LANES][rows][LANES], zero-padded, in the ops' scratch memory. The
 * kernels multiply panels with matrices of any strides. */

typedef struct HOST(panels) {
    real *elements;
    size_t rows, columns;
} HOST(panels);

static inline size_t panels_size(size_t rows, size_t columns) {
    return rows * host_round_up(columns, LANES);
}

/* Takes the memory of panels from *free, and advances it. */
static inline HOST(panels) panels_take(real **free, size_t rows, size_t columns) {
    const HOST(panels) panels = {*free, rows, columns};
    *free += panels_size(rows, columns);
    return panels;
}

static inline real *panels_row(HOST(panels) x, size_t row, size_t column) {
    return x.elements + (column / LANES * x.rows + row) * LANES;
}

static inline void panels_clear(HOST(panels) x) {
    memset(x.elements, 0, panels_size(x.rows, x.columns) * sizeof(real));
}

static inline HOST(matrix) matrix_transposed(HOST(matrix) x) {
    return (HOST(matrix)){x.elements, x.column_stride, x.row_stride};
}

static inline HOST(matrix) matrix_from_row(HOST(matrix) x, size_t row) {
    return (HOST(matrix)){x.elements + row * x.row_stride, x.row_stride, x.column_stride};
}

/* Packs the first x.rows rows of a matrix into x. */
static inline void panels_pack(const HOST(kernels) * kernels, HOST(panels) x, HOST(matrix) from) {
    for (size_t column = 0; column < x.columns; column += LANES) {
        const size_t width = x.columns - column < LANES ? x.columns - column : LANES;
        kernels->pack(from.elements + column * from.column_stride, from.row_stride, from.column_stride, x.rows, width,
                      panels_row(x, 0, column));
    }
}

/* Computes acc[row .. row + rows) += a b[first .. first + k), where a is rows x k. */
static inline void panels_add_product(const HOST(kernels) * kernels, HOST(panels) acc, size_t row, size_t rows,
                                      HOST(matrix) a, HOST(panels) b, size_t first, size_t k) {
    for (size_t column = 0; column < acc.columns; column += LANES)
        kernels->gemm(a.elements, a.row_stride, a.column_stride, panels_row(b, first, column), k,
                      panels_row(acc, row, column), rows);
}

/* Computes to [rows] = scale * a b, where a is rows x b.rows. */
static inline void panels_store_product(const HOST(kernels) * kernels, HOST(matrix) a, HOST(panels) b, size_t rows,
                                        HOST(matrix) to, real scale) {
    for (size_t column = 0; column < b.columns; column += LANES) {
        const size_t width = b.columns - column < LANES ? b.columns - column : LANES;
        kernels->gemm_store(a.elements, a.row_stride, a.column_stride, panels_row(b, 0, column), b.rows, rows, scale,
                            to.elements + column * to.column_stride, to.row_stride, to.column_stride, width);
    }
}

/* Sets rows [first, last) of a matrix to 0. */
static inline void matrix_clear_rows(HOST(matrix) x, size_t first, size_t last, size_t columns) {
    for (size_t row = first; row < last; row++)
        for (size_t column = 0; column < columns; column++)
            x.elements[row * x.row_stride + column * x.column_stride] = 0;
}

/* ---- Linear attention ---- */

/*
 * Linear attention is computed from its state: with S = sum_j k_j v_j^T (d x e) and G the gradient of out,
 *     out_i = c q_i S,    dq_i = c G_i S^T,    dk_j = c v_j R^T,    dv_j = c k_j R,    R = sum_i q_i^T G_i,
 * where the sums run over the pairs (i, j) that the mask allows: all pairs, or with the causal mask j up to i (S,
 * forwards) and i from j on (R, backwards). So every pass costs O((queries + keys) d e) and holds d x e numbers. If
 * heads share keys, R sums over the heads, too: one head after the other, or with the causal mask over all heads for
 * each i.
 */

typedef struct attention {
    const HOST(kernels) * kernels;
    const icl_tensor *operands;
    icl_attention_mask mask;
    real scale;
    size_t heads, repeats;      /* the heads of q; how many of them share keys */
    size_t queries, keys, d, e; /* keys: the number that some query may see */
    real *scratch;
    size_t scratch_per_thread;
} attention;

static attention describe(const icl_backend *backend, const icl_attention_params *params, const icl_tensor *operands,
                          const icl_tensor *qkv) {
    attention x = {.kernels = host_state(backend)->kernels,
                   .operands = operands,
                   .mask = params->mask,
                   .scale = (real)params->scale,
                   .heads = qkv[0].shape[1],
                   .repeats = qkv[0].shape[1] / qkv[1].shape[1],
                   .queries = qkv[0].shape[2],
                   .d = qkv[0].shape[3],
                   .e = qkv[2].shape[3]};
    x.keys = host_visible_keys(params->mask, x.queries - 1, x.queries, qkv[1].shape[2]);
    return x;
}

/* to_i = scale * a_i S_i, S_i = sum of left_j^T right_j over the keys j that query i may see. */
static void sweep_forwards(const attention *layer, HOST(matrix) a, HOST(matrix) left, HOST(panels) right,
                           HOST(panels) state, size_t all_keys, HOST(matrix) to) {
    size_t added = 0;
    panels_clear(state);
    for (size_t i = 0; i < layer->queries; i++) {
        const size_t visible = host_visible_keys(layer->mask, i, layer->queries, all_keys);
        panels_add_product(layer->kernels, state, 0, state.rows, matrix_transposed(matrix_from_row(left, added)), right,
                           added, visible - added);
        added = visible;
        panels_store_product(layer->kernels, matrix_from_row(a, i), state, 1, matrix_from_row(to, i), layer->scale);
    }
}

/* ---- Forward ---- */

static void forward_sequences(void *context, size_t first, size_t last, size_t thread) {
    const attention *layer = context;
    const size_t all_keys = layer->operands[3].shape[2];
    for (size_t sequence = first; sequence < last; sequence++) {
        const size_t batch = sequence / layer->heads, head = sequence % layer->heads, group = head / layer->repeats;
        real *free = layer->scratch + thread * layer->scratch_per_thread;
        const HOST(panels) v = panels_take(&free, layer->keys, layer->e);
        const HOST(panels) state = panels_take(&free, layer->d, layer->e);
        const HOST(matrix) out = host_matrix(&layer->operands[0], batch, head);
        const HOST(matrix) q = host_matrix(&layer->operands[2], batch, head);
        const HOST(matrix) k = host_matrix(&layer->operands[3], batch, group);

        panels_pack(layer->kernels, v, host_matrix(&layer->operands[4], batch, group));
        if (layer->mask == ICL_MASK_CAUSAL) {
            sweep_forwards(layer, q, k, v, state, all_keys, out);
        } else {
            panels_clear(state);
            panels_add_product(layer->kernels, state, 0, layer->d, matrix_transposed(k), v, 0, layer->keys);
            panels_store_product(layer->kernels, q, state, layer->queries, out, layer->scale);
        }
    }
}

static icl_status linear_forward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                 icl_error *error) {
    attention x = describe(backend, params, operands, operands + 2);
    const size_t sequences = operands[0].shape[0] * x.heads;

    x.scratch_per_thread = panels_size(x.keys + x.d, x.e);
    ICL_CHECK(
        HOST(scratch)(backend, host_state(backend)->threads * x.scratch_per_thread * sizeof(real), &x.scratch, error));
    HOST(run)(host_state(backend), sequences, sequences * (x.queries + x.keys) * x.d * x.e, forward_sequences, &x);
    return ICL_OK;
}

/* ---- Backward ---- */

/* The operands and panels of one head. */
typedef struct head_gradient {
    HOST(matrix) q, g, d_q;
    HOST(panels) q_panels, g_panels;
} head_gradient;

/* The operands and panels of one group of heads that share keys. */
typedef struct gradient {
    HOST(matrix) k, v, d_k, d_v;
    HOST(panels) k_panels;
    HOST(panels) state;      /* S^T, e x d */
    HOST(panels) response;   /* R, d x e */
    HOST(panels) response_t; /* R^T, e x d */
    real *heads;             /* memory of their panels */
} gradient;

static size_t gradient_size(const attention *layer) {
    const size_t queries = layer->repeats * layer->queries;
    return panels_size(layer->keys + queries + 2 * layer->e, layer->d) + panels_size(queries + layer->d, layer->e);
}

/* Places what the heads of a group share; their own panels follow it. */
static gradient set_up_gradient(const attention *layer, size_t batch, size_t group, real *free) {
    const icl_tensor *operands = layer->operands;
    gradient s = {.d_k = host_matrix(&operands[1], batch, group),
                  .d_v = host_matrix(&operands[2], batch, group),
                  .k = host_matrix(&operands[7], batch, group),
                  .v = host_matrix(&operands[8], batch, group)};
    s.k_panels = panels_take(&free, layer->keys, layer->d);
    s.state = panels_take(&free, layer->e, layer->d);
    s.response_t = panels_take(&free, layer->e, layer->d);
    s.response = panels_take(&free, layer->d, layer->e);
    s.heads = free;
    panels_pack(layer->kernels, s.k_panels, s.k);
    return s;
}

/* Returns head r of the group. */
static head_gradient head_of(const attention *layer, const gradient *s, size_t batch, size_t group, size_t r) {
    const size_t head = group * layer->repeats + r;
    real *free = s->heads + r * (panels_size(layer->queries, layer->d) + panels_size(layer->queries, layer->e));
    head_gradient h = {.d_q = host_matrix(&layer->operands[0], batch, head),
                       .g = host_matrix(&layer->operands[3], batch, head),
                       .q = host_matrix(&layer->operands[6], batch, head)};
    h.q_panels = panels_take(&free, layer->queries, layer->d);
    h.g_panels = panels_take(&free, layer->queries, layer->e);
    return h;
}

static void backward_whole(const attention *layer, const gradient *s, size_t batch, size_t group) {
    panels_clear(s->state);
    panels_add_product(layer->kernels, s->state, 0, layer->e, matrix_transposed(s->v), s->k_panels, 0, layer->keys);
    panels_clear(s->response);
    panels_clear(s->response_t);
    for (size_t r = 0; r < layer->repeats; r++) {
        const head_gradient h = head_of(layer, s, batch, group, r);
        panels_store_product(layer->kernels, h.g, s->state, layer->queries, h.d_q, layer->scale);
        panels_add_product(layer->kernels, s->response, 0, layer->d, matrix_transposed(h.q), h.g_panels, 0,
                           layer->queries);
        panels_add_product(layer->kernels, s->response_t, 0, layer->e, matrix_transposed(h.g), h.q_panels, 0,
                           layer->queries);
    }
    panels_store_product(layer->kernels, s->k, s->response, layer->keys, s->d_v, layer->scale);
    panels_store_product(layer->kernels, s->v, s->response_t, layer->keys, s->d_k, layer->scale);
}

/* Adds query `query` of every head of the group to R and R^T. */
static void add_query(const attention *layer, const gradient *s, size_t batch, size_t group, size_t query) {
    for (size_t r = 0; r < layer->repeats; r++) {
        const head_gradient h = head_of(layer, s, batch, group, r);
        panels_add_product(layer->kernels, s->response, 0, layer->d, matrix_transposed(matrix_from_row(h.q, query)),
                           h.g_panels, query, 1);
        panels_add_product(layer->kernels, s->response_t, 0, layer->e, matrix_transposed(matrix_from_row(h.g, query)),
                           h.q_panels, query, 1);
    }
}

static void backward_causal(const attention *layer, const gradient *s, size_t batch, size_t group, size_t all_keys) {
    size_t query = layer->queries;

    for (size_t r = 0; r < layer->repeats; r++) {
        const head_gradient h = head_of(layer, s, batch, group, r);
        sweep_forwards(layer, h.g, s->v, s->k_panels, s->state, all_keys, h.d_q);
    }
    panels_clear(s->response);
    panels_clear(s->response_t);
    for (size_t j = layer->keys; j-- > 0;) {
        while (query > 0 && host_visible_keys(layer->mask, query - 1, layer->queries, all_keys) > j)
            add_query(layer, s, batch, group, --query);
        panels_store_product(layer->kernels, matrix_from_row(s->k, j), s->response, 1, matrix_from_row(s->d_v, j),
                             layer->scale);
        panels_store_product(layer->kernels, matrix_from_row(s->v, j), s->response_t, 1, matrix_from_row(s->d_k, j),
                             layer->scale);
    }
}

static void backward_sequences(void *context, size_t first, size_t last, size_t thread) {
    const attention *layer = context;
    const size_t all_keys = layer->operands[7].shape[2], groups = layer->operands[7].shape[1];
    for (size_t sequence = first; sequence < last; sequence++) {
        const size_t batch = sequence / groups, group = sequence % groups;
        const gradient s = set_up_gradient(layer, batch, group, layer->scratch + thread * layer->scratch_per_thread);
        for (size_t r = 0; r < layer->repeats; r++) {
            const head_gradient h = head_of(layer, &s, batch, group, r);
            panels_pack(layer->kernels, h.q_panels, h.q);
            panels_pack(layer->kernels, h.g_panels, h.g);
        }
        if (layer->mask == ICL_MASK_CAUSAL)
            backward_causal(layer, &s, batch, group, all_keys);
        else
            backward_whole(layer, &s, batch, group);
        matrix_clear_rows(s.d_k, layer->keys, all_keys, layer->d);
        matrix_clear_rows(s.d_v, layer->keys, all_keys, layer->e);
    }
}

static icl_status linear_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    attention x = describe(backend, params, operands, operands + 6);
    const size_t sequences = operands[7].shape[0] * operands[7].shape[1];

    x.scratch_per_thread = gradient_size(&x);
    ICL_CHECK(
        HOST(scratch)(backend, host_state(backend)->threads * x.scratch_per_thread * sizeof(real), &x.scratch, error));
    HOST(run)
    (host_state(backend), sequences, sequences * (x.repeats * x.queries + x.keys) * x.d * x.e, backward_sequences, &x);
    return ICL_OK;
}

/* ---- Softmax attention ---- */

/* The threads share blocks of queries, and in the backward pass blocks of keys or whole sequences;
 * kernels/attention/softmax.c describes what a block computes, and how little memory it takes. If each sequence has one
 * query, the threads share blocks of sequences: softmax_single.c, which takes operands as they are. */

/* From this many sequences of keys on, the backward pass makes one pass, in which each sequence is a task. With fewer
 * it makes two passes over blocks, so that all threads have work; a single thread always makes one pass. Both give the
 * same bits. */
#define ONE_PASS_BATCH 16

typedef HOST(softmax_plan) softmax_plan;
typedef HOST(softmax_kernel) block_kernel;

typedef struct pass {
    const softmax_plan *plan;
    block_kernel *kernel;
    bool owns_keys;                    /* a sequence is a group, not a head */
    size_t block, blocks_per_sequence; /* rows of a block; if a task is a whole sequence, it has one block */
    char *workspace;
    size_t workspace_per_thread;
} pass;

static HOST(sequences) sequences_of(const icl_tensor *t) {
    return (HOST(sequences)){host_elements(t), {t->stride[0], t->stride[1], t->stride[2], t->stride[3]}};
}

/* qkv: q, k and v, adjacent among the operands; out: out and log_sum_exp. */
static softmax_plan plan_of(const icl_attention_params *params, const icl_tensor *out, const icl_tensor *qkv) {
    const size_t heads = qkv[0].shape[1], queries = qkv[0].shape[2], keys = qkv[1].shape[2];
    softmax_plan plan = {.heads = heads,
                         .repeats = heads / qkv[1].shape[1],
                         .queries = queries,
                         .keys = keys,
                         .sources = keys,
                         .reach = queries + keys,
                         .window = queries + keys,
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
    if (params->window > 0 && params->window < plan.window)
        plan.window = params->window;
    return plan;
}

/* Returns how many keys a query attends to at most. */
static size_t most_seen(const softmax_plan *plan) {
    return plan->window < plan->keys ? plan->window : plan->keys;
}

/* Returns the batch index, head and group of a sequence by its number. */
static HOST(place) place_of(const softmax_plan *plan, size_t sequence, bool owns_keys) {
    const size_t repeats = owns_keys ? 1 : plan->repeats, heads = plan->heads / (owns_keys ? plan->repeats : 1);
    const size_t head = sequence % heads, group = head / repeats;
    return (HOST(place)){sequence / heads, owns_keys ? group * plan->repeats : head, group};
}

static void run_blocks(void *context, size_t first, size_t last, size_t thread) {
    const pass *sweep = context;
    for (size_t item = first; item < last; item++)
        sweep->kernel(sweep->plan, place_of(sweep->plan, item / sweep->blocks_per_sequence, sweep->owns_keys),
                      item % sweep->blocks_per_sequence * sweep->block,
                      sweep->workspace + thread * sweep->workspace_per_thread);
}

/* Runs one kernel over all blocks of each sequence, which has `rows` queries or keys. */
static void run_pass(const icl_backend *backend, pass sweep, block_kernel *kernel, size_t batch, size_t rows,
                     bool owns_keys) {
    const softmax_plan *plan = sweep.plan;
    const size_t sequences = batch * plan->heads / (owns_keys ? plan->repeats : 1);

    sweep.kernel = kernel;
    sweep.owns_keys = owns_keys;
    sweep.block = host_state(backend)->kernels->softmax_block;
    sweep.blocks_per_sequence = (rows + sweep.block - 1) / sweep.block;
    HOST(run)
    (host_state(backend), sequences * sweep.blocks_per_sequence,
     batch * plan->heads * plan->queries * (most_seen(plan) + 1) * (plan->d + plan->e + 4), run_blocks, &sweep);
}

/* Takes a workspace of `bytes` for each thread, and `extra` reals, which follow them. */
static icl_status take_workspace(icl_backend *backend, size_t bytes, size_t extra, pass *sweep, real **behind,
                                 icl_error *error) {
    sweep->workspace_per_thread = host_round_up(bytes, 64);
    bytes = host_state(backend)->threads * sweep->workspace_per_thread;
    ICL_CHECK(HOST(scratch)(backend, bytes + extra * sizeof(real), &sweep->workspace, error));
    *behind = (real *)(void *)(sweep->workspace + bytes);
    return ICL_OK;
}

/* ---- One query a sequence ---- */

/* The most keys for which lanes are sequences. Each lane keeps the scores of all keys: 256 KiB for floats in the widest
 * lanes. */
#define MOST_KEYS_OF_SINGLE 1024

typedef void single_kernel(const softmax_plan *plan, HOST(place) at, size_t count, void *workspace);

typedef struct single_pass {
    const softmax_plan *plan;
    single_kernel *kernel;
    size_t batch, block, blocks; /* of each head */
    char *workspace;
    size_t workspace_per_thread;
} single_pass;

/* The least batch for which lanes are sequences. A smaller one would leave more lanes empty than a block of one query
 * does, which is narrow, and keys would have to be gathered as well. */
#define LEAST_SINGLES 16

/* Returns whether lanes are sequences of the batch, because one query would leave the lanes of a block of queries
 * empty. The choice depends only on the shape. */
static bool is_single(const softmax_plan *plan, size_t batch) {
    return plan->queries == 1 && batch >= LEAST_SINGLES && plan->keys <= MOST_KEYS_OF_SINGLE;
}

static void run_sequences(void *context, size_t first, size_t last, size_t thread) {
    const single_pass *sweep = context;
    for (size_t item = first; item < last; item++) {
        const size_t head = item / sweep->blocks, start = item % sweep->blocks * sweep->block,
                     left = sweep->batch - start;
        sweep->kernel(sweep->plan, (HOST(place)){start, head, head / sweep->plan->repeats},
                      left < sweep->block ? left : sweep->block,
                      sweep->workspace + thread * sweep->workspace_per_thread);
    }
}

static icl_status run_single(icl_backend *backend, const softmax_plan *plan, single_kernel *kernel, size_t batch,
                             icl_error *error) {
    const HOST(state) *state = host_state(backend);
    single_pass sweep = {.plan = plan, .kernel = kernel, .batch = batch, .block = state->kernels->softmax_block};

    sweep.blocks = (batch + sweep.block - 1) / sweep.block;
    sweep.workspace_per_thread = host_round_up(state->kernels->softmax_single_workspace(plan), 64);
    ICL_CHECK(HOST(scratch)(backend, state->threads * sweep.workspace_per_thread, &sweep.workspace, error));
    HOST(run)
    (state, plan->heads * sweep.blocks, batch * plan->heads * (most_seen(plan) + 1) * (plan->d + plan->e + 4),
     run_sequences, &sweep);
    return ICL_OK;
}

/* ---- Either ---- */

static icl_status softmax_forward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    const HOST(kernels) *kernels = host_state(backend)->kernels;
    const HOST(bf16_kernels) *bf16 = host_state(backend)->bf16;
    const softmax_plan plan = plan_of(params, operands, operands + 2);
    pass sweep = {.plan = &plan};
    real *unused;

    if (is_single(&plan, operands[0].shape[0]) && !bf16)
        return run_single(backend, &plan, kernels->softmax_single_forward, operands[0].shape[0], error);
    const size_t bytes = bf16 ? bf16->softmax_forward_workspace(&plan) : kernels->softmax_forward_workspace(&plan);
    ICL_CHECK(take_workspace(backend, bytes, 0, &sweep, &unused, error));
    run_pass(backend, sweep, bf16 ? bf16->softmax_forward : kernels->softmax_forward, operands[0].shape[0],
             plan.queries, false);
    return ICL_OK;
}

static icl_status softmax_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                   icl_error *error) {
    const HOST(kernels) *kernels = host_state(backend)->kernels;
    const HOST(bf16_kernels) *bf16 = host_state(backend)->bf16;
    softmax_plan plan = plan_of(params, operands + 4, operands + 6);
    const size_t batch = operands[6].shape[0];
    const bool in_one_pass = host_state(backend)->threads == 1 || batch * operands[7].shape[1] >= ONE_PASS_BATCH;
    pass sweep = {.plan = &plan};

    plan.d_q = sequences_of(&operands[0]);
    plan.d_k = sequences_of(&operands[1]);
    plan.d_v = sequences_of(&operands[2]);
    plan.d_out = sequences_of(&operands[3]);
    if (is_single(&plan, batch) && plan.repeats == 1 && !bf16)
        return run_single(backend, &plan, kernels->softmax_single_backward, batch, error);
    const size_t bytes = bf16 ? bf16->softmax_backward_workspace(&plan, in_one_pass)
                              : kernels->softmax_backward_workspace(&plan, in_one_pass);
    ICL_CHECK(take_workspace(backend, bytes, batch * plan.heads * plan.queries, &sweep, &plan.row_terms, error));
    if (in_one_pass) {
        run_pass(backend, sweep, bf16 ? bf16->softmax_backward_sequence : kernels->softmax_backward_sequence, batch, 1,
                 true);
    } else {
        run_pass(backend, sweep, bf16 ? bf16->softmax_backward_queries : kernels->softmax_backward_queries, batch,
                 plan.queries, false);
        run_pass(backend, sweep, bf16 ? bf16->softmax_backward_keys : kernels->softmax_backward_keys, batch, plan.keys,
                 true);
    }
    return ICL_OK;
}

/* ---- The ops ---- */

icl_status HOST(attention_forward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                   icl_error *error) {
    const icl_attention_params *given = params;
    return given->kind == ICL_ATTENTION_SOFTMAX ? softmax_forward(backend, params, operands, error)
                                                : linear_forward(backend, params, operands, error);
}

icl_status HOST(attention_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                    icl_error *error) {
    const icl_attention_params *given = params;
    return given->kind == ICL_ATTENTION_SOFTMAX ? softmax_backward(backend, params, operands, error)
                                                : linear_backward(backend, params, operands, error);
}
