/*
 * Lanes whose elements may lie anywhere, and roots and powers of lanes of which every product and sum rounds once:
 * shared by kernels of rows on spheres and of draws.
 */
#ifndef ICL_GATHER_H
#define ICL_GATHER_H

#include "../common.h"

static floats gather(__global const float *from, const int *at) {
#if LANES == 1
    return from[at[0]];
#else
    float lane[LANES];
    for (int i = 0; i < LANES; i++)
        lane[i] = from[at[i]];
    return LOAD_LANES(lane);
#endif
}

/* Stores the first min(count, LANES) > 0 lanes. */
static void scatter(floats value, __global float *to, const int *at, uint count) {
#if LANES == 1
    to[at[0]] = value;
#else
    const uint last = min(count, (uint)LANES);
    float lane[LANES];
    STORE_LANES(value, lane);
    for (uint i = 0; i < last; i++)
        to[at[i]] = lane[i];
#endif
}

/* Returns 1 / sqrt(s) by three steps of Newton's iteration. */
static floats reciprocal_root(floats s) {
    const floats h = s * 0.5f;
    floats y = AS_FLOATS((uints)(0x5f375a86u) - (AS_UINTS(s) >> 1));
    for (int step = 0; step < 3; step++)
        y = y * ((floats)(1.5f) - h * y * y);
    return y;
}

/* Returns x cut to [-limit, limit], and -limit for NaN. */
static floats cut_to(floats x, float limit) {
    const floats lower = select((floats)(-limit), x, isgreater(x, (floats)(-limit)));
    return select((floats)(limit), lower, isless(lower, (floats)(limit)));
}

/* Returns 2^L by its series about a whole number, L cut to [-limit, limit] for a whole limit. */
static floats power_of_two(floats exponent, float limit) {
    const float c[8] = {1.0f,           0x1.62e430p-1f,  0x1.ebfbe0p-3f,  0x1.c6b08ep-5f,
                        0x1.3b2ab6p-7f, 0x1.5d87fep-10f, 0x1.430912p-13f, 0x1.ffcbfcp-17f};
    const floats cut = cut_to(exponent, limit);
    const ints whole = TO_INTS(cut + (limit + 0.5f)) - (int)limit;
    const floats f = cut - TO_FLOATS(whole);
    floats sum = (floats)(c[7]);
    for (int j = 6; j >= 0; j--)
        sum = sum * f + c[j];
    return sum * AS_FLOATS((whole + 127) << 23);
}

#endif
