/* Random words and normals with AVX-512. Two things are done here that compilers do not find: products of the low
 * halves of 64-bit lanes, and table look-ups inside registers. The bits are those of random_words.h. */
#ifndef ICLAB_ARITHMETIC_RANDOM_AVX512_H
#define ICLAB_ARITHMETIC_RANDOM_AVX512_H

#include <immintrin.h>

#include "arithmetic/random_words.h"
#include "arithmetic/vector.h"

/* Words that random_blocks may write beyond those asked for. */
#define RANDOM_GROUP 32

/* Writes eight blocks at a time. A counter word is in the low half of each 64-bit lane; the high halves hold leftovers,
 * which the products ignore. The lanes are ordered such that the final interleaving stores the blocks in order. */
static void random_blocks(icl_random_key key, uint32_t low, uint32_t high, size_t count, uint32_t *words) {
    const __m512i m0 = _mm512_set1_epi64(ICL_PHILOX_M0), m1 = _mm512_set1_epi64(ICL_PHILOX_M1);
    const __m512i low_half = _mm512_set1_epi64(0xffffffff);

    for (size_t block = 0; block < count; block += 8) {
        const uint32_t first = low + (uint32_t)block;
        __m512i c0 = _mm512_add_epi64(_mm512_set1_epi64(first), _mm512_set_epi64(7, 3, 6, 2, 5, 1, 4, 0));
        __m512i c1 = _mm512_set1_epi64(high);
        __m512i c2 = _mm512_set1_epi64((uint32_t)key.step), c3 = _mm512_set1_epi64((uint32_t)(key.step >> 32));
        uint32_t k0 = key.seed, k1 = key.stream;
        UNROLL for (int round = 0; round < ICL_PHILOX_ROUNDS; round++) {
            const __m512i product0 = _mm512_mul_epu32(m0, c0), product1 = _mm512_mul_epu32(m1, c2);
            c0 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(product1, 32), c1), _mm512_set1_epi64(k0));
            c2 = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(product0, 32), c3), _mm512_set1_epi64(k1));
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

/* The places of words in the table: random_words.h explains each step. */
typedef struct normal_places {
    __m512i octave, sign;
    __m512 r;
} normal_places;

ALWAYS_INLINE normal_places locate_normals(__m512i word) {
    const __m512i upper = _mm512_srai_epi32(word, 31), m = _mm512_xor_si512(word, upper);
    const __m512i s = _mm512_add_epi32(_mm512_add_epi32(m, m), _mm512_set1_epi32(1));
    const __m512i octave = _mm512_lzcnt_epi32(s);
    const __m512i shifted = _mm512_and_si512(_mm512_sllv_epi32(s, octave), _mm512_set1_epi32(0x7fffffff));
    const __m512i steps = _mm512_sub_epi32(_mm512_set1_epi32(0x1000000), _mm512_srli_epi32(shifted, 7));
    return (normal_places){octave, _mm512_and_si512(upper, _mm512_set1_epi32((int)0x80000000u)),
                           _mm512_mul_ps(_mm512_cvtepi32_ps(steps), _mm512_set1_ps(0x1p-24f))};
}

ALWAYS_INLINE __m512 with_sign(__m512 value, __m512i sign) {
    return _mm512_castsi512_ps(_mm512_xor_si512(_mm512_castps_si512(value), sign));
}

/* Returns sixteen normals of any octave: a row of the table fills two registers. */
static __m512 sixteen_normals(__m512i word) {
    const normal_places at = locate_normals(word);
    __m512 value = _mm512_setzero_ps();

    UNROLL for (int k = ICL_NORMAL_TERMS - 1; k >= 0; k--) {
        const __m512 coefficient = _mm512_permutex2var_ps(_mm512_loadu_ps(icl_normal_table[k]), at.octave,
                                                          _mm512_loadu_ps(icl_normal_table[k] + 16));
        value = k == ICL_NORMAL_TERMS - 1 ? coefficient : _mm512_add_ps(_mm512_mul_ps(value, at.r), coefficient);
    }
    return with_sign(value, at.sign);
}

#define NORMALS_AT_A_TIME 4 /* vectors; several, so that a product need not wait for the sum before it */

/* Makes NORMALS_AT_A_TIME vectors of normals. All words of such a run, except for one run in 500, fall into the first
 * half of the octaves, whose coefficients of one power fill one register. The loop over powers is not unrolled, because
 * compilers would then split its body into one for each vector. */
