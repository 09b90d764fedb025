/*
 * What the forms of a linear transformer share: the plan of a team's work, gradients of parameters with the norm of each
 * sequence's, and the reading of sequences.
 */
#ifndef ICL_LINEAR_PLAN_H
#define ICL_LINEAR_PLAN_H

#include "linear_blocks.h"

#define FORM_DENSE    0 /* P and Q are matrices */
#define FORM_DIAGONAL 1 /* diag(x … x, y) each */
#define FORM_SPARSE   2 /* P = [0 0; 0 1], Q = [A 0; 0 0] */

#define FLAG_TRAIN  1u
#define FLAG_TOKENS 2u /* data are tokens, else Gram matrices */
#define FLAG_CLIP   4u
#define FLAG_KEEP   8u  /* A and R of every full layer are kept for the backward pass, else computed again */
#define FLAG_EXPAND 16u /* parameters are copied to the form that the products need */
#define FLAG_CORNER                                                                                          \
    32u /* SPARSE_B: parts are input blocks, and P has a 1 in its last corner; GDPP: Q has a 0 there */

#define P_PART 0u
#define Q_PART 1u

/* What every function needs to know. STATE memory is the team's own; d_x is the derivative by x. */
typedef struct plan {
    uint size, depth, heads, full, flags; /* size: D */
    uint kept;   /* rows and columns of a dense part that are parameters: D, or d for SPARSE_B */
    uint count;  /* 2 heads: the vectors w_h, then v_h */
    uint pitch;  /* of a matrix's rows, and of vectors */
    uint matrix; /* elements of a matrix */
    uint last;   /* index of the last layer in `shared` */
    uint shared_pitch, shared_length; /* of a part in `shared` */
    uint part_length;                 /* of a part in `gradient` */
    uint parts;                       /* in `shared`, and in `gradient` */
    uint pairs_count;
    __global const float *shared; /* [layer][head][P, Q] */
    __global float
        *gradient;      /* [layer][head][P, Q] of this group if it is clipped, else the sums of the unit */
    STATE float *grams; /* G before each full layer, and after them; S begins there */
    STATE float *forms; /* A, then R^T of each head, for every full layer or for one at a time */
    STATE float *t, *x, *y, *y_transposed, *m;
    STATE float *queries; /* q before each full layer, and after them */
    STATE float *after;   /* q' */
    STATE float *d_query, *d_before;
    STATE float *r, *g_r;          /* r(w) and r(v), and G times them */
    STATE float *p_left, *p_right; /* dP_k = sum of p_left[i] p_right[k][i]^T: w, v and dq' on the left */
    STATE float *q_left,
        *q_right;       /* dQ_k = sum of q_left[k][i] q_right[i]^T: dr(w), dr(v) and q on the right */
    STATE float *d_z;   /* dw and dv */
    STATE float *pairs; /* S = sum of u w^T + w u^T: all u, all w, all u again */
#if LANES == 1
    __local float *spare;
#endif
} plan;

/* Sums of squares of a gradient whose squares may leave the range of a float: of elements times 2^64, 1 and 2^-64. */
typedef struct squares {
    floats small, plain, large;
} squares;

#define UP   18446744073709551616.0f
#define DOWN (1.0f / 18446744073709551616.0f)

#define VECTOR(p, base, i) ((base) + (place)(i) * (p)->pitch * LANES)
#define VECTORS(p, base)   matrix_at(base, (p)->pitch, 1)
#define SQUARE(p, base, i) matrix_at((base) + (place)(i) * (p)->matrix * LANES, (p)->pitch, 1)
#define GRAM(p)            SQUARE(p, (p)->grams, (p)->full)

/* ---- Gradients of parameters ---- */

/* Puts one element of the sequence's gradient in its place, and its square into the member's sums. */
static void put_gradient(const plan *p, __global float *to, place at, floats value, squares *sums) {
    const floats up = value * UP, down = value * DOWN;
    sums->small = MULTIPLY_ADD(up, up, sums->small);
    sums->plain = MULTIPLY_ADD(value, value, sums->plain);
    sums->large = MULTIPLY_ADD(down, down, sums->large);
    if (!(p->flags & FLAG_CLIP))
        value += AT(to, at);
    PUT(value, to, at);
}

#if FORM != FORM_DIAGONAL
/* The gradient of a dense part at `to`: the sum over k < depth of a[i][k] b[k][j]. */
static void add_dense_gradient(const plan *p, __global float *to, matrix a, matrix b, uint depth,
                               squares *sums) {
    FOR_EACH_BLOCK(ROWS, COLUMNS, p->kept, p->kept) {
        SUM_BLOCK(ROWS, COLUMNS, sum, a, AT, b, AT, 1, p->kept, p->kept, depth)
        if (i + ROWS <= p->kept && j + COLUMNS <= p->kept) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            put_gradient(p, to, (i + r) * p->kept + j + c, sum[r][c], sums);
        } else {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (i + r < p->kept && j + c < p->kept)
                put_gradient(p, to, (i + r) * p->kept + j + c, sum[r][c], sums);
        }
    }
    MEET;
}
#endif

/* ---- Reading sequences, and what is done with their gradients ---- */

/* G and q of `count` sequences. `from` and `query` stand at the first one's elements. */
static void take_group(const plan *p, __global const float *from, int4 stride, __global const float *query,
                       int4 query_stride, uint count, uint rows, uint most_rows, float factor) {
    const matrix g = SQUARE(p, p->grams, 0);
    uint row = 0;

    take(VECTORS(p, p->queries), query, query_stride, count, 1, p->size);
    if (p->flags & FLAG_TOKENS) {
        do { /* once even for no rows */
            const uint some = min(most_rows, rows - row);
            take(VECTORS(p, p->t), from + (int)row * stride.s1, stride, count, some, p->size);
            multiply(g, matrix_at(p->t, 1, p->pitch), VECTORS(p, p->t), p->size, some,
                     row == 0 ? START_NONE : START_SELF, g, p->t, 1);
            row += some;
        } while (row < rows);
    } else {
        take(g, from, stride, count, p->size, p->size);
    }
    for (uint e = MEMBER; e < p->size * p->pitch && factor != 1.0f; e += MEMBERS)
        PUT(factor * AT(g.at, e), g.at, e);
    MEET;
}

/* The norm that the sums of squares make: from those whose elements were scaled least far, as long as they are in range. */
static floats norm_of(const plan *p, const squares *sums) {
    const floats small = TEAM_SUM(sums->small, p->spare), plain = TEAM_SUM(sums->plain, p->spare),
                 large = TEAM_SUM(sums->large, p->spare);
    const floats above = select(sqrt(plain), sqrt(large) * UP, plain > 1e37f);
    const floats at_all = select(above, sqrt(small) * DOWN, plain < 1e-20f);
    return select(at_all, plain, isnan(plain));
}

/* sums += s gradient, s = min(1, limit / norm); nothing where the norm is not finite. */
static void add_clipped(__global float *sums, __global const float *gradient, uint length, floats norm,
                        float limit) {
    const floats scale = select((floats)(1.0f), limit / norm, norm > limit);
    for (uint e = MEMBER; e < length; e += MEMBERS)
        PUT(AT(sums, e) + select((floats)(0.0f), scale * AT(gradient, e), norm <= MAXFLOAT), sums, e);
    MEET;
}

#endif
