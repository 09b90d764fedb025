/*
 * Linear transformers with P = diag(p_x … p_x, p_y) and Q = diag(q_x … q_x, q_y). All heads of a layer together amount
 * to four weights, w_kl = sum over heads of p_k q_l, and a layer is A = I + W o G, where W is w_xx except in the last
 * row and column. In token space, with tokens as the rows of Z (the query last),
 *
 *     Z <- Z A^T, G of these                                                                        1.5 n D^2
 *     dA = dZ^T Z, dw_kl = sum of dA o G over the block kl, S = W o dA + (W o dA)^T,
 *     dZ <- dZ A + factor * Z S                                                                     3 n D^2
 *
 * The last two layers a and b cost only products of matrices and vectors. With v = e_D, only w_y. of the last layer
 * matter, and
 *
 *     s = A^T e_D,  t = A^T w,  w = (w_yx … w_yx, w_yy) o q',  q' = A q,  last coordinate = q'_D + s^T G t.
 */
#include "backend/cpu/kernels/linear_transformer/linear.h"

/* ---- Memory, and what layers have ---- */

enum { XX, XY, YX, YY, WEIGHTS };

typedef struct diagonal {
    const linear_group *group;
    const linear_plan *plan;
    size_t size, square, rows; /* D, D^2, n + 1 */

    lane *grams, *queries; /* [full][D][D], [full][D] */
    lane *maps, *last_map; /* [full][D][D], in token space; that of layer a */
    lane *kept, *scratch;  /* in Gram space: what layers keep for the reverse pass, and working memory */
    lane *tokens;          /* [full][n + 1][D] */
    lane *s, *s_before, *t, *d_map, *d_query, *d_query_before, *d_tokens, *d_tokens_before;

    lane *pair_left, *pair_right; /* [2][D]: w and dq'; dt and q */
    lane *query_after, *ends, *gram_ends, *d_w,
        *d_start; /* q', (s; t) [2][D], G times these, and gradients of w and s */
} diagonal;

ALWAYS_INLINE lane *gram_before(const diagonal *run, size_t layer) {
    return layer == 0 ? run->group->gram : run->grams + (layer - 1) * run->square;
}

ALWAYS_INLINE lane *query_before(const diagonal *run, size_t layer) {
    return layer == 0 ? run->group->query : run->queries + (layer - 1) * run->size;
}

ALWAYS_INLINE lane *tokens_before(const diagonal *run, size_t layer) {
    return layer == 0 ? run->group->tokens : run->tokens + (layer - 1) * run->rows * run->size;
}

ALWAYS_INLINE const real *weights_of(const diagonal *run, size_t layer) {
    return run->plan->weights + layer * WEIGHTS;
}

/* Writes the gradients of a layer's parameters, from those of its weights. */
ALWAYS_INLINE void write_gradient(const diagonal *run, size_t layer, const lane d[WEIGHTS]) {
    const size_t per_head = run->plan->parameterization == ICL_LINEAR_DIAG ? 4 : 3;
    for (size_t h = 0; h < run->plan->heads; h++) {
        const real *part = run->plan->parts + (layer * run->plan->heads + h) * 4;
        const lane p_x = lane_set(part[0]), p_y = lane_set(part[1]), q_x = lane_set(part[2]), q_y = lane_set(part[3]);
        lane *to = run->group->gradient + (layer * run->plan->heads + h) * per_head;
        write_element(run->group, to + 0, lane_fma(d[XX], q_x, lane_multiply(d[XY], q_y)));
        write_element(run->group, to + 1, lane_fma(d[YX], q_x, lane_multiply(d[YY], q_y)));
        write_element(run->group, to + 2, lane_fma(d[XX], p_x, lane_multiply(d[YX], p_y)));
        if (per_head == 4)
            write_element(run->group, to + 3, lane_fma(d[XY], p_x, lane_multiply(d[YY], p_y)));
    }
}

/* ---- Gram space ---- */

