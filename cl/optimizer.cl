/*
 * Clipping and optimizer steps, in place.
 *
 * Index mapping: as in elementwise.cl, units are segments of runs of a merged rank-4 shape. Cost per element: clip 1 flop,
 * 8 bytes; adam 14 flops, 28 bytes; sgd 4 flops, 20 bytes.
 */
#include "common.h"

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
 * beta2; corrections: 1 - beta1^step, 1 - beta2^step. */
__kernel void adam(__global float *parameters, uint p_offset, int4 p_stride, __global float *first,
                   uint m_offset, int4 m_stride, __global float *second, uint v_offset, int4 v_stride,
                   __global const float *gradient, uint g_offset, int4 g_stride, uint4 shape, uint segment,
                   uint segments, uint units, float4 rates, float4 moments, float2 corrections) {
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

/* velocity = momentum velocity + g; parameters -= rate velocity. */
__kernel void sgd(__global float *parameters, uint p_offset, int4 p_stride, __global float *velocity,
                  uint v_offset, int4 v_stride, __global const float *gradient, uint g_offset, int4 g_stride,
                  uint4 shape, uint segment, uint segments, uint units, float rate, float momentum) {
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
