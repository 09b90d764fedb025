/* The kernels that are float on every backend: strict products and random numbers, bit for bit as random.h states
 * them. */
#include "backend/cpu/kernels/kernels.h"

#include "arithmetic/random_words.h"
#include "arithmetic/vector.h"

#define NUMBER float
#include "arithmetic/gemm_rows.h"

static void strict_gemm(const float *a, size_t row_stride, size_t k_stride, const float *b, size_t k, float *acc,
                        size_t rows) {
    gemm_rows(a, row_stride, k_stride, b, k, acc, rows);
}

/* ---- Random words and normals ---- */

#if VECTOR_BYTES == 64 && defined(__AVX512CD__)
#include <immintrin.h>

/* Two things are done here that compilers do not find: products of the low halves of 64-bit lanes, and table look-ups
 * inside registers. The bits are those of random_words.h. */

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
#else
/* Without AVX-512 the loops are such that a compiler can vectorise them. */

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
#define GRAM_LANES   (sizeof(gram_vector) / sizeof(float))

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

/* ---- Gram matrices ---- */

/*
 * gram_sample for one group of W sequences, one lane each (ops.h states every product and sum).
 *
 * A row is W floats. The rows of the lanes are: the normals in the order of the words, where L becomes F in place
 * unless there are roots; with roots, F and the images x_t, w; sigma, target; the Gram matrix's lower triangle. Cost
 * for each sequence, in multiplications and additions: D^3 / 3 for the Gram matrix; with roots D^3 more for F and 2/3
 * D^3 because F is no longer triangular.
 */
DEFINE_VECTOR(lane_vector, float);

#define W (sizeof(lane_vector) / sizeof(float))

#define WORD_BLOCKS 8 /* blocks whose words are made at a time */
#define TILE_ROWS   3 /* rows and columns of the Gram matrix in registers */

/* The places and lengths of the rows of F. */
typedef struct gram_factor {
    size_t first;
    size_t d, columns;
    bool full; /* F = R L: all its rows have min(d, columns) elements */
} gram_factor;

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Returns how many elements the rows of a triangle before row i have. */
static size_t triangle(size_t i) {
    return i * (i + 1) / 2;
}

/* Returns the same of a trapezoid. */
static size_t trapezoid(size_t columns, size_t i) {
    return i <= columns ? triangle(i) : triangle(columns) + (i - columns) * columns;
}

static inline size_t factor_row(const gram_factor *f, size_t i) {
    return f->first + (f->full ? i * smaller(f->d, f->columns) : trapezoid(f->columns, i));
}

static inline size_t factor_length(const gram_factor *f, size_t i) {
    if (f->full)
        return i < f->d ? smaller(f->d, f->columns) : f->columns;
    return smaller(i + 1, f->columns);
}

static icl_gram_rows gram_rows(const icl_gram_job *job) {
    const size_t d = job->d, normals = 4 * job->blocks;
    icl_gram_rows rows = {.query = job->entries, .weights = job->entries + d, .count = normals};
    if (job->roots) {
        rows.query = normals + d * smaller(d, job->columns) + job->columns;
        rows.weights = rows.query + d;
        rows.count = rows.weights + d;
    }
    rows.noise = rows.count;
    rows.targets = rows.noise + 1;
    rows.gram = rows.targets + 1;
    rows.count = rows.gram + (d + 1) * (d + 2) / 2;
    return rows;
}

static inline lane_vector row_at(const float *lanes, size_t row) {
    return *(const lane_vector *)(lanes + row * W);
}

static inline void set_row(float *lanes, size_t row, lane_vector value) {
    *(lane_vector *)(lanes + row * W) = value;
}

static float noise_level(const icl_random_params *level, uint32_t word) {
    if (level->distribution == ICL_UNIFORM)
        return icl_uniform_value(word, level->low, level->high - level->low);
    return level->choices[icl_choice_index(word, level->choice_count)];
}

/* Makes the normals of every word, and sigma from the last one. */
static void gram_normals(const icl_gram_job *job, uint64_t first, size_t noise_row, float *lanes) {
    uint32_t words[4 * WORD_BLOCKS * W];
    uint64_t counter[W];
    const size_t last = job->entries + 2 * job->d; /* the word of sigma */

    for (size_t lane = 0; lane < W; lane++)
        counter[lane] = (first + lane) * job->blocks;
    for (size_t block = 0; block < job->blocks; block += WORD_BLOCKS) {
        const size_t count = smaller(WORD_BLOCKS, job->blocks - block);
        random_lanes(job->params->key, counter, block, count, words);
        random_normals(words, 4 * count * W, lanes + 4 * block * W);
        for (size_t lane = 0; lane < W && block + count == job->blocks; lane++)
            lanes[noise_row * W + lane] = noise_level(&job->params->noise_level, words[(last - 4 * block) * W + lane]);
    }
    for (size_t i = 0; i < job->columns; i++)
        chi_lanes(job->chi + i * (size_t)(ICL_CHI_TERMS * ICL_CHI_ROW), lanes + (trapezoid(job->columns, i) + i) * W);
}

