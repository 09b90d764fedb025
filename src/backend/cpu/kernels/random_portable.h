/* Random words and normals in loops that a compiler can vectorise. */
#ifndef ICLAB_BACKEND_CPU_RANDOM_PORTABLE_H
#define ICLAB_BACKEND_CPU_RANDOM_PORTABLE_H

#include "backend/cpu/kernels/vector.h"
#include "backend/random_words.h"

/* Words that random_blocks may write beyond those asked for. */
#define RANDOM_GROUP 0

/* The two halves of a product apart: compilers know vector instructions for each, but none for a 64-bit product. */
ALWAYS_INLINE uint32_t high_half(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a * b) >> 32);
}

/* The words of `count` consecutive blocks from the one that counts `low`, which does not overflow on the way. */
static void random_blocks(icl_random_key key, uint32_t low, uint32_t high, size_t count, uint32_t *words) {
    for (size_t block = 0; block < count; block++) {
        uint32_t c0 = low + (uint32_t)block, c1 = high, c2 = (uint32_t)key.step,
                 c3 = (uint32_t)(key.step >> 32);
        uint32_t k0 = key.seed, k1 = key.stream;
        UNROLL for (int round = 0; round < ICL_PHILOX_ROUNDS; round++) {
            const uint32_t high0 = high_half(ICL_PHILOX_M0, c0), high1 = high_half(ICL_PHILOX_M1, c2);
            const uint32_t low0 = ICL_PHILOX_M0 * c0, low1 = ICL_PHILOX_M1 * c2;
            c0 = high1 ^ c1 ^ k0;
            c1 = low1;
            c2 = high0 ^ c3 ^ k1;
            c3 = low0;
            k0 += ICL_PHILOX_W0;
            k1 += ICL_PHILOX_W1;
        }
        words[4 * block] = c0;
        words[4 * block + 1] = c1;
        words[4 * block + 2] = c2;
        words[4 * block + 3] = c3;
    }
}

static void random_normals(const uint32_t *words, size_t count, float *values) {
    for (size_t i = 0; i < count; i++)
        values[i] = icl_normal_value(words[i]);
}

#endif
