/* Optimizer steps, in place, and the thresholds of clipping. */
#include "common.h"

/* The test looks at the bits, which relaxed arithmetic leaves alone. */
static int is_finite(float x) {
    return (as_uint(x) & 0x7f800000u) != 0x7f800000u;
}

#define SUMS 64 /* interleaved sums, as ops.h promises */

/* constants: first value over mean, rate, largest leap, 1 / (fraction * count). */
static float next_threshold(float threshold, float mean, float above, float4 constants) {
    if (threshold > 0.0f)
        return threshold * exp(constants.s1 * min(above * constants.s3 - 1.0f, constants.s2));
    return mean > 0.0f ? constants.s0 * mean : threshold;
}

/* Sum i of SUMS takes elements i, i + SUMS, ...; work-items share the sums out. */
#define FOR_EACH_SUM(sum)                                                                                              \
    for (uint sum = (uint)get_local_id(0) * LANES; sum < SUMS; sum += (uint)get_local_size(0) * LANES)

/* Returns the total of the sums, by a tree of pairs, to every work-item; the sums may be used again afterwards. */
static float add_sums(__local float *sums) {
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_length = SUMS / 2; half_length > 0; half_length /= 2) {
        for (uint i = get_local_id(0); i < half_length; i += get_local_size(0))
            sums[i] += sums[i + half_length];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    const float total = sums[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return total;
}

static float count_all(__local const uint *counts) {
    uint total = 0;
    for (uint i = 0; i < SUMS; i++)
        total += counts[i];
    return convert_float(total);
}

/* Returns the threshold after `count` norms, and how many of them are not finite, to every work-item of one group. It
 * passes over the norms twice, 5 flops and 4 bytes each: to count them, and to sum norm / count. */
static float2 follow_threshold(__local float *sums, __local uint *finite, __local uint *above, float limit,
                               __global const float *norms, int stride, uint count, float4 constants) {
    for (uint i = get_local_id(0); i < SUMS; i += get_local_size(0)) {
        uint finite_here = 0, above_here = 0;
        for (uint k = i; k < count; k += SUMS) {
            const float x = norms[(int)k * stride];
            finite_here += is_finite(x) ? 1 : 0;
            above_here += is_finite(x) && x > limit ? 1 : 0;
        }
        finite[i] = finite_here;
        above[i] = above_here;
    }
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE); /* All work-items have read the threshold by now. */
    const float all_finite = count_all(finite), all_above = count_all(above);
    const float factor = all_finite > 0.0f ? 1.0f / all_finite : 0.0f;
    for (uint i = get_local_id(0); i < SUMS; i += get_local_size(0)) {
        float total = 0.0f;
        for (uint k = i; k < count; k += SUMS) {
            const float x = norms[(int)k * stride];
            if (is_finite(x))
                total += x * factor;
        }
        sums[i] = total;
    }
    const float mean = add_sums(sums);
    return (float2)(next_threshold(limit, mean, all_above, constants), convert_float(count) - all_finite);
}

/* One work-group of any size, 768 bytes of local memory. */
__kernel void track_threshold(__global float *threshold, uint t_offset, __global float *dropped, uint d_offset,
                              __global const float *norms, uint offset, int stride, uint count, float4 constants) {
    __local float sums[SUMS];
    __local uint finite[SUMS], above[SUMS];
    const float2 followed =
        follow_threshold(sums, finite, above, threshold[t_offset], norms + offset, stride, count, constants);
    if (get_local_id(0) == 0) {
        threshold[t_offset] = followed.s0;
        dropped[d_offset] = followed.s1;
    }
}

/* The sums become those of squares of `count` elements times 2^-32. */
static void sum_squares(__local float *sums, __global const float *x, int stride, uint count) {
    FOR_EACH_SUM(sum) {
        floats total = (floats)(0.0f);
        for (uint i = sum; i < count; i += SUMS) {
            const floats scaled = load_run(x + (int)i * stride, stride, count - i) * 0x1p-32f;
            total += scaled * scaled;
        }
        STORE_LANES(total, sums + sum);
    }
}

/* The sums become those of `count` elements. */
static void sum_run(__local float *sums, __global const float *x, int stride, uint count) {
    FOR_EACH_SUM(sum) {
        floats total = (floats)(0.0f);
        for (uint i = sum; i < count; i += SUMS)
            total += load_run(x + (int)i * stride, stride, count - i);
        STORE_LANES(total, sums + sum);
    }
}

#if LANES == 1
/* partial_i = sum of squares of elements i block .. (i + 1) block - 1 of n, times 2^-64. A unit is a block, which a
 * work-group of any size takes. Cost: 3 flops and 4 bytes for each element; 256 bytes of local memory. */
