/* The last two layers of a linear transformer with dense P and Q, forwards and back: linear_dense.h has the formulas. */
#include "backend/cpu/kernels/linear_dense.h"

typedef struct head {
    const linear_group *group;
    const linear_plan *plan;
    const head_memory *m;
    const lane *gram, *query;
    size_t size, rows;          /* D, V */
    size_t before, last;        /* layers a and b */
    size_t heads, heads_before; /* H, and H or, where there is but one layer, 0 */
} head;

head_memory KERNEL(linear_head_memory)(const linear_plan *plan, lane_memory *memory) {
    const size_t size = plan->size, heads = plan->heads, rows = 2 * heads, all = heads * (rows + 1) + heads;
    return (head_memory){
        .query_after = take_lanes(memory, size),
        .x = take_lanes(memory, (rows + 1) * size),
        .y = take_lanes(memory, rows * size),
        .gram_y = take_lanes(memory, rows * size),
        .d_y = take_lanes(memory, (rows + 1) * size),
        .d_x = take_lanes(memory, rows * size),
        .eta = take_lanes(memory, heads * (rows + 1) * size),
        .d_rho = take_lanes(memory, heads * (rows + 1) * size),
        .left = take_lanes(memory, all * size),
        .right = take_lanes(memory, all * size),
    };
}

/* The rows of head k in left and right, eta and d_rho. */
static size_t rows_of(const head *x, size_t k) {
    return k * (x->rows + 1) * x->size;
}

static void broadcast(lane *to, const real *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = lane_set(values[i]);
}

/* Returns the last coordinate of the query after both layers. */
static lane forward(const head *x) {
    const head_memory *m = x->m;
    const size_t size = x->size, rows = x->rows;
    lane value;

    lanes_copy(m->query_after, x->query, size);
    for (size_t k = 0; k < x->heads_before; k++) {
        lane *mapped = m->right + rows_of(x, k) + rows * size,
             *attended = m->d_rho + rows_of(x, k) + rows * size;
        map_rows_shared(mapped, x->query, 1, dense_q_transposed(x->plan, x->before, k), size, false);
        map_rows(attended, mapped, 1, x->gram, size, false);
        map_rows_shared(m->query_after, attended, 1, dense_p_transposed(x->plan, x->before, k), size, true);
    }
    for (size_t h = 0; h < x->heads; h++) {
        broadcast(m->x + h * size, dense_p(x->plan, x->last, h) + (size - 1) * size, size);
        map_rows_shared(m->x + (x->heads + h) * size, m->query_after, 1,
                        dense_q_transposed(x->plan, x->last, h), size, false);
    }
    lanes_copy(m->y, m->x, rows * size);
    for (size_t k = 0; k < x->heads_before; k++) {
        lane *rho = m->right + rows_of(x, k), *eta = m->eta + rows_of(x, k);
        broadcast(rho, x->plan->last_rows + k * x->heads * size, x->heads * size);
        map_rows_shared(rho + x->heads * size, m->x + x->heads * size, x->heads,
                        dense_p(x->plan, x->before, k), size, false);
        map_rows(eta, rho, rows, x->gram, size, false);
        map_rows_shared(m->y, eta, rows, dense_q(x->plan, x->before, k), size, true);
    }
    map_rows(m->gram_y, m->y, rows, x->gram, size, false);
    value = m->query_after[size - 1];
    for (size_t h = 0; h < x->heads; h++)
        value = lane_add(value, lanes_dot(m->y + h * size, m->gram_y + (x->heads + h) * size, size));
    return value;
}

/* The gradients of layer b, and that of q' into the last row of x. */
static void reverse_last(const head *x, lane slope) {
    const head_memory *m = x->m;
    const size_t size = x->size, rows = x->rows, block = x->plan->block;
    lane *d_query_after = m->x + rows * size;

    lanes_clear(d_query_after, size);
    d_query_after[size - 1] = slope;
    for (size_t h = 0; h < x->heads; h++) {
        const lane *d_v = m->d_x + h * size, *d_w = m->d_x + (x->heads + h) * size;
        outer_rows(gradient_of_q(x->group, x->last, h), d_w, m->query_after, 1, block, size, false, false);
        if (block == size) /* else the last row of P is constant */
            lanes_copy(gradient_of_p(x->group, x->last, h) + (size - 1) * size, d_v, size);
        map_rows_shared(d_query_after, d_w, 1, dense_q(x->plan, x->last, h), size, true);
    }
}

static void reverse(const head *x, lane slope) {
    const head_memory *m = x->m;
    const size_t size = x->size, rows = x->rows, half = x->heads * size, block = x->plan->block;

    lanes_scale(m->d_y, slope, m->gram_y + half, half);
    lanes_scale(m->d_y + half, slope, m->gram_y, half);
    lanes_copy(m->d_y + rows * size, x->query, size);
    lanes_copy(m->d_x, m->d_y, rows * size);
    for (size_t k = 0; k < x->heads_before; k++) {
        lane *d_eta = m->left + rows_of(x, k), *d_rho = m->d_rho + rows_of(x, k);
        map_rows_shared(d_eta, m->d_y, rows, dense_q_transposed(x->plan, x->before, k), size, false);
        map_rows(d_rho, d_eta, rows, x->gram, size, false);
        map_rows_shared(m->d_x, d_rho, rows, dense_p_transposed(x->plan, x->before, k), size, true);
    }
    reverse_last(x, slope);
    for (size_t k = 0; k < x->heads_before; k++) {
        lane *d_attended = m->left + rows_of(x, k) + rows * size,
             *d_mapped = m->eta + rows_of(x, k) + rows * size;
        map_rows_shared(d_attended, m->x + rows * size, 1, dense_p(x->plan, x->before, k), size, false);
        map_rows(d_mapped, d_attended, 1, x->gram, size, false);
        outer_rows(gradient_of_p(x->group, x->before, k), m->x, m->d_rho + rows_of(x, k), rows + 1, block,
                   size, false, false);
        outer_rows(gradient_of_q(x->group, x->before, k), m->eta + rows_of(x, k), m->d_y, rows + 1, block,
                   size, false, false);
    }
    lanes_scale(m->left + rows_of(x, x->heads_before), slope, m->y, half);
    lanes_copy(m->right + rows_of(x, x->heads_before), m->y + half, half);
}

void KERNEL(linear_head)(const linear_group *group, const head_memory *m, const lane *gram, const lane *query,
                         lane *s, lane *d_query) {
    const linear_plan *plan = group->plan;
    const size_t size = plan->size, heads = plan->heads;
    const head x = {.group = group,
                    .plan = plan,
                    .m = m,
                    .gram = gram,
                    .query = query,
                    .size = size,
                    .rows = 2 * heads,
                    .before = plan->full,
                    .last = plan->depth - 1,
                    .heads = heads,
                    .heads_before = plan->depth > 1 ? heads : 0};
    const lane slope = KERNEL(linear_predicted)(group, forward(&x));

    if (!plan->has_gradient)
        return;
    reverse(&x, slope);
    if (plan->full == 0)
        return;
    const size_t all = heads * (x.rows + 1) + heads;
    outer_rows(s, m->left, m->right, all, size, size, false, true);
    outer_rows(s, m->right, m->left, all, size, size, true, true);
    lanes_copy(d_query, m->x + x.rows * size, size);
    for (size_t k = 0; k < heads; k++)
        map_rows_shared(d_query, m->eta + rows_of(&x, k) + x.rows * size, 1, dense_q(plan, x.before, k), size,
                        true);
}