ALWAYS_INLINE void many_normals(const uint32_t *words, float *values) {
    normal_places at[NORMALS_AT_A_TIME];
    __m512 value[NORMALS_AT_A_TIME];
    __m512i octaves = _mm512_setzero_si512();

    UNROLL for (int i = 0; i < NORMALS_AT_A_TIME; i++) {
        at[i] = locate_normals(_mm512_loadu_si512(words + 16 * i));
        octaves = _mm512_or_si512(octaves, at[i].octave);
    }
    if (_mm512_test_epi32_mask(octaves, _mm512_set1_epi32(16))) {
        for (int i = 0; i < NORMALS_AT_A_TIME; i++)
            _mm512_storeu_ps(values + 16 * i, sixteen_normals(_mm512_loadu_si512(words + 16 * i)));
        return;
    }
    const __m512 last = _mm512_loadu_ps(icl_normal_table[ICL_NORMAL_TERMS - 1]);
    UNROLL for (int i = 0; i < NORMALS_AT_A_TIME; i++) value[i] = _mm512_permutexvar_ps(at[i].octave, last);
    ROLLED for (int k = ICL_NORMAL_TERMS - 2; k >= 0; k--) {
        const __m512 row = _mm512_loadu_ps(icl_normal_table[k]);
        UNROLL for (int i = 0; i < NORMALS_AT_A_TIME; i++) {
            const __m512 coefficient = _mm512_permutexvar_ps(at[i].octave, row);
            value[i] = _mm512_add_ps(_mm512_mul_ps(value[i], at[i].r), coefficient);
        }
    }
    UNROLL for (int i = 0; i < NORMALS_AT_A_TIME; i++)
        _mm512_storeu_ps(values + 16 * i, with_sign(value[i], at[i].sign));
}

static void random_normals(const uint32_t *words, size_t count, float *values) {
    size_t i = 0;

    for (; i + 16 * NORMALS_AT_A_TIME <= count; i += 16 * NORMALS_AT_A_TIME)
        many_normals(words + i, values + i);
    for (; i < count; i += 16) {
        const __mmask16 live = count - i >= 16 ? 0xffff : (__mmask16)((1u << (count - i)) - 1);
        const __m512i word = _mm512_maskz_loadu_epi32(live, words + i);
        _mm512_mask_storeu_ps(values + i, live, sixteen_normals(word));
    }
}

/* ---- Lanes, sixteen of them: for gram_sample ---- */

#define BLOCKS_AT_A_TIME 2 /* so that a product need not wait for the one before */

/* Makes the words of `blocks` blocks, a constant at each call: see random_lanes. */
ALWAYS_INLINE void some_lanes(const size_t blocks, icl_random_key key, const uint64_t *counter, size_t block,
                              uint32_t *words) {
    const __m512i m0 = _mm512_set1_epi64(ICL_PHILOX_M0), m1 = _mm512_set1_epi64(ICL_PHILOX_M1);
    __m512i c0[2 * BLOCKS_AT_A_TIME], c1[2 * BLOCKS_AT_A_TIME], c2[2 * BLOCKS_AT_A_TIME], c3[2 * BLOCKS_AT_A_TIME];
    uint32_t k0 = key.seed, k1 = key.stream;

    UNROLL for (size_t i = 0; i < 2 * blocks; i++) {
        c0[i] = _mm512_add_epi64(_mm512_loadu_si512(counter + i % 2 * 8),
                                 _mm512_set1_epi64((long long)block + (long long)(i / 2)));
        c1[i] = _mm512_srli_epi64(c0[i], 32);
        c2[i] = _mm512_set1_epi64((uint32_t)key.step);
        c3[i] = _mm512_set1_epi64((uint32_t)(key.step >> 32));
    }
    UNROLL for (int round = 0; round < ICL_PHILOX_ROUNDS; round++) {
        const __m512i key0 = _mm512_set1_epi64(k0), key1 = _mm512_set1_epi64(k1);
        UNROLL for (size_t i = 0; i < 2 * blocks; i++) {
            const __m512i product0 = _mm512_mul_epu32(m0, c0[i]), product1 = _mm512_mul_epu32(m1, c2[i]);
            c0[i] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(product1, 32), c1[i]), key0);
            c2[i] = _mm512_xor_si512(_mm512_xor_si512(_mm512_srli_epi64(product0, 32), c3[i]), key1);
            c1[i] = product1;
            c3[i] = product0;
        }
        k0 += ICL_PHILOX_W0;
        k1 += ICL_PHILOX_W1;
    }
    UNROLL for (size_t i = 0; i < 2 * blocks; i++) {
        __m256i *out = (__m256i *)(void *)(words + i / 2 * 64 + i % 2 * 8);
        _mm256_storeu_si256(out, _mm512_cvtepi64_epi32(c0[i]));
        _mm256_storeu_si256(out + 2, _mm512_cvtepi64_epi32(c1[i]));
        _mm256_storeu_si256(out + 4, _mm512_cvtepi64_epi32(c2[i]));
        _mm256_storeu_si256(out + 6, _mm512_cvtepi64_epi32(c3[i]));
    }
}

