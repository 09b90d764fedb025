/*
 * Clipping, its thresholds and optimizer steps, in place.
 *
 * Index mapping: as in elementwise.cl, units are segments of runs of a merged rank-4 shape. Cost per element: clip 1 flop,
 * 8 bytes; adam 14 flops, 28 bytes; sgd 4 flops, 20 bytes. Thresholds are one work-group's: see there.
 */
#include "common.h"

/* By the bits, which relaxed arithmetic leaves alone. */
static int is_finite(float x) {
    return (as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

/* values *= min(1, limit / norm); a NaN norm leaves them unchanged. */
__kernel void clip_to_norm(__global float *values, uint offset, int4 stride, __global const float *norm,
                           uint norm_offset, uint4 shape, uint segment, uint segments, uint units,
                           float limit) {
    const float size = norm[norm_offset];
    if (size > limit) {
        const float factor = limit / size;
        FOR_EACH_SEGMENT(shape, segment, units, segments) {
            __global float *at = values + offset + dot_position(row_position(row, shape), stride);
            for (uint i = start; i < end; i += LANES) {
                __global float *run = at + (int)i * stride.s3;
                store_run(load_run(run, stride.s3, end - i) * factor, run, stride.s3, end - i);
            }
        }
    }
}

/* rates: learning rate, decay factor 1 - rate * weight decay, epsilon, unused; moments: beta1, 1 - beta1, beta2, 1 -
 * beta2; corrections: 1 - beta1^step, 1 - beta2^step. A norm that is there and not finite leaves everything as it is. */
__kernel void adam(__global float *parameters, uint p_offset, int4 p_stride, __global float *first,
                   uint m_offset, int4 m_stride, __global float *second, uint v_offset, int4 v_stride,
                   __global const float *gradient, uint g_offset, int4 g_stride, __global const float *norm,
                   uint norm_offset, uint has_norm, uint4 shape, uint segment, uint segments, uint units,
                   float4 rates, float4 moments, float2 corrections) {
    if (has_norm && !is_finite(norm[norm_offset]))
        return;
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global float *p_row = parameters + p_offset + dot_position(at, p_stride);
        __global float *m_row = first + m_offset + dot_position(at, m_stride);
        __global float *v_row = second + v_offset + dot_position(at, v_stride);
        __global const float *g_row = gradient + g_offset + dot_position(at, g_stride);
        for (uint i = start; i < end; i += LANES) {
            const uint left = end - i;
            const floats g = load_run(g_row + (int)i * g_stride.s3, g_stride.s3, left);
            const floats m =
                moments.s0 * load_run(m_row + (int)i * m_stride.s3, m_stride.s3, left) + moments.s1 * g;
            const floats v =
                moments.s2 * load_run(v_row + (int)i * v_stride.s3, v_stride.s3, left) + moments.s3 * (g * g);
            const floats p = rates.s1 * load_run(p_row + (int)i * p_stride.s3, p_stride.s3, left);
            const floats step = (m / corrections.s0) / (sqrt(v / corrections.s1) + rates.s2);
            store_run(m, m_row + (int)i * m_stride.s3, m_stride.s3, left);
            store_run(v, v_row + (int)i * v_stride.s3, v_stride.s3, left);
            store_run(p - rates.s0 * step, p_row + (int)i * p_stride.s3, p_stride.s3, left);
        }
    }
}

/* A norm that is there and not finite leaves everything as it is, also above. velocity = momentum velocity + g; parameters -= rate velocity. */
__kernel void sgd(__global float *parameters, uint p_offset, int4 p_stride, __global float *velocity,
                  uint v_offset, int4 v_stride, __global const float *gradient, uint g_offset, int4 g_stride,
                  __global const float *norm, uint norm_offset, uint has_norm, uint4 shape, uint segment,
                  uint segments, uint units, float rate, float momentum) {
    if (has_norm && !is_finite(norm[norm_offset]))
        return;
    FOR_EACH_SEGMENT(shape, segment, units, segments) {
        const int4 at = row_position(row, shape);
        __global float *p_row = parameters + p_offset + dot_position(at, p_stride);
        __global float *v_row = velocity + v_offset + dot_position(at, v_stride);
        __global const float *g_row = gradient + g_offset + dot_position(at, g_stride);
        for (uint i = start; i < end; i += LANES) {
            const uint left = end - i;
            const floats v = momentum * load_run(v_row + (int)i * v_stride.s3, v_stride.s3, left) +
                             load_run(g_row + (int)i * g_stride.s3, g_stride.s3, left);
            const floats p = load_run(p_row + (int)i * p_stride.s3, p_stride.s3, left);
            store_run(v, v_row + (int)i * v_stride.s3, v_stride.s3, left);
            store_run(p - rate * v, p_row + (int)i * p_stride.s3, p_stride.s3, left);
        }
    }
}

#define SUMS 64 /* interleaved sums, as ops.h promises */

/* constants: first value over mean, rate, largest leap, 1 / (fraction * count). */
static float next_threshold(float threshold, float mean, uint above, float4 constants) {
    if (threshold > 0.0f)
        return threshold * exp(constants.s1 * min(convert_float(above) * constants.s3 - 1.0f, constants.s2));
    return mean > 0.0f ? constants.s0 * mean : threshold;
}

/*
 * One work-group of any size. Index mapping: sum i takes norms i, i + SUMS, …, and a tree of pairs adds the sums; work-items share the
 * sums out. Two passes over the norms, 5 flops and 4 bytes each: they count, and they sum norm / count. 768 bytes of local
 * memory.
 */
__kernel void track_threshold(__global float *threshold, uint t_offset, __global float *dropped,
                              uint d_offset, __global const float *norms, uint offset, int stride, uint count,
                              float4 constants) {
    __local float sums[SUMS];
    __local uint finite[SUMS], above[SUMS];
    const uint first = get_local_id(0), items = get_local_size(0);
    const float limit = threshold[t_offset];
    __global const float *norm = norms + offset;
    for (uint sum = first; sum < SUMS; sum += items) {
        uint finite_here = 0, above_here = 0;
        for (uint i = sum; i < count; i += SUMS) {
            const float x = norm[(int)i * stride];
            finite_here += is_finite(x) ? 1 : 0;
            above_here += is_finite(x) && x > limit ? 1 : 0;
        }
        finite[sum] = finite_here;
        above[sum] = above_here;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* everybody has read the threshold */
    uint all_finite = 0, all_above = 0;
    for (uint sum = 0; sum < SUMS; sum++) {
        all_finite += finite[sum];
        all_above += above[sum];
    }
    const float factor = all_finite > 0 ? 1.0f / convert_float(all_finite) : 0.0f;
    for (uint sum = first; sum < SUMS; sum += items) {
        float total = 0.0f;
        for (uint i = sum; i < count; i += SUMS) {
            const float x = norm[(int)i * stride];
            if (is_finite(x))
                total += x * factor;
        }
        sums[sum] = total;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_length = SUMS / 2; half_length > 0; half_length /= 2) {
        for (uint sum = first; sum < half_length; sum += items)
            sums[sum] += sums[sum + half_length];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (first == 0) {
        threshold[t_offset] = next_threshold(limit, sums[0], all_above, constants);
        dropped[d_offset] = convert_float(count - all_finite);
    }
}
