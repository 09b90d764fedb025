/*
 * Short causal convolutions with a filter for each channel, and their gradients, with the bits that
 * include/iclab/ops_sequence.h states for icl_convolve and icl_convolve_backward.
 *
 * Strides are of sequence, token and channel (s1, s2, s3), of the kernel of tap and channel (s2, s3). sizes: tokens,
 * channels, width, tokens of a block. A sequence walked backwards in time has a negative stride of tokens.
 */
#include "common.h"

/* Multiplies LANES channels. is_dense is known at compile time: LANES channels lie side by side. */
static floats load_channels(__global const float *from, int step, uint left, uint is_dense) {
    return is_dense ? LOAD_ANYWHERE(from) : load_run(from, step, left);
}

/* Returns one token: the sum over the taps from `first` on, whose first input stands at `in`. */
static floats filter_token(__global const float *in, int in_time, int in_step, __global const float *taps,
                           int2 tap_stride, uint first, uint width, uint left, uint is_dense) {
    floats sum = (floats)(0.0f);
    for (uint j = first; j < width; j++)
        sum += load_channels(taps + (int)j * tap_stride.s0, tap_stride.s1, left, is_dense) *
               load_channels(in + (int)j * in_time, in_step, left, is_dense);
    return sum;
}

/* Filters tokens that have all of their taps, a number known at compile time: the taps stay in registers, and the loop
 * over tokens has no loop inside. The sums are those of filter_token. */
#define FILTER_TOKENS(name, TAPS, SUMS)                                                                                \
    static void name(__global float *out, int out_time, __global const float *in, int in_time,                         \
                     __global const float *taps, int tap_stride, uint tokens) {                                        \
        TAPS for (uint t = 0; t < tokens; t++, in += in_time, out += out_time) {                                       \
            floats sum = (floats)(0.0f);                                                                               \
            SUMS STORE_ANYWHERE(sum, out);                                                                             \
        }                                                                                                              \
    }
#define TAP(j)  const floats tap##j = LOAD_ANYWHERE(taps + (j)*tap_stride);
#define ADD(j)  sum += tap##j * LOAD_ANYWHERE(in + (j)*in_time);
#define TO_2(X) X(0) X(1)
#define TO_3(X) TO_2(X) X(2)
#define TO_4(X) TO_3(X) X(3)
FILTER_TOKENS(filter_1, TAP(0), ADD(0))
FILTER_TOKENS(filter_2, TO_2(TAP), TO_2(ADD))
FILTER_TOKENS(filter_3, TO_3(TAP), TO_3(ADD))
FILTER_TOKENS(filter_4, TO_4(TAP), TO_4(ADD))

/* out_t = sum_j kernel_j in_(t - (width - 1) + j). A unit is LANES channels of `run` tokens of a sequence; `run` is 1
 * on GPUs, where neighbouring units are neighbouring channels. A sequence has `runs` units, a token `blocks`. Cost for
 * each element: 2 width flops; 8 bytes, and what the caches keep. */
__kernel void convolve(__global float *out, uint out_offset, int4 out_stride, __global const float *in, uint in_offset,
                       int4 in_stride, __global const float *kernel_, uint kernel_offset, int4 kernel_stride,
                       uint4 sizes, uint run, uint runs, uint blocks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint sequence = unit / (runs * blocks), rest = unit - sequence * (runs * blocks);
        const uint channel = (rest % blocks) * LANES, first = rest / blocks * run, end = min(first + run, sizes.s0);
        const uint left = sizes.s1 - channel, width = sizes.s2;
        const int at_in = (int)sequence * in_stride.s1 + (int)channel * in_stride.s3;
        const int at_out = (int)sequence * out_stride.s1 + (int)channel * out_stride.s3;
        __global const float *taps = kernel_ + kernel_offset + (int)channel * kernel_stride.s3;
        const uint is_dense = left >= LANES && in_stride.s3 == 1 && kernel_stride.s3 == 1;
        const uint is_short = width >= 1 && width <= 4 && is_dense && out_stride.s3 == 1;
        const uint full = is_short ? min(max(first, width - 1), end) : end; /* from here on as one */
        for (uint t = first; t < full; t++) {
            const uint tap = t + 1 < width ? width - 1 - t : 0;
            __global const float *from = in + ((int)in_offset + at_in + ((int)t - (int)(width - 1)) * in_stride.s2);
            const floats sum =
                is_dense ? filter_token(from, in_stride.s2, 1, taps, kernel_stride.s23, tap, width, left, 1)
                         : filter_token(from, in_stride.s2, in_stride.s3, taps, kernel_stride.s23, tap, width, left, 0);
            store_run(sum, out + ((int)out_offset + at_out + (int)t * out_stride.s2), out_stride.s3, left);
        }
        if (full < end) {
            __global const float *from = in + ((int)in_offset + at_in + ((int)full - (int)(width - 1)) * in_stride.s2);
            __global float *to = out + ((int)out_offset + at_out + (int)full * out_stride.s2);
            if (width == 1)
                filter_1(to, out_stride.s2, from, in_stride.s2, taps, kernel_stride.s2, end - full);
            else if (width == 2)
                filter_2(to, out_stride.s2, from, in_stride.s2, taps, kernel_stride.s2, end - full);
            else if (width == 3)
                filter_3(to, out_stride.s2, from, in_stride.s2, taps, kernel_stride.s2, end - full);
            else
                filter_4(to, out_stride.s2, from, in_stride.s2, taps, kernel_stride.s2, end - full);
        }
    }
}

