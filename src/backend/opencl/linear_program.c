/*
 * Composes the steps that cl/linear_transformer.cl runs for each group of sequences.
 *
 * With G = factor * Z^T Z over the context and heads h, a layer is A = I + sum_h P_h G Q_h, G <- A G A^T, q <- A q for the query q,
 * and the prediction is minus the last coordinate of q. The last layer b needs q alone, and the layer a before it need not form
 * its G: with G and q as they come into layer a,
 *     q' = q + sum_k P_k G Q_k q,  w_h = Q_bh q',  v_h = P_bh^T e_D,  r(z) = A^T z = z + sum_k Q_k^T G P_k^T z,
 *     prediction = -(q'_D + sum_h r(v_h)^T G r(w_h)),
 * which are products with vectors. Only the full layers, depth - 2 of them, cost D^3. The backward pass is their reverse, d_x being
 * the derivative by x; with S = d_G + d_G^T, from the last full layer to the first,
 *     T = S A,  d_A = T G + d_q q^T,  d_P = d_A R^T (R = G Q),  d_R = P^T d_A,  d_Q = G d_R,
 *     S <- A^T T + M + M^T (M = d_R Q^T),  d_q <- A^T d_q.
 *
 * P and Q are dense, 20 D^3 flops a full layer, or diagonal: then A = I + W o G elementwise with W_ij = sum_h p_hi q_hj, 8 D^3.
 * In the sparse form, P = e_D e_D^T and Q = [A 0; 0 0], labels alone change: of G = [X g; g^T .] only g is carried along, with
 * A the sum of the heads' and q = (x, y),
 *     rho = A^T g,  y <- y + rho . x,  g <- g + X rho;  backwards d_rho = d_y x + X d_g,  d_A = g d_rho^T,  d_g <- d_g + A d_rho.
 */
#include "backend/opencl/linear_program.h"

/* A step as the device reads it. */
typedef struct step {
    cl_uint kind, mode;
    cl_uint to, to_row, to_column, a, a_row, a_column, b, b_row, b_column;
    cl_uint start, rows, columns, depth, extra;
} step;

_Static_assert(sizeof(step) == STEP_WORDS * sizeof(cl_uint), "cl/linear_steps.h differs from step");

/* A matrix: place and strides. */
typedef struct matrix {
    cl_uint at, row, column;
} matrix;

typedef struct composer {
    icl_linear_key key;
    cl_uint full, count, stack; /* layers with a G of their own; 2 heads: the vectors w, then v; count + 1 */
    cl_uint square, pair_count; /* elements of a matrix; pairs of vectors whose products make S */
    cl_uint shared_length, part_length; /* of a part: as it is read, and of its gradient */
    cl_uint used;                       /* elements of the team's memory given out */
    cl_uint grams;                      /* G before each full layer, and after them; S begins there */
    cl_uint forms; /* A, then R^T of each head, for every full layer or for one at a time */
    cl_uint t, x, y, y_transposed, m;
    cl_uint tokens, most_rows;        /* rows of tokens at a time: in the place of t and what follows it */
    cl_uint queries;                  /* q before each full layer, and after them */
    cl_uint after, d_query, d_before; /* q', d_q, and d_q before the layer */
    cl_uint r, g_r, d_z;              /* r(w) and r(v), G times them, d_w and d_v */
    cl_uint p_left, p_right; /* d_P_k = sum of p_left[i] p_right[k][i]^T: w, v and d_q' on the left */
    cl_uint q_left, q_right; /* d_Q_k = sum of q_left[k][i] q_right[i]^T: d_r(w), d_r(v) and q on the right */
    cl_uint pairs;           /* S = sum of u w^T + w u^T: all u, all w, all u again */
    cl_uint spare;           /* two vectors for diagonal gradients */
    step *steps;
    size_t step_count;
} composer;

/* ---- Memory ---- */

static cl_uint take(composer *c, cl_uint elements) {
    const cl_uint at = c->used;
    c->used += elements;
    return at;
}

