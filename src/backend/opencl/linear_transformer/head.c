/* Steps of the last two layers, forwards and back: program.c has the formulas. */
#include "backend/opencl/linear_transformer/layers.h"

/* Pairs (u, w): (G r(v), r(w)) for each head; (d_M, P^T z) for each head of a and vector; (d_g, Q q) for
 * each head of a. */
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

/* Rows times the Gram matrix before layer a; where that is not formed, rows of pairs. */
static void map_by_gram(composer *c, cl_uint to, cl_uint x, cl_uint count) {
    if (c->key.passes)
        icl_compose_pass(c, to, (x - c->pairs) / c->key.pitch, count);
    else
        apply(c, to, x, gram(c), count, c->key.size, NULL);
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

void icl_compose_last_layers(composer *c, cl_uint query) {
    const cl_uint last = c->key.depth - 1, heads = c->key.heads, z = c->p_left, size = c->key.size;
    const bool attends = c->key.depth > 1;
    const cl_uint after = attends ? c->after : query;

    if (attends)
        compose_query(c, query);
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
    if (c->key.passes) { /* what r(v) becomes is of use in the backward pass alone */
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

/* d_r, and the factors that the other gradients are made of. */
static void compose_slopes(composer *c, cl_uint query) {
    const cl_uint heads = c->key.heads, r = c->key.depth > 1 ? c->r : c->p_left;
    const matrix r_v = rows_at(c, vector_at(c, r, heads));

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

/* Backwards through layer b: its gradients, and d_q' in d_query and on the left of d_P. */
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

void icl_compose_last_layers_backwards(composer *c, cl_uint query) {
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
