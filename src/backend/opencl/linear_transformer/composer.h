/*
 * The composer of a linear transformer's steps: its state, places in the team's memory, and single steps. program.c
 * (memory, input, the sparse form), full.c or tokens.c, pass.c and head.c use it; program.c has the mathematics.
 */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_COMPOSER_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_COMPOSER_H

#include "backend/opencl/linear_transformer/program.h"

/* A step as the device reads it. */
typedef struct step {
    cl_uint kind, mode;
    cl_uint to, to_row, to_column, a, a_row, a_column, b, b_row, b_column;
    cl_uint start, rows, columns, depth, extra;
} step;

_Static_assert(sizeof(step) == STEP_WORDS * sizeof(cl_uint), "cl/linear_transformer/linear_steps.h differs from step");

/* A matrix: place and strides. */
typedef struct matrix {
    cl_uint at, row, column;
} matrix;

typedef struct composer {
    icl_linear_key key;
    cl_uint full, count, stack;         /* layers that are carried on; 2 heads: the vectors w, then v; count + 1 */
    cl_uint square, pair_count;         /* elements of a matrix; pairs of vectors whose products make S */
    cl_uint shared_length, part_length; /* of a part: as it is read, and of its gradient */
    size_t used;                        /* elements of the team's memory given out */
    cl_uint grams;                      /* G before each full layer, and after them; S begins there */
    cl_uint forms;                      /* A, then R^T of each head, for every full layer or for one at a time */
    cl_uint t, x, y, y_transposed, m;
    cl_uint first_t;           /* (A G)^T of the first layer, or t */
    cl_uint tokens, most_rows; /* rows of tokens at a time: in the place of t and what follows it */
    cl_uint u, v;              /* in token space, where tokens are those before each layer, and after them: U, V */
    cl_uint d_tokens, d_tokens_before, d_u, d_v; /* d_query is the last row of d_tokens */
    cl_uint queries;                             /* q before each full layer, and after them */
    cl_uint after, d_query, d_before;            /* q', d_q, and d_q before the layer */
    cl_uint r, g_r, d_z;                         /* r(w) and r(v), G times them, d_w and d_v */
    cl_uint p_left, p_right; /* d_P_k = sum of p_left[i] p_right[k][i]^T: w, v and d_q' on the left */
    cl_uint q_left, q_right; /* d_Q_k = sum of q_left[k][i] q_right[i]^T: d_r(w), d_r(v) and q on the right */
    cl_uint pairs;           /* S = sum of u w^T + w u^T: all u, all w, all u again, or d_q */
    cl_uint pass_y, pass_x_p_gram, pass_y_q_gram; /* of a layer that is passed on: see pass.c */
    cl_uint pass_left, pass_right, pass_sum;      /* rows of the sum S: left, right, left again; how many */
    cl_uint passed_query;
    cl_uint spare; /* two vectors for diagonal gradients */
    step *steps;
    size_t step_count;
    cl_uint *objects; /* where each begins that a step uses as a whole; NULL: nobody asks */
    size_t object_count;
} composer;

/* ---- Places ---- */

static inline bool is_dense(const composer *c) {
    return c->key.copy == ICL_COPY_DENSE || c->key.copy == ICL_COPY_CORNER;
}

static inline cl_uint vector_at(const composer *c, cl_uint base, cl_uint i) {
    return base + i * c->key.pitch;
}

/* Consecutive vectors as rows. */
static inline matrix rows_at(const composer *c, cl_uint base) {
    return (matrix){base, c->key.pitch, 1};
}

static inline matrix square_at(const composer *c, cl_uint base, cl_uint i) {
    return (matrix){base + i * c->square, c->key.pitch, 1};
}

static inline matrix transposed(matrix m) {
    return (matrix){m.at, m.column, m.row};
}

/* The Gram matrix after the layers that are carried on. */
static inline matrix gram(const composer *c) {
    return square_at(c, c->grams, c->full);
}

/* A of a layer that is carried on; of dense parts, R^T of each head follows. */
static inline matrix form_of(const composer *c, cl_uint layer) {
    return square_at(c, c->forms, c->key.keep ? layer * (is_dense(c) ? 1 + c->key.heads : 1) : 0);
}

static inline cl_uint part_index(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    return c->key.copy == ICL_COPY_SPARSE ? layer : (layer * c->key.heads + head) * 2 + is_q;
}

