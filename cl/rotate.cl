/*
 * Rotary positions: pairs (i, i + half) of each row turned by the angles of its token, the last axis but one of the
 * shape.
 *
 * Index mapping: a unit is a segment of a row's pairs; shape has their number in its last axis. Cost of a pair: 6
 * flops; 16 bytes, and 8 of the angles, which all sequences share.
 */
#include "common.h"

/* LANES cosines and, `step` elements behind each, sines; pairs lie `stride` apart. */
static void load_angles(__global const float *angles, int stride, int step, uint left, floats *cosines, floats *sines) {
#if LANES > 1
    if (stride == 2 && step == 1 && left >= LANES) {
        const floats low = LOAD_LANES(angles), high = LOAD_LANES(angles + LANES);
        *cosines = (floats)(low.even, high.even);
        *sines = (floats)(low.odd, high.odd);
        return;
    }
#endif
    *cosines = load_run(angles, stride, left);
    *sines = load_run(angles + step, stride, left);
}

/* sign: 1, or -1 for the opposite angles. Strides of the angles: token, pair, component (s1, s2, s3). out may be in's
 * own view: a unit reads its pairs before it writes them. */
__kernel void rotate_pairs(__global float *out, uint out_offset, int4 out_stride, __global const float *in,
                           uint in_offset, int4 in_stride, __global const float *angles, uint angles_offset,
                           int4 angles_stride, uint4 shape, uint segment, uint segments, uint2 units, float sign) {
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global const float *from = in + in_offset + dot_position(at, in_stride);
        __global const float *turn = angles + angles_offset + at.s2 * angles_stride.s1;
        __global float *to = out + out_offset + dot_position(at, out_stride);
        const int in_half = (int)shape.s3 * in_stride.s3, out_half = (int)shape.s3 * out_stride.s3;
        for (uint i = start; i < end; i += LANES) {
            const uint left = end - i;
            const floats x = load_run(from + (int)i * in_stride.s3, in_stride.s3, left);
            const floats y = load_run(from + (in_half + (int)i * in_stride.s3), in_stride.s3, left);
            floats cosine, sine;
            load_angles(turn + (int)i * angles_stride.s2, angles_stride.s2, angles_stride.s3, left, &cosine, &sine);
            sine *= sign;
            store_run(cosine * x - sine * y, to + (int)i * out_stride.s3, out_stride.s3, left);
            store_run(sine * x + cosine * y, to + (out_half + (int)i * out_stride.s3), out_stride.s3, left);
        }
    }
}
