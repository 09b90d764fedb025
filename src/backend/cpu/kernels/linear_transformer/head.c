/* The last two layers of a linear transformer with dense P and Q, forwards and back:
 * dense.h has the formulas. */
#include "backend/cpu/kernels/linear_transformer/dense.h"

typedef struct head {
    const linear_group *group;
    const linear_plan *plan;
    const head_memory *m;
    const lane *gram, *query;   /* before the first of the layers that are done here */
    size_t size;                /* D */
    size_t before, last;        /* layers a and b */
    size_t heads, heads_before; /* H, and H or, where there is but one layer, 0 */
    size_t pairs;
    size_t rho_v, rho_w, y_v; /* first rows; mapped queries begin at 0 */
} head;

/* Heads of layer a. */
static size_t heads_before(const linear_plan *plan) {
    return plan->depth > 1 ? plan->heads : 0;
}

size_t KERNEL(linear_pairs)(const linear_plan *plan) {
    return heads_before(plan) * (2 * plan->heads + 1) + plan->heads;
}

head_memory KERNEL(linear_head_memory)(const linear_plan *plan, lane_memory *memory) {
    const size_t size = plan->size, heads = plan->heads, pairs = KERNEL(linear_pairs)(plan);
    head_memory m = {
        .query = take_lanes(memory, size),
        .query_after = take_lanes(memory, size),
        .x = take_lanes(memory, (2 * heads + 1) * size),
        .d_v = take_lanes(memory, heads * size),
        .d_w = take_lanes(memory, heads * size),
        .d_query = take_lanes(memory, size),
        .rows = take_lanes(memory, 3 * pairs * size),
        .mapped = take_lanes(memory, 2 * pairs * size),
        .pack_left = take_lanes(memory, (2 * heads + 1) * size),
        .pack_right = take_lanes(memory, (2 * heads + 1) * size),
    };
    if (plan->passes)
        m.passed = KERNEL(linear_passed_memory)(plan, memory);
    return m;
}

static lane *row_of(const head *x, size_t row) {
    return x->m->rows + row * x->size;
}

/* What became of that row. */
static lane *mapped_row(const head *x, size_t row) {
    return x->m->mapped + row * x->size;
}

static void broadcast(lane *to, const real *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = lane_set(values[i]);
}

/* Rows times the Gram matrix before layer a. */
static void map_by_gram(const head *x, size_t first, size_t count) {
    if (count == 0)
        return;
    fetch_ahead(x->group);
    if (x->plan->passes)
        KERNEL(linear_pass)(x->group, x->m, x->gram, first, count);
    else
        map_rows(mapped_row(x, first), row_of(x, first), count, x->gram, x->size, NULL);
}

/* ---- Forwards ---- */

/* q' and all that does not depend on it. */
static void map_query(const head *x) {
    const head_memory *m = x->m;
    const size_t size = x->size, heads = x->heads;

    for (size_t k = 0; k < x->heads_before; k++) {
        map_rows_shared(row_of(x, k), m->query, 1, dense_q_transposed(x->plan, x->before, k), size, NULL);
        broadcast(row_of(x, x->rho_v + k * heads), x->plan->last_rows + k * heads * size, heads * size);
    }
    map_by_gram(x, 0, x->rho_w);
    lanes_copy(m->query_after, m->query, size);
    for (size_t k = 0; k < x->heads_before; k++)
        map_rows_shared(m->query_after, mapped_row(x, k), 1, dense_p_transposed(x->plan, x->before, k), size,
                        m->query_after);
}

/* y = A^T x for the x of all heads, from rows eta [heads before][H]. */
static void map_back(const head *x, lane *y, const lane *from, const lane *eta) {
    const size_t size = x->size, count = x->heads * size;
    lanes_copy(y, from, count);
    for (size_t k = 0; k < x->heads_before; k++)
        map_rows_shared(y, eta + k * count, x->heads, dense_q(x->plan, x->before, k), size, y);
}

