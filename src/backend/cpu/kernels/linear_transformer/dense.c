/*
 * Linear transformers with dense P and Q: the layers before the last two. In Gram space, with S = dG + dG^T,
 *
 *     R = G Q,  A = I + sum over heads of P R,  G <- A G A^T,  q <- A q                              3.5 D^3
 *     T = S A,  dA = T G + dq q^T,  dP = dA R^T,  dR = P^T dA,  dQ = G dR,
 *     S <- A^T T + sum of (Q dR^T + dR Q^T),  dq <- A^T dq                                           6.5 D^3
 *
 * multiplications each, for one head; symmetric products count half. In token space, with tokens as the rows of Z [n +
 * 1][D], the query last, and G = factor * (the first n rows)^T (the same),
 *
 *     U = Z Q^T,  V = U G,  Z <- Z + sum over heads of V P^T                                         3.5 n D^2
 *     dV = dZ P,  dP = dZ^T V,  dU = dV G,  dQ = dU^T Z,  S = sum of (dV^T U + U^T dV),
 *     dZ <- dZ + sum of dU Q + (factor * Z S, but for the query's row)                               7 n D^2
 *
 * The first layer's tokens and Gram matrix are data, so whatever only their gradient needs is left out.
 */
#include "backend/cpu/kernels/linear_transformer/linear.h"

/* ---- Memory, and where parts and gradients stand ---- */

/*
 * The last two layers a and b, computed with products of matrices and vectors only, from the Gram matrix G and the
 * query q before them. With
 *     q' = q + sum_k P_ak G Q_ak q,    v_h = P_bh^T e_D,    w_h = Q_bh q',    A^T x = x + sum_k Q_ak^T G P_ak^T x
 * the last coordinate of the query after both is q'_D + sum_h (A^T v_h)^T G (A^T w_h).
 *
 * Every vector that is multiplied by G is a row, and the gradient of G is the sum of l^T r over pairs of rows: row i
 * and row `pairs` + i. The rows come in this order, with K the heads of layer a (H, or 0 if there is only one layer):
 *     [K]     Q_ak q                opposite to    [K]     the gradient of G Q_ak q
 *     [K][H]  P_ak^T v_h                           [K][H]  that of eta_v = G P_ak^T v_h
 *     [K][H]  P_ak^T w_h                           [K][H]  that of eta_w
 *     [H]     y_v = A^T v_h                        [H]     y_w = A^T w_h
 * These are the gradients of the query's last coordinate; the slope of the loss is multiplied in at the end.
 *
 * If the plan passes one more layer c on to vectors, G and q stand before that layer, and the rows are multiplied by
 * the Gram matrix after it.
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

/* Computes S [D][D] = sum over `pairs` pairs of l^T r + r^T l. `rows` holds the l, then the r, then room for a copy of
 * the l. */
ALWAYS_INLINE void sum_pairs(lane *s, lane *rows, size_t pairs, size_t size) {
    lanes_copy(rows + 2 * pairs * size, rows, pairs * size);
    outer_rows(s, rows, rows + pairs * size, 2 * pairs, size, false, true);
}

/* P and Q of a head, and the places of their gradients in the group's. */
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

/* Returns how many heads layer a has. */
static size_t heads_before(const linear_plan *plan) {
    return plan->depth > 1 ? plan->heads : 0;
}

static size_t pairs_of_rows(const linear_plan *plan) {
    return heads_before(plan) * (2 * plan->heads + 1) + plan->heads;
}

/* ---- A layer that is passed on to vectors ---- */

/*
 * A layer c of a linear transformer with dense P and Q whose Gram matrix G' = A G A^T is never formed, because only a
 * few vectors are multiplied by it. For a row x, x G' takes only products with vectors:
 *
 *     x P,  x P G,  x A = x + sum over heads of (x P G) Q,  y = x A G,  y Q^T,  y Q^T G,
 *     x G' = y + sum of (y Q^T G) P^T,
 *
 * that is 6 H + 1 products of a vector and a matrix. The gradient of G' is the sum of l^T r over pairs of such rows, so
 * with S = dG' + dG'^T the layer's gradients are sums over rows as well, because S A G = sum of (l^T (r A G) + r^T (l A
 * G)). With x all l and r, and y of the row that x is paired with,
 *
 *     dP = sum of x^T (y Q^T G),  dQ = sum of (x P G)^T y,
 *     S <- sum over pairs of (l A)^T (r A) + sum of (x P)^T (y Q^T), plus the transpose of both.
 *
 * The map of the query joins them as one more pair, dq and q.
 */

