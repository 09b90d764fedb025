/* Sums over the elements of a row, in GROUP lanes and a fixed order, so that the bits do not depend on the width of a
 * vector. BLOCK elements are added in their lanes, then these sums, then the lanes in pairs: a term passes through at
 * most BLOCK / GROUP + n / BLOCK + 2 + log2(GROUP) additions, 39 + n / 1024. */
#ifndef ICLAB_ARITHMETIC_ROW_SUM_H
#define ICLAB_ARITHMETIC_ROW_SUM_H

#include <stddef.h>

#include "arithmetic/real.h"
#include "arithmetic/vector.h"

DEFINE_VECTOR(vector, real);

#define WIDTH        (sizeof(vector) / sizeof(real))
#define GROUP        32
#define GROUP_BLOCK  1024
#define GROUP_HALF   (GROUP / 2)
#define VECTORS      (GROUP / WIDTH)
#define HALF_VECTORS (GROUP_HALF / WIDTH)

/* Reads or writes a vector anywhere in memory. */
#define VECTOR_AT(pointer) (*(const vector *)(pointer))
#define VECTOR_TO(pointer) (*(vector *)(pointer))

ALWAYS_INLINE vector vector_of(real value) {
    return value - (vector){0};
}

ALWAYS_INLINE vector square_vector(vector x) {
    return x * x;
}

ALWAYS_INLINE real square_scalar(real x) {
    return x * x;
}

/* Returns the sum of GROUP_HALF lanes, by a tree of pairs. */
ALWAYS_INLINE real add_lanes(real lanes[GROUP_HALF]) {
    UNROLL for (size_t half = GROUP_HALF / 2; half > 0; half /= 2) {
        UNROLL for (size_t l = 0; l < half; l++) lanes[l] += lanes[l + half];
    }
    return lanes[0];
}

/* The body of a function that returns the sum over i < n of a term. vector_term(i) gives a vector of terms from i on,
 * scalar_term(i) a single one. */
#define SUM_ROW(n, vector_term, scalar_term)                                                                           \
    vector total[VECTORS];                                                                                             \
    real lanes[GROUP_HALF];                                                                                            \
    size_t i = 0;                                                                                                      \
    UNROLL for (size_t v = 0; v < VECTORS; v++) total[v] = vector_of(0);                                               \
    while ((n)-i >= GROUP) {                                                                                           \
        const size_t left = ((n)-i) / GROUP * GROUP, stop = i + (left < GROUP_BLOCK ? left : GROUP_BLOCK);             \
        vector sum[VECTORS];                                                                                           \
        UNROLL for (size_t v = 0; v < VECTORS; v++) sum[v] = vector_term(i + v * WIDTH);                               \
        for (i += GROUP; i < stop; i += GROUP) {                                                                       \
            UNROLL for (size_t v = 0; v < VECTORS; v++) sum[v] += vector_term(i + v * WIDTH);                          \
        }                                                                                                              \
        UNROLL for (size_t v = 0; v < VECTORS; v++) total[v] += sum[v];                                                \
    }                                                                                                                  \
    UNROLL for (size_t v = 0; v < HALF_VECTORS; v++) total[v] += total[v + HALF_VECTORS];                              \
    if ((n)-i >= GROUP_HALF) {                                                                                         \
        UNROLL for (size_t v = 0; v < HALF_VECTORS; v++) total[v] += vector_term(i + v * WIDTH);                       \
        i += GROUP_HALF;                                                                                               \
    }                                                                                                                  \
    UNROLL for (size_t v = 0; v < HALF_VECTORS; v++) VECTOR_TO(lanes + v * WIDTH) = total[v];                          \
    for (size_t l = 0; i < (n); i++, l++)                                                                              \
        lanes[l] += scalar_term(i);                                                                                    \
    return add_lanes(lanes);

#endif
