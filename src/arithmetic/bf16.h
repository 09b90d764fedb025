/* Numbers of bfloat16: the upper half of a float's bits. */
#ifndef ICLAB_ARITHMETIC_BF16_H
#define ICLAB_ARITHMETIC_BF16_H

#include <stdint.h>
#include <string.h>

/* Returns the bits of a float rounded to nearest, ties to even. Subnormal numbers become 0, as in the instructions of
 * AVX-512; a NaN becomes quiet. */
static inline uint32_t bf16_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t magnitude = bits & 0x7FFFFFFFU, rounded = (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
    return magnitude > 0x7F800000U ? (bits >> 16 | 0x40U) : magnitude < 0x00800000U ? (bits >> 31 << 15) : rounded;
}

/* Returns the number whose bits are the upper half of `bits`. */
static inline float bf16_value(uint32_t bits) {
    float value;
    bits &= 0xFFFF0000U;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline float bf16_rounded(float value) {
    return bf16_value(bf16_bits(value) << 16);
}

#endif
