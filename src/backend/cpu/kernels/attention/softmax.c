/* Softmax attention, a block of queries or of keys at a time. It is compiled once for operands as they are, and once
 * with SOFTMAX_BF16, for operands that are rounded to bfloat16. */
#include "arithmetic/bf16.h"
#include "arithmetic/exponential.h"
#include "backend/cpu/kernels/attention/softmax_lanes.h"

/* ---- Operands ---- */

/*
 * The operands of the products of softmax attention: numbers as they are, or rounded to bfloat16 (SOFTMAX_BF16).
 *
 * Rounded numbers go in pairs of neighbours along the sum, padded with 0 where their number is odd, and a sum takes the
 * second of a pair before the first, as the instruction that multiplies pairs does. Where the processor has it, a pair
 * is one word; elsewhere it is two numbers, in this order.
 */

#define EVEN(count)  (((count) + 1) / 2 * 2)
#define MOST_SOURCES 64 /* rows of a matrix that are rounded at a time: those of a tile */

#if !defined(SOFTMAX_BF16) || !defined(__AVX512BF16__)
/* A factor of a product: a vector in a register. */
typedef lane factor;

ALWAYS_INLINE factor load_factor(const lane *x) {
    return *x;
}
ALWAYS_INLINE factor repeat_factor(const real *x) {
    return lane_set(*x);
}
ALWAYS_INLINE lane add_product(factor left, factor right, lane sum) {
    return lane_fma(left, right, sum);
}

#endif

#ifndef SOFTMAX_BF16

#define TERMS(count) (count) /* products in a sum over this many numbers */

static inline size_t operand_size(const plan *p) {
    (void)p;
    return 0;
}
static inline void round_lanes(lane *x, size_t count, size_t vectors) {
    (void)x;
    (void)count;
    (void)vectors;
}
static inline matrix dot_operand(matrix from, size_t length, size_t width, real *to) {
    (void)length;
    (void)width;
    (void)to;
    return from;
}
static inline matrix sum_operand(matrix from, size_t length, size_t width, real *to) {
    (void)length;
    (void)width;
    (void)to;
    return from;
}

#else

/* Returns how many numbers dot_operand and sum_operand write at most: rows of d, of e or of a block of keys. */
static inline size_t operand_size(const plan *p) {
    const size_t width = p->d > p->e ? p->d : p->e;
    return MOST_SOURCES * ((width > BLOCK ? width : BLOCK) + LANES) / LANE_COUNT * LANE_COUNT;
}

#ifdef __AVX512BF16__
#include <immintrin.h>

#define TERMS(count) (((count) + 1) / 2)

typedef __m512bh factor;

ALWAYS_INLINE factor load_factor(const lane *x) {
    return (__m512bh)_mm512_loadu_si512(x);
}
ALWAYS_INLINE factor repeat_factor(const real *x) {
    int pair;
    memcpy(&pair, x, sizeof pair);
    return (__m512bh)_mm512_set1_epi32(pair);
}
ALWAYS_INLINE lane add_product(factor left, factor right, lane sum) {
    return (lane)_mm512_dpbf16_ps((__m512)sum, left, right);
}

/* Pairs the numbers of two vectors, lane by lane. */
ALWAYS_INLINE __m512i pair_lanes(__m512 first, __m512 second) {
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i order = _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second, first));
}

/* x [TERMS(count)] = pairs of x [count], of vectors that are next to each other along the sum. */
static inline void round_lanes(lane *x, size_t count, size_t vectors) {
    for (size_t p = 0; 2 * p < count; p++)
        for (size_t v = 0; v < vectors; v++) {
            const bool is_whole = 2 * p + 1 < count;
            const __m512 first = _mm512_loadu_ps(x + 2 * p * VECTORS + v);
            const __m512 second = is_whole ? _mm512_loadu_ps(x + (2 * p + 1) * VECTORS + v) : _mm512_setzero_ps();
            _mm512_storeu_si512(x + p * VECTORS + v, pair_lanes(first, second));
        }
}

static inline uint32_t pair_of(const real *first, const real *second) {
    return bf16_bits((float)*first) | (second ? bf16_bits((float)*second) << 16 : 0);
}

#define FIRST_LANES(count) ((__mmask16)((1u << ((count) < LANES ? (count) : LANES)) - 1))

