/*
 * Dense and diagonal linear transformers: the group's program.
 *
 * With G = factor * Z^T Z over the context and heads h, a layer is A = I + sum_h P_h G Q_h, G <- A G A^T, q <- A q for the query q, and
 * the prediction is minus the last coordinate of q. The last layer b needs q alone, and the layer a before it need not form its
 * G: with G and q as they come into layer a,
 *     q' = q + sum_k P_k G Q_k q,  w_h = Q_bh q',  v_h = P_bh^T e_D,  x -> r(x) = A^T x = x + sum_k Q_k^T G P_k^T x,
 *     prediction = -(q'_D + sum_h r(v_h)^T G r(w_h)),
 * which are products with vectors. So `full` = depth - 2 layers alone cost D^3. The backward pass is their reverse; with
 * S = dG + dG^T, from the last full layer to the first,
 *     T = S A,  dA = T G + dq q^T,  dP += dA R^T (R = G Q),  dR = P^T dA,  dQ += G dR,
 *     S <- A^T T + M + M^T (M = dR Q^T),  dq <- A^T dq.
 * P and Q are dense (DIAGONAL 0), or diag(x … x, y) each (DIAGONAL 1): then A = I + W o G elementwise, W_ij = sum_h p_hi q_hj,
 * which leaves 4 of the 10 D^3.
 *
 */
#ifndef ICL_LINEAR_DENSE_H
#define ICL_LINEAR_DENSE_H

#include "linear_plan.h"

#define DIAGONAL (FORM == FORM_DIAGONAL)

/* P or Q of a layer in use. */
static shared_matrix part(const plan *p, uint layer, uint head, uint which) {
    const uint row = layer + 1 == p->depth ? p->last : layer;
    const shared_matrix m = {p->shared + ((row * p->heads + head) * 2 + which) * p->shared_length,
                             p->shared_pitch, 1};
    return m;
}

/* to[i] = start[i] + M x[i] for `count` vectors; START_NONE: without start. */
static void map(const plan *p, STATE float *to, STATE float *x, shared_matrix m, uint count, uint from,
                STATE float *start) {
#if DIAGONAL
    for (uint e = MEMBER; e < count * p->size; e += MEMBERS) {
        const uint h = e / p->size, i = e - h * p->size, at = h * p->pitch + i;
        floats value = m.at[i + 1 == p->size] * AT(x, at);
        if (from != START_NONE)
            value += AT(start, at);
        PUT(value, to, at);
    }
    MEET;
#else
    apply_shared(VECTORS(p, to), VECTORS(p, x), shared_transposed(m), count, p->size, from,
                 VECTORS(p, start));
#endif
}

/* to[i] = G x[i]. */
static void map_by_gram(const plan *p, STATE float *to, STATE float *x, uint count) {
    apply(VECTORS(p, to), VECTORS(p, x), GRAM(p), count, p->size, START_NONE, VECTORS(p, to));
}

/* ---- Gradients of parameters ---- */

static __global float *gradient_of(const plan *p, uint layer, uint head, uint which) {
    return p->gradient + (place)((layer * p->heads + head) * 2 + which) * p->part_length * LANES;
}

#if DIAGONAL
/* The two elements of a diagonal part's gradient; GDPP's Q has no second. For all members the same. */
static void put_pair(const plan *p, __global float *to, uint which, floats inputs, floats label,
                     squares *sums) {
    if (MEMBER != 0)
        return;
    put_gradient(p, to, 0, inputs, sums);
    if (which == P_PART || !(p->flags & FLAG_CORNER))
        put_gradient(p, to, 1, label, sums);
}
#endif

/* The part's gradient: the sum over k < depth of a[i][k] b[k][j]; of a diagonal part i = j. */
static void add_gradient(const plan *p, uint layer, uint head, uint which, matrix a, matrix b, uint depth,
                         squares *sums) {
    __global float *to = gradient_of(p, layer, head, which);
#if DIAGONAL
    floats inputs = (floats)(0.0f), label = inputs;
    for (uint i = MEMBER; i < p->size; i += MEMBERS) {
        floats sum = (floats)(0.0f);
        for (uint k = 0; k < depth; k++)
            sum = MULTIPLY_ADD(AT(a.at, i * a.row + k * a.column), AT(b.at, k * b.row + i), sum);
        if (i + 1 < p->size)
            inputs += sum;
        else
            label += sum;
    }
    inputs = TEAM_SUM(inputs, p->spare);
    label = TEAM_SUM(label, p->spare);
    put_pair(p, to, which, inputs, label, sums);
#else
    add_dense_gradient(p, to, a, b, depth, sums);
#endif
    MEET;
}

