/*
 * Steps of the layer before the last two where it is passed on to vectors: dense P and Q. Its Gram matrix G' = A G A^T
 * is never formed, because only the rows of pairs are multiplied by it. A row x comes to x G' by products with vectors,
 *
 *     x P,  x P G,  x A = x + sum over heads of (x P G) Q,  y = x A G,  y Q^T,  y Q^T G,
 *     x G' = y + sum of (y Q^T G) P^T.
 *
 * With d_G' = sum of u^T w over pairs, the derivative by A is S A G = sum of (u^T (w A G) + w^T (u A G)), a sum over
 * all rows x of x^T y with the y of the row that x is paired with, which therefore stands at x's place. So
 *
 *     d_P = sum of x^T (y Q^T G),  d_Q = sum of (x P G)^T y,
 *     S = sum over pairs of (u A)^T (w A) + sum over rows of (x P)^T (y Q^T), plus the transpose of both.
 *
 * The map of the query, q A^T with the gradient d_q, is one row more: x = d_q and y = q.
 * src/backend/cpu/kernels/linear_transformer/pass.c does the same.
 */
#include "backend/opencl/linear_transformer/layers.h"

/* Rows of a head: those of pairs, and one for the query. */
static cl_uint rows_of_head(const composer *c) {
    return 2 * c->pair_count + 1;
}

static cl_uint of_head(const composer *c, cl_uint base, cl_uint head, cl_uint row) {
    return vector_at(c, base, head * rows_of_head(c) + row);
}

/* x P or y Q^T among the rows of S, behind u A or w A. */
static cl_uint behind_pairs(const composer *c, cl_uint base, cl_uint head, cl_uint row) {
    return of_head(c, vector_at(c, base, c->pair_count), head, row);
}

/* to = x A of `count` rows x of pairs, from `row` on. */
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

/* to = y A^T of `count` rows y from `row` on. */
static void compose_map(composer *c, cl_uint to, cl_uint row, cl_uint count) {
    const cl_uint y = vector_at(c, c->pass_y, row), size = c->key.size;

    for (cl_uint head = 0; head < c->key.heads; head++) {
        const cl_uint y_q = behind_pairs(c, c->pass_right, head, row),
                      y_q_gram = of_head(c, c->pass_y_q_gram, head, row);
        apply_shared(c, y_q, y, transposed(part_at(c, c->full, head, true)), count, size, NULL);
        apply(c, y_q_gram, y_q, gram(c), count, size, NULL);
        apply_shared(c, to, y_q_gram, transposed(part_at(c, c->full, head, false)), count, size, head == 0 ? &y : &to);
    }
}

void icl_compose_pass(composer *c, cl_uint to, cl_uint row, cl_uint count) {
    const bool is_u = row < c->pair_count;
    const cl_uint partner = is_u ? row + c->pair_count : row - c->pair_count;
    const cl_uint x_a = vector_at(c, is_u ? c->pass_left : c->pass_right, is_u ? row : partner);

    compose_transposed_map(c, x_a, row, count);
    apply(c, vector_at(c, c->pass_y, partner), x_a, gram(c), count, c->key.size, NULL);
    compose_map(c, to, partner, count);
}

void icl_compose_pass_query(composer *c, cl_uint query) {
    const cl_uint last = 2 * c->pair_count;

    elementwise(c, STEP_COPY, 0, vector_at(c, c->pass_y, last), rows_at(c, query), 1);
    compose_map(c, c->passed_query, last, 1);
}

void icl_compose_pass_backwards(composer *c) {
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
