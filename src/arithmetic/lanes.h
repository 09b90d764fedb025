/*
 * Lanes: a vector of exactly one register, in which each element belongs to another sequence, so that a computation on
 * lanes is the same computation on LANE_COUNT sequences at once. GNU compilers get vector types of the target's width
 * (a wider one is lowered through memory: 13 times slower with gcc); others, and scalar builds, get an array and plain
 * loops.
 *
 * lane_fma rounds once if the instruction set has a fused multiply-add, else twice. Therefore kernels on lanes, unlike
 * all others, give different bits on different instruction sets. On one machine they always give the same.
 */
#ifndef ICLAB_ARITHMETIC_LANES_H
#define ICLAB_ARITHMETIC_LANES_H

#include <stdbool.h>
#include <stddef.h>

#include "arithmetic/real.h"
#include "arithmetic/vector.h"

#define LANE_COUNT (VECTOR_BYTES / sizeof(real))

#ifdef HAS_VECTORS

typedef real lane __attribute__((vector_size(VECTOR_BYTES), may_alias));

ALWAYS_INLINE lane lane_set(real value) {
    return value - (lane){0};
}

ALWAYS_INLINE lane lane_add(lane a, lane b) {
    return a + b;
}

ALWAYS_INLINE lane lane_multiply(lane a, lane b) {
    return a * b;
}

/* a b + c */
#if defined(__AVX512F__)
#include <immintrin.h>
#if ICL_CPU_DOUBLE
#define LANE_FMA(a, b, c) ((lane)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#else
#define LANE_FMA(a, b, c) ((lane)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#endif
#elif defined(__AVX__) && defined(__FMA__)
#include <immintrin.h>
#if ICL_CPU_DOUBLE
#define LANE_FMA(a, b, c) ((lane)_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define LANE_FMA(a, b, c) ((lane)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#endif
#elif defined(__aarch64__) && defined(__ARM_NEON)
#include <arm_neon.h>
#if ICL_CPU_DOUBLE
#define LANE_FMA(a, b, c) ((lane)vfmaq_f64((float64x2_t)(c), (float64x2_t)(a), (float64x2_t)(b)))
#else
#define LANE_FMA(a, b, c) ((lane)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#endif
#else
#define LANE_FMA(a, b, c) ((a) * (b) + (c))
#endif

ALWAYS_INLINE lane lane_fma(lane a, lane b, lane c) {
    return LANE_FMA(a, b, c);
}

/* Keeps a vector in a register. Else compilers load it again for each use, and the loads take longer than the sums. */
#if defined(__x86_64__)
#define LANE_KEEP(x) __asm__("" : "+v"(x))
#elif defined(__aarch64__)
#define LANE_KEEP(x) __asm__("" : "+w"(x))
#else
#define LANE_KEEP(x) (void)0
#endif

/* Hides the value of a number or an address from the compiler. Else it computes many addresses early, all at once, and
 * has no registers for them. */
#define LANE_FORGET(x) __asm__("" : "+r"(x))

#else

#define LANE_KEEP(x)   (void)0
#define LANE_FORGET(x) (void)0

typedef struct lane {
    real of[LANE_COUNT];
} lane;

ALWAYS_INLINE lane lane_set(real value) {
    lane x;
    for (size_t i = 0; i < LANE_COUNT; i++)
        x.of[i] = value;
    return x;
}

ALWAYS_INLINE lane lane_add(lane a, lane b) {
    for (size_t i = 0; i < LANE_COUNT; i++)
        a.of[i] += b.of[i];
    return a;
}

ALWAYS_INLINE lane lane_multiply(lane a, lane b) {
    for (size_t i = 0; i < LANE_COUNT; i++)
        a.of[i] *= b.of[i];
    return a;
}

ALWAYS_INLINE lane lane_fma(lane a, lane b, lane c) {
    for (size_t i = 0; i < LANE_COUNT; i++)
        c.of[i] += a.of[i] * b.of[i];
    return c;
}

#endif

/* The lanes of a vector in memory, as elements. */
ALWAYS_INLINE real *lane_elements(lane *x) {
    return (real *)x;
}

/* to [rows][columns] = a b, where a is [rows][depth] of lanes. b [depth][columns] is of lanes or, if `shared` is given
 * instead, of numbers that all sequences share. An element of `to` or a is at row * row stride + column * column
 * stride, so they may be transposes; the columns of b are adjacent. */
typedef struct lane_product {
    size_t rows, columns, depth;
    lane *to;
    size_t to_row, to_column;
    const lane *a;
    size_t a_row, a_depth;
    const lane *b;
    const real *shared;
    size_t b_depth;
    const lane *outer_row, *outer_column; /* if given, outer_row outer_column^T is added */
    const lane *onto;                     /* if given, added to the complete sums; laid out as `to`, and may be `to` */
    lane *squares;   /* if given, grows by the squares of the sums before onto is added; not with `symmetric` */
    bool symmetric;  /* the result is symmetric: only half of it is computed, then mirrored */
    bool unmirrored; /* with `symmetric`: not mirrored; what is below the diagonal is undefined */
} lane_product;

#endif