/* Of the last layer's P the last row alone has a gradient: `row`. */
static void add_gradient_row(const plan *p, uint head, STATE float *row, squares *sums) {
    __global float *to = gradient_of(p, p->depth - 1, head, P_PART);
#if DIAGONAL
    if (MEMBER == 0)
        put_gradient(p, to, 1, AT(row, p->size - 1), sums);
#else
    for (uint j = MEMBER; j < p->size && p->kept == p->size; j += MEMBERS)
        put_gradient(p, to, (p->size - 1) * p->size + j, AT(row, j), sums);
#endif
    MEET;
}

/* ---- Full layers ---- */

#if DIAGONAL
/* W of a layer for inputs (x) and label (y): xx, xy, yx, yy. */
static float4 weights_of(const plan *p, uint layer) {
    float4 w = (float4)(0.0f);
    for (uint head = 0; head < p->heads; head++) {
        const float2 a = vload2(0, part(p, layer, head, P_PART).at),
                     b = vload2(0, part(p, layer, head, Q_PART).at);
        w += (float4)(a.s0, a.s0, a.s1, a.s1) * (float4)(b.s0, b.s1, b.s0, b.s1);
    }
    return w;
}

/* to = W o from, plus `identity` times I. */
static void weigh(const plan *p, matrix to, matrix from, float4 w, float identity) {
    for (uint e = MEMBER; e < p->size * p->size; e += MEMBERS) {
        const uint i = e / p->size, j = e - i * p->size;
        const float2 row = i + 1 < p->size ? w.s01 : w.s23;
        const floats value = (j + 1 < p->size ? row.s0 : row.s1) * AT(from.at, i * from.row + j);
        PUT(i == j ? value + identity : value, to.at, i * to.row + j);
    }
    MEET;
}

/* The gradients of the diagonals, from the sums of dA o G over the blocks of W. */
static void differentiate_weights(const plan *p, uint layer, matrix d_a, matrix g, squares *sums) {
    floats xx = (floats)(0.0f), xy = xx, yx = xx, yy = xx;
    for (uint i = MEMBER; i < p->size; i += MEMBERS) {
        floats inputs = (floats)(0.0f), label = inputs;
        for (uint j = 0; j < p->size; j++) {
            const floats product = AT(d_a.at, i * d_a.row + j) * AT(g.at, i * g.row + j);
            if (j + 1 < p->size)
                inputs += product;
            else
                label = product;
        }
        if (i + 1 < p->size)
            xx += inputs, xy += label;
        else
            yx = inputs, yy = label;
    }
    xx = TEAM_SUM(xx, p->spare), xy = TEAM_SUM(xy, p->spare);
    yx = TEAM_SUM(yx, p->spare), yy = TEAM_SUM(yy, p->spare);
    for (uint head = 0; head < p->heads; head++) {
        const float2 a = vload2(0, part(p, layer, head, P_PART).at),
                     b = vload2(0, part(p, layer, head, Q_PART).at);
        put_pair(p, gradient_of(p, layer, head, P_PART), P_PART, b.s0 * xx + b.s1 * xy, b.s0 * yx + b.s1 * yy,
                 sums);
        put_pair(p, gradient_of(p, layer, head, Q_PART), Q_PART, a.s0 * xx + a.s1 * yx, a.s0 * xy + a.s1 * yy,
                 sums);
    }
    MEET;
}
#endif

/* A and R^T of a full layer, from its G; returns A. */
static matrix form(const plan *p, uint layer) {
    const uint slot = p->flags & FLAG_KEEP ? layer : 0;
    const matrix g = SQUARE(p, p->grams, layer);
#if DIAGONAL
    const matrix a = SQUARE(p, p->forms, slot);
    weigh(p, a, g, weights_of(p, layer), 1.0f);
#else
    const matrix a = SQUARE(p, p->forms, slot * (p->heads + 1)), r = SQUARE(p, p->t, 0);
    for (uint head = 0; head < p->heads; head++) {
        multiply_shared(SQUARE(p, p->forms, slot * (p->heads + 1) + 1 + head),
                        shared_transposed(part(p, layer, head, Q_PART)), g, p->size, START_NONE, 1,
                        transposed(r));
        multiply_shared(a, part(p, layer, head, P_PART), r, p->size, head == 0 ? START_IDENTITY : START_SELF,
                        0, a);
    }
#endif
    return a;
}

