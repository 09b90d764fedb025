/* Linear transformers with dense P and Q: what their two files share. */
#ifndef ICLAB_BACKEND_CPU_LINEAR_DENSE_H
#define ICLAB_BACKEND_CPU_LINEAR_DENSE_H

#include "backend/cpu/kernels/linear.h"

/*
 * The last two layers a and b, at the Gram matrix G and the query q before them, by products of matrices and vectors alone. With
 *     q' = q + sum_k P_ak G Q_ak q,    v_h = P_bh^T e_D,    w_h = Q_bh q',    A^T x = x + sum_k Q_ak^T G P_ak^T x
 * the last coordinate of the query after both is q'_D + sum_h (A^T v_h)^T G (A^T w_h). Rows h < H below belong to the v_h, rows H + h to
 * the w_h; there are V = 2 H of them. One row more, where it says V + 1, belongs to the map of q.
 */
typedef struct head_memory {
    lane *query_after; /* [D]: q' */
    lane *x;           /* [V + 1][D]: v, w; then dq' */
    lane *y;           /* [V][D]: A^T x */
    lane *gram_y;      /* [V][D]: G y */
    lane *d_y;         /* [V + 1][D]: gradient of y; then q */
    lane *d_x;         /* [V][D] */
    lane *eta;         /* [H][V + 1][D]: G P_ak^T x; then the gradient of Q_ak q */
    lane *d_rho;       /* [H][V + 1][D]: gradient of P_ak^T x; then G Q_ak q */

    /* The gradient of G is the sum of left^T right over all rows. [H (V + 1) + H][D] each. For every k: V rows of gradients of eta, then
     * that of G Q_ak q; opposite to them P_ak^T x, then Q_ak q. At the end e A^T v, opposite to A^T w. */
    lane *left, *right;
} head_memory;

head_memory KERNEL(linear_head_memory)(const linear_plan *plan, lane_memory *memory);

/* Predictions; with a gradient also those of the last two layers and, where there are layers before them, S = dG + dG^T
 * [D][D] and dq [D]. */
void KERNEL(linear_head)(const linear_group *group, const head_memory *m, const lane *gram, const lane *query,
                         lane *s, lane *d_query);

/* P and Q of a head, and where its gradients stand in the group's. */
ALWAYS_INLINE const real *dense_p(const linear_plan *plan, size_t layer, size_t head) {
    return plan->p + (layer * plan->heads + head) * plan->size * plan->size;
}

ALWAYS_INLINE const real *dense_q(const linear_plan *plan, size_t layer, size_t head) {
    return plan->q + (layer * plan->heads + head) * plan->size * plan->size;
}

ALWAYS_INLINE const real *dense_p_transposed(const linear_plan *plan, size_t layer, size_t head) {
    return plan->p_transposed + (layer * plan->heads + head) * plan->size * plan->size;
}

ALWAYS_INLINE const real *dense_q_transposed(const linear_plan *plan, size_t layer, size_t head) {
    return plan->q_transposed + (layer * plan->heads + head) * plan->size * plan->size;
}

ALWAYS_INLINE lane *gradient_of_p(const linear_group *group, size_t layer, size_t head) {
    const linear_plan *plan = group->plan;
    return group->gradient + (layer * plan->heads + head) * 2 * plan->block * plan->block;
}

ALWAYS_INLINE lane *gradient_of_q(const linear_group *group, size_t layer, size_t head) {
    return gradient_of_p(group, layer, head) + group->plan->block * group->plan->block;
}

#endif
