/*
 * The exponential of a weight: branch-free, so that a loop over it becomes vector instructions.
 *
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2. r is computed with a two-part ln 2, whose first part times
 * n is exact (Cody and Waite). exp(r) is its Taylor polynomial, whose remainder |r|^(D+1) / (D+1)! is below a tenth of
 * a unit in the last place. 2^(n + BIAS) is made from its bits and is a normal number over the whole range; the product
 * with 2^-BIAS rounds once if the result is subnormal. The error is within 2 ulp: one and a half from the last steps of
 * the polynomial, if each rounds once, the rest from r.
 */
#ifndef ICLAB_ARITHMETIC_EXPONENTIAL_H
#define ICLAB_ARITHMETIC_EXPONENTIAL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "arithmetic/real.h"
#include "arithmetic/vector.h"

/* a b + c, rounded once if the instruction set does that in one step, else twice, as lane_fma of lanes.h. */
#if defined(HAS_VECTORS) && (defined(__AVX512F__) || (defined(__AVX__) && defined(__FMA__)) || defined(__aarch64__))
#if ICL_CPU_DOUBLE
#define REAL_FMA(a, b, c) __builtin_fma(a, b, c)
#else
#define REAL_FMA(a, b, c) __builtin_fmaf(a, b, c)
#endif
#else
#define REAL_FMA(a, b, c) ((a) * (b) + (c))
#endif

#if ICL_CPU_DOUBLE
typedef uint64_t exponential_bits;
#define EXP_DEGREE         13
#define EXP_MANTISSA       52
#define EXP_BIAS           60
#define EXP_EXPONENT       1023
#define EXP_LOWEST         (-746.0) /* exp of less rounds to 0 */
#define EXP_HIGHEST        660.0    /* above this exp becomes infinite; a weight is at most 1, up to rounding */
#define EXP_LN2_HIGH       0x1.62e42feep-1
#define EXP_LN2_LOW        0x1.a39ef35793c76p-33
#define EXP_INVERSE_LN2    0x1.71547652b82fep+0
#define EXP_ROUND_CONSTANT 0x1.8p+52 /* adding it leaves the integer in the low mantissa bits */
#define EXP_UNBIAS         0x1p-60
#else
typedef uint32_t exponential_bits;
#define EXP_DEGREE         7
#define EXP_MANTISSA       23
#define EXP_BIAS           24
#define EXP_EXPONENT       127
#define EXP_LOWEST         (-104.0f)
#define EXP_HIGHEST        71.0f
#define EXP_LN2_HIGH       0x1.62cp-1f
#define EXP_LN2_LOW        0x1.217f7ep-12f
#define EXP_INVERSE_LN2    0x1.715476p+0f
#define EXP_ROUND_CONSTANT 0x1.8p+23f
#define EXP_UNBIAS         0x1p-24f
#endif

/* Returns a b + c, rounded once if is_fused is set and the instruction set can. */
ALWAYS_INLINE real multiply_add(real a, real b, real c, const bool is_fused) {
    return is_fused ? REAL_FMA(a, b, c) : a * b + c;
}

/* Returns exp(x); exp(-infinity) = 0, and a NaN stays. If x is out of range, the polynomial's value is replaced at the
 * end. Without may_exceed, x must be at most EXP_HIGHEST. */
ALWAYS_INLINE real any_exponential(real x, const bool may_exceed, const bool is_fused) {
    const real one = 1;
    const real inverse_factorial[] = {
        one,        one,         one / 2,      one / 6,       one / 24,       one / 120,       one / 720,
        one / 5040, one / 40320, one / 362880, one / 3628800, one / 39916800, one / 479001600, one / 6227020800,
    };
    const real shifted = multiply_add(x, EXP_INVERSE_LN2, EXP_ROUND_CONSTANT, is_fused);
    const real n = shifted - EXP_ROUND_CONSTANT;
    const real r = multiply_add(-n, EXP_LN2_LOW, multiply_add(-n, EXP_LN2_HIGH, x, is_fused), is_fused);
    real value = inverse_factorial[EXP_DEGREE], power;
    exponential_bits pattern;

    UNROLL for (int k = EXP_DEGREE - 1; k >= 0; k--) value = multiply_add(value, r, inverse_factorial[k], is_fused);
    memcpy(&pattern, &shifted, sizeof pattern);
    pattern = (pattern << EXP_MANTISSA) + ((exponential_bits)(EXP_BIAS + EXP_EXPONENT) << EXP_MANTISSA);
    memcpy(&power, &pattern, sizeof power);
    value = value * power * EXP_UNBIAS;
    value = x < EXP_LOWEST ? 0 : value;
    return may_exceed && x > EXP_HIGHEST ? (real)INFINITY : value;
}

ALWAYS_INLINE real weight_exponential(real x, const bool may_exceed) {
    return any_exponential(x, may_exceed, true);
}

/* Returns exp(x) for x <= 0, with the same bits on every instruction set: products and sums are rounded separately, so
 * the error is within 3 ulp. */
ALWAYS_INLINE real plain_exponential(real x) {
    return any_exponential(x, false, false);
}

#endif
