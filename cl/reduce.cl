/*
 * Reductions over any axes, in a tree whose shape depends on the sizes alone.
 *
 * The elements that one output is made from form blocks of `leaf` terms (32 at most) in sequence for each lane; lanes
 * are added in pairs, and blocks in pairs of equal size, smaller blocks last. Where an output needs several chunks, a
 * second launch reduces the partial results with leaf = 1, so that a term passes through at most 32 + ceil(log2 n)
 * additions.
 *
 * Index mapping on CPUs: a unit is one chunk of one output, or of LANES neighbours. On GPUs a work-group of 64 takes
 * one chunk of some outputs, each of its work-items a block of BLOCK terms of one output, and pairs of blocks meet in
 * local memory (0.3 to 9 KiB). The tree does not depend on how many blocks a chunk has. Where neighbouring outputs have
 * neighbouring terms (reduce_columns), neighbouring work-items take neighbouring outputs; where the terms of one output
 * are neighbours (reduce_rows), the group loads them together. Cost per input element: 1 flop (2 for squares), 4 bytes.
 */
#include "../include/iclab/kinds.h"
#include "common.h"

/* Adds, or takes the larger one, where NaN wins. */
static float combine_one(uint is_max, float a, float b) {
    return is_max ? (isunordered(a, b) ? a + b : fmax(a, b)) : a + b;
}

/* Returns whether candidate b, which comes later, beats a: larger, or the first NaN. */
static int beats(float b, float a) {
    return b > a || (isnan(b) && !isnan(a));
}

#if LANES > 1

static floats combine(uint is_max, floats a, floats b) {
    return is_max ? select(fmax(a, b), a + b, isunordered(a, b)) : a + b;
}

static float combine_lanes(uint is_max, floats x) {
    float lane[LANES];
    STORE_LANES(x, lane);
    for (uint half_ = LANES / 2; half_ > 0; half_ /= 2)
        for (uint i = 0; i < half_; i++)
            lane[i] = combine_one(is_max, lane[i], lane[i + half_]);
    return lane[0];
}

/* Loads elements first .. first + count - 1 (at most LANES) of the reduced axes. The lanes beyond hold 0, or for a
 * maximum the first element again: no number is neutral there, not even -infinity. */
static floats load_reduced(__global const float *in, uint4 shape, int4 stride, uint merged, uint first, uint count,
                           uint is_max) {
    float lane[LANES];
    if (merged && count >= LANES)
        return load_run(in + (int)first * stride.s3, stride.s3, count);
    STORE_LANES((floats)(0), lane);
    for (uint i = 0; i < min(count, (uint)LANES); i++)
        lane[i] = in[merged ? (int)(first + i) * stride.s3 : dot_position(element_position(first + i, shape), stride)];
    for (uint i = count; is_max && i < LANES; i++)
        lane[i] = lane[0];
    return LOAD_LANES(lane);
}

/* The tree over the blocks of a chunk works as a binary counter: results of 2^k blocks wait in a stack for as many
 * more, larger ones first. */
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

/*
 * out[output, chunk] = reduction of elements chunk * chunk_length .. of the output's reduced axes.
 * kept: the axes that stay, with the input's and out's strides; reduced: the others (merged = 1: only the last is
 * used). flags: 1 = maximum instead of sum, 2 = square each element first, 4 = square root at the end. divisor: applied
 * last. columns: neighbouring outputs of a unit, 1 or, for sums whose terms stand beside each other for
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
        if (columns > 1) {
            const uint first = chunk * chunk_length;
            const floats total =
                add_columns(from + (int)first * reduced_stride.s3, reduced_stride.s3, end - first, leaf);
            store_run(total / divisor, out + out_offset + dot_position(at, out_stride) + (int)chunk * out_chunk_stride,
                      out_stride.s3, LANES);
            continue;
        }
        sums.depth = 0;
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

#else

#define REDUCE_ITEMS 64u /* of a work-group */
#define BLOCK_TERMS  32u
#define BLOCK_PITCH  (BLOCK_TERMS + 1) /* so that neighbours read different banks of local memory */

/* A work-item's part: its place in the group, its output, of which the group takes `slots` neighbouring blocks, and its
 * block. step: work-items from one block of an output to the next. */
typedef struct term_block {
    uint slot, slots, step, output, block, chunk;
} term_block;

/* Neighbouring work-items take neighbouring outputs; units run through the tiles of outputs first. */
static term_block block_in_columns(uint unit, uint slots, uint tiles) {
    const uint id = get_local_id(0), width = REDUCE_ITEMS / slots, chunk = unit / tiles, slot = id / width;
    const term_block at = {
        slot, slots, width, (unit - chunk * tiles) * width + (id - slot * width), chunk * slots + slot, chunk};
    return at;
}