/* Returns the rows of a matrix, [length][TERMS(width)], for sums along them. */
static inline matrix dot_operand(matrix from, size_t length, size_t width, real *to) {
    const size_t terms = TERMS(width);
    for (size_t t = 0; t < length; t++) {
        const real *row = from.elements + t * from.row;
        for (size_t c = 0; c < width && from.column == 1; c += 2 * LANES) {
            const size_t left = width - c, more = left > LANES ? left - LANES : 0;
            const __m512 low = _mm512_maskz_loadu_ps(FIRST_LANES(left), row + c);
            const __m512 high = _mm512_maskz_loadu_ps(FIRST_LANES(more), row + c + smaller(left, LANES));
            _mm512_mask_storeu_epi32(to + t * terms + c / 2, FIRST_LANES((left + 1) / 2),
                                     (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
        for (size_t c = 0; c < width && from.column != 1; c += 2) {
            const uint32_t pair = pair_of(row + c * from.column, c + 1 < width ? row + (c + 1) * from.column : NULL);
            memcpy(to + t * terms + c / 2, &pair, sizeof pair);
        }
    }
    return (matrix){to, terms, 1};
}

/* Returns pairs of rows of a matrix, [TERMS(length)][width in whole vectors], for sums over the rows. */
static inline matrix sum_operand(matrix from, size_t length, size_t width, real *to) {
    const size_t row = (width + LANES - 1) / LANES * LANES;
    for (size_t t = 0; t < length; t += 2) {
        const real *first = from.elements + t * from.row, *second = first + from.row;
        for (size_t c = 0; c < width && from.column == 1; c += LANES) {
            const __mmask16 mask = FIRST_LANES(width - c);
            const __m512 high = t + 1 < length ? _mm512_maskz_loadu_ps(mask, second + c) : _mm512_setzero_ps();
            _mm512_storeu_si512(to + t / 2 * row + c, pair_lanes(_mm512_maskz_loadu_ps(mask, first + c), high));
        }
        for (size_t c = 0; c < width && from.column != 1; c++) {
            const uint32_t pair = pair_of(first + c * from.column, t + 1 < length ? second + c * from.column : NULL);
            memcpy(to + t / 2 * row + c, &pair, sizeof pair);
        }
    }
    return (matrix){to, row, 1};
}

#else

#define TERMS(count) EVEN(count)

static inline real rounded(const real *x) {
    return (real)bf16_rounded((float)*x);
}

/* x [TERMS(count)] = pairs of x [count], of vectors that are next to each other along the sum. */
static inline void round_lanes(lane *x, size_t count, size_t vectors) {
    for (size_t i = 0; i < count; i += 2) {
        real *first = lane_elements(x + i * VECTORS), *second = lane_elements(x + (i + 1) * VECTORS);
        for (size_t l = 0; l < vectors * LANE_COUNT; l++) {
            const real former = rounded(first + l);
            first[l] = i + 1 < count ? rounded(second + l) : 0;
            second[l] = former;
        }
    }
}

/* Returns the rows of a matrix, [length][TERMS(width)], for sums along them. */
static inline matrix dot_operand(matrix from, size_t length, size_t width, real *to) {
    const size_t terms = TERMS(width);
    for (size_t t = 0; t < length; t++) {
        const real *row = from.elements + t * from.row;
        for (size_t c = 0; c < width; c += 2) {
            to[t * terms + c] = c + 1 < width ? rounded(row + (c + 1) * from.column) : 0;
            to[t * terms + c + 1] = rounded(row + c * from.column);
        }
    }
    return (matrix){to, terms, 1};
}

/* Returns rows of a matrix, [TERMS(length)][width], for sums over them. */
static inline matrix sum_operand(matrix from, size_t length, size_t width, real *to) {
    for (size_t t = 0; t < length; t += 2) {
        const real *first = from.elements + t * from.row, *second = first + from.row;
        for (size_t c = 0; c < width; c++) {
            to[t * width + c] = t + 1 < length ? rounded(second + c * from.column) : 0;
            to[(t + 1) * width + c] = rounded(first + c * from.column);
        }
    }
    return (matrix){to, width, 1};
}

#endif
#endif

#ifdef SOFTMAX_BF16
#define SOFTMAX(name) KERNEL(bf16_##name)
#else
#define SOFTMAX(name) KERNEL(name)
#endif

/* ---- Products ---- */

/*
 * Products of a matrix in memory with a block of packed lanes, for the kernels of softmax attention whose lanes are
 * queries, keys or coordinates of one sequence.
 *
 * All have one form, add_products: GROUP strided elements of a matrix, each times the vectors of one packed row, are
 * added to sums that stay in registers: GROUP + VECTORS loads for GROUP * VECTORS multiply-adds. If NARROW vectors hold
 * a block, or a row of coordinates, the other vectors are not computed.
 */

#define NARROW (VECTORS > 2 ? 2 : 1)
#define GROUP  4

/* Returns `count` rounded up to a multiple of GROUP. */
static inline size_t padded(size_t count) {
    return (count + GROUP - 1) / GROUP * GROUP;
}

/* Returns how many vectors to process for `count` lanes. */
static inline size_t vectors_for(size_t count) {
    return count > NARROW * LANE_COUNT ? VECTORS : NARROW;
}

/* sum[g][v] += sum over i < count, in order, of from[i * step + at[g]] * x[i][v], v < vectors */
ALWAYS_INLINE void add_products(lane sum[GROUP][VECTORS], const real *from, size_t step, const size_t at[GROUP],
                                const lane *x, size_t count, const size_t vectors) {
    for (size_t i = 0; i < count; i++) {
        factor right[VECTORS];
        UNROLL for (size_t v = 0; v < vectors; v++) right[v] = load_factor(x + v);
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            const factor left = repeat_factor(from + at[g]);
            UNROLL for (size_t v = 0; v < vectors; v++) sum[g][v] = add_product(left, right[v], sum[g][v]);
        }
        from += step;
        x += VECTORS;
    }
}

ALWAYS_INLINE void multiply_rows(lane *tile, matrix from, size_t length, size_t width, const lane *x,
                                 const size_t vectors) {
    for (size_t t = 0; t < length; t += GROUP) {
        lane sum[GROUP][VECTORS];
        size_t at[GROUP];
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            at[g] = smaller(t + g, length - 1) * from.row;
            UNROLL for (size_t v = 0; v < vectors; v++) sum[g][v] = lane_set(0);
        }
        add_products(sum, from.elements, from.column, at, x, TERMS(width), vectors);
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            UNROLL for (size_t v = 0; v < vectors; v++) tile[(t + g) * VECTORS + v] = sum[g][v];
        }
    }
}

