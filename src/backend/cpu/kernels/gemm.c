/* Products: packing, the row kernel and storing. */
#include "backend/cpu/kernels/parts.h"

#include <string.h>

#define NUMBER real
#include "backend/cpu/kernels/gemm_rows.h"

void KERNEL(gemm)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, real *acc, size_t rows) {
    gemm_rows(a, row_stride, k_stride, b, k, acc, rows);
}

/* ---- Moving 1 to LANES elements ---- */

#if defined(__AVX512F__)
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

/* to [LANES] = count elements and zeros. */
ALWAYS_INLINE void pad_lanes(real *to, const real *from, size_t count) {
    _mm512_storeu_ps(to, _mm512_maskz_loadu_ps(MASK(count), from));
}

/* to [count] = the first of from [LANES]. */
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

void KERNEL(pack)(const real *b, size_t k_stride, size_t column_stride, size_t k, size_t width, real *panel) {
    if (column_stride == 1) {
        for (size_t p = 0; p < k; p++)
            pad_lanes(panel + p * LANES, b + p * k_stride, width);
        return;
    }
    memset(panel, 0, k * LANES * sizeof *panel);
    for (size_t column = 0; column < width; column++)
        for (size_t p = 0; p < k; p++)
            panel[p * LANES + column] = b[p * k_stride + column * column_stride];
}

void KERNEL(store)(const real *acc, size_t rows, real *out, size_t row_stride, size_t column_stride, size_t width,
                   real alpha, real beta) {
    for (size_t r = 0; r < rows; r++) {
        const real *row = acc + r * LANES;
        real *to = out + r * row_stride;
        if (beta == 0 && column_stride == 1) {
            real scaled[LANES];
            for (size_t lane = 0; lane < LANES; lane++)
                scaled[lane] = alpha * row[lane];
            copy_lanes(to, scaled, width);
            continue;
        }
        for (size_t column = 0; column < width; column++) {
            real *element = to + column * column_stride;
            const real product = alpha * row[column];
            *element = beta == 0 ? product : product + beta * *element;
        }
    }
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
