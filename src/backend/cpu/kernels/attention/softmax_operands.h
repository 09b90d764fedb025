/*
 * The operands of the products of softmax attention: numbers as they are, or rounded to bfloat16 (SOFTMAX_BF16).
 *
 * Rounded numbers go in pairs of neighbours along the sum, padded with 0 where their number is odd, and a sum takes the
 * second of a pair before the first, as the instruction that multiplies pairs does. Where the processor has it, a pair
 * is one word; elsewhere it is two numbers, in this order.
 */
#ifndef ICLAB_BACKEND_CPU_SOFTMAX_OPERANDS_H
#define ICLAB_BACKEND_CPU_SOFTMAX_OPERANDS_H

#include "arithmetic/bf16.h"
#include "backend/cpu/kernels/attention/softmax_lanes.h"

#define EVEN(count)  (((count) + 1) / 2 * 2)
#define MOST_SOURCES 64 /* rows of a matrix that are rounded at a time: those of a tile */

#if !defined(SOFTMAX_BF16) || !defined(__AVX512BF16__)
/* A factor of a product: a vector in a register. */
typedef lane factor;

ALWAYS_INLINE factor load_factor(const lane *x) {
    return *x;
}
ALWAYS_INLINE factor repeat_factor(const real *x) {
    return lane_set(*x);
}
ALWAYS_INLINE lane add_product(factor left, factor right, lane sum) {
    return lane_fma(left, right, sum);
}

#endif

#ifndef SOFTMAX_BF16

#define TERMS(count) (count) /* products in a sum over this many numbers */

static inline size_t operand_size(const plan *p) {
    (void)p;
    return 0;
}
static inline void round_lanes(lane *x, size_t count, size_t vectors) {
    (void)x;
    (void)count;
    (void)vectors;
}
static inline matrix dot_operand(matrix from, size_t length, size_t width, real *to) {
    (void)length;
    (void)width;
    (void)to;
    return from;
}
static inline matrix sum_operand(matrix from, size_t length, size_t width, real *to) {
    (void)length;
    (void)width;
    (void)to;
    return from;
}

#else

/* Returns how many numbers dot_operand and sum_operand write at most: rows of d, of e or of a block of keys. */
static inline size_t operand_size(const plan *p) {
    const size_t width = p->d > p->e ? p->d : p->e;
    return MOST_SOURCES * ((width > BLOCK ? width : BLOCK) + LANES) / LANE_COUNT * LANE_COUNT;
}

#ifdef __AVX512BF16__
#include <immintrin.h>

#define TERMS(count) (((count) + 1) / 2)

typedef __m512bh factor;

