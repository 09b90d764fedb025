/* Random words and normals in loops that a compiler can vectorise. */
#ifndef ICLAB_ARITHMETIC_RANDOM_PORTABLE_H
#define ICLAB_ARITHMETIC_RANDOM_PORTABLE_H

#include "arithmetic/random_words.h"
#include "arithmetic/vector.h"

/* Words that random_blocks may write beyond those asked for. */
#define RANDOM_GROUP 0

/* Returns the high half of a product. The two halves are computed apart, because compilers know vector instructions for
 * each, but none for a 64-bit product. */
ALWAYS_INLINE uint32_t high_half(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a * b) >> 32);
}

/* Writes the four words of the block whose counter is (low, high), `stride` apart. */
ALWAYS_INLINE void philox_block(icl_random_key key, uint32_t low, uint32_t high, uint32_t *words, size_t stride) {
    uint32_t c0 = low, c1 = high, c2 = (uint32_t)key.step, c3 = (uint32_t)(key.step >> 32);
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
    words[0] = c0;
    words[stride] = c1;
    words[2 * stride] = c2;
    words[3 * stride] = c3;
}

/* Writes the words of `count` consecutive blocks, from counter `low` on, which does not overflow meanwhile. */
static void random_blocks(icl_random_key key, uint32_t low, uint32_t high, size_t count, uint32_t *words) {
    for (size_t block = 0; block < count; block++)
        philox_block(key, low + (uint32_t)block, high, words + 4 * block, 1);
}

static void random_normals(const uint32_t *words, size_t count, float *values) {
    for (size_t i = 0; i < count; i++)
        values[i] = icl_normal_value(words[i]);
}

/* ---- Lanes, W of them: for gram_sample ---- */

DEFINE_VECTOR(gram_vector, float);
#define GRAM_LANES (sizeof(gram_vector) / sizeof(float))

/* Sets words[4 * b + word][lane] to those of block counter[lane] + block + b. */
static void random_lanes(icl_random_key key, const uint64_t *counter, size_t block, size_t count, uint32_t *words) {
    for (size_t b = 0; b < count; b++) {
        uint32_t low[GRAM_LANES], high[GRAM_LANES];
        uint32_t *out = words + b * 4 * GRAM_LANES;
        for (size_t lane = 0; lane < GRAM_LANES; lane++) {
            low[lane] = (uint32_t)(counter[lane] + block + b);
            high[lane] = (uint32_t)((counter[lane] + block + b) >> 32);
        }
        for (size_t lane = 0; lane < GRAM_LANES; lane++)
            philox_block(key, low[lane], high[lane], out + lane, GRAM_LANES);
    }
}

/* Replaces each values[lane] by the row's polynomial at it. */
static void chi_lanes(const float *row, float *values) {
    for (size_t lane = 0; lane < GRAM_LANES; lane++) {
        const int32_t piece = (int32_t)(values[lane] + (float)ICL_CHI_PIECES * 0.5F);
        const float t = values[lane] - ((float)piece - (float)(ICL_CHI_PIECES - 1) / 2);
        float value = row[(ICL_CHI_TERMS - 1) * ICL_CHI_ROW + piece];
        for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
            value = value * t + row[term * ICL_CHI_ROW + piece];
        values[lane] = value;
    }
}

static void unpack_lanes(const float *lanes, const uint32_t *rows, size_t elements, size_t sequences, float *out,
                         size_t stride) {
    for (size_t e = 0; e < elements; e++)
        for (size_t s = 0; s < sequences; s++)
            out[s * stride + e] = lanes[(size_t)rows[e] * GRAM_LANES + s];
}

#endif
