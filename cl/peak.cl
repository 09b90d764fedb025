/*
 * What the device could do at best. Measured, never used for results.
 *
 * peak_multiply_add: each work-item runs 12 independent chains x <- x f + g of LANES floats in registers, `rounds`
 * times: 24 LANES rounds flops and LANES floats written. peak_triad: a = b + s c over `count` runs of LANES floats,
 * `rounds` times: 12 LANES bytes a run.
 */
#include "common.h"

#define EACH_CHAIN(CHAIN)                                                                                              \
    CHAIN(0)                                                                                                           \
    CHAIN(1) CHAIN(2) CHAIN(3) CHAIN(4) CHAIN(5) CHAIN(6) CHAIN(7) CHAIN(8) CHAIN(9) CHAIN(10) CHAIN(11)
#define BEGIN(i)   floats x##i = (floats)(i##.0f);
#define ADVANCE(i) x##i = MULTIPLY_ADD(x##i, factor, addend);
#define ADD(i)     sum += x##i;

__kernel void peak_multiply_add(__global float *out, uint rounds, float f, float g) {
    const floats factor = (floats)(f), addend = (floats)(g);
    floats sum = (floats)(0.0f);
    EACH_CHAIN(BEGIN)
    for (uint round = 0; round < rounds; round++) {
        EACH_CHAIN(ADVANCE)
    }
    EACH_CHAIN(ADD)
    STORE_LANES(sum, out + get_global_id(0) * LANES);
}

/* Neighbouring work-items touch neighbouring runs on GPUs; a CPU's take a range each. */
__kernel void peak_triad(__global float *a, __global const float *b, __global const float *c, float s, uint count,
                         uint rounds) {
    const uint items = (uint)get_global_size(0), item = (uint)get_global_id(0);
#if LANES == 1
    const uint first = item, step = items, end = count;
#else
    const uint share = (count + items - 1) / items;
    const uint first = min(item * share, count), step = 1, end = min(first + share, count);
#endif
    for (uint round = 0; round < rounds; round++)
        for (uint i = first; i < end; i += step)
            STORE_LANES(LOAD_LANES(b + i * LANES) + s * LOAD_LANES(c + i * LANES), a + i * LANES);
}
