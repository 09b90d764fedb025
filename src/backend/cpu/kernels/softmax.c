/*
 * Exponentials of a row of scores.
 *
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2: r by a two-part ln 2, whose first part times n is exact
 * (Cody and Waite), exp(r) by its Taylor polynomial, whose remainder |r|^(D+1) / (D+1)! is below half a unit in the last
 * place. 2^n is applied in two halves, so that results below the normal range round once, as they should.
 */
#include "backend/cpu/kernels/parts.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/kernels/vector.h"

#if ICL_CPU_DOUBLE
typedef uint64_t bits;
typedef int64_t signed_bits;
#define TAYLOR_DEGREE  13
#define MANTISSA_BITS  52
#define EXPONENT_BIAS  1023
#define LOWEST         (-746.0)
#define HIGHEST        709.79
#define LN2_HIGH       0x1.62e42feep-1
#define LN2_LOW        0x1.a39ef35793c76p-33
#define INVERSE_LN2    0x1.71547652b82fep+0
#define ROUND_CONSTANT 0x1.8p+52 /* adding it leaves the integer in the low mantissa bits */
#else
typedef uint32_t bits;
typedef int32_t signed_bits;
#define TAYLOR_DEGREE  7
#define MANTISSA_BITS  23
#define EXPONENT_BIAS  127
#define LOWEST         (-104.0f)
#define HIGHEST        88.73f
#define LN2_HIGH       0x1.62cp-1f
#define LN2_LOW        0x1.217f7ep-12f
#define INVERSE_LN2    0x1.715476p+0f
#define ROUND_CONSTANT 0x1.8p+23f
#endif

#define ONE ((real)1)
static const real inverse_factorial[] = {
    ONE,        ONE,         ONE / 2,      ONE / 6,       ONE / 24,       ONE / 120,       ONE / 720,
    ONE / 5040, ONE / 40320, ONE / 362880, ONE / 3628800, ONE / 39916800, ONE / 479001600, ONE / 6227020800,
};

ALWAYS_INLINE real power_of_two(bits exponent) {
    const bits pattern = (exponent + EXPONENT_BIAS) << MANTISSA_BITS;
    real value;
    memcpy(&value, &pattern, sizeof value);
    return value;
}

/* Below LOWEST the result is 0 and above HIGHEST infinity; a NaN stays. */
ALWAYS_INLINE real exponential(real x) {
    const real low = x < LOWEST ? LOWEST : x;
    const real bounded = low > HIGHEST ? HIGHEST : low;
    const real shifted = bounded * INVERSE_LN2 + ROUND_CONSTANT;
    const real n = shifted - ROUND_CONSTANT;
    const real r = (bounded - n * LN2_HIGH) - n * LN2_LOW;
    const real origin = ROUND_CONSTANT;
    real value = inverse_factorial[TAYLOR_DEGREE];
    bits shifted_bits, origin_bits, whole, half;

    UNROLL for (int k = TAYLOR_DEGREE - 1; k >= 0; k--) value = value * r + inverse_factorial[k];
    memcpy(&shifted_bits, &shifted, sizeof shifted_bits);
    memcpy(&origin_bits, &origin, sizeof origin_bits);
    whole = shifted_bits - origin_bits;
    half = (bits)((signed_bits)whole >> 1);
    value = value * power_of_two(half) * power_of_two(whole - half);
    return x > HIGHEST ? (real)INFINITY : value;
}

ALWAYS_INLINE size_t padded(size_t n) {
    return (n + LANES - 1) / LANES * LANES;
}

real KERNEL(softmax)(real *score, size_t n, real scale, real *max) {
    const size_t whole = padded(n);
    real lane[LANES] = {0}, largest;

    for (size_t j = 0; j < whole; j++)
        score[j] = scale * score[j];
    largest = KERNEL(max_run)(score, n, 1);
    for (size_t j = 0; j < whole; j++)
        score[j] = exponential(score[j] - largest);
    for (size_t j = n; j < whole; j++)
        score[j] = 0;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += score[i + l];
    for (size_t half = LANES / 2; half > 0; half /= 2)
        for (size_t l = 0; l < half; l++)
            lane[l] += lane[l + half];
    *max = largest;
    return lane[0];
}

void KERNEL(softmax_again)(real *score, size_t n, real scale, real log_sum_exp) {
    const size_t whole = padded(n);
    for (size_t j = 0; j < whole; j++)
        score[j] = exponential(scale * score[j] - log_sum_exp);
    for (size_t j = n; j < whole; j++)
        score[j] = 0;
}
