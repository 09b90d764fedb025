/*
 * Composes the steps that cl/linear_transformer/linear_transformer.cl runs for each group of sequences.
 *
 * With G = factor * Z^T Z over the context and heads h, a layer is A = I + sum_h P_h G Q_h, G <- A G A^T, q <- A q for
 * the query q, and the prediction is minus the last coordinate of q. The last layer b needs q alone, and the layer a
 * before it need not form its G: with G and q as they come into layer a,
 *     q' = q + sum_k P_k G Q_k q,  w_h = Q_bh q',  v_h = P_bh^T e_D,  r(z) = A^T z = z + sum_k Q_k^T G P_k^T z,
 *     prediction = -(q'_D + sum_h r(v_h)^T G r(w_h)),
 * which are products with vectors. Only the full layers before them, depth - 2 or, where one more is passed on to
 * vectors, depth - 3, cost D^3. The backward pass is their reverse, d_x being
 * the derivative by x; with S = d_G + d_G^T, from the last full layer to the first,
 *     T = S A,  d_A = T G + d_q q^T,  d_P = d_A R^T (R = G Q),  d_R = P^T d_A,  d_Q = G d_R,
 *     S <- A^T T + M + M^T (M = d_R Q^T),  d_q <- A^T d_q.
 *
 * Where full layers carry tokens on instead of G, the formulas stand there.
 *
 * P and Q are dense, 20 D^3 flops a full layer, or diagonal: then A = I + W o G elementwise with W_ij = sum_h p_hi
 * q_hj, 8 D^3. In the sparse form, P = e_D e_D^T and Q = [A 0; 0 0], labels alone change: of G = [X g; g^T .] only g is
 * carried along, with A the sum of the heads' and q = (x, y),
 *     rho = A^T g,  y <- y + rho . x,  g <- g + X rho;
 *     backwards d_rho = d_y x + X d_g,  d_A = g d_rho^T,  d_g <- d_g + A d_rho.
 */
#include "backend/opencl/linear_transformer/program.h"
#include "core/allocate.h"

typedef icl_linear_step step;

/* A matrix: place and strides. */
typedef struct placed_matrix {
    cl_uint at, row, column;
} placed_matrix;

typedef struct composer {
    icl_linear_key key;
    cl_uint full, count, stack;         /* layers that are carried on; 2 heads: the vectors w, then v; count + 1 */
    cl_uint square, pair_count;         /* elements of a matrix; pairs of vectors whose products make S */
    cl_uint shared_length, part_length; /* elements of a part: of the part as it is read, and of its gradient */
    size_t used;                        /* elements of the team's memory given out */
    cl_uint grams;                      /* G before each full layer, and after them; S begins there */
    cl_uint forms;                      /* A, then R^T of each head, for every full layer or for one at a time */
    cl_uint t, x, y, y_transposed, m;
    cl_uint first_t;           /* (A G)^T of the first layer, or t */
    cl_uint tokens, most_rows; /* tokens are read most_rows at a time, into the place of t and what follows it */
    cl_uint u, v;              /* in token space, where `tokens` is those before each layer and at the end: U, V */
    cl_uint d_tokens, d_tokens_before, d_u, d_v; /* d_query is the last row of d_tokens */
    cl_uint queries;                             /* q before each full layer, and after them */
    cl_uint after, d_query, d_before;            /* q', d_q, and d_q before the layer */
    cl_uint r, g_r, d_z;                         /* r(w) and r(v), G times them, d_w and d_v */
    cl_uint p_left, p_right; /* d_P_k = sum of p_left[i] p_right[k][i]^T: w, v and d_q' on the left */
    cl_uint q_left, q_right; /* d_Q_k = sum of q_left[k][i] q_right[i]^T: d_r(w), d_r(v) and q on the right */
    cl_uint pairs;           /* S = sum of u w^T + w u^T: all u, all w, all u again, or d_q */
    cl_uint pass_y, pass_x_p_gram, pass_y_q_gram; /* for the layer that is passed on */
    cl_uint pass_left, pass_right, pass_sum;      /* rows of the sum S: left, right, left again; their number */
    cl_uint passed_query;
    cl_uint spare; /* two vectors for diagonal gradients */
    step *steps;
    size_t step_count;
    cl_uint *objects; /* where each object begins; NULL: not wanted */
    size_t object_count;
} composer;

/* ---- Places ---- */

static bool is_dense(const composer *c) {
    return c->key.copy == ICL_COPY_DENSE || c->key.copy == ICL_COPY_CORNER;
}

static cl_uint vector_at(const composer *c, cl_uint base, cl_uint i) {
    return base + i * c->key.pitch;
}

/* Returns consecutive vectors as rows of a matrix. */
static placed_matrix rows_at(const composer *c, cl_uint base) {
    return (placed_matrix){base, c->key.pitch, 1};
}

static placed_matrix square_at(const composer *c, cl_uint base, cl_uint i) {
    return (placed_matrix){base + i * c->square, c->key.pitch, 1};
}

static placed_matrix transposed(placed_matrix m) {
    return (placed_matrix){m.at, m.column, m.row};
}

/* Returns the Gram matrix after the layers that are carried on. */
static placed_matrix gram(const composer *c) {
    return square_at(c, c->grams, c->full);
}

/* Returns A of a layer that is carried on; if parts are dense, R^T of each head follows it. */
static placed_matrix form_of(const composer *c, cl_uint layer) {
    return square_at(c, c->forms, c->key.keep ? layer * (is_dense(c) ? 1 + c->key.heads : 1) : 0);
}

