/* What the kernels of the recurrence for GPUs do to tiles: tokens whose rows a work-group of GROUP stages in local
 * memory. */
#ifndef ICL_RECURRENCE_TILES_H
#define ICL_RECURRENCE_TILES_H
#include "../common.h"

/* PoCL 3.1 gives local memory to a kernel and not to functions: if a compiler leaves a function out of line and writes
 * an address of local memory into it, that is other memory. */
#define INLINED __attribute__((always_inline)) static

#ifndef STAGED
#define STAGED 1 /* numbers that a work-item asks for before it waits for the first */
#endif

/* Sets to [rows][width] to rows [0, count) of a matrix with `columns` columns, padded with zeros. */
INLINED void stage(__local float *to, __global const float *from, int row_stride, int column_stride, uint rows,
                   uint count, uint columns, uint width) {
    for (uint first = get_local_id(0); first < rows * width; first += STAGED * GROUP) {
        float kept[STAGED];
        UNROLL for (uint e = 0; e < STAGED; e++) {
            const uint i = first + e * GROUP, t = i / width, c = i - t * width;
            kept[e] = t < count && c < columns ? from[(int)t * row_stride + (int)c * column_stride] : 0.0f;
        }
        UNROLL for (uint e = 0; e < STAGED; e++) {
            if (first + e * GROUP < rows * width)
                to[first + e * GROUP] = kept[e];
        }
    }
}

INLINED void exponentiate(__local float *x, uint count) {
    for (uint i = get_local_id(0); i < count; i += GROUP)
        x[i] = exp(x[i]);
}

INLINED float sum_of(float4 x) {
    return (x.s0 + x.s1) + (x.s2 + x.s3);
}

/* Returns rows i to i + 3 of a column; those from m on are 0. */
INLINED float4 load_rows(__global const float *from, int stride, uint i, uint m) {
    return (float4)(i < m ? from[(int)i * stride] : 0.0f, i + 1 < m ? from[(int)(i + 1) * stride] : 0.0f,
                    i + 2 < m ? from[(int)(i + 2) * stride] : 0.0f, i + 3 < m ? from[(int)(i + 3) * stride] : 0.0f);
}

INLINED void store_rows(float4 rows, __global float *to, int stride, uint i, uint m) {
    if (i < m)
        to[(int)i * stride] = rows.s0;
    if (i + 1 < m)
        to[(int)(i + 1) * stride] = rows.s1;
    if (i + 2 < m)
        to[(int)(i + 2) * stride] = rows.s2;
    if (i + 3 < m)
        to[(int)(i + 3) * stride] = rows.s3;
}

#endif