/* tile [length] = the dot products of `length` > 0 rows of a matrix with the lanes' vectors, packed as x [width].
 * Writes up to a multiple of GROUP. */
static inline void multiply_tile(lane *tile, matrix from, size_t length, size_t width, const lane *x, size_t vectors) {
    if (vectors == VECTORS)
        multiply_rows(tile, from, length, width, x, VECTORS);
    else
        multiply_rows(tile, from, length, width, x, NARROW);
}

ALWAYS_INLINE void add_columns(lane *sums, const lane *keep, matrix from, size_t length, size_t width,
                               const lane *weights, const size_t vectors) {
    for (size_t c = 0; c < width; c += GROUP) {
        lane sum[GROUP][VECTORS], *to = sums + c * VECTORS;
        size_t at[GROUP];
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            at[g] = smaller(c + g, width - 1) * from.column;
            UNROLL for (size_t v = 0; v < vectors; v++) {
                sum[g][v] = to[g * VECTORS + v];
                if (keep)
                    sum[g][v] = lane_multiply(keep[v], sum[g][v]);
            }
        }
        add_products(sum, from.elements, from.row, at, weights, TERMS(length), vectors);
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            UNROLL for (size_t v = 0; v < vectors; v++) to[g * VECTORS + v] = sum[g][v];
        }
    }
}

/* sums [width] = keep * sums + sum over rows t < length of a matrix of its `width` columns times weights [t]; keep
 * NULL: 1. Touches sums up to a multiple of GROUP. */
static inline void add_tile(lane *sums, const lane *keep, matrix from, size_t length, size_t width, const lane *weights,
                            size_t vectors) {
    if (vectors == VECTORS)
        add_columns(sums, keep, from, length, width, weights, VECTORS);
    else
        add_columns(sums, keep, from, length, width, weights, NARROW);
}

/* ---- Forward ---- */

/*
 * Softmax attention forward, a block of queries at a time: the algorithm of cl/attention/attention_softmax.cl.
 *
 * It makes one pass over the keys, TILE at a time, with a running maximum and rescaled sums (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018). With s_ij = scale q_i . k_j and p_ij = exp(s_ij - log_sum_exp_i),
 * out_i = sum_j p_ij v_j.
 *
 * Lanes are the block's queries. The only memory is packed rows of BLOCK lanes: one for each coordinate of a query and
 * of its sum, and one for each key of a tile. The cost is 2 (d + e) flops and an exponential for each pair.
 *
 * Each lane sums over the keys in order, so that a result depends neither on the threads nor on the block that it is
 * in; with lane_fma it depends on the instruction set, see lanes.h.
 */

#define TILE 64 /* keys that share one rescaling and one pass over the sums */

/* The keys of a tile that each lane attends to: from `begin` to `end`, without the latter. */
typedef struct tile_mask {
    real begin[BLOCK], end[BLOCK];
} tile_mask;

/* Masks a tile of `length` keys from j on for the lanes of queries `first` to `last`; other lanes have masks of no
 * meaning. */
static void mask_tile(const plan *p, size_t first, size_t last, size_t j, size_t length, tile_mask *mask) {
    const size_t end = reach_of(p, last);
    for (size_t l = 0; l < BLOCK; l++) {
        mask->begin[l] = (real)below(begin_of(p, first + l), j, length);
        mask->end[l] = (real)below(smaller(reach_of(p, first + l), end), j, length);
    }
}

/* The state of a block of queries between tiles of keys. */
typedef struct softmax_state {
    size_t vectors;
    tile_mask mask; /* of the current tile */
    real maximum[BLOCK], total[BLOCK];
    lane keep[VECTORS]; /* the factor by which the sums so far are to be multiplied */
} softmax_state;

/* Returns whether lane l attends to key t of the tile. */
static inline bool is_seen(const tile_mask *mask, size_t t, size_t l) {
    const real begin = mask->begin[l], end = mask->end[l];
    return (real)t >= begin && (real)t < end;
}

/* Turns a tile of scores into weights relative to the new maximum. masked: some lane does not attend to all of the
 * tile. */
