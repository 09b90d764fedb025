/* What both passes of the recurrence on GPUs do to a tile: TILE tokens, whose rows a work-group of GROUP stages in
 * local memory. */
#ifndef ICL_RECURRENCE_TILES_H
#define ICL_RECURRENCE_TILES_H
#include "../common.h"

/* to [TILE][width] = rows [0, count) of a matrix of `columns` columns, and zeros around them. */
static void stage(__local float *to, __global const float *from, int row_stride, int column_stride, uint count,
                  uint columns, uint width) {
    for (uint i = get_local_id(0); i < TILE * width; i += GROUP) {
        const uint t = i / width, c = i - t * width;
        to[i] = t < count && c < columns ? from[(int)t * row_stride + (int)c * column_stride] : 0.0f;
    }
}

static void exponentiate(__local float *x, uint count) {
    for (uint i = get_local_id(0); i < count; i += GROUP)
        x[i] = exp(x[i]);
}

static float sum_of(float4 x) {
    return (x.s0 + x.s1) + (x.s2 + x.s3);
}

#endif