/* G and q of the next layer. */
static void advance(const plan *p, uint layer) {
    const matrix a = form(p, layer), t = SQUARE(p, p->t, 0);
    multiply(transposed(t), a, SQUARE(p, p->grams, layer), p->size, p->size, START_NONE, t, p->t, 0);
    multiply(SQUARE(p, p->grams, layer + 1), a, t, p->size, p->size, START_NONE, t, p->t, 1);
    apply(VECTORS(p, VECTOR(p, p->queries, layer + 1)), VECTORS(p, VECTOR(p, p->queries, layer)),
          transposed(a), 1, p->size, START_NONE, VECTORS(p, p->queries));
}

/* The gradients of P and Q from dA, and M, whose sum with its transpose goes into S. */
static void differentiate_form(const plan *p, uint layer, matrix d_a, squares *sums) {
    const matrix g = SQUARE(p, p->grams, layer), m = SQUARE(p, p->m, 0);
#if DIAGONAL
    differentiate_weights(p, layer, d_a, g, sums);
    weigh(p, m, d_a, weights_of(p, layer), 0.0f);
#else
    const matrix y = SQUARE(p, p->y, 0), y_transposed = SQUARE(p, p->y_transposed, 0);
    const uint slot = p->flags & FLAG_KEEP ? layer : 0;
    for (uint head = 0; head < p->heads; head++) {
        add_gradient(p, layer, head, P_PART, d_a, SQUARE(p, p->forms, slot * (p->heads + 1) + 1 + head),
                     p->size, sums);
        multiply_shared(y, shared_transposed(part(p, layer, head, P_PART)), d_a, p->size, START_NONE, 1,
                        transposed(y_transposed));
        add_gradient(p, layer, head, Q_PART, g, y, p->size, sums);
        if (layer > 0) /* M^T = Q dR^T */
            multiply_shared(m, part(p, layer, head, Q_PART), y_transposed, p->size,
                            head == 0 ? START_NONE : START_SELF, 0, m);
    }
#endif
}

/* Backwards through a full layer: from S and d_query after it to S and d_before, which the first layer does without. */
static void retreat(const plan *p, uint layer, STATE float *d_query, STATE float *d_before, squares *sums) {
    const matrix s = GRAM(p), t = SQUARE(p, p->t, 0), d_a = SQUARE(p, p->x, 0);
    const uint forms = DIAGONAL ? 1 : p->heads + 1;
    const matrix a = p->flags & FLAG_KEEP ? SQUARE(p, p->forms, layer * forms) : form(p, layer);

    multiply(t, s, a, p->size, p->size, START_NONE, t, p->t, 0);
    multiply(d_a, t, SQUARE(p, p->grams, layer), p->size, p->size, START_OUTER, VECTORS(p, d_query),
             VECTOR(p, p->queries, layer), 0);
    differentiate_form(p, layer, d_a, sums);
    if (layer > 0) {
        multiply(s, transposed(a), t, p->size, p->size, START_TWO_SIDED, SQUARE(p, p->m, 0), p->t, 1);
        apply(VECTORS(p, d_before), VECTORS(p, d_query), a, 1, p->size, START_NONE, VECTORS(p, d_query));
    }
}

/* ---- The last two layers ---- */

#define FIRST_D(p) ((p)->heads) /* of pairs: u, w = G r(v), r(w); dM, P^T z; dg, Q q */
#define FIRST_X(p)                                                                                           \
    ((p)->heads + (p)->heads * (p)->count) /* for each head, for each head and vector, for each head */
#define STACK(p)     ((p)->count + 1)
#define PAIR_U(p, i) VECTOR(p, (p)->pairs, i)
#define PAIR_W(p, i) VECTOR(p, (p)->pairs, (p)->pairs_count + (i))

/* q', w and v, and what layer a makes of them. */
static STATE float *head_forward(const plan *p, STATE float *q) {
    const uint last = p->depth - 1, count = p->count, attends = p->depth > 1;
    STATE float *after = attends ? p->after : q, *z = p->p_left;

    for (uint k = 0; k < p->heads && attends; k++) {
        STATE float *x = PAIR_W(p, FIRST_X(p) + k), *g = VECTOR(p, p->p_right, k * STACK(p) + count);
        map(p, x, q, part(p, last - 1, k, Q_PART), 1, START_NONE, q);
        map_by_gram(p, g, x, 1);
        map(p, after, g, part(p, last - 1, k, P_PART), 1, START_SELF, k == 0 ? q : after);
    }
    for (uint h = 0; h < p->heads; h++) {
        const shared_matrix m = part(p, last, h, P_PART);
        STATE float *v = VECTOR(p, z, p->heads + h);
        for (uint i = MEMBER; i < p->size; i += MEMBERS)
#if DIAGONAL
            PUT((floats)(i + 1 == p->size ? m.at[1] : 0.0f), v, i);
#else
            PUT(SHARED_AT(m.at, (p->size - 1) * m.row + i), v, i);
#endif
        map(p, VECTOR(p, z, h), after, part(p, last, h, Q_PART), 1, START_NONE, z);
    }
    for (uint k = 0; k < p->heads && attends; k++) {
        STATE float *d = PAIR_W(p, FIRST_D(p) + k * count), *m = VECTOR(p, p->q_left, k * STACK(p));
        map(p, d, z, shared_transposed(part(p, last - 1, k, P_PART)), count, START_NONE, z);
        map_by_gram(p, m, d, count);
        map(p, p->r, m, shared_transposed(part(p, last - 1, k, Q_PART)), count, START_SELF,
            k == 0 ? z : p->r);
    }
    STATE float *r = attends ? p->r : z;
    map_by_gram(p, p->g_r, r, count);
    return after;
}