/* They take neighbouring blocks; units run through the chunks first. */
static term_block block_in_rows(uint unit, uint slots, uint chunks) {
    const uint id = get_local_id(0), tile = unit / chunks, chunk = unit - tile * chunks, slot = id % slots;
    const term_block at = {slot, slots, 1, tile * (REDUCE_ITEMS / slots) + id / slots, chunk * slots + slot, chunk};
    return at;
}

/* Combines TERM(t), t < count, of a block of at most BLOCK_TERMS: in sequence, or, if in_pairs, as blocks are. */
#define REDUCE_BLOCK(result, count, TERM)                                                                              \
    do {                                                                                                               \
        float term_[BLOCK_TERMS];                                                                                      \
        UNROLL for (uint t_ = 0; t_ < BLOCK_TERMS; t_++) {                                                             \
            const float x_ = t_ < (count) ? (TERM(t_)) : 0.0f;                                                         \
            term_[t_] = squares ? x_ * x_ : x_;                                                                        \
        }                                                                                                              \
        if (in_pairs) {                                                                                                \
            UNROLL for (uint log_ = 0; log_ < 5; log_++) {                                                             \
                UNROLL for (uint t_ = 0; t_ < BLOCK_TERMS; t_ += 2u << log_) {                                         \
                    if (t_ + (1u << log_) < (count))                                                                   \
                        term_[t_] = combine_one(is_max, term_[t_], term_[t_ + (1u << log_)]);                          \
                }                                                                                                      \
            }                                                                                                          \
        } else {                                                                                                       \
            UNROLL for (uint t_ = 1; t_ < BLOCK_TERMS; t_++) {                                                         \
                if (t_ < (count))                                                                                      \
                    term_[0] = combine_one(is_max, term_[0], term_[t_]);                                               \
            }                                                                                                          \
        }                                                                                                              \
        (result) = term_[0];                                                                                           \
    } while (0)