/*
 * Layers with diagonal P and Q in Gram space. With G = [H u; u^T g], q = (x, y) and A = I + [a H, b u; c u^T, e g],
 * where a, b, c and e are the weights xx, xy, yx and yy, all powers of H commute, and A G A^T needs only two symmetric
 * products. Let u1 = H u, u2 = H u1, o = u^T u, k = u^T u1, m = 1 + e g:
 *
 *     N = H^2 + a H^3
 *     H <- H + a (H^2 + N) + u z^T + z u^T,    z = (b + b^2 g / 2) u + a b u1                        d^3
 *     u <- (b c o + m (1 + b g)) u + (c + a m) u1 + a c u2
 *     g <- c^2 k + 2 c m o + m^2 g
 *     x <- x + a H x + b y u,    y <- y + c u^T x + e g y
 *
 * And back, from S = [X s; s^T t] (twice the gradient of G where it is symmetric) and (dx, dy), with r = X u, r1 = X
 * u1, B = X H, K = B + B^T:
 *
 *     da = sum of X o N + b r^T u1 + c s^T u2 + m s^T u1 + dx^T H x
 *     db = (1 + b g) r^T u + a r^T u1 + (c o + m g) s^T u + y u^T dx
 *     dc = s^T u1 + a s^T u2 + b o s^T u + t (c k + m o) + dy u^T x
 *     de = g dm + dy g y,    dm = (1 + b g) s^T u + a s^T u1 + t (c o + m g)
 *     dg = b^2 r^T u / 2 + b m s^T u + t m^2 / 2 + e dm + e y dy
 *     du2 = a c s,    du1 = a b r + (c + a m) s + (t c^2 / 2) u + H du2
 *     s <- (2 b + b^2 g) r + a b r1 + (b c o + m (1 + b g)) s + b y dx + c dy x
 *         + 2 (b c s^T u + c m t) u + (t c^2 / 2) u1 + H du1
 *     X <- X + 2 a K + a^2 (X H^2 + H K) + the sum of du2 u1^T, du1 u^T and a dx x^T, and its transpose         2 d^3
 *     t <- 2 dg,    dx <- dx + a H dx + c dy u,    dy <- dy + b u^T dx + e g dy
 *
 * The first layer's own G and q are data, so only the weights' gradients are computed there: d^2.
 */

/* One layer in Gram space: its inputs, its weights, and what it keeps. */
typedef struct gram_layer {
    size_t d, size;
    const lane *h, *u, *x; /* H [d][d] with rows of D */
    lane g, y, a, b, c, e;
    lane m, o, k, ux; /* ux = u^T x */
    lane *square, *n; /* [d][d]: H^2; N, without what is below its diagonal */
    lane *u1, *hx, *u2;
} gram_layer;

static size_t kept_lanes(const linear_plan *plan) {
    const size_t d = plan->size - 1;
    return 2 * d * d + 3 * d;
}

/* Returns the lanes of B, K, and three pairs of vectors. */
static size_t scratch_lanes(const linear_plan *plan) {
    const size_t d = plan->size - 1;
    return 2 * d * d + 6 * d;
}

static gram_layer describe_layer(const diagonal *run, size_t index) {
    const size_t size = run->size, d = size - 1;
    const real *weights = weights_of(run, index);
    const lane *gram = gram_before(run, index), *query = query_before(run, index);
    lane *kept = run->kept + index * kept_lanes(run->plan);

    return (gram_layer){.d = d,
                        .size = size,
                        .h = gram,
                        .u = gram + d * size,
                        .x = query,
                        .g = gram[d * size + d],
                        .y = query[d],
                        .a = lane_set(weights[XX]),
                        .b = lane_set(weights[XY]),
                        .c = lane_set(weights[YX]),
                        .e = lane_set(weights[YY]),
                        .square = kept,
                        .n = kept + d * d,
                        .u1 = kept + 2 * d * d,
                        .hx = kept + 2 * d * d + d,
                        .u2 = kept + 2 * d * d + 2 * d};
}

/* m, o, k and ux */
static void sum_up(gram_layer *layer) {
    layer->m = lane_fma(layer->e, layer->g, lane_set(1));
    layer->o = layer->k = layer->ux = lane_set(0);
    for (size_t i = 0; i < layer->d; i++) {
        layer->o = lane_fma(layer->u[i], layer->u[i], layer->o);
        layer->k = lane_fma(layer->u[i], layer->u1[i], layer->k);
        layer->ux = lane_fma(layer->u[i], layer->x[i], layer->ux);
    }
}