static cl_uint part_index(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    return c->key.copy == ICL_COPY_SPARSE ? layer : (layer * c->key.heads + head) * 2 + is_q;
}

/* Returns P or Q of a layer in use, among the shared parameters. */
static placed_matrix part_at(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    const cl_uint row = c->key.is_direct && layer + 1 == c->key.depth ? c->key.layers - 1 : layer;
    return (placed_matrix){part_index(c, row, head, is_q) * c->shared_length, c->key.shared_pitch, 1};
}

static cl_uint gradient_at(const composer *c, cl_uint layer, cl_uint head, bool is_q) {
    return part_index(c, layer, head, is_q) * c->part_length;
}

/* ---- Steps ---- */

static step *add(composer *c, cl_uint kind, cl_uint mode, placed_matrix to, placed_matrix a, placed_matrix b) {
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

static const placed_matrix nothing = {0, 0, 0};

/* to = start + a b, all [D, D]. */
static step *multiply(composer *c, cl_uint mode, placed_matrix to, placed_matrix a, placed_matrix b) {
    step *s = add(c, STEP_MULTIPLY, mode, to, a, b);
    s->rows = s->columns = s->depth = c->key.size;
    return s;
}

/* Has the last step, a product, multiplied by the factor. */
static void scale_product(composer *c) {
    if (c->key.scaled)
        c->steps[c->step_count - 1].mode |= MODE_SCALED;
}

static step *multiply_shared(composer *c, cl_uint mode, placed_matrix to, placed_matrix part, placed_matrix b) {
    step *s = add(c, STEP_MULTIPLY_SHARED, mode, to, part, b);
    s->rows = s->columns = s->depth = c->key.size;
    return s;
}

/* Adds an elementwise step, or one of a few rows. */
static step *elementwise(composer *c, cl_uint kind, cl_uint mode, cl_uint to, placed_matrix a, cl_uint rows) {
    step *s = add(c, kind, mode, rows_at(c, to), a, nothing);
    s->rows = rows;
    s->columns = c->key.size;
    return s;
}

/* to[i] = start[i] + x[i] m over `size` coordinates; without `start`, x[i] m. */
static void apply(composer *c, cl_uint to, cl_uint x, placed_matrix m, cl_uint count, cl_uint size,
                  const cl_uint *start) {
    step *s = add(c, STEP_APPLY, start ? START_GIVEN : START_NONE, rows_at(c, to), rows_at(c, x), m);
    s->rows = count;
    s->columns = s->depth = size;
    s->start = start ? *start : 0;
}

static void apply_shared(composer *c, cl_uint to, cl_uint x, placed_matrix m, cl_uint count, cl_uint size,
                         const cl_uint *start) {
    apply(c, to, x, m, count, size, start);
    c->steps[c->step_count - 1].kind = STEP_APPLY_SHARED;
}

/* to[i] = start[i] + M x[i] with M a part, or the transpose of one. */
static void map(composer *c, cl_uint to, cl_uint x, placed_matrix part, cl_uint count, const cl_uint *start) {
    if (is_dense(c)) {
        apply_shared(c, to, x, transposed(part), count, c->key.size, start);
    } else {
        step *s = elementwise(c, STEP_PAIR, start ? START_GIVEN : START_NONE, to, rows_at(c, x), count);
        s->b = part.at;
        s->start = start ? *start : 0;
    }
}

/* Adds the gradient of a part: the sum over k < depth of the k-th row of `left`, as a column, times the k-th row of
 * `right`. */
static void add_gradient(composer *c, cl_uint layer, cl_uint head, bool is_q, placed_matrix left, placed_matrix right,
                         cl_uint depth) {
    const placed_matrix to = {gradient_at(c, layer, head, is_q), 0, 0};
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

/* ---- The team's memory ---- */

/* ---- Memory ---- */

/* Takes `count` objects of `elements` elements each, one after the other. */
static cl_uint take_each(composer *c, cl_uint count, cl_uint elements) {
    const size_t at = c->used;
    for (cl_uint i = 0; i < count && elements > 0; i++, c->used += elements, c->object_count++)
        if (c->objects)
            c->objects[c->object_count] = (cl_uint)c->used;
    return (cl_uint)at; /* the function that cuts the work refuses more than can be counted */
}

static cl_uint take_squares(composer *c, cl_uint count) {
    return take_each(c, count, c->square);
}

/* Takes all vectors as one object, because steps take some of them together. */
static cl_uint take_vectors(composer *c, cl_uint count) {
    return take_each(c, 1, count * c->key.pitch);
}

static void lay_out_work(composer *c) {
    const icl_linear_key *key = &c->key;
    const cl_uint own = is_dense(c) ? 1 + key->heads : 1, layers = key->keep ? c->full : c->full > 0;

    c->grams = take_squares(c, c->full + 1);
    c->forms = take_squares(c, layers * own);
    if (key->keeps_first && c->full > 0)
        c->first_t = take_squares(c, 1);
    c->t = c->tokens = (cl_uint)c->used;
    if (c->full > 0) {
        take_squares(c, 1);
        c->x = take_squares(c, 1);
        c->y = c->m = take_squares(c, 1);
        if (is_dense(c))
            c->y_transposed = take_squares(c, 1);
        if (is_dense(c) && key->heads > 1)
            c->m = take_squares(c, 1);
    } else if (key->tokens) {
        take_squares(c, 1);
    }
    if (!key->keeps_first)
        c->first_t = c->t;
    c->most_rows = (cl_uint)((c->used - c->tokens) / key->pitch);
    if (key->most_rows > 0 && key->most_rows < c->most_rows)
        c->most_rows = key->most_rows;
}

/* Lays out the memory in token space. A, or U and V, are kept for the backward pass, or are those of one layer. */
static void lay_out_tokens(composer *c) {
    const cl_uint rows = c->key.rows, layers = c->key.keep ? c->full : 1;

    c->grams = take_squares(c, c->full + 1);
    c->tokens = take_each(c, c->full + 1, rows * c->key.pitch);
    if (is_dense(c)) {
        c->u = take_each(c, layers * c->key.heads, rows * c->key.pitch);
        c->v = take_each(c, layers * c->key.heads, rows * c->key.pitch);
    } else {
        c->forms = take_squares(c, layers);
    }
    if (!c->key.train)
        return;
    c->d_tokens = take_vectors(c, rows);
    c->d_query = vector_at(c, c->d_tokens, rows - 1);
    c->d_tokens_before = take_vectors(c, rows);
    if (is_dense(c)) {
        c->d_u = take_vectors(c, rows);
        c->d_v = take_vectors(c, rows);
    } else {
        c->x = c->m = take_squares(c, 1);
    }
}

static void lay_out_pass(composer *c) {
    const cl_uint rows = 2 * c->pair_count + 1;

    c->pass_sum = c->pair_count + c->key.heads * rows;
    c->passed_query = take_vectors(c, 1);
    c->pass_y = take_vectors(c, rows);
    c->pass_x_p_gram = take_vectors(c, c->key.heads * rows);
    c->pass_y_q_gram = take_vectors(c, c->key.heads * rows);
    c->pass_left = take_vectors(c, 3 * c->pass_sum);
    c->pass_right = vector_at(c, c->pass_left, c->pass_sum);
}

static void lay_out(composer *c) {
    const icl_linear_key *key = &c->key;
    const cl_uint heads = key->heads;

    if (c->key.rows > 0) {
        lay_out_tokens(c);
    } else {
        lay_out_work(c);
        c->queries = take_each(c, c->full + 1, key->pitch);
        c->d_query = take_vectors(c, 1);
        c->d_before = take_vectors(c, 1);
    }
    c->after = take_vectors(c, 1);
    if (c->key.copy == ICL_COPY_SPARSE) {
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
        c->pairs = take_vectors(c, c->key.passes ? 2 * c->pair_count + 1 : 3 * c->pair_count);
        c->spare = take_vectors(c, 2);
        if (c->key.passes)
            lay_out_pass(c);
    }
    take_vectors(c, 2); /* CPUs read past the last vector, and do not use what they read */
}

/* Returns a composer with its memory laid out. objects: room for where they begin, or NULL. */
static composer composer_of(const icl_linear_key *key, cl_uint *objects) {
    composer c = {.key = *key, .count = 2 * key->heads, .stack = 2 * key->heads + 1, .objects = objects};

    if (key->copy != ICL_COPY_SPARSE && key->depth > 2)
        c.full = key->depth - 2 - key->passes;
    c.square = key->sides * key->pitch;
    c.pair_count = 2 * key->heads + key->heads * c.count;
    c.shared_length = key->copy == ICL_COPY_DIAGONAL ? 2 : key->shared_pitch * key->shared_pitch;
    c.part_length = key->copy == ICL_COPY_DIAGONAL ? 2 : key->kept * key->kept;
    lay_out(&c);
    return c;
}

size_t icl_linear_state_length(const icl_linear_key *key) {
    return composer_of(key, NULL).used;
}

/* ---- The forms ---- */

/* ---- Layers whose Gram matrix is carried on ---- */

static placed_matrix r_transposed_of(const composer *c, cl_uint layer, cl_uint head) {
    return square_at(c, form_of(c, layer).at, 1 + head);
}

/* to = W o from. */
static void weigh(composer *c, cl_uint layer, cl_uint mode, placed_matrix to, placed_matrix from) {
    step *s = add(c, STEP_WEIGH, mode, to, from, part_at(c, layer, 0, false));
    s->rows = s->columns = c->key.size;
    s->depth = c->key.heads;
}

/* Composes A of a layer and, if parts are dense, R^T of each head. */
static void compose_form(composer *c, cl_uint layer) {
    const placed_matrix a = form_of(c, layer), g = square_at(c, c->grams, layer), r = square_at(c, c->t, 0);

    if (!is_dense(c)) {
        weigh(c, layer, MODE_IDENTITY, a, g);
        return;
    }
    for (cl_uint head = 0; head < c->key.heads; head++) {
        const placed_matrix p = part_at(c, layer, head, false), q = part_at(c, layer, head, true);
        multiply_shared(c, MODE_TWICE, r_transposed_of(c, layer, head), transposed(q), g)->extra = r.at;
        multiply_shared(c, head == 0 ? START_IDENTITY : START_SELF, a, p, r);
    }
}

/* Composes a layer that is carried on: from G and q before it to those after it. */
static void compose_full_layer(composer *c, cl_uint layer) {
    const placed_matrix a = form_of(c, layer), g = square_at(c, c->grams, layer),
                        t = square_at(c, layer == 0 ? c->first_t : c->t, 0);

    compose_form(c, layer);
    multiply(c, START_NONE, transposed(t), a, g);
    multiply(c, START_NONE | MODE_SYMMETRIC, square_at(c, c->grams, layer + 1), a, t);
    apply(c, vector_at(c, c->queries, layer + 1), vector_at(c, c->queries, layer), transposed(a), 1, c->key.size, NULL);
}

/* Composes the step from d_A in the place c->x to the gradients of a layer's diagonal parts, and to M in c->m if there
 * are layers before. */
static void compose_weight_gradients(composer *c, cl_uint layer) {
    const placed_matrix d_a = square_at(c, c->x, 0), g = square_at(c, c->grams, layer);

    add(c, STEP_ROW_SUMS, 0, rows_at(c, c->spare), d_a, g)->rows = c->key.size;
    step *s =
        add(c, STEP_GRADIENT_WEIGHTS, c->key.is_short ? MODE_SHORT : 0,
            (placed_matrix){gradient_at(c, layer, 0, false), 0, 0}, rows_at(c, c->spare), part_at(c, layer, 0, false));
    s->columns = c->key.size;
    s->depth = c->key.heads;
    if (layer > 0)
        weigh(c, layer, 0, square_at(c, c->m, 0), d_a);
}

/* Composes the steps from d_A to the gradients of the layer's parts, and to M. */
static void compose_part_gradients(composer *c, cl_uint layer) {
    const placed_matrix d_a = square_at(c, c->x, 0), g = square_at(c, c->grams, layer), y = square_at(c, c->y, 0),
                        y_transposed = square_at(c, c->y_transposed, 0), m = square_at(c, c->m, 0);

    if (!is_dense(c)) {
        compose_weight_gradients(c, layer);
        return;
    }
    for (cl_uint head = 0; head < c->key.heads; head++) {
        const placed_matrix p = part_at(c, layer, head, false), q = part_at(c, layer, head, true);
        add_gradient(c, layer, head, false, transposed(d_a), r_transposed_of(c, layer, head), c->key.size);
        multiply_shared(c, MODE_TWICE, y, transposed(p), d_a)->extra = y_transposed.at;
        add_gradient(c, layer, head, true, g, y, c->key.size); /* G is symmetric */
        if (layer > 0)
            multiply_shared(c, head == 0 ? START_NONE : START_SELF, m, q, y_transposed); /* M^T */
    }
}

/* d_A = S A G + d_q q^T. In the first layer A G may be kept, as its transpose, and S A is not needed otherwise. */
static void compose_map_backwards(composer *c, cl_uint layer, cl_uint d_query) {
    const placed_matrix g = square_at(c, c->grams, layer), t = square_at(c, c->t, 0), d_a = square_at(c, c->x, 0);
    const cl_uint query = vector_at(c, c->queries, layer);
    step *outer;

    if (layer == 0 && c->key.keeps_first) {
        outer = multiply(c, START_OUTER, transposed(d_a), square_at(c, c->first_t, 0), gram(c));
        outer->start = query;
        outer->extra = d_query;
        return;
    }
    multiply(c, START_NONE, t, gram(c), form_of(c, layer));
    outer = multiply(c, START_OUTER, d_a, t, g);
    outer->start = d_query;
    outer->extra = query;
}

/* Composes the reverse of a layer: S is in the place of gram(c); d_q comes from `d_query` and goes to `d_before` if
 * there are layers before. */
static void compose_full_layer_backwards(composer *c, cl_uint layer, cl_uint d_query, cl_uint d_before) {
    const placed_matrix a = form_of(c, layer), t = square_at(c, c->t, 0), s = gram(c);

    if (!c->key.keep)
        compose_form(c, layer);
    compose_map_backwards(c, layer, d_query);
    compose_part_gradients(c, layer);
    if (layer > 0) {
        multiply(c, START_TWO_SIDED | MODE_SYMMETRIC, s, transposed(a), t)->start = c->m;
        apply(c, d_before, d_query, a, 1, c->key.size, NULL);
    }
}

/* ---- Layers that carry tokens on ---- */

/*
 * Composes the layers before the last two in token space. They carry on the tokens, rows of Z [n + 1][D] with the query
 * last; G = factor * (the first n rows)^T (the first n rows) is formed before each layer and after the last. A layer of
 * dense P and Q is
 *
 *     U = Z Q^T,  V = U G,  Z <- Z + sum over heads of V P^T                                             3.5 n D^2
 *     d_P = d_Z^T V,  d_V = d_Z P,  d_U = d_V G,  d_Q = d_U^T Z,  S = sum of (d_V^T U + U^T d_V),
 *     d_Z <- d_Z + sum of d_U Q + (factor * Z S, but for the query's row)                                7 n D^2
 *
 * multiplications for one head; a layer of diagonal P and Q, A = I + W o G as at the top of this file, is
 *
 *     Z <- Z A^T                                                                                         1.5 n D^2
 *     d_A = d_Z^T Z,  S = W o d_A + (W o d_A)^T,  d_Z <- d_Z A + (factor * Z S, but for the query's row)   3 n D^2
 *
 * S after the last of these layers comes from the layers after them, in the place of gram(c).
 * src/backend/cpu/kernels/linear_transformer/dense.c and diagonal.c do the same.
 */

/* Returns the elements of the rows of all tokens. */
static cl_uint tokens_length(const composer *c) {
    return c->key.rows * c->key.pitch;
}

static cl_uint tokens_before(const composer *c, cl_uint layer) {
    return c->tokens + layer * tokens_length(c);
}

/* Returns the place of U or V of a head: one for each layer, or one for all if they are not kept. */
static cl_uint kept_of(const composer *c, cl_uint base, cl_uint layer, cl_uint head) {
    return base + ((c->key.keep ? layer * c->key.heads : 0) + head) * tokens_length(c);
}

static void form_gram(composer *c, cl_uint layer) {
    const placed_matrix rows = rows_at(c, tokens_before(c, layer)), g = square_at(c, c->grams, layer);

    multiply(c, START_NONE | MODE_SYMMETRIC, g, transposed(rows), rows)->depth = c->key.rows - 1;
    scale_product(c);
}

/* Reads the tokens. */
static void compose_token_input(composer *c) {
    elementwise(c, STEP_TAKE, 0, c->tokens, nothing, c->key.rows);
    form_gram(c, 0);
}

/* U and V. */
static void compose_values(composer *c, cl_uint layer, cl_uint head) {
    const cl_uint u = kept_of(c, c->u, layer, head), rows = c->key.rows, size = c->key.size;

    apply_shared(c, u, tokens_before(c, layer), transposed(part_at(c, layer, head, true)), rows, size, NULL);
    apply(c, kept_of(c, c->v, layer, head), u, square_at(c, c->grams, layer), rows, size, NULL);
}

static void compose_token_layer(composer *c, cl_uint layer) {
    const cl_uint from = tokens_before(c, layer), to = tokens_before(c, layer + 1);

    if (!is_dense(c)) {
        compose_form(c, layer);
        apply(c, to, from, transposed(form_of(c, layer)), c->key.rows, c->key.size, NULL);
    }
    for (cl_uint head = 0; head < c->key.heads && is_dense(c); head++) {
        compose_values(c, layer, head);
        apply_shared(c, to, kept_of(c, c->v, layer, head), transposed(part_at(c, layer, head, false)), c->key.rows,
                     c->key.size, head == 0 ? &from : &to);
    }
    form_gram(c, layer + 1);
}

/* Returns where the query is after all layers. */
static cl_uint compose_token_query(const composer *c) {
    return vector_at(c, tokens_before(c, c->full), c->key.rows - 1);
}

/* Adds S of a head's d_V and U, that is, d_G and its transpose. */
static void add_gram_gradient(composer *c, cl_uint d_v, cl_uint u, bool is_first) {
    const placed_matrix left = rows_at(c, d_v), right = rows_at(c, u);
    const cl_uint start = is_first ? START_NONE : START_SELF;

    multiply(c, start | MODE_SYMMETRIC, gram(c), transposed(left), right)->depth = c->key.rows;
    multiply(c, START_SELF | MODE_SYMMETRIC, gram(c), transposed(right), left)->depth = c->key.rows;
}

/* Composes the gradient that the tokens get from their Gram matrix, right after the product that makes S. `adds`: it is
 * added to d_tokens. */
static void compose_gram_backwards(composer *c, cl_uint layer, cl_uint d_tokens, bool adds) {
    scale_product(c);
    apply(c, d_tokens, tokens_before(c, layer), gram(c), c->key.rows - 1, c->key.size, adds ? &d_tokens : NULL);
}

static void compose_dense_backwards(composer *c, cl_uint layer, cl_uint d_tokens, cl_uint d_before) {
    const cl_uint from = tokens_before(c, layer), rows = c->key.rows, size = c->key.size;

    for (cl_uint head = 0; head < c->key.heads; head++) {
        const placed_matrix p = part_at(c, layer, head, false), q = part_at(c, layer, head, true);
        if (!c->key.keep)
            compose_values(c, layer, head);
        add_gradient(c, layer, head, false, rows_at(c, d_tokens), rows_at(c, kept_of(c, c->v, layer, head)), rows);
        apply_shared(c, c->d_v, d_tokens, p, rows, size, NULL);
        apply(c, c->d_u, c->d_v, square_at(c, c->grams, layer), rows, size, NULL);
        add_gradient(c, layer, head, true, rows_at(c, c->d_u), rows_at(c, from), rows);
        if (layer == 0)
            continue;
        apply_shared(c, d_before, c->d_u, q, rows, size, head == 0 ? &d_tokens : &d_before);
        add_gram_gradient(c, c->d_v, kept_of(c, c->u, layer, head), head == 0);
    }
    if (layer > 0)
        compose_gram_backwards(c, layer, d_before, true);
}

static void compose_diagonal_backwards(composer *c, cl_uint layer, cl_uint d_tokens, cl_uint d_before) {
    const placed_matrix d_a = square_at(c, c->x, 0), m = square_at(c, c->m, 0);
    const cl_uint from = tokens_before(c, layer);

    if (!c->key.keep)
        compose_form(c, layer);
    multiply(c, START_NONE, d_a, transposed(rows_at(c, d_tokens)), rows_at(c, from))->depth = c->key.rows;
    compose_weight_gradients(c, layer);
    if (layer == 0)
        return;
    apply(c, d_before, d_tokens, form_of(c, layer), c->key.rows, c->key.size, NULL);
    step *both = multiply(c, START_TWO_SIDED | MODE_SYMMETRIC, gram(c), m, m);
    both->start = m.at;
    both->depth = 0; /* only M and its transpose */
    compose_gram_backwards(c, layer, d_before, true);
}

/* Composes the way back through the layers, from S in the place of gram(c) and c->d_query. */
static void compose_token_layers_backwards(composer *c) {
    cl_uint d_tokens = c->d_tokens, d_before = c->d_tokens_before;

    compose_gram_backwards(c, c->full, d_tokens, false);
    for (cl_uint layer = c->full; layer-- > 0;) {
        const cl_uint spare = d_tokens;
        if (is_dense(c))
            compose_dense_backwards(c, layer, d_tokens, d_before);
        else
            compose_diagonal_backwards(c, layer, d_tokens, d_before);
        d_tokens = d_before;
        d_before = spare;
    }
}

/* ---- The layer that is passed on to vectors ---- */

/*
 * Composes the layer before the last two if it is passed on to vectors, for dense P and Q. Its Gram matrix G' = A G A^T
 * is never formed, because only the rows of pairs are multiplied by it. A row x is mapped to x G' by products with
 * vectors,
 *
 *     x P,  x P G,  x A = x + sum over heads of (x P G) Q,  y = x A G,  y Q^T,  y Q^T G,
 *     x G' = y + sum of (y Q^T G) P^T.
 *
 * With d_G' = sum of u^T w over pairs, the derivative with respect to A is S A G = sum of (u^T (w A G) + w^T (u A G)).
 * It is a sum over all rows x of x^T y, where y belongs to the row that x is paired with and is therefore kept at x's
 * place. So
 *
 *     d_P = sum of x^T (y Q^T G),  d_Q = sum of (x P G)^T y,
 *     S = sum over pairs of (u A)^T (w A) + sum over rows of (x P)^T (y Q^T), plus the transpose of both.
 *
 * The map of the query, q A^T with the gradient d_q, is one row more: x = d_q and y = q.
 * src/backend/cpu/kernels/linear_transformer/dense.c does the same.
 */

/* Returns the rows of a head: those of pairs, and one for the query. */
static cl_uint rows_of_head(const composer *c) {
    return 2 * c->pair_count + 1;
}

static cl_uint of_head(const composer *c, cl_uint base, cl_uint head, cl_uint row) {
    return vector_at(c, base, head * rows_of_head(c) + row);
}

/* Returns the place of x P or y Q^T among the rows of S, after u A or w A. */
static cl_uint behind_pairs(const composer *c, cl_uint base, cl_uint head, cl_uint row) {
    return of_head(c, vector_at(c, base, c->pair_count), head, row);
}

/* Composes to = x A for `count` rows x of pairs, from `row` on. */
static void compose_transposed_map(composer *c, cl_uint to, cl_uint row, cl_uint count) {
    const cl_uint x = vector_at(c, c->pairs, row), size = c->key.size;

    for (cl_uint head = 0; head < c->key.heads; head++) {
        const cl_uint x_p = behind_pairs(c, c->pass_left, head, row),
                      x_p_gram = of_head(c, c->pass_x_p_gram, head, row);
        apply_shared(c, x_p, x, part_at(c, c->full, head, false), count, size, NULL);
        apply(c, x_p_gram, x_p, gram(c), count, size, NULL);
        apply_shared(c, to, x_p_gram, part_at(c, c->full, head, true), count, size, head == 0 ? &x : &to);
    }
}

/* Composes to = y A^T for `count` rows y, from `row` on. */
static void compose_row_map(composer *c, cl_uint to, cl_uint row, cl_uint count) {
    const cl_uint y = vector_at(c, c->pass_y, row), size = c->key.size;

    for (cl_uint head = 0; head < c->key.heads; head++) {
        const cl_uint y_q = behind_pairs(c, c->pass_right, head, row),
                      y_q_gram = of_head(c, c->pass_y_q_gram, head, row);
        apply_shared(c, y_q, y, transposed(part_at(c, c->full, head, true)), count, size, NULL);
        apply(c, y_q_gram, y_q, gram(c), count, size, NULL);
        apply_shared(c, to, y_q_gram, transposed(part_at(c, c->full, head, false)), count, size, head == 0 ? &y : &to);
    }
}

/* Composes the product of `count` rows of pairs, from `row` on, with the Gram matrix after the layer. */
static void compose_pass(composer *c, cl_uint to, cl_uint row, cl_uint count) {
    const bool is_u = row < c->pair_count;
    const cl_uint partner = is_u ? row + c->pair_count : row - c->pair_count;
    const cl_uint x_a = vector_at(c, is_u ? c->pass_left : c->pass_right, is_u ? row : partner);

    compose_transposed_map(c, x_a, row, count);
    apply(c, vector_at(c, c->pass_y, partner), x_a, gram(c), count, c->key.size, NULL);
    compose_row_map(c, to, partner, count);
}

/* Maps the query to c->passed_query. */
static void compose_pass_query(composer *c, cl_uint query) {
    const cl_uint last = 2 * c->pair_count;

    elementwise(c, STEP_COPY, 0, vector_at(c, c->pass_y, last), rows_at(c, query), 1);
    compose_row_map(c, c->passed_query, last, 1);
}

/* Composes the way back, from and to c->d_query, with S. */
static void compose_pass_backwards(composer *c) {
    const cl_uint rows = rows_of_head(c), again = vector_at(c, c->pass_right, c->pass_sum);

    elementwise(c, STEP_COPY, 0, vector_at(c, c->pairs, rows - 1), rows_at(c, c->d_query), 1);
    compose_transposed_map(c, c->d_query, rows - 1, 1);
    for (cl_uint head = 0; head < c->key.heads; head++) {
        add_gradient(c, c->full, head, false, rows_at(c, c->pairs), rows_at(c, of_head(c, c->pass_y_q_gram, head, 0)),
                     rows);
        add_gradient(c, c->full, head, true, rows_at(c, of_head(c, c->pass_x_p_gram, head, 0)), rows_at(c, c->pass_y),
                     rows);
    }
    if (c->full == 0)
        return;
    elementwise(c, STEP_COPY, 0, again, rows_at(c, c->pass_left), c->pass_sum);
    multiply(c, START_NONE | MODE_SYMMETRIC, gram(c), transposed(rows_at(c, c->pass_left)), rows_at(c, c->pass_right))
        ->depth = 2 * c->pass_sum;
}

/* ---- The last two layers ---- */

/* The pairs (u, w) are: (G r(v), r(w)) for each head; (d_M, P^T z) for each head of a and vector; (d_g, Q q) for each
 * head of a. */
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

/* Multiplies rows by the Gram matrix before layer a; if that is not formed, they must be rows of pairs. */
static void map_by_gram(composer *c, cl_uint to, cl_uint x, cl_uint count) {
    if (c->key.passes)
        compose_pass(c, to, (x - c->pairs) / c->key.pitch, count);
    else
        apply(c, to, x, gram(c), count, c->key.size, NULL);
}

/* Composes q' from q, through layer a. */
static void compose_query(composer *c, cl_uint query) {
    const cl_uint a = c->key.depth - 2;
    for (cl_uint k = 0; k < c->key.heads; k++) {
        const cl_uint x = pair_w(c, first_x(c, k)), g = vector_at(c, c->p_right, k * c->stack + c->count);
        map(c, x, query, part_at(c, a, k, true), 1, NULL);
        map_by_gram(c, g, x, 1);
        map(c, c->after, g, part_at(c, a, k, false), 1, k == 0 ? &query : &c->after);
    }
}

/* Composes the value, from the query before the last two layers. */
static void compose_last_layers(composer *c, cl_uint query) {
    const cl_uint last = c->key.depth - 1, heads = c->key.heads, z = c->p_left, size = c->key.size;
    const bool attends = c->key.depth > 1;
    const cl_uint after = attends ? c->after : query;

    if (attends)
        compose_query(c, query);
    for (cl_uint h = 0; h < heads; h++) {
        const placed_matrix p = part_at(c, last, h, false);
        const cl_uint v = vector_at(c, z, heads + h);
        map(c, vector_at(c, z, h), after, part_at(c, last, h, true), 1, NULL);
        if (is_dense(c))
            elementwise(c, STEP_BROADCAST, 0, v, (placed_matrix){p.at + (size - 1) * p.row, 0, 1}, 1);
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
    if (c->key.passes) { /* r(v) after the layer is needed only in the backward pass */
        elementwise(c, STEP_COPY, 0, pair_w(c, 0), rows_at(c, r), heads);
        map_by_gram(c, c->g_r, pair_w(c, 0), heads);
    } else {
        map_by_gram(c, c->g_r, r, c->count);
    }
    step *value = elementwise(c, STEP_VALUE, 0, 0, rows_at(c, vector_at(c, r, heads)), heads);
    value->b = c->g_r;
    value->b_row = c->key.pitch;
    value->b_column = 1;
    value->start = after + size - 1;
}

/* Composes d_r, and the factors of the other gradients. */
static void compose_slopes(composer *c, cl_uint query) {
    const cl_uint heads = c->key.heads, r = c->key.depth > 1 ? c->r : c->p_left;
    const placed_matrix r_v = rows_at(c, vector_at(c, r, heads));

    if (c->full > 0 || c->key.passes)
        elementwise(c, STEP_SLOPE, 0, pair_u(c, 0), r_v, heads);
    if (c->full > 0 && !c->key.passes)
        elementwise(c, STEP_COPY, 0, pair_w(c, 0), rows_at(c, r), heads);
    if (c->key.passes)
        map_by_gram(c, c->q_right, pair_u(c, 0), heads);
    else
        elementwise(c, STEP_SLOPE, 0, c->q_right, rows_at(c, vector_at(c, c->g_r, heads)), heads);
    elementwise(c, STEP_SLOPE, 0, vector_at(c, c->q_right, heads), rows_at(c, c->g_r), heads);
    elementwise(c, STEP_COPY, 0, c->d_z, rows_at(c, c->q_right), c->count);
    elementwise(c, STEP_COPY, 0, vector_at(c, c->q_right, c->count), rows_at(c, query), 1);
}

/* Composes the way back through layer b: its gradients, and d_q' in d_query and on the left of d_P. */
static void compose_last_layer_backwards(composer *c, cl_uint after) {
    const cl_uint last = c->key.depth - 1, heads = c->key.heads, size = c->key.size;
    const cl_uint d_after = vector_at(c, c->p_left, c->count);

    for (cl_uint h = 0; h < heads; h++) {
        const cl_uint d_w = vector_at(c, c->d_z, h), d_v = vector_at(c, c->d_z, heads + h);
        const cl_uint p_at = gradient_at(c, last, h, false);
        add_gradient(c, last, h, true, rows_at(c, d_w), rows_at(c, after), 1);
        if (c->key.copy == ICL_COPY_DENSE)
            elementwise(c, STEP_GRADIENT_ROW, 0, 0, rows_at(c, d_v), 1)->to = p_at + (size - 1) * size;
        else if (c->key.copy == ICL_COPY_DIAGONAL) {
            step *s = elementwise(c, STEP_GRADIENT_ROW, 0, 0, rows_at(c, d_v + size - 1), 1);
            s->to = p_at + 1;
            s->columns = 1;
        }
        map(c, c->d_query, d_w, transposed(part_at(c, last, h, true)), 1, h == 0 ? NULL : &c->d_query);
    }
    elementwise(c, STEP_COPY, MODE_SLOPE, d_after, rows_at(c, c->d_query), 1);
    elementwise(c, STEP_COPY, 0, c->d_query, rows_at(c, d_after), 1);
}

/* Composes everything in the backward pass that comes before the full layers. */
static void compose_last_layers_backwards(composer *c, cl_uint query) {
    const cl_uint after = c->key.depth > 1 ? c->after : query, heads = c->key.heads,
                  d_after = vector_at(c, c->p_left, c->count), a = c->key.depth - 2;
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
        add_gradient(c, a, k, false, rows_at(c, c->p_left), rows_at(c, vector_at(c, c->p_right, k * c->stack)),
                     c->stack);
        add_gradient(c, a, k, true, rows_at(c, left), rows_at(c, c->q_right), c->stack);
        if (c->full > 0 || c->key.passes)
            map(c, c->d_query, d_x, transposed(part_at(c, a, k, true)), 1, &c->d_query);
    }
    if (c->full > 0 && !c->key.passes) {
        elementwise(c, STEP_COPY, 0, pair_w(c, c->pair_count), rows_at(c, c->pairs), c->pair_count);
        multiply(c, START_NONE | MODE_SYMMETRIC, gram(c), transposed(rows_at(c, c->pairs)), rows_at(c, pair_w(c, 0)))
            ->depth = 2 * c->pair_count;
    }
}

/* ---- All steps in order ---- */

/* G and q. */
static void compose_input(composer *c) {
    const placed_matrix g = square_at(c, c->grams, 0), rows = rows_at(c, c->tokens);

    if (c->key.rows > 0) {
        compose_token_input(c);
        return;
    }
    if (c->key.tokens) {
        step *s = add(c, STEP_TAKE, START_LATER, rows, nothing, nothing);
        s->rows = c->most_rows;
        s->columns = c->key.size;
        multiply(c, START_LATER | MODE_SYMMETRIC, g, transposed(rows), rows)->depth = c->most_rows;
        scale_product(c);
        add(c, STEP_MORE_ROWS, 0, nothing, nothing, nothing)->rows = c->most_rows;
    } else {
        step *s = add(c, STEP_TAKE, 0, g, nothing, nothing);
        s->rows = s->columns = c->key.size;
        if (c->key.scaled)
            elementwise(c, STEP_SCALE, 0, g.at, nothing, c->key.size);
    }
    elementwise(c, STEP_TAKE, MODE_QUERY, c->queries, nothing, 1);
}

static void compose_full(composer *c) {
    const bool in_tokens = c->key.rows > 0;
    const cl_uint carried = in_tokens ? compose_token_query(c) : vector_at(c, c->queries, c->full);
    const cl_uint query = c->key.passes ? c->passed_query : carried;

    for (cl_uint layer = 0; layer < c->full; layer++)
        if (in_tokens)
            compose_token_layer(c, layer);
        else
            compose_full_layer(c, layer);
    if (c->key.passes)
        compose_pass_query(c, carried);
    compose_last_layers(c, query);
    if (!c->key.train)
        return;
    compose_last_layers_backwards(c, query);
    if (c->key.passes)
        compose_pass_backwards(c);
    if (in_tokens) {
        compose_token_layers_backwards(c);
        return;
    }
    for (cl_uint layer = c->full, done = 0; layer-- > 0; done++)
        compose_full_layer_backwards(c, layer, done % 2 == 0 ? c->d_query : c->d_before,
                                     done % 2 == 0 ? c->d_before : c->d_query);
}

static void compose_sparse(composer *c) {
    const placed_matrix g = square_at(c, c->grams, 0);
    const cl_uint d = c->key.kept, depth = c->key.depth;

    elementwise(c, STEP_COPY, 0, c->p_left, (placed_matrix){g.at + d, 0, g.row}, 1)->columns = d;
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

icl_status icl_linear_compose(const icl_linear_key *key, icl_linear_steps *composed, icl_error *error) {
    composer c = composer_of(key, NULL);
    const size_t heads = key->heads, objects = c.object_count,
                 most = 64 + 40 * heads + c.full * (24 + 14 * heads) + 8 * (size_t)key->depth +
                        key->passes * (64 + (4 * heads + 4) * (6 * heads + 2));
    icl_status status = ICL_OK;

    *composed = (icl_linear_steps){0};
    ICL_TRY(icl_allocate(objects + 1, sizeof *composed->objects, "objects", &composed->objects, error));
    ICL_TRY(icl_allocate(most + 1, sizeof *composed->steps, "steps", &composed->steps, error));
    c = composer_of(key, composed->objects);
    c.steps = composed->steps;
    compose_input(&c);
    if (key->copy == ICL_COPY_SPARSE)
        compose_sparse(&c);
    else
        compose_full(&c);
    composed->count = c.step_count;
    composed->object_count = objects;
    composed->objects[objects] = (cl_uint)c.used;
done:
    if (status != ICL_OK)
        icl_linear_steps_clear(composed);
    return status;
}

void icl_linear_steps_clear(icl_linear_steps *composed) {
    icl_free(&composed->steps);
    icl_free(&composed->objects);
}