__kernel void gradient_squares(__global float *partial, __global const float *gradient, uint offset, int stride, uint n,
                               uint block, uint2 units) {
    __local float sums[SUMS];
    FOR_EACH_GROUP(unit, units) {
        const uint start = unit * block;
        sum_squares(sums, gradient + offset + (int)start * stride, stride, min(block, n - start));
        const float total = add_sums(sums);
        if (get_local_id(0) == 0)
            partial[unit] = total;
    }
}
#endif

/*
 * The end of a training step. Every work-group takes the gradient's norm, and then its share of the parameters: a unit
 * is LANES of them. Group 0 also measures and follows the threshold. Offsets: parameters, first, second, measures;
 * threshold, gradient, losses, norms. Strides likewise. sizes: N, B, norms to follow, 1 or 2 for Adam and 0 for SGD.
 * limits: clip (0: none), 1 / B. rates: learning rate, decay factor 1 - rate * weight decay, epsilon, unused; moments:
 * beta1, 1 - beta1, beta2, 1 - beta2; corrections: 1 - beta1^step, 1 - beta2^step; for SGD rate and momentum in their
 * first elements; constants of next_threshold. decays: where sizes.s3 is 2, Adam with a mask: parameters whose element
 * is 0 do not decay; at_decays: its offset and stride. partials: how many sums of squares gradient_squares left in
 * `partial`; 0: none.
 *
 * Cost: 3 N flops and 4 N bytes for the norm in each group (1 and 4 for each partial sum, if there are), B and 4 B for
 * the loss, then for each parameter 14 flops and 28 bytes (Adam) or 4 and 20 (SGD).
 */
__kernel void update_step(__global float *parameters, __global float *first, __global float *second,
                          __global float *measures, __global float *threshold, __global const float *gradient,
                          __global const float *losses, __global const float *norms, __global const float *decays,
                          uint8 offsets, int8 strides, uint4 sizes, float2 limits, float4 rates, float4 moments,
                          float2 corrections, float4 constants, int2 at_decays, __global const float *partial,
                          uint partials) {
    __local float sums[SUMS];
    __local uint finite[SUMS], above[SUMS];
    const uint n = sizes.s0, batch = get_group_id(0) == 0 ? sizes.s1 : 0;
    __global const float *g = gradient + offsets.s5, *of_batch = losses + offsets.s6;
    if (partials > 0)
        sum_run(sums, partial, 1, partials);
    else
        sum_squares(sums, g, strides.s5, n);
    const float norm = sqrt(add_sums(sums)) * 0x1p32f;
    sum_run(sums, of_batch, strides.s6, batch);
    const float loss = add_sums(sums) * limits.s1;
    const uint followed = batch > 0 ? sizes.s2 : 0;
    const float limit = followed > 0 ? threshold[offsets.s4] : 0.0f;
    const float2 after =
        follow_threshold(sums, finite, above, limit, norms + offsets.s7, strides.s7, followed, constants);
    if (batch > 0 && get_local_id(0) == 0) {
        measures[offsets.s3] = loss;
        measures[(int)offsets.s3 + strides.s3] = norm;
        measures[(int)offsets.s3 + 2 * strides.s3] = after.s1;
        if (followed > 0)
            threshold[offsets.s4] = after.s0;
    }
    const float factor = limits.s0 > 0.0f && norm > limits.s0 ? limits.s0 / norm : 1.0f;
    const uint end = is_finite(norm) ? n : 0;
    FOR_EACH_UNIT((uint2)(0, (end + LANES - 1) / LANES)) {
        const uint i = unit * LANES, left = n - i;
        __global float *p_run = parameters + offsets.s0 + (int)i * strides.s0;
        __global float *m_run = first + offsets.s1 + (int)i * strides.s1;
        const floats clipped = load_run(g + (int)i * strides.s5, strides.s5, left) * factor;
        const floats p = load_run(p_run, strides.s0, left), old = load_run(m_run, strides.s1, left);
        if (sizes.s3) {
            __global float *v_run = second + offsets.s2 + (int)i * strides.s2;
            const floats m = moments.s0 * old + moments.s1 * clipped;
            const floats v = moments.s2 * load_run(v_run, strides.s2, left) + moments.s3 * (clipped * clipped);
            const floats step = (m / corrections.s0) / (sqrt(v / corrections.s1) + rates.s2);
            store_run(m, m_run, strides.s1, left);
            store_run(v, v_run, strides.s2, left);
            floats keep = (floats)(rates.s1);
            if (sizes.s3 > 1) {
                const floats decay = load_run(decays + at_decays.s0 + (int)i * at_decays.s1, at_decays.s1, left);
                keep = select((floats)(1.0f), keep, decay != (floats)(0.0f));
            }
            store_run(keep * p - rates.s0 * step, p_run, strides.s0, left);
        } else {
            const floats velocity = moments.s0 * old + clipped;
            store_run(velocity, m_run, strides.s1, left);
            store_run(p - rates.s0 * velocity, p_run, strides.s0, left);
        }
    }
}
