/* The primitives of random.h, inline: the scalar functions and the host backends' lane loops share them, so that every
 * bit is defined once. They consist of integer ops and of float +, -, * that round once; there is no branch, so that
 * loops vectorise. */
#ifndef ICLAB_ARITHMETIC_RANDOM_WORDS_H
#define ICLAB_ARITHMETIC_RANDOM_WORDS_H

#include <stdint.h>
#include <string.h>

#include "cl/random/normal_table.h"
#include "iclab/random.h"

/* Multipliers and Weyl increments of Philox4x32, Salmon et al. 2011. */
#define ICL_PHILOX_M0     0xD2511F53u
#define ICL_PHILOX_M1     0xCD9E8D57u
#define ICL_PHILOX_W0     0x9E3779B9u
#define ICL_PHILOX_W1     0xBB67AE85u
#define ICL_PHILOX_ROUNDS 10

static const float icl_normal_table[ICL_NORMAL_TERMS][ICL_NORMAL_OCTAVES] = {ICL_NORMAL_TABLE};

/* The place of a word in the table: the octave of the tail probability, the distance r in (0, 1] from the octave's
 * upper end, and the sign of the value. tools/normal_table.py derives this. */
typedef struct icl_normal_position {
    uint32_t octave;
    float r;
    uint32_t sign; /* the float's sign bit, to be flipped in the polynomial's (negative) value */
} icl_normal_position;

static inline icl_normal_position icl_normal_locate(uint32_t word) {
    const uint32_t upper = 0u - (word >> 31); /* all ones in the upper half */
    const uint32_t m = word ^ upper;
    const uint32_t s = 2u * m + 1u;
    /* The octave is 30 - floor(log2 m), or 31 for m = 0. It is read from the exponent of m as a float, because no
     * vector instruction counts zeros. Clearing the bit below the leading one keeps rounding inside the octave. */
    const float power = (float)(int32_t)(m & ~(m >> 1));
    uint32_t bits, octave;
    memcpy(&bits, &power, sizeof bits);
    octave = 157u - (bits >> 23);
    octave = octave > 31u ? 31u : octave;
    {
        const uint32_t fraction = ((s << octave) & 0x7fffffffu) >> 7;
        const float r = (float)(int32_t)(0x1000000u - fraction) * 0x1p-24f;
        return (icl_normal_position){octave, r, upper & 0x80000000u};
    }
}

static inline float icl_normal_apply_sign(float value, uint32_t sign) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits ^= sign;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static inline float icl_normal_value(uint32_t word) {
    const icl_normal_position at = icl_normal_locate(word);
    float value = icl_normal_table[ICL_NORMAL_TERMS - 1][at.octave];
    for (int k = ICL_NORMAL_TERMS - 2; k >= 0; k--)
        value = value * at.r + icl_normal_table[k][at.octave];
    return icl_normal_apply_sign(value, at.sign);
}

/* The natural logarithm of 2 in two parts, the first of 14 bits, whose products with small whole numbers are exact. */
#define ICL_LOG_2_HIGH 0x1.62e4p-1F
#define ICL_LOG_2_LOW  0x1.7f7d1cp-20F

/* Returns P(g) of log(1 + g) = g - g^2 / 2 + g^3 P(g), for sqrt(1/2) <= 1 + g <= sqrt(2). P interpolates at the nine
 * roots of a Chebyshev polynomial; |error of log(1 + g)| < 1e-7 |log(1 + g)|. */
static inline float icl_log_polynomial(float g) {
    static const float coefficients[] = {0x1.555554p-2F,  -0x1.fffffcp-3F, 0x1.999d5ap-3F,
                                         -0x1.555b4ap-3F, 0x1.23d21ap-3F,  -0x1.fcf4c6p-4F,
                                         0x1.dea282p-4F,  -0x1.d635bcp-4F, 0x1.1d8ea6p-4F};
    float value = coefficients[8];
    for (int k = 7; k >= 0; k--)
        value = value * g + coefficients[k];
    return value;
}

static inline float icl_log_near_one(float g) {
    const float square = g * g;
    return g + (square * -0.5F + square * g * icl_log_polynomial(g));
}

/*
 * -log u for u = (word + 1/2) / 2^32. n holds the leading 32 bits of u = n 2^-(32 + octave), n >= 2^31. Above
 * sqrt(1/2) 2^32, u = (1 + g) 2^-octave with g = n / 2^32 - 1, else u = (1 + g) 2^-(octave + 1) with g = n / 2^31 - 1;
 * 2 word + 1 has 32 bits if the word has 31, and a word of 32 has its half added afterwards. g is made from the
 * distance to the whole power of two, so that it is exact where it is small.
 */
static inline float icl_exponential_value(uint32_t word) {
    const uint32_t upper = 0u - (word >> 31), low = word & 0x7fffffffu;
    const float power = (float)(int32_t)(low & ~(low >> 1)); /* as in icl_normal_locate */
    uint32_t bits, octave;
    memcpy(&bits, &power, sizeof bits);
    octave = 158u - (bits >> 23);
    octave = octave > 32u ? 32u : octave;
    {
        const uint32_t n = upper ? word : (2u * low + 1u) << (octave - 1u);
        const uint32_t near = n >= 0xb504f334u ? 0xffffffffu : 0u;
        const uint32_t distance = near ? 0u - n - (upper & 1u) : n ^ 0x80000000u;
        const float whole = (float)(int32_t)(distance >> 12) * 4096.0F + (float)(int32_t)(distance & 4095u);
        const float g = (whole + (upper ? 0.5F : 0.0F)) * (near ? -0x1p-32F : 0x1p-31F);
        const float halvings = (float)(int32_t)((octave & ~upper) + (near ? 0u : 1u));
        return (halvings * ICL_LOG_2_HIGH - icl_log_near_one(g)) + halvings * ICL_LOG_2_LOW;
    }
}

static inline float icl_uniform_value(uint32_t word, float low, float width) {
    return low + width * ((float)(int32_t)(word >> 8) * 0x1p-24f);
}

static inline uint32_t icl_choice_index(uint32_t word, uint32_t count) {
    return (uint32_t)(((uint64_t)word * count) >> 32);
}

#endif