/* Sets words[4 * b + word][lane] to those of block counter[lane] + block + b; lanes 0 to 7 and 8 to 15 are separate
 * registers. */
static void random_lanes(icl_random_key key, const uint64_t *counter, size_t block, size_t count, uint32_t *words) {
    size_t b = 0;

    for (; b + BLOCKS_AT_A_TIME <= count; b += BLOCKS_AT_A_TIME)
        some_lanes(BLOCKS_AT_A_TIME, key, counter, block + b, words + 64 * b);
    for (; b < count; b++)
        some_lanes(1, key, counter, block + b, words + 64 * b);
}

/* Replaces each values[lane] by the row's polynomial at it: a row of the table fills a register. */
static void chi_lanes(const float *row, float *values) {
    const __m512 z = _mm512_loadu_ps(values);
    const __m512i piece = _mm512_cvttps_epi32(_mm512_add_ps(z, _mm512_set1_ps((float)ICL_CHI_PIECES * 0.5F)));
    const __m512 centre = _mm512_sub_ps(_mm512_cvtepi32_ps(piece), _mm512_set1_ps((float)(ICL_CHI_PIECES - 1) / 2));
    const __m512 t = _mm512_sub_ps(z, centre);
    __m512 value = _mm512_permutexvar_ps(piece, _mm512_loadu_ps(row + (ICL_CHI_TERMS - 1) * ICL_CHI_ROW));

    UNROLL for (int term = ICL_CHI_TERMS - 2; term >= 0; term--) {
        const __m512 coefficient = _mm512_permutexvar_ps(piece, _mm512_loadu_ps(row + term * ICL_CHI_ROW));
        value = _mm512_add_ps(_mm512_mul_ps(value, t), coefficient);
    }
    _mm512_storeu_ps(values, value);
}

/* Transposes sixteen rows: neighbouring floats, then doubles, quarters and halves are exchanged. */
ALWAYS_INLINE void transpose_tile(const float *lanes, const uint32_t *rows, __m512 x[16]) {
    __m512 y[16];
    UNROLL for (int i = 0; i < 16; i++) x[i] = _mm512_loadu_ps(lanes + (size_t)rows[i] * 16);
    UNROLL for (int i = 0; i < 16; i += 2) {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    UNROLL for (int i = 0; i < 16; i += 4) UNROLL for (int j = 0; j < 2; j++) {
        const __m512d a = _mm512_castps_pd(y[i + j]), b = _mm512_castps_pd(y[i + j + 2]);
        x[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        x[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
    }
    /* x[4 g + c] holds columns c, c + 4, c + 8, c + 12 of rows 4 g to 4 g + 3, a quarter each. */
    UNROLL for (int c = 0; c < 4; c++) {
        y[c] = _mm512_shuffle_f32x4(x[c], x[4 + c], 0x88);
        y[4 + c] = _mm512_shuffle_f32x4(x[c], x[4 + c], 0xdd);
        y[8 + c] = _mm512_shuffle_f32x4(x[8 + c], x[12 + c], 0x88);
        y[12 + c] = _mm512_shuffle_f32x4(x[8 + c], x[12 + c], 0xdd);
    }
    UNROLL for (int c = 0; c < 4; c++) {
        x[c] = _mm512_shuffle_f32x4(y[c], y[8 + c], 0x88);
        x[8 + c] = _mm512_shuffle_f32x4(y[c], y[8 + c], 0xdd);
        x[4 + c] = _mm512_shuffle_f32x4(y[4 + c], y[12 + c], 0x88);
        x[12 + c] = _mm512_shuffle_f32x4(y[4 + c], y[12 + c], 0xdd);
    }
}

#define PREFETCHED 32 /* floats ahead: two tiles, so that the lines are in the cache before the stores */

/* The last tile overlaps the one before. */
static void unpack_lanes(const float *lanes, const uint32_t *rows, size_t elements, size_t sequences, float *out,
                         size_t stride) {
    if (elements >= 16 && sequences == 16) {
        for (size_t e = 0; e < elements; e += 16) {
            const size_t at = e + 16 <= elements ? e : elements - 16;
            __m512 column[16];
            transpose_tile(lanes, rows + at, column);
            UNROLL for (size_t s = 0; s < 16; s++) {
                _mm512_storeu_ps(out + s * stride + at, column[s]);
                _mm_prefetch((const char *)(out + s * stride + at + PREFETCHED), _MM_HINT_T0);
            }
        }
        return;
    }
    for (size_t e = 0; e < elements; e++)
        for (size_t s = 0; s < sequences; s++)
            out[s * stride + e] = lanes[(size_t)rows[e] * 16 + s];
}

#endif