ALWAYS_INLINE void weigh(softmax_state *state, real *tile, size_t length, real scale, const bool masked) {
    const size_t lanes = state->vectors * LANE_COUNT;
    real higher[BLOCK], total[BLOCK];
    real *keep = lane_elements(state->keep);

    memcpy(higher, state->maximum, sizeof higher);
    for (size_t t = 0; t < length; t++) {
        real *score = tile + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < lanes; l++) {
            const real value = scale * score[l];
            const real seen = !masked || is_seen(&state->mask, t, l) ? value : -REAL_MAX;
            higher[l] = seen > higher[l] ? seen : higher[l];
            score[l] = value;
        }
    }
    INDEPENDENT for (size_t l = 0; l < lanes; l++) {
        keep[l] = weight_exponential(state->maximum[l] - higher[l], false);
        total[l] = keep[l] * state->total[l];
    }
    for (size_t t = 0; t < length; t++) {
        real *score = tile + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < lanes; l++) {
            const real weight = weight_exponential(score[l] - higher[l], false);
            score[l] = !masked || is_seen(&state->mask, t, l) ? weight : 0;
            total[l] += score[l];
        }
    }
    memcpy(state->maximum, higher, sizeof higher);
    memcpy(state->total, total, sizeof total);
}

static void weigh_tile(softmax_state *state, real *tile, size_t length, real scale, bool masked) {
    if (masked)
        weigh(state, tile, length, scale, true);
    else
        weigh(state, tile, length, scale, false);
}

/* Stores out and log_sum_exp of `count` queries, from what their lanes hold after the last key. */
static void store_queries(const plan *p, place at, size_t first, size_t count, const softmax_state *state, lane *sums) {
    const matrix out = query_rows(&p->out, at, first), lse = query_rows(&p->log_sum_exp, at, first);
    real reach[BLOCK];

    for (size_t l = 0; l < BLOCK; l++)
        reach[l] = (real)reach_of(p, first + smaller(l, count - 1));
    for (size_t c = 0; c < p->e; c++) {
        real *sum = lane_elements(sums + c * VECTORS);
        INDEPENDENT for (size_t l = 0; l < state->vectors * LANE_COUNT; l++) {
            const real average = sum[l] / state->total[l];
            sum[l] = reach[l] > 0 ? average : 0;
        }
    }
    store_lanes(sums, 1, out, count, p->e);
    for (size_t l = 0; l < count; l++)
        lse.elements[l * lse.row] = reach[l] > 0 ? state->maximum[l] + REAL_LOG(state->total[l]) : -(real)INFINITY;
}

#ifndef SOFTMAX_BF16
/* ---- Few queries ---- */

/*
 * A block of so few queries would leave most lanes empty, so that each of them is computed alone: lanes are first the
 * keys of a tile, for its scores, and then the coordinates of values. A query takes the same steps in the same order as
 * in a block, and its results have the same bits.
 */
#define FEW_QUERIES 4

/* The state of one query between tiles of keys. */
typedef struct query_of_few {
    real maximum, total, keep;
    real score[(TILE + BLOCK - 1) / BLOCK * BLOCK]; /* of the current tile, then its weights */
} query_of_few;

/* Computes the scores of `length` keys. packed [d]: memory. */
static void score_keys(query_of_few *state, matrix q, matrix k, size_t length, size_t width, lane *packed) {
    for (size_t t = 0; t < length; t += BLOCK) {
        lane sum[VECTORS];
        pack_lanes(packed, (matrix){k.elements + t * k.row, k.row, k.column}, smaller(length - t, BLOCK), VECTORS,
                   width);
        UNROLL for (size_t v = 0; v < VECTORS; v++) sum[v] = lane_set(0);
        for (size_t c = 0; c < width; c++) {
            const lane right = lane_set(q.elements[c * q.column]);
            UNROLL for (size_t v = 0; v < VECTORS; v++) sum[v] = lane_fma(packed[c * VECTORS + v], right, sum[v]);
        }
        memcpy(state->score + t, sum, sizeof sum);
    }
}

/* Turns the scores of the keys from `begin` to `end` of a tile into weights relative to the new maximum. */
static void weigh_scores(query_of_few *state, size_t begin, size_t end, real scale) {
    real higher = state->maximum;

    for (size_t t = begin; t < end; t++) {
        state->score[t] = scale * state->score[t];
        higher = state->score[t] > higher ? state->score[t] : higher;
    }
    state->keep = weight_exponential(state->maximum - higher, false);
    INDEPENDENT for (size_t t = begin; t < end; t++) state->score[t] =
        weight_exponential(state->score[t] - higher, false);
    state->total = state->keep * state->total;
    for (size_t t = begin; t < end; t++)
        state->total += state->score[t];
    state->maximum = higher;
}

/* Returns `count` <= LANE_COUNT elements of a row; the other lanes hold 0. */
ALWAYS_INLINE lane load_columns(const real *row, size_t column, size_t count) {
    lane loaded = lane_set(0);
    real *elements = lane_elements(&loaded);

    if (column == 1 && count >= LANE_COUNT)
        memcpy(&loaded, row, sizeof loaded);
    else
        for (size_t l = 0; l < count && l < LANE_COUNT; l++)
            elements[l] = row[l * column];
    return loaded;
}

