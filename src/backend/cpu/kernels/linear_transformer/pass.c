/*
 * A layer c of a linear transformer with dense P and Q whose Gram matrix G' = A G A^T is never formed, because only a
 * few vectors are multiplied by it. A row x comes to x G' by products of vectors alone,
 *
 *     x P,  x P G,  x A = x + sum over heads of (x P G) Q,  y = x A G,  y Q^T,  y Q^T G,
 *     x G' = y + sum of (y Q^T G) P^T,
 *
 * 6 H + 1 products with a matrix. The gradient of G' is the sum of l^T r over pairs of such rows, so with S = dG' +
 * dG'^T those of the layer are sums over rows as well, of S A G = sum of (l^T (r A G) + r^T (l A G)): with x all l and
 * r, and y of the row that x is paired with,
 *
 *     dP = sum of x^T (y Q^T G),  dQ = sum of (x P G)^T y,
 *     S <- sum over pairs of (l A)^T (r A) + sum of (x P)^T (y Q^T), plus the transpose of both.
 *
 * The map of the query joins them as one more pair, dq and q.
 */
#include "backend/cpu/kernels/linear_transformer/dense.h"

/* Rows of a head: all of every pair, and one for the query. */
static size_t rows_of_head(const linear_plan *plan) {
    return 2 * KERNEL(linear_pairs)(plan) + 1;
}

/* Rows of `left`: l A, then x P of every head. */
static size_t rows_of_sum(const linear_plan *plan) {
    return KERNEL(linear_pairs)(plan) + plan->heads * rows_of_head(plan);
}

passed_memory KERNEL(linear_passed_memory)(const linear_plan *plan, lane_memory *memory) {
    const size_t size = plan->size, rows = rows_of_head(plan), sum = rows_of_sum(plan);
    passed_memory m = {
        .x = take_lanes(memory, rows * size),
        .x_p_gram = take_lanes(memory, plan->heads * rows * size),
        .y = take_lanes(memory, rows * size),
        .y_q_gram = take_lanes(memory, plan->heads * rows * size),
        .sum = take_lanes(memory, 3 * sum * size),
    };
    m.left = m.sum;
    m.right = m.sum ? m.sum + sum * size : NULL;
    return m;
}

/* Where x P, x P G, y Q^T and y Q^T G of a head's row stand; x P and y Q^T behind the rows of pairs. */
static size_t at_row(const linear_plan *plan, size_t head, size_t row) {
    return (head * rows_of_head(plan) + row) * plan->size;
}

static size_t behind_pairs(const linear_plan *plan, size_t head, size_t row) {
    return KERNEL(linear_pairs)(plan) * plan->size + at_row(plan, head, row);
}

/* x A, from `count` rows x that stand at `row`. */
static void map_transposed(const linear_group *group, const passed_memory *m, const lane *gram, const lane *x, lane *to,
                           size_t row, size_t count) {
    const linear_plan *plan = group->plan;
    const size_t size = plan->size;

    for (size_t h = 0; h < plan->heads; h++) {
        lane *x_p = m->left + behind_pairs(plan, h, row), *x_p_gram = m->x_p_gram + at_row(plan, h, row);
        map_rows_shared(x_p, x, count, dense_p(plan, plan->full, h), size, NULL);
        fetch_ahead(group);
        map_rows(x_p_gram, x_p, count, gram, size, NULL);
        fetch_ahead(group);
        map_rows_shared(to, x_p_gram, count, dense_q(plan, plan->full, h), size, h > 0 ? to : x);
    }
}

/* y A^T, likewise. */
static void map(const linear_group *group, const passed_memory *m, const lane *gram, const lane *y, lane *to,
                size_t row, size_t count) {
    const linear_plan *plan = group->plan;
    const size_t size = plan->size;

    for (size_t h = 0; h < plan->heads; h++) {
        lane *y_q = m->right + behind_pairs(plan, h, row), *y_q_gram = m->y_q_gram + at_row(plan, h, row);
        map_rows_shared(y_q, y, count, dense_q_transposed(plan, plan->full, h), size, NULL);
        fetch_ahead(group);
        map_rows(y_q_gram, y_q, count, gram, size, NULL);
        fetch_ahead(group);
        map_rows_shared(to, y_q_gram, count, dense_p_transposed(plan, plan->full, h), size, h > 0 ? to : y);
    }
}

void KERNEL(linear_pass)(const linear_group *group, const head_memory *head, const lane *gram, size_t first,
                         size_t count) {
    const passed_memory *m = &head->passed;
    const size_t size = group->plan->size, pairs = KERNEL(linear_pairs)(group->plan);
    const bool is_left = first < pairs;
    const size_t paired = is_left ? first + pairs : first - pairs;
    lane *x_a = is_left ? m->left + first * size : m->right + paired * size, *y = m->y + paired * size;

    map_transposed(group, m, gram, head->rows + first * size, x_a, first, count);
    fetch_ahead(group);
    map_rows(y, x_a, count, gram, size, NULL);
    map(group, m, gram, y, head->mapped + first * size, paired, count);
}

void KERNEL(linear_pass_query)(const linear_group *group, const head_memory *head, const lane *gram,
                               const lane *query) {
    const passed_memory *m = &head->passed;
    const size_t size = group->plan->size, last = rows_of_head(group->plan) - 1;

    lanes_copy(m->y + last * size, query, size);
    map(group, m, gram, query, head->query, last, 1);
}

void KERNEL(linear_pass_reverse)(const linear_group *group, const head_memory *head, const lane *gram, lane slope,
                                 lane *s, lane *d_query) {
    const linear_plan *plan = group->plan;
    const passed_memory *m = &head->passed;
    const size_t size = plan->size, rows = rows_of_head(plan), count = rows * size;

    map_transposed(group, m, gram, head->d_query, d_query, rows - 1, 1);
    lanes_scale(m->x, slope, head->rows, count - size);
    lanes_scale(m->x + count - size, slope, head->d_query, size);
    lanes_scale(m->x_p_gram, slope, m->x_p_gram, plan->heads * count);
    for (size_t h = 0; h < plan->heads; h++) {
        write_outer(group, gradient_of_p(group, plan->full, h), m->x, m->y_q_gram + h * count, rows, plan->block);
        write_outer(group, gradient_of_q(group, plan->full, h), m->x_p_gram + h * count, m->y, rows, plan->block);
    }
    if (plan->full == 0)
        return;
    lanes_scale(d_query, slope, d_query, size);
    lanes_scale(m->left, slope, m->left, rows_of_sum(plan) * size);
    sum_pairs(s, m->sum, rows_of_sum(plan), size);
}
