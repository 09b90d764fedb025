/*
 * What the kernels of softmax attention share: operands as matrices, and their rows as lanes, VECTORS vectors of them.
 * A packed row has room for BLOCK lanes.
 */
#ifndef ICLAB_BACKEND_CPU_SOFTMAX_LANES_H
#define ICLAB_BACKEND_CPU_SOFTMAX_LANES_H

#include <string.h>

#include "arithmetic/lanes.h"
#include "backend/cpu/kernels/parts.h"

#define VECTORS SOFTMAX_VECTORS
#define BLOCK   (VECTORS * LANE_COUNT)

typedef HOST(softmax_plan) plan;
typedef HOST(sequences) sequences;
typedef HOST(place) place;

/* A matrix in memory: an operand's rows from some row of a sequence on. */
typedef struct matrix {
    real *elements;
    size_t row, column;
} matrix;

static inline matrix rows_of(const sequences *operand, size_t batch, size_t head, size_t row) {
    return (matrix){operand->elements + batch * operand->stride[0] + head * operand->stride[1] +
                        row * operand->stride[2],
                    operand->stride[2], operand->stride[3]};
}

/* Of q and all that is shaped as it, and of k and v. */
static inline matrix query_rows(const sequences *operand, place at, size_t row) {
    return rows_of(operand, at.batch, at.head, row);
}
static inline matrix key_rows_of(const sequences *operand, place at, size_t row) {
    return rows_of(operand, at.batch, at.group, row);
}

static inline size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* to [width] = `count` rows of a matrix as lanes; those beyond, in so many vectors, repeat the last row. */
static inline void pack_lanes(lane *to, matrix from, size_t count, size_t vectors, size_t width) {
    for (size_t l = 0; l < vectors * LANE_COUNT; l++) {
        const real *row = from.elements + smaller(l, count - 1) * from.row;
        real *lane_l = lane_elements(to) + l;
        for (size_t c = 0; c < width; c++)
            lane_l[c * BLOCK] = row[c * from.column];
    }
}

static inline void clear_lanes(lane *to, size_t width) {
    memset(to, 0, width * VECTORS * sizeof *to);
}

/* Row l of a matrix = alpha times lane l of from [width], l < count. */
static inline void store_lanes(lane *from, real alpha, matrix to, size_t count, size_t width) {
    for (size_t l = 0; l < count; l++) {
        const real *lane_l = lane_elements(from) + l;
        for (size_t c = 0; c < width; c++)
            to.elements[l * to.row + c * to.column] = alpha * lane_l[c * BLOCK];
    }
}

/* ---- Masks ---- */

/* The keys that query i attends to are the first so many. */
static inline size_t reach_of(const plan *p, size_t i) {
    const size_t reach = i + p->reach > p->queries ? i + p->reach - p->queries : 0;
    return smaller(reach, p->sources);
}

/* How many of `length` things from `first` on lie below `limit`. */
static inline size_t below(size_t limit, size_t first, size_t length) {
    return limit > first ? smaller(limit - first, length) : 0;
}

#endif
