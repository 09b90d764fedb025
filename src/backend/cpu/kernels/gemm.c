/* Products: packing, the row kernel and storing. */
#include "backend/cpu/kernels/parts.h"

#include <string.h>

#define NUMBER real
#include "arithmetic/gemm_rows.h"
#include "arithmetic/lane_transpose.h"

void KERNEL(gemm)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, real *acc, size_t rows) {
    gemm_rows(a, row_stride, k_stride, b, k, acc, rows);
}

/* ---- Moving 1 to LANES elements ---- */

#if VECTOR_BYTES == 64
#include <immintrin.h>

/* Masked moves touch exactly the elements that are there. */
#if ICL_CPU_DOUBLE
#define MASK(count) ((__mmask8)((1u << (count)) - 1))

ALWAYS_INLINE void pad_lanes(real *to, const real *from, size_t count) {
    const size_t low = count < 8 ? count : 8;
    _mm512_storeu_pd(to, _mm512_maskz_loadu_pd(MASK(low), from));
    _mm512_storeu_pd(to + 8, _mm512_maskz_loadu_pd(MASK(count - low), from + low));
}

ALWAYS_INLINE void copy_lanes(real *to, const real *from, size_t count) {
    const size_t low = count < 8 ? count : 8;
    _mm512_mask_storeu_pd(to, MASK(low), _mm512_loadu_pd(from));
    _mm512_mask_storeu_pd(to + low, MASK(count - low), _mm512_loadu_pd(from + 8));
}
#else
#define MASK(count) ((__mmask16)((1u << (count)) - 1))

/* Copies count elements to `to` [LANES], and fills it up with zeros. */
ALWAYS_INLINE void pad_lanes(real *to, const real *from, size_t count) {
    _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(MASK(count), from));
}

/* Copies the first `count` elements of from [LANES]. */
ALWAYS_INLINE void copy_lanes(real *to, const real *from, size_t count) {
    _mm512_mask_storeu_ps(to, MASK(count), _mm512_loadu_ps(from));
}
#endif

#else

/* Two overlapping moves of a fixed size beat a loop or a call. */
ALWAYS_INLINE void copy_lanes(real *to, const real *from, size_t count) {
    if (count >= 8) {
        real head[8], tail[8];
        memcpy(head, from, sizeof head);
        memcpy(tail, from + count - 8, sizeof tail);
        memcpy(to, head, sizeof head);
        memcpy(to + count - 8, tail, sizeof tail);
    } else if (count >= 4) {
        real head[4], tail[4];
        memcpy(head, from, sizeof head);
        memcpy(tail, from + count - 4, sizeof tail);
        memcpy(to, head, sizeof head);
        memcpy(to + count - 4, tail, sizeof tail);
    } else {
        for (size_t i = 0; i < count; i++)
            to[i] = from[i];
    }
}

ALWAYS_INLINE void pad_lanes(real *to, const real *from, size_t count) {
    memset(to, 0, LANES * sizeof *to);
    copy_lanes(to, from, count);
}

#endif

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
