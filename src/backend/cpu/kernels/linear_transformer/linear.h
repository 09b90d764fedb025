/*
 * Whole linear transformers on lanes: declarations that their files share.
 *
 * The factor is part of G, so that a layer is A = I + sum over heads of P G Q, G <- A G A^T, q <- A q. Vectors are rows
 * here, because the reverse pass mostly needs x^T A, the transposed map of a row. Matrices are [D][D], row-major.
 */
#ifndef ICLAB_BACKEND_CPU_LINEAR_H
#define ICLAB_BACKEND_CPU_LINEAR_H

#include <assert.h>

#include "arithmetic/lanes.h"
#include "backend/cpu/kernels/kernels.h"

typedef HOST(linear_plan) linear_plan;

/* ---- Memory ---- */

/* A workspace that is handed out piece by piece; if base is NULL, the pieces are only counted. */
typedef struct lane_memory {
    lane *base;
    size_t used;
} lane_memory;

ALWAYS_INLINE lane_memory memory_at(void *workspace) {
    assert(workspace);
    return (lane_memory){.base = workspace};
}

ALWAYS_INLINE lane *take_lanes(lane_memory *memory, size_t count) {
    lane *taken = memory->base ? memory->base + memory->used : NULL;
    memory->used += count;
    return taken;
}

/* ---- Small operations on vectors and matrices of lanes ---- */

ALWAYS_INLINE void lanes_clear(lane *x, size_t count) {
    for (size_t i = 0; i < count; i++)
        x[i] = lane_set(0);
}

ALWAYS_INLINE void lanes_copy(lane *x, const lane *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        x[i] = y[i];
}

ALWAYS_INLINE void lanes_add(lane *x, const lane *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        x[i] = lane_add(x[i], y[i]);
}

/* x = a y */
ALWAYS_INLINE void lanes_scale(lane *x, lane a, const lane *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        x[i] = lane_multiply(a, y[i]);
}

/* x += a y */
ALWAYS_INLINE void lanes_add_scaled(lane *x, lane a, const lane *y, size_t count) {
    for (size_t i = 0; i < count; i++)
        x[i] = lane_fma(a, y[i], x[i]);
}

ALWAYS_INLINE lane lanes_dot(const lane *x, const lane *y, size_t count) {
    lane sum = lane_set(0);
    for (size_t i = 0; i < count; i++)
        sum = lane_fma(x[i], y[i], sum);
    return sum;
}

/* A += I */
ALWAYS_INLINE void add_identity(lane *a, size_t size) {
    for (size_t i = 0; i < size; i++)
        a[i * size + i] = lane_add(a[i * size + i], lane_set(1));
}

/* M <- M + M^T */
ALWAYS_INLINE void add_transpose(lane *m, size_t size) {
    for (size_t i = 0; i < size; i++)
        for (size_t j = 0; j <= i; j++)
            m[i * size + j] = m[j * size + i] = lane_add(m[i * size + j], m[j * size + i]);
}

/* ---- Products ---- */

void KERNEL(lane_product)(const lane_product *product);

/* Computes to [rows][D] = onto + x m, or x m if onto is NULL. Either m is given, a matrix of lanes, or `shared`, which
 * all sequences share; the other is NULL. */
ALWAYS_INLINE void map_rows_by(lane *to, const lane *x, size_t rows, const lane *m, const real *shared, size_t size,
                               const lane *onto) {
    KERNEL(lane_product)
    (&(lane_product){.rows = rows,
                     .columns = size,
                     .depth = size,
                     .to = to,
                     .to_row = size,
                     .to_column = 1,
                     .a = x,
                     .a_row = size,
                     .a_depth = 1,
                     .b = m,
                     .shared = shared,
                     .b_depth = size,
                     .onto = onto});
}

ALWAYS_INLINE void map_rows(lane *to, const lane *x, size_t rows, const lane *m, size_t size, const lane *onto) {
    map_rows_by(to, x, rows, m, NULL, size, onto);
}

ALWAYS_INLINE void map_rows_shared(lane *to, const lane *x, size_t rows, const real *m, size_t size, const lane *onto) {
    map_rows_by(to, x, rows, NULL, m, size, onto);
}

/* to [D] = m x, for one vector. */
ALWAYS_INLINE void map_vector(lane *to, const lane *m, const lane *x, size_t size) {
    KERNEL(lane_product)
    (&(lane_product){.rows = size,
                     .columns = 1,
                     .depth = size,
                     .to = to,
                     .to_row = 1,
                     .to_column = 1,
                     .a = m,
                     .a_row = size,
                     .a_depth = 1,
                     .b = x,
                     .b_depth = 1});
}