/* Returns the number of a head's rows: all rows of every pair, and one for the query. */
static size_t rows_of_head(const linear_plan *plan) {
    return 2 * pairs_of_rows(plan) + 1;
}

/* Returns the number of rows of `left`: l A, then x P of every head. */
static size_t rows_of_sum(const linear_plan *plan) {
    return pairs_of_rows(plan) + plan->heads * rows_of_head(plan);
}

static passed_memory passed_memory_of(const linear_plan *plan, lane_memory *memory) {
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

/* Offsets of x P, x P G, y Q^T and y Q^T G of a head's row; x P and y Q^T come after the rows of pairs. */
static size_t at_row(const linear_plan *plan, size_t head, size_t row) {
    return (head * rows_of_head(plan) + row) * plan->size;
}

static size_t behind_pairs(const linear_plan *plan, size_t head, size_t row) {
    return pairs_of_rows(plan) * plan->size + at_row(plan, head, row);
}

/* Computes to = x A for `count` rows x. The intermediate x P and x P G are kept from row `row` on. */
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

/* Computes to = y A^T likewise. */
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

/* Multiplies `count` rows from `first` on, all on one side of the pairs, by G'. */
static void pass_rows(const linear_group *group, const head_memory *head, const lane *gram, size_t first,
                      size_t count) {
    const passed_memory *m = &head->passed;
    const size_t size = group->plan->size, pairs = pairs_of_rows(group->plan);
    const bool is_left = first < pairs;
    const size_t paired = is_left ? first + pairs : first - pairs;
    lane *x_a = is_left ? m->left + first * size : m->right + paired * size, *y = m->y + paired * size;

    map_transposed(group, m, gram, head->rows + first * size, x_a, first, count);
    fetch_ahead(group);
    map_rows(y, x_a, count, gram, size, NULL);
    map(group, m, gram, y, head->mapped + first * size, paired, count);
}

/* Maps the query by the layer, into head->query. */
static void pass_query(const linear_group *group, const head_memory *head, const lane *gram, const lane *query) {
    const passed_memory *m = &head->passed;
    const size_t size = group->plan->size, last = rows_of_head(group->plan) - 1;

    lanes_copy(m->y + last * size, query, size);
    map(group, m, gram, query, head->query, last, 1);
}

/* Writes the layer's gradients, from head->d_query and the rows; if layers come before it, also S and dq before it. */
static void pass_reverse(const linear_group *group, const head_memory *head, const lane *gram, lane slope, lane *s,
                         lane *d_query) {
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

/* ---- The last two layers ---- */

typedef struct head {
    const linear_group *group;
    const linear_plan *plan;
    const head_memory *m;
    const lane *gram, *query;   /* before the first of these layers */
    size_t size;                /* D */
    size_t before, last;        /* layers a and b */
    size_t heads, heads_before; /* H; and H, or 0 if there is only one layer */
    size_t pairs;
    size_t rho_v, rho_w, y_v; /* the first row of each; mapped queries begin at 0 */
} head;

static head_memory head_memory_of(const linear_plan *plan, lane_memory *memory) {
    const size_t size = plan->size, heads = plan->heads, pairs = pairs_of_rows(plan);
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
        m.passed = passed_memory_of(plan, memory);
    return m;
}

static lane *row_of(const head *unit, size_t row) {
    return unit->m->rows + row * unit->size;
}

/* Returns that row times the Gram matrix. */
static lane *mapped_row(const head *unit, size_t row) {
    return unit->m->mapped + row * unit->size;
}

static void broadcast(lane *to, const real *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        to[i] = lane_set(values[i]);
}

/* Multiplies rows by the Gram matrix before layer a. */
static void map_by_gram(const head *unit, size_t first, size_t count) {
    if (count == 0)
        return;
    fetch_ahead(unit->group);
    if (unit->plan->passes)
        pass_rows(unit->group, unit->m, unit->gram, first, count);
    else
        map_rows(mapped_row(unit, first), row_of(unit, first), count, unit->gram, unit->size, NULL);
}

/* ---- Forwards ---- */

/* Computes q' and all rows that do not depend on it. */
static void map_query(const head *unit) {
    const head_memory *m = unit->m;
    const size_t size = unit->size, heads = unit->heads;

    for (size_t k = 0; k < unit->heads_before; k++) {
        map_rows_shared(row_of(unit, k), m->query, 1, dense_q_transposed(unit->plan, unit->before, k), size, NULL);
        broadcast(row_of(unit, unit->rho_v + k * heads), unit->plan->last_rows + k * heads * size, heads * size);
    }
    map_by_gram(unit, 0, unit->rho_w);
    lanes_copy(m->query_after, m->query, size);
    for (size_t k = 0; k < unit->heads_before; k++)
        map_rows_shared(m->query_after, mapped_row(unit, k), 1, dense_p_transposed(unit->plan, unit->before, k), size,
                        m->query_after);
}

/* Computes y = A^T x for the x of all heads, from the rows eta [heads before][H]. */
static void map_back(const head *unit, lane *y, const lane *from, const lane *eta) {
    const size_t size = unit->size, count = unit->heads * size;
    lanes_copy(y, from, count);
    for (size_t k = 0; k < unit->heads_before; k++)
        map_rows_shared(y, eta + k * count, unit->heads, dense_q(unit->plan, unit->before, k), size, y);
}

/* Returns the last coordinate of the query after both layers. */
static lane forward(const head *unit) {
    const head_memory *m = unit->m;
    const size_t size = unit->size, heads = unit->heads, count = heads * size, opposite = unit->pairs;
    lane *w = m->x + count, value;

    map_query(unit);
    for (size_t h = 0; h < heads; h++) {
        broadcast(m->x + h * size, dense_p(unit->plan, unit->last, h) + (size - 1) * size, size);
        map_rows_shared(w + h * size, m->query_after, 1, dense_q_transposed(unit->plan, unit->last, h), size, NULL);
    }
    for (size_t k = 0; k < unit->heads_before; k++)
        map_rows_shared(row_of(unit, unit->rho_w + k * heads), w, heads, dense_p(unit->plan, unit->before, k), size,
                        NULL);
    map_back(unit, row_of(unit, unit->y_v), m->x, mapped_row(unit, unit->rho_v));
    map_by_gram(unit, unit->rho_w, unit->pairs - unit->rho_w);
    map_back(unit, row_of(unit, opposite + unit->y_v), w, mapped_row(unit, unit->rho_w));
    for (size_t k = 0; k < unit->heads_before && unit->plan->has_gradient; k++)
        map_rows_shared(row_of(unit, opposite + unit->rho_w + k * heads), mapped_row(unit, unit->y_v), heads,
                        dense_q_transposed(unit->plan, unit->before, k), size, NULL);
    const size_t first = opposite + (unit->plan->has_gradient ? unit->rho_w : unit->y_v);
    map_by_gram(unit, first, 2 * unit->pairs - first);
    value = m->query_after[size - 1];
    for (size_t h = 0; h < heads; h++)
        value =
            lane_add(value, lanes_dot(row_of(unit, unit->y_v + h), mapped_row(unit, opposite + unit->y_v + h), size));
    return value;
}

/* ---- Back: the derivatives of the query's last coordinate. The slope of the loss comes in at the end. ---- */

/* d_x = dy + sum over k of (gradients of rho) P_ak^T */
static void reverse_x(const head *unit, lane *d_x, const lane *d_y, const lane *d_rho) {
    const size_t size = unit->size, count = unit->heads * size;
    lanes_copy(d_x, d_y, count);
    for (size_t k = 0; k < unit->heads_before; k++)
        map_rows_shared(d_x, d_rho + k * count, unit->heads, dense_p_transposed(unit->plan, unit->before, k), size,
                        d_x);
}

static void reverse_rows(const head *unit) {
    const head_memory *m = unit->m;
    const size_t size = unit->size, heads = unit->heads, opposite = unit->pairs;
    const lane *d_y_v = mapped_row(unit, opposite + unit->y_v);
    lane *d_query_after = m->x + 2 * heads * size;

    reverse_x(unit, m->d_w, mapped_row(unit, unit->y_v), mapped_row(unit, opposite + unit->rho_w));
    lanes_clear(d_query_after, size);
    d_query_after[size - 1] = lane_set(1);
    for (size_t h = 0; h < heads; h++)
        map_rows_shared(d_query_after, m->d_w + h * size, 1, dense_q(unit->plan, unit->last, h), size, d_query_after);
    for (size_t k = 0; k < unit->heads_before; k++) {
        map_rows_shared(row_of(unit, opposite + k), d_query_after, 1, dense_p(unit->plan, unit->before, k), size, NULL);
        map_rows_shared(row_of(unit, opposite + unit->rho_v + k * heads), d_y_v, heads,
                        dense_q_transposed(unit->plan, unit->before, k), size, NULL);
    }
    map_by_gram(unit, opposite, unit->rho_w);
    reverse_x(unit, m->d_v, d_y_v, mapped_row(unit, opposite + unit->rho_v));
    lanes_copy(m->d_query, d_query_after, size);
    for (size_t k = 0; k < unit->heads_before; k++)
        map_rows_shared(m->d_query, mapped_row(unit, opposite + k), 1, dense_q(unit->plan, unit->before, k), size,
                        m->d_query);
}

/* Writes the gradients of layer b. Of its P only the last row has a gradient, and only if it consists of parameters. */
static void write_last(const head *unit, lane slope) {
    const head_memory *m = unit->m;
    const size_t size = unit->size, block = unit->plan->block;

    lanes_scale(m->d_w, slope, m->d_w, unit->heads * size);
    for (size_t h = 0; h < unit->heads; h++) {
        lane *last_row = gradient_of_p(unit->group, unit->last, h) + (size - 1) * size;
        write_outer(unit->group, gradient_of_q(unit->group, unit->last, h), m->d_w + h * size, m->query_after, 1,
                    block);
        for (size_t i = 0; i < size && block == size; i++)
            write_element(unit->group, last_row + i, lane_multiply(slope, m->d_v[h * size + i]));
    }
}

/* Writes the gradients of layer a: dP_k = v^T d_rho_v + w^T d_rho_w + dq'^T (G Q_k q), dQ_k = eta_v^T dy_v + eta_w^T
 * dy_w + (d Q_k q)^T q. */
static void write_before(const head *unit, lane slope) {
    const head_memory *m = unit->m;
    const size_t size = unit->size, heads = unit->heads, count = heads * size, block = unit->plan->block;
    const size_t opposite = unit->pairs;

    for (size_t k = 0; k < unit->heads_before; k++) {
        lanes_scale(m->pack_right, slope, mapped_row(unit, opposite + unit->rho_v + k * heads), count);
        lanes_scale(m->pack_right + count, slope, mapped_row(unit, opposite + unit->rho_w + k * heads), count);
        lanes_scale(m->pack_right + 2 * count, slope, mapped_row(unit, k), size);
        write_outer(unit->group, gradient_of_p(unit->group, unit->before, k), m->x, m->pack_right, 2 * heads + 1,
                    block);
    }
    lanes_scale(m->pack_right, slope, mapped_row(unit, opposite + unit->y_v), count);
    lanes_scale(m->pack_right + count, slope, mapped_row(unit, unit->y_v), count);
    lanes_scale(m->pack_right + 2 * count, slope, m->query, size);
    for (size_t k = 0; k < unit->heads_before; k++) {
        lanes_copy(m->pack_left, mapped_row(unit, unit->rho_v + k * heads), count);
        lanes_copy(m->pack_left + count, mapped_row(unit, unit->rho_w + k * heads), count);
        lanes_copy(m->pack_left + 2 * count, mapped_row(unit, opposite + k), size);
        write_outer(unit->group, gradient_of_q(unit->group, unit->before, k), m->pack_left, m->pack_right,
                    2 * heads + 1, block);
    }
}

/* ---- Both ---- */

/* Writes the predictions. With a gradient, writes the losses instead, the gradients of the last two layers and of the
 * one that is passed on to vectors, if any; and if there are layers before them S = dG + dG^T [D][D] and dq [D]. */
static void run_head(const linear_group *group, const head_memory *m, const lane *gram, const lane *query, lane *s,
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
                    .pairs = pairs_of_rows(plan),
                    .rho_v = before,
                    .rho_w = before * (heads + 1),
                    .y_v = before * (2 * heads + 1)};

    if (plan->passes)
        pass_query(group, m, gram, query);
    else
        lanes_copy(m->query, query, size);
    const lane slope = linear_answered(group, forward(&x));
    if (!plan->has_gradient)
        return;
    reverse_rows(&x);
    write_last(&x, slope);
    write_before(&x, slope);
    if (plan->passes) {
        pass_reverse(group, m, gram, slope, s, d_query);
        return;
    }
    if (plan->full == 0)
        return;
    lanes_scale(d_query, slope, m->d_query, size);
    lanes_scale(m->rows, slope, m->rows, x.pairs * size);
    sum_pairs(s, m->rows, x.pairs, size);
}

/* ---- The layers before them ---- */

typedef struct dense {
    const linear_group *group;
    const linear_plan *plan;
    size_t size, square, rows; /* D, D^2, n + 1 */

    lane *grams, *queries, *maps, *r; /* [full][D][D], [full][D], [full][D][D] and R^T [full][heads][D][D] */
    lane *tokens, *u, *v;             /* [full][n + 1][D], and [full][heads][n + 1][D] */
    lane *first_t;                    /* (A G)^T of the first layer, for its reverse pass */
    lane *s, *t, *d_map, *d_r, *d_query, *d_query_before;
    lane *d_tokens, *d_tokens_before, *d_u, *d_v;
    head_memory head;
} dense;

static dense describe(const linear_plan *plan, const linear_group *group, lane_memory *memory) {
    const size_t size = plan->size, square = size * size, full = plan->full, tokens = (plan->context + 1) * size;
    dense run = {.group = group, .plan = plan, .size = size, .square = square, .rows = plan->context + 1};

    run.grams = take_lanes(memory, full * square);
    run.s = take_lanes(memory, square);
    run.d_query = take_lanes(memory, size);
    if (plan->in_tokens) {
        run.tokens = take_lanes(memory, full * tokens);
        run.u = take_lanes(memory, full * plan->heads * tokens);
        run.v = take_lanes(memory, full * plan->heads * tokens);
        run.d_tokens = take_lanes(memory, tokens);
        run.d_tokens_before = take_lanes(memory, tokens);
        run.d_u = take_lanes(memory, tokens);
        run.d_v = take_lanes(memory, tokens);
    } else {
        run.queries = take_lanes(memory, full * size);
        run.maps = take_lanes(memory, full * square);
        run.r = take_lanes(memory, full * plan->heads * square);
        run.t = take_lanes(memory, square);
        run.first_t = take_lanes(memory, full > 0 ? square : 0);
        run.d_map = take_lanes(memory, square);
        run.d_r = take_lanes(memory, square);
        run.d_query_before = take_lanes(memory, size);
    }
    run.head = head_memory_of(plan, memory);
    return run;
}

/* The inputs of layer `layer`: the group's own data, or the results of the layer before it. */
static lane *gram_before(const dense *run, size_t layer) {
    return layer == 0 ? run->group->gram : run->grams + (layer - 1) * run->square;
}

static lane *query_before(const dense *run, size_t layer) {
    return layer == 0 ? run->group->query : run->queries + (layer - 1) * run->size;
}

static lane *tokens_before(const dense *run, size_t layer) {
    return layer == 0 ? run->group->tokens : run->tokens + (layer - 1) * run->rows * run->size;
}

/* Computes to = (or +=) m y, where m is shared by all sequences and given by its transpose, and y is of lanes; with
 * y_transposed, m y^T. */
static void multiply_left(const dense *run, lane *to, const real *m_transposed, const lane *y, bool y_transposed,
                          bool add) {
    const size_t size = run->size;
    fetch_ahead(run->group);
    KERNEL(lane_product)
    (&(lane_product){.rows = size,
                     .columns = size,
                     .depth = size,
                     .to = to,
                     .to_row = 1,
                     .to_column = size,
                     .a = y,
                     .a_row = y_transposed ? size : 1,
                     .a_depth = y_transposed ? 1 : size,
                     .shared = m_transposed,
                     .b_depth = size,
                     .onto = add ? to : NULL});
}

/* Describes to [D][D] = a b, or only its corner [extent][extent]. */
static lane_product square_product(const dense *run, lane *to, const lane *a, const lane *b, size_t extent) {
    return (lane_product){.rows = extent,
                          .columns = extent,
                          .depth = run->size,
                          .to = to,
                          .to_row = extent,
                          .to_column = 1,
                          .a = a,
                          .a_row = run->size,
                          .a_depth = 1,
                          .b = b,
                          .b_depth = run->size};
}

/* ---- Gram space ---- */

/* Computes the Gram matrix and the query after a layer. Keeps R^T for the reverse pass. Of T = A G only T^T is needed,
 * because A G A^T = A T^T. */
static void forward_in_gram(const dense *run, size_t layer) {
    const lane *gram = gram_before(run, layer);
    lane *map = run->maps + layer * run->square;

    for (size_t h = 0; h < run->plan->heads; h++) {
        lane *r = run->r + (layer * run->plan->heads + h) * run->square;
        multiply_left(run, r, dense_q(run->plan, layer, h), gram, false, false);
        multiply_left(run, map, dense_p_transposed(run->plan, layer, h), r, true, h > 0);
    }
    add_identity(map, run->size);
    fetch_ahead(run->group);
    lane *after_half = layer == 0 ? run->first_t : run->t;
    lane_product t = square_product(run, after_half, map, gram, run->size);
    t.to_row = 1;
    t.to_column = run->size;
    KERNEL(lane_product)(&t);
    lane_product after = square_product(run, gram_before(run, layer + 1), map, after_half, run->size);
    after.symmetric = true;
    fetch_ahead(run->group);
    KERNEL(lane_product)(&after);
    map_vector(query_before(run, layer + 1), map, query_before(run, layer), run->size);
}

static void reverse_head_in_gram(const dense *run, size_t layer, size_t h) {
    const lane *r = run->r + (layer * run->plan->heads + h) * run->square;
    const lane_product p = square_product(run, gradient_of_p(run->group, layer, h), run->d_map, r, run->plan->block);
    const lane_product q =
        square_product(run, gradient_of_q(run->group, layer, h), gram_before(run, layer), run->d_r, run->plan->block);

    write_product(run->group, p);
    multiply_left(run, run->d_r, dense_p(run->plan, layer, h), run->d_map, false, false);
    fetch_ahead(run->group);
    write_product(run->group, q);
    if (layer > 0)
        multiply_left(run, run->s, dense_q_transposed(run->plan, layer, h), run->d_r, true, h > 0);
}

/* Computes dA = S A G + dq q^T. The first layer multiplies by A G, which it kept as its transpose, because S A has no
 * other use there. */
static void reverse_map(const dense *run, size_t layer) {
    const lane *map = run->maps + layer * run->square, *query = query_before(run, layer);
    lane_product d_map = square_product(run, run->d_map, run->t, gram_before(run, layer), run->size);

    d_map.outer_row = run->d_query;
    d_map.outer_column = query;
    if (layer == 0) {
        d_map.to_row = 1;
        d_map.to_column = run->size;
        d_map.a = run->first_t;
        d_map.b = run->s;
        d_map.outer_row = query;
        d_map.outer_column = run->d_query;
    } else {
        map_rows(run->t, run->s, run->size, map, run->size, NULL);
    }
    fetch_ahead(run->group);
    KERNEL(lane_product)(&d_map);
}

static void reverse_in_gram(dense *run, size_t layer) {
    const lane *map = run->maps + layer * run->square;
    lane_product d_gram = square_product(run, run->s, map, run->t, run->size);

    reverse_map(run, layer);
    for (size_t h = 0; h < run->plan->heads; h++)
        reverse_head_in_gram(run, layer, h);
    if (layer == 0)
        return;
    add_transpose(run->s, run->size);
    d_gram.a_row = 1; /* of A^T */
    d_gram.a_depth = run->size;
    d_gram.onto = d_gram.to;
    d_gram.symmetric = true;
    KERNEL(lane_product)(&d_gram);
    map_rows(run->d_query_before, run->d_query, 1, map, run->size, NULL);
    lane *free = run->d_query;
    run->d_query = run->d_query_before;
    run->d_query_before = free;
}

/* ---- Token space ---- */

static void forward_in_tokens(const dense *run, size_t layer) {
    const lane *tokens = tokens_before(run, layer), *gram = gram_before(run, layer);
    lane *after = tokens_before(run, layer + 1);

    for (size_t h = 0; h < run->plan->heads; h++) {
        const size_t at = (layer * run->plan->heads + h) * run->rows * run->size;
        map_rows_shared(run->u + at, tokens, run->rows, dense_q_transposed(run->plan, layer, h), run->size, NULL);
        map_rows(run->v + at, run->u + at, run->rows, gram, run->size, NULL);
        map_rows_shared(after, run->v + at, run->rows, dense_p_transposed(run->plan, layer, h), run->size,
                        h > 0 ? after : tokens);
    }
    form_gram(run->plan, after, gram_before(run, layer + 1));
}

/* Adds the gradient of the Gram matrix to that of the tokens from which it was formed. */
static void reverse_gram(const dense *run, const lane *tokens, lane *d_tokens) {
    lanes_scale(run->s, lane_set(run->plan->factor), run->s, run->square);
    map_rows(d_tokens, tokens, run->plan->context, run->s, run->size, d_tokens);
}

static void reverse_in_tokens(dense *run, size_t layer) {
    const lane *tokens = tokens_before(run, layer), *gram = gram_before(run, layer);
    const size_t block = run->plan->block, count = run->rows * run->size;

    for (size_t h = 0; h < run->plan->heads; h++) {
        const size_t at = (layer * run->plan->heads + h) * count;
        write_outer(run->group, gradient_of_p(run->group, layer, h), run->d_tokens, run->v + at, run->rows, block);
        map_rows_shared(run->d_v, run->d_tokens, run->rows, dense_p(run->plan, layer, h), run->size, NULL);
        map_rows(run->d_u, run->d_v, run->rows, gram, run->size, NULL);
        write_outer(run->group, gradient_of_q(run->group, layer, h), run->d_u, tokens, run->rows, block);
        if (layer == 0)
            continue;
        outer_rows(run->s, run->d_v, run->u + at, run->rows, run->size, h > 0, true);
        outer_rows(run->s, run->u + at, run->d_v, run->rows, run->size, true, true);
        map_rows_shared(run->d_tokens_before, run->d_u, run->rows, dense_q(run->plan, layer, h), run->size,
                        h > 0 ? run->d_tokens_before : run->d_tokens);
    }
    if (layer == 0)
        return;
    reverse_gram(run, tokens, run->d_tokens_before);
    lane *free = run->d_tokens;
    run->d_tokens = run->d_tokens_before;
    run->d_tokens_before = free;
}

/* ---- All layers ---- */

static void run_in_gram(dense *run) {
    const size_t full = run->plan->full;

    for (size_t layer = 0; layer < full; layer++)
        forward_in_gram(run, layer);
    run_head(run->group, &run->head, gram_before(run, full), query_before(run, full), run->s, run->d_query);
    for (size_t layer = full; layer-- > 0 && run->plan->has_gradient;)
        reverse_in_gram(run, layer);
}

static void run_in_tokens(dense *run) {
    const size_t full = run->plan->full, context = run->plan->context;
    const lane *tokens = tokens_before(run, full);

    for (size_t layer = 0; layer < full; layer++)
        forward_in_tokens(run, layer);
    run_head(run->group, &run->head, gram_before(run, full), tokens + context * run->size, run->s, run->d_query);
    if (full == 0 || !run->plan->has_gradient)
        return;
    lanes_clear(run->d_tokens, context * run->size);
    lanes_copy(run->d_tokens + context * run->size, run->d_query, run->size);
    reverse_gram(run, tokens, run->d_tokens);
    for (size_t layer = full; layer-- > 0;)
        reverse_in_tokens(run, layer);
}

size_t KERNEL(linear_dense_lanes)(const linear_plan *plan) {
    lane_memory counted = {0};
    describe(plan, NULL, &counted);
    return counted.used;
}

void KERNEL(linear_dense)(const linear_group *group, lane *workspace) {
    lane_memory memory = memory_at(workspace);
    dense run = describe(group->plan, group, &memory);

    if (group->plan->in_tokens)
        run_in_tokens(&run);
    else
        run_in_gram(&run);
}
