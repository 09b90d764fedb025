/*
 * Two tokens run back at a time, by the formulas of backward.c: f of the earlier token is computed before the later one
 * has changed G, with products of the tokens themselves. Then a sweep over the rows of G processes both tokens, and one
 * over those of C: 7 fused multiply-adds for a load and a store. G comes first: the next pair's f needs it, and is
 * computed while C is being run back.
 */
#ifndef ICLAB_BACKEND_CPU_RECURRENCE_PAIRS_H
#define ICLAB_BACKEND_CPU_RECURRENCE_PAIRS_H

#include "backend/cpu/kernels/recurrence/backward.h"

/* Returns a vector whose lane j is the sum over channels of g_j k, for LANE_COUNT values. */
ALWAYS_INLINE lane channel_sums(const lane *g, const real *k, size_t chunks) {
    lane sum[LANE_COUNT];
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) sum[j] = lane_multiply(g[j * chunks], load_lane(k));
    for (size_t c = 1; c < chunks; c++) {
        const lane factor = load_lane(k + c * LANE_COUNT);
        UNROLL for (size_t j = 0; j < LANE_COUNT; j++) sum[j] = lane_fma(g[j * chunks + c], factor, sum[j]);
    }
    return fold_lanes(sum);
}

/* Returns vector `group` of one token's values of an operand. */
ALWAYS_INLINE lane load_group(const head_pass *pass, const rows *from, size_t t, size_t group) {
    return load_chunk(from, pass->first + t, pass->value + group * LANE_COUNT, pass->plan->n);
}

ALWAYS_INLINE lane load_flow(const head_pass *pass, size_t t, size_t group) {
    return lane_multiply(lane_set(pass->plan->scale * pass->factor[t]), load_group(pass, &pass->d_out, t, group));
}

ALWAYS_INLINE void store_coefficients(const head_pass *pass, size_t kind, size_t group, lane from) {
    memcpy(pass->coefficients + kind * LARGEST_BLOCK + group * LANE_COUNT, &from, sizeof from);
}

/* Computes from one token's f, for one group of values, the gradients of v and beta and the coefficients of the sweep.
 * Returns those for r. */
ALWAYS_INLINE lane use_flow(head_pass *pass, size_t t, size_t group, lane f_key, lane f_write, int number,
                            const bool delta, const bool apart) {
    const lane d_v = lane_multiply(lane_set(pass->beta[t]), f_write),
               minus = lane_set(-pass->beta[t] * pass->inverse[t]);
    const lane read = lane_multiply(lane_set(-pass->beta[t] * pass->factor[t]), f_key);
    const lane v = load_group(pass, &pass->in[V], t, group);
    const lane p = delta ? load_group(pass, &pass->reads, t, group) : lane_set(0);
    const lane taken = lane_multiply(lane_set(-1), p), rest = delta ? lane_add(v, taken) : v;

    if (apart) {
        pass->d_beta[t] = lane_fma(f_write, v, lane_fma(f_key, taken, pass->d_beta[t]));
        store_coefficients(pass, WRITE + number, group, lane_multiply(minus, v));
    } else {
        pass->d_beta[t] = lane_fma(f_key, rest, pass->d_beta[t]);
    }
    pass->v_dv[t] = lane_fma(v, d_v, pass->v_dv[t]);
    store_coefficients(pass, KEY + number, group, lane_multiply(minus, apart ? taken : rest));
    if (delta)
        store_coefficients(pass, READ + number, group, read);
    if (pass->gradient[V].elements)
        store_chunk(&pass->gradient[V], pass->first + t, pass->value + group * LANE_COUNT, pass->plan->n, d_v);
    return read;
}