/* Minus the prediction. Every member computes it. */
static floats evaluate(const plan *p, STATE float *after) {
    STATE float *r = p->depth > 1 ? p->r : p->p_left;
    floats sum = (floats)(0.0f);
    for (uint h = 0; h < p->heads; h++)
        for (uint i = 0; i < p->size; i++)
            sum = MULTIPLY_ADD(AT(VECTOR(p, r, p->heads + h), i), AT(VECTOR(p, p->g_r, h), i), sum);
    return AT(after, p->size - 1) + sum;
}

/* From the derivative d_f by minus the prediction: gradients of the last two layers, and where full layers come before them, S and
 * d_query. */
static void head_backward(const plan *p, STATE float *q, STATE float *after, floats d_f, squares *sums) {
    const uint last = p->depth - 1, count = p->count, attends = p->depth > 1;
    STATE float *r = attends ? p->r : p->p_left, *d_after = VECTOR(p, p->p_left, count);

    for (uint e = MEMBER; e < count * p->size; e += MEMBERS) { /* dr */
        const uint h = e / p->size, i = e - h * p->size, other = h < p->heads ? h + p->heads : h - p->heads;
        const floats value = d_f * AT(VECTOR(p, p->g_r, other), i);
        PUT(value, VECTOR(p, p->q_right, h), i);
        PUT(value, VECTOR(p, p->d_z, h), i);
        if (p->full > 0 && h < p->heads) {
            PUT(d_f * AT(VECTOR(p, r, other), i), PAIR_U(p, h), i);
            PUT(AT(VECTOR(p, r, h), i), PAIR_W(p, h), i);
        }
    }
    for (uint i = MEMBER; i < p->size; i += MEMBERS)
        PUT(AT(q, i), VECTOR(p, p->q_right, count), i);
    MEET;
    for (uint k = 0; k < p->heads && attends; k++) {
        STATE float *d_m = PAIR_U(p, FIRST_D(p) + k * count), *d_d = VECTOR(p, p->p_right, k * STACK(p));
        map(p, d_m, p->q_right, part(p, last - 1, k, Q_PART), count, START_NONE, d_m);
        map_by_gram(p, d_d, d_m, count);
        map(p, p->d_z, d_d, part(p, last - 1, k, P_PART), count, START_SELF, p->d_z);
    }
    for (uint h = 0; h < p->heads; h++) {
        STATE float *d_w = VECTOR(p, p->d_z, h);
        add_gradient(p, last, h, Q_PART, matrix_at(d_w, 1, 0), VECTORS(p, after), 1, sums);
        add_gradient_row(p, h, VECTOR(p, p->d_z, p->heads + h), sums);
        map(p, p->d_query, d_w, shared_transposed(part(p, last, h, Q_PART)), 1,
            h == 0 ? START_NONE : START_SELF, p->d_query);
    }
    for (uint i = MEMBER; i < p->size; i += MEMBERS) {
        const floats value = AT(p->d_query, i);
        PUT(i + 1 == p->size ? value + d_f : value, p->d_query, i);
        PUT(i + 1 == p->size ? value + d_f : value, d_after, i);
    }
    MEET;
    for (uint k = 0; k < p->heads && attends; k++) {
        STATE float *d_g = PAIR_U(p, FIRST_X(p) + k), *d_x = VECTOR(p, p->q_left, k * STACK(p) + count);
        map(p, d_g, d_after, shared_transposed(part(p, last - 1, k, P_PART)), 1, START_NONE, d_g);
        map_by_gram(p, d_x, d_g, 1);
        add_gradient(p, last - 1, k, P_PART, matrix_at(p->p_left, 1, p->pitch),
                     VECTORS(p, VECTOR(p, p->p_right, k * STACK(p))), STACK(p), sums);
        add_gradient(p, last - 1, k, Q_PART, matrix_at(VECTOR(p, p->q_left, k * STACK(p)), 1, p->pitch),
                     VECTORS(p, p->q_right), STACK(p), sums);
        if (p->full > 0)
            map(p, p->d_query, d_x, shared_transposed(part(p, last - 1, k, Q_PART)), 1, START_SELF,
                p->d_query);
    }
    if (p->full > 0) {
        for (uint e = MEMBER; e < p->pairs_count * p->pitch; e += MEMBERS)
            PUT(AT(p->pairs, e), PAIR_W(p, p->pairs_count), e);
        MEET;
        multiply(GRAM(p), matrix_at(p->pairs, 1, p->pitch), VECTORS(p, PAIR_W(p, 0)), p->size,
                 2 * p->pairs_count, START_NONE, GRAM(p), p->t, 1);
    }
}

