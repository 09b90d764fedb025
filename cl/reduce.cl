/*
 * Reductions over any axes, in a tree whose shape depends on the sizes alone.
 *
 * Index mapping: a unit is one chunk of the elements that one output, or LANES neighbours, are made from. Within a
 * chunk each lane adds `leaf` terms (32 at most) in sequence, lanes are added in pairs, and blocks of leaf * LANES
 * elements in pairs of equal size, smaller blocks last. Where an output needs several chunks, a second launch reduces
 * the partial results with leaf = 1, so that a term passes through at most 32 + ceil(log2 n) additions. Cost per input
 * element: 1 flop (2 for squares), 4 bytes.
 */
#include "../include/iclab/kinds.h"
#include "common.h"

/* Adds, or takes the larger one, where NaN wins. */
static floats combine(uint is_max, floats a, floats b) {
    return is_max ? select(fmax(a, b), a + b, isunordered(a, b)) : a + b;
}

static float combine_one(uint is_max, float a, float b) {
    return is_max ? (isunordered(a, b) ? a + b : fmax(a, b)) : a + b;
}

static float combine_lanes(uint is_max, floats x) {
#if LANES == 1
    return x;
#else
    float lane[LANES];
    STORE_LANES(x, lane);
    for (uint half_ = LANES / 2; half_ > 0; half_ /= 2)
        for (uint i = 0; i < half_; i++)
            lane[i] = combine_one(is_max, lane[i], lane[i + half_]);
    return lane[0];
#endif
}

/* Loads elements first .. first + count - 1 (at most LANES) of the reduced axes. The lanes beyond hold 0, or for a
 * maximum the first element again: no number is neutral there, not even -infinity. */
static floats load_reduced(__global const float *in, uint4 shape, int4 stride, uint merged, uint first, uint count,
                           uint is_max) {
#if LANES == 1
    return in[merged ? (int)first * stride.s3 : dot_position(element_position(first, shape), stride)];
#else
    float lane[LANES];
    if (merged && count >= LANES)
        return load_run(in + (int)first * stride.s3, stride.s3, count);
    STORE_LANES((floats)(0), lane);
    for (uint i = 0; i < min(count, (uint)LANES); i++)
        lane[i] = in[merged ? (int)(first + i) * stride.s3 : dot_position(element_position(first + i, shape), stride)];
    for (uint i = count; is_max && i < LANES; i++)
        lane[i] = lane[0];
    return LOAD_LANES(lane);
#endif
}

/* The tree over the blocks of a chunk works as a binary counter: results of 2^k blocks wait for as many more, larger
 * ones first. On CPUs they wait in a stack. A stack would be memory on GPUs, so that theirs wait in registers, one for
 * each k: as many as MOST_BLOCKS of reduce.c needs. */
#if LANES == 1
typedef struct tree {
    float level[20];
    uint blocks; /* so far */
} tree;

#define FIVE_LEVELS(DO, k) DO((k)) DO((k) + 1) DO((k) + 2) DO((k) + 3) DO((k) + 4)
#define EACH_LEVEL(DO)     FIVE_LEVELS(DO, 0) FIVE_LEVELS(DO, 5) FIVE_LEVELS(DO, 10) FIVE_LEVELS(DO, 15)

static void push(tree *to, uint is_max, float block) {
    const uint blocks = to->blocks++;
#define PUSH(k)                                                                                                        \
    if (!(blocks >> (k)&1u)) {                                                                                         \
        to->level[k] = block;                                                                                          \
        return;                                                                                                        \
    }                                                                                                                  \
    block = combine_one(is_max, to->level[k], block);
    EACH_LEVEL(PUSH)
}

static float result_of(const tree *of, uint is_max) {
    const uint blocks = of->blocks;
    float result = 0;
#define TAKE(k)                                                                                                        \
    if (blocks >> (k)&1u)                                                                                              \
        result = blocks & ((1u << (k)) - 1u) ? combine_one(is_max, of->level[k], result) : of->level[k];               \
    if (!(blocks >> (k) >> 1))                                                                                         \
        return result;
    EACH_LEVEL(TAKE)
    return result;
}
#else
typedef struct tree {
    float stack[32];
    uint blocks, depth; /* so far; of the stack */
} tree;

static void push(tree *to, uint is_max, float block) {
    for (uint full = to->blocks++; full & 1u; full >>= 1)
        block = combine_one(is_max, to->stack[--to->depth], block);
    to->stack[to->depth++] = block;
}

static float result_of(const tree *of, uint is_max) {
    uint depth = of->depth;
    float result = of->stack[--depth];
    while (depth > 0)
        result = combine_one(is_max, of->stack[--depth], result);
    return result;
}

/* As above, for LANES neighbouring outputs. */
typedef struct wide_tree {
    floats stack[32];
    uint blocks, depth;
} wide_tree;

static void push_wide(wide_tree *to, floats block) {
    for (uint full = to->blocks++; full & 1u; full >>= 1)
        block = to->stack[--to->depth] + block;
    to->stack[to->depth++] = block;
}

static floats wide_result_of(const wide_tree *of) {
    uint depth = of->depth;
    floats result = of->stack[--depth];
    while (depth > 0)
        result = of->stack[--depth] + result;
    return result;
}

/* Computes the sums of one block of `count` rows in LANES columns: vector l has the terms that lane l has of one
 * column. */