typedef enum shape { ANY, SYMMETRIC, UPPER } shape; /* UPPER: symmetric, but only the upper triangle is needed */

/* to [rows][d] = (or +=) a b, with b [d][d] in rows of `b_depth`. */
static void multiply(size_t d, lane *to, size_t to_row, const lane *a, size_t a_row, size_t rows, const lane *b,
                     size_t b_depth, shape of, bool add) {
    KERNEL(lane_product)
    (&(lane_product){.rows = rows,
                     .columns = d,
                     .depth = d,
                     .to = to,
                     .to_row = to_row,
                     .to_column = 1,
                     .a = a,
                     .a_row = a_row,
                     .a_depth = 1,
                     .b = b,
                     .b_depth = b_depth,
                     .onto = add ? to : NULL,
                     .symmetric = of != ANY,
                     .unmirrored = of == UPPER});
}

/* Multiplies rows [rows][d] by H, or by X of S. */
static void map_inner(const gram_layer *layer, lane *to, const lane *from, size_t rows, const lane *matrix) {
    multiply(layer->d, to, layer->d, from, layer->d, rows, matrix, layer->size, ANY, false);
}

/* a b c */
ALWAYS_INLINE lane multiply_3(lane a, lane b, lane c) {
    return lane_multiply(a, lane_multiply(b, c));
}

ALWAYS_INLINE lane twice(lane a) {
    return lane_add(a, a);
}

ALWAYS_INLINE lane half(lane a) {
    return lane_multiply(a, lane_set((real)0.5));
}

/* ---- Forwards ---- */

/* Computes N, and the corner H of the next Gram matrix. Before that, n holds H^3. */
static void form_inner(const gram_layer *layer, const lane *z, lane *after) {
    const lane *square = layer->square, *u = layer->u, a = layer->a;
    const size_t d = layer->d, size = layer->size;

    for (size_t i = 0; i < d; i++) {
        const lane u_i = u[i], z_i = z[i];
        for (size_t j = i; j < d; j++) {
            const lane n = lane_fma(a, layer->n[i * d + j], square[i * d + j]);
            lane h = lane_fma(a, lane_add(square[i * d + j], n), layer->h[i * size + j]);
            h = lane_fma(u_i, z[j], h);
            h = lane_fma(z_i, u[j], h);
            layer->n[i * d + j] = n;
            after[i * size + j] = after[j * size + i] = h;
        }
    }
}

/* Computes the last row and column of the next Gram matrix. */
static void form_border(const gram_layer *layer, lane *after) {
    const size_t d = layer->d, size = layer->size;
    const lane one_bg = lane_fma(layer->b, layer->g, lane_set(1)), cm = lane_multiply(layer->c, layer->m);
    const lane of_u = lane_fma(layer->m, one_bg, multiply_3(layer->b, layer->c, layer->o));
    const lane of_u1 = lane_fma(layer->a, layer->m, layer->c), of_u2 = lane_multiply(layer->a, layer->c);

    for (size_t i = 0; i < d; i++) {
        lane sum = lane_multiply(of_u, layer->u[i]);
        sum = lane_fma(of_u1, layer->u1[i], sum);
        sum = lane_fma(of_u2, layer->u2[i], sum);
        after[d * size + i] = after[i * size + d] = sum;
    }
    after[d * size + d] = lane_fma(multiply_3(layer->m, layer->m, layer->g), lane_set(1),
                                   lane_fma(twice(cm), layer->o, multiply_3(layer->c, layer->c, layer->k)));
}

static void map_query(const gram_layer *layer, lane *after) {
    const lane by = lane_multiply(layer->b, layer->y);
    for (size_t i = 0; i < layer->d; i++)
        after[i] = lane_fma(by, layer->u[i], lane_fma(layer->a, layer->hx[i], layer->x[i]));
    after[layer->d] =
        lane_fma(layer->c, layer->ux, lane_fma(multiply_3(layer->e, layer->g, layer->y), lane_set(1), layer->y));
}

