/* Products: packing, the row kernel and storing. */
#include "backend/cpu/kernels/parts.h"

#include <string.h>

#define NUMBER real
#include "arithmetic/gemm_rows.h"
#include "arithmetic/lane_transpose.h"
#include "backend/cpu/kernels/moves.h"

void KERNEL(gemm)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, real *acc, size_t rows) {
    gemm_rows(a, row_stride, k_stride, b, k, acc, rows);
}

/* ---- Kernels ---- */

/* Returns how many rows of the panel are filled by whole squares of a transposed matrix. */
#ifdef LANE_TRANSPOSE
static size_t pack_squares(const real *b, size_t column_stride, size_t k, real *panel) {
    const size_t squares = k / LANE_COUNT * LANE_COUNT;

    for (size_t p = 0; p < squares; p += LANE_COUNT)
        for (size_t column = 0; column < LANES; column += LANE_COUNT) {
            lane square[LANE_COUNT];
            transpose_lanes(square, b + column * column_stride + p, column_stride, lane_set(1));
            UNROLL for (size_t i = 0; i < LANE_COUNT; i++)
                memcpy(panel + (p + i) * LANES + column, &square[i], sizeof *square);
        }
    return squares;
}
#else
static size_t pack_squares(const real *b, size_t column_stride, size_t k, real *panel) {
    (void)b;
    (void)column_stride;
    (void)k;
    (void)panel;
    return 0;
}
#endif

void KERNEL(pack)(const real *b, size_t k_stride, size_t column_stride, size_t k, size_t width, real *panel) {
    if (column_stride == 1) {
        for (size_t p = 0; p < k; p++)
            pad_lanes(panel + p * LANES, b + p * k_stride, width);
        return;
    }
    const size_t squares = k_stride == 1 && width == LANES ? pack_squares(b, column_stride, k, panel) : 0;
    memset(panel + squares * LANES, 0, (k - squares) * LANES * sizeof *panel);
    for (size_t column = 0; column < width; column++)
        for (size_t p = squares; p < k; p++)
            panel[p * LANES + column] = b[p * k_stride + column * column_stride];
}

void KERNEL(gemm_store)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, size_t rows,
                        real alpha, real *out, size_t out_row, size_t out_column, size_t width) {
    for (size_t first = 0; first < rows; first += BLOCK_ROWS) {
        const size_t count = rows - first < BLOCK_ROWS ? rows - first : BLOCK_ROWS;
        real product[BLOCK_ROWS * LANES];
        gemm_any_block(count, true, a + first * row_stride, row_stride, k_stride, b, k, alpha, product);
        for (size_t r = 0; r < count; r++) {
            real *to = out + (first + r) * out_row;
            if (out_column == 1)
                copy_lanes(to, product + r * LANES, width);
            else
                for (size_t column = 0; column < width; column++)
                    to[column * out_column] = product[r * LANES + column];
        }
    }
}