/* Computes everything that the sweep needs for one group of values. */
ALWAYS_INLINE void prepare_group(head_pass *pass, const token *later, const token *earlier, bool is_pair, size_t group,
                                 const size_t chunks, const bool delta, const bool apart) {
    const size_t t = later->t, s = earlier->t;
    const lane *g = pass->gradients + (pass->value + group * LANE_COUNT) * chunks;
    const lane flow = load_flow(pass, t, group), inverse = lane_set(pass->inverse[t]);
    lane f_key = lane_fma(flow, lane_set(pass->same_key[t]), channel_sums(g, later->row[ROW_K], chunks));
    lane f_write = f_key, read;

    if (apart)
        f_write = lane_fma(flow, lane_set(pass->same_write[t]), channel_sums(g, later->row[ROW_W], chunks));
    store_coefficients(pass, FLOW, group, flow);
    read = use_flow(pass, t, group, lane_multiply(inverse, f_key), lane_multiply(inverse, f_write), 0, delta, apart);
    if (!is_pair)
        return;
    const lane flow0 = load_flow(pass, s, group), inverse0 = lane_set(pass->inverse[s]);
    store_coefficients(pass, FLOW + 1, group, flow0);
    f_key = lane_fma(flow, lane_set(pass->before_key[t]), channel_sums(g, earlier->row[ROW_K], chunks));
    if (delta)
        f_key = lane_fma(read, lane_set(pass->read_key[t]), f_key);
    f_key = lane_fma(flow0, lane_set(pass->same_key[s]), f_key);
    f_write = f_key;
    if (apart) {
        f_write = lane_fma(flow, lane_set(pass->before_write[t]), channel_sums(g, earlier->row[ROW_W], chunks));
        f_write = lane_fma(read, lane_set(pass->read_write[t]), f_write);
        f_write = lane_fma(flow0, lane_set(pass->same_write[s]), f_write);
    }
    use_flow(pass, s, group, lane_multiply(inverse0, f_key), lane_multiply(inverse0, f_write), 1, delta, apart);
}

/* Returns one vector of a token's row; of its sums, which begin with the first block; and stores one of these. */
ALWAYS_INLINE lane row_chunk(const token *from, int kind, size_t chunk) {
    return load_lane(from->row[kind] + chunk * LANE_COUNT);
}

ALWAYS_INLINE lane sum_chunk(const head_pass *pass, const token *from, int kind, size_t chunk) {
    return pass->value > 0 ? load_lane(from->sum[kind] + chunk * LANE_COUNT) : lane_set(0);
}

ALWAYS_INLINE void store_sum(const token *to, int kind, size_t chunk, lane sum) {
    memcpy(to->sum[kind] + chunk * LANE_COUNT, &sum, sizeof sum);
}

/* to += factor x */
ALWAYS_INLINE void add_rows(lane *to, real factor, const lane *x, const size_t vectors) {
    UNROLL for (size_t v = 0; v < vectors; v++) to[v] = lane_fma(lane_set(factor), x[v], to[v]);
}

/* Vectors of channels that pass through the registers together: a coefficient is loaded once for both. */
#define TOGETHER 2

/* Runs `vectors` vectors of all rows of G back by two tokens, and adds to the tokens' sums. */
ALWAYS_INLINE void sweep_gradient(const head_pass *pass, const token pair[2], size_t chunk, const size_t chunks,
                                  const size_t vectors, const bool delta, const bool apart) {
    const size_t count = pass->groups * LANE_COUNT;
    const real *at = pass->coefficients;
    lane *gradient = pass->gradients + pass->value * chunks + chunk, g[TOGETHER];
    lane q[2][TOGETHER], r[2][TOGETHER], sum_k[2][TOGETHER], sum_w[2][TOGETHER];

    UNROLL for (int i = 0; i < 2; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        q[i][v] = row_chunk(&pair[i], ROW_Q, chunk + v);
        r[i][v] = row_chunk(&pair[i], ROW_R, chunk + v);
        sum_k[i][v] = pass->joined ? lane_set(0) : sum_chunk(pass, &pair[i], ROW_K, chunk + v);
        sum_w[i][v] = apart ? sum_chunk(pass, &pair[i], ROW_W, chunk + v) : lane_set(0);
    }
    for (size_t j = 0; j < count; j++, at++, gradient += chunks) {
        UNROLL for (size_t v = 0; v < vectors; v++) g[v] = gradient[v];
        UNROLL for (int i = 0; i < 2; i++) {
            add_rows(g, at[(FLOW + i) * LARGEST_BLOCK], q[i], vectors);
            add_rows(sum_k[i], at[(KEY + i) * LARGEST_BLOCK], g, vectors);
            if (apart)
                add_rows(sum_w[i], at[(WRITE + i) * LARGEST_BLOCK], g, vectors);
            if (delta)
                add_rows(g, at[(READ + i) * LARGEST_BLOCK], r[i], vectors);
        }
        UNROLL for (size_t v = 0; v < vectors; v++) gradient[v] = g[v];
    }
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        store_sum(&pair[i], ROW_K, chunk + v, sum_k[i][v]);
        if (apart)
            store_sum(&pair[i], ROW_W, chunk + v, sum_w[i][v]);
    }
}

