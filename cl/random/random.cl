/*
 * Counter-based random numbers: the same bits as include/iclab/random.h on the host.
 *
 * Index mapping: a unit is LANES neighbouring Philox blocks, 4 * LANES elements. Cost per element: see random_words.h;
 * 4 bytes written.
 */
#include "../common.h"
#include "random_words.h"

#define UNIT_LENGTH (BLOCK * LANES)

/* The numbers of a unit, in order: run[BLOCK * lane + w] = value[w][lane]. A GPU keeps its four in registers: see
 * choice_table. */
#if LANES == 1
typedef float4 unit_run;

static void interleave(const float *value, float4 *run) {
    *run = (float4)(value[0], value[1], value[2], value[3]);
}

static float run_element(float4 run, uint i) {
    const float2 two = i & 2u ? run.hi : run.lo;
    return i & 1u ? two.s1 : two.s0;
}
#define ELEMENT(run, i) run_element(run, i)
#else
typedef const float *unit_run;
#define ELEMENT(run, i) ((run)[i])

static void interleave(const floats *value, float *run) {
    floats low02, high02, low13, high13, part;
    low02.even = value[0].lo, low02.odd = value[2].lo;
    high02.even = value[0].hi, high02.odd = value[2].hi;
    low13.even = value[1].lo, low13.odd = value[3].lo;
    high13.even = value[1].hi, high13.odd = value[3].hi;
    part.even = low02.lo, part.odd = low13.lo;
    STORE_LANES(part, run);
    part.even = low02.hi, part.odd = low13.hi;
    STORE_LANES(part, run + LANES);
    part.even = high02.lo, part.odd = high13.lo;
    STORE_LANES(part, run + 2 * LANES);
    part.even = high02.hi, part.odd = high13.hi;
    STORE_LANES(part, run + 3 * LANES);
}
#endif

/* Writes the numbers run[before] to run[end - 1] to a view's elements from `element` on, in row-major order. It goes
 * row by row, because a division for each element takes as long as making the number. */
static void scatter_run(__global float *out, int4 stride, uint4 shape, uint element, unit_run run, uint before,
                        uint end) {
    const uint first_row = element / shape.s3;
    const int4 at = row_position(first_row, shape);
    uint column = element - first_row * shape.s3, row = (uint)at.s2, above = (uint)at.s1;
    out += dot_position(at, stride);
    for (uint done = before; done < end;) {
        const uint length = min(end - done, shape.s3 - column);
        __global float *to = out + (int)column * stride.s3;
        uint i = 0;
#if LANES > 1
        if (stride.s3 == 1) {
            for (; i + LANES <= length; i += LANES)
                STORE_ANYWHERE(LOAD_LANES(run + done + i), to + i);
            COPY_RUN(to + i, run + done + i, length - i);
            i = length;
        }
#endif
        for (; i < length; i++)
            to[(int)i * stride.s3] = ELEMENT(run, done + i);
        done += length;
        column = 0;
        out += stride.s2;
        if (++row < shape.s2)
            continue;
        row = 0;
        out += stride.s1 - (int)shape.s2 * stride.s2;
        if (++above < shape.s1)
            continue;
        above = 0;
        out += stride.s0 - (int)shape.s1 * stride.s1;
    }
}

/*
 * Element k of the view (row-major in shape) gets number first + k of the fill; first = 4 * first_block + skip.
 * contiguous = 1: the view is one run of stride 1. range: low, high - low of a uniform distribution.
 */
__kernel void random_fill(__global float *out, uint out_offset, int4 out_stride, uint4 shape, uint contiguous,
                          uint count, uint2 units, uint seed, uint stream, uint2 step, ulong first_block, uint skip,
                          uint distribution, float2 range, uint choice_count, float16 choices) {
    KEEP_CHOICES(choice, choices);
    FOR_EACH_UNIT(units) {
        const ulong block = first_block + (ulong)unit * LANES;
        const uints low = LANE_NUMBERS + (uint)block;
        uints word[BLOCK];
        floats value[BLOCK];
#if LANES == 1
        float4 run;
#else
        float run[UNIT_LENGTH];
#endif
        word[0] = low;
        word[1] = (uints)((uint)(block >> 32)) + select((uints)(0u), (uints)(1u), low < (uints)((uint)block));
        word[2] = (uints)(step.s0);
        word[3] = (uints)(step.s1);
        philox(&word[0], &word[1], &word[2], &word[3], seed, stream);
        if (distribution == ICL_NORMAL)
            normals_from_words(word, value);
        else if (distribution == ICL_EXPONENTIAL_LAW)
            UNROLL for (int w = 0; w < BLOCK; w++) value[w] = exponential_from_word(word[w]);
        else
            UNROLL for (int w = 0; w < BLOCK; w++) value[w] =
                distribution == ICL_UNIFORM ? range.s0 + range.s1 * (TO_FLOATS(AS_INTS(word[w] >> 8)) * 0x1p-24f)
                                            : chosen(word[w], choice_count, choice);
#if LANES == 1
        interleave(value, &run);
#else
        interleave(value, run);
#endif
        /* run[i] is number 4 * block + i of the stream, so element unit * UNIT_LENGTH + i - skip of the view. */
        const uint before = unit == 0 ? skip : 0, start = unit * UNIT_LENGTH - (unit == 0 ? 0 : skip);
        const uint stored = min(count - start, (uint)UNIT_LENGTH - before);
        if (contiguous) {
            __global float *to = out + out_offset + start;
            if (stored == UNIT_LENGTH) {
#if LANES == 1
                vstore4(run, 0, to);
#else
                for (int w = 0; w < BLOCK; w++)
                    STORE_LANES(LOAD_LANES(run + w * LANES), to + w * LANES);
#endif
            } else {
                for (uint i = 0; i < stored; i++)
                    to[i] = ELEMENT(run, before + i);
            }
        } else {
            scatter_run(out + out_offset, out_stride, shape, start, run, before, before + stored);
        }
    }
}