/* sums [width] = keep * sums + sum over rows t from `begin` to `end` of v times their weights */
static void add_values(const query_of_few *state, matrix v, size_t begin, size_t end, size_t width, lane *sums) {
    const lane keep = lane_set(state->keep);

    for (size_t c = 0; c < width; c += LANE_COUNT) {
        lane sum = lane_multiply(keep, sums[c / LANE_COUNT]);
        for (size_t t = begin; t < end; t++) {
            const real *row = v.elements + t * v.row + c * v.column;
            sum = lane_fma(load_columns(row, v.column, width - c), lane_set(state->score[t]), sum);
        }
        sums[c / LANE_COUNT] = sum;
    }
}

/* Computes query i alone. */
static void forward_query(const plan *p, place at, size_t i, lane *workspace) {
    const size_t begin = begin_of(p, i), end = reach_of(p, i);
    const matrix q = query_rows(&p->q, at, i), out = query_rows(&p->out, at, i);
    lane *packed = workspace, *sums = packed + p->d * VECTORS;
    const real *sum = lane_elements(sums);
    query_of_few state = {.maximum = -REAL_MAX};

    memset(sums, 0, (p->e + LANE_COUNT - 1) / LANE_COUNT * sizeof *sums);
    for (size_t j = begin / TILE * TILE; j < end; j += TILE) {
        const size_t first = below(begin, j, TILE), length = smaller(TILE, end - j);
        score_keys(&state, q, key_rows_of(&p->k, at, j), length, p->d, packed);
        weigh_scores(&state, first, length, p->scale);
        add_values(&state, key_rows_of(&p->v, at, j), first, length, p->e, sums);
    }
    for (size_t c = 0; c < p->e; c++)
        out.elements[c * out.column] = end > 0 ? sum[c] / state.total : 0;
    *query_rows(&p->log_sum_exp, at, i).elements = end > 0 ? state.maximum + REAL_LOG(state.total) : -(real)INFINITY;
}
#endif

/* ---- Blocks of queries ---- */

static void forward_block(const plan *p, place at, size_t first, void *workspace) {
    const size_t count = smaller(p->queries - first, BLOCK), last = first + count - 1, end = reach_of(p, last);
    lane *q = workspace, *sums = q + EVEN(p->d) * VECTORS, *tile = sums + padded(p->e) * VECTORS;
    real *operand = lane_elements(tile + TILE * VECTORS);
    softmax_state state = {.vectors = vectors_for(count)};

    pack_lanes(q, query_rows(&p->q, at, first), count, state.vectors, p->d);
    round_lanes(q, p->d, state.vectors);
    clear_lanes(sums, padded(p->e));
    for (size_t l = 0; l < BLOCK; l++)
        state.maximum[l] = -REAL_MAX;
    for (size_t j = begin_of(p, first) / TILE * TILE; j < end; j += TILE) {
        const size_t length = smaller(TILE, end - j);
        mask_tile(p, first, last, j, length, &state.mask);
        multiply_tile(tile, dot_operand(key_rows_of(&p->k, at, j), length, p->d, operand), length, p->d, q,
                      state.vectors);
        weigh_tile(&state, lane_elements(tile), length, p->scale,
                   reach_of(p, first) < j + length || begin_of(p, last) > j);
        round_lanes(tile, length, state.vectors);
        add_tile(sums, state.keep, sum_operand(key_rows_of(&p->v, at, j), length, p->e, operand), length, p->e, tile,
                 state.vectors);
    }
    store_queries(p, at, first, count, &state, sums);
}

void SOFTMAX(softmax_forward)(const plan *p, place at, size_t first, void *workspace) {
#ifndef SOFTMAX_BF16
    if (p->queries - first <= FEW_QUERIES) {
        for (size_t i = first; i < p->queries; i++)
            forward_query(p, at, i, workspace);
        return;
    }
#endif
    forward_block(p, at, first, workspace);
}

size_t SOFTMAX(softmax_forward_workspace)(const plan *p) {
    return ((EVEN(p->d) + padded(p->e) + TILE) * BLOCK + operand_size(p)) * sizeof(real);
}

/* ---- Backward ---- */

/*
 * Softmax attention backward, a block of queries or of keys at a time. With G the gradient of out and D_i
 * = G_i . out_i,
 *     dv_j = sum_i p_ij G_i,  t_ij = p_ij (G_i . v_j - D_i),
 *     dq_i = scale sum_j t_ij k_j,  dk_j = scale sum_i t_ij q_i,
 * where p_ij = exp(s_ij - log_sum_exp_i) is computed again from s_ij = scale q_i . k_j.
 *
 * It is one pass if a task can be a whole sequence. The lanes are the keys of a block, and the sums are their dv and
 * dk. Each tile of t, TILE queries by BLOCK keys, also adds its product with the block's keys to dq of its queries,
 * which stays in memory until the last block is done; there the lanes are coordinates, in bands of BLOCK, so that no
 * tile is ever transposed. The cost is 6 d + 4 e flops and an exponential for each pair. The memory, besides packed
 * rows of a block and a tile, is queries * d numbers for each head that reads the keys, d rounded up to whole bands.
 *
 * It is two passes if sequences are few and a task must be a block: one pass that owns queries, for dq, and one that
 * owns keys, for dk and dv. Each computes its own s, t and exponential: 8 d + 6 e flops, and no memory that grows with
 * the length.
 *
 * If heads share keys, the sums of dk and dv pass from head to head, in order.
 *
 * Each number is summed over keys, or queries, in order, so that a result depends neither on the threads, nor on the
 * block that it is in, nor on whether there are one or two passes; with lane_fma it depends on the instruction set, see
 * lanes.h.
 */

