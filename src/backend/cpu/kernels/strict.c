/* What is float on every backend: strict products and random numbers, bit for bit as random.h states them. */
#include "backend/cpu/kernels/kernels.h"

#include "arithmetic/random_words.h"
#include "arithmetic/vector.h"

#define NUMBER float
#include "arithmetic/gemm_rows.h"

static void strict_gemm(const float *a, size_t row_stride, size_t k_stride, const float *b, size_t k, float *acc,
                        size_t rows) {
    gemm_rows(a, row_stride, k_stride, b, k, acc, rows);
}

#if defined(__AVX512F__) && defined(__AVX512CD__)
#include "arithmetic/random_avx512.h"
#else
#include "arithmetic/random_portable.h"
#endif

#include "backend/cpu/kernels/random/gram.h"
#include "backend/cpu/kernels/random/spherical.h"

static void strict_random(const icl_random_params *params, uint64_t first, size_t count, float *values) {
    uint32_t words[ICL_RANDOM_CHUNK + RANDOM_GROUP];
    const uint64_t block = first / 4;
    const size_t skipped = (size_t)(first % 4), blocks = (skipped + count + 3) / 4;
    const float low = params->low, width = params->high - params->low;

    random_blocks(params->key, (uint32_t)block, (uint32_t)(block >> 32), blocks, words);
    switch (params->distribution) {
    case ICL_UNIFORM:
        for (size_t i = 0; i < count; i++)
            values[i] = icl_uniform_value(words[skipped + i], low, width);
        break;
    case ICL_NORMAL:
        random_normals(words + skipped, count, values);
        break;
    case ICL_CHOICE:
        for (size_t i = 0; i < count; i++)
            values[i] = params->choices[icl_choice_index(words[skipped + i], params->choice_count)];
        break;
    }
}

const icl_strict_kernels STRICT_KERNEL(table) = {
    .gemm = strict_gemm,
    .random = strict_random,
    .gram_lanes = W,
    .gram_rows = gram_rows,
    .gram = gram,
    .unpack_lanes = unpack_lanes,
    .spherical = spherical,
};