/* Returns the last coordinate of the query after both layers. */
static lane forward(const head *x) {
    const head_memory *m = x->m;
    const size_t size = x->size, heads = x->heads, count = heads * size, opposite = x->pairs;
    lane *w = m->x + count, value;

    map_query(x);
    for (size_t h = 0; h < heads; h++) {
        broadcast(m->x + h * size, dense_p(x->plan, x->last, h) + (size - 1) * size, size);
        map_rows_shared(w + h * size, m->query_after, 1, dense_q_transposed(x->plan, x->last, h), size, NULL);
    }
    for (size_t k = 0; k < x->heads_before; k++)
        map_rows_shared(row_of(x, x->rho_w + k * heads), w, heads, dense_p(x->plan, x->before, k), size, NULL);
    map_back(x, row_of(x, x->y_v), m->x, mapped_row(x, x->rho_v));
    map_by_gram(x, x->rho_w, x->pairs - x->rho_w);
    map_back(x, row_of(x, opposite + x->y_v), w, mapped_row(x, x->rho_w));
    for (size_t k = 0; k < x->heads_before && x->plan->has_gradient; k++)
        map_rows_shared(row_of(x, opposite + x->rho_w + k * heads), mapped_row(x, x->y_v), heads,
                        dense_q_transposed(x->plan, x->before, k), size, NULL);
    const size_t first = opposite + (x->plan->has_gradient ? x->rho_w : x->y_v);
    map_by_gram(x, first, 2 * x->pairs - first);
    value = m->query_after[size - 1];
    for (size_t h = 0; h < heads; h++)
        value = lane_add(value, lanes_dot(row_of(x, x->y_v + h), mapped_row(x, opposite + x->y_v + h), size));
    return value;
}

/* ---- Back: the derivatives of the query's last coordinate. The slope of the loss comes in at the end. ---- */

/* d_x = dy + sum over k of (gradients of rho) P_ak^T */
static void reverse_x(const head *x, lane *d_x, const lane *d_y, const lane *d_rho) {
    const size_t size = x->size, count = x->heads * size;
    lanes_copy(d_x, d_y, count);
    for (size_t k = 0; k < x->heads_before; k++)
        map_rows_shared(d_x, d_rho + k * count, x->heads, dense_p_transposed(x->plan, x->before, k), size, d_x);
}

static void reverse_rows(const head *x) {
    const head_memory *m = x->m;
    const size_t size = x->size, heads = x->heads, opposite = x->pairs;
    const lane *d_y_v = mapped_row(x, opposite + x->y_v);
    lane *d_query_after = m->x + 2 * heads * size;

    reverse_x(x, m->d_w, mapped_row(x, x->y_v), mapped_row(x, opposite + x->rho_w));
    lanes_clear(d_query_after, size);
    d_query_after[size - 1] = lane_set(1);
    for (size_t h = 0; h < heads; h++)
        map_rows_shared(d_query_after, m->d_w + h * size, 1, dense_q(x->plan, x->last, h), size, d_query_after);
    for (size_t k = 0; k < x->heads_before; k++) {
        map_rows_shared(row_of(x, opposite + k), d_query_after, 1, dense_p(x->plan, x->before, k), size, NULL);
        map_rows_shared(row_of(x, opposite + x->rho_v + k * heads), d_y_v, heads,
                        dense_q_transposed(x->plan, x->before, k), size, NULL);
    }
    map_by_gram(x, opposite, x->rho_w);
    reverse_x(x, m->d_v, d_y_v, mapped_row(x, opposite + x->rho_v));
    lanes_copy(m->d_query, d_query_after, size);
    for (size_t k = 0; k < x->heads_before; k++)
        map_rows_shared(m->d_query, mapped_row(x, opposite + k), 1, dense_q(x->plan, x->before, k), size, m->d_query);
}

