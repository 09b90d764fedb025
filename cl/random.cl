/*
 * Counter-based random numbers: the same bits as include/iclab/random.h on the host.
 *
 * Index mapping: a unit is LANES neighbouring Philox blocks, 4 * LANES elements. Cost per element: about 25 integer ops for the
 * word, 16 flops for a normal; 4 bytes written.
 */
#include "common.h"
#include "kinds.h"
#include "normal_table.h"

#define BLOCK       4
#define UNIT_LENGTH (BLOCK * LANES)

__constant float normal_table[ICL_NORMAL_TERMS][ICL_NORMAL_OCTAVES] = {ICL_NORMAL_TABLE};

/* Philox4x32-10; multipliers and Weyl increments of Salmon et al. 2011. Each lane is one block. */
static void philox(uints *c0, uints *c1, uints *c2, uints *c3, uint k0, uint k1) {
    for (int round_ = 0; round_ < 10; round_++) {
        const uints high0 = mul_hi((uints)(0xD2511F53u), *c0), low0 = (uints)(0xD2511F53u) * *c0;
        const uints high1 = mul_hi((uints)(0xCD9E8D57u), *c2), low1 = (uints)(0xCD9E8D57u) * *c2;
        *c0 = high1 ^ *c1 ^ (uints)(k0);
        *c1 = low1;
        *c2 = high0 ^ *c3 ^ (uints)(k1);
        *c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/* One row of the table, each lane from its own octave. */
static floats coefficients(int term, const uint *octave) {
#if LANES == 1
    return normal_table[term][*octave];
#else
    float lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = normal_table[term][octave[i]];
    return LOAD_LANES(lane);
#endif
}

/* The inverse normal CDF at (word + 1/2) / 2^32: random_words.h explains each step. */
static floats normal_from_word(uints word) {
    const uints upper = (uints)(0) - (word >> 31);
    const uints m = word ^ upper;
    const uints power = AS_UINTS(TO_FLOATS(AS_INTS(m & ~(m >> 1))));
    const uints octave = min((uints)(157u) - (power >> 23), (uints)(31u));
    const uints fraction = (((m * 2u + 1u) << octave) & 0x7fffffffu) >> 7;
    const floats r = TO_FLOATS(AS_INTS((uints)(0x1000000u) - fraction)) * 0x1p-24f;
    uint lane[LANES];
    STORE_LANES(octave, lane);
    floats value = coefficients(ICL_NORMAL_TERMS - 1, lane);
    for (int term = ICL_NORMAL_TERMS - 2; term >= 0; term--)
        value = value * r + coefficients(term, lane);
    return AS_FLOATS(AS_UINTS(value) ^ (upper & 0x80000000u));
}

static floats chosen(uints word, uint count, const float *choices) {
    const uints index = mul_hi(word, (uints)(count));
#if LANES == 1
    return choices[index];
#else
    uint at[LANES];
    float lane[LANES];
    STORE_LANES(index, at);
    for (int i = 0; i < LANES; i++)
        lane[i] = choices[at[i]];
    return LOAD_LANES(lane);
#endif
}

/*
 * Element k of the view (row-major in shape) gets number first + k of the fill; first = 4 * first_block + skip.
 * contiguous = 1: the view is one run of stride 1. range: low, high - low of a uniform distribution.
 */
__kernel void random_fill(__global float *out, uint out_offset, int4 out_stride, uint4 shape, uint contiguous,
                          uint count, uint units, uint seed, uint stream, uint2 step, ulong first_block,
                          uint skip, uint distribution, float2 range, uint choice_count, float16 choices) {
    float choice[16];
    vstore16(choices, 0, choice);
    for (uint unit = get_global_id(0); unit < units; unit += get_global_size(0)) {
        const ulong block = first_block + (ulong)unit * LANES;
        const uints low = LANE_NUMBERS + (uint)block;
        uints word[BLOCK];
        float value[BLOCK][LANES];
        float run[UNIT_LENGTH];
        word[0] = low;
        word[1] = (uints)((uint)(block >> 32)) + select((uints)(0u), (uints)(1u), low < (uints)((uint)block));
        word[2] = (uints)(step.s0);
        word[3] = (uints)(step.s1);
        philox(&word[0], &word[1], &word[2], &word[3], seed, stream);
        for (int w = 0; w < BLOCK; w++) {
            floats x;
            if (distribution == KIND_UNIFORM)
                x = range.s0 + range.s1 * (TO_FLOATS(AS_INTS(word[w] >> 8)) * 0x1p-24f);
            else if (distribution == KIND_NORMAL)
                x = normal_from_word(word[w]);
            else
                x = chosen(word[w], choice_count, choice);
            STORE_LANES(x, value[w]);
        }
        for (int i = 0; i < UNIT_LENGTH; i++)
            run[i] = value[i % BLOCK][i / BLOCK];
        /* run[i] is number 4 * block + i of the stream, so element unit * UNIT_LENGTH + i - skip of the view. */
        const uint before = unit == 0 ? skip : 0, start = unit * UNIT_LENGTH - (unit == 0 ? 0 : skip);
        const uint stored = min(count - start, (uint)UNIT_LENGTH - before);
        if (contiguous) {
            __global float *to = out + out_offset + start;
            for (uint i = 0; i < stored; i++)
                to[i] = run[before + i];
        } else {
            for (uint i = 0; i < stored; i++)
                out[out_offset + dot_position(element_position(start + i, shape), out_stride)] = run[before + i];
        }
    }
}
