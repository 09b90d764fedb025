/*
 * acc [rows][LANES] += a b, the one inner loop of every product on the host. Included with NUMBER set to the element type.
 *
 * A block of rows times a few vectors stays in registers while k runs; each element is summed from left to right, product
 * and sum rounded once, whatever the block.
 */
#include <stddef.h>

#include "backend/cpu/kernels/vector.h"

DEFINE_VECTOR(gemm_vector, NUMBER);

#define VECTOR_LANES (sizeof(gemm_vector) / sizeof(NUMBER))
/* Vectors side by side in a block: two where a row of LANES needs more than one. */
#define BLOCK_VECTORS (VECTOR_LANES >= LANES ? 1 : 2)
/* Rows of a full block: enough independent sums to hide the latency of an addition. */
#define BLOCK_ROWS (VECTOR_LANES >= LANES ? 8 : 4)

/* `rows` is a constant at each call, so that the block unrolls. */
ALWAYS_INLINE void gemm_block(const size_t rows, const NUMBER *a, size_t row_stride, size_t k_stride,
                              const NUMBER *b, size_t k, NUMBER *acc) {
    for (size_t column = 0; column < LANES; column += BLOCK_VECTORS * VECTOR_LANES) {
        gemm_vector sum[8][2];
        UNROLL for (size_t r = 0; r < rows; r++) {
            UNROLL for (size_t v = 0; v < BLOCK_VECTORS; v++) sum[r][v] =
                *(const gemm_vector *)(acc + r * LANES + column + v * VECTOR_LANES);
        }
        for (size_t p = 0; p < k; p++) {
            const NUMBER *b_row = b + p * LANES + column;
            UNROLL for (size_t r = 0; r < rows; r++) {
                const NUMBER factor = a[r * row_stride + p * k_stride];
                UNROLL for (size_t v = 0; v < BLOCK_VECTORS; v++) sum[r][v] +=
                    factor * *(const gemm_vector *)(b_row + v * VECTOR_LANES);
            }
        }
        UNROLL for (size_t r = 0; r < rows; r++) {
            UNROLL for (size_t v = 0; v < BLOCK_VECTORS; v++) *
                (gemm_vector *)(acc + r * LANES + column + v * VECTOR_LANES) = sum[r][v];
        }
    }
}

ALWAYS_INLINE void gemm_rows(const NUMBER *a, size_t row_stride, size_t k_stride, const NUMBER *b, size_t k,
                             NUMBER *acc, size_t rows) {
    size_t r = 0;
    for (; r + BLOCK_ROWS <= rows; r += BLOCK_ROWS)
        gemm_block(BLOCK_ROWS, a + r * row_stride, row_stride, k_stride, b, k, acc + r * LANES);
    if (r + 4 <= rows) {
        gemm_block(4, a + r * row_stride, row_stride, k_stride, b, k, acc + r * LANES);
        r += 4;
    }
    if (r + 2 <= rows) {
        gemm_block(2, a + r * row_stride, row_stride, k_stride, b, k, acc + r * LANES);
        r += 2;
    }
    if (r < rows)
        gemm_block(1, a + r * row_stride, row_stride, k_stride, b, k, acc + r * LANES);
}