/* Describes to [extent][extent] = the sum over `rows` rows of x^T y, both [rows][D], cut to that corner. */
ALWAYS_INLINE lane_product outer_product(lane *to, const lane *x, const lane *y, size_t rows, size_t extent,
                                         size_t size) {
    return (lane_product){.rows = extent,
                          .columns = extent,
                          .depth = rows,
                          .to = to,
                          .to_row = extent,
                          .to_column = 1,
                          .a = x,
                          .a_row = 1,
                          .a_depth = size,
                          .b = y,
                          .b_depth = size};
}

/* Computes all of this sum, to [D][D], or adds it. */
ALWAYS_INLINE void outer_rows(lane *to, const lane *x, const lane *y, size_t rows, size_t size, bool add,
                              bool symmetric) {
    lane_product product = outer_product(to, x, y, rows, size, size);
    product.onto = add ? to : NULL;
    product.symmetric = symmetric;
    KERNEL(lane_product)(&product);
}

/* ---- One group of sequences ---- */

/* The part of the next group's data that is still to be fetched into the cache; both NULL if there is none. */
typedef struct data_ahead {
    const char *next, *end;
} data_ahead;

/* One group's data and results. */
typedef struct linear_group {
    const linear_plan *plan;
    size_t first, count; /* sequences; lanes from `count` on hold zeros */
    lane *gram;          /* [D][D], before the first layer, times the factor */
    lane *tokens;        /* [n + 1][D], if the sequences are given so */
    lane *query;         /* [D]; the last row of tokens, if there are any */
    lane *gradient;      /* [used]: each sequence's own, not clipped; if `tallies`, a sum to which it is added */
    bool tallies;
    lane *squares; /* grows by the squares of the gradient's elements; NULL unless norms are wanted */
    data_ahead *ahead;
} linear_group;

/* Fetches a few cache lines of the next group's data. It is called between products, because a core waits if more are
 * requested at once: fetching all of them when the group begins gains nothing. */
ALWAYS_INLINE void fetch_ahead(const linear_group *group) {
    enum { LINE_BYTES = 64, LINES = 12 };
    data_ahead *ahead = group->ahead;
    for (size_t i = 0; i < LINES && ahead->next < ahead->end; i++, ahead->next += LINE_BYTES)
        PREFETCH(ahead->next);
}

/* ---- Writing a gradient: each element once ---- */

ALWAYS_INLINE void write_element(const linear_group *group, lane *to, lane value) {
    if (group->squares)
        *group->squares = lane_fma(value, value, *group->squares);
    *to = group->tallies ? lane_add(*to, value) : value;
}

ALWAYS_INLINE void write_product(const linear_group *group, lane_product product) {
    product.squares = group->squares;
    product.onto = group->tallies ? product.to : NULL;
    KERNEL(lane_product)(&product);
}

/* Writes a gradient [extent][extent], the sum over `rows` rows of x^T y, as in outer_rows. */
ALWAYS_INLINE void write_outer(const linear_group *group, lane *to, const lane *x, const lane *y, size_t rows,
                               size_t extent) {
    const size_t size = group->plan->size;
    write_product(group, outer_product(to, x, y, rows, extent, size));
}

/* ---- Predictions and losses ---- */

/* Writes the predictions, given their negatives, or with a gradient the losses (prediction - target)^2. Returns the
 * derivatives of the losses by the given numbers; zero for lanes without a sequence. */
ALWAYS_INLINE lane linear_answered(const linear_group *group, lane minus_prediction) {
    const linear_plan *plan = group->plan;
    const size_t to_stride = plan->answers.stride[0], target_stride = plan->targets.stride[0];
    real *to = plan->answers.elements + group->first * to_stride;
    lane slope = lane_set(0);

    for (size_t i = 0; i < group->count; i++) {
        const real prediction = -lane_elements(&minus_prediction)[i];
        to[i * to_stride] = prediction;
        if (plan->has_gradient) {
            const real miss = prediction - plan->targets.elements[(group->first + i) * target_stride];
            to[i * to_stride] = miss * miss;
            lane_elements(&slope)[i] = -2 * miss;
        }
    }
    return slope;
}

/* ---- Forms ---- */

/* Compute predictions and, if the plan asks for it, each sequence's gradient. The first three functions return how many
 * lanes the workspace needs. */
size_t KERNEL(linear_dense_lanes)(const linear_plan *plan);
size_t KERNEL(linear_diagonal_lanes)(const linear_plan *plan);
size_t KERNEL(linear_sparse_lanes)(const linear_plan *plan);
void KERNEL(linear_dense)(const linear_group *group, lane *workspace);
void KERNEL(linear_diagonal)(const linear_group *group, lane *workspace);
void KERNEL(linear_sparse)(const linear_group *group, lane *workspace);

/* G = factor * Z^T Z over the context, of the tokens Z [n + 1][D]. */
ALWAYS_INLINE void form_gram(const linear_plan *plan, const lane *tokens, lane *gram) {
    outer_rows(gram, tokens, tokens, plan->context, plan->size, false, true);
    lanes_scale(gram, lane_set(plan->factor), gram, plan->size * plan->size);
}

#endif
