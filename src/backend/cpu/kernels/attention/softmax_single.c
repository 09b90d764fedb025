/*
 * Softmax attention for sequences of one query, BLOCK sequences at a time. Lanes are sequences, because one query would
 * leave all but one lane of a block of queries empty. The formulas are those of softmax.c. The scores of all keys are
 * kept, so that the maximum is known before the first weight. The backward pass is a single one, because with one query
 * no key's gradient is a sum.
 *
 *     forward:   s_j = q . k_j,  p_j = exp(scale s_j - max),  out = sum_j p_j v_j / sum_j p_j
 *     backward:  p_j = exp(scale s_j - log_sum_exp),  dv_j = p_j G,  t_j = p_j (G . v_j - G . out),
 *                dk_j = scale t_j q,  dq = scale sum_j t_j k_j
 *
 * Keys and values are gathered, d + e strided elements for each key and lane, and their gradients scattered. A key
 * costs this, one exponential, and 2 (d + e) flops forward or 6 d + 3 e backward. Each lane sums over the keys in
 * order.
 */
#include "arithmetic/exponential.h"
#include "backend/cpu/kernels/attention/softmax_lanes.h"

/* Returns row `row` of one head of the sequences from `first` on, as a matrix with a row for each sequence. */
static matrix across(const sequences *operand, size_t first, size_t head, size_t row) {
    return (matrix){operand->elements + first * operand->stride[0] + head * operand->stride[1] +
                        row * operand->stride[2],
                    operand->stride[0], operand->stride[3]};
}

/* sum = sum over c < width, in order, of x[c] * y[c] */
static void dot(lane sum[VECTORS], const lane *x, const lane *y, size_t width) {
    for (size_t n = 0; n < VECTORS; n++)
        sum[n] = lane_set(0);
    for (size_t c = 0; c < width; c++)
        for (size_t n = 0; n < VECTORS; n++)
            sum[n] = lane_fma(x[c * VECTORS + n], y[c * VECTORS + n], sum[n]);
}

/* sums [width] += weight * x [width] */
static void accumulate(lane *sums, lane *weight, const lane *x, size_t width) {
    for (size_t c = 0; c < width; c++)
        for (size_t n = 0; n < VECTORS; n++)
            sums[c * VECTORS + n] = lane_fma(weight[n], x[c * VECTORS + n], sums[c * VECTORS + n]);
}

/* out [width] = weight * x [width] */
static void multiply(lane *out, const lane *weight, const lane *x, size_t width) {
    for (size_t c = 0; c < width; c++)
        for (size_t n = 0; n < VECTORS; n++)
            out[c * VECTORS + n] = lane_multiply(weight[n], x[c * VECTORS + n]);
}

/* ---- Forward ---- */

/* Computes the scores of all keys, and the largest of them. */
static void score_keys(const plan *p, place at, size_t count, const lane *q, lane *k, lane *scores, size_t end,
                       real maximum[BLOCK]) {
    for (size_t l = 0; l < BLOCK; l++)
        maximum[l] = -REAL_MAX;
    for (size_t j = begin_of(p, 0); j < end; j++) {
        real *score = lane_elements(scores + j * VECTORS);
        pack_lanes(k, across(&p->k, at.batch, at.group, j), count, VECTORS, p->d);
        dot(scores + j * VECTORS, k, q, p->d);
        INDEPENDENT for (size_t l = 0; l < BLOCK; l++) {
            score[l] = p->scale * score[l];
            maximum[l] = score[l] > maximum[l] ? score[l] : maximum[l];
        }
    }
}

void KERNEL(softmax_single_forward)(const plan *p, place at, size_t count, void *workspace) {
    const size_t end = reach_of(p, 0);
    lane *q = workspace, *k = q + p->d * VECTORS, *v = k + p->d * VECTORS, *sums = v + p->e * VECTORS;
    lane *scores = sums + p->e * VECTORS;
    const matrix out = across(&p->out, at.batch, at.head, 0), lse = across(&p->log_sum_exp, at.batch, at.head, 0);
    real maximum[BLOCK], total[BLOCK] = {0};

    pack_lanes(q, across(&p->q, at.batch, at.head, 0), count, VECTORS, p->d);
    clear_lanes(sums, p->e);
    score_keys(p, at, count, q, k, scores, end, maximum);
    for (size_t j = begin_of(p, 0); j < end; j++) {
        real *score = lane_elements(scores + j * VECTORS);
        INDEPENDENT for (size_t l = 0; l < BLOCK; l++) {
            score[l] = weight_exponential(score[l] - maximum[l], false);
            total[l] += score[l];
        }
        pack_lanes(v, across(&p->v, at.batch, at.group, j), count, VECTORS, p->e);
        accumulate(sums, scores + j * VECTORS, v, p->e);
    }
    for (size_t l = 0; l < count; l++) {
        const real *lanes = lane_elements(sums) + l;
        for (size_t c = 0; c < p->e; c++)
            out.elements[l * out.row + c * out.column] = end > 0 ? lanes[c * BLOCK] / total[l] : 0;
        lse.elements[l * lse.row] = end > 0 ? maximum[l] + REAL_LOG(total[l]) : -(real)INFINITY;
    }
}

