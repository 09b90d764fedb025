/*
 * Filling, copying and elementwise arithmetic.
 *
 * Index mapping, for all kernels here: the host merges axes into a rank-4 shape whose last axis is the run. A unit is
 * one segment of one run; work-items step through the units of all runs. Cost: one flop (or one elementary function)
 * per element; 4 bytes for each element read and written.
 */
#include "../include/iclab/kinds.h"
#include "common.h"

/* The formula of each kind, unary_NAME: a row of the list that has none does not compile. */
#define UNARY(name, formula)                                                                                           \
    static floats unary_##name(floats x) {                                                                             \
        return formula;                                                                                                \
    }
UNARY(negate, -x)
UNARY(absolute, fabs(x))
UNARY(square, x *x)
UNARY(square_root, sqrt(x))
UNARY(reciprocal, (floats)(1.0f) / x)
UNARY(exponential, exp(x))
UNARY(logarithm, log(x))
UNARY(hyperbolic_tangent, tanh(x))
UNARY(sigmoid, (floats)(1.0f) / ((floats)(1.0f) + exp(-x)))
UNARY(relu, select(fmax(x, (floats)(0.0f)), x, isnan(x)))
UNARY(sign, select(select((floats)(0.0f), (floats)(1.0f), isgreater(x, (floats)(0.0f))),
                   select((floats)(-1.0f), x, isnan(x)), isless(x, (floats)(0.0f)) | isnan(x)))
UNARY(softplus, fmax(x, (floats)(0.0f)) + log1p(exp(-fabs(x))))

/* x / (1 + exp(-2 w)), w of x's sign. By h = exp(-|w|): h h becomes 0 only where the result does, where exp(2 w) would
 * before. A limited x, since -infinity times h would be no number; its result is 0. */
static floats gated(floats x, floats w) {
    const floats h = exp(-fabs(w)), limited = select(x, (floats)(-2000.0f), isless(x, (floats)(-2000.0f)));
    return select(limited * h * h, x, isgreater(x, (floats)(0.0f))) / ((floats)(1.0f) + h * h);
}
static floats gelu_exponent(floats x) {
    return x * ((floats)(0.79788456080286536f) + (floats)(0.0356774081363001244f) * (x * x));
}
UNARY(silu, gated(x, (floats)(0.5f) * x))
UNARY(gelu, gated(x, gelu_exponent(x)))

static floats apply_unary(uint kind, floats x) {
#define CASE(kind, name, positive)                                                                                     \
    case kind:                                                                                                         \
        return unary_##name(x);
    switch (kind) {
        ICL_UNARY_KINDS(CASE)
    default:
        return x; /* the host knows no other kind */
    }
#undef CASE
}

#define BINARY(name, formula)                                                                                          \
    static floats binary_##name(floats a, floats b) {                                                                  \
        return formula;                                                                                                \
    }
BINARY(add, a + b)
BINARY(subtract, a - b)
BINARY(multiply, a *b)
BINARY(divide, a / b)
BINARY(maximum, select(fmax(a, b), a + b, isunordered(a, b)))
BINARY(minimum, select(fmin(a, b), a + b, isunordered(a, b)))
BINARY(equal, select((floats)(0.0f), (floats)(1.0f), isequal(a, b)))

/* g d/dx (x s(z)) = g (s + x z' s (1 - s)), s the sigmoid, z = 2 w, by h as above: s = (1 or h h) / (1 + h h) and
 * s (1 - s) = h h / (1 + h h)^2. Beyond a limited x both are exact: infinity times h would be no number. */
static floats limited(floats x) {
    return select(clamp(x, (floats)(-2000.0f), (floats)(2000.0f)), x, isnan(x));
}
static floats gated_slope(floats x, floats w, floats x_times_slope_of_z, floats g) {
    const floats h = exp(-fabs(w)), square = h * h, share = (floats)(1.0f) / ((floats)(1.0f) + square);
    const floats above = select(square, (floats)(1.0f), isgreater(x, (floats)(0.0f)));
    return g * ((above + x_times_slope_of_z * (square * share)) * share);
}
static floats gelu_slope(floats x, floats g) {
    const floats slope = (floats)(1.59576912160573072f) + (floats)(0.2140644488178007464f) * (x * x);
    return gated_slope(x, gelu_exponent(x), x * slope, g);
}
BINARY(silu_slope, gated_slope(limited(a), (floats)(0.5f) * limited(a), limited(a), b))
BINARY(gelu_slope, gelu_slope(limited(a), b))

static floats apply_binary(uint kind, floats a, floats b) {
#define CASE(kind, name)                                                                                               \
    case kind:                                                                                                         \
        return binary_##name(a, b);
    switch (kind) {
        ICL_BINARY_KINDS(CASE)
    default:
        return a;
    }
#undef CASE
}

__kernel void fill(__global float *out, uint out_offset, int4 out_stride, uint4 shape, uint segment, uint segments,
                   uint2 units, float value) {
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global float *to = out + out_offset + dot_position(at, out_stride);
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
        for (uint i = start; i < end; i += LANES) {
            const floats x = load_run(from_a + (int)i * a_stride.s3, a_stride.s3, end - i);
            const floats y = load_run(from_b + (int)i * b_stride.s3, b_stride.s3, end - i);
            store_run(apply_binary(kind, x, y), to + (int)i * out_stride.s3, out_stride.s3, end - i);
        }
    }
}

#if LANES > 1
#define MAX_PERIOD 256

/*
 * out = a op b (b op a when swapped) for contiguous out and a and a short row b that repeats all along them: lanes then
 * cross the ends of rows, which the kernel above cannot do. A unit is `segment` elements.
 */
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
        for (uint i = start; i < end; i += LANES) {
            floats sum = (floats)(alpha)*load_run(from_a + (int)i * a_stride.s3, a_stride.s3, end - i);
            if (has_b)
                sum += (floats)(beta)*load_run(from_b + (int)i * b_stride.s3, b_stride.s3, end - i);
            store_run(sum, to + (int)i * out_stride.s3, out_stride.s3, end - i);
        }
    }
}
