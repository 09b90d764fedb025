/*
 * Linear attention by its state: with S = sum_j k_j v_j^T (d x e) and G the gradient of out,
 *     out_i = c q_i S,    dq_i = c G_i S^T,    dk_j = c v_j R^T,    dv_j = c k_j R,    R = sum_i q_i^T G_i,
 * where the sums run over the pairs (i, j) that the mask allows: all, or, for the causal mask, those up to i (S,
 * forwards) and those from j on (R, backwards). So every pass costs O((queries + keys) d e) and holds d x e numbers.
 * Where heads share keys, R sums over them, too, head by head for each i (causal: for each i, over all heads).
 */
#include "backend/cpu/host.h"
#include "backend/cpu/panels.h"
#include "iclab/status.h"

typedef struct attention {
    const HOST(kernels) * kernels;
    const icl_tensor *operands;
    icl_attention_mask mask;
    real scale;
    size_t heads, repeats;      /* of q; of them those that share keys */
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
                   .heads = qkv[0].shape[1],
                   .repeats = qkv[0].shape[1] / qkv[1].shape[1],
                   .queries = qkv[0].shape[2],
                   .d = qkv[0].shape[3],
                   .e = qkv[2].shape[3]};
    x.keys = host_visible_keys(params->mask, x.queries - 1, x.queries, qkv[1].shape[2]);
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
    const size_t all_keys = x->operands[3].shape[2];
    for (size_t sequence = first; sequence < last; sequence++) {
        const size_t batch = sequence / x->heads, head = sequence % x->heads, group = head / x->repeats;
        real *free = x->scratch + thread * x->scratch_per_thread;
        const HOST(panels) v = panels_take(&free, x->keys, x->e);
        const HOST(panels) state = panels_take(&free, x->d, x->e);
        const HOST(matrix) out = host_matrix(&x->operands[0], batch, head);
        const HOST(matrix) q = host_matrix(&x->operands[2], batch, head);
        const HOST(matrix) k = host_matrix(&x->operands[3], batch, group);

        panels_pack(x->kernels, v, host_matrix(&x->operands[4], batch, group));
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
    const size_t sequences = operands[0].shape[0] * x.heads;

    x.scratch_per_thread = panels_size(x.keys + x.d, x.e);
    ICL_CHECK(
        HOST(scratch)(backend, host_state(backend)->threads * x.scratch_per_thread * sizeof(real), &x.scratch, error));
    HOST(run)(host_state(backend), sequences, sequences * (x.queries + x.keys) * x.d * x.e, forward_sequences, &x);
    return ICL_OK;
}

/* ---- Backward ---- */

/* Of one head. */
typedef struct head_gradient {
    HOST(matrix) q, g, d_q;
    HOST(panels) q_panels, g_panels;
} head_gradient;

/* Of the heads that share keys. */
typedef struct gradient {
    HOST(matrix) k, v, d_k, d_v;
    HOST(panels) k_panels;
    HOST(panels) state;      /* S^T, e x d */
    HOST(panels) response;   /* R, d x e */
    HOST(panels) response_t; /* R^T, e x d */
    real *heads;             /* memory of their panels */
} gradient;

static size_t gradient_size(const attention *x) {
    const size_t queries = x->repeats * x->queries;
    return panels_size(x->keys + queries + 2 * x->e, x->d) + panels_size(queries + x->d, x->e);
}

/* Lays out what the heads share; their own panels lie behind it. */
static gradient set_up_gradient(const attention *x, size_t batch, size_t group, real *free) {
    const icl_tensor *operands = x->operands;
    gradient s = {.d_k = host_matrix(&operands[1], batch, group),
                  .d_v = host_matrix(&operands[2], batch, group),
                  .k = host_matrix(&operands[7], batch, group),
                  .v = host_matrix(&operands[8], batch, group)};
    s.k_panels = panels_take(&free, x->keys, x->d);
    s.state = panels_take(&free, x->e, x->d);
    s.response_t = panels_take(&free, x->e, x->d);
    s.response = panels_take(&free, x->d, x->e);
    s.heads = free;
    panels_pack(x->kernels, s.k_panels, s.k);
    return s;
}

