/*
 * Random words and normals with AVX-512: what compilers do not find by themselves is the product of the low halves of 64-bit
 * lanes, and a table lookup inside registers. The bits are those of random_words.h.
 */
#ifndef ICLAB_BACKEND_CPU_RANDOM_AVX512_H
#define ICLAB_BACKEND_CPU_RANDOM_AVX512_H

#include <immintrin.h>

#include "backend/cpu/kernels/vector.h"
#include "backend/random_words.h"

/* Words that random_blocks may write beyond those asked for. */
#define RANDOM_GROUP 32

/* Eight blocks at a time, a counter word in the low half of each 64-bit lane; the high halves hold whatever is left over, which no
 * product looks at. The lanes' order makes the final interleaving store the blocks in order. */
static void random_blocks(icl_random_key key, uint32_t low, uint32_t high, size_t count, uint32_t *words) {
    const __m512i m0 = _mm512_set1_epi64(ICL_PHILOX_M0), m1 = _mm512_set1_epi64(ICL_PHILOX_M1);
    const __m512i low_half = _mm512_set1_epi64(0xffffffff);

    for (size_t block = 0; block < count; block += 8) {
        const long long first = (long long)(low + (uint32_t)block);
        __m512i c0 = _mm512_add_epi64(_mm512_set1_epi64(first), _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0));
        __m512i c1 = _mm512_set1_epi64(high);
        __m512i c2 = _mm512_set1_epi64((uint32_t)key.step),
                c3 = _mm512_set1_epi64((uint32_t)(key.step >> 32));
        uint32_t k0 = key.seed, k1 = key.stream;
        UNROLL for (int round = 0; round < ICL_PHILOX_ROUNDS; round++) {
            const __m512i product0 = _mm512_mul_epu32(m0, c0), product1 = _mm512_mul_epu32(m1, c2);
            c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(product1, 32), c1),
                                  _mm512_set1_epi64(k0));
            c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(product0, 32), c3),
                                  _mm512_set1_epi64(k1));
            c1 = product1;
            c3 = product0;
            k0 += ICL_PHILOX_W0;
            k1 += ICL_PHILOX_W1;
        }
        c0 = _mm512_or_si512(_mm512_and_si512(c0, low_half), _mm512_slli_epi64(c1, 32));
        c2 = _mm512_or_si512(_mm512_and_si512(c2, low_half), _mm512_slli_epi64(c3, 32));
        _mm512_storeu_si512(words + 4 * block, _mm512_unpacklo_epi64(c0, c2));
        _mm512_storeu_si512(words + 4 * block + 16, _mm512_unpackhi_epi64(c0, c2));
    }
}

ALWAYS_INLINE __m512 sixteen_normals(__m512i word, const __m512 table[ICL_NORMAL_TERMS][2]) {
    const __m512i upper = _mm512_srai_epi32(word, 31), m = _mm512_xor_si512(word, upper);
    const __m512i s = _mm512_add_epi32(_mm512_add_epi32(m, m), _mm512_set1_epi32(1));
    const __m512i octave = _mm512_lzcnt_epi32(s);
    const __m512i shifted = _mm512_and_si512(_mm512_sllv_epi32(s, octave), _mm512_set1_epi32(0x7fffffff));
    const __m512i steps = _mm512_sub_epi32(_mm512_set1_epi32(0x1000000), _mm512_srli_epi32(shifted, 7));
    const __m512 r = _mm512_mul_ps(_mm512_cvtepi32_ps(steps), _mm512_set1_ps(0x1p-24f));
    __m512 value =
        _mm512_permutex2var_ps(table[ICL_NORMAL_TERMS - 1][0], octave, table[ICL_NORMAL_TERMS - 1][1]);

    UNROLL for (int k = ICL_NORMAL_TERMS - 2; k >= 0; k--) {
        const __m512 coefficient = _mm512_permutex2var_ps(table[k][0], octave, table[k][1]);
        value = _mm512_add_ps(_mm512_mul_ps(value, r), coefficient);
    }
    return _mm512_castsi512_ps(_mm512_xor_si512(
        _mm512_castps_si512(value), _mm512_and_si512(upper, _mm512_set1_epi32((int)0x80000000u))));
}

static void random_normals(const uint32_t *words, size_t count, float *values) {
    __m512 table[ICL_NORMAL_TERMS][2];

    for (int k = 0; k < ICL_NORMAL_TERMS; k++) {
        table[k][0] = _mm512_loadu_ps(icl_normal_table[k]);
        table[k][1] = _mm512_loadu_ps(icl_normal_table[k] + 16);
    }
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 live = count - i >= 16 ? 0xffff : (__mmask16)((1u << (count - i)) - 1);
        const __m512i word = _mm512_maskz_loadu_epi32(live, words + i);
        _mm512_mask_storeu_ps(values + i, live, sixteen_normals(word, table));
    }
}

#endif
