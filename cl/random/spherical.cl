/*
 * Rows on spheres: out = r x / ||x||, with the bits that include/iclab/ops.h states for icl_spherical.
 *
 * Index mapping: a unit is LANES rows, which may lie anywhere; rows are counted in row-major order of the shape. Cost
 * for each row: 2 d + 12 flops, 35 more with a radius; 8 d bytes, 4 more with a radius.
 */
#include "../../include/iclab/kinds.h"
#include "../common.h"

static floats gather(__global const float *from, const int *at) {
#if LANES == 1
    return from[at[0]];
#else
    float lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = from[at[i]];
    return LOAD_LANES(lane);
#endif
}

/* Stores the first min(count, LANES) > 0 lanes. */
static void scatter(floats value, __global float *to, const int *at, uint count) {
#if LANES == 1
    to[at[0]] = value;
#else
    const uint last = min(count, (uint)LANES);
    float lane[LANES];
    STORE_LANES(value, lane);
    for (uint i = 0; i < last; i++)
        to[at[i]] = lane[i];
#endif
}

/* Returns where the unit's rows begin; lanes without a row repeat the last one. */
static void find_rows(uint first, uint rows, uint4 shape, int4 stride, int *at) {
    for (uint i = 0; i < LANES; i++)
        at[i] = dot_position(row_position(min(first + i, rows - 1), shape), stride);
}

/* Returns 1 / sqrt(s) by three steps of Newton's iteration. */
static floats reciprocal_root(floats s) {
    const floats h = s * 0.5f;
    floats y = AS_FLOATS((uints)(0x5f375a86u) - (AS_UINTS(s) >> 1));
    for (int step = 0; step < 3; step++)
        y = y * ((floats)(1.5f) - h * y * y);
    return y;
}

/* Returns x cut to [-limit, limit], and -limit for NaN. */
static floats cut_to(floats x, float limit) {
    const floats lower = select((floats)(-limit), x, isgreater(x, (floats)(-limit)));
    return select((floats)(limit), lower, isless(lower, (floats)(limit)));
}

/* Returns 2^L by its series about a whole number. */
static floats power_of_two(floats exponent) {
    const float c[8] = {1.0f,           0x1.62e430p-1f,  0x1.ebfbe0p-3f,  0x1.c6b08ep-5f,
                        0x1.3b2ab6p-7f, 0x1.5d87fep-10f, 0x1.430912p-13f, 0x1.ffcbfcp-17f};
    const floats cut = cut_to(exponent, 62.0f);
    const ints whole = TO_INTS(cut + 62.5f) - 62;
    const floats f = cut - TO_FLOATS(whole);
    floats sum = (floats)(c[7]);
    for (int j = 6; j >= 0; j--)
        sum = sum * f + c[j];
    return sum * AS_FLOATS((whole + 127) << 23);
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
    return power_of_two(sum);
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
