/*
 * Products of a matrix in memory with a block of packed lanes, for the kernels of softmax attention whose lanes are
 * queries, keys or coordinates of one sequence.
 *
 * All have one form, add_products: GROUP strided elements of a matrix, each times the vectors of one packed row, into
 * sums that stay in registers: GROUP + VECTORS loads for GROUP * VECTORS multiply-adds. Of a block, or a row of
 * coordinates, that NARROW vectors hold, the others are left alone.
 */
#ifndef ICLAB_BACKEND_CPU_SOFTMAX_PRODUCTS_H
#define ICLAB_BACKEND_CPU_SOFTMAX_PRODUCTS_H

#include "backend/cpu/kernels/attention/softmax_lanes.h"

#define NARROW (VECTORS > 2 ? 2 : 1)
#define GROUP  4

/* `count` things, rounded up to a multiple of GROUP. */
static inline size_t padded(size_t count) {
    return (count + GROUP - 1) / GROUP * GROUP;
}

/* The vectors to work on for `count` lanes. */
static inline size_t vectors_for(size_t count) {
    return count > NARROW * LANE_COUNT ? VECTORS : NARROW;
}

/* sum[g][v] += sum over i < count, in order, of from[i * step + at[g]] * x[i][v], v < vectors */
ALWAYS_INLINE void add_products(lane sum[GROUP][VECTORS], const real *from, size_t step, const size_t at[GROUP],
                                const lane *x, size_t count, const size_t vectors) {
    for (size_t i = 0; i < count; i++) {
        lane factor[VECTORS];
        UNROLL for (size_t v = 0; v < vectors; v++) factor[v] = x[v];
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            const lane element = lane_set(from[at[g]]);
            UNROLL for (size_t v = 0; v < vectors; v++) sum[g][v] = lane_fma(element, factor[v], sum[g][v]);
        }
        from += step;
        x += VECTORS;
    }
}

ALWAYS_INLINE void multiply_rows(lane *tile, matrix from, size_t length, size_t width, const lane *x,
                                 const size_t vectors) {
    for (size_t t = 0; t < length; t += GROUP) {
        lane sum[GROUP][VECTORS];
        size_t at[GROUP];
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            at[g] = smaller(t + g, length - 1) * from.row;
            UNROLL for (size_t v = 0; v < vectors; v++) sum[g][v] = lane_set(0);
        }
        add_products(sum, from.elements, from.column, at, x, width, vectors);
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            UNROLL for (size_t v = 0; v < vectors; v++) tile[(t + g) * VECTORS + v] = sum[g][v];
        }
    }
}

/* tile [length] = the dot products of `length` > 0 rows of a matrix with the lanes' vectors, packed as x [width].
 * Writes up to a multiple of GROUP. */
static inline void multiply_tile(lane *tile, matrix from, size_t length, size_t width, const lane *x, size_t vectors) {
    if (vectors == VECTORS)
        multiply_rows(tile, from, length, width, x, VECTORS);
    else
        multiply_rows(tile, from, length, width, x, NARROW);
}

ALWAYS_INLINE void add_columns(lane *sums, const lane *keep, matrix from, size_t length, size_t width,
                               const lane *weights, const size_t vectors) {
    for (size_t c = 0; c < width; c += GROUP) {
        lane sum[GROUP][VECTORS], *to = sums + c * VECTORS;
        size_t at[GROUP];
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            at[g] = smaller(c + g, width - 1) * from.column;
            UNROLL for (size_t v = 0; v < vectors; v++) {
                sum[g][v] = to[g * VECTORS + v];
                if (keep)
                    sum[g][v] = lane_multiply(keep[v], sum[g][v]);
            }
        }
        add_products(sum, from.elements, from.row, at, weights, length, vectors);
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            UNROLL for (size_t v = 0; v < vectors; v++) to[g * VECTORS + v] = sum[g][v];
        }
    }
}

/* sums [width] = keep * sums + sum over rows t < length of a matrix of its `width` columns times weights [t]; keep
 * NULL: 1. Touches sums up to a multiple of GROUP. */
static inline void add_tile(lane *sums, const lane *keep, matrix from, size_t length, size_t width, const lane *weights,
                            size_t vectors) {
    if (vectors == VECTORS)
        add_columns(sums, keep, from, length, width, weights, VECTORS);
    else
        add_columns(sums, keep, from, length, width, weights, NARROW);
}

#endif
