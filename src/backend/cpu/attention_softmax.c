/*
 * Softmax attention. A few queries at a time see all their keys: scores, weights and, on the way back, their gradients are rows
 * of `keys` numbers in scratch memory; there is never a queries x keys matrix.
 *
 * Forward: p_ij = exp(s_ij - m_i), m_i the row's maximum; out_i = sum_j p_ij v_j / sum_j p_ij; log_sum_exp_i = m_i + log sum_j p_ij.
 * Backward, with G the gradient of out and p_ij = exp(s_ij - log_sum_exp_i):
 *     dv_j = sum_i p_ij G_i,    t_ij = p_ij (G_i . v_j - G_i . out_i),    dq_i = c sum_j t_ij k_j,    dk_j = c sum_i t_ij q_i.
 */
#include "backend/cpu/host.h"
#include "backend/cpu/panels.h"
#include "core/status.h"

/* Queries that go through the kernels together; one alone under the causal mask, where each sees other keys. */
#define BLOCK_ROWS 8
/* Queries of one sequence that a forward item works on with one packing of the keys and values. */
#define ITEM_ROWS 64

typedef struct attention {
    const HOST(kernels) * kernels;
    const icl_tensor *operands;
    icl_attention_mask mask;
    real scale;
    size_t queries, all_keys, keys, d, e; /* keys: those that some query may see */
    size_t block;
    size_t items_per_sequence;
    size_t row; /* elements of a row of scores */
    real *scratch;
    size_t scratch_per_thread;
} attention;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static attention describe(const icl_backend *backend, const icl_attention_params *params,
                          const icl_tensor *operands, const icl_tensor *qkv) {
    attention x = {.kernels = host_state(backend)->kernels,
                   .operands = operands,
                   .mask = params->mask,
                   .scale = (real)params->scale,
                   .queries = qkv[0].shape[1],
                   .all_keys = qkv[1].shape[1],
                   .d = qkv[0].shape[2],
                   .e = qkv[2].shape[2],
                   .block = params->mask == ICL_MASK_CAUSAL ? 1 : BLOCK_ROWS};
    x.keys = host_visible_keys(params->mask, x.queries - 1, x.queries, x.all_keys);
    x.row = host_round_up(x.keys, LANES);
    x.items_per_sequence = (x.queries + ITEM_ROWS - 1) / ITEM_ROWS;
    return x;
}

/* score [count][x->row] = a b over `visible` columns; b is panels of all keys, work panels of one block. */
static void score_rows(const attention *x, HOST(matrix) a, size_t count, HOST(panels) b, size_t visible,
                       HOST(panels) work, real *score) {
    for (size_t column = 0; column < visible; column += LANES) {
        real *acc = panels_row(work, 0, column);
        memset(acc, 0, count * LANES * sizeof *acc);
        x->kernels->gemm(a.elements, a.row_stride, a.column_stride, panels_row(b, 0, column), b.rows, acc,
                         count);
        for (size_t i = 0; i < count; i++)
            memcpy(score + i * x->row + column, acc + i * LANES, LANES * sizeof *acc);
    }
}

/* ---- Forward ---- */

typedef struct forward {
    HOST(panels) k, v, work, result;
    real *score;
} forward;

static forward take_forward(const attention *x, real *free) {
    forward f;
    f.k = panels_take(&free, x->d, x->keys);
    f.v = panels_take(&free, x->keys, x->e);
    f.work = panels_take(&free, BLOCK_ROWS, x->keys);
    f.result = panels_take(&free, BLOCK_ROWS, x->e);
    f.score = free;
    return f;
}

