/*
 * Linear transformers with P = diag(p_x … p_x, p_y) and Q = diag(q_x … q_x, q_y). All heads of a layer come to four
 * weights, w_kl = sum over heads of p_k q_l, and a layer to A = I + W o G, where W is w_xx but in the last row and
 * column. Gram space: diagonal_gram.c. In token space, with tokens as the rows of Z (the query last),
 *
 *     Z <- Z A^T, G of these                                                                        1.5 n D^2
 *     dA = dZ^T Z, dw_kl = sum of dA o G over the block kl, S = W o dA + (W o dA)^T,
 *     dZ <- dZ A + factor * Z S                                                                     3 n D^2
 *
 * The last two layers a and b cost products of matrices and vectors alone: with v = e_D, of the last
 * one only w_y. matter, and
 *
 *     s = A^T e_D,  t = A^T w,  w = (w_yx … w_yx, w_yy) o q',  q' = A q,  last coordinate = q'_D + s^T G t.
 */
#include "backend/cpu/kernels/linear_transformer/diagonal.h"

static diagonal describe(const linear_plan *plan, const linear_group *group, lane_memory *memory) {
    const size_t size = plan->size, square = size * size, full = plan->full, tokens = (plan->context + 1) * size;
    diagonal x = {.group = group, .plan = plan, .size = size, .square = square, .rows = plan->context + 1};

    x.grams = take_lanes(memory, full * square);
    x.last_map = take_lanes(memory, square);
    x.s = take_lanes(memory, square);
    x.t = take_lanes(memory, square);
    x.d_map = take_lanes(memory, square);
    x.d_query = take_lanes(memory, size);
    x.d_query_before = take_lanes(memory, size);
    if (plan->in_tokens) {
        x.maps = take_lanes(memory, full * square);
        x.tokens = take_lanes(memory, full * tokens);
        x.d_tokens = take_lanes(memory, tokens);
        x.d_tokens_before = take_lanes(memory, tokens);
    } else {
        x.queries = take_lanes(memory, full * size);
        x.kept = take_lanes(memory, full * KERNEL(diagonal_kept_lanes)(plan));
        x.scratch = take_lanes(memory, full > 0 ? KERNEL(diagonal_scratch_lanes)(plan) : 0);
        x.s_before = take_lanes(memory, full > 1 ? square : 0);
    }
    x.pair_left = take_lanes(memory, 2 * size);
    x.pair_right = take_lanes(memory, 2 * size);
    x.query_after = take_lanes(memory, size);
    x.ends = take_lanes(memory, 2 * size);
    x.gram_ends = take_lanes(memory, 2 * size);
    x.d_w = take_lanes(memory, size);
    x.d_start = take_lanes(memory, size);
    return x;
}

/* to = W o m */
static void weigh(lane *to, const real *weights, const lane *m, size_t size) {
    for (size_t i = 0; i < size; i++) {
        const real *w = weights + (i + 1 < size ? XX : YX);
        const lane inner = lane_set(w[0]);
        for (size_t j = 0; j + 1 < size; j++)
            to[i * size + j] = lane_multiply(inner, m[i * size + j]);
        to[i * size + size - 1] = lane_multiply(lane_set(w[1]), m[i * size + size - 1]);
    }
}

/* A, or A^T: I plus the weighted G, which is symmetric. */
static void make_map(const diagonal *x, size_t layer, bool transposed, const lane *gram, lane *map) {
    const real *w = weights_of(x, layer), swapped[WEIGHTS] = {w[XX], w[YX], w[XY], w[YY]};
    weigh(map, transposed ? swapped : w, gram, x->size);
    add_identity(map, x->size);
}