/* Predictions, and with FLAG_TRAIN the gradient in its place; returns the norms. */
static floats run_group(const plan *p, floats target, floats *prediction) {
    squares sums = {(floats)(0.0f), (floats)(0.0f), (floats)(0.0f)};
    STATE float *q = VECTOR(p, p->queries, p->full), *d_query = p->d_query, *d_before = p->d_before;

    for (uint layer = 0; layer < p->full; layer++)
        advance(p, layer);
    STATE float *after = head_forward(p, q);
    const floats f = evaluate(p, after);
    *prediction = -f;
    if (!(p->flags & FLAG_TRAIN))
        return f;
    MEET;
    head_backward(p, q, after, 2.0f * (f + target), &sums);
    for (uint layer = p->full; layer-- > 0;) {
        STATE float *swap = d_before;
        retreat(p, layer, d_query, d_before, &sums);
        d_before = d_query;
        d_query = swap;
    }
    return norm_of(p, &sums);
}

/* Copies the parameters of the layers in use to `to`: each part [pitch, pitch], padded with zeros, or a pair. */
static void expand(const plan *p, __global float *to, __global const float *parameters, int stride,
                   uint layers, uint2 part_sizes) {
    for (uint e = MEMBER; e < p->parts * p->shared_length; e += MEMBERS) {
        const uint index = e / p->shared_length, at = e - index * p->shared_length, which = index % 2;
        const uint head = index / 2 % p->heads, layer = index / 2 / p->heads;
        const uint source = ((layer + 1 < p->depth ? layer : layers - 1) * p->heads + head) *
                                (part_sizes.s0 + part_sizes.s1) +
                            which * part_sizes.s0;
#if DIAGONAL
        to[e] = at < (which == P_PART ? part_sizes.s0 : part_sizes.s1)
                    ? parameters[(int)(source + at) * stride]
                    : 0.0f;
#else
        const uint i = at / p->shared_pitch, j = at - i * p->shared_pitch;
        if (i < p->kept && j < p->kept)
            to[e] = parameters[(int)(source + i * p->kept + j) * stride];
        else
            to[e] = p->flags & FLAG_CORNER && which == P_PART && i + 1 == p->size && j + 1 == p->size ? 1.0f
                                                                                                      : 0.0f;
#endif
    }
    MEET;
}

/* Gives the vectors and matrices their addresses in the team's memory; linear_transformer.c counts them likewise. */
static void lay_out(plan *p, STATE float *at, uint work) {
    const place square = (place)p->matrix * LANES, vector = (place)p->pitch * LANES;
    const uint forms = p->flags & FLAG_KEEP ? p->full : min(p->full, 1u), stack = p->count + 1;

    p->grams = at;
    p->forms = p->grams + (p->full + 1) * square;
    p->t = p->forms + forms * (DIAGONAL ? 1 : p->heads + 1) * square;
    p->x = p->t + square;
    p->y = p->x + square;
    p->y_transposed = p->y + square;
    p->m = DIAGONAL || p->heads == 1 ? p->y : p->y_transposed + square;
    p->queries = p->t + work * square;
    p->after = p->queries + (p->full + 1) * vector;
    p->d_query = p->after + vector;
    p->d_before = p->d_query + vector;
    p->r = p->d_before + vector;
    p->g_r = p->r + p->count * vector;
    p->d_z = p->g_r + p->count * vector;
    p->p_left = p->d_z + p->count * vector;
    p->q_right = p->p_left + stack * vector;
    p->p_right = p->q_right + stack * vector;
    p->q_left = p->p_right + p->heads * stack * vector;
    p->pairs = p->q_left + p->heads * stack * vector;
}

#endif
