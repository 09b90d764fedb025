/*
 * Rotary positions: pairs (i, i + half) of each row turned by the angles of its token, the last axis but one of the
 * shape.
 *
 * Index mapping: a unit is a row on CPUs and a pair on GPUs; shape has the number of pairs in its last axis. Cost of a
 * pair: 6 flops; 16 bytes, and 8 of the angles, which all sequences share.
 */
#include "common.h"

/* Loads LANES cosines and, `step` elements behind each, sines; pairs lie `stride` apart. */
static void load_angles(__global const float *angles, int stride, int step, uint left, floats *cosines, floats *sines) {
#if LANES > 1 && !defined(ICL_PLAIN_VECTORS)
    if (stride == 2 && step == 1 && left >= LANES) {
        const floats low = LOAD_ANYWHERE(angles), high = LOAD_ANYWHERE(angles + LANES);
        *cosines = (floats)(low.even, high.even);
        *sines = (floats)(low.odd, high.odd);
        return;
    }
#endif
    *cosines = load_run(angles, stride, left);
    *sines = load_run(angles + step, stride, left);
}

/* Turns at most LANES pairs, of which `left` exist. to_half, from_half: from the first of a pair to the second.
 * turn_step: from angle to angle, and from cosine to sine. */
ROW_FUNCTION void rotate_run(__global float *to, int to_half, int to_step, __global const float *from, int from_half,
                             int from_step, __global const float *turn, int2 turn_step, uint left, float sign) {
    const floats x = load_run(from, from_step, left), y = load_run(from + from_half, from_step, left);
    floats cosine, sine;
    load_angles(turn, turn_step.s0, turn_step.s1, left, &cosine, &sine);
    sine *= sign;
    store_run(cosine * x - sine * y, to, to_step, left);
    store_run(sine * x + cosine * y, to + to_half, to_step, left);
}

#if LANES > 1
/* Turns rows of `count` neighbouring tokens; steps are from row to row and from pair to pair. */
ROW_FUNCTION void rotate_rows(__global float *to, int2 to_step, __global const float *from, int2 from_step,
                              __global const float *turn, int turn_row, int2 turn_step, uint count, uint pairs,
                              float sign) {
    const int to_half = (int)pairs * to_step.s1, from_half = (int)pairs * from_step.s1;
    for (uint row = 0; row < count; row++, to += to_step.s0, from += from_step.s0, turn += turn_row) {
#define ROTATE(i, left)                                                                                                \
    rotate_run(to + (int)(i)*to_step.s1, to_half, to_step.s1, from + (int)(i)*from_step.s1, from_half, from_step.s1,   \
               turn + (int)(i)*turn_step.s0, turn_step, left, sign)
        FOR_RUNS(pairs, ROTATE);
    }
}
#endif

/* sign: 1, or -1 for the opposite angles. Strides of the angles: token, pair, component (s1, s2, s3). out may be in's
 * own view: a unit reads its pairs before it writes them. */
__kernel void rotate_pairs(__global float *out, uint out_offset, int4 out_stride, __global const float *in,
                           uint in_offset, int4 in_stride, __global const float *angles, uint angles_offset,
                           int4 angles_stride, uint4 shape, uint2 units, float sign) {
#if LANES > 1
    const bool is_dense = out_stride.s3 == 1 && in_stride.s3 == 1 && angles_stride.s2 == 2 && angles_stride.s3 == 1;
    FOR_EACH_STRETCH(UNIT_OF_ITEM(get_global_id(0), units), UNIT_OF_ITEM(get_global_id(0) + 1, units), row, count,
                     shape) {
        const int4 at = row_position(row, shape);
        __global const float *from = in + in_offset + dot_position(at, in_stride);
        __global const float *turn = angles + angles_offset + at.s2 * angles_stride.s1;
        __global float *to = out + out_offset + dot_position(at, out_stride);
        if (is_dense)
            rotate_rows(to, (int2)(out_stride.s2, 1), from, (int2)(in_stride.s2, 1), turn, angles_stride.s1,
                        (int2)(2, 1), count, shape.s3, sign);
        else
            rotate_rows(to, out_stride.s23, from, in_stride.s23, turn, angles_stride.s1, angles_stride.s23, count,
                        shape.s3, sign);
    }
#else
    FOR_EACH_UNIT(units) {
        const uint row = unit / shape.s3, i = unit - row * shape.s3;
        const int4 at = row_position(row, shape);
        rotate_run(
            out + out_offset + dot_position(at, out_stride) + (int)i * out_stride.s3, (int)shape.s3 * out_stride.s3, 1,
            in + in_offset + dot_position(at, in_stride) + (int)i * in_stride.s3, (int)shape.s3 * in_stride.s3, 1,
            angles + angles_offset + at.s2 * angles_stride.s1 + (int)i * angles_stride.s2, angles_stride.s23, 1, sign);
    }
#endif
}
