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
 * The first layer's tokens and Gram matrix are data: what only their gradient needs is left out.
 */
#include "backend/cpu/kernels/linear_transformer/dense.h"

typedef struct dense {
    const linear_group *group;
    const linear_plan *plan;
    size_t size, square, rows; /* D, D^2, n + 1 */

    lane *grams, *queries, *maps, *r; /* [full][D][D], [full][D], [full][D][D] and R^T [full][heads][D][D] */
    lane *tokens, *u, *v;             /* [full][n + 1][D], and [full][heads][n + 1][D] */
    lane *first_t;                    /* of the first layer, (A G)^T: its reverse pass multiplies with it */
    lane *s, *t, *d_map, *d_r, *d_query, *d_query_before;
    lane *d_tokens, *d_tokens_before, *d_u, *d_v;
    head_memory head;
} dense;

static dense describe(const linear_plan *plan, const linear_group *group, lane_memory *memory) {
    const size_t size = plan->size, square = size * size, full = plan->full, tokens = (plan->context + 1) * size;
    dense x = {.group = group, .plan = plan, .size = size, .square = square, .rows = plan->context + 1};

    x.grams = take_lanes(memory, full * square);
    x.s = take_lanes(memory, square);
    x.d_query = take_lanes(memory, size);
    if (plan->in_tokens) {
        x.tokens = take_lanes(memory, full * tokens);
        x.u = take_lanes(memory, full * plan->heads * tokens);
        x.v = take_lanes(memory, full * plan->heads * tokens);
        x.d_tokens = take_lanes(memory, tokens);
        x.d_tokens_before = take_lanes(memory, tokens);
        x.d_u = take_lanes(memory, tokens);
        x.d_v = take_lanes(memory, tokens);
    } else {
        x.queries = take_lanes(memory, full * size);
        x.maps = take_lanes(memory, full * square);
        x.r = take_lanes(memory, full * plan->heads * square);
        x.t = take_lanes(memory, square);
        x.first_t = take_lanes(memory, full > 0 ? square : 0);
        x.d_map = take_lanes(memory, square);
        x.d_r = take_lanes(memory, square);
        x.d_query_before = take_lanes(memory, size);
    }
    x.head = KERNEL(linear_head_memory)(plan, memory);
    return x;
}

/* What layer `layer` starts from: the group's own data, or what the layer before it left. */
static lane *gram_before(const dense *x, size_t layer) {
    return layer == 0 ? x->group->gram : x->grams + (layer - 1) * x->square;
}

static lane *query_before(const dense *x, size_t layer) {
    return layer == 0 ? x->group->query : x->queries + (layer - 1) * x->size;
}

static lane *tokens_before(const dense *x, size_t layer) {
    return layer == 0 ? x->group->tokens : x->tokens + (layer - 1) * x->rows * x->size;
}

/* to = (or +=) m y, a matrix that all sequences share, given by its transpose, times one of lanes, or
 * of a transposed one. */
