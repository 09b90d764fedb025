/* For GPUs, products by tiles: blocks of 4 x 4 numbers as four named vectors, because some compilers keep an array in
 * memory, and the eight numbers of a tile that a work-item brings into local memory. */
#ifndef ICL_TILES_H
#define ICL_TILES_H
#include "common.h"

typedef struct block {
    float4 v0, v1, v2, v3;
} block;

static block block_of(float number) {
    const float4 vector = (float4)(number);
    return (block){vector, vector, vector, vector};
}

/* sum + a b^T */
static block add_outer(block sum, float4 a, float4 b) {
    sum.v0 = MULTIPLY_ADD((float4)(a.s0), b, sum.v0);
    sum.v1 = MULTIPLY_ADD((float4)(a.s1), b, sum.v1);
    sum.v2 = MULTIPLY_ADD((float4)(a.s2), b, sum.v2);
    sum.v3 = MULTIPLY_ADD((float4)(a.s3), b, sum.v3);
    return sum;
}

/* The work-item's elements of what is staged: number k is k * pace steps from the first. All are loaded before one is
 * stored, so that a stage waits for memory once: a device has few groups where sequences are few. */
typedef struct share {
    __global const float *from;
    int step;  /* between its elements in memory */
    uint pace; /* the same in rows or columns, whichever it walks along */
    uint left; /* how many rows or columns exist from the first on; 0: its elements are all padding */
    uint at;   /* the first's place in staging */
    uint gap;  /* between places */
} share;

/* Returns how many of `count` rows, or columns, exist from `first` on, if the share's column, or row, does. */
static uint left_of(uint count, uint first, bool exists) {
    return exists && first < count ? count - first : 0;
}

/* Returns elements 0 to 7 of the share, zeros where there are none. */
static float8 load_share(share part) {
    float8 held = (float8)(0.0f);
    if (part.left > 0)
        held.s0 = part.from[0];
    if (part.left > part.pace)
        held.s1 = part.from[part.step];
    if (part.left > 2 * part.pace)
        held.s2 = part.from[2 * part.step];
    if (part.left > 3 * part.pace)
        held.s3 = part.from[3 * part.step];
    if (part.left > 4 * part.pace)
        held.s4 = part.from[4 * part.step];
    if (part.left > 5 * part.pace)
        held.s5 = part.from[5 * part.step];
    if (part.left > 6 * part.pace)
        held.s6 = part.from[6 * part.step];
    if (part.left > 7 * part.pace)
        held.s7 = part.from[7 * part.step];
    return held;
}

static void store_share(float8 held, __local float *staging, share part) {
    staging += part.at;
    staging[0] = held.s0;
    staging[part.gap] = held.s1;
    staging[2 * part.gap] = held.s2;
    staging[3 * part.gap] = held.s3;
    staging[4 * part.gap] = held.s4;
    staging[5 * part.gap] = held.s5;
    staging[6 * part.gap] = held.s6;
    staging[7 * part.gap] = held.s7;
}

#endif