static void forward_in_gram(const diagonal *run, size_t index) {
    gram_layer layer = describe_layer(run, index);
    const size_t d = layer.d, size = layer.size;
    lane *pair = run->scratch, *z = run->scratch + 2 * d, *after = gram_before(run, index + 1);

    multiply(d, layer.square, d, layer.h, size, d, layer.h, size, SYMMETRIC, false);
    fetch_ahead(run->group);
    multiply(d, layer.n, d, layer.h, size, d, layer.square, d, UPPER, false);
    fetch_ahead(run->group);
    lanes_copy(pair, layer.u, d);
    lanes_copy(pair + d, layer.x, d);
    map_inner(&layer, layer.u1, pair, 2, layer.h);
    map_inner(&layer, layer.u2, layer.u1, 1, layer.h);
    sum_up(&layer);
    const lane ab = lane_multiply(layer.a, layer.b),
               of_u = lane_fma(half(multiply_3(layer.b, layer.b, layer.g)), lane_set(1), layer.b);
    for (size_t i = 0; i < d; i++)
        z[i] = lane_fma(ab, layer.u1[i], lane_multiply(of_u, layer.u[i]));
    form_inner(&layer, z, after);
    form_border(&layer, after);
    map_query(&layer, query_before(run, index + 1));
}

/* ---- Back ---- */

/* The gradients that the reverse pass hands to a layer, and sums of products with them. */
typedef struct handed {
    const lane *inner, *s, *dx; /* X [d][d] in rows of D */
    lane t, dy;
    lane ru, ru1, su, su1, su2, udx, dm;
} handed;

/* Returns the sum of X o N, from the upper triangles of both. */
static lane sum_of_products(const gram_layer *layer, const lane *inner) {
    lane above = lane_set(0), on = lane_set(0);
    for (size_t i = 0; i < layer->d; i++) {
        const lane *x = inner + i * layer->size, *n = layer->n + i * layer->d;
        lane even = lane_set(0), odd = lane_set(0);
        size_t j = i + 1;
        for (; j + 1 < layer->d; j += 2) {
            even = lane_fma(x[j], n[j], even);
            odd = lane_fma(x[j + 1], n[j + 1], odd);
        }
        if (j < layer->d)
            even = lane_fma(x[j], n[j], even);
        above = lane_add(above, lane_add(even, odd));
        on = lane_fma(x[i], n[i], on);
    }
    return lane_add(twice(above), on);
}

/* Computes the gradients of the weights. r [d]: X u. */
static void reverse_weights(const gram_layer *layer, handed *in, const lane *r, lane d_weights[WEIGHTS]) {
    const lane one_bg = lane_fma(layer->b, layer->g, lane_set(1)), mg = lane_multiply(layer->m, layer->g);
    const lane co_mg = lane_fma(layer->c, layer->o, mg);
    lane hx_dx = lane_set(0);

    in->ru = in->ru1 = in->su = in->su1 = in->su2 = in->udx = lane_set(0);
    for (size_t i = 0; i < layer->d; i++) {
        in->ru = lane_fma(r[i], layer->u[i], in->ru);
        in->ru1 = lane_fma(r[i], layer->u1[i], in->ru1);
        in->su = lane_fma(in->s[i], layer->u[i], in->su);
        in->su1 = lane_fma(in->s[i], layer->u1[i], in->su1);
        in->su2 = lane_fma(in->s[i], layer->u2[i], in->su2);
        in->udx = lane_fma(layer->u[i], in->dx[i], in->udx);
        hx_dx = lane_fma(layer->hx[i], in->dx[i], hx_dx);
    }
    in->dm = lane_fma(one_bg, in->su, lane_fma(layer->a, in->su1, lane_multiply(in->t, co_mg)));
    d_weights[XX] = lane_fma(layer->b, in->ru1, lane_add(sum_of_products(layer, in->inner), hx_dx));
    d_weights[XX] = lane_fma(layer->c, in->su2, lane_fma(layer->m, in->su1, d_weights[XX]));
    d_weights[XY] = lane_fma(one_bg, in->ru, lane_multiply(layer->a, in->ru1));
    d_weights[XY] = lane_fma(co_mg, in->su, lane_fma(layer->y, in->udx, d_weights[XY]));
    d_weights[YX] = lane_fma(layer->a, in->su2, lane_fma(lane_multiply(layer->b, layer->o), in->su, in->su1));
    d_weights[YX] = lane_fma(in->t, lane_fma(layer->c, layer->k, lane_multiply(layer->m, layer->o)),
                             lane_fma(in->dy, layer->ux, d_weights[YX]));
    d_weights[YY] = lane_multiply(layer->g, lane_fma(in->dy, layer->y, in->dm));
}

