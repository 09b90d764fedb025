/*
 * Panels: a matrix [rows][columns] held as [columns / LANES][rows][LANES], zero-padded, in the attention ops' scratch
 * memory. Products of panels with matrices of any strides, through the kernels.
 */
#ifndef ICLAB_BACKEND_CPU_PANELS_H
#define ICLAB_BACKEND_CPU_PANELS_H

#include <string.h>

#include "backend/cpu/host.h"

typedef struct HOST(panels) {
    real *elements;
    size_t rows, columns;
} HOST(panels);

static inline size_t panels_size(size_t rows, size_t columns) {
    return rows * host_round_up(columns, LANES);
}

/* Takes its memory from *free, which moves on. */
static inline HOST(panels) panels_take(real **free, size_t rows, size_t columns) {
    const HOST(panels) panels = {*free, rows, columns};
    *free += panels_size(rows, columns);
    return panels;
}

static inline real *panels_row(HOST(panels) x, size_t row, size_t column) {
    return x.elements + (column / LANES * x.rows + row) * LANES;
}

static inline void panels_clear(HOST(panels) x) {
    memset(x.elements, 0, panels_size(x.rows, x.columns) * sizeof(real));
}

static inline HOST(matrix) matrix_transposed(HOST(matrix) x) {
    return (HOST(matrix)){x.elements, x.column_stride, x.row_stride};
}

static inline HOST(matrix) matrix_from_row(HOST(matrix) x, size_t row) {
    return (HOST(matrix)){x.elements + row * x.row_stride, x.row_stride, x.column_stride};
}

/* x = the first x.rows rows of a matrix. */
static inline void panels_pack(const HOST(kernels) * kernels, HOST(panels) x, HOST(matrix) from) {
    for (size_t column = 0; column < x.columns; column += LANES) {
        const size_t width = x.columns - column < LANES ? x.columns - column : LANES;
        kernels->pack(from.elements + column * from.column_stride, from.row_stride, from.column_stride, x.rows, width,
                      panels_row(x, 0, column));
    }
}

/* acc[row .. row + rows) += a b[first .. first + k), where a is rows x k. */
static inline void panels_add_product(const HOST(kernels) * kernels, HOST(panels) acc, size_t row, size_t rows,
                                      HOST(matrix) a, HOST(panels) b, size_t first, size_t k) {
    for (size_t column = 0; column < acc.columns; column += LANES)
        kernels->gemm(a.elements, a.row_stride, a.column_stride, panels_row(b, first, column), k,
                      panels_row(acc, row, column), rows);
}

/* to [rows] = scale * a b, where a is rows x b.rows. */
static inline void panels_store_product(const HOST(kernels) * kernels, HOST(matrix) a, HOST(panels) b, size_t rows,
                                        HOST(matrix) to, real scale) {
    for (size_t column = 0; column < b.columns; column += LANES) {
        const size_t width = b.columns - column < LANES ? b.columns - column : LANES;
        kernels->gemm_store(a.elements, a.row_stride, a.column_stride, panels_row(b, 0, column), b.rows, rows, scale,
                            to.elements + column * to.column_stride, to.row_stride, to.column_stride, width);
    }
}

/* Rows [first, last) of a matrix become 0. */
static inline void matrix_clear_rows(HOST(matrix) x, size_t first, size_t last, size_t columns) {
    for (size_t row = first; row < last; row++)
        for (size_t column = 0; column < columns; column++)
            x.elements[row * x.row_stride + column * x.column_stride] = 0;
}

#endif