/* dw = the sums of a o b over the four blocks. */
static void block_sums(const lane *a, const lane *b, size_t size, lane d_weights[WEIGHTS]) {
    lanes_clear(d_weights, WEIGHTS);
    for (size_t i = 0; i < size; i++) {
        lane *d = d_weights + (i + 1 < size ? XX : YX);
        const lane *a_row = a + i * size, *b_row = b + i * size;
        d[0] = lane_add(d[0], lanes_dot(a_row, b_row, size - 1));
        d[1] = lane_fma(a_row[size - 1], b_row[size - 1], d[1]);
    }
}

/* ---- Layers before the last two, in token space ---- */

static void forward_in_tokens(const diagonal *x, size_t layer) {
    lane *map = x->maps + layer * x->square;
    const size_t size = x->size;

    make_map(x, layer, false, gram_before(x, layer), map);
    make_map(x, layer, true, gram_before(x, layer), x->t);
    map_rows(tokens_before(x, layer + 1), tokens_before(x, layer), x->rows, x->t, size, NULL);
    form_gram(x->plan, tokens_before(x, layer + 1), gram_before(x, layer + 1));
}

/* Gradients of the layer's weights; and S becomes W o dA + (W o dA)^T where layers come before. */
static void reverse_map(const diagonal *x, size_t layer) {
    lane d_weights[WEIGHTS];

    block_sums(x->d_map, gram_before(x, layer), x->size, d_weights);
    write_gradient(x, layer, d_weights);
    if (layer == 0)
        return;
    weigh(x->s, weights_of(x, layer), x->d_map, x->size);
    add_transpose(x->s, x->size);
}

/* Adds what the Gram matrix hands on to the gradient of the tokens it was made of. */
static void reverse_gram(const diagonal *x, const lane *tokens, lane *d_tokens) {
    lanes_scale(x->s, lane_set(x->plan->factor), x->s, x->square);
    map_rows(d_tokens, tokens, x->plan->context, x->s, x->size, d_tokens);
}

static void reverse_in_tokens(diagonal *x, size_t layer) {
    const lane *map = x->maps + layer * x->square, *tokens = tokens_before(x, layer);

    outer_rows(x->d_map, x->d_tokens, tokens, x->rows, x->size, false, false);
    reverse_map(x, layer);
    if (layer == 0)
        return;
    map_rows(x->d_tokens_before, x->d_tokens, x->rows, map, x->size, NULL);
    reverse_gram(x, tokens, x->d_tokens_before);
    lane *free = x->d_tokens;
    x->d_tokens = x->d_tokens_before;
    x->d_tokens_before = free;
}

/* ---- The last two layers ---- */

/* w = (w_yx … w_yx, w_yy) o x, the weights of the last layer; and its reverse. */
static void weigh_last(const diagonal *x, lane *to, const lane *from) {
    const real *weights = weights_of(x, x->plan->depth - 1);
    lanes_scale(to, lane_set(weights[YX]), from, x->size - 1);
    to[x->size - 1] = lane_multiply(lane_set(weights[YY]), from[x->size - 1]);
}

static void reverse_last(const diagonal *x, const lane *query) {
    const size_t size = x->size;
    const lane d_weights[WEIGHTS] = {
        [XX] = lane_set(0),
        [XY] = lane_set(0),
        [YX] = lanes_dot(x->d_w, query, size - 1),
        [YY] = lane_multiply(x->d_w[size - 1], query[size - 1]),
    };
    write_gradient(x, x->plan->depth - 1, d_weights);
}

/* A single layer: the last coordinate is q_D + e_D^T G w. */
static void run_last(const diagonal *x, const lane *gram, const lane *query) {
    const size_t size = x->size;
    const lane *row = gram + (size - 1) * size;

    weigh_last(x, x->ends, query);
    const lane slope = KERNEL(linear_answered)(x->group, lane_add(query[size - 1], lanes_dot(row, x->ends, size)));
    if (!x->plan->has_gradient)
        return;
    lanes_scale(x->d_w, slope, row, size);
    reverse_last(x, query);
}

