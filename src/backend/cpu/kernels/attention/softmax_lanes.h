/* Shared by the kernels of softmax attention: operands as matrices, and their rows as lanes, VECTORS vectors of them. A
 * packed row has room for BLOCK lanes. */
#ifndef ICLAB_BACKEND_CPU_SOFTMAX_LANES_H
#define ICLAB_BACKEND_CPU_SOFTMAX_LANES_H

#include <string.h>

#include "arithmetic/lane_transpose.h"
#include "backend/cpu/kernels/parts.h"

#define VECTORS SOFTMAX_VECTORS
#define BLOCK   (VECTORS * LANE_COUNT)

typedef HOST(softmax_plan) plan;
typedef HOST(sequences) sequences;
typedef HOST(place) place;

/* A matrix in memory: an operand's rows of one sequence, from some row on. */
typedef struct matrix {
    real *elements;
    size_t row, column;
} matrix;

static inline matrix rows_of(const sequences *operand, size_t batch, size_t head, size_t row) {
    return (matrix){operand->elements + batch * operand->stride[0] + head * operand->stride[1] +
                        row * operand->stride[2],
                    operand->stride[2], operand->stride[3]};
}

/* The rows of q and of every operand with its shape, and those of k and v. */
static inline matrix query_rows(const sequences *operand, place at, size_t row) {
    return rows_of(operand, at.batch, at.head, row);
}
static inline matrix key_rows_of(const sequences *operand, place at, size_t row) {
    return rows_of(operand, at.batch, at.group, row);
}

static inline size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- Rows to lanes and back ---- */

/* Squares of LANE_COUNT adjacent coordinates of LANE_COUNT rows are transposed in registers. in_squares returns how
 * many of `width` coordinates this covers, if the elements of a row lie `column` apart. */
#ifdef LANE_TRANSPOSE
static inline size_t in_squares(size_t width, size_t column) {
    return column == 1 ? width / LANE_COUNT * LANE_COUNT : 0;
}

/* Sets vector `v` of lanes [width] to LANE_COUNT rows from `from` on, which lie `row` apart. */
static inline void pack_squares(lane *to, const real *from, size_t row, size_t v, size_t width) {
    for (size_t c = 0; c < width; c += LANE_COUNT) {
        lane square[LANE_COUNT];
        transpose_lanes(square, from + c, row, lane_set(1));
        UNROLL for (size_t i = 0; i < LANE_COUNT; i++) to[(c + i) * VECTORS + v] = square[i];
    }
}

/* Sets LANE_COUNT rows from `to` on, which lie `row` apart, to alpha times vector `v` of lanes [width]. */
static inline void store_squares(lane *from, real alpha, real *to, size_t row, size_t v, size_t width) {
    for (size_t c = 0; c < width; c += LANE_COUNT) {
        lane square[LANE_COUNT];
        transpose_lanes(square, lane_elements(from + c * VECTORS + v), BLOCK, lane_set(alpha));
        UNROLL for (size_t i = 0; i < LANE_COUNT; i++) memcpy(to + i * row + c, &square[i], sizeof *square);
    }
}
#else
static inline size_t in_squares(size_t width, size_t column) {
    (void)width;
    (void)column;
    return 0;
}
static inline void pack_squares(lane *to, const real *from, size_t row, size_t v, size_t width) {
    (void)to;
    (void)from;
    (void)row;
    (void)v;
    (void)width;
}
static inline void store_squares(lane *from, real alpha, real *to, size_t row, size_t v, size_t width) {
    (void)from;
    (void)alpha;
    (void)to;
    (void)row;
    (void)v;
    (void)width;
}
#endif

/* Packs `count` rows of a matrix as lanes, to [width]. The other lanes of the vectors repeat the last row. */
static inline void pack_lanes(lane *to, matrix from, size_t count, size_t vectors, size_t width) {
    const size_t squares = in_squares(width, from.column), whole = smaller(count / LANE_COUNT, vectors);

    for (size_t v = 0; v < whole; v++)
        pack_squares(to, from.elements + v * LANE_COUNT * from.row, from.row, v, squares);
    for (size_t l = 0; l < vectors * LANE_COUNT; l++) {
        const real *row = from.elements + smaller(l, count - 1) * from.row;
        real *lane_l = lane_elements(to) + l;
        for (size_t c = l < whole * LANE_COUNT ? squares : 0; c < width; c++)
            lane_l[c * BLOCK] = row[c * from.column];
    }
}

static inline void clear_lanes(lane *to, size_t width) {
    memset(to, 0, width * VECTORS * sizeof *to);
}

/* Sets row l of a matrix to alpha times lane l of from [width], for l < count. */
static inline void store_lanes(lane *from, real alpha, matrix to, size_t count, size_t width) {
    const size_t squares = in_squares(width, to.column), whole = count / LANE_COUNT;

    for (size_t v = 0; v < whole; v++)
        store_squares(from, alpha, to.elements + v * LANE_COUNT * to.row, to.row, v, squares);
    for (size_t l = 0; l < count; l++) {
        const real *lane_l = lane_elements(from) + l;
        for (size_t c = l < whole * LANE_COUNT ? squares : 0; c < width; c++)
            to.elements[l * to.row + c * to.column] = alpha * lane_l[c * BLOCK];
    }
}

/* ---- Masks ---- */

/* Query i attends to the keys from begin_of to reach_of, without the latter. */
static inline size_t reach_of(const plan *p, size_t i) {
    const size_t reach = i + p->reach > p->queries ? i + p->reach - p->queries : 0;
    return smaller(reach, p->sources);
}
static inline size_t begin_of(const plan *p, size_t i) {
    const size_t reach = reach_of(p, i);
    return reach > p->window ? reach - p->window : 0;
}

/* Returns how many of the `length` indices from `first` on are below `limit`. */
static inline size_t below(size_t limit, size_t first, size_t length) {
    return limit > first ? smaller(limit - first, length) : 0;
}

#endif