#define KEY_TILE 64 /* queries (or keys) that share one pass over the sums */

/* ---- Row terms ---- */

/* Returns D of all queries of one head. */
static real *row_terms_of(const plan *p, place at) {
    return p->row_terms + (at.batch * p->heads + at.head) * p->queries;
}

/* Computes D of `count` queries from `first` on. */
static void sum_row_terms(const plan *p, place at, size_t first, size_t count) {
    const matrix g = query_rows(&p->d_out, at, first), out = query_rows(&p->out, at, first);
    real *row_terms = row_terms_of(p, at) + first;
    for (size_t i = 0; i < count; i++) {
        real term = 0;
        for (size_t c = 0; c < p->e; c++)
            term += g.elements[i * g.row + c * g.column] * out.elements[i * out.row + c * out.column];
        row_terms[i] = term;
    }
}

/* ---- Lanes are queries ---- */

/* The state of the pass over queries, for each lane: log_sum_exp, D, and which keys of the current tile it attends
 * to. */
typedef struct query_state {
    size_t vectors;
    tile_mask mask;
    real log_sum_exp[BLOCK], row_term[BLOCK];
} query_state;

static void start_queries(const plan *p, place at, size_t first, size_t count, query_state *state) {
    const matrix lse = query_rows(&p->log_sum_exp, at, first);
    state->vectors = vectors_for(count);
    sum_row_terms(p, at, first, count);
    for (size_t l = 0; l < BLOCK; l++) {
        const size_t row = smaller(l, count - 1);
        state->log_sum_exp[l] = lse.elements[row * lse.row];
        state->row_term[l] = row_terms_of(p, at)[first + row];
    }
}

/* Replaces the scores of a tile by t; the weights are not kept. gains holds G_i . v_j. */
static void slope_tile(const query_state *state, real *tile, const real *gains, size_t length, real scale) {
    const size_t lanes = state->vectors * LANE_COUNT;
    for (size_t t = 0; t < length; t++) {
        real *score = tile + t * BLOCK;
        const real *gain = gains + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < lanes; l++) {
            const real weight = weight_exponential(REAL_FMA(scale, score[l], -state->log_sum_exp[l]), true);
            const real slope = weight * (gain[l] - state->row_term[l]);
            score[l] = is_seen(&state->mask, t, l) ? slope : 0;
        }
    }
}

void SOFTMAX(softmax_backward_queries)(const plan *p, place at, size_t first, void *workspace) {
    const size_t count = smaller(p->queries - first, BLOCK), last = first + count - 1, end = reach_of(p, last);
    lane *q = workspace, *g = q + EVEN(p->d) * VECTORS, *sums = g + EVEN(p->e) * VECTORS;
    lane *tile = sums + padded(p->d) * VECTORS, *gains = tile + KEY_TILE * VECTORS;
    real *operand = lane_elements(gains + KEY_TILE * VECTORS);
    query_state state;

    start_queries(p, at, first, count, &state);
    pack_lanes(q, query_rows(&p->q, at, first), count, state.vectors, p->d);
    pack_lanes(g, query_rows(&p->d_out, at, first), count, state.vectors, p->e);
    round_lanes(q, p->d, state.vectors);
    round_lanes(g, p->e, state.vectors);
    clear_lanes(sums, padded(p->d));
    for (size_t j = begin_of(p, first); j < end; j += KEY_TILE) {
        const size_t length = smaller(KEY_TILE, end - j);
        const matrix k = key_rows_of(&p->k, at, j);
        mask_tile(p, first, last, j, length, &state.mask);
        multiply_tile(tile, dot_operand(k, length, p->d, operand), length, p->d, q, state.vectors);
        multiply_tile(gains, dot_operand(key_rows_of(&p->v, at, j), length, p->e, operand), length, p->e, g,
                      state.vectors);
        slope_tile(&state, lane_elements(tile), lane_elements(gains), length, p->scale);
        round_lanes(tile, length, state.vectors);
        add_tile(sums, NULL, sum_operand(k, length, p->d, operand), length, p->d, tile, state.vectors);
    }
    store_lanes(sums, p->scale, query_rows(&p->d_q, at, first), count, p->d);
}

/* ---- Lanes are keys ---- */

/* Returns head r of the `repeats` that read a group. */
static place head_of_group(const plan *p, place at, size_t r) {
    at.head = at.group * p->repeats + r;
    return at;
}

/* A block of `count` keys from `first` on, the sums for it, and the tile of queries that it meets. */
typedef struct key_block {
    place at; /* at.head: the head of these queries */
    size_t first, count, vectors;
    lane *k, *v;             /* [d], [e] */
    lane *sums_k, *sums_v;   /* [d], [e], padded */
    lane *weights, *slopes;  /* [TILE] */
    real *operand;           /* operand_size */
    lane *key_rows, *sums_q; /* one pass only: [bands][BLOCK] and [bands][band_rows], coordinates in lanes */
} key_block;

