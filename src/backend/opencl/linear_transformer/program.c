/*
 * Composes the steps that cl/linear_transformer/linear_transformer.cl runs for each group of sequences.
 *
 * With G = factor * Z^T Z over the context and heads h, a layer is A = I + sum_h P_h G Q_h, G <- A G A^T, q <- A q for
 * the query q, and the prediction is minus the last coordinate of q. The last layer b needs q alone, and the layer a
 * before it need not form its G: with G and q as they come into layer a,
 *     q' = q + sum_k P_k G Q_k q,  w_h = Q_bh q',  v_h = P_bh^T e_D,  r(z) = A^T z = z + sum_k Q_k^T G P_k^T z,
 *     prediction = -(q'_D + sum_h r(v_h)^T G r(w_h)),
 * which are products with vectors. Only the full layers before them, depth - 2 or, where one more is passed on to
 * vectors (pass.c), depth - 3, cost D^3. The backward pass is their reverse, d_x being
 * the derivative by x; with S = d_G + d_G^T, from the last full layer to the first,
 *     T = S A,  d_A = T G + d_q q^T,  d_P = d_A R^T (R = G Q),  d_R = P^T d_A,  d_Q = G d_R,
 *     S <- A^T T + M + M^T (M = d_R Q^T),  d_q <- A^T d_q.
 *
 * Where full layers carry tokens on instead of G, tokens.c has the formulas.
 *
 * P and Q are dense, 20 D^3 flops a full layer, or diagonal: then A = I + W o G elementwise with W_ij = sum_h p_hi
 * q_hj, 8 D^3. In the sparse form, P = e_D e_D^T and Q = [A 0; 0 0], labels alone change: of G = [X g; g^T .] only g is
 * carried along, with A the sum of the heads' and q = (x, y),
 *     rho = A^T g,  y <- y + rho . x,  g <- g + X rho;
 *     backwards d_rho = d_y x + X d_g,  d_A = g d_rho^T,  d_g <- d_g + A d_rho.
 */
#include "backend/opencl/linear_transformer/layers.h"

/* ---- Memory ---- */

/* `count` objects of so many elements each, one behind the other. */
static cl_uint take_each(composer *c, cl_uint count, cl_uint elements) {
    const size_t at = c->used;
    for (cl_uint i = 0; i < count && elements > 0; i++, c->used += elements, c->object_count++)
        if (c->objects)
            c->objects[c->object_count] = (cl_uint)c->used;
    return (cl_uint)at; /* who cuts the work refuses more than can be counted */
}

static cl_uint take_squares(composer *c, cl_uint count) {
    return take_each(c, count, c->square);
}

/* One object, because steps take some of them together. */
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

/* In token space. A, or U and V, are kept for the backward pass, or are those of one layer. */
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
    take_vectors(c, 2); /* CPUs read past the last one, and do not use it */
}

/* objects: room for where they begin, or NULL. */
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

/* G and q. */
static void compose_input(composer *c) {
    const matrix g = square_at(c, c->grams, 0), rows = rows_at(c, c->tokens);

    if (c->key.rows > 0) {
        icl_compose_token_input(c);
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
    const cl_uint carried = in_tokens ? icl_compose_token_query(c) : vector_at(c, c->queries, c->full);
    const cl_uint query = c->key.passes ? c->passed_query : carried;

    for (cl_uint layer = 0; layer < c->full; layer++)
        if (in_tokens)
            icl_compose_token_layer(c, layer);
        else
            icl_compose_full_layer(c, layer);
    if (c->key.passes)
        icl_compose_pass_query(c, carried);
    icl_compose_last_layers(c, query);
    if (!c->key.train)
        return;
    icl_compose_last_layers_backwards(c, query);
    if (c->key.passes)
        icl_compose_pass_backwards(c);
    if (in_tokens) {
        icl_compose_token_layers_backwards(c);
        return;
    }
    for (cl_uint layer = c->full, done = 0; layer-- > 0; done++)
        icl_compose_full_layer_backwards(c, layer, done % 2 == 0 ? c->d_query : c->d_before,
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