/* Returns the sum over tokens t in [first, end) of d_out_t in_(t - back), for LANES channels. */
static floats sum_tokens(__global const float *d_out, int out_time, int out_step, __global const float *in, int in_time,
                         int in_step, uint first, uint end, uint back, uint left, uint is_dense) {
    floats sum = (floats)(0.0f);
    for (uint t = first; t < end; t++)
        sum += load_channels(d_out + (int)t * out_time, out_step, left, is_dense) *
               load_channels(in + (int)(t - back) * in_time, in_step, left, is_dense);
    return sum;
}

/* The number of taps of a unit: one on GPUs; on CPUs as many as keep an adder busy, which all read the same d_out. */
#if LANES == 1
#define TOGETHER 1u
#else
#define TOGETHER 4u
#endif

#if TOGETHER > 1
/* Computes TOGETHER such sums side by side, for the taps `back`, `back` - 1, ... before d_out; they lie `stride`
 * apart. */
static void sum_together(__global float *sums, uint stride, __global const float *d_out, int out_time,
                         __global const float *in, int in_time, uint first, uint end, uint back) {
    floats sum0 = (floats)(0.0f), sum1 = sum0, sum2 = sum0, sum3 = sum0;
    d_out += (int)first * out_time;
    in += ((int)first - (int)back) * in_time;
    for (uint t = first; t < end; t++, d_out += out_time, in += in_time) {
        const floats factor = LOAD_ANYWHERE(d_out);
        sum0 += factor * LOAD_ANYWHERE(in);
        sum1 += factor * LOAD_ANYWHERE(in + in_time);
        sum2 += factor * LOAD_ANYWHERE(in + 2 * in_time);
        sum3 += factor * LOAD_ANYWHERE(in + 3 * in_time);
    }
    STORE_ANYWHERE(sum0, sums);
    STORE_ANYWHERE(sum1, sums + stride);
    STORE_ANYWHERE(sum2, sums + 2 * stride);
    STORE_ANYWHERE(sum3, sums + 3 * stride);
}
#endif

/*
 * sums[block, j, channel] = sum over the tokens t of the block of d_out_t in_(t - (width - 1) + j). A unit is LANES
 * channels of TOGETHER taps in a block of tokens; `runs` of them are a sequence, `blocks` the taps. Cost of a unit and
 * tap: 2 flops, 8 bytes a token.
 */
__kernel void convolve_taps(__global float *sums, __global const float *d_out, uint out_offset, int4 out_stride,
                            __global const float *in, uint in_offset, int4 in_stride, uint4 sizes, uint runs,
                            uint blocks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint width = sizes.s2, groups = (width + TOGETHER - 1) / TOGETHER;
        const uint above = unit / blocks, channel = (unit - above * blocks) * LANES, left = sizes.s1 - channel;
        const uint item = above / groups, first_tap = (above - item * groups) * TOGETHER;
        const uint last_tap = min(first_tap + TOGETHER, width);
        const uint sequence = item / runs, start = (item - sequence * runs) * sizes.s3;
        const uint end = min(start + sizes.s3, sizes.s0);
        __global const float *from = in + (in_offset + (int)sequence * in_stride.s1 + (int)channel * in_stride.s3);
        __global const float *factor =
            d_out + (out_offset + (int)sequence * out_stride.s1 + (int)channel * out_stride.s3);
        const uint is_dense = left >= LANES && in_stride.s3 == 1 && out_stride.s3 == 1;
        __global float *to = sums + (item * width + first_tap) * sizes.s1 + channel;
#if TOGETHER > 1
        const uint most = width - 1 - first_tap; /* tokens that a tap lies back */
        if (is_dense && first_tap + TOGETHER <= width && start >= most) {
            sum_together(to, sizes.s1, factor, out_stride.s2, from, in_stride.s2, start, end, most);
            continue;
        }
#endif
        for (uint tap = first_tap; tap < last_tap; tap++, to += sizes.s1) {
            const uint back = width - 1 - tap, first = max(start, back);
            const floats sum =
                is_dense ? sum_tokens(factor, out_stride.s2, 1, from, in_stride.s2, 1, first, end, back, left, 1)
                         : sum_tokens(factor, out_stride.s2, out_stride.s3, from, in_stride.s2, in_stride.s3, first,
                                      end, back, left, 0);
            store_run(sum, to, 1, left);
        }
    }
}

#define SUM_FAN 32u

/* Computes one level of the sum over blocks: group g becomes the sum of the rows from 32 g on of `from`,
 * [count][width][channels]. A unit is LANES channels of one tap of a group; a tap has `blocks` units. Cost of a unit:
 * 32 flops, 128 bytes. */
__kernel void convolve_sum(__global float *to, uint to_offset, int group_stride, int4 to_stride,
                           __global const float *from, uint count, uint4 sizes, uint blocks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint width = sizes.s2, above = unit / blocks, channel = (unit - above * blocks) * LANES;
        const uint group = above / width, tap = above - group * width, left = sizes.s1 - channel;
        const uint end = min((group + 1) * SUM_FAN, count);
        floats sum = (floats)(0.0f);
        for (uint i = group * SUM_FAN; i < end; i++)
            sum += load_run(from + (i * width + tap) * sizes.s1 + channel, 1, left);
        store_run(sum,
                  to + (to_offset + (int)group * group_stride + (int)tap * to_stride.s2 + (int)channel * to_stride.s3),
                  to_stride.s3, left);
    }
}
