/* Blocks of 4 x 4 numbers as four named vectors, for GPUs: some compilers keep an array in memory. */
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

#endif