/* Does the same to C, which becomes the state before the two tokens. */
ALWAYS_INLINE void sweep_state(const head_pass *pass, const token pair[2], size_t chunk, const size_t chunks,
                               const size_t vectors, const bool delta, const bool apart) {
    const size_t count = pass->groups * LANE_COUNT;
    const real *at = pass->coefficients;
    lane *state = pass->state + chunk, c[TOGETHER];
    lane k[2][TOGETHER], w[2][TOGETHER], sum_q[2][TOGETHER], sum_r[2][TOGETHER];

    UNROLL for (int i = 0; i < 2; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        k[i][v] = row_chunk(&pair[i], ROW_K, chunk + v);
        w[i][v] = row_chunk(&pair[i], ROW_W, chunk + v);
        sum_q[i][v] = sum_chunk(pass, &pair[i], ROW_Q, chunk + v);
        sum_r[i][v] = sum_chunk(pass, &pair[i], ROW_R, chunk + v);
        if (pass->joined)
            sum_r[i][v] = lane_fma(lane_set(-1), load_lane(pair[i].sum[ROW_K] + (chunk + v) * LANE_COUNT), sum_r[i][v]);
    }
    for (size_t j = 0; j < count; j++, at++, state += chunks) {
        UNROLL for (size_t v = 0; v < vectors; v++) c[v] = state[v];
        UNROLL for (int i = 0; i < 2; i++) {
            add_rows(sum_q[i], at[(FLOW + i) * LARGEST_BLOCK], c, vectors);
            add_rows(c, at[(KEY + i) * LARGEST_BLOCK], k[i], vectors);
            if (apart)
                add_rows(c, at[(WRITE + i) * LARGEST_BLOCK], w[i], vectors);
            if (delta)
                add_rows(sum_r[i], at[(READ + i) * LARGEST_BLOCK], c, vectors);
        }
        UNROLL for (size_t v = 0; v < vectors; v++) state[v] = c[v];
    }
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        store_sum(&pair[i], ROW_Q, chunk + v, sum_q[i][v]);
        store_sum(&pair[i], ROW_R, chunk + v, sum_r[i][v]);
    }
}

/* Runs back token t and, if is_pair, t - 1. */
ALWAYS_INLINE void run_pair(head_pass *pass, size_t t, bool is_pair, const size_t chunks, const bool delta,
                            const bool apart) {
    const token pair[2] = {token_at(pass, t, true), token_at(pass, is_pair ? t - 1 : t, is_pair)};

    if (!is_pair)
        memset(pass->coefficients, 0, COEFFICIENTS * LARGEST_BLOCK * sizeof(real));
    for (size_t group = 0; group < pass->groups; group++)
        prepare_group(pass, &pair[0], &pair[1], is_pair, group, chunks, delta, apart);
    const size_t even = chunks / TOGETHER * TOGETHER;
    for (size_t chunk = 0; chunk < even; chunk += TOGETHER)
        sweep_gradient(pass, pair, chunk, chunks, TOGETHER, delta, apart);
    if (even < chunks)
        sweep_gradient(pass, pair, even, chunks, 1, delta, apart);
    for (size_t chunk = 0; chunk < even; chunk += TOGETHER)
        sweep_state(pass, pair, chunk, chunks, TOGETHER, delta, apart);
    if (even < chunks)
        sweep_state(pass, pair, even, chunks, 1, delta, apart);
}

#endif