/* Head r of those that share keys. */
static head_gradient head_of(const attention *x, const gradient *s, size_t batch, size_t group, size_t r) {
    const size_t head = group * x->repeats + r;
    real *free = s->heads + r * (panels_size(x->queries, x->d) + panels_size(x->queries, x->e));
    head_gradient h = {.d_q = host_matrix(&x->operands[0], batch, head),
                       .g = host_matrix(&x->operands[3], batch, head),
                       .q = host_matrix(&x->operands[6], batch, head)};
    h.q_panels = panels_take(&free, x->queries, x->d);
    h.g_panels = panels_take(&free, x->queries, x->e);
    return h;
}

static void backward_whole(const attention *x, const gradient *s, size_t batch, size_t group) {
    panels_clear(s->state);
    panels_add_product(x->kernels, s->state, 0, x->e, matrix_transposed(s->v), s->k_panels, 0, x->keys);
    panels_clear(s->response);
    panels_clear(s->response_t);
    for (size_t r = 0; r < x->repeats; r++) {
        const head_gradient h = head_of(x, s, batch, group, r);
        panels_store_product(x->kernels, h.g, s->state, x->queries, h.d_q, x->scale);
        panels_add_product(x->kernels, s->response, 0, x->d, matrix_transposed(h.q), h.g_panels, 0, x->queries);
        panels_add_product(x->kernels, s->response_t, 0, x->e, matrix_transposed(h.g), h.q_panels, 0, x->queries);
    }
    panels_store_product(x->kernels, s->k, s->response, x->keys, s->d_v, x->scale);
    panels_store_product(x->kernels, s->v, s->response_t, x->keys, s->d_k, x->scale);
}

/* R and R^T of all heads += query `query` of each. */
static void add_query(const attention *x, const gradient *s, size_t batch, size_t group, size_t query) {
    for (size_t r = 0; r < x->repeats; r++) {
        const head_gradient h = head_of(x, s, batch, group, r);
        panels_add_product(x->kernels, s->response, 0, x->d, matrix_transposed(matrix_from_row(h.q, query)), h.g_panels,
                           query, 1);
        panels_add_product(x->kernels, s->response_t, 0, x->e, matrix_transposed(matrix_from_row(h.g, query)),
                           h.q_panels, query, 1);
    }
}

static void backward_causal(const attention *x, const gradient *s, size_t batch, size_t group, size_t all_keys) {
    size_t query = x->queries;

    for (size_t r = 0; r < x->repeats; r++) {
        const head_gradient h = head_of(x, s, batch, group, r);
        sweep_forwards(x, h.g, s->v, s->k_panels, s->state, all_keys, h.d_q);
    }
    panels_clear(s->response);
    panels_clear(s->response_t);
    for (size_t j = x->keys; j-- > 0;) {
        while (query > 0 && host_visible_keys(x->mask, query - 1, x->queries, all_keys) > j)
            add_query(x, s, batch, group, --query);
        panels_store_product(x->kernels, matrix_from_row(s->k, j), s->response, 1, matrix_from_row(s->d_v, j),
                             x->scale);
        panels_store_product(x->kernels, matrix_from_row(s->v, j), s->response_t, 1, matrix_from_row(s->d_k, j),
                             x->scale);
    }
}

static void backward_sequences(void *context, size_t first, size_t last, size_t thread) {
    const attention *x = context;
    const size_t all_keys = x->operands[7].shape[2], groups = x->operands[7].shape[1];
    for (size_t sequence = first; sequence < last; sequence++) {
        const size_t batch = sequence / groups, group = sequence % groups;
        const gradient s = set_up_gradient(x, batch, group, x->scratch + thread * x->scratch_per_thread);
        for (size_t r = 0; r < x->repeats; r++) {
            const head_gradient h = head_of(x, &s, batch, group, r);
            panels_pack(x->kernels, h.q_panels, h.q);
            panels_pack(x->kernels, h.g_panels, h.g);
        }
        if (x->mask == ICL_MASK_CAUSAL)
            backward_causal(x, &s, batch, group, all_keys);
        else
            backward_whole(x, &s, batch, group);
        matrix_clear_rows(s.d_k, x->keys, all_keys, x->d);
        matrix_clear_rows(s.d_v, x->keys, all_keys, x->e);
    }
}

icl_status HOST(linear_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
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
