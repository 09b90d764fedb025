/*
 * Linear attention by its state: with S = sum_j k_j v_j^T (d x e) and G the gradient of out,
 *     out_i = c q_i S,    dq_i = c G_i S^T,    dk_j = c v_j R^T,    dv_j = c k_j R,    R = sum_i q_i^T G_i,
 * where the sums run over the pairs (i, j) that the mask allows: all, or, for the causal mask, those up to i (S,
 * forwards) and those from j on (R, backwards). So every pass costs O((queries + keys) d e) and holds d x e numbers.
 */
#include "backend/cpu/host.h"
#include "backend/cpu/panels.h"
#include "iclab/status.h"

typedef struct attention {
    const HOST(kernels) * kernels;
    const icl_tensor *operands;
    icl_attention_mask mask;
    real scale;
    size_t queries, keys, d, e; /* keys: those that some query may see */
    real *scratch;
    size_t scratch_per_thread;
} attention;

static attention describe(const icl_backend *backend, const icl_attention_params *params, const icl_tensor *operands,
                          const icl_tensor *qkv) {
    attention x = {.kernels = host_state(backend)->kernels,
                   .operands = operands,
                   .mask = params->mask,
                   .scale = (real)params->scale,
                   .queries = qkv[0].shape[1],
                   .d = qkv[0].shape[2],
                   .e = qkv[2].shape[2]};
    x.keys = host_visible_keys(params->mask, x.queries - 1, x.queries, qkv[1].shape[1]);
    return x;
}

/* to_i = scale * a_i S_i, S_i = sum of left_j^T right_j over the keys j that query i may see. */
static void sweep_forwards(const attention *x, HOST(matrix) a, HOST(matrix) left, HOST(panels) right,
                           HOST(panels) state, size_t all_keys, HOST(matrix) to) {
    size_t added = 0;
    panels_clear(state);
    for (size_t i = 0; i < x->queries; i++) {
        const size_t visible = host_visible_keys(x->mask, i, x->queries, all_keys);
        panels_add_product(x->kernels, state, 0, state.rows, matrix_transposed(matrix_from_row(left, added)), right,
                           added, visible - added);
        added = visible;
        panels_store_product(x->kernels, matrix_from_row(a, i), state, 1, matrix_from_row(to, i), x->scale);
    }
}

/* ---- Forward ---- */

static void forward_sequences(void *context, size_t first, size_t last, size_t thread) {
    const attention *x = context;
    const size_t all_keys = x->operands[3].shape[1];
    for (size_t sequence = first; sequence < last; sequence++) {
        real *free = x->scratch + thread * x->scratch_per_thread;
        const HOST(panels) v = panels_take(&free, x->keys, x->e);
        const HOST(panels) state = panels_take(&free, x->d, x->e);
        const HOST(matrix) out = host_matrix(&x->operands[0], sequence);
        const HOST(matrix) q = host_matrix(&x->operands[2], sequence), k = host_matrix(&x->operands[3], sequence);

        panels_pack(x->kernels, v, host_matrix(&x->operands[4], sequence));
        if (x->mask == ICL_MASK_CAUSAL) {
            sweep_forwards(x, q, k, v, state, all_keys, out);
        } else {
            panels_clear(state);
            panels_add_product(x->kernels, state, 0, x->d, matrix_transposed(k), v, 0, x->keys);
            panels_store_product(x->kernels, q, state, x->queries, out, x->scale);
        }
    }
}

icl_status HOST(linear_forward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    attention x = describe(backend, params, operands, operands + 2);
    const size_t batch = operands[0].shape[0];

    x.scratch_per_thread = panels_size(x.keys + x.d, x.e);
    ICL_CHECK(
        HOST(scratch)(backend, host_state(backend)->threads * x.scratch_per_thread * sizeof(real), &x.scratch, error));
    HOST(run)(host_state(backend), batch, batch * (x.queries + x.keys) * x.d * x.e, forward_sequences, &x);
    return ICL_OK;
}

/* ---- Backward ---- */

typedef struct gradient {
    HOST(matrix) q, k, v, g, d_q, d_k, d_v;
    HOST(panels) k_panels, g_panels, q_panels;
    HOST(panels) state;      /* S^T, e x d */
    HOST(panels) response;   /* R, d x e */
    HOST(panels) response_t; /* R^T, e x d */
} gradient;

