/* Products: packing, the row kernel and storing. */
#include "backend/cpu/kernels/parts.h"

#include <string.h>

#define NUMBER real
#include "backend/cpu/kernels/gemm_rows.h"

void KERNEL(gemm)(const real *a, size_t row_stride, size_t k_stride, const real *b, size_t k, real *acc,
                  size_t rows) {
    gemm_rows(a, row_stride, k_stride, b, k, acc, rows);
}

/* Copies 1 to LANES elements with two overlapping moves of a fixed size, which beat a loop or a call. */
ALWAYS_INLINE void copy_short(real *to, const real *from, size_t count) {
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

void KERNEL(pack)(const real *b, size_t k_stride, size_t column_stride, size_t k, size_t width, real *panel) {
    if (column_stride == 1) {
        for (size_t p = 0; p < k; p++) {
            real *row = panel + p * LANES;
            memset(row, 0, LANES * sizeof *row);
            copy_short(row, b + p * k_stride, width);
        }
        return;
    }
    memset(panel, 0, k * LANES * sizeof *panel);
    for (size_t column = 0; column < width; column++)
        for (size_t p = 0; p < k; p++)
            panel[p * LANES + column] = b[p * k_stride + column * column_stride];
}

ALWAYS_INLINE void scale_row(real *scaled, const real *acc, real alpha) {
    for (size_t lane = 0; lane < LANES; lane++)
        scaled[lane] = alpha * acc[lane];
}

/* beta = 0, adjacent columns. Where rows are dense, a whole row of lanes may run over into the rows that follow, which are
 * written next; the last rows, which others may own, are written exactly. */
ALWAYS_INLINE void store_rows(const real *acc, size_t rows, real *out, size_t row_stride, size_t width,
                              real alpha) {
    const size_t end = row_stride == width ? rows * row_stride : 0;
    for (size_t r = 0; r < rows; r++) {
        real scaled[LANES];
        scale_row(scaled, acc + r * LANES, alpha);
        if (width == LANES || r * row_stride + LANES <= end)
            memcpy(out + r * row_stride, scaled, sizeof scaled);
        else
            copy_short(out + r * row_stride, scaled, width);
    }
}

void KERNEL(store)(const real *acc, size_t rows, real *out, size_t row_stride, size_t column_stride,
                   size_t width, real alpha, real beta) {
    if (beta == 0 && column_stride == 1) {
        store_rows(acc, rows, out, row_stride, width, alpha);
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t column = 0; column < width; column++) {
            real *element = out + r * row_stride + column * column_stride;
            const real product = alpha * acc[r * LANES + column];
            *element = beta == 0 ? product : product + beta * *element;
        }
}