/* ---- Backward ---- */

/* Finds log_sum_exp and G . out of each lane. */
static void start_lanes(const plan *p, place at, size_t count, real log_sum_exp[BLOCK], real row_term[BLOCK]) {
    const matrix lse = across(&p->log_sum_exp, at.batch, at.head, 0), g = across(&p->d_out, at.batch, at.head, 0);
    const matrix out = across(&p->out, at.batch, at.head, 0);

    for (size_t l = 0; l < BLOCK; l++) {
        const size_t row = smaller(l, count - 1);
        log_sum_exp[l] = lse.elements[row * lse.row];
        row_term[l] = 0;
        for (size_t c = 0; c < p->e; c++)
            row_term[l] += g.elements[row * g.row + c * g.column] * out.elements[row * out.row + c * out.column];
    }
}

/* Stores the same gradients of the keys from `first` to `last`, without the latter. */
static void store_rows(const plan *p, place at, size_t count, lane *d_k, lane *d_v, size_t first, size_t last) {
    for (size_t j = first; j < last; j++) {
        store_lanes(d_k, 1, across(&p->d_k, at.batch, at.group, j), count, p->d);
        store_lanes(d_v, 1, across(&p->d_v, at.batch, at.group, j), count, p->e);
    }
}

void KERNEL(softmax_single_backward)(const plan *p, place at, size_t count, void *workspace) {
    const size_t begin = begin_of(p, 0), end = reach_of(p, 0), d = p->d, e = p->e;
    lane *q = workspace, *g = q + d * VECTORS, *k = g + e * VECTORS, *v = k + d * VECTORS;
    lane *d_q = v + e * VECTORS, *d_k = d_q + d * VECTORS, *d_v = d_k + d * VECTORS;
    lane weights[VECTORS], slopes[VECTORS];
    real log_sum_exp[BLOCK], row_term[BLOCK];
    real *weight = lane_elements(weights), *slope = lane_elements(slopes);

    pack_lanes(q, across(&p->q, at.batch, at.head, 0), count, VECTORS, d);
    pack_lanes(g, across(&p->d_out, at.batch, at.head, 0), count, VECTORS, e);
    clear_lanes(d_q, d);
    start_lanes(p, at, count, log_sum_exp, row_term);
    for (size_t j = begin; j < end; j++) {
        pack_lanes(k, across(&p->k, at.batch, at.group, j), count, VECTORS, d);
        pack_lanes(v, across(&p->v, at.batch, at.group, j), count, VECTORS, e);
        dot(weights, k, q, d);
        dot(slopes, v, g, e);
        INDEPENDENT for (size_t l = 0; l < BLOCK; l++) {
            weight[l] = weight_exponential(REAL_FMA(p->scale, weight[l], -log_sum_exp[l]), true);
            slope[l] = weight[l] * (slope[l] - row_term[l]);
        }
        accumulate(d_q, slopes, k, d);
        multiply(d_k, slopes, q, d);
        multiply(d_v, weights, g, e);
        store_lanes(d_k, p->scale, across(&p->d_k, at.batch, at.group, j), count, d);
        store_lanes(d_v, 1, across(&p->d_v, at.batch, at.group, j), count, e);
    }
    clear_lanes(d_k, d);
    clear_lanes(d_v, e);
    store_rows(p, at, count, d_k, d_v, 0, begin);
    store_rows(p, at, count, d_k, d_v, end, p->keys);
    store_lanes(d_q, p->scale, across(&p->d_q, at.batch, at.head, 0), count, d);
}

/* Returns the bytes that suffice for both passes; the scores of the forward pass take most of them. */
size_t KERNEL(softmax_single_workspace)(const plan *p) {
    return (4 * p->d + 3 * p->e + p->keys) * BLOCK * sizeof(real);
}