static void multiply_left(const dense *x, lane *to, const real *m_transposed, const lane *y, bool y_transposed,
                          bool add) {
    const size_t size = x->size;
    fetch_ahead(x->group);
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

/* to [D][D] = a b; `extent` cuts it to its corner [extent][extent]. */
static lane_product square_product(const dense *x, lane *to, const lane *a, const lane *b, size_t extent) {
    return (lane_product){.rows = extent,
                          .columns = extent,
                          .depth = x->size,
                          .to = to,
                          .to_row = extent,
                          .to_column = 1,
                          .a = a,
                          .a_row = x->size,
                          .a_depth = 1,
                          .b = b,
                          .b_depth = x->size};
}

/* ---- Gram space ---- */

/* Keeps R^T, which the reverse pass multiplies with; and of T = A G only T^T is needed, as A G A^T = A T^T. */
static void forward_in_gram(const dense *x, size_t layer) {
    const lane *gram = gram_before(x, layer);
    lane *map = x->maps + layer * x->square;

    for (size_t h = 0; h < x->plan->heads; h++) {
        lane *r = x->r + (layer * x->plan->heads + h) * x->square;
        multiply_left(x, r, dense_q(x->plan, layer, h), gram, false, false);
        multiply_left(x, map, dense_p_transposed(x->plan, layer, h), r, true, h > 0);
    }
    add_identity(map, x->size);
    fetch_ahead(x->group);
    lane *after_half = layer == 0 ? x->first_t : x->t;
    lane_product t = square_product(x, after_half, map, gram, x->size);
    t.to_row = 1;
    t.to_column = x->size;
    KERNEL(lane_product)(&t);
    lane_product after = square_product(x, gram_before(x, layer + 1), map, after_half, x->size);
    after.symmetric = true;
    fetch_ahead(x->group);
    KERNEL(lane_product)(&after);
    map_vector(query_before(x, layer + 1), map, query_before(x, layer), x->size);
}

static void reverse_head_in_gram(const dense *x, size_t layer, size_t h) {
    const lane *r = x->r + (layer * x->plan->heads + h) * x->square;
    const lane_product p = square_product(x, gradient_of_p(x->group, layer, h), x->d_map, r, x->plan->block);
    const lane_product q =
        square_product(x, gradient_of_q(x->group, layer, h), gram_before(x, layer), x->d_r, x->plan->block);

    write_product(x->group, p);
    multiply_left(x, x->d_r, dense_p(x->plan, layer, h), x->d_map, false, false);
    fetch_ahead(x->group);
    write_product(x->group, q);
    if (layer > 0)
        multiply_left(x, x->s, dense_q_transposed(x->plan, layer, h), x->d_r, true, h > 0);
}

/* dA = S A G + dq q^T. In the first layer A G is at hand, as its transpose, and S A of no other use. */
static void reverse_map(const dense *x, size_t layer) {
    const lane *map = x->maps + layer * x->square, *query = query_before(x, layer);
    lane_product d_map = square_product(x, x->d_map, x->t, gram_before(x, layer), x->size);

    d_map.outer_row = x->d_query;
    d_map.outer_column = query;
    if (layer == 0) {
        d_map.to_row = 1;
        d_map.to_column = x->size;
        d_map.a = x->first_t;
        d_map.b = x->s;
        d_map.outer_row = query;
        d_map.outer_column = x->d_query;
    } else {
        map_rows(x->t, x->s, x->size, map, x->size, NULL);
    }
    fetch_ahead(x->group);
    KERNEL(lane_product)(&d_map);
}

static void reverse_in_gram(dense *x, size_t layer) {
    const lane *map = x->maps + layer * x->square;
    lane_product d_gram = square_product(x, x->s, map, x->t, x->size);

    reverse_map(x, layer);
    for (size_t h = 0; h < x->plan->heads; h++)
        reverse_head_in_gram(x, layer, h);
    if (layer == 0)
        return;
    add_transpose(x->s, x->size);
    d_gram.a_row = 1; /* of A^T */
    d_gram.a_depth = x->size;
    d_gram.onto = d_gram.to;
    d_gram.symmetric = true;
    KERNEL(lane_product)(&d_gram);
    map_rows(x->d_query_before, x->d_query, 1, map, x->size, NULL);
    lane *free = x->d_query;
    x->d_query = x->d_query_before;
    x->d_query_before = free;
}

/* ---- Token space ---- */

static void forward_in_tokens(const dense *x, size_t layer) {
    const lane *tokens = tokens_before(x, layer), *gram = gram_before(x, layer);
    lane *after = tokens_before(x, layer + 1);

    for (size_t h = 0; h < x->plan->heads; h++) {
        const size_t at = (layer * x->plan->heads + h) * x->rows * x->size;
        map_rows_shared(x->u + at, tokens, x->rows, dense_q_transposed(x->plan, layer, h), x->size, NULL);
        map_rows(x->v + at, x->u + at, x->rows, gram, x->size, NULL);
        map_rows_shared(after, x->v + at, x->rows, dense_p_transposed(x->plan, layer, h), x->size,
                        h > 0 ? after : tokens);
    }
    form_gram(x->plan, after, gram_before(x, layer + 1));
}

/* Adds what the Gram matrix hands on to the gradient of the tokens it was made of. */
static void reverse_gram(const dense *x, const lane *tokens, lane *d_tokens) {
    lanes_scale(x->s, lane_set(x->plan->factor), x->s, x->square);
    map_rows(d_tokens, tokens, x->plan->context, x->s, x->size, d_tokens);
}

static void reverse_in_tokens(dense *x, size_t layer) {
    const lane *tokens = tokens_before(x, layer), *gram = gram_before(x, layer);
    const size_t block = x->plan->block, count = x->rows * x->size;

    for (size_t h = 0; h < x->plan->heads; h++) {
        const size_t at = (layer * x->plan->heads + h) * count;
        write_outer(x->group, gradient_of_p(x->group, layer, h), x->d_tokens, x->v + at, x->rows, block);
        map_rows_shared(x->d_v, x->d_tokens, x->rows, dense_p(x->plan, layer, h), x->size, NULL);
        map_rows(x->d_u, x->d_v, x->rows, gram, x->size, NULL);
        write_outer(x->group, gradient_of_q(x->group, layer, h), x->d_u, tokens, x->rows, block);
        if (layer == 0)
            continue;
        outer_rows(x->s, x->d_v, x->u + at, x->rows, x->size, h > 0, true);
        outer_rows(x->s, x->u + at, x->d_v, x->rows, x->size, true, true);
        map_rows_shared(x->d_tokens_before, x->d_u, x->rows, dense_q(x->plan, layer, h), x->size,
                        h > 0 ? x->d_tokens_before : x->d_tokens);
    }
    if (layer == 0)
        return;
    reverse_gram(x, tokens, x->d_tokens_before);
    lane *free = x->d_tokens;
    x->d_tokens = x->d_tokens_before;
    x->d_tokens_before = free;
}

/* ---- All layers ---- */

static void run_in_gram(dense *x) {
    const size_t full = x->plan->full;

    for (size_t layer = 0; layer < full; layer++)
        forward_in_gram(x, layer);
    KERNEL(linear_head)(x->group, &x->head, gram_before(x, full), query_before(x, full), x->s, x->d_query);
    for (size_t layer = full; layer-- > 0 && x->plan->has_gradient;)
        reverse_in_gram(x, layer);
}

static void run_in_tokens(dense *x) {
    const size_t full = x->plan->full, context = x->plan->context;
    const lane *tokens = tokens_before(x, full);

    for (size_t layer = 0; layer < full; layer++)
        forward_in_tokens(x, layer);
    KERNEL(linear_head)
    (x->group, &x->head, gram_before(x, full), tokens + context * x->size, x->s, x->d_query);
    if (full == 0 || !x->plan->has_gradient)
        return;
    lanes_clear(x->d_tokens, context * x->size);
    lanes_copy(x->d_tokens + context * x->size, x->d_query, x->size);
    reverse_gram(x, tokens, x->d_tokens);
    for (size_t layer = full; layer-- > 0;)
        reverse_in_tokens(x, layer);
}

size_t KERNEL(linear_dense_lanes)(const linear_plan *plan) {
    lane_memory counted = {0};
    describe(plan, NULL, &counted);
    return counted.used;
}

void KERNEL(linear_dense)(const linear_group *group, lane *workspace) {
    lane_memory memory = memory_at(workspace);
    dense x = describe(group->plan, group, &memory);

    if (group->plan->in_tokens)
        run_in_tokens(&x);
    else
        run_in_gram(&x);
}
