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

static inline float icl_uniform_value(uint32_t word, float low, float width) {
    return low + width * ((float)(int32_t)(word >> 8) * 0x1p-24f);
}

static inline uint32_t icl_choice_index(uint32_t word, uint32_t count) {
    return (uint32_t)(((uint64_t)word * count) >> 32);
}

#endif