/* Returns the sum over k < end of factors[k] * row (from + k), from left to right; end is at least 1. */
static lane_vector root_product(const float *factors, const float *lanes, size_t from, size_t end) {
    lane_vector sum = factors[0] * row_at(lanes, from);
    for (size_t k = 1; k < end; k++)
        sum += factors[k] * row_at(lanes, from + k);
    return sum;
}

/* F = R L, x_t = R g, w = C h. */
static void apply_roots(const icl_gram_job *job, const gram_factor *f, const icl_gram_rows *rows, float *lanes) {
    const size_t d = job->d, columns = job->columns;
    const float *input = job->roots, *weight = job->roots + d * d;

    for (size_t i = 0; i < d; i++) {
        for (size_t j = 0; j < smaller(d, columns); j++) {
            lane_vector sum = input[i * d + j] * row_at(lanes, trapezoid(columns, j) + j);
            for (size_t k = j + 1; k < d; k++)
                sum += input[i * d + k] * row_at(lanes, trapezoid(columns, k) + j);
            set_row(lanes, factor_row(f, i) + j, sum);
        }
        set_row(lanes, rows->query + i, root_product(input + i * d, lanes, job->entries, d));
        set_row(lanes, rows->weights + i, root_product(weight + i * d, lanes, job->entries + d, d));
    }
}

/* Computes the row of labels, from L's last row. */
static void label_row(const icl_gram_job *job, const gram_factor *f, const icl_gram_rows *rows, float *lanes) {
    const size_t d = job->d, from = trapezoid(job->columns, d), to = factor_row(f, d);
    const lane_vector sigma = row_at(lanes, rows->noise);

    for (size_t j = 0; j < job->columns; j++) {
        const lane_vector noise = sigma * row_at(lanes, from + j);
        if (j == d) {
            set_row(lanes, to + j, noise);
        } else {
            const size_t top = f->full ? 0 : j;
            lane_vector sum = row_at(lanes, rows->weights + top) * row_at(lanes, factor_row(f, top) + j);
            for (size_t i = top + 1; i < d; i++)
                sum += row_at(lanes, rows->weights + i) * row_at(lanes, factor_row(f, i) + j);
            set_row(lanes, to + j, sum + noise);
        }
    }
}

/* Computes rows a .. a + height - 1 and columns b .. b + width - 1 of F F^T, b <= a. Rows of F get longer downwards, so
 * all of these sums have the terms of column b. height and width are constants at each call. */
ALWAYS_INLINE void gram_tile(const size_t height, const size_t width, const gram_factor *f, size_t a, size_t b,
                             const float *lanes, float *gram) {
    lane_vector sum[TILE_ROWS][TILE_ROWS];
    const float *left[TILE_ROWS], *right[TILE_ROWS];
    const size_t common = factor_length(f, b);

    UNROLL for (size_t i = 0; i < height; i++) left[i] = lanes + factor_row(f, a + i) * W;
    UNROLL for (size_t j = 0; j < width; j++) right[j] = lanes + factor_row(f, b + j) * W;
    UNROLL for (size_t i = 0; i < height; i++) UNROLL for (size_t j = 0; j < width; j++) sum[i][j] =
        row_at(left[i], 0) * row_at(right[j], 0);
    for (size_t k = 1; k < common; k++) {
        UNROLL for (size_t i = 0; i < height; i++) UNROLL for (size_t j = 0; j < width; j++) sum[i][j] +=
            row_at(left[i], k) * row_at(right[j], k);
    }
    UNROLL for (size_t i = 0; i < height; i++) UNROLL for (size_t j = 0; j < width; j++) {
        if (a + i < b + j)
            continue; /* above the diagonal */
        for (size_t k = common; k < factor_length(f, b + j); k++)
            sum[i][j] += row_at(left[i], k) * row_at(right[j], k);
        set_row(gram, triangle(a + i) + b + j, sum[i][j]);
    }
}

static void gram_product(const gram_factor *f, const float *lanes, float *gram) {
    const size_t extent = f->d + 1, tiled = extent / TILE_ROWS * TILE_ROWS;

    if (f->columns == 0) {
        for (size_t i = 0; i < triangle(extent) * W; i++)
            gram[i] = 0;
        return;
    }
    for (size_t a = 0; a < tiled; a += TILE_ROWS)
        for (size_t b = 0; b <= a; b += TILE_ROWS)
            gram_tile(TILE_ROWS, TILE_ROWS, f, a, b, lanes, gram);
    for (size_t a = tiled; a < extent; a++) {
        for (size_t b = 0; b < tiled; b += TILE_ROWS)
            gram_tile(1, TILE_ROWS, f, a, b, lanes, gram);
        for (size_t b = tiled; b <= a; b++)
            gram_tile(1, 1, f, a, b, lanes, gram);
    }
}