/* The vectors of the reverse pass, [d] each; adjacent ones are mapped as pairs. */
typedef struct vectors {
    lane *r, *r1, *du2, *h_dx, *h_du, *du1;
} vectors;

/* Computes du1, and the new s into `after`. */
static void reverse_vectors(const gram_layer *layer, const handed *in, const vectors *v, lane *after) {
    const size_t d = layer->d;
    const lane ab = lane_multiply(layer->a, layer->b), ac = lane_multiply(layer->a, layer->c);
    const lane am_c = lane_fma(layer->a, layer->m, layer->c), dk = half(multiply_3(in->t, layer->c, layer->c));
    const lane one_bg = lane_fma(layer->b, layer->g, lane_set(1));
    const lane of_r = lane_multiply(layer->b, lane_add(one_bg, lane_set(1)));
    const lane of_s = lane_fma(layer->m, one_bg, multiply_3(layer->b, layer->c, layer->o));
    const lane of_u = lane_multiply(twice(layer->c), lane_fma(layer->b, in->su, lane_multiply(layer->m, in->t)));
    const lane by = lane_multiply(layer->b, layer->y), c_dy = lane_multiply(layer->c, in->dy);

    lanes_scale(v->du2, ac, in->s, d);
    lanes_copy(v->h_dx, in->dx, d);
    map_inner(layer, v->h_du, v->du2, 2, layer->h); /* H du2 and, in the place of du1, H dx */
    lanes_copy(v->h_dx, v->du1, d);
    for (size_t i = 0; i < d; i++) {
        v->du1[i] = lane_fma(ab, v->r[i], lane_fma(am_c, in->s[i], lane_fma(dk, layer->u[i], v->h_du[i])));
    }
    map_inner(layer, v->h_du, v->du1, 1, layer->h);
    for (size_t i = 0; i < d; i++) {
        lane sum = lane_fma(of_r, v->r[i], lane_fma(ab, v->r1[i], v->h_du[i]));
        sum = lane_fma(of_s, in->s[i], lane_fma(by, in->dx[i], sum));
        sum = lane_fma(c_dy, layer->x[i], lane_fma(of_u, layer->u[i], sum));
        after[i] = lane_fma(dk, layer->u1[i], sum);
    }
}

/* Computes the new X into `after`, which holds the factor of a^2 before. */
static void reverse_inner(const gram_layer *layer, const handed *in, const vectors *v, const lane *k, lane *after) {
    const size_t d = layer->d, size = layer->size;
    const lane a2 = lane_multiply(layer->a, layer->a), twice_a = twice(layer->a);

    for (size_t i = 0; i < d; i++) {
        const lane du2 = v->du2[i], du1 = v->du1[i], a_dx = lane_multiply(layer->a, in->dx[i]);
        const lane u1 = layer->u1[i], u = layer->u[i], a_x = lane_multiply(layer->a, layer->x[i]);
        for (size_t j = i; j < d; j++) {
            lane sum = lane_fma(a2, after[i * size + j], in->inner[i * size + j]);
            lane outer = lane_multiply(twice_a, k[i * d + j]);
            sum = lane_fma(du2, layer->u1[j], sum);
            outer = lane_fma(u1, v->du2[j], outer);
            sum = lane_fma(du1, layer->u[j], sum);
            outer = lane_fma(u, v->du1[j], outer);
            sum = lane_fma(a_dx, layer->x[j], sum);
            outer = lane_fma(a_x, in->dx[j], outer);
            after[i * size + j] = after[j * size + i] = lane_add(sum, outer);
        }
    }
}