/* Combines the blocks of an output in pairs; those of 2^k meet if both exist. The result is that of slot 0. */
static float combine_blocks(__local float *results, term_block at, uint blocks, uint is_max, float result) {
    const uint id = get_local_id(0);
    results[id] = result;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = 1; half_ < at.slots; half_ *= 2) {
        if (at.slot % (2 * half_) == 0 && at.block + half_ < blocks)
            results[id] = combine_one(is_max, results[id], results[id + half_ * at.step]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return results[id];
}

static float finish(float result, uint flags, float divisor) {
    return (flags & 4u ? sqrt(result) : result) / divisor;
}

/*
 * out[output, chunk] = reduction of the chunk's blocks, `slots` of them, of the output's reduced axes; other arguments
 * as above. share: outputs, slots, tiles of outputs and chunks. in_pairs: the terms of a block are partial results.
 */
__kernel __attribute__((reqd_work_group_size(REDUCE_ITEMS, 1, 1))) void
reduce_columns(__global float *out, uint out_offset, int4 out_stride, int out_chunk_stride, __global const float *in,
               uint in_offset, int4 kept_stride, uint4 kept, int4 reduced_stride, uint4 reduced, uint merged,
               uint length, uint4 share, uint2 units, uint in_pairs, uint flags, float divisor) {
    __local float results[REDUCE_ITEMS];
    const uint is_max = flags & 1u, squares = flags & 2u, blocks = (length + BLOCK_TERMS - 1) / BLOCK_TERMS;
    FOR_EACH_GROUP(unit, units) {
        const term_block at = block_in_columns(unit, share.s1, share.s2);
        const int4 position = element_position(min(at.output, share.s0 - 1), kept);
        __global const float *from = in + in_offset + dot_position(position, kept_stride);
        const uint first = at.block * BLOCK_TERMS, count = at.block < blocks ? min(BLOCK_TERMS, length - first) : 0;
        float result;
#define NEXT_TERM(t)  from[(int)(first + (t)) * reduced_stride.s3]
#define OTHER_TERM(t) from[dot_position(element_position(first + (t), reduced), reduced_stride)]
        if (merged)
            REDUCE_BLOCK(result, count, NEXT_TERM);
        else
            REDUCE_BLOCK(result, count, OTHER_TERM);
        result = combine_blocks(results, at, blocks, is_max, result);
        if (at.slot == 0 && at.output < share.s0)
            out[out_offset + dot_position(position, out_stride) + (int)at.chunk * out_chunk_stride] =
                finish(result, flags, divisor);
    }
}

/* The same reduction, and the group's blocks pass through local memory. */
__kernel __attribute__((reqd_work_group_size(REDUCE_ITEMS, 1, 1))) void
reduce_rows(__global float *out, uint out_offset, int4 out_stride, int out_chunk_stride, __global const float *in,
            uint in_offset, int4 kept_stride, uint4 kept, int4 reduced_stride, uint4 reduced, uint merged, uint length,
            uint4 share, uint2 units, uint in_pairs, uint flags, float divisor) {
    __local float tile[REDUCE_ITEMS * BLOCK_PITCH], results[REDUCE_ITEMS];
    __local int starts[REDUCE_ITEMS];
    const uint id = get_local_id(0), slots = share.s1, blocks = (length + BLOCK_TERMS - 1) / BLOCK_TERMS;
    const uint is_max = flags & 1u, squares = flags & 2u;
    FOR_EACH_GROUP(unit, units) {
        const term_block at = block_in_rows(unit, slots, share.s3);
        const int4 position = element_position(min(at.output, share.s0 - 1), kept);
        const uint count = at.block < blocks ? min(BLOCK_TERMS, length - at.block * BLOCK_TERMS) : 0;
        __global const float *from = in + in_offset;
        float result;
        starts[id] = dot_position(position, kept_stride);
        barrier(CLK_LOCAL_MEM_FENCE);
        _Pragma("unroll 8") for (uint i = id; i < REDUCE_ITEMS * BLOCK_TERMS; i += REDUCE_ITEMS) {
            const uint item = i / BLOCK_TERMS, t = i % BLOCK_TERMS;
            const uint term = (at.chunk * slots + item % slots) * BLOCK_TERMS + t;
            if (term < length)
                tile[item * BLOCK_PITCH + t] =
                    from[starts[item] + (merged ? (int)term * reduced_stride.s3
                                                : dot_position(element_position(term, reduced), reduced_stride))];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
#define TILE_TERM(t)  tile[id * BLOCK_PITCH + (t)]
        REDUCE_BLOCK(result, count, TILE_TERM);
        result = combine_blocks(results, at, blocks, is_max, result);
        if (at.slot == 0 && at.output < share.s0)
            out[out_offset + dot_position(position, out_stride) + (int)at.chunk * out_chunk_stride] =
                finish(result, flags, divisor);
    }
}

/* Returns whether one candidate beats another: beats() where their order is not known. */
static int wins(float b, uint index_of_b, float a, uint index_of_a) {
    return index_of_b > index_of_a ? beats(b, a) : !beats(a, b);
}

/*
 * best[chunk, output], where[chunk, output] = the chunk's largest element and its index; the index alone goes into out
 * if there is one chunk. share and chunks as above, but a work-item takes every `slots`-th term of a chunk. in_rows:
 * work-items have places as in reduce_rows. has_indices: the elements are those of best, their indices in `indices`.
 */
__kernel __attribute__((reqd_work_group_size(REDUCE_ITEMS, 1, 1))) void
argmax_teams(__global float *out, uint out_offset, int4 out_stride, __global float *best, __global uint *where,
             __global const float *in, uint in_offset, __global const uint *indices, uint has_indices, int4 kept_stride,
             uint4 kept, int4 reduced_stride, uint4 reduced, uint merged, uint length, uint4 share, uint2 units,
             uint in_rows) {
    __local float values[REDUCE_ITEMS];
    __local uint numbers[REDUCE_ITEMS];
    const uint id = get_local_id(0), slots = share.s1;
    FOR_EACH_GROUP(unit, units) {
        const term_block at = in_rows ? block_in_rows(unit, slots, share.s3) : block_in_columns(unit, slots, share.s2);
        const int4 position = element_position(min(at.output, share.s0 - 1), kept);
        const int start = dot_position(position, kept_stride);
        const uint first = at.chunk * slots * BLOCK_TERMS, end = min(first + slots * BLOCK_TERMS, length);
        float value = -INFINITY;
        uint number = 0xffffffffu; /* of no element */
        for (uint i = first + at.slot; i < end; i += slots) {
            const int to = start + (merged ? (int)i * reduced_stride.s3
                                           : dot_position(element_position(i, reduced), reduced_stride));
            const float candidate = in[(int)in_offset + to];
            if (number == 0xffffffffu || beats(candidate, value)) {
                value = candidate;
                number = has_indices ? indices[to] : i;
            }
        }
        values[id] = value;
        numbers[id] = number;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint half_ = slots / 2; half_ > 0; half_ /= 2) {
            const uint other = id + half_ * at.step;
            if (at.slot < half_ && wins(values[other], numbers[other], values[id], numbers[id])) {
                values[id] = values[other];
                numbers[id] = numbers[other];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        if (at.slot == 0 && at.output < share.s0) {
            if (share.s3 == 1) {
                out[out_offset + dot_position(position, out_stride)] = (float)numbers[id];
            } else {
                best[at.chunk * share.s0 + at.output] = values[id];
                where[at.chunk * share.s0 + at.output] = numbers[id];
            }
        }
    }
}
#endif
