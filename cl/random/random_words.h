/*
 * Philox words and normals in lanes, for every kernel that draws random numbers: the same bits as
 * include/iclab/random.h on the host. Included after common.h. Cost: about 25 integer ops a word, 16 flops a normal.
 */
#ifndef ICL_RANDOM_WORDS_H
#define ICL_RANDOM_WORDS_H

#include "../../include/iclab/kinds.h"
#include "normal_table.h"

#define BLOCK 4 /* words of a Philox block */

__constant float normal_table[ICL_NORMAL_TERMS][ICL_NORMAL_OCTAVES] = {ICL_NORMAL_TABLE};

/* Philox4x32-10: multipliers and Weyl increments of Salmon et al. 2011. */
#define PHILOX_ROUNDS       10
#define PHILOX_MULTIPLIER_0 0xD2511F53u
#define PHILOX_MULTIPLIER_1 0xCD9E8D57u
#define PHILOX_KEY_0        0x9E3779B9u
#define PHILOX_KEY_1        0xBB67AE85u

/* One block of words. */
static void philox_block(uint *c0, uint *c1, uint *c2, uint *c3, uint k0, uint k1) {
    for (int round_ = 0; round_ < PHILOX_ROUNDS; round_++) {
        const uint high0 = mul_hi(PHILOX_MULTIPLIER_0, *c0), low0 = *c0 * PHILOX_MULTIPLIER_0;
        const uint high1 = mul_hi(PHILOX_MULTIPLIER_1, *c2), low1 = *c2 * PHILOX_MULTIPLIER_1;
        *c0 = high1 ^ *c1 ^ k0;
        *c1 = low1;
        *c2 = high0 ^ *c3 ^ k1;
        *c3 = low0;
        k0 += PHILOX_KEY_0;
        k1 += PHILOX_KEY_1;
    }
}

#if LANES == 1
#define philox philox_block
#else
/* Vector units multiply the low halves of 64-bit lanes and have no instruction for a high half. So even and odd lanes
 * are kept apart, a counter word in the low half of 64 bits; no product looks at what the upper half holds. */
#define AS_ULONGS(x) ICL_PASTE(as_ulong, HALF_LANES)(x)
#if LANES == 4
#define HALF_LANES 2
typedef ulong2 ulongs;
#elif LANES == 8
#define HALF_LANES 4
typedef ulong4 ulongs;
#else
#define HALF_LANES 8
typedef ulong8 ulongs;
#endif
#define LOW_HALF        ((ulongs)(0xffffffffUL))
#define WIDE(factor, x) (((x)&LOW_HALF) * (ulongs)(factor))

static void philox(uints *c0, uints *c1, uints *c2, uints *c3, uint k0, uint k1) {
    ulongs x0[2] = {AS_ULONGS(*c0), AS_ULONGS(*c0) >> 32}, x1[2] = {AS_ULONGS(*c1), AS_ULONGS(*c1) >> 32},
           x2[2] = {AS_ULONGS(*c2), AS_ULONGS(*c2) >> 32}, x3[2] = {AS_ULONGS(*c3), AS_ULONGS(*c3) >> 32};
    UNROLL for (int round_ = 0; round_ < PHILOX_ROUNDS; round_++) {
        UNROLL for (int odd = 0; odd < 2; odd++) {
            const ulongs product0 = WIDE(PHILOX_MULTIPLIER_0, x0[odd]);
            const ulongs product1 = WIDE(PHILOX_MULTIPLIER_1, x2[odd]);
            x0[odd] = (product1 >> 32) ^ x1[odd] ^ (ulongs)((ulong)k0);
            x1[odd] = product1;
            x2[odd] = (product0 >> 32) ^ x3[odd] ^ (ulongs)((ulong)k1);
            x3[odd] = product0;
        }
        k0 += PHILOX_KEY_0;
        k1 += PHILOX_KEY_1;
    }
    *c0 = AS_UINTS((x0[0] & LOW_HALF) | x0[1] << 32);
    *c1 = AS_UINTS((x1[0] & LOW_HALF) | x1[1] << 32);
    *c2 = AS_UINTS((x2[0] & LOW_HALF) | x2[1] << 32);
    *c3 = AS_UINTS((x3[0] & LOW_HALF) | x3[1] << 32);
}
#endif

/* PICK(at) takes element at[lane] of a row of LANES neighbours into each lane. It is one instruction where the compiler
 * knows it; PoCL and others make a load for each lane of the standard's shuffle. Only the bits of `at` below LANES
 * count. */
#if LANES >= 8
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define PICK(row, at) __builtin_shufflevector(row, at)
#endif
#endif
#ifndef PICK
#define PICK(row, at) shuffle(row, at)
#endif
#endif

/* Finds where a word falls in the table; random_words.h explains each step. */
typedef struct normal_place {
    uints octave, sign;
    floats r;
} normal_place;

static normal_place locate(uints word) {
    const uints upper = (uints)(0) - (word >> 31);
    const uints m = word ^ upper;
    const uints power = AS_UINTS(TO_FLOATS(AS_INTS(m & ~(m >> 1))));
    const uints octave = min((uints)(157u) - (power >> 23), (uints)(31u));
    const uints fraction = (((m * 2u + 1u) << octave) & 0x7fffffffu) >> 7;
    const normal_place place = {octave, upper & 0x80000000u,
                                TO_FLOATS(AS_INTS((uints)(0x1000000u) - fraction)) * 0x1p-24f};
    return place;
}