/* Computes S of the layer before, into s_before. */
static void reverse_symmetric(diagonal *run, const gram_layer *layer, const handed *in, const vectors *v,
                              lane *matrices) {
    const size_t d = layer->d, size = layer->size;
    lane *b = matrices, *k = matrices + d * d, *after = run->s_before;
    const lane m2 = lane_multiply(layer->m, layer->m);

    multiply(d, b, d, in->inner, size, d, layer->h, size, ANY, false);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i; j++)
            k[i * d + j] = k[j * d + i] = lane_add(b[i * d + j], b[j * d + i]);
    fetch_ahead(run->group);
    multiply(d, after, size, in->inner, size, d, layer->square, d, UPPER, false);
    fetch_ahead(run->group);
    multiply(d, after, size, layer->h, size, d, k, d, UPPER, true);
    reverse_inner(layer, in, v, k, after);
    lane dg = half(lane_fma(multiply_3(layer->b, layer->b, in->ru), lane_set(1), lane_multiply(in->t, m2)));
    dg = lane_fma(lane_multiply(layer->b, layer->m), in->su, dg);
    dg = lane_fma(layer->e, lane_fma(layer->y, in->dy, in->dm), dg);
    after[d * size + d] = twice(dg);
}

static void reverse_query(diagonal *run, const gram_layer *layer, const handed *in, const lane *h_dx) {
    const lane c_dy = lane_multiply(layer->c, in->dy);
    lane *after = run->d_query_before;

    for (size_t i = 0; i < layer->d; i++)
        after[i] = lane_fma(c_dy, layer->u[i], lane_fma(layer->a, h_dx[i], in->dx[i]));
    after[layer->d] = lane_fma(layer->b, in->udx, lane_fma(lane_multiply(layer->e, layer->g), in->dy, in->dy));
}

static void swap(lane **a, lane **b) {
    lane *was = *a;
    *a = *b;
    *b = was;
}

static void reverse_in_gram(diagonal *run, size_t index) {
    gram_layer layer = describe_layer(run, index);
    const size_t d = layer.d, size = layer.size;
    handed in = {
        .inner = run->s, .s = run->s + d * size, .dx = run->d_query, .t = run->s[d * size + d], .dy = run->d_query[d]};
    lane *pairs = run->scratch, d_weights[WEIGHTS];
    const vectors v = {pairs, pairs + d, pairs + 2 * d, pairs + 3 * d, pairs + 4 * d, pairs + 5 * d};

    fetch_ahead(run->group);
    sum_up(&layer);
    lanes_copy(v.du2, layer.u, d);
    lanes_copy(v.h_dx, layer.u1, d);
    map_inner(&layer, v.r, v.du2, index > 0 ? 2 : 1, in.inner); /* r and r1 */
    reverse_weights(&layer, &in, v.r, d_weights);
    write_gradient(run, index, d_weights);
    if (index == 0)
        return;
    reverse_vectors(&layer, &in, &v, run->s_before + d * size);
    reverse_symmetric(run, &layer, &in, &v, pairs + 6 * d);
    reverse_query(run, &layer, &in, v.h_dx);
    swap(&run->s, &run->s_before);
    swap(&run->d_query, &run->d_query_before);
}

/* ---- Token space, and both ---- */

