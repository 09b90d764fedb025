/*
 * Layers with diagonal P and Q in Gram space. With G = [H u; u^T g], q = (x, y) and A = I + [a H, b u; c u^T, e g],
 * where a, b, c and e are the weights xx, xy, yx and yy, all powers of H commute, and A G A^T needs but two symmetric
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
 * The first layer's own G and q are data, so there only the weights' gradients are left: d^2.
 */
#include "backend/cpu/kernels/linear_transformer/diagonal.h"

/* One layer: what it was given, its weights, and what it keeps. */
typedef struct layer {
    size_t d, size;
    const lane *h, *u, *x; /* H [d][d] with rows of D */
    lane g, y, a, b, c, e;
    lane m, o, k, ux; /* ux = u^T x */
    lane *square, *n; /* [d][d]: H^2; N, but for what stands below its diagonal */
    lane *u1, *hx, *u2;
} layer;

size_t KERNEL(diagonal_kept_lanes)(const linear_plan *plan) {
    const size_t d = plan->size - 1;
    return 2 * d * d + 3 * d;
}

/* B, K, and three pairs of vectors. */
size_t KERNEL(diagonal_scratch_lanes)(const linear_plan *plan) {
    const size_t d = plan->size - 1;
    return 2 * d * d + 6 * d;
}

static layer describe(const diagonal *x, size_t index) {
    const size_t size = x->size, d = size - 1;
    const real *weights = weights_of(x, index);
    const lane *gram = gram_before(x, index), *query = query_before(x, index);
    lane *kept = x->kept + index * KERNEL(diagonal_kept_lanes)(x->plan);

    return (layer){.d = d,
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
static void sum_up(layer *l) {
    l->m = lane_fma(l->e, l->g, lane_set(1));
    l->o = l->k = l->ux = lane_set(0);
    for (size_t i = 0; i < l->d; i++) {
        l->o = lane_fma(l->u[i], l->u[i], l->o);
        l->k = lane_fma(l->u[i], l->u1[i], l->k);
        l->ux = lane_fma(l->u[i], l->x[i], l->ux);
    }
}

typedef enum shape { ANY, SYMMETRIC, UPPER } shape; /* UPPER: symmetric, but only the upper triangle is wanted */

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

/* Rows [rows][d] times H, or times X of S. */
static void map_inner(const layer *l, lane *to, const lane *from, size_t rows, const lane *matrix) {
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

/* N, and the corner H of the next Gram matrix; n holds H^3 so far. */
static void form_inner(const layer *l, const lane *z, lane *after) {
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

/* The last row and column of the next Gram matrix. */
static void form_border(const layer *l, lane *after) {
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

static void map_query(const layer *l, lane *after) {
    const lane by = lane_multiply(l->b, l->y);
    for (size_t i = 0; i < l->d; i++)
        after[i] = lane_fma(by, l->u[i], lane_fma(l->a, l->hx[i], l->x[i]));
    after[l->d] = lane_fma(l->c, l->ux, lane_fma(multiply_3(l->e, l->g, l->y), lane_set(1), l->y));
}

void KERNEL(diagonal_forward_in_gram)(const diagonal *x, size_t index) {
    layer l = describe(x, index);
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

/* What is handed to a layer, and sums with it. */
typedef struct handed {
    const lane *inner, *s, *dx; /* X [d][d] in rows of D */
    lane t, dy;
    lane ru, ru1, su, su1, su2, udx, dm;
} handed;

/* The sum of X o N, from the upper triangles of both. */
static lane sum_of_products(const layer *l, const lane *inner) {
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

/* The gradients of the weights. r [d]: X u. */
static void reverse_weights(const layer *l, handed *in, const lane *r, lane d_weights[WEIGHTS]) {
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

/* The vectors of the way back, [d] each; those side by side are mapped as pairs. */
typedef struct vectors {
    lane *r, *r1, *du2, *h_dx, *h_du, *du1;
} vectors;

/* du1 and the new s, into `after`. */
static void reverse_vectors(const layer *l, const handed *in, const vectors *v, lane *after) {
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
    map_inner(l, v->h_du, v->du2, 2, l->h); /* H du2 and, where du1 will stand, H dx */
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

/* The new X from a^2 times what stands there, and all else. */
static void reverse_inner(const layer *l, const handed *in, const vectors *v, const lane *k, lane *after) {
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

/* S of the layer before, into s_before. */
static void reverse_gram(diagonal *x, const layer *l, const handed *in, const vectors *v, lane *matrices) {
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

static void reverse_query(diagonal *x, const layer *l, const handed *in, const lane *h_dx) {
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

void KERNEL(diagonal_reverse_in_gram)(diagonal *x, size_t index) {
    layer l = describe(x, index);
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
    reverse_gram(x, &l, &in, &v, pairs + 6 * d);
    reverse_query(x, &l, &in, v.h_dx);
    swap(&x->s, &x->s_before);
    swap(&x->d_query, &x->d_query_before);
}
