/*
 * Filling, copying and elementwise arithmetic.
 *
 * Index mapping, for all kernels here: the host merges axes into a rank-4 shape whose last axis is the run. A unit is
 * one segment of one run; work-items step through the units of all runs. Cost: one flop (or one elementary function)
 * per element; 4 bytes for each element read and written.
 *
 * A segment of GPUs is one element, or ACCESS where the runs of all operands have a step of 1 and begin at multiples of
 * 16 bytes: an access then moves 16 bytes, and enough of them are under way to keep the memory busy.
 */
#include "common.h"
#include "functions.h"

#if LANES == 1
#define ACCESS                       4 /* as in src/backend/opencl/elementwise.c */
#define LOAD_ACCESS(pointer)         (*(__global const float4 *)(pointer))
#define STORE_ACCESS(value, pointer) (*(__global float4 *)(pointer) = (value))

static float4 apply_unary_wide(uint kind, float4 x) {
    return (float4)(apply_unary(kind, x.s0), apply_unary(kind, x.s1), apply_unary(kind, x.s2), apply_unary(kind, x.s3));
}

static float4 apply_binary_wide(uint kind, float4 a, float4 b) {
    return (float4)(apply_binary(kind, a.s0, b.s0), apply_binary(kind, a.s1, b.s1), apply_binary(kind, a.s2, b.s2),
                    apply_binary(kind, a.s3, b.s3));
}
#endif

__kernel void fill(__global float *out, uint out_offset, int4 out_stride, uint4 shape, uint segment, uint segments,
                   uint2 units, float value) {
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global float *to = out + out_offset + dot_position(at, out_stride);
#if LANES == 1
        if (segment == ACCESS) {
            STORE_ACCESS((float4)(value), to + start);
            continue;
        }
#endif
        for (uint i = start; i < end; i += LANES)
            store_run((floats)(value), to + (int)i * out_stride.s3, out_stride.s3, end - i);
    }
}

__kernel void copy(__global float *out, uint out_offset, int4 out_stride, __global const float *in, uint in_offset,
                   int4 in_stride, uint4 shape, uint segment, uint segments, uint2 units) {
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global float *to = out + out_offset + dot_position(at, out_stride);
        __global const float *from = in + in_offset + dot_position(at, in_stride);
#if LANES == 1
        if (segment == ACCESS) {
            STORE_ACCESS(LOAD_ACCESS(from + start), to + start);
            continue;
        }
#endif
        for (uint i = start; i < end; i += LANES)
            store_run(load_run(from + (int)i * in_stride.s3, in_stride.s3, end - i), to + (int)i * out_stride.s3,
                      out_stride.s3, end - i);
    }
}

__kernel void unary(__global float *out, uint out_offset, int4 out_stride, __global const float *in, uint in_offset,
                    int4 in_stride, uint4 shape, uint segment, uint segments, uint2 units, uint kind) {
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global float *to = out + out_offset + dot_position(at, out_stride);
        __global const float *from = in + in_offset + dot_position(at, in_stride);
#if LANES == 1
        if (segment == ACCESS) {
            STORE_ACCESS(apply_unary_wide(kind, LOAD_ACCESS(from + start)), to + start);
            continue;
        }
#endif
        for (uint i = start; i < end; i += LANES)
            store_run(apply_unary(kind, load_run(from + (int)i * in_stride.s3, in_stride.s3, end - i)),
                      to + (int)i * out_stride.s3, out_stride.s3, end - i);
    }
}

__kernel void binary(__global float *out, uint out_offset, int4 out_stride, __global const float *a, uint a_offset,
                     int4 a_stride, __global const float *b, uint b_offset, int4 b_stride, uint4 shape, uint segment,
                     uint segments, uint2 units, uint kind) {
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global float *to = out + out_offset + dot_position(at, out_stride);
        __global const float *from_a = a + a_offset + dot_position(at, a_stride);
        __global const float *from_b = b + b_offset + dot_position(at, b_stride);
#if LANES == 1
        if (segment == ACCESS) {
            STORE_ACCESS(apply_binary_wide(kind, LOAD_ACCESS(from_a + start), LOAD_ACCESS(from_b + start)), to + start);
            continue;
        }
#endif
        for (uint i = start; i < end; i += LANES) {
            const floats x = load_run(from_a + (int)i * a_stride.s3, a_stride.s3, end - i);
            const floats y = load_run(from_b + (int)i * b_stride.s3, b_stride.s3, end - i);
            store_run(apply_binary(kind, x, y), to + (int)i * out_stride.s3, out_stride.s3, end - i);
        }
    }
}

#if LANES > 1
#define MAX_PERIOD 256

/* out = a op b, or b op a when swapped, where out and a are contiguous and b is a short row that repeats along them.
 * Lanes cross the ends of rows, which the kernel above cannot do. A unit is `segment` elements. */
__kernel void binary_periodic(__global float *out, uint out_offset, __global const float *a, uint a_offset,
                              __global const float *b, uint b_offset, uint count, uint period, uint segment,
                              uint2 units, uint kind, uint swapped) {
    float pattern[MAX_PERIOD + LANES]; /* b, and its beginning again until a load at its last element is whole */
    for (uint i = 0; i < period + LANES; i++)
        pattern[i] = b[b_offset + i % period];
    const uint advance = LANES % period;
    FOR_EACH_UNIT(units) {
        const uint start = unit * segment, end = min(start + segment, count);
        uint phase = start % period;
        for (uint i = start; i < end; i += LANES) {
            const floats x = load_run(a + a_offset + i, 1, end - i), y = LOAD_LANES(pattern + phase);
            store_run(apply_binary(kind, swapped ? y : x, swapped ? x : y), out + out_offset + i, 1, end - i);
            phase += advance;
            phase -= phase >= period ? period : 0;
        }
    }
}
#endif

/* out = alpha a + beta b; has_b = 0: out = alpha a, and b is any buffer. */
__kernel void scale_add(__global float *out, uint out_offset, int4 out_stride, __global const float *a, uint a_offset,
                        int4 a_stride, __global const float *b, uint b_offset, int4 b_stride, uint4 shape, uint segment,
                        uint segments, uint2 units, uint has_b, float alpha, float beta) {
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global float *to = out + out_offset + dot_position(at, out_stride);
        __global const float *from_a = a + a_offset + dot_position(at, a_stride);
        __global const float *from_b = b + b_offset + dot_position(at, b_stride);
#if LANES == 1
        if (segment == ACCESS) {
            float4 sum = alpha * LOAD_ACCESS(from_a + start);
            if (has_b)
                sum += beta * LOAD_ACCESS(from_b + start);
            STORE_ACCESS(sum, to + start);
            continue;
        }
#endif
        for (uint i = start; i < end; i += LANES) {
            floats sum = (floats)(alpha)*load_run(from_a + (int)i * a_stride.s3, a_stride.s3, end - i);
            if (has_b)
                sum += (floats)(beta)*load_run(from_b + (int)i * b_stride.s3, b_stride.s3, end - i);
            store_run(sum, to + (int)i * out_stride.s3, out_stride.s3, end - i);
        }
    }
}
