/*
 * SUM_EACH(s): of LANES vectors s0, s1, ..., the vector whose lane j is the sum of the lanes of vector j. Each of
 * log2(LANES) rounds makes one vector of two, of parts that are half as long: first the halves of a vector, which cost
 * least to move, and last its neighbours. The parts of the two come to stand behind each other in another order each
 * time, and the vectors are taken in the order that makes up for it.
 *
 * ICL_PLAIN_VECTORS: the same sums in the same order, but no vector is made of parts of two
 * (tests/setups/oclgrind-wrapper.sh).
 */
#ifndef ICL_COLUMN_SUMS_H
#define ICL_COLUMN_SUMS_H

#include "../rows.h"

#if LANES > 1
#ifdef ICL_PLAIN_VECTORS

#define SUMS_4(s, a, b, c, d) add_lanes(s##a), add_lanes(s##b), add_lanes(s##c), add_lanes(s##d)
#if LANES == 4
#define SUM_EACH(s) (floats)(SUMS_4(s, 0, 1, 2, 3))
#elif LANES == 8
#define SUM_EACH(s) (floats)(SUMS_4(s, 0, 1, 2, 3), SUMS_4(s, 4, 5, 6, 7))
#else
#define SUM_EACH(s)                                                                                                    \
    (floats)(SUMS_4(s, 0, 1, 2, 3), SUMS_4(s, 4, 5, 6, 7), SUMS_4(s, 8, 9, 10, 11), SUMS_4(s, 12, 13, 14, 15))
#endif

#else

static floats add_neighbours(floats a, floats b) {
#if LANES == 4
    return (floats)(a.s02, b.s02) + (floats)(a.s13, b.s13);
#elif LANES == 8
    return (floats)(a.s02, b.s02, a.s46, b.s46) + (floats)(a.s13, b.s13, a.s57, b.s57);
#else
    return (floats)(a.s02, b.s02, a.s46, b.s46, a.s8a, b.s8a, a.sce, b.sce) +
           (floats)(a.s13, b.s13, a.s57, b.s57, a.s9b, b.s9b, a.sdf, b.sdf);
#endif
}

static floats add_twos(floats a, floats b) {
#if LANES == 4
    return (floats)(a.s01, b.s01) + (floats)(a.s23, b.s23);
#elif LANES == 8
    return (floats)(a.s01, b.s01, a.s45, b.s45) + (floats)(a.s23, b.s23, a.s67, b.s67);
#else
    return (floats)(a.s01, b.s01, a.s45, b.s45, a.s89, b.s89, a.scd, b.scd) +
           (floats)(a.s23, b.s23, a.s67, b.s67, a.sab, b.sab, a.sef, b.sef);
#endif
}

#if LANES > 4
static floats add_halves(floats a, floats b) {
    return (floats)(a.lo, b.lo) + (floats)(a.hi, b.hi);
}
#endif

#if LANES > 8
static floats add_fours(floats a, floats b) {
    return (floats)(a.s0123, a.s89ab, b.s0123, b.s89ab) + (floats)(a.s4567, a.scdef, b.s4567, b.scdef);
}
#endif

#if LANES == 4
#define SUM_EACH(s) add_neighbours(add_twos(s##0, s##1), add_twos(s##2, s##3))
#elif LANES == 8
#define SUM_EACH(s)                                                                                                    \
    add_neighbours(add_twos(add_halves(s##0, s##4), add_halves(s##1, s##5)),                                           \
                   add_twos(add_halves(s##2, s##6), add_halves(s##3, s##7)))
#else
#define SUM_4(s, a, b, c, d) add_fours(add_halves(s##a, s##b), add_halves(s##c, s##d))
#define SUM_EACH(s)                                                                                                    \
    add_neighbours(add_twos(SUM_4(s, 0, 4, 8, 12), SUM_4(s, 1, 5, 9, 13)),                                             \
                   add_twos(SUM_4(s, 2, 6, 10, 14), SUM_4(s, 3, 7, 11, 15)))
#endif

#endif

#endif
#endif