static floats add_block(__global const float *from, int stride, uint count) {
    floats lane[LANES];
    uint row = LANES;
    UNROLL for (uint l = 0; l < LANES; l++) lane[l] =
        l < count ? LOAD_ANYWHERE(from + (int)l * stride) : (floats)(0.0f);
    for (; row + LANES <= count; row += LANES)
        UNROLL for (uint l = 0; l < LANES; l++) lane[l] += LOAD_ANYWHERE(from + (int)(row + l) * stride);
    if (row < count)
        UNROLL for (uint l = 0; l < LANES; l++) lane[l] +=
            row + l < count ? LOAD_ANYWHERE(from + (int)(row + l) * stride) : (floats)(0.0f);
    UNROLL for (uint half_ = LANES / 2; half_ > 0; half_ /= 2) UNROLL for (uint l = 0; l < half_; l++) lane[l] +=
        lane[l + half_];
    return lane[0];
}

static floats add_columns(__global const float *from, int stride, uint count, uint leaf) {
    wide_tree sums;
    sums.blocks = sums.depth = 0;
    for (uint first = 0; first < count; first += leaf * LANES)
        push_wide(&sums, add_block(from + (int)first * stride, stride, min(leaf * LANES, count - first)));
    return wide_result_of(&sums);
}
#endif

/*
 * out[output, chunk] = reduction of elements chunk * chunk_length .. of the output's reduced axes.
 * kept: the axes that stay, with the input's and out's strides; reduced: the others (merged = 1: only the last is
 * used). flags: 1 = maximum instead of sum, 2 = square each element first, 4 = square root at the end. divisor: applied
 * last. columns: neighbouring outputs of a unit, 1 or, on CPUs for sums whose terms stand beside each other for
 * neighbouring outputs, LANES.
 */
__kernel void reduce(__global float *out, uint out_offset, int4 out_stride, int out_chunk_stride,
                     __global const float *in, uint in_offset, int4 kept_stride, uint4 kept, int4 reduced_stride,
                     uint4 reduced, uint merged, uint length, uint chunk_length, uint chunks, uint2 units, uint leaf,
                     uint flags, float divisor, uint columns) {
    const uint is_max = flags & 1u, squares = flags & 2u;
    FOR_EACH_UNIT(units) {
        const uint group = unit / chunks, output = group * columns, chunk = unit - group * chunks;
        const int4 at = element_position(output, kept);
        __global const float *from = in + in_offset + dot_position(at, kept_stride);
        const uint end = min((chunk + 1) * chunk_length, length);
        tree sums;
        sums.blocks = 0;
#if LANES > 1
        if (columns > 1) {
            const uint first = chunk * chunk_length;
            const floats total =
                add_columns(from + (int)first * reduced_stride.s3, reduced_stride.s3, end - first, leaf);
            store_run(total / divisor, out + out_offset + dot_position(at, out_stride) + (int)chunk * out_chunk_stride,
                      out_stride.s3, LANES);
            continue;
        }
        sums.depth = 0;
#endif
        for (uint first = chunk * chunk_length; first < end;) {
            floats sum = (floats)(0);
            for (uint term = 0; term < leaf && first < end; term++, first += LANES) {
                const floats x = load_reduced(from, reduced, reduced_stride, merged, first, end - first, is_max);
                const floats value = squares ? x * x : x;
                sum = term == 0 ? value : combine(is_max, sum, value);
            }
            push(&sums, is_max, combine_lanes(is_max, sum));
        }
        float result = result_of(&sums, is_max);
        result = flags & 4u ? sqrt(result) : result;
        out[out_offset + dot_position(at, out_stride) + (int)chunk * out_chunk_stride] = result / divisor;
    }
}

/* Whether candidate b, which comes later, beats a: larger, or the first NaN. */
static int beats(float b, float a) {
    return b > a || (isnan(b) && !isnan(a));
}

/* best[output, chunk], where[output, chunk] = the chunk's largest element and its index. A unit is a chunk; one
 * comparison an element. */
__kernel void argmax_chunks(__global float *best, __global uint *where, __global const float *in, uint in_offset,
                            int4 kept_stride, uint4 kept, int4 reduced_stride, uint4 reduced, uint length,
                            uint chunk_length, uint chunks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint output = unit / chunks, chunk = unit - output * chunks, first = chunk * chunk_length;
        __global const float *from = in + in_offset + dot_position(element_position(output, kept), kept_stride);
        const uint end = min(first + chunk_length, length);
        float value = from[dot_position(element_position(first, reduced), reduced_stride)];
        uint index = first;
        for (uint i = first + 1; i < end; i++) {
            const float candidate = from[dot_position(element_position(i, reduced), reduced_stride)];
            if (beats(candidate, value)) {
                value = candidate;
                index = i;
            }
        }
        best[unit] = value;
        where[unit] = index;
    }
}

/* out[output] = index of the best chunk's best. A unit is an output; one comparison a chunk. */
__kernel void argmax_final(__global float *out, uint out_offset, int4 out_stride, uint4 kept,
                           __global const float *best, __global const uint *where, uint chunks, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint first = unit * chunks;
        uint winner = first;
        for (uint i = first + 1; i < first + chunks; i++)
            if (beats(best[i], best[winner]))
                winner = i;
        out[out_offset + dot_position(element_position(unit, kept), out_stride)] = (float)where[winner];
    }
}
