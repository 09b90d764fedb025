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

#if VECTOR_BYTES == 64 && defined(__AVX512CD__)
#include "arithmetic/random_avx512.h"
#else
#include "arithmetic/random_portable.h"
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