static cl_uint take_vectors(composer *c, cl_uint count) {
    return take(c, count * c->key.pitch);
}

static bool is_dense(const composer *c) {
    return c->key.layout == ICL_LAYOUT_DENSE || c->key.layout == ICL_LAYOUT_CORNER;
}

static void lay_out_work(composer *c) {
    const icl_linear_key *key = &c->key;
    const cl_uint own = is_dense(c) ? 1 + key->heads : 1, layers = key->keep ? c->full : c->full > 0;

    c->grams = take(c, (c->full + 1) * c->square);
    c->forms = take(c, layers * own * c->square);
    c->t = c->tokens = c->used;
    if (c->full > 0) {
        take(c, c->square);
        c->x = take(c, c->square);
        c->y = c->m = take(c, c->square);
        if (is_dense(c))
            c->y_transposed = take(c, c->square);
        if (is_dense(c) && key->heads > 1)
            c->m = take(c, c->square);
    } else if (key->tokens) {
        take(c, c->square);
    }
    c->most_rows = (c->used - c->tokens) / key->pitch;
}

static void lay_out(composer *c) {
    const cl_uint heads = c->key.heads;

    lay_out_work(c);
    c->queries = take_vectors(c, c->full + 1);
    c->after = take_vectors(c, 1);
    c->d_query = take_vectors(c, 1);
    c->d_before = take_vectors(c, 1);
    if (c->key.layout == ICL_LAYOUT_SPARSE) {
        c->r = take_vectors(c, c->key.depth);      /* rho of each layer */
        c->p_left = take_vectors(c, c->key.depth); /* g before each layer */
    } else {
        c->r = take_vectors(c, c->count);
        c->g_r = take_vectors(c, c->count);
        c->d_z = take_vectors(c, c->count);
        c->p_left = take_vectors(c, c->stack);
        c->q_right = take_vectors(c, c->stack);
        c->p_right = take_vectors(c, heads * c->stack);
        c->q_left = take_vectors(c, heads * c->stack);
        c->pairs = take_vectors(c, 3 * c->pair_count);
        c->spare = take_vectors(c, 2);
    }
    take_vectors(c, 2); /* CPUs read past the last one, and do not use it */
}

static composer composer_of(const icl_linear_key *key) {
    composer c = {.key = *key, .count = 2 * key->heads, .stack = 2 * key->heads + 1};

    if (key->layout != ICL_LAYOUT_SPARSE && key->depth > 2)
        c.full = key->depth - 2;
    c.square = key->sides * key->pitch;
    c.pair_count = 2 * key->heads + key->heads * c.count;
    c.shared_length = key->layout == ICL_LAYOUT_DIAGONAL ? 2 : key->shared_pitch * key->shared_pitch;
    c.part_length = key->layout == ICL_LAYOUT_DIAGONAL ? 2 : key->kept * key->kept;
    lay_out(&c);
    return c;
}

size_t icl_linear_state_length(const icl_linear_key *key) {
    return composer_of(key).used;
}

static cl_uint vector_at(const composer *c, cl_uint base, cl_uint i) {
    return base + i * c->key.pitch;
}

/* Consecutive vectors as rows. */
static matrix rows_at(const composer *c, cl_uint base) {
    return (matrix){base, c->key.pitch, 1};
}

static matrix square_at(const composer *c, cl_uint base, cl_uint i) {
    return (matrix){base + i * c->square, c->key.pitch, 1};
}

static matrix transposed(matrix m) {
    return (matrix){m.at, m.column, m.row};
}

/* The Gram matrix after the full layers. */
static matrix gram(const composer *c) {
    return square_at(c, c->grams, c->full);
}

static cl_uint part_index(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    return c->key.layout == ICL_LAYOUT_SPARSE ? layer : (layer * c->key.heads + head) * 2 + is_q;
}

