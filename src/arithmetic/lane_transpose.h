/* A square of LANE_COUNT vectors, transposed in registers: adjacent elements of LANE_COUNT sequences become LANE_COUNT
 * vectors, each of one element of every sequence. In step s = 1, 2, 4, … every two vectors at distance s exchange the
 * lanes that do not belong to them. There are also the sums of such vectors' lanes: with the steps in reverse order
 * every two vectors become their sum at once, so that half of the vectors are left. If the compiler has no shuffles,
 * there is no LANE_TRANSPOSE, and elements are moved one by one. */
#ifndef ICLAB_ARITHMETIC_LANE_TRANSPOSE_H
#define ICLAB_ARITHMETIC_LANE_TRANSPOSE_H

#include <string.h>

#include "arithmetic/lanes.h"

#if defined(HAS_VECTORS) && defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define LANE_TRANSPOSE
#endif
#endif

#ifdef LANE_TRANSPOSE

/* The source of lane l of the first and of the second vector after step s: 0 … W - 1 are the lanes of the first before
 * the step, W … 2 W - 1 those of the second. */
#define LANE_OF_FIRST(l, s, width)  ((l) & (s) ? (width) + (l) - (s) : (l))
#define LANE_OF_SECOND(l, s, width) ((l) & (s) ? (width) + (l) : (l) + (s))

#define LANE_LIST_2(F, l, s, w)  F(l, s, w), F(l + 1, s, w)
#define LANE_LIST_4(F, l, s, w)  LANE_LIST_2(F, l, s, w), LANE_LIST_2(F, l + 2, s, w)
#define LANE_LIST_8(F, l, s, w)  LANE_LIST_4(F, l, s, w), LANE_LIST_4(F, l + 4, s, w)
#define LANE_LIST_16(F, l, s, w) LANE_LIST_8(F, l, s, w), LANE_LIST_8(F, l + 8, s, w)

#define LANE_STEP(s, width)                                                                                            \
    UNROLL for (size_t i = 0; i < (width); i++) {                                                                      \
        if ((i & (s)) == 0) {                                                                                          \
            const lane a = x[i], b = x[i + (s)];                                                                       \
            x[i] = __builtin_shufflevector(a, b, LANE_LIST_##width(LANE_OF_FIRST, 0, s, width));                       \
            x[i + (s)] = __builtin_shufflevector(a, b, LANE_LIST_##width(LANE_OF_SECOND, 0, s, width));                \
        }                                                                                                              \
    }

/* The sources of the two terms of lane l of a pair's sum: the lane itself, and the one at distance s in its vector. So
 * the first term is a blend, which is cheaper than a shuffle. */
#define LANE_KEPT(l, s, width) ((l) & (s) ? (width) + (l) : (l))
#define LANE_AT_S(l, s, width) ((l) & (s) ? (width) + (l) - (s) : (l) + (s))

/* Exchanges lanes as in step s, and adds the two vectors of each pair: half of the vectors are left. */
#define LANE_FOLD(s, width)                                                                                            \
    UNROLL for (size_t i = 0; i < (s); i++) {                                                                          \
        const lane a = x[i], b = x[i + (s)];                                                                           \
        x[i] = lane_add(__builtin_shufflevector(a, b, LANE_LIST_##width(LANE_KEPT, 0, s, width)),                      \
                        __builtin_shufflevector(a, b, LANE_LIST_##width(LANE_AT_S, 0, s, width)));                     \
    }

#define LANE_STEPS_2       LANE_STEP(1, 2)
#define LANE_STEPS_4       LANE_STEP(1, 4) LANE_STEP(2, 4)
#define LANE_STEPS_8       LANE_STEP(1, 8) LANE_STEP(2, 8) LANE_STEP(4, 8)
#define LANE_STEPS_16      LANE_STEP(1, 16) LANE_STEP(2, 16) LANE_STEP(4, 16) LANE_STEP(8, 16)
#define LANE_STEPS_(width) LANE_STEPS_##width
#define LANE_STEPS(width)  LANE_STEPS_(width)

#define LANE_FOLDS_2       LANE_FOLD(1, 2)
#define LANE_FOLDS_4       LANE_FOLD(2, 4) LANE_FOLD(1, 4)
#define LANE_FOLDS_8       LANE_FOLD(4, 8) LANE_FOLD(2, 8) LANE_FOLD(1, 8)
#define LANE_FOLDS_16      LANE_FOLD(8, 16) LANE_FOLD(4, 16) LANE_FOLD(2, 16) LANE_FOLD(1, 16)
#define LANE_FOLDS_(width) LANE_FOLDS_##width
#define LANE_FOLDS(width)  LANE_FOLDS_(width)

#if VECTOR_BYTES == 64
#define LANE_WIDTH_OF_FLOAT  16
#define LANE_WIDTH_OF_DOUBLE 8
#elif VECTOR_BYTES == 32
#define LANE_WIDTH_OF_FLOAT  8
#define LANE_WIDTH_OF_DOUBLE 4
#else
#define LANE_WIDTH_OF_FLOAT  4
#define LANE_WIDTH_OF_DOUBLE 2
#endif

/* Exchanges lane i of x[j] for lane j of x[i]. */
ALWAYS_INLINE void transpose_square(lane *x) {
#if ICL_CPU_DOUBLE
    LANE_STEPS(LANE_WIDTH_OF_DOUBLE)
#else
    LANE_STEPS(LANE_WIDTH_OF_FLOAT)
#endif
}

/* to[i] lane j = factor * from[j * stride + i], for LANE_COUNT of each. */
ALWAYS_INLINE void transpose_lanes(lane *to, const real *from, size_t stride, lane factor) {
    lane x[LANE_COUNT];
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) memcpy(&x[j], from + j * stride, sizeof *x);
    transpose_square(x);
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) to[j] = lane_multiply(factor, x[j]);
}

/* Returns a vector whose lane j is the sum of from[j]'s lanes, added by halves. */
ALWAYS_INLINE lane fold_square(const lane *from) {
    lane x[LANE_COUNT];
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) x[j] = from[j];
#if ICL_CPU_DOUBLE
    LANE_FOLDS(LANE_WIDTH_OF_DOUBLE)
#else
    LANE_FOLDS(LANE_WIDTH_OF_FLOAT)
#endif
    return x[0];
}

#endif

#endif
