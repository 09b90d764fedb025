/*
 * Sparse linear transformers, P = e_D e_D^T and Q = [A 0; 0 0]: a layer changes labels alone, so that of G = [X g; g^T .] only
 * the column g is carried along, with A the sum of the heads' and q = (x, y):
 *     rho = A^T g,  y <- y + rho . x,  g <- g + X rho,  prediction = -y.
 * The reverse, with d_y the same in every layer: d_rho = d_y x + X d_g,  dA = g d_rho^T,  d_g <- d_g + A d_rho. Products
 * with vectors throughout, 8 D^2 flops a layer beside dA.
 */
#ifndef ICL_LINEAR_SPARSE_H
#define ICL_LINEAR_SPARSE_H

#include "linear_plan.h"

static shared_matrix part(const plan *p, uint layer) {
    const shared_matrix m = {p->shared + layer * p->shared_length, p->shared_pitch, 1};
    return m;
}

/* Every head's A has the same gradient: it is written once, and counts `heads` times. */
static floats run_group(const plan *p, floats target, floats *prediction) {
    const matrix gram = SQUARE(p, p->grams, 0);
    const uint d = p->kept;
    STATE float *const query = p->queries, *const rho = p->r, *const d_query = p->d_query;
    squares sums = {(floats)(0.0f), (floats)(0.0f), (floats)(0.0f)};
    floats y = AT(query, d);

    for (uint i = MEMBER; i < d; i += MEMBERS)
        PUT(AT(gram.at, i * gram.row + d), p->p_left, i);
    MEET;
    for (uint layer = 0; layer < p->depth; layer++) {
        STATE float *g = VECTOR(p, p->p_left, layer);
        apply_shared(VECTORS(p, rho), VECTORS(p, g), part(p, layer), 1, d, START_NONE, VECTORS(p, g));
        for (uint i = 0; i < d; i++)
            y = MULTIPLY_ADD(AT(rho, i), AT(query, i), y);
        MEET;
        if (layer + 1 < p->depth)
            apply(VECTORS(p, VECTOR(p, g, 1)), VECTORS(p, rho), gram, 1, d, START_SELF, VECTORS(p, g));
    }
    *prediction = -y;
    if (!(p->flags & FLAG_TRAIN))
        return y;
    const floats d_y = 2.0f * (y + target);
    for (uint i = MEMBER; i < d; i += MEMBERS)
        PUT(d_y * AT(query, i), d_query, i);
    MEET;
    for (uint layer = p->depth; layer-- > 0;) {
        const uint is_last = layer + 1 == p->depth;
        STATE float *d_rho = is_last ? d_query : rho, *g = VECTOR(p, p->p_left, layer);
        if (!is_last)
            apply(VECTORS(p, rho), VECTORS(p, p->d_before), gram, 1, d, START_SELF, VECTORS(p, d_query));
        add_dense_gradient(p, p->gradient + (place)layer * p->part_length * LANES, matrix_at(g, 1, 0),
                           VECTORS(p, d_rho), 1, &sums);
        if (layer > 0)
            apply_shared(VECTORS(p, p->d_before), VECTORS(p, d_rho), shared_transposed(part(p, layer)), 1, d,
                         is_last ? START_NONE : START_SELF, VECTORS(p, p->d_before));
    }
    sums.small *= (float)p->heads, sums.plain *= (float)p->heads, sums.large *= (float)p->heads;
    return norm_of(p, &sums);
}

/* Writes the sum of the heads' A of each layer in use to `to`, padded with zeros. */
static void expand(const plan *p, __global float *to, __global const float *parameters, int stride,
                   uint layers, uint2 part_sizes) {
    for (uint e = MEMBER; e < p->depth * p->shared_length; e += MEMBERS) {
        const uint layer = e / p->shared_length, at = e - layer * p->shared_length;
        const uint i = at / p->shared_pitch, j = at - i * p->shared_pitch;
        const uint first = (layer + 1 < p->depth ? layer : layers - 1) * p->heads;
        float sum = 0.0f;
        for (uint head = 0; head < p->heads && i < p->kept && j < p->kept; head++)
            sum += parameters[(int)((first + head) * part_sizes.s1 + i * p->kept + j) * stride];
        to[e] = sum;
    }
    MEET;
}

/* Gives the vectors and matrices their addresses in the team's memory; linear_transformer.c counts them likewise. */
static void lay_out(plan *p, STATE float *at, uint work) {
    const place square = (place)p->matrix * LANES, vector = (place)p->pitch * LANES;
    p->grams = at;
    p->t = p->grams + square;
    p->queries = p->t + work * square;
    p->r = p->queries + vector;
    p->d_query = p->r + vector;
    p->d_before = p->d_query + vector;
    p->p_left = p->d_before + vector; /* g before each layer */
}

#endif