static void forward_block(const attention *x, const forward *f, size_t sequence, size_t query, size_t count) {
    const HOST(matrix) q = host_matrix(&x->operands[2], sequence),
                       out = host_matrix(&x->operands[0], sequence);
    const HOST(matrix) log_sum = host_matrix(&x->operands[1], sequence);
    const size_t visible = host_visible_keys(x->mask, query, x->queries, x->all_keys);
    real sum[BLOCK_ROWS] = {0};

    if (visible > 0)
        score_rows(x, matrix_from_row(q, query), count, f->k, visible, f->work, f->score);
    for (size_t i = 0; i < count; i++) {
        real max = -(real)INFINITY;
        if (visible > 0)
            sum[i] = x->kernels->softmax(f->score + i * x->row, visible, x->scale, &max);
        log_sum.elements[(query + i) * log_sum.row_stride] = visible > 0 ? max + REAL_LOG(sum[i]) : max;
    }
    panels_clear(f->result);
    panels_add_product(x->kernels, f->result, 0, count, (HOST(matrix)){f->score, x->row, 1}, f->v, 0,
                       visible);
    for (size_t i = 0; i < count; i++)
        for (size_t column = 0; column < x->e; column++) {
            const real total = *(panels_row(f->result, i, column) + column % LANES);
            out.elements[(query + i) * out.row_stride + column * out.column_stride] =
                visible > 0 ? total / sum[i] : 0;
        }
}

static void forward_items(void *context, size_t first, size_t last, size_t thread) {
    const attention *x = context;
    const forward f = take_forward(x, x->scratch + thread * x->scratch_per_thread);
    for (size_t item = first; item < last; item++) {
        const size_t sequence = item / x->items_per_sequence;
        const size_t start = item % x->items_per_sequence * ITEM_ROWS;
        const size_t end = smaller(start + ITEM_ROWS, x->queries);
        if (item == first || start == 0) {
            panels_pack(x->kernels, f.k, matrix_transposed(host_matrix(&x->operands[3], sequence)));
            panels_pack(x->kernels, f.v, host_matrix(&x->operands[4], sequence));
        }
        for (size_t query = start; query < end; query += x->block)
            forward_block(x, &f, sequence, query, smaller(x->block, end - query));
    }
}

icl_status HOST(softmax_forward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                 icl_error *error) {
    attention x = describe(backend, params, operands, operands + 2);
    const size_t batch = operands[0].shape[0];
    icl_status status = ICL_OK;

    x.scratch_per_thread =
        panels_size(x.d + BLOCK_ROWS, x.keys) + panels_size(x.keys + BLOCK_ROWS, x.e) + BLOCK_ROWS * x.row;
    ICL_TRY(HOST(scratch)(backend, host_state(backend)->threads * x.scratch_per_thread * sizeof(real),
                          &x.scratch, error));
    HOST(run)
    (host_state(backend), batch * x.items_per_sequence, batch * x.queries * (x.keys * (x.d + x.e + 4) + x.e),
     forward_items, &x);
done:
    return status;
}

/* ---- Backward ---- */

typedef struct backward {
    HOST(matrix) d_q, d_k, d_v, g, out, log_sum, q, k, v;
    HOST(panels) k_columns, v_columns; /* d x keys and e x keys: for scores and their gradients */
    HOST(panels) k_rows;               /* keys x d */
    HOST(panels) d_k_sum, d_v_sum;
    HOST(panels) work, d_block, q_block, g_block;
    real *p, *t; /* rows of weights and of t */
} backward;

static size_t backward_size(const attention *x) {
    return panels_size(x->d + x->e + BLOCK_ROWS, x->keys) + panels_size(2 * x->keys + 2 * BLOCK_ROWS, x->d) +
           panels_size(x->keys + BLOCK_ROWS, x->e) + 2 * BLOCK_ROWS * x->row;
}

static backward set_up_backward(const attention *x, size_t sequence, size_t thread) {
    const icl_tensor *operands = x->operands;
    real *free = x->scratch + thread * x->scratch_per_thread;
    backward s = {.d_q = host_matrix(&operands[0], sequence),
                  .d_k = host_matrix(&operands[1], sequence),
                  .d_v = host_matrix(&operands[2], sequence),
                  .g = host_matrix(&operands[3], sequence),
                  .out = host_matrix(&operands[4], sequence),
                  .log_sum = host_matrix(&operands[5], sequence),
                  .q = host_matrix(&operands[6], sequence),
                  .k = host_matrix(&operands[7], sequence),
                  .v = host_matrix(&operands[8], sequence)};
    s.k_columns = panels_take(&free, x->d, x->keys);
    s.v_columns = panels_take(&free, x->e, x->keys);
    s.work = panels_take(&free, BLOCK_ROWS, x->keys);
    s.k_rows = panels_take(&free, x->keys, x->d);
    s.d_k_sum = panels_take(&free, x->keys, x->d);
    s.d_block = panels_take(&free, BLOCK_ROWS, x->d);
    s.q_block = panels_take(&free, BLOCK_ROWS, x->d);
    s.d_v_sum = panels_take(&free, x->keys, x->e);
    s.g_block = panels_take(&free, BLOCK_ROWS, x->e);
    s.p = free;
    s.t = free + BLOCK_ROWS * x->row;
    panels_pack(x->kernels, s.k_columns, matrix_transposed(s.k));
    panels_pack(x->kernels, s.v_columns, matrix_transposed(s.v));
    panels_pack(x->kernels, s.k_rows, s.k);
    panels_clear(s.d_k_sum);
    panels_clear(s.d_v_sum);
    return s;
}

