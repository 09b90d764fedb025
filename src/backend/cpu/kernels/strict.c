/* What is float on every backend: strict products and random numbers, bit for bit as random.h states them. */
#include "backend/cpu/kernels/kernels.h"

#include <string.h>

#include "backend/cpu/kernels/vector.h"
#include "backend/random_words.h"

#define NUMBER float
#include "backend/cpu/kernels/gemm_rows.h"

static void strict_gemm(const float *a, size_t row_stride, size_t k_stride, const float *b, size_t k,
                        float *acc, size_t rows) {
    gemm_rows(a, row_stride, k_stride, b, k, acc, rows);
}

#define CHUNK_BLOCKS (ICL_RANDOM_CHUNK / 4)

/* The two halves of a product apart: compilers know vector instructions for each, but none for a 64-bit product. */
ALWAYS_INLINE uint32_t high_half(uint32_t a, uint32_t b) {
    return (uint32_t)(((uint64_t)a * b) >> 32);
}

/* The words of `count` consecutive blocks from the one that counts `low`, which does not overflow on the way. */
static void philox_blocks(icl_random_key key, uint32_t low, uint32_t high, size_t count, uint32_t *words) {
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

static void normals(const uint32_t *words, size_t count, float *values) {
    for (size_t i = 0; i < count; i++)
        values[i] = icl_normal_value(words[i]);
}

static void strict_random(const icl_random_params *params, uint64_t first, size_t count, float *values) {
    uint32_t words[ICL_RANDOM_CHUNK];
    const uint64_t block = first / 4;
    const size_t skipped = (size_t)(first % 4), blocks = (skipped + count + 3) / 4;
    const float low = params->low, width = params->high - params->low;

    philox_blocks(params->key, (uint32_t)block, (uint32_t)(block >> 32), blocks, words);
    switch (params->distribution) {
    case ICL_UNIFORM:
        for (size_t i = 0; i < count; i++)
            values[i] = icl_uniform_value(words[skipped + i], low, width);
        break;
    case ICL_NORMAL:
        normals(words + skipped, count, values);
        break;
    case ICL_CHOICE:
        for (size_t i = 0; i < count; i++)
            values[i] = params->choices[icl_choice_index(words[skipped + i], params->choice_count)];
        break;
    }
}

const icl_strict_kernels STRICT_KERNEL(table) = {.gemm = strict_gemm, .random = strict_random};