static void gram(const icl_gram_job *job, uint64_t first, float *lanes) {
    const icl_gram_rows rows = gram_rows(job);
    const gram_factor factor = {
        .first = job->roots ? 4 * job->blocks : 0, .d = job->d, .columns = job->columns, .full = job->roots != NULL};
    lane_vector target;

    gram_normals(job, first, rows.noise, lanes);
    if (job->roots)
        apply_roots(job, &factor, &rows, lanes);
    label_row(job, &factor, &rows, lanes);
    target = row_at(lanes, rows.weights) * row_at(lanes, rows.query);
    for (size_t i = 1; i < job->d; i++)
        target += row_at(lanes, rows.weights + i) * row_at(lanes, rows.query + i);
    set_row(lanes, rows.targets, target);
    gram_product(&factor, lanes, lanes + rows.gram * W);
}

/* ---- Rows on spheres ---- */

/*
 * spherical: the factors of a block of rows (ops.h states every product and sum). Plain loops over the rows of a block,
 * which compilers turn into vectors.  Cost for each row: 2 d + 12 multiplications and additions,
 * 35 more with a radius.
 */

/* Returns x cut to [-limit, limit], or -limit if it is NaN. */
static inline float cut_to(float x, float limit) {
    const float lower = x > -limit ? x : -limit;
    return lower < limit ? lower : limit;
}

/* Multiplies factors by 2^exponents, computed by the series about the nearest integer. */
static void scale_by_powers(const float *exponents, float *factors) {
    static const float c[] = {1.0F,           0x1.62e430p-1F,  0x1.ebfbe0p-3F,  0x1.c6b08ep-5F,
                              0x1.3b2ab6p-7F, 0x1.5d87fep-10F, 0x1.430912p-13F, 0x1.ffcbfcp-17F};
    float f[ICL_SPHERICAL_ROWS], sum[ICL_SPHERICAL_ROWS], scale[ICL_SPHERICAL_ROWS];
    uint32_t bits[ICL_SPHERICAL_ROWS];

    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++) {
        const float cut = cut_to(exponents[i], 62.0F);
        const int32_t whole = (int32_t)(cut + 62.5F) - 62;
        f[i] = cut - (float)whole;
        bits[i] = (uint32_t)(whole + 127) << 23;
        sum[i] = c[7];
    }
    for (int j = 6; j >= 0; j--)
        for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
            sum[i] = sum[i] * f[i] + c[j];
    memcpy(scale, bits, sizeof scale);
    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
        factors[i] *= sum[i] * scale[i];
}

/* Computes L(z) from the table. */
static void exponents_at(const float *table, const float *normals, float *exponents) {
    float t[ICL_SPHERICAL_ROWS];
    int32_t piece[ICL_SPHERICAL_ROWS];

    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++) {
        const float z = cut_to(normals[i], 6.99F);
        piece[i] = (int32_t)(z + (float)ICL_CHI_PIECES * 0.5F);
        t[i] = z - ((float)piece[i] - (float)(ICL_CHI_PIECES - 1) * 0.5F);
        exponents[i] = table[(ICL_CHI_TERMS - 1) * ICL_CHI_ROW + piece[i]];
    }
    for (int term = ICL_CHI_TERMS - 2; term >= 0; term--)
        for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
            exponents[i] = exponents[i] * t[i] + table[term * ICL_CHI_ROW + piece[i]];
}

/* Returns 1 / sqrt(s) by three steps of Newton's iteration. */
static inline float reciprocal_root(float s) {
    const float h = s * 0.5F;
    uint32_t bits;
    float y;

    memcpy(&bits, &s, sizeof bits);
    bits = 0x5f375a86U - (bits >> 1);
    memcpy(&y, &bits, sizeof y);
    for (int step = 0; step < 3; step++)
        y = y * (1.5F - h * y * y);
    return y;
}

static void spherical(const float *rows, size_t length, const float *normals, const float *table, float *factors) {
    float squares[ICL_SPHERICAL_ROWS];

    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
        squares[i] = rows[i] * rows[i];
    for (size_t k = 1; k < length; k++)
        for (int i = 0; i < ICL_SPHERICAL_ROWS; i++) {
            const float x = rows[k * ICL_SPHERICAL_ROWS + (size_t)i];
            squares[i] += x * x;
        }
    for (int i = 0; i < ICL_SPHERICAL_ROWS; i++)
        factors[i] = reciprocal_root(squares[i]);
    if (!normals)
        return;
    exponents_at(table, normals, squares);
    scale_by_powers(squares, factors);
}

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
    case ICL_EXPONENTIAL_LAW:
        for (size_t i = 0; i < count; i++)
            values[i] = icl_exponential_value(words[skipped + i]);
        break;
    case ICL_DISTRIBUTION_COUNT:
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