static diagonal describe(const linear_plan *plan, const linear_group *group, lane_memory *memory) {
    const size_t size = plan->size, square = size * size, full = plan->full, tokens = (plan->context + 1) * size;
    diagonal run = {.group = group, .plan = plan, .size = size, .square = square, .rows = plan->context + 1};

    run.grams = take_lanes(memory, full * square);
    run.last_map = take_lanes(memory, square);
    run.s = take_lanes(memory, square);
    run.t = take_lanes(memory, square);
    run.d_map = take_lanes(memory, square);
    run.d_query = take_lanes(memory, size);
    run.d_query_before = take_lanes(memory, size);
    if (plan->in_tokens) {
        run.maps = take_lanes(memory, full * square);
        run.tokens = take_lanes(memory, full * tokens);
        run.d_tokens = take_lanes(memory, tokens);
        run.d_tokens_before = take_lanes(memory, tokens);
    } else {
        run.queries = take_lanes(memory, full * size);
        run.kept = take_lanes(memory, full * kept_lanes(plan));
        run.scratch = take_lanes(memory, full > 0 ? scratch_lanes(plan) : 0);
        run.s_before = take_lanes(memory, full > 1 ? square : 0);
    }
    run.pair_left = take_lanes(memory, 2 * size);
    run.pair_right = take_lanes(memory, 2 * size);
    run.query_after = take_lanes(memory, size);
    run.ends = take_lanes(memory, 2 * size);
    run.gram_ends = take_lanes(memory, 2 * size);
    run.d_w = take_lanes(memory, size);
    run.d_start = take_lanes(memory, size);
    return run;
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

/* Computes A, or A^T: I plus the weighted G, which is symmetric. */
static void make_map(const diagonal *run, size_t layer, bool transposed, const lane *gram, lane *map) {
    const real *w = weights_of(run, layer), swapped[WEIGHTS] = {w[XX], w[YX], w[XY], w[YY]};
    weigh(map, transposed ? swapped : w, gram, run->size);
    add_identity(map, run->size);
}

/* Computes dw, the sums of a o b over the four blocks. */
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

static void forward_in_tokens(const diagonal *run, size_t layer) {
    lane *map = run->maps + layer * run->square;
    const size_t size = run->size;

    make_map(run, layer, false, gram_before(run, layer), map);
    make_map(run, layer, true, gram_before(run, layer), run->t);
    map_rows(tokens_before(run, layer + 1), tokens_before(run, layer), run->rows, run->t, size, NULL);
    form_gram(run->plan, tokens_before(run, layer + 1), gram_before(run, layer + 1));
}

/* Writes the gradients of the layer. If layers come before it, S becomes W o dA + (W o dA)^T. */
static void reverse_map(const diagonal *run, size_t layer) {
    lane d_weights[WEIGHTS];

    block_sums(run->d_map, gram_before(run, layer), run->size, d_weights);
    write_gradient(run, layer, d_weights);
    if (layer == 0)
        return;
    weigh(run->s, weights_of(run, layer), run->d_map, run->size);
    add_transpose(run->s, run->size);
}

/* Adds the gradient of the Gram matrix to that of the tokens from which it was formed. */
static void reverse_gram(const diagonal *run, const lane *tokens, lane *d_tokens) {
    lanes_scale(run->s, lane_set(run->plan->factor), run->s, run->square);
    map_rows(d_tokens, tokens, run->plan->context, run->s, run->size, d_tokens);
}

static void reverse_in_tokens(diagonal *run, size_t layer) {
    const lane *map = run->maps + layer * run->square, *tokens = tokens_before(run, layer);

    outer_rows(run->d_map, run->d_tokens, tokens, run->rows, run->size, false, false);
    reverse_map(run, layer);
    if (layer == 0)
        return;
    map_rows(run->d_tokens_before, run->d_tokens, run->rows, map, run->size, NULL);
    reverse_gram(run, tokens, run->d_tokens_before);
    lane *free = run->d_tokens;
    run->d_tokens = run->d_tokens_before;
    run->d_tokens_before = free;
}

/* ---- The last two layers ---- */

/* Computes w = (w_yx … w_yx, w_yy) o x with the weights of the last layer; this map is its own transpose. */
static void weigh_last(const diagonal *run, lane *to, const lane *from) {
    const real *weights = weights_of(run, run->plan->depth - 1);
    lanes_scale(to, lane_set(weights[YX]), from, run->size - 1);
    to[run->size - 1] = lane_multiply(lane_set(weights[YY]), from[run->size - 1]);
}

static void reverse_last(const diagonal *run, const lane *query) {
    const size_t size = run->size;
    const lane d_weights[WEIGHTS] = {
        [XX] = lane_set(0),
        [XY] = lane_set(0),
        [YX] = lanes_dot(run->d_w, query, size - 1),
        [YY] = lane_multiply(run->d_w[size - 1], query[size - 1]),
    };
    write_gradient(run, run->plan->depth - 1, d_weights);
}

/* Runs a single layer: the last coordinate is q_D + e_D^T G w. */
static void run_last(const diagonal *run, const lane *gram, const lane *query) {
    const size_t size = run->size;
    const lane *row = gram + (size - 1) * size;

    weigh_last(run, run->ends, query);
    const lane slope = linear_answered(run->group, lane_add(query[size - 1], lanes_dot(row, run->ends, size)));
    if (!run->plan->has_gradient)
        return;
    lanes_scale(run->d_w, slope, row, size);
    reverse_last(run, query);
}

static void reverse_last_two(const diagonal *run, const lane *gram, const lane *query, const lane *map, lane slope) {
    const size_t size = run->size, layer = run->plan->full;
    lane *d_end = run->pair_right, *d_query_after = run->pair_left + size, d_weights[WEIGHTS];

    lanes_scale(run->d_start, slope, run->gram_ends + size, size);
    lanes_scale(d_end, slope, run->gram_ends, size);
    map_vector(run->d_w, map, d_end, size);
    reverse_last(run, run->query_after);
    weigh_last(run, d_query_after, run->d_w);
    d_query_after[size - 1] = lane_add(d_query_after[size - 1], slope);
    lanes_copy(run->pair_right + size, query, size);
    outer_rows(run->d_map, run->pair_left, run->pair_right, 2, size, false, false);
    lanes_add(run->d_map + (size - 1) * size, run->d_start, size);
    block_sums(run->d_map, gram, size, d_weights);
    write_gradient(run, layer, d_weights);
    if (layer == 0)
        return;
    weigh(run->s, weights_of(run, layer), run->d_map, size);
    add_transpose(run->s, size);
    lanes_scale(run->pair_left, slope, run->ends, size);
    lanes_scale(run->pair_right, slope, run->ends + size, size);
    outer_rows(run->s, run->pair_left, run->ends + size, 1, size, true, true);
    outer_rows(run->s, run->pair_right, run->ends, 1, size, true, true);
    map_rows(run->d_query, d_query_after, 1, map, size, NULL);
}

static void run_last_two(const diagonal *run, const lane *gram, const lane *query) {
    const size_t size = run->size, layer = run->plan->full;
    lane *map = run->last_map, *weighted = run->pair_left;

    make_map(run, layer, false, gram, map);
    map_vector(run->query_after, map, query, size);
    weigh_last(run, weighted, run->query_after);
    lanes_copy(run->ends, map + (size - 1) * size, size);
    fetch_ahead(run->group);
    map_rows(run->ends + size, weighted, 1, map, size, NULL);
    fetch_ahead(run->group);
    map_rows(run->gram_ends, run->ends, 2, gram, size, NULL);
    const lane slope = linear_answered(
        run->group, lane_add(run->query_after[size - 1], lanes_dot(run->ends, run->gram_ends + size, size)));
    if (run->plan->has_gradient)
        reverse_last_two(run, gram, query, map, slope);
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
    diagonal run = describe(plan, group, &memory);

    for (size_t layer = 0; layer < full; layer++) {
        if (plan->in_tokens)
            forward_in_tokens(&run, layer);
        else
            forward_in_gram(&run, layer);
    }
    const lane *gram = gram_before(&run, full);
    const lane *query = in_tokens ? tokens_before(&run, full) + plan->context * run.size : query_before(&run, full);
    if (plan->depth == 1)
        run_last(&run, gram, query);
    else
        run_last_two(&run, gram, query);
    if (full == 0 || !plan->has_gradient)
        return;
    if (in_tokens) {
        lanes_clear(run.d_tokens, plan->context * run.size);
        lanes_copy(run.d_tokens + plan->context * run.size, run.d_query, run.size);
        reverse_gram(&run, tokens_before(&run, full), run.d_tokens);
    }
    for (size_t layer = full; layer-- > 0;) {
        if (in_tokens)
            reverse_in_tokens(&run, layer);
        else
            reverse_in_gram(&run, layer);
    }
}