/* P or Q of a layer in use, among the shared parameters. */
static matrix part_at(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    const cl_uint row = c->key.is_direct && layer + 1 == c->key.depth ? c->key.layers - 1 : layer;
    return (matrix){part_index(c, row, head, is_q) * c->shared_length, c->key.shared_pitch, 1};
}

static cl_uint gradient_at(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    return part_index(c, layer, head, is_q) * c->part_length;
}

/* ---- Steps ---- */

static step *add(composer *c, cl_uint kind, cl_uint mode, matrix to, matrix a, matrix b) {
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
static step *multiply(composer *c, cl_uint mode, matrix to, matrix a, matrix b) {
    step *s = add(c, STEP_MULTIPLY, mode, to, a, b);
    s->rows = s->columns = s->depth = c->key.size;
    return s;
}

static step *multiply_shared(composer *c, cl_uint mode, matrix to, matrix part, matrix b) {
    step *s = add(c, STEP_MULTIPLY_SHARED, mode, to, part, b);
    s->rows = s->columns = s->depth = c->key.size;
    return s;
}

/* Elementwise, or a few rows. */
static step *elementwise(composer *c, cl_uint kind, cl_uint mode, cl_uint to, matrix a, cl_uint rows) {
    step *s = add(c, kind, mode, rows_at(c, to), a, nothing);
    s->rows = rows;
    s->columns = c->key.size;
    return s;
}

/* to[i] = start[i] + x[i] m over `size` coordinates; start is given or it is not. */
static void apply(composer *c, cl_uint to, cl_uint x, matrix m, cl_uint count, cl_uint size,
                  const cl_uint *start) {
    step *s = add(c, STEP_APPLY, start ? START_GIVEN : START_NONE, rows_at(c, to), rows_at(c, x), m);
    s->rows = count;
    s->columns = s->depth = size;
    s->start = start ? *start : 0;
}

static void apply_shared(composer *c, cl_uint to, cl_uint x, matrix m, cl_uint count, cl_uint size,
                         const cl_uint *start) {
    apply(c, to, x, m, count, size, start);
    c->steps[c->step_count - 1].kind = STEP_APPLY_SHARED;
}

/* to[i] = start[i] + M x[i] with M a part, or the transpose of one. */
static void map(composer *c, cl_uint to, cl_uint x, matrix part, cl_uint count, const cl_uint *start) {
    if (is_dense(c)) {
        apply_shared(c, to, x, transposed(part), count, c->key.size, start);
    } else {
        step *s = elementwise(c, STEP_PAIR, start ? START_GIVEN : START_NONE, to, rows_at(c, x), count);
        s->b = part.at;
        s->start = start ? *start : 0;
    }
}

static void map_by_gram(composer *c, cl_uint to, cl_uint x, cl_uint count) {
    apply(c, to, x, gram(c), count, c->key.size, NULL);
}

/* The gradient of a part: the sum over k < depth of the k-th row of `left`, as a column, times the k-th row of `right`. */
static void add_gradient(composer *c, cl_uint layer, cl_uint head, bool is_q, matrix left, matrix right,
                         cl_uint depth) {
    const matrix to = {gradient_at(c, layer, head, is_q), 0, 0};
    if (c->key.layout == ICL_LAYOUT_DIAGONAL) {
        step *s = add(c, STEP_COLUMN_DOTS, 0, rows_at(c, c->spare), left, right);
        s->columns = c->key.size;
        s->depth = depth;
        s = add(c, STEP_GRADIENT_PAIR, is_q && c->key.is_short ? MODE_SHORT : 0, to, rows_at(c, c->spare),
                nothing);
        s->columns = c->key.size;
    } else {
        step *s = add(c, STEP_GRADIENT, 0, to, transposed(left), right);
        s->rows = s->columns = c->key.kept;
        s->depth = depth;
    }
}

/* ---- Full layers ---- */

static matrix form_of(const composer *c, cl_uint layer) {
    return square_at(c, c->forms, c->key.keep ? layer * (is_dense(c) ? 1 + c->key.heads : 1) : 0);
}

static matrix r_transposed_of(const composer *c, cl_uint layer, cl_uint head) {
    return square_at(c, form_of(c, layer).at, 1 + head);
}

/* to = W o from. */
static void weigh(composer *c, cl_uint layer, cl_uint mode, matrix to, matrix from) {
    step *s = add(c, STEP_WEIGH, mode, to, from, part_at(c, layer, 0, false));
    s->rows = s->columns = c->key.size;
    s->depth = c->key.heads;
}

/* A, and R^T of each head. */
static void compose_form(composer *c, cl_uint layer) {
    const matrix a = form_of(c, layer), g = square_at(c, c->grams, layer), r = square_at(c, c->t, 0);

    if (!is_dense(c)) {
        weigh(c, layer, MODE_IDENTITY, a, g);
        return;
    }
    for (cl_uint head = 0; head < c->key.heads; head++) {
        const matrix p = part_at(c, layer, head, false), q = part_at(c, layer, head, true);
        multiply_shared(c, MODE_TWICE, r_transposed_of(c, layer, head), transposed(q), g)->extra = r.at;
        multiply_shared(c, head == 0 ? START_IDENTITY : START_SELF, a, p, r);
    }
}

static void compose_full_layer(composer *c, cl_uint layer) {
    const matrix a = form_of(c, layer), g = square_at(c, c->grams, layer), t = square_at(c, c->t, 0);

    compose_form(c, layer);
    multiply(c, START_NONE, transposed(t), a, g);
    multiply(c, START_NONE | MODE_SYMMETRIC, square_at(c, c->grams, layer + 1), a, t);
    apply(c, vector_at(c, c->queries, layer + 1), vector_at(c, c->queries, layer), transposed(a), 1,
          c->key.size, NULL);
}

/* From d_A to the gradients of the layer's parts, and to M. */
static void compose_part_gradients(composer *c, cl_uint layer) {
    const matrix d_a = square_at(c, c->x, 0), g = square_at(c, c->grams, layer), y = square_at(c, c->y, 0),
                 y_transposed = square_at(c, c->y_transposed, 0), m = square_at(c, c->m, 0);

    for (cl_uint head = 0; head < c->key.heads && is_dense(c); head++) {
        const matrix p = part_at(c, layer, head, false), q = part_at(c, layer, head, true);
        add_gradient(c, layer, head, false, transposed(d_a), r_transposed_of(c, layer, head), c->key.size);
        multiply_shared(c, MODE_TWICE, y, transposed(p), d_a)->extra = y_transposed.at;
        add_gradient(c, layer, head, true, g, y, c->key.size); /* G is symmetric */
        if (layer > 0)
            multiply_shared(c, head == 0 ? START_NONE : START_SELF, m, q, y_transposed); /* M^T */
    }
    if (!is_dense(c)) {
        step *s = add(c, STEP_ROW_SUMS, 0, rows_at(c, c->spare), d_a, g);
        s->rows = c->key.size;
        s = add(c, STEP_GRADIENT_WEIGHTS, c->key.is_short ? MODE_SHORT : 0,
                (matrix){gradient_at(c, layer, 0, false), 0, 0}, rows_at(c, c->spare),
                part_at(c, layer, 0, false));
        s->columns = c->key.size;
        s->depth = c->key.heads;
        if (layer > 0)
            weigh(c, layer, 0, m, d_a);
    }
}

static void compose_full_layer_backwards(composer *c, cl_uint layer, cl_uint d_query, cl_uint d_before) {
    const matrix a = form_of(c, layer), g = square_at(c, c->grams, layer), t = square_at(c, c->t, 0),
                 d_a = square_at(c, c->x, 0), s = gram(c);

    if (!c->key.keep)
        compose_form(c, layer);
    multiply(c, START_NONE, t, s, a);
    step *outer = multiply(c, START_OUTER, d_a, t, g);
    outer->start = d_query;
    outer->extra = vector_at(c, c->queries, layer);
    compose_part_gradients(c, layer);
    if (layer > 0) {
        multiply(c, START_TWO_SIDED | MODE_SYMMETRIC, s, transposed(a), t)->start = c->m;
        apply(c, d_before, d_query, a, 1, c->key.size, NULL);
    }
}

/* ---- The last two layers ---- */

/* Pairs (u, w): (G r(v), r(w)) for each head; (d_M, P^T z) for each head of a and vector; (d_g, Q q) for each head of a. */
static cl_uint first_d(const composer *c, cl_uint head) {
    return c->key.heads + head * c->count;
}

static cl_uint first_x(const composer *c, cl_uint head) {
    return c->key.heads + c->key.heads * c->count + head;
}

static cl_uint pair_u(const composer *c, cl_uint i) {
    return vector_at(c, c->pairs, i);
}

static cl_uint pair_w(const composer *c, cl_uint i) {
    return vector_at(c, c->pairs, c->pair_count + i);
}

/* q' from q: through layer a. */
static void compose_query(composer *c, cl_uint query) {
    const cl_uint a = c->key.depth - 2;
    for (cl_uint k = 0; k < c->key.heads; k++) {
        const cl_uint x = pair_w(c, first_x(c, k)), g = vector_at(c, c->p_right, k * c->stack + c->count);
        map(c, x, query, part_at(c, a, k, true), 1, NULL);
        map_by_gram(c, g, x, 1);
        map(c, c->after, g, part_at(c, a, k, false), 1, k == 0 ? &query : &c->after);
    }
}

static void compose_head(composer *c, cl_uint after) {
    const cl_uint last = c->key.depth - 1, heads = c->key.heads, z = c->p_left, size = c->key.size;
    const bool attends = c->key.depth > 1;

    for (cl_uint h = 0; h < heads; h++) {
        const matrix p = part_at(c, last, h, false);
        const cl_uint v = vector_at(c, z, heads + h);
        map(c, vector_at(c, z, h), after, part_at(c, last, h, true), 1, NULL);
        if (is_dense(c))
            elementwise(c, STEP_BROADCAST, 0, v, (matrix){p.at + (size - 1) * p.row, 0, 1}, 1);
        else
            elementwise(c, STEP_LABEL, 0, v, nothing, 1)->b = p.at;
    }
    for (cl_uint k = 0; k < heads && attends; k++) {
        const cl_uint d = pair_w(c, first_d(c, k)), m = vector_at(c, c->q_left, k * c->stack);
        map(c, d, z, transposed(part_at(c, last - 1, k, false)), c->count, NULL);
        map_by_gram(c, m, d, c->count);
        map(c, c->r, m, transposed(part_at(c, last - 1, k, true)), c->count, k == 0 ? &z : &c->r);
    }
    const cl_uint r = attends ? c->r : z;
    map_by_gram(c, c->g_r, r, c->count);
    step *value = elementwise(c, STEP_VALUE, 0, 0, rows_at(c, vector_at(c, r, heads)), heads);
    value->b = c->g_r;
    value->b_row = c->key.pitch;
    value->b_column = 1;
    value->start = after + size - 1;
}

/* d_r, and the factors that the other gradients are made of. */
static void compose_slopes(composer *c, cl_uint query) {
    const cl_uint heads = c->key.heads, r = c->key.depth > 1 ? c->r : c->p_left;

    for (cl_uint half = 0; half < 2; half++) {
        const matrix other = rows_at(c, vector_at(c, c->g_r, half == 0 ? heads : 0));
        elementwise(c, STEP_SLOPE, 0, vector_at(c, c->q_right, half * heads), other, heads);
        elementwise(c, STEP_SLOPE, 0, vector_at(c, c->d_z, half * heads), other, heads);
    }
    elementwise(c, STEP_COPY, 0, vector_at(c, c->q_right, c->count), rows_at(c, query), 1);
    if (c->full > 0) {
        elementwise(c, STEP_SLOPE, 0, pair_u(c, 0), rows_at(c, vector_at(c, r, heads)), heads);
        elementwise(c, STEP_COPY, 0, pair_w(c, 0), rows_at(c, r), heads);
    }
}

/* Backwards through layer b: its gradients, and d_q' in d_query and on the left of d_P. */
static void compose_last_layer_backwards(composer *c, cl_uint after) {
    const cl_uint last = c->key.depth - 1, heads = c->key.heads, size = c->key.size;
    const cl_uint d_after = vector_at(c, c->p_left, c->count);

    for (cl_uint h = 0; h < heads; h++) {
        const cl_uint d_w = vector_at(c, c->d_z, h), d_v = vector_at(c, c->d_z, heads + h);
        const cl_uint p_at = gradient_at(c, last, h, false);
        add_gradient(c, last, h, true, rows_at(c, d_w), rows_at(c, after), 1);
        if (c->key.layout == ICL_LAYOUT_DENSE)
            elementwise(c, STEP_GRADIENT_ROW, 0, 0, rows_at(c, d_v), 1)->to = p_at + (size - 1) * size;
        else if (c->key.layout == ICL_LAYOUT_DIAGONAL) {
            step *s = elementwise(c, STEP_GRADIENT_ROW, 0, 0, rows_at(c, d_v + size - 1), 1);
            s->to = p_at + 1;
            s->columns = 1;
        }
        map(c, c->d_query, d_w, transposed(part_at(c, last, h, true)), 1, h == 0 ? NULL : &c->d_query);
    }
    elementwise(c, STEP_COPY, MODE_SLOPE, d_after, rows_at(c, c->d_query), 1);
    elementwise(c, STEP_COPY, 0, c->d_query, rows_at(c, d_after), 1);
}

static void compose_head_backwards(composer *c, cl_uint query, cl_uint after) {
    const cl_uint heads = c->key.heads, d_after = vector_at(c, c->p_left, c->count), a = c->key.depth - 2;
    const bool attends = c->key.depth > 1;

    compose_slopes(c, query);
    for (cl_uint k = 0; k < heads && attends; k++) {
        const cl_uint d_m = pair_u(c, first_d(c, k)), d_d = vector_at(c, c->p_right, k * c->stack);
        map(c, d_m, c->q_right, part_at(c, a, k, true), c->count, NULL);
        map_by_gram(c, d_d, d_m, c->count);
        map(c, c->d_z, d_d, part_at(c, a, k, false), c->count, &c->d_z);
    }
    compose_last_layer_backwards(c, after);
    for (cl_uint k = 0; k < heads && attends; k++) {
        const cl_uint d_g = pair_u(c, first_x(c, k)), left = vector_at(c, c->q_left, k * c->stack);
        const cl_uint d_x = vector_at(c, left, c->count);
        map(c, d_g, d_after, transposed(part_at(c, a, k, false)), 1, NULL);
        map_by_gram(c, d_x, d_g, 1);
        add_gradient(c, a, k, false, rows_at(c, c->p_left),
                     rows_at(c, vector_at(c, c->p_right, k * c->stack)), c->stack);
        add_gradient(c, a, k, true, rows_at(c, left), rows_at(c, c->q_right), c->stack);
        if (c->full > 0)
            map(c, c->d_query, d_x, transposed(part_at(c, a, k, true)), 1, &c->d_query);
    }
    if (c->full > 0) {
        elementwise(c, STEP_COPY, 0, pair_w(c, c->pair_count), rows_at(c, c->pairs), c->pair_count);
        multiply(c, START_NONE | MODE_SYMMETRIC, gram(c), transposed(rows_at(c, c->pairs)),
                 rows_at(c, pair_w(c, 0)))
            ->depth = 2 * c->pair_count;
    }
}

/* ---- The forms ---- */

/* G and q. */
static void compose_input(composer *c) {
    const matrix g = square_at(c, c->grams, 0), rows = rows_at(c, c->tokens);

    if (c->key.tokens) {
        step *s = add(c, STEP_TAKE, START_LATER, rows, nothing, nothing);
        s->rows = c->most_rows;
        s->columns = c->key.size;
        multiply(c, START_LATER | MODE_SYMMETRIC, g, transposed(rows), rows)->depth = c->most_rows;
        add(c, STEP_MORE_ROWS, 0, nothing, nothing, nothing)->rows = c->most_rows;
    } else {
        step *s = add(c, STEP_TAKE, 0, g, nothing, nothing);
        s->rows = s->columns = c->key.size;
    }
    if (c->key.scaled)
        elementwise(c, STEP_SCALE, 0, g.at, nothing, c->key.size);
    elementwise(c, STEP_TAKE, MODE_QUERY, c->queries, nothing, 1);
}

static void compose_full(composer *c) {
    const cl_uint query = vector_at(c, c->queries, c->full);
    const cl_uint after = c->key.depth > 1 ? c->after : query;

    for (cl_uint layer = 0; layer < c->full; layer++)
        compose_full_layer(c, layer);
    if (c->key.depth > 1)
        compose_query(c, query);
    compose_head(c, after);
    if (!c->key.train)
        return;
    compose_head_backwards(c, query, after);
    for (cl_uint layer = c->full, done = 0; layer-- > 0; done++)
        compose_full_layer_backwards(c, layer, done % 2 == 0 ? c->d_query : c->d_before,
                                     done % 2 == 0 ? c->d_before : c->d_query);
}

static void compose_sparse(composer *c) {
    const matrix g = square_at(c, c->grams, 0);
    const cl_uint d = c->key.kept, depth = c->key.depth;

    elementwise(c, STEP_COPY, 0, c->p_left, (matrix){g.at + d, 0, g.row}, 1)->columns = d;
    for (cl_uint layer = 0; layer < depth; layer++) {
        const cl_uint at = vector_at(c, c->p_left, layer), rho = vector_at(c, c->r, layer);
        apply_shared(c, rho, at, part_at(c, layer, 0, true), 1, d, NULL);
        if (layer + 1 < depth)
            apply(c, vector_at(c, at, 1), rho, g, 1, d, &at);
    }
    step *value = elementwise(c, STEP_VALUE, 0, 0, rows_at(c, c->r), depth);
    value->columns = d;
    value->b = c->queries;
    value->start = c->queries + d;
    if (!c->key.train)
        return;
    elementwise(c, STEP_SLOPE, 0, c->d_query, rows_at(c, c->queries), 1)->columns = d;
    for (cl_uint layer = depth; layer-- > 0;) {
        const bool is_last = layer + 1 == depth;
        const cl_uint d_rho = is_last ? c->d_query : c->r;
        if (!is_last)
            apply(c, d_rho, c->d_before, g, 1, d, &c->d_query);
        add_gradient(c, layer, 0, true, rows_at(c, vector_at(c, c->p_left, layer)), rows_at(c, d_rho), 1);
        if (layer > 0)
            apply_shared(c, c->d_before, d_rho, transposed(part_at(c, layer, 0, true)), 1, d,
                         is_last ? NULL : &c->d_before);
    }
}

/* ---- A program ---- */

icl_status icl_linear_compose(const icl_linear_key *key, void **steps, size_t *count, icl_error *error) {
    composer c = composer_of(key);
    const size_t heads = key->heads,
                 most = 64 + 40 * heads + c.full * (24 + 10 * heads) + 8 * (size_t)key->depth;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(most, sizeof *c.steps, "steps", &c.steps, error));
    compose_input(&c);
    if (key->layout == ICL_LAYOUT_SPARSE)
        compose_sparse(&c);
    else
        compose_full(&c);
    *steps = c.steps;
    *count = c.step_count;
done:
    return status;
}
