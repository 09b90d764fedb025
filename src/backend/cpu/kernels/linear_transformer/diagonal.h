/* Linear transformers with diagonal P and Q: what their two files share. */
#ifndef ICLAB_BACKEND_CPU_LINEAR_DIAGONAL_H
#define ICLAB_BACKEND_CPU_LINEAR_DIAGONAL_H

#include "backend/cpu/kernels/linear_transformer/linear.h"

enum { XX, XY, YX, YY, WEIGHTS };

typedef struct diagonal {
    const linear_group *group;
    const linear_plan *plan;
    size_t size, square, rows; /* D, D^2, n + 1 */

    lane *grams, *queries; /* [full][D][D], [full][D] */
    lane *maps, *last_map; /* [full][D][D], in token space; that of layer a */
    lane *kept, *scratch;  /* in Gram space: what layers keep for the way back, and what they need meanwhile */
    lane *tokens;          /* [full][n + 1][D] */
    lane *s, *s_before, *t, *d_map, *d_query, *d_query_before, *d_tokens, *d_tokens_before;

    lane *pair_left, *pair_right; /* [2][D]: w and dq'; dt and q */
    lane *query_after, *ends, *gram_ends, *d_w,
        *d_start; /* q', (s; t) [2][D], G times these, and gradients of w and s */
} diagonal;

ALWAYS_INLINE lane *gram_before(const diagonal *x, size_t layer) {
    return layer == 0 ? x->group->gram : x->grams + (layer - 1) * x->square;
}

ALWAYS_INLINE lane *query_before(const diagonal *x, size_t layer) {
    return layer == 0 ? x->group->query : x->queries + (layer - 1) * x->size;
}

ALWAYS_INLINE lane *tokens_before(const diagonal *x, size_t layer) {
    return layer == 0 ? x->group->tokens : x->tokens + (layer - 1) * x->rows * x->size;
}

ALWAYS_INLINE const real *weights_of(const diagonal *x, size_t layer) {
    return x->plan->weights + layer * WEIGHTS;
}

/* From the gradients of a layer's weights to those of its parameters. */
ALWAYS_INLINE void write_gradient(const diagonal *x, size_t layer, const lane d[WEIGHTS]) {
    const size_t per_head = x->plan->parameterization == ICL_LINEAR_DIAG ? 4 : 3;
    for (size_t h = 0; h < x->plan->heads; h++) {
        const real *part = x->plan->parts + (layer * x->plan->heads + h) * 4;
        const lane p_x = lane_set(part[0]), p_y = lane_set(part[1]), q_x = lane_set(part[2]), q_y = lane_set(part[3]);
        lane *to = x->group->gradient + (layer * x->plan->heads + h) * per_head;
        write_element(x->group, to + 0, lane_fma(d[XX], q_x, lane_multiply(d[XY], q_y)));
        write_element(x->group, to + 1, lane_fma(d[YX], q_x, lane_multiply(d[YY], q_y)));
        write_element(x->group, to + 2, lane_fma(d[XX], p_x, lane_multiply(d[YX], p_y)));
        if (per_head == 4)
            write_element(x->group, to + 3, lane_fma(d[XY], p_x, lane_multiply(d[YY], p_y)));
    }
}

/* Layers before the last two in Gram space, forwards and back. Handed on are S = dG + dG^T, of which the last column is
 * not read, and dq. */
size_t KERNEL(diagonal_kept_lanes)(const linear_plan *plan); /* of a layer */
size_t KERNEL(diagonal_scratch_lanes)(const linear_plan *plan);
void KERNEL(diagonal_forward_in_gram)(const diagonal *x, size_t layer);
void KERNEL(diagonal_reverse_in_gram)(diagonal *x, size_t layer);

#endif