static size_t bands_of(size_t d) {
    return (d + BLOCK - 1) / BLOCK;
}

/* Returns how many rows a band of queries has: each head of the group has its own, and GROUP more that the last group
 * of rows may touch. */
static size_t band_rows(const plan *p) {
    return p->repeats * (p->queries + GROUP);
}

/* Replaces scores by weights, and gains by t, for `length` queries from `row` on. masked: not all of them attend to all
 * of the block. */
ALWAYS_INLINE void weigh_keys(const plan *p, const key_block *block, size_t row, size_t length, const bool masked) {
    const matrix lse = query_rows(&p->log_sum_exp, block->at, row);
    const real *row_terms = row_terms_of(p, block->at) + row;
    const size_t lanes = block->vectors * LANE_COUNT;
    real number[BLOCK];

    for (size_t l = 0; l < BLOCK; l++)
        number[l] = (real)l;
    for (size_t t = 0; t < length; t++) {
        const real log_sum_exp = lse.elements[t * lse.row], row_term = row_terms[t], scale = p->scale;
        const real begin = masked ? (real)below(begin_of(p, row + t), block->first, BLOCK) : 0;
        const real end = masked ? (real)below(reach_of(p, row + t), block->first, BLOCK) : 0;
        real *score = lane_elements(block->weights) + t * BLOCK;
        real *gain = lane_elements(block->slopes) + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < lanes; l++) {
            const real weight = weight_exponential(REAL_FMA(scale, score[l], -log_sum_exp), true);
            const real slope = weight * (gain[l] - row_term);
            const bool seen = !masked || (number[l] >= begin && number[l] < end);
            score[l] = seen ? weight : 0;
            gain[l] = seen ? slope : 0;
        }
    }
}

static void weigh_queries(const plan *p, const key_block *block, size_t row, size_t length) {
    if (below(reach_of(p, row), block->first, BLOCK) < block->count || begin_of(p, row + length - 1) > block->first)
        weigh_keys(p, block, row, length, true);
    else
        weigh_keys(p, block, row, length, false);
}

/* Returns the row in a band of query `row` of a head. */
static size_t band_row(const plan *p, place at, size_t row) {
    return (at.head - at.group * p->repeats) * (p->queries + GROUP) + row;
}

/* Returns the place of coordinate c of a row, in bands of `rows` rows each. */
static real *in_band(lane *bands, size_t rows, size_t row, size_t c) {
    return lane_elements(bands) + (c / BLOCK * rows + row) * BLOCK + c % BLOCK;
}

/* Copies the block's keys to key_rows; zeros fill up the last band. */
static void pack_key_rows(const plan *p, const key_block *block) {
    const matrix k = key_rows_of(&p->k, block->at, block->first);
    clear_lanes(block->key_rows, bands_of(p->d) * BLOCK);
    for (size_t c = 0; c < p->d; c += BLOCK)
        for (size_t j = 0; j < block->count; j++) {
            real *to = in_band(block->key_rows, BLOCK, j, c);
            const real *from = k.elements + j * k.row + c * k.column;
            for (size_t i = 0; i < smaller(BLOCK, p->d - c); i++)
                to[i] = from[i * k.column];
        }
    for (size_t band = 0; band < bands_of(p->d); band++)
        round_lanes(block->key_rows + band * BLOCK * VECTORS, BLOCK, VECTORS);
}

/* Adds the current tile's t times the first `keys` keys of the block to dq / scale of `length` queries, in all
 * bands. */
static void add_queries(const plan *p, const key_block *block, size_t row, size_t length, size_t keys) {
    const matrix rows = dot_operand((matrix){lane_elements(block->slopes), BLOCK, 1}, length, keys, block->operand);
    const matrix slopes = {rows.elements, rows.column, rows.row};
    for (size_t band = 0; band < bands_of(p->d); band++) {
        lane *sums = block->sums_q + (band * band_rows(p) + band_row(p, block->at, row)) * VECTORS;
        add_tile(sums, NULL, slopes, keys, length, block->key_rows + band * BLOCK * VECTORS,
                 vectors_for(p->d - band * BLOCK));
    }
}

