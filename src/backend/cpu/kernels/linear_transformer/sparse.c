/*
 * Linear transformers with P = [0 0; 0 1] and Q = [A 0; 0 0]: the x of the tokens never change, and preconditioned
 * gradient descent moves the labels. With G = [H u; u^T .], H [d][d], and A the sum over heads,
 *
 *     r = A^T u,  q_D <- q_D + r^T q_x,  u <- u + H r
 *
 * and in the reverse pass dr = dq_D q_x + H du,  dA = u dr^T,  du <- du + A dr. These are products of matrices and
 * vectors only, at any depth.
 */
#include "backend/cpu/kernels/linear_transformer/linear.h"

typedef struct sparse {
    lane *u, *r;     /* [depth][d] */
    lane *d_u, *d_r; /* [d] */
} sparse;

static sparse describe(const linear_plan *plan, lane_memory *memory) {
    const size_t d = plan->size - 1;
    return (sparse){
        .u = take_lanes(memory, plan->depth * d),
        .r = take_lanes(memory, plan->depth * d),
        .d_u = take_lanes(memory, d),
        .d_r = take_lanes(memory, d),
    };
}

size_t KERNEL(linear_sparse_lanes)(const linear_plan *plan) {
    lane_memory counted = {0};
    describe(plan, &counted);
    return counted.used;
}

/* to += H x */
static void add_gram(const linear_group *group, lane *to, const lane *x) {
    const size_t size = group->plan->size;
    KERNEL(lane_product)
    (&(lane_product){.rows = 1,
                     .columns = size - 1,
                     .depth = size - 1,
                     .to = to,
                     .to_column = 1,
                     .a = x,
                     .a_depth = 1,
                     .b = group->gram,
                     .b_depth = size,
                     .onto = to});
}

static void reverse(const linear_group *group, const sparse *run, lane slope) {
    const linear_plan *plan = group->plan;
    const size_t d = plan->size - 1, square = d * d;

    lanes_clear(run->d_u, d);
    for (size_t layer = plan->depth; layer-- > 0;) {
        lane *gradient = group->gradient + layer * plan->heads * square;
        lanes_scale(run->d_r, slope, group->query, d);
        if (layer + 1 < plan->depth)
            add_gram(group, run->d_r, run->d_u);
        for (size_t h = 0; h < plan->heads; h++)
            write_outer(group, gradient + h * square, run->u + layer * d, run->d_r, 1, d);
        if (layer > 0)
            map_rows_shared(run->d_u, run->d_r, 1, plan->q_transposed + layer * square, d, run->d_u);
    }
}

void KERNEL(linear_sparse)(const linear_group *group, lane *workspace) {
    const linear_plan *plan = group->plan;
    const size_t d = plan->size - 1;
    lane_memory memory = memory_at(workspace);
    const sparse run = describe(plan, &memory);
    lane value = group->query[d];

    lanes_copy(run.u, group->gram + d * plan->size, d);
    for (size_t layer = 0; layer < plan->depth; layer++) {
        lane *u = run.u + layer * d, *r = run.r + layer * d;
        map_rows_shared(r, u, 1, plan->q + layer * d * d, d, NULL);
        value = lane_add(value, lanes_dot(r, group->query, d));
        if (layer + 1 < plan->depth) {
            lanes_copy(u + d, u, d);
            add_gram(group, u + d, r);
        }
    }
    const lane slope = linear_answered(group, value);
    if (plan->has_gradient)
        reverse(group, &run, slope);
}
