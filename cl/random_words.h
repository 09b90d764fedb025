/*
 * Philox words and normals in lanes, for every kernel that draws random numbers: the same bits as include/iclab/random.h on the
 * host. Included after common.h. Cost: about 25 integer ops a word, 16 flops a normal.
 */
#ifndef ICL_RANDOM_WORDS_H
#define ICL_RANDOM_WORDS_H

#include "kinds.h"
#include "normal_table.h"

#define BLOCK 4 /* words of a Philox block */

#if LANES > 1
#define EVEN(a, b) ((floats)((a).even, (b).even))
#define ODD(a, b)  ((floats)((a).odd, (b).odd))
#endif

__constant float normal_table[ICL_NORMAL_TERMS][ICL_NORMAL_OCTAVES] = {ICL_NORMAL_TABLE};

#if LANES == 1
#define MULTIPLY_HIGH(factor, x) mul_hi((uints)(factor), x)
#else
/* 64-bit products of the even and of the odd lanes: vector units have an instruction for these, and none for a high half. */
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
static uints multiply_high(uint factor, uints x) {
    const ulongs low_half = (ulongs)(0xffffffffUL), pairs = AS_ULONGS(x);
    const ulongs even = (pairs & low_half) * (ulongs)((ulong)factor),
                 odd = (pairs >> 32) * (ulongs)((ulong)factor);
    return AS_UINTS((even >> 32) | (odd & ~low_half));
}
#define MULTIPLY_HIGH(factor, x) multiply_high(factor, x)
#endif

/* Philox4x32-10; multipliers and Weyl increments of Salmon et al. 2011. Each lane is one block. */
static void philox(uints *c0, uints *c1, uints *c2, uints *c3, uint k0, uint k1) {
    for (int round_ = 0; round_ < 10; round_++) {
        const uints high0 = MULTIPLY_HIGH(0xD2511F53u, *c0), low0 = *c0 * 0xD2511F53u;
        const uints high1 = MULTIPLY_HIGH(0xCD9E8D57u, *c2), low1 = *c2 * 0xCD9E8D57u;
        *c0 = high1 ^ *c1 ^ (uints)(k0);
        *c1 = low1;
        *c2 = high0 ^ *c3 ^ (uints)(k1);
        *c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
}

/*
 * The table as a work-item keeps it. Lanes of 8 and more: the first 8 coefficients of each octave side by side, so that a lane
 * fetches them with one load, and then the ninth of each.
 */
#if LANES >= 8
#define TABLE_LENGTH (ICL_NORMAL_TERMS * ICL_NORMAL_OCTAVES)
static void prepare_table(float *table) {
    for (int octave = 0; octave < ICL_NORMAL_OCTAVES; octave++)
        for (int term = 0; term < ICL_NORMAL_TERMS; term++)
            table[term < 8 ? 8 * octave + term : 8 * ICL_NORMAL_OCTAVES + octave] =
                normal_table[term][octave];
}

/* column[term] = element `term` of each lane's row of eight, of which row[i] holds LANES / 8: a transposition in three rounds of
 * taking even and odd columns apart. */
static void transpose_eight(const floats *row, floats *column) {
    const floats e0 = EVEN(row[0], row[1]), e1 = EVEN(row[2], row[3]), e2 = EVEN(row[4], row[5]),
                 e3 = EVEN(row[6], row[7]), o0 = ODD(row[0], row[1]), o1 = ODD(row[2], row[3]),
                 o2 = ODD(row[4], row[5]), o3 = ODD(row[6], row[7]);
    const floats ee0 = EVEN(e0, e1), ee1 = EVEN(e2, e3), eo0 = ODD(e0, e1), eo1 = ODD(e2, e3);
    const floats oe0 = EVEN(o0, o1), oe1 = EVEN(o2, o3), oo0 = ODD(o0, o1), oo1 = ODD(o2, o3);
    column[0] = EVEN(ee0, ee1), column[4] = ODD(ee0, ee1);
    column[2] = EVEN(eo0, eo1), column[6] = ODD(eo0, eo1);
    column[1] = EVEN(oe0, oe1), column[5] = ODD(oe0, oe1);
    column[3] = EVEN(oo0, oo1), column[7] = ODD(oo0, oo1);
}

/* coefficient[term], each lane from its own octave. */
static void coefficients(const uint *octave, const float *table, floats *coefficient) {
    floats row[8];
    float ninth[LANES];
    for (int i = 0; i < 8; i++)
#if LANES == 16
        row[i] = (floats)(vload8(octave[2 * i], table), vload8(octave[2 * i + 1], table));
#else
        row[i] = vload8(octave[i], table);
#endif
    transpose_eight(row, coefficient);
    for (int i = 0; i < LANES; i++)
        ninth[i] = table[8 * ICL_NORMAL_OCTAVES + octave[i]];
    coefficient[8] = LOAD_LANES(ninth);
}
#else
#define TABLE_LENGTH 1
static void prepare_table(float *table) {
    table[0] = 0.0f;
}

static void coefficients(const uint *octave, const float *table, floats *coefficient) {
    for (int term = 0; term < ICL_NORMAL_TERMS; term++) {
#if LANES == 1
        coefficient[term] = normal_table[term][*octave];
#else
        float lane[LANES];
        for (int i = 0; i < LANES; i++)
            lane[i] = normal_table[term][octave[i]];
        coefficient[term] = LOAD_LANES(lane);
#endif
    }
}
#endif

/* The inverse normal CDF at (word + 1/2) / 2^32: random_words.h explains each step. */
static floats normal_from_word(uints word, const float *table) {
    const uints upper = (uints)(0) - (word >> 31);
    const uints m = word ^ upper;
    const uints power = AS_UINTS(TO_FLOATS(AS_INTS(m & ~(m >> 1))));
    const uints octave = min((uints)(157u) - (power >> 23), (uints)(31u));
    const uints fraction = (((m * 2u + 1u) << octave) & 0x7fffffffu) >> 7;
    const floats r = TO_FLOATS(AS_INTS((uints)(0x1000000u) - fraction)) * 0x1p-24f;
    uint lane[LANES];
    floats coefficient[ICL_NORMAL_TERMS];
    STORE_LANES(octave, lane);
    coefficients(lane, table, coefficient);
    floats value = coefficient[8];
    value = value * r + coefficient[7];
    value = value * r + coefficient[6];
    value = value * r + coefficient[5];
    value = value * r + coefficient[4];
    value = value * r + coefficient[3];
    value = value * r + coefficient[2];
    value = value * r + coefficient[1];
    value = value * r + coefficient[0];
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

#endif