ALWAYS_INLINE factor load_factor(const lane *x) {
    return (__m512bh)_mm512_loadu_si512(x);
}
ALWAYS_INLINE factor repeat_factor(const real *x) {
    int pair;
    memcpy(&pair, x, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}
ALWAYS_INLINE lane add_product(factor left, factor right, lane sum) {
    return (lane)_mm512_dpbf16_ps((__m512)sum, left, right);
}

/* Pairs the numbers of two vectors, lane by lane. */
ALWAYS_INLINE __m512i pair_lanes(__m512 first, __m512 second) {
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i order = _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

/* x [TERMS(count)] = pairs of x [count], of vectors that are next to each other along the sum. */
static inline void round_lanes(lane *x, size_t count, size_t vectors) {
    for (size_t p = 0; 2 * p < count; p++)
        for (size_t v = 0; v < vectors; v++) {
            const bool is_whole = 2 * p + 1 < count;
            const __m512 first = _mm512_loadu_ps(x + 2 * p * VECTORS + v);
            const __m512 second = is_whole ? _mm512_loadu_ps(x + (2 * p + 1) * VECTORS + v) : _mm512_setzero_ps();
            _mm512_storeu_si512(x + p * VECTORS + v, pair_lanes(first, second));
        }
}

static inline uint32_t pair_of(const real *first, const real *second) {
    return bf16_bits((float)*first) | (second ? bf16_bits((float)*second) << 16 : 0);
}

#define FIRST_LANES(count) ((__mmask16)((1u << ((count) < LANES ? (count) : LANES)) - 1))

/* Returns the rows of a matrix, [length][TERMS(width)], for sums along them. */
static inline matrix dot_operand(matrix from, size_t length, size_t width, real *to) {
    const size_t terms = TERMS(width);
    for (size_t t = 0; t < length; t++) {
        const real *row = from.elements + t * from.row;
        for (size_t c = 0; c < width && from.column == 1; c += 2 * LANES) {
            const size_t left = width - c, more = left > LANES ? left - LANES : 0;
            const __m512 low = _mm512_maskz_loadu_ps(FIRST_LANES(left), row + c);
            const __m512 high = _mm512_maskz_loadu_ps(FIRST_LANES(more), row + c + smaller(left, LANES));
            _mm512_mask_storeu_epi32(to + t * terms + c / 2, FIRST_LANES((left + 1) / 2),
                                     (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
        for (size_t c = 0; c < width && from.column != 1; c += 2) {
            const uint32_t pair = pair_of(row + c * from.column, c + 1 < width ? row + (c + 1) * from.column : NULL);
            memcpy(to + t * terms + c / 2, &pair, sizeof pair);
        }
    }
    return (matrix){to, terms, 1};
}

/* Returns pairs of rows of a matrix, [TERMS(length)][width in whole vectors], for sums over the rows. */
static inline matrix sum_operand(matrix from, size_t length, size_t width, real *to) {
    const size_t row = (width + LANES - 1) / LANES * LANES;
    for (size_t t = 0; t < length; t += 2) {
        const real *first = from.elements + t * from.row, *second = first + from.row;
        for (size_t c = 0; c < width && from.column == 1; c += LANES) {
            const __mmask16 mask = FIRST_LANES(width - c);
            const __m512 high = t + 1 < length ? _mm512_maskz_loadu_ps(mask, second + c) : _mm512_setzero_ps();
            _mm512_storeu_si512(to + t / 2 * row + c, pair_lanes(_mm512_maskz_loadu_ps(mask, first + c), high));
        }
        for (size_t c = 0; c < width && from.column != 1; c++) {
            const uint32_t pair = pair_of(first + c * from.column, t + 1 < length ? second + c * from.column : NULL);
            memcpy(to + t / 2 * row + c, &pair, sizeof pair);
        }
    }
    return (matrix){to, row, 1};
}

#else

#define TERMS(count) EVEN(count)

static inline real rounded(const real *x) {
    return (real)bf16_rounded((float)*x);
}

/* x [TERMS(count)] = pairs of x [count], of vectors that are next to each other along the sum. */
static inline void round_lanes(lane *x, size_t count, size_t vectors) {
    for (size_t i = 0; i < count; i += 2) {
        real *first = lane_elements(x + i * VECTORS), *second = lane_elements(x + (i + 1) * VECTORS);
        for (size_t l = 0; l < vectors * LANE_COUNT; l++) {
            const real former = rounded(first + l);
            first[l] = i + 1 < count ? rounded(second + l) : 0;
            second[l] = former;
        }
    }
}

/* Returns the rows of a matrix, [length][TERMS(width)], for sums along them. */
static inline matrix dot_operand(matrix from, size_t length, size_t width, real *to) {
    const size_t terms = TERMS(width);
    for (size_t t = 0; t < length; t++) {
        const real *row = from.elements + t * from.row;
        for (size_t c = 0; c < width; c += 2) {
            to[t * terms + c] = c + 1 < width ? rounded(row + (c + 1) * from.column) : 0;
            to[t * terms + c + 1] = rounded(row + c * from.column);
        }
    }
    return (matrix){to, terms, 1};
}

/* Returns rows of a matrix, [TERMS(length)][width], for sums over them. */
static inline matrix sum_operand(matrix from, size_t length, size_t width, real *to) {
    for (size_t t = 0; t < length; t += 2) {
        const real *first = from.elements + t * from.row, *second = first + from.row;
        for (size_t c = 0; c < width; c++) {
            to[t * width + c] = t + 1 < length ? rounded(second + c * from.column) : 0;
            to[(t + 1) * width + c] = rounded(first + c * from.column);
        }
    }
    return (matrix){to, width, 1};
}

#endif
#endif
#endif
