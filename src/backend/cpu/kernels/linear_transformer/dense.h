/* Linear transformers with dense P and Q: what their two files share. */
#ifndef ICLAB_BACKEND_CPU_LINEAR_DENSE_H
#define ICLAB_BACKEND_CPU_LINEAR_DENSE_H

#include "backend/cpu/kernels/linear_transformer/linear.h"

/*
 * The last two layers a and b, at the Gram matrix G and the query q before them, by products of
 * matrices and vectors alone. With
 *     q' = q + sum_k P_ak G Q_ak q,    v_h = P_bh^T e_D,    w_h = Q_bh q',    A^T x = x + sum_k Q_ak^T G P_ak^T x
 * the last coordinate of the query after both is q'_D + sum_h (A^T v_h)^T G (A^T w_h).
 *
 * Every vector that is multiplied by G is a row, and the gradient of G is the sum of l^T r over pairs of rows: the row
 * i and the row `pairs` + i. In the order of the rows, with K the heads of layer a (H, or 0 where there
 * is but one layer):
 *     [K]     Q_ak q                opposite to    [K]     the gradient of G Q_ak q
 *     [K][H]  P_ak^T v_h                           [K][H]  that of eta_v = G P_ak^T v_h
 *     [K][H]  P_ak^T w_h                           [K][H]  that of eta_w
 *     [H]     y_v = A^T v_h                        [H]     y_w = A^T w_h
 * Gradients are those of the query's last coordinate; the slope of the loss comes in at the end.
 *
 * Where the plan passes one layer more on to vectors, that layer c, G and q stand before it and the rows are multiplied
 * by the Gram matrix behind it: pass.c.
 */
typedef struct passed_memory {
    lane *x;        /* [2 pairs + 1][D]: rows, times the slope; then dq */
    lane *x_p_gram; /* [H][2 pairs + 1][D]: x P G; then dq P G */
    lane *y;        /* [2 pairs + 1][D]: x A G of the opposite row; then q */
    lane *y_q_gram; /* [H][2 pairs + 1][D]: y Q^T G */
    lane *sum;      /* [3][pairs + H (2 pairs + 1)][D]: left, right and left again */
    lane *left;     /* [pairs][D]: x A of the first rows; then [H][2 pairs + 1][D]: x P */
    lane *right;    /* x A of the others; then y Q^T */
} passed_memory;

typedef struct head_memory {
    lane *query;                  /* [D]: q before layer a */
    lane *query_after;            /* [D]: q' */
    lane *x;                      /* [2 H + 1][D]: v, w; then dq' */
    lane *d_v, *d_w;              /* [H][D] */
    lane *d_query;                /* [D]: dq */
    lane *rows;                   /* [3 pairs][D]; the last third is for a copy of the first */
    lane *mapped;                 /* [2 pairs][D]: rows times G */
    lane *pack_left, *pack_right; /* [2 H + 1][D] */
    passed_memory passed;
} head_memory;

size_t KERNEL(linear_pairs)(const linear_plan *plan);
head_memory KERNEL(linear_head_memory)(const linear_plan *plan, lane_memory *memory);

/* Predictions; with a gradient also those of the last two layers, of the one that is passed on to vectors, if any, and,
 * where there are layers before them, S = dG + dG^T [D][D] and dq [D]. */
void KERNEL(linear_head)(const linear_group *group, const head_memory *m, const lane *gram, const lane *query, lane *s,
                         lane *d_query);

/* The layer passed on to vectors: `count` rows from `first` on, all on one side of the pairs; the query, into
 * head->query; and the way back, from head->d_query. */
passed_memory KERNEL(linear_passed_memory)(const linear_plan *plan, lane_memory *memory);
void KERNEL(linear_pass)(const linear_group *group, const head_memory *head, const lane *gram, size_t first,
                         size_t count);
void KERNEL(linear_pass_query)(const linear_group *group, const head_memory *head, const lane *gram, const lane *query);
void KERNEL(linear_pass_reverse)(const linear_group *group, const head_memory *head, const lane *gram, lane slope,
                                 lane *s, lane *d_query);

/* S [D][D] = sum over `pairs` pairs of l^T r + r^T l, from rows l, then rows r; behind them room for the l again. */
ALWAYS_INLINE void sum_pairs(lane *s, lane *rows, size_t pairs, size_t size) {
    lanes_copy(rows + 2 * pairs * size, rows, pairs * size);
    outer_rows(s, rows, rows + pairs * size, 2 * pairs, size, false, true);
}

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