/* Processes all queries of the head block->at.head that attend to any key of the block. */
static void pass_head(const plan *p, key_block *block) {
    const size_t first = block->first, d = p->d, e = p->e;
    /* The first query that attends to the block's first key; there is none if nothing attends to it. */
    const size_t unmasked = first + 1 + p->queries > p->reach ? first + 1 + p->queries - p->reach : 0;
    const size_t start = first < p->sources ? unmasked : p->queries;
    /* The last query whose window reaches back to the block's last key is the one before `end`. */
    const size_t behind = first + block->count + p->window + p->queries;
    const size_t limit = behind > p->reach ? smaller(behind - p->reach, p->queries) : 0;
    /* Groups of queries are whole, because add_queries adds something to all rows of a group. */
    const size_t end = start < limit ? smaller(start + padded(limit - start), p->queries) : start;

    for (size_t i = start; i < end; i += KEY_TILE) {
        const size_t length = smaller(KEY_TILE, end - i);
        const matrix q = query_rows(&p->q, block->at, i), g = query_rows(&p->d_out, block->at, i);
        multiply_tile(block->weights, dot_operand(q, length, d, block->operand), length, d, block->k, block->vectors);
        multiply_tile(block->slopes, dot_operand(g, length, e, block->operand), length, e, block->v, block->vectors);
        weigh_queries(p, block, i, length);
        if (block->sums_q) /* before the slopes are rounded, pair by pair of queries */
            add_queries(p, block, i, length, below(reach_of(p, i + length - 1), first, BLOCK));
        round_lanes(block->weights, length, block->vectors);
        round_lanes(block->slopes, length, block->vectors);
        add_tile(block->sums_v, NULL, sum_operand(g, length, e, block->operand), length, e, block->weights,
                 block->vectors);
        add_tile(block->sums_k, NULL, sum_operand(q, length, d, block->operand), length, d, block->slopes,
                 block->vectors);
    }
}

/* Processes one block of keys with the queries of all heads of its group, head by head. */
static void pass_keys(const plan *p, key_block *block) {
    const size_t first = block->first, d = p->d, e = p->e;

    block->count = smaller(p->keys - first, BLOCK);
    block->vectors = vectors_for(block->count);
    pack_lanes(block->k, key_rows_of(&p->k, block->at, first), block->count, block->vectors, d);
    pack_lanes(block->v, key_rows_of(&p->v, block->at, first), block->count, block->vectors, e);
    round_lanes(block->k, d, block->vectors);
    round_lanes(block->v, e, block->vectors);
    clear_lanes(block->sums_k, padded(d));
    clear_lanes(block->sums_v, padded(e));
    if (block->sums_q)
        pack_key_rows(p, block);
    for (size_t r = 0; r < p->repeats; r++) {
        block->at = head_of_group(p, block->at, r);
        pass_head(p, block);
    }
    store_lanes(block->sums_k, p->scale, key_rows_of(&p->d_k, block->at, first), block->count, d);
    store_lanes(block->sums_v, 1, key_rows_of(&p->d_v, block->at, first), block->count, e);
}

/* Places a block's packed rows in the workspace; those that only one pass needs come last. */
static key_block lay_out(const plan *p, place at, void *workspace, bool in_one_pass) {
    key_block block = {.at = at, .k = workspace};
    block.v = block.k + EVEN(p->d) * VECTORS;
    block.sums_k = block.v + EVEN(p->e) * VECTORS;
    block.sums_v = block.sums_k + padded(p->d) * VECTORS;
    block.weights = block.sums_v + padded(p->e) * VECTORS;
    block.slopes = block.weights + KEY_TILE * VECTORS;
    block.operand = lane_elements(block.slopes + KEY_TILE * VECTORS);
    if (in_one_pass) {
        block.key_rows = block.slopes + KEY_TILE * VECTORS + operand_size(p) / LANE_COUNT;
        block.sums_q = block.key_rows + bands_of(p->d) * BLOCK * VECTORS;
    }
    return block;
}

void SOFTMAX(softmax_backward_keys)(const plan *p, place at, size_t first, void *workspace) {
    key_block block = lay_out(p, at, workspace, false);
    block.first = first;
    pass_keys(p, &block);
}

/* ---- One pass ---- */

/* Stores d_q of one head, from the sums over all blocks of keys. */
static void store_query_gradients(const plan *p, const key_block *block, place at) {
    const matrix d_q = query_rows(&p->d_q, at, 0);
    for (size_t c = 0; c < p->d; c += BLOCK)
        for (size_t i = 0; i < p->queries; i++) {
            const real *from = in_band(block->sums_q, band_rows(p), band_row(p, at, i), c);
            real *to = d_q.elements + i * d_q.row + c * d_q.column;
            for (size_t j = 0; j < smaller(BLOCK, p->d - c); j++)
                to[j * d_q.column] = p->scale * from[j];
        }
}

void SOFTMAX(softmax_backward_sequence)(const plan *p, place at, size_t first, void *workspace) {
    key_block block = lay_out(p, at, workspace, true);

    for (size_t r = 0; r < p->repeats; r++)
        sum_row_terms(p, head_of_group(p, at, r), 0, p->queries);
    clear_lanes(block.sums_q, bands_of(p->d) * band_rows(p));
    for (block.first = first; block.first < p->keys; block.first += BLOCK)
        pass_keys(p, &block);
    for (size_t r = 0; r < p->repeats; r++)
        store_query_gradients(p, &block, head_of_group(p, at, r));
}

/* ---- Memory ---- */

size_t SOFTMAX(softmax_backward_workspace)(const plan *p, bool in_one_pass) {
    const size_t rows = EVEN(p->d) + EVEN(p->e) + padded(p->d) + padded(p->e) + 2 * KEY_TILE;
    const size_t band = in_one_pass ? BLOCK + band_rows(p) : 0;
    return ((rows + bands_of(p->d) * band) * BLOCK + operand_size(p)) * sizeof(real);
}
