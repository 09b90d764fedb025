/*
 * Steps of the layers before the last two in token space: what is carried on are the tokens, rows of Z [n + 1][D] with
 * the query last, and G = factor * (the first n rows)^T (the same) is formed before each layer and after them. A layer
 * of dense P and Q is
 *
 *     U = Z Q^T,  V = U G,  Z <- Z + sum over heads of V P^T                                             3.5 n D^2
 *     d_P = d_Z^T V,  d_V = d_Z P,  d_U = d_V G,  d_Q = d_U^T Z,  S = sum of (d_V^T U + U^T d_V),
 *     d_Z <- d_Z + sum of d_U Q + (factor * Z S, but for the query's row)                                7 n D^2
 *
 * multiplications, for one head; and one of diagonal P and Q, A = I + W o G as in program.c,
 *
 *     Z <- Z A^T                                                                                         1.5 n D^2
 *     d_A = d_Z^T Z,  S = W o d_A + (W o d_A)^T,  d_Z <- d_Z A + (factor * Z S, but for the query's row)   3 n D^2
 *
 * S behind the last of them is what the layers after them leave in the place of gram(c).
 * src/backend/cpu/kernels/linear_transformer/dense.c and diagonal.c do the same.
 */
#include "backend/opencl/linear_transformer/layers.h"

/* Elements of as many rows as there are tokens. */
static cl_uint tokens_length(const composer *c) {
    return c->key.rows * c->key.pitch;
}

static cl_uint tokens_before(const composer *c, cl_uint layer) {
    return c->tokens + layer * tokens_length(c);
}

/* U or V of a head, of each layer or of one at a time. */
static cl_uint kept_of(const composer *c, cl_uint base, cl_uint layer, cl_uint head) {
    return base + ((c->key.keep ? layer * c->key.heads : 0) + head) * tokens_length(c);
}

static void form_gram(composer *c, cl_uint layer) {
    const matrix rows = rows_at(c, tokens_before(c, layer)), g = square_at(c, c->grams, layer);

    multiply(c, START_NONE | MODE_SYMMETRIC, g, transposed(rows), rows)->depth = c->key.rows - 1;
    scale_product(c);
}

void icl_compose_token_input(composer *c) {
    elementwise(c, STEP_TAKE, 0, c->tokens, nothing, c->key.rows);
    form_gram(c, 0);
}

/* U and V. */
static void compose_values(composer *c, cl_uint layer, cl_uint head) {
    const cl_uint u = kept_of(c, c->u, layer, head), rows = c->key.rows, size = c->key.size;

    apply_shared(c, u, tokens_before(c, layer), transposed(part_at(c, layer, head, true)), rows, size, NULL);
    apply(c, kept_of(c, c->v, layer, head), u, square_at(c, c->grams, layer), rows, size, NULL);
}

void icl_compose_token_layer(composer *c, cl_uint layer) {
    const cl_uint from = tokens_before(c, layer), to = tokens_before(c, layer + 1);

    if (!is_dense(c)) {
        icl_compose_form(c, layer);
        apply(c, to, from, transposed(form_of(c, layer)), c->key.rows, c->key.size, NULL);
    }
    for (cl_uint head = 0; head < c->key.heads && is_dense(c); head++) {
        compose_values(c, layer, head);
        apply_shared(c, to, kept_of(c, c->v, layer, head), transposed(part_at(c, layer, head, false)), c->key.rows,
                     c->key.size, head == 0 ? &from : &to);
    }
    form_gram(c, layer + 1);
}

cl_uint icl_compose_token_query(const composer *c) {
    return vector_at(c, tokens_before(c, c->full), c->key.rows - 1);
}

/* S of a head's d_V and U, which makes d_G and its transpose. */
static void add_gram_gradient(composer *c, cl_uint d_v, cl_uint u, bool is_first) {
    const matrix left = rows_at(c, d_v), right = rows_at(c, u);
    const cl_uint start = is_first ? START_NONE : START_SELF;

    multiply(c, start | MODE_SYMMETRIC, gram(c), transposed(left), right)->depth = c->key.rows;
    multiply(c, START_SELF | MODE_SYMMETRIC, gram(c), transposed(right), left)->depth = c->key.rows;
}

/* What the Gram matrix hands on to the tokens that it was made of, right after the product that is
 * S: their gradient, or more of it. */
static void compose_gram_backwards(composer *c, cl_uint layer, cl_uint d_tokens, bool adds) {
    scale_product(c);
    apply(c, d_tokens, tokens_before(c, layer), gram(c), c->key.rows - 1, c->key.size, adds ? &d_tokens : NULL);
}

static void compose_dense_backwards(composer *c, cl_uint layer, cl_uint d_tokens, cl_uint d_before) {
    const cl_uint from = tokens_before(c, layer), rows = c->key.rows, size = c->key.size;

    for (cl_uint head = 0; head < c->key.heads; head++) {
        const matrix p = part_at(c, layer, head, false), q = part_at(c, layer, head, true);
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
    const matrix d_a = square_at(c, c->x, 0), m = square_at(c, c->m, 0);
    const cl_uint from = tokens_before(c, layer);

    if (!c->key.keep)
        icl_compose_form(c, layer);
    multiply(c, START_NONE, d_a, transposed(rows_at(c, d_tokens)), rows_at(c, from))->depth = c->key.rows;
    icl_compose_weight_gradients(c, layer);
    if (layer == 0)
        return;
    apply(c, d_before, d_tokens, form_of(c, layer), c->key.rows, c->key.size, NULL);
    step *both = multiply(c, START_TWO_SIDED | MODE_SYMMETRIC, gram(c), m, m);
    both->start = m.at;
    both->depth = 0; /* M and its transpose alone */
    compose_gram_backwards(c, layer, d_before, true);
}

void icl_compose_token_layers_backwards(composer *c) {
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