static size_t gradient_size(const attention *x) {
    return panels_size(x->keys + x->queries + 2 * x->e, x->d) + panels_size(x->queries + x->d, x->e);
}

static gradient set_up_gradient(const attention *x, size_t sequence, size_t thread) {
    const icl_tensor *operands = x->operands;
    real *free = x->scratch + thread * x->scratch_per_thread;
    gradient s = {.d_q = host_matrix(&operands[0], sequence),
                  .d_k = host_matrix(&operands[1], sequence),
                  .d_v = host_matrix(&operands[2], sequence),
                  .g = host_matrix(&operands[3], sequence),
                  .q = host_matrix(&operands[6], sequence),
                  .k = host_matrix(&operands[7], sequence),
                  .v = host_matrix(&operands[8], sequence)};
    s.k_panels = panels_take(&free, x->keys, x->d);
    s.q_panels = panels_take(&free, x->queries, x->d);
    s.state = panels_take(&free, x->e, x->d);
    s.response_t = panels_take(&free, x->e, x->d);
    s.g_panels = panels_take(&free, x->queries, x->e);
    s.response = panels_take(&free, x->d, x->e);
    panels_pack(x->kernels, s.k_panels, s.k);
    panels_pack(x->kernels, s.q_panels, s.q);
    panels_pack(x->kernels, s.g_panels, s.g);
    return s;
}

static void backward_whole(const attention *x, const gradient *s) {
    panels_clear(s->state);
    panels_add_product(x->kernels, s->state, 0, x->e, matrix_transposed(s->v), s->k_panels, 0, x->keys);
    panels_store_product(x->kernels, s->g, s->state, x->queries, s->d_q, x->scale);
    panels_clear(s->response);
    panels_add_product(x->kernels, s->response, 0, x->d, matrix_transposed(s->q), s->g_panels, 0, x->queries);
    panels_store_product(x->kernels, s->k, s->response, x->keys, s->d_v, x->scale);
    panels_clear(s->response_t);
    panels_add_product(x->kernels, s->response_t, 0, x->e, matrix_transposed(s->g), s->q_panels, 0, x->queries);
    panels_store_product(x->kernels, s->v, s->response_t, x->keys, s->d_k, x->scale);
}

static void backward_causal(const attention *x, const gradient *s, size_t all_keys) {
    size_t query = x->queries;

    sweep_forwards(x, s->g, s->v, s->k_panels, s->state, all_keys, s->d_q);
    panels_clear(s->response);
    panels_clear(s->response_t);
    for (size_t j = x->keys; j-- > 0;) {
        while (query > 0 && host_visible_keys(x->mask, query - 1, x->queries, all_keys) > j) {
            query--;
            panels_add_product(x->kernels, s->response, 0, x->d, matrix_transposed(matrix_from_row(s->q, query)),
                               s->g_panels, query, 1);
            panels_add_product(x->kernels, s->response_t, 0, x->e, matrix_transposed(matrix_from_row(s->g, query)),
                               s->q_panels, query, 1);
        }
        panels_store_product(x->kernels, matrix_from_row(s->k, j), s->response, 1, matrix_from_row(s->d_v, j),
                             x->scale);
        panels_store_product(x->kernels, matrix_from_row(s->v, j), s->response_t, 1, matrix_from_row(s->d_k, j),
                             x->scale);
    }
}

static void backward_sequences(void *context, size_t first, size_t last, size_t thread) {
    const attention *x = context;
    const size_t all_keys = x->operands[7].shape[1];
    for (size_t sequence = first; sequence < last; sequence++) {
        const gradient s = set_up_gradient(x, sequence, thread);
        if (x->mask == ICL_MASK_CAUSAL)
            backward_causal(x, &s, all_keys);
        else
            backward_whole(x, &s);
        matrix_clear_rows(s.d_k, x->keys, all_keys, x->d);
        matrix_clear_rows(s.d_v, x->keys, all_keys, x->e);
    }
}

icl_status HOST(linear_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                 icl_error *error) {
    attention x = describe(backend, params, operands, operands + 6);
    const size_t batch = operands[6].shape[0];

    x.scratch_per_thread = gradient_size(&x);
    ICL_CHECK(
        HOST(scratch)(backend, host_state(backend)->threads * x.scratch_per_thread * sizeof(real), &x.scratch, error));
    HOST(run)(host_state(backend), batch, batch * (x.queries + x.keys) * x.d * x.e, backward_sequences, &x);
    return ICL_OK;
}
