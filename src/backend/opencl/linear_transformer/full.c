/* Steps of the layers whose Gram matrix is carried on: program.c has the formulas. */
#include "backend/opencl/linear_transformer/layers.h"

static matrix r_transposed_of(const composer *c, cl_uint layer, cl_uint head) {
    return square_at(c, form_of(c, layer).at, 1 + head);
}

/* to = W o from. */
static void weigh(composer *c, cl_uint layer, cl_uint mode, matrix to, matrix from) {
    step *s = add(c, STEP_WEIGH, mode, to, from, part_at(c, layer, 0, false));
    s->rows = s->columns = c->key.size;
    s->depth = c->key.heads;
}

void icl_compose_form(composer *c, cl_uint layer) {
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

void icl_compose_full_layer(composer *c, cl_uint layer) {
    const matrix a = form_of(c, layer), g = square_at(c, c->grams, layer),
                 t = square_at(c, layer == 0 ? c->first_t : c->t, 0);

    icl_compose_form(c, layer);
    multiply(c, START_NONE, transposed(t), a, g);
    multiply(c, START_NONE | MODE_SYMMETRIC, square_at(c, c->grams, layer + 1), a, t);
    apply(c, vector_at(c, c->queries, layer + 1), vector_at(c, c->queries, layer), transposed(a), 1, c->key.size, NULL);
}

void icl_compose_weight_gradients(composer *c, cl_uint layer) {
    const matrix d_a = square_at(c, c->x, 0), g = square_at(c, c->grams, layer);

    add(c, STEP_ROW_SUMS, 0, rows_at(c, c->spare), d_a, g)->rows = c->key.size;
    step *s = add(c, STEP_GRADIENT_WEIGHTS, c->key.is_short ? MODE_SHORT : 0,
                  (matrix){gradient_at(c, layer, 0, false), 0, 0}, rows_at(c, c->spare), part_at(c, layer, 0, false));
    s->columns = c->key.size;
    s->depth = c->key.heads;
    if (layer > 0)
        weigh(c, layer, 0, square_at(c, c->m, 0), d_a);
}

/* From d_A to the gradients of the layer's parts, and to M. */
static void compose_part_gradients(composer *c, cl_uint layer) {
    const matrix d_a = square_at(c, c->x, 0), g = square_at(c, c->grams, layer), y = square_at(c, c->y, 0),
                 y_transposed = square_at(c, c->y_transposed, 0), m = square_at(c, c->m, 0);

    if (!is_dense(c)) {
        icl_compose_weight_gradients(c, layer);
        return;
    }
    for (cl_uint head = 0; head < c->key.heads; head++) {
        const matrix p = part_at(c, layer, head, false), q = part_at(c, layer, head, true);
        add_gradient(c, layer, head, false, transposed(d_a), r_transposed_of(c, layer, head), c->key.size);
        multiply_shared(c, MODE_TWICE, y, transposed(p), d_a)->extra = y_transposed.at;
        add_gradient(c, layer, head, true, g, y, c->key.size); /* G is symmetric */
        if (layer > 0)
            multiply_shared(c, head == 0 ? START_NONE : START_SELF, m, q, y_transposed); /* M^T */
    }
}

/* d_A = S A G + d_q q^T. Of the first layer A G may be at hand, as its transpose, and S A is of no other use. */
static void compose_map_backwards(composer *c, cl_uint layer, cl_uint d_query) {
    const matrix g = square_at(c, c->grams, layer), t = square_at(c, c->t, 0), d_a = square_at(c, c->x, 0);
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

void icl_compose_full_layer_backwards(composer *c, cl_uint layer, cl_uint d_query, cl_uint d_before) {
    const matrix a = form_of(c, layer), t = square_at(c, c->t, 0), s = gram(c);

    if (!c->key.keep)
        icl_compose_form(c, layer);
    compose_map_backwards(c, layer, d_query);
    compose_part_gradients(c, layer);
    if (layer > 0) {
        multiply(c, START_TWO_SIDED | MODE_SYMMETRIC, s, transposed(a), t)->start = c->m;
        apply(c, d_before, d_query, a, 1, c->key.size, NULL);
    }
}