/* Returns the coefficient of r^term, in each lane for its own octave. */
static floats coefficient(int term, uints octave) {
#if LANES == 1
    return normal_table[term][octave];
#else
    uint at[LANES];
    float lane[LANES];
    STORE_LANES(octave, at);
    for (int i = 0; i < LANES; i++)
        lane[i] = normal_table[term][at[i]];
    return LOAD_LANES(lane);
#endif
}

/* Evaluates the polynomials of a block's words side by side, so that products do not wait for one another's sums. */
#define POLYNOMIALS(COEFFICIENT)                                                                                       \
    UNROLL for (int term = ICL_NORMAL_TERMS - 1; term >= 0; term--) UNROLL for (int w = 0; w < BLOCK; w++) {           \
        const floats next = COEFFICIENT(term, at[w].octave);                                                           \
        value[w] = term == ICL_NORMAL_TERMS - 1 ? next : value[w] * at[w].r + next;                                    \
    }

/* Returns the inverse normal CDF at (word + 1/2) / 2^32 for a block's words. Nearly all words fall in the first
 * octaves, which are one row of lanes. */
static void normals_from_words(const uints *word, floats *value) {
    normal_place at[BLOCK];
    UNROLL for (int w = 0; w < BLOCK; w++) at[w] = locate(word[w]);
#if LANES >= 8
#define NEAR_COEFFICIENT(term, octave) PICK(LOAD_LANES(normal_table[term]), octave)
    const uints most = max(max(at[0].octave, at[1].octave), max(at[2].octave, at[3].octave));
    if (!any(most >= (uints)(LANES))) {
        POLYNOMIALS(NEAR_COEFFICIENT)
    } else
#endif
    {
        POLYNOMIALS(coefficient)
    }
    UNROLL for (int w = 0; w < BLOCK; w++) value[w] = AS_FLOATS(AS_UINTS(value[w]) ^ at[w].sign);
}

/* ---- Logarithms: src/arithmetic/random_words.h explains each step ---- */

#define LOG_2_HIGH 0x1.62e4p-1f
#define LOG_2_LOW  0x1.7f7d1cp-20f

static floats log_polynomial(floats g) {
    floats value = g * 0x1.1d8ea6p-4f - 0x1.d635bcp-4f;
    value = value * g + 0x1.dea282p-4f;
    value = value * g - 0x1.fcf4c6p-4f;
    value = value * g + 0x1.23d21ap-3f;
    value = value * g - 0x1.555b4ap-3f;
    value = value * g + 0x1.999d5ap-3f;
    value = value * g - 0x1.fffffcp-3f;
    return value * g + 0x1.555554p-2f;
}

static floats log_near_one(floats g) {
    const floats square = g * g;
    return g + (square * -0.5f + square * g * log_polynomial(g));
}

/* Returns -log((word + 1/2) / 2^32). */
static floats exponential_from_word(uints word) {
    const uints upper = (uints)(0) - (word >> 31), low = word & 0x7fffffffu;
    const uints power = AS_UINTS(TO_FLOATS(AS_INTS(low & ~(low >> 1))));
    const uints octave = min((uints)(158u) - (power >> 23), (uints)(32u));
    const uints shifted = (low * 2u + 1u) << ((octave - 1u) & 31u), n = (word & upper) | (shifted & ~upper);
    const uints near = (uints)(0) - ((n - 0xb504f334u) >> 31 ^ 1u); /* n and the limit have their upper bit set */
    const uints distance = (((uints)(0) - n - (upper & 1u)) & near) | ((n ^ 0x80000000u) & ~near);
    const floats whole = TO_FLOATS(AS_INTS(distance >> 12)) * 4096.0f + TO_FLOATS(AS_INTS(distance & 4095u));
    const floats half_step = AS_FLOATS(upper & 0x3f000000u),
                 unit = AS_FLOATS((near & 0xaf800000u) | (~near & 0x30000000u));
    const floats halvings = TO_FLOATS(AS_INTS((octave & ~upper) + (~near & 1u)));
    return (halvings * LOG_2_HIGH - log_near_one((whole + half_step) * unit)) + halvings * LOG_2_LOW;
}

/* Sixteen levels to choose from, as a kernel keeps them. On GPUs a private array whose index is known only at run time
 * is memory: one of a few registers is selected instead. */
#if LANES == 1
typedef float16 choice_table;
#define KEEP_CHOICES(kept, choices) const choice_table kept = choices

static float chosen(uint word, uint count, choice_table choices) {
    const uint index = mul_hi(word, count);
    const float8 eight = index & 8u ? choices.hi : choices.lo;
    const float4 four = index & 4u ? eight.hi : eight.lo;
    const float2 two = index & 2u ? four.hi : four.lo;
    return index & 1u ? two.s1 : two.s0;
}
#else
typedef const float *choice_table;
#define KEEP_CHOICES(kept, choices)                                                                                    \
    float kept[16];                                                                                                    \
    vstore16(choices, 0, kept)

static floats chosen(uints word, uint count, choice_table choices) {
    const uints index = mul_hi(word, (uints)(count));
    uint at[LANES];
    float lane[LANES];
    STORE_LANES(index, at);
    for (int i = 0; i < LANES; i++)
        lane[i] = choices[at[i]];
    return LOAD_LANES(lane);
}
#endif

#endif
