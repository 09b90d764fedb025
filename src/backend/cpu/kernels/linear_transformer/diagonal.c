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

/* Writes the gradients of a layer's parameters, from those of its weights. */
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

static gram_layer describe_layer(const diagonal *x, size_t index) {
    const size_t size = x->size, d = size - 1;
    const real *weights = weights_of(x, index);
    const lane *gram = gram_before(x, index), *query = query_before(x, index);
    lane *kept = x->kept + index * kept_lanes(x->plan);

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
static void sum_up(gram_layer *l) {
    l->m = lane_fma(l->e, l->g, lane_set(1));
    l->o = l->k = l->ux = lane_set(0);
    for (size_t i = 0; i < l->d; i++) {
        l->o = lane_fma(l->u[i], l->u[i], l->o);
        l->k = lane_fma(l->u[i], l->u1[i], l->k);
        l->ux = lane_fma(l->u[i], l->x[i], l->ux);
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
static void map_inner(const gram_layer *l, lane *to, const lane *from, size_t rows, const lane *matrix) {
    multiply(l->d, to, l->d, from, l->d, rows, matrix, l->size, ANY, false);
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
static void form_inner(const gram_layer *l, const lane *z, lane *after) {
    const lane *square = l->square, *u = l->u, a = l->a;
    const size_t d = l->d, size = l->size;

    for (size_t i = 0; i < d; i++) {
        const lane u_i = u[i], z_i = z[i];
        for (size_t j = i; j < d; j++) {
            const lane n = lane_fma(a, l->n[i * d + j], square[i * d + j]);
            lane h = lane_fma(a, lane_add(square[i * d + j], n), l->h[i * size + j]);
            h = lane_fma(u_i, z[j], h);
            h = lane_fma(z_i, u[j], h);
            l->n[i * d + j] = n;
            after[i * size + j] = after[j * size + i] = h;
        }
    }
}

/* Computes the last row and column of the next Gram matrix. */
static void form_border(const gram_layer *l, lane *after) {
    const size_t d = l->d, size = l->size;
    const lane one_bg = lane_fma(l->b, l->g, lane_set(1)), cm = lane_multiply(l->c, l->m);
    const lane of_u = lane_fma(l->m, one_bg, multiply_3(l->b, l->c, l->o));
    const lane of_u1 = lane_fma(l->a, l->m, l->c), of_u2 = lane_multiply(l->a, l->c);

    for (size_t i = 0; i < d; i++) {
        lane sum = lane_multiply(of_u, l->u[i]);
        sum = lane_fma(of_u1, l->u1[i], sum);
        sum = lane_fma(of_u2, l->u2[i], sum);
        after[d * size + i] = after[i * size + d] = sum;
    }
    after[d * size + d] =
        lane_fma(multiply_3(l->m, l->m, l->g), lane_set(1), lane_fma(twice(cm), l->o, multiply_3(l->c, l->c, l->k)));
}

static void map_query(const gram_layer *l, lane *after) {
    const lane by = lane_multiply(l->b, l->y);
    for (size_t i = 0; i < l->d; i++)
        after[i] = lane_fma(by, l->u[i], lane_fma(l->a, l->hx[i], l->x[i]));
    after[l->d] = lane_fma(l->c, l->ux, lane_fma(multiply_3(l->e, l->g, l->y), lane_set(1), l->y));
}

static void forward_in_gram(const diagonal *x, size_t index) {
    gram_layer l = describe_layer(x, index);
    const size_t d = l.d, size = l.size;
    lane *pair = x->scratch, *z = x->scratch + 2 * d, *after = gram_before(x, index + 1);

    multiply(d, l.square, d, l.h, size, d, l.h, size, SYMMETRIC, false);
    fetch_ahead(x->group);
    multiply(d, l.n, d, l.h, size, d, l.square, d, UPPER, false);
    fetch_ahead(x->group);
    lanes_copy(pair, l.u, d);
    lanes_copy(pair + d, l.x, d);
    map_inner(&l, l.u1, pair, 2, l.h);
    map_inner(&l, l.u2, l.u1, 1, l.h);
    sum_up(&l);
    const lane ab = lane_multiply(l.a, l.b), of_u = lane_fma(half(multiply_3(l.b, l.b, l.g)), lane_set(1), l.b);
    for (size_t i = 0; i < d; i++)
        z[i] = lane_fma(ab, l.u1[i], lane_multiply(of_u, l.u[i]));
    form_inner(&l, z, after);
    form_border(&l, after);
    map_query(&l, query_before(x, index + 1));
}

/* ---- Back ---- */

/* The gradients that the reverse pass hands to a layer, and sums of products with them. */
typedef struct handed {
    const lane *inner, *s, *dx; /* X [d][d] in rows of D */
    lane t, dy;
    lane ru, ru1, su, su1, su2, udx, dm;
} handed;

/* Returns the sum of X o N, from the upper triangles of both. */
static lane sum_of_products(const gram_layer *l, const lane *inner) {
    lane above = lane_set(0), on = lane_set(0);
    for (size_t i = 0; i < l->d; i++) {
        const lane *x = inner + i * l->size, *n = l->n + i * l->d;
        lane even = lane_set(0), odd = lane_set(0);
        size_t j = i + 1;
        for (; j + 1 < l->d; j += 2) {
            even = lane_fma(x[j], n[j], even);
            odd = lane_fma(x[j + 1], n[j + 1], odd);
        }
        if (j < l->d)
            even = lane_fma(x[j], n[j], even);
        above = lane_add(above, lane_add(even, odd));
        on = lane_fma(x[i], n[i], on);
    }
    return lane_add(twice(above), on);
}

/* Computes the gradients of the weights. r [d]: X u. */
static void reverse_weights(const gram_layer *l, handed *in, const lane *r, lane d_weights[WEIGHTS]) {
    const lane one_bg = lane_fma(l->b, l->g, lane_set(1)), mg = lane_multiply(l->m, l->g);
    const lane co_mg = lane_fma(l->c, l->o, mg);
    lane hx_dx = lane_set(0);

    in->ru = in->ru1 = in->su = in->su1 = in->su2 = in->udx = lane_set(0);
    for (size_t i = 0; i < l->d; i++) {
        in->ru = lane_fma(r[i], l->u[i], in->ru);
        in->ru1 = lane_fma(r[i], l->u1[i], in->ru1);
        in->su = lane_fma(in->s[i], l->u[i], in->su);
        in->su1 = lane_fma(in->s[i], l->u1[i], in->su1);
        in->su2 = lane_fma(in->s[i], l->u2[i], in->su2);
        in->udx = lane_fma(l->u[i], in->dx[i], in->udx);
        hx_dx = lane_fma(l->hx[i], in->dx[i], hx_dx);
    }
    in->dm = lane_fma(one_bg, in->su, lane_fma(l->a, in->su1, lane_multiply(in->t, co_mg)));
    d_weights[XX] = lane_fma(l->b, in->ru1, lane_add(sum_of_products(l, in->inner), hx_dx));
    d_weights[XX] = lane_fma(l->c, in->su2, lane_fma(l->m, in->su1, d_weights[XX]));
    d_weights[XY] = lane_fma(one_bg, in->ru, lane_multiply(l->a, in->ru1));
    d_weights[XY] = lane_fma(co_mg, in->su, lane_fma(l->y, in->udx, d_weights[XY]));
    d_weights[YX] = lane_fma(l->a, in->su2, lane_fma(lane_multiply(l->b, l->o), in->su, in->su1));
    d_weights[YX] =
        lane_fma(in->t, lane_fma(l->c, l->k, lane_multiply(l->m, l->o)), lane_fma(in->dy, l->ux, d_weights[YX]));
    d_weights[YY] = lane_multiply(l->g, lane_fma(in->dy, l->y, in->dm));
}

/* The vectors of the reverse pass, [d] each; adjacent ones are mapped as pairs. */
typedef struct vectors {
    lane *r, *r1, *du2, *h_dx, *h_du, *du1;
} vectors;

/* Computes du1, and the new s into `after`. */
static void reverse_vectors(const gram_layer *l, const handed *in, const vectors *v, lane *after) {
    const size_t d = l->d;
    const lane ab = lane_multiply(l->a, l->b), ac = lane_multiply(l->a, l->c);
    const lane am_c = lane_fma(l->a, l->m, l->c), dk = half(multiply_3(in->t, l->c, l->c));
    const lane one_bg = lane_fma(l->b, l->g, lane_set(1));
    const lane of_r = lane_multiply(l->b, lane_add(one_bg, lane_set(1)));
    const lane of_s = lane_fma(l->m, one_bg, multiply_3(l->b, l->c, l->o));
    const lane of_u = lane_multiply(twice(l->c), lane_fma(l->b, in->su, lane_multiply(l->m, in->t)));
    const lane by = lane_multiply(l->b, l->y), c_dy = lane_multiply(l->c, in->dy);

    lanes_scale(v->du2, ac, in->s, d);
    lanes_copy(v->h_dx, in->dx, d);
    map_inner(l, v->h_du, v->du2, 2, l->h); /* H du2 and, in the place of du1, H dx */
    lanes_copy(v->h_dx, v->du1, d);
    for (size_t i = 0; i < d; i++) {
        v->du1[i] = lane_fma(ab, v->r[i], lane_fma(am_c, in->s[i], lane_fma(dk, l->u[i], v->h_du[i])));
    }
    map_inner(l, v->h_du, v->du1, 1, l->h);
    for (size_t i = 0; i < d; i++) {
        lane sum = lane_fma(of_r, v->r[i], lane_fma(ab, v->r1[i], v->h_du[i]));
        sum = lane_fma(of_s, in->s[i], lane_fma(by, in->dx[i], sum));
        sum = lane_fma(c_dy, l->x[i], lane_fma(of_u, l->u[i], sum));
        after[i] = lane_fma(dk, l->u1[i], sum);
    }
}

/* Computes the new X into `after`, which holds the factor of a^2 before. */
static void reverse_inner(const gram_layer *l, const handed *in, const vectors *v, const lane *k, lane *after) {
    const size_t d = l->d, size = l->size;
    const lane a2 = lane_multiply(l->a, l->a), twice_a = twice(l->a);

    for (size_t i = 0; i < d; i++) {
        const lane du2 = v->du2[i], du1 = v->du1[i], a_dx = lane_multiply(l->a, in->dx[i]);
        const lane u1 = l->u1[i], u = l->u[i], a_x = lane_multiply(l->a, l->x[i]);
        for (size_t j = i; j < d; j++) {
            lane sum = lane_fma(a2, after[i * size + j], in->inner[i * size + j]);
            lane outer = lane_multiply(twice_a, k[i * d + j]);
            sum = lane_fma(du2, l->u1[j], sum);
            outer = lane_fma(u1, v->du2[j], outer);
            sum = lane_fma(du1, l->u[j], sum);
            outer = lane_fma(u, v->du1[j], outer);
            sum = lane_fma(a_dx, l->x[j], sum);
            outer = lane_fma(a_x, in->dx[j], outer);
            after[i * size + j] = after[j * size + i] = lane_add(sum, outer);
        }
    }
}

/* Computes S of the layer before, into s_before. */
static void reverse_symmetric(diagonal *x, const gram_layer *l, const handed *in, const vectors *v, lane *matrices) {
    const size_t d = l->d, size = l->size;
    lane *b = matrices, *k = matrices + d * d, *after = x->s_before;
    const lane m2 = lane_multiply(l->m, l->m);

    multiply(d, b, d, in->inner, size, d, l->h, size, ANY, false);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j <= i; j++)
            k[i * d + j] = k[j * d + i] = lane_add(b[i * d + j], b[j * d + i]);
    fetch_ahead(x->group);
    multiply(d, after, size, in->inner, size, d, l->square, d, UPPER, false);
    fetch_ahead(x->group);
    multiply(d, after, size, l->h, size, d, k, d, UPPER, true);
    reverse_inner(l, in, v, k, after);
    lane dg = half(lane_fma(multiply_3(l->b, l->b, in->ru), lane_set(1), lane_multiply(in->t, m2)));
    dg = lane_fma(lane_multiply(l->b, l->m), in->su, dg);
    dg = lane_fma(l->e, lane_fma(l->y, in->dy, in->dm), dg);
    after[d * size + d] = twice(dg);
}

static void reverse_query(diagonal *x, const gram_layer *l, const handed *in, const lane *h_dx) {
    const lane c_dy = lane_multiply(l->c, in->dy);
    lane *after = x->d_query_before;

    for (size_t i = 0; i < l->d; i++)
        after[i] = lane_fma(c_dy, l->u[i], lane_fma(l->a, h_dx[i], in->dx[i]));
    after[l->d] = lane_fma(l->b, in->udx, lane_fma(lane_multiply(l->e, l->g), in->dy, in->dy));
}

static void swap(lane **a, lane **b) {
    lane *was = *a;
    *a = *b;
    *b = was;
}

static void reverse_in_gram(diagonal *x, size_t index) {
    gram_layer l = describe_layer(x, index);
    const size_t d = l.d, size = l.size;
    handed in = {.inner = x->s, .s = x->s + d * size, .dx = x->d_query, .t = x->s[d * size + d], .dy = x->d_query[d]};
    lane *pairs = x->scratch, d_weights[WEIGHTS];
    const vectors v = {pairs, pairs + d, pairs + 2 * d, pairs + 3 * d, pairs + 4 * d, pairs + 5 * d};

    fetch_ahead(x->group);
    sum_up(&l);
    lanes_copy(v.du2, l.u, d);
    lanes_copy(v.h_dx, l.u1, d);
    map_inner(&l, v.r, v.du2, index > 0 ? 2 : 1, in.inner); /* r and r1 */
    reverse_weights(&l, &in, v.r, d_weights);
    write_gradient(x, index, d_weights);
    if (index == 0)
        return;
    reverse_vectors(&l, &in, &v, x->s_before + d * size);
    reverse_symmetric(x, &l, &in, &v, pairs + 6 * d);
    reverse_query(x, &l, &in, v.h_dx);
    swap(&x->s, &x->s_before);
    swap(&x->d_query, &x->d_query_before);
}

/* ---- Token space, and both ---- */

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
        x.kept = take_lanes(memory, full * kept_lanes(plan));
        x.scratch = take_lanes(memory, full > 0 ? scratch_lanes(plan) : 0);
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

/* Computes A, or A^T: I plus the weighted G, which is symmetric. */
static void make_map(const diagonal *x, size_t layer, bool transposed, const lane *gram, lane *map) {
    const real *w = weights_of(x, layer), swapped[WEIGHTS] = {w[XX], w[YX], w[XY], w[YY]};
    weigh(map, transposed ? swapped : w, gram, x->size);
    add_identity(map, x->size);
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

static void forward_in_tokens(const diagonal *x, size_t layer) {
    lane *map = x->maps + layer * x->square;
    const size_t size = x->size;

    make_map(x, layer, false, gram_before(x, layer), map);
    make_map(x, layer, true, gram_before(x, layer), x->t);
    map_rows(tokens_before(x, layer + 1), tokens_before(x, layer), x->rows, x->t, size, NULL);
    form_gram(x->plan, tokens_before(x, layer + 1), gram_before(x, layer + 1));
}

/* Writes the gradients of the layer. If layers come before it, S becomes W o dA + (W o dA)^T. */
static void reverse_map(const diagonal *x, size_t layer) {
    lane d_weights[WEIGHTS];

    block_sums(x->d_map, gram_before(x, layer), x->size, d_weights);
    write_gradient(x, layer, d_weights);
    if (layer == 0)
        return;
    weigh(x->s, weights_of(x, layer), x->d_map, x->size);
    add_transpose(x->s, x->size);
}

/* Adds the gradient of the Gram matrix to that of the tokens from which it was formed. */
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

/* Computes w = (w_yx … w_yx, w_yy) o x with the weights of the last layer; this map is its own transpose. */
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

/* Runs a single layer: the last coordinate is q_D + e_D^T G w. */
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
            forward_in_gram(&x, layer);
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
            reverse_in_gram(&x, layer);
    }
}