static void reverse_last_two(const diagonal *x, const lane *gram, const lane *query, const lane *map, lane slope) {
    const size_t size = x->size, layer = x->plan->full;
    lane *d_end = x->pair_right, *d_query_after = x->pair_left + size, d_weights[WEIGHTS];

    lanes_scale(x->d_start, slope, x->gram_ends + size, size);
    lanes_scale(d_end, slope, x->gram_ends, size);
    map_vector(x->d_w, map, d_end, size);
    reverse_last(x, x->query_after);
    weigh_last(x, d_query_after, x->d_w);
    d_query_after[size - 1] = lane_add(d_query_after[size - 1], slope);
    lanes_copy(x->pair_right + size, query, size);
    outer_rows(x->d_map, x->pair_left, x->pair_right, 2, size, false, false);
    lanes_add(x->d_map + (size - 1) * size, x->d_start, size);
    block_sums(x->d_map, gram, size, d_weights);
    write_gradient(x, layer, d_weights);
    if (layer == 0)
        return;
    weigh(x->s, weights_of(x, layer), x->d_map, size);
    add_transpose(x->s, size);
    lanes_scale(x->pair_left, slope, x->ends, size);
    lanes_scale(x->pair_right, slope, x->ends + size, size);
    outer_rows(x->s, x->pair_left, x->ends + size, 1, size, true, true);
    outer_rows(x->s, x->pair_right, x->ends, 1, size, true, true);
    map_rows(x->d_query, d_query_after, 1, map, size, NULL);
}

static void run_last_two(const diagonal *x, const lane *gram, const lane *query) {
    const size_t size = x->size, layer = x->plan->full;
    lane *map = x->last_map, *weighted = x->pair_left;

    make_map(x, layer, false, gram, map);
    map_vector(x->query_after, map, query, size);
    weigh_last(x, weighted, x->query_after);
    lanes_copy(x->ends, map + (size - 1) * size, size);
    fetch_ahead(x->group);
    map_rows(x->ends + size, weighted, 1, map, size, NULL);
    fetch_ahead(x->group);
    map_rows(x->gram_ends, x->ends, 2, gram, size, NULL);
    const lane slope = KERNEL(linear_answered)(
        x->group, lane_add(x->query_after[size - 1], lanes_dot(x->ends, x->gram_ends + size, size)));
    if (x->plan->has_gradient)
        reverse_last_two(x, gram, query, map, slope);
}

/* ---- All layers ---- */

size_t KERNEL(linear_diagonal_lanes)(const linear_plan *plan) {
    lane_memory counted = {0};
    describe(plan, NULL, &counted);
    return counted.used;
}

void KERNEL(linear_diagonal)(const linear_group *group, lane *workspace) {
    const linear_plan *plan = group->plan;
    const size_t full = plan->full;
    const bool in_tokens = plan->in_tokens;
    lane_memory memory = memory_at(workspace);
    diagonal x = describe(plan, group, &memory);

    for (size_t layer = 0; layer < full; layer++) {
        if (plan->in_tokens)
            forward_in_tokens(&x, layer);
        else
            KERNEL(diagonal_forward_in_gram)(&x, layer);
    }
    const lane *gram = gram_before(&x, full);
    const lane *query = in_tokens ? tokens_before(&x, full) + plan->context * x.size : query_before(&x, full);
    if (plan->depth == 1)
        run_last(&x, gram, query);
    else
        run_last_two(&x, gram, query);
    if (full == 0 || !plan->has_gradient)
        return;
    if (in_tokens) {
        lanes_clear(x.d_tokens, plan->context * x.size);
        lanes_copy(x.d_tokens + plan->context * x.size, x.d_query, x.size);
        reverse_gram(&x, tokens_before(&x, full), x.d_tokens);
    }
    for (size_t layer = full; layer-- > 0;) {
        if (in_tokens)
            reverse_in_tokens(&x, layer);
        else
            KERNEL(diagonal_reverse_in_gram)(&x, layer);
    }
}