/* t_ij = p_ij (G_i . v_j - G_i . out_i) for one query; t holds G_i . v_j. */
static void weigh(const attention *x, const backward *s, size_t query, size_t visible, const real *p,
                  real *t) {
    const real *g = s->g.elements + query * s->g.row_stride,
               *out = s->out.elements + query * s->out.row_stride;
    real mean = 0;
    for (size_t column = 0; column < x->e; column++)
        mean += g[column * s->g.column_stride] * out[column * s->out.column_stride];
    for (size_t j = 0; j < visible; j++)
        t[j] = p[j] * (t[j] - mean);
}

static void backward_block(const attention *x, const backward *s, size_t query, size_t count) {
    const size_t visible = host_visible_keys(x->mask, query, x->queries, x->all_keys);
    const HOST(matrix) p = {s->p, x->row, 1}, t = {s->t, x->row, 1};
    const HOST(panels) q_block = {s->q_block.elements, count, x->d},
                       g_block = {s->g_block.elements, count, x->e};

    panels_clear(s->d_block);
    if (visible > 0) {
        score_rows(x, matrix_from_row(s->q, query), count, s->k_columns, visible, s->work, s->p);
        score_rows(x, matrix_from_row(s->g, query), count, s->v_columns, visible, s->work, s->t);
        for (size_t i = 0; i < count; i++) {
            const real log_sum = s->log_sum.elements[(query + i) * s->log_sum.row_stride];
            x->kernels->softmax_again(s->p + i * x->row, visible, x->scale, log_sum);
            weigh(x, s, query + i, visible, s->p + i * x->row, s->t + i * x->row);
        }
        panels_pack(x->kernels, q_block, matrix_from_row(s->q, query));
        panels_pack(x->kernels, g_block, matrix_from_row(s->g, query));
        panels_add_product(x->kernels, s->d_block, 0, count, t, s->k_rows, 0, visible);
        panels_add_product(x->kernels, s->d_k_sum, 0, visible, matrix_transposed(t), q_block, 0, count);
        panels_add_product(x->kernels, s->d_v_sum, 0, visible, matrix_transposed(p), g_block, 0, count);
    }
    panels_store(x->kernels, s->d_block, count, matrix_from_row(s->d_q, query), x->scale);
}

static void backward_sequences(void *context, size_t first, size_t last, size_t thread) {
    const attention *x = context;
    for (size_t sequence = first; sequence < last; sequence++) {
        const backward s = set_up_backward(x, sequence, thread);
        for (size_t query = 0; query < x->queries; query += x->block)
            backward_block(x, &s, query, smaller(x->block, x->queries - query));
        panels_store(x->kernels, s.d_k_sum, x->keys, s.d_k, x->scale);
        panels_store(x->kernels, s.d_v_sum, x->keys, s.d_v, 1);
        matrix_clear_rows(s.d_k, x->keys, x->all_keys, x->d);
        matrix_clear_rows(s.d_v, x->keys, x->all_keys, x->e);
    }
}

icl_status HOST(softmax_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    attention x = describe(backend, params, operands, operands + 6);
    const size_t batch = operands[6].shape[0];
    icl_status status = ICL_OK;

    x.scratch_per_thread = backward_size(&x);
    ICL_TRY(HOST(scratch)(backend, host_state(backend)->threads * x.scratch_per_thread * sizeof(real),
                          &x.scratch, error));
    HOST(run)
    (host_state(backend), batch, batch * x.queries * (x.keys + 1) * (x.d + x.e + 4), backward_sequences, &x);
done:
    return status;
}
