/*
 * acc [rows][LANES] += a b: the single inner loop of all products on the host. Included with NUMBER set to the element
 * type.
 *
 * A block of rows times a few vectors stays in registers while k runs; each element is summed from left to right,
 * product and sum rounded once, whatever the block.
 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "arithmetic/vector.h"

DEFINE_VECTOR(gemm_vector, NUMBER);

#define VECTOR_LANES (sizeof(gemm_vector) / sizeof(NUMBER))
/* The number of adjacent vectors in a block: two if a row of LANES needs more than one. */
#define BLOCK_VECTORS (VECTOR_LANES >= LANES ? 1 : 2)
/* Rows of a full block: enough independent sums to hide the latency of an addition. */
#define BLOCK_ROWS (VECTOR_LANES >= LANES ? 8 : 4)

/* Adds to the sums of `rows` rows, from `column` on. `rows` is a constant at each call, so that the block unrolls. */
ALWAYS_INLINE void gemm_block_sums(const size_t rows, const NUMBER *a, size_t row_stride, size_t k_stride,
                                   const NUMBER *b, size_t k, size_t column, gemm_vector sum[8][2]) {
    for (size_t p = 0; p < k; p++) {
        const NUMBER *b_row = b + p * LANES + column;
        UNROLL for (size_t r = 0; r < rows; r++) {
            const NUMBER factor = a[r * row_stride + p * k_stride];
            UNROLL for (size_t v = 0; v < BLOCK_VECTORS; v++) sum[r][v] +=
                factor * *(const gemm_vector *)(b_row + v * VECTOR_LANES);
        }
    }
}

/* Computes acc += a b, or if `fresh` is set acc = alpha * (a b). */
ALWAYS_INLINE void gemm_block(const size_t rows, const bool fresh, const NUMBER *a, size_t row_stride, size_t k_stride,
                              const NUMBER *b, size_t k, NUMBER alpha, NUMBER *acc) {
    for (size_t column = 0; column < LANES; column += BLOCK_VECTORS * VECTOR_LANES) {
        gemm_vector sum[8][2];
        memset(sum, 0, sizeof sum);
        UNROLL for (size_t r = 0; r < rows && !fresh; r++) {
            const gemm_vector *from = (const gemm_vector *)(acc + r * LANES + column);
            UNROLL for (size_t v = 0; v < BLOCK_VECTORS; v++) {
                sum[r][v] = from[v];
            }
        }
        gemm_block_sums(rows, a, row_stride, k_stride, b, k, column, sum);
        UNROLL for (size_t r = 0; r < rows; r++) {
            gemm_vector *to = (gemm_vector *)(acc + r * LANES + column);
            UNROLL for (size_t v = 0; v < BLOCK_VECTORS; v++) {
                if (fresh)
                    sum[r][v] *= alpha;
                to[v] = sum[r][v];
            }
        }
    }
}

/* Computes one block of 1 to BLOCK_ROWS rows. */
ALWAYS_INLINE void gemm_any_block(size_t rows, const bool fresh, const NUMBER *a, size_t row_stride, size_t k_stride,
                                  const NUMBER *b, size_t k, NUMBER alpha, NUMBER *acc) {
#define GEMM_CASE(count)                                                                                               \
    case count:                                                                                                        \
        gemm_block(count, fresh, a, row_stride, k_stride, b, k, alpha, acc);                                           \
        break;
    switch (rows) {
        GEMM_CASE(1)
        GEMM_CASE(2)
        GEMM_CASE(3)
        GEMM_CASE(4)
        GEMM_CASE(5)
        GEMM_CASE(6)
        GEMM_CASE(7)
        GEMM_CASE(8)
    }
#undef GEMM_CASE
}

ALWAYS_INLINE void gemm_rows(const NUMBER *a, size_t row_stride, size_t k_stride, const NUMBER *b, size_t k,
                             NUMBER *acc, size_t rows) {
    for (size_t r = 0; r < rows; r += BLOCK_ROWS)
        gemm_any_block(rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS, false, a + r * row_stride, row_stride, k_stride,
                       b, k, 1, acc + r * LANES);
}