/* P or Q of a layer in use, among the shared parameters. */
static inline matrix part_at(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    const cl_uint row = c->key.is_direct && layer + 1 == c->key.depth ? c->key.layers - 1 : layer;
    return (matrix){part_index(c, row, head, is_q) * c->shared_length, c->key.shared_pitch, 1};
}

static inline cl_uint gradient_at(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    return part_index(c, layer, head, is_q) * c->part_length;
}

/* ---- Steps ---- */

static inline step *add(composer *c, cl_uint kind, cl_uint mode, matrix to, matrix a, matrix b) {
    step *s = &c->steps[c->step_count++];
    *s = (step){.kind = kind,
                .mode = mode,
                .to = to.at,
                .to_row = to.row,
                .to_column = to.column,
                .a = a.at,
                .a_row = a.row,
                .a_column = a.column,
                .b = b.at,
                .b_row = b.row,
                .b_column = b.column};
    return s;
}

static const matrix nothing = {0, 0, 0};

/* to = start + a b, all [D, D]. */
static inline step *multiply(composer *c, cl_uint mode, matrix to, matrix a, matrix b) {
    step *s = add(c, STEP_MULTIPLY, mode, to, a, b);
    s->rows = s->columns = s->depth = c->key.size;
    return s;
}

/* What the last step, a product, has made is meant to be times the factor. */
static inline void scale_product(composer *c) {
    if (c->key.scaled)
        c->steps[c->step_count - 1].mode |= MODE_SCALED;
}

static inline step *multiply_shared(composer *c, cl_uint mode, matrix to, matrix part, matrix b) {
    step *s = add(c, STEP_MULTIPLY_SHARED, mode, to, part, b);
    s->rows = s->columns = s->depth = c->key.size;
    return s;
}

/* Elementwise, or a few rows. */
static inline step *elementwise(composer *c, cl_uint kind, cl_uint mode, cl_uint to, matrix a, cl_uint rows) {
    step *s = add(c, kind, mode, rows_at(c, to), a, nothing);
    s->rows = rows;
    s->columns = c->key.size;
    return s;
}

/* to[i] = start[i] + x[i] m over `size` coordinates; start is given or it is not. */
static inline void apply(composer *c, cl_uint to, cl_uint x, matrix m, cl_uint count, cl_uint size,
                         const cl_uint *start) {
    step *s = add(c, STEP_APPLY, start ? START_GIVEN : START_NONE, rows_at(c, to), rows_at(c, x), m);
    s->rows = count;
    s->columns = s->depth = size;
    s->start = start ? *start : 0;
}

static inline void apply_shared(composer *c, cl_uint to, cl_uint x, matrix m, cl_uint count, cl_uint size,
                                const cl_uint *start) {
    apply(c, to, x, m, count, size, start);
    c->steps[c->step_count - 1].kind = STEP_APPLY_SHARED;
}

/* to[i] = start[i] + M x[i] with M a part, or the transpose of one. */
static inline void map(composer *c, cl_uint to, cl_uint x, matrix part, cl_uint count, const cl_uint *start) {
    if (is_dense(c)) {
        apply_shared(c, to, x, transposed(part), count, c->key.size, start);
    } else {
        step *s = elementwise(c, STEP_PAIR, start ? START_GIVEN : START_NONE, to, rows_at(c, x), count);
        s->b = part.at;
        s->start = start ? *start : 0;
    }
}

/* The gradient of a part: the sum over k < depth of the k-th row of `left`, as a column, times the
 * k-th row of `right`. */
static inline void add_gradient(composer *c, cl_uint layer, cl_uint head, bool is_q, matrix left, matrix right,
                                cl_uint depth) {
    const matrix to = {gradient_at(c, layer, head, is_q), 0, 0};
    if (c->key.copy == ICL_COPY_DIAGONAL) {
        step *s = add(c, STEP_COLUMN_DOTS, 0, rows_at(c, c->spare), left, right);
        s->columns = c->key.size;
        s->depth = depth;
        s = add(c, STEP_GRADIENT_PAIR, is_q && c->key.is_short ? MODE_SHORT : 0, to, rows_at(c, c->spare), nothing);
        s->columns = c->key.size;
    } else {
        step *s = add(c, STEP_GRADIENT, 0, to, transposed(left), right);
        s->rows = s->columns = c->key.kept;
        s->depth = depth;
    }
}

#endif
