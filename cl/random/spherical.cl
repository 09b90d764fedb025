/*
 * Rows on spheres: out = r x / ||x||, with the bits that include/iclab/ops.h states for icl_spherical.
 *
 * Index mapping: a unit is LANES rows, which may lie anywhere; rows are counted in row-major order of the shape. Cost
 * for each row: 2 d + 12 flops, 35 more with a radius; 8 d bytes, 4 more with a radius.
 */
#include "../../include/iclab/kinds.h"
#include "gather.h"

/* Returns where the unit's rows begin; lanes without a row repeat the last one. */
static void find_rows(uint first, uint rows, uint4 shape, int4 stride, int *at) {
    for (uint i = 0; i < LANES; i++)
        at[i] = dot_position(row_position(min(first + i, rows - 1), shape), stride);
}

static floats radius_at(__global const float *table, int4 stride, floats z) {
    const floats cut = cut_to(z, 6.99f);
    const ints piece = TO_INTS(cut + (float)ICL_CHI_PIECES * 0.5f);
    const floats t = cut - (TO_FLOATS(piece) - (float)(ICL_CHI_PIECES - 1) * 0.5f);
    const ints start = piece * stride.s2;
    int at[LANES];
    floats sum;
#if LANES == 1
    at[0] = start;
#else
    ICL_PASTE(vstore, LANES)(start, 0, at);
#endif
    sum = gather(table + (ICL_CHI_TERMS - 1) * stride.s3, at);
    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        sum = sum * t + gather(table + term * stride.s3, at);
    return power_of_two(sum, 62.0f);
}

/* has_radius = 0: normals and table are any buffer. out may be in's own view: a unit reads its rows'
 * elements before it writes them. */
__kernel void spherical(__global float *out, uint out_offset, int4 out_stride, __global const float *in, uint in_offset,
                        int4 in_stride, __global const float *normals, uint normals_offset, int4 normals_stride,
                        __global const float *table, uint table_offset, int4 table_stride, uint4 shape, uint rows,
                        uint2 units, uint has_radius) {
    FOR_EACH_UNIT(units) {
        const uint first = unit * LANES;
        __global const float *from = in + in_offset;
        __global float *to = out + out_offset;
        int in_at[LANES], at[LANES];
        floats x, factor;
        find_rows(first, rows, shape, in_stride, in_at);
        x = gather(from, in_at);
        floats squares = x * x;
        for (uint k = 1; k < shape.s3; k++) {
            x = gather(from + (int)k * in_stride.s3, in_at);
            squares += x * x;
        }
        factor = reciprocal_root(squares);
        if (has_radius) {
            find_rows(first, rows, shape, normals_stride, at);
            factor *= radius_at(table + table_offset, table_stride, gather(normals + normals_offset, at));
        }
        find_rows(first, rows, shape, out_stride, at);
        for (uint k = 0; k < shape.s3; k++) {
            const floats value = gather(from + (int)k * in_stride.s3, in_at) * factor;
            scatter(value, to + (int)k * out_stride.s3, at, rows - first);
        }
    }
}