/* The gradients of layer b: of its P only the last row matters, and that may be constant. */
static void write_last(const head *x, lane slope) {
    const head_memory *m = x->m;
    const size_t size = x->size, block = x->plan->block;

    lanes_scale(m->d_w, slope, m->d_w, x->heads * size);
    for (size_t h = 0; h < x->heads; h++) {
        lane *last_row = gradient_of_p(x->group, x->last, h) + (size - 1) * size;
        write_outer(x->group, gradient_of_q(x->group, x->last, h), m->d_w + h * size, m->query_after, 1, block);
        for (size_t i = 0; i < size && block == size; i++)
            write_element(x->group, last_row + i, lane_multiply(slope, m->d_v[h * size + i]));
    }
}

/* Those of layer a: dP_k = v^T d_rho_v + w^T d_rho_w + dq'^T (G Q_k q), dQ_k = eta_v^T dy_v + eta_w^T dy_w
 * + (d Q_k q)^T q. */
static void write_before(const head *x, lane slope) {
    const head_memory *m = x->m;
    const size_t size = x->size, heads = x->heads, count = heads * size, block = x->plan->block;
    const size_t opposite = x->pairs;

    for (size_t k = 0; k < x->heads_before; k++) {
        lanes_scale(m->pack_right, slope, mapped_row(x, opposite + x->rho_v + k * heads), count);
        lanes_scale(m->pack_right + count, slope, mapped_row(x, opposite + x->rho_w + k * heads), count);
        lanes_scale(m->pack_right + 2 * count, slope, mapped_row(x, k), size);
        write_outer(x->group, gradient_of_p(x->group, x->before, k), m->x, m->pack_right, 2 * heads + 1, block);
    }
    lanes_scale(m->pack_right, slope, mapped_row(x, opposite + x->y_v), count);
    lanes_scale(m->pack_right + count, slope, mapped_row(x, x->y_v), count);
    lanes_scale(m->pack_right + 2 * count, slope, m->query, size);
    for (size_t k = 0; k < x->heads_before; k++) {
        lanes_copy(m->pack_left, mapped_row(x, x->rho_v + k * heads), count);
        lanes_copy(m->pack_left + count, mapped_row(x, x->rho_w + k * heads), count);
        lanes_copy(m->pack_left + 2 * count, mapped_row(x, opposite + k), size);
        write_outer(x->group, gradient_of_q(x->group, x->before, k), m->pack_left, m->pack_right, 2 * heads + 1, block);
    }
}

/* ---- Both ---- */

void KERNEL(linear_head)(const linear_group *group, const head_memory *m, const lane *gram, const lane *query, lane *s,
                         lane *d_query) {
    const linear_plan *plan = group->plan;
    const size_t size = plan->size, heads = plan->heads, before = heads_before(plan);
    const head x = {.group = group,
                    .plan = plan,
                    .m = m,
                    .gram = gram,
                    .query = query,
                    .size = size,
                    .before = plan->depth > 1 ? plan->depth - 2 : 0,
                    .last = plan->depth - 1,
                    .heads = heads,
                    .heads_before = before,
                    .pairs = KERNEL(linear_pairs)(plan),
                    .rho_v = before,
                    .rho_w = before * (heads + 1),
                    .y_v = before * (2 * heads + 1)};

    if (plan->passes)
        KERNEL(linear_pass_query)(group, m, gram, query);
    else
        lanes_copy(m->query, query, size);
    const lane slope = KERNEL(linear_answered)(group, forward(&x));
    if (!plan->has_gradient)
        return;
    reverse_rows(&x);
    write_last(&x, slope);
    write_before(&x, slope);
    if (plan->passes) {
        KERNEL(linear_pass_reverse)(group, m, gram, slope, s, d_query);
        return;
    }
    if (plan->full == 0)
        return;
    lanes_scale(d_query, slope, m->d_query, size);
    lanes_scale(m->rows, slope, m->rows, x.pairs * size);
    sum_pairs(s, m->rows, x.pairs, size);
}
