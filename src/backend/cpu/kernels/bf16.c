/* Products of bfloat16: by the instruction that multiplies pairs, or by the float kernel on the rounded numbers. */
#include "arithmetic/bf16.h"
#include "arithmetic/vector.h"
#include "backend/cpu/kernels/parts.h"

/* ---- Packing ---- */

static uint32_t pair_of(real low, real high) {
    return bf16_bits((float)low) | bf16_bits((float)high) << 16;
}

static void pack_strided_row(const real *from, size_t k_stride, size_t k, uint32_t *to) {
    for (size_t p = 0; 2 * p < k; p++)
        to[p] = pair_of(from[2 * p * k_stride], 2 * p + 1 < k ? from[(2 * p + 1) * k_stride] : 0);
}

#ifdef __AVX512BF16__
#include <immintrin.h>

#define FIRST_LANES(count) ((__mmask16)((1u << (count)) - 1))

/* The words of `low`, then those of `high`. */
ALWAYS_INLINE __m512i round_both(__m512 low, __m512 high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

ALWAYS_INLINE size_t lanes_left(size_t count, size_t done) {
    return count <= done ? 0 : count - done < LANES ? count - done : LANES;
}

static void pack_adjacent_row(const float *from, size_t k, uint32_t *to) {
    size_t i = 0;
    for (; i + 2 * LANES <= k; i += 2 * LANES)
        _mm512_storeu_si512(to + i / 2, round_both(_mm512_loadu_ps(from + i), _mm512_loadu_ps(from + i + LANES)));
    if (i < k) {
        const size_t low = lanes_left(k, i), high = lanes_left(k, i + LANES);
        const __m512i words = round_both(_mm512_maskz_loadu_ps(FIRST_LANES(low), from + i),
                                         _mm512_maskz_loadu_ps(FIRST_LANES(high), from + i + low));
        _mm512_mask_storeu_epi32(to + i / 2, FIRST_LANES((k - i + 1) / 2), words);
    }
}

static void pack_rows(const real *from, size_t row_stride, size_t k_stride, size_t rows, size_t k, uint32_t *to,
                      size_t to_stride) {
    for (size_t row = 0; row < rows; row++, from += row_stride, to += to_stride)
        if (k_stride == 1)
            pack_adjacent_row(from, k, to);
        else
            pack_strided_row(from, k_stride, k, to);
}

static void pack_lanes(const real *from, size_t k_stride, size_t k, size_t width, uint32_t *panel) {
    /* Words of the first row go to even places, those of the second to odd ones. */
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i place = _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
    const __mmask16 mask = FIRST_LANES(width);

    for (size_t p = 0; 2 * p < k; p++, from += 2 * k_stride) {
        const __m512 first = _mm512_maskz_loadu_ps(mask, from);
        const __m512 second = 2 * p + 1 < k ? _mm512_maskz_loadu_ps(mask, from + k_stride) : _mm512_setzero_ps();
        _mm512_storeu_si512(panel + p * LANES, _mm512_permutexvar_epi16(place, round_both(first, second)));
    }
}

/* ---- Products ---- */

#define TILE_ROWS 8

/* Multiplies `rows` rows from `first` on. */
ALWAYS_INLINE void multiply_tile(const HOST(bf16_block) * x, size_t first, const size_t rows, const size_t panels) {
    const uint32_t *a = x->a + first * x->row_stride, *b = x->b;
    float *sums = x->sums + first * x->sums_row;
    __m512 sum[TILE_ROWS][ICL_BF16_PANELS];

    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < panels; v++) sum[r][v] =
            x->is_first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * x->sums_row + v * x->sums_panel);
    }
    for (size_t p = 0; p < x->pairs; p++, a += x->pair_stride, b += LANES) {
        __m512i column[ICL_BF16_PANELS];
        UNROLL for (size_t v = 0; v < panels; v++) column[v] = _mm512_loadu_si512(b + v * x->b_stride);
        UNROLL for (size_t r = 0; r < rows; r++) {
            const __m512i factor = _mm512_set1_epi32((int)a[r * x->row_stride]);
            UNROLL for (size_t v = 0; v < panels; v++) sum[r][v] =
                _mm512_dpbf16_ps(sum[r][v], (__m512bh)factor, (__m512bh)column[v]);
        }
    }
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < panels; v++)
            _mm512_storeu_ps(sums + r * x->sums_row + v * x->sums_panel, sum[r][v]);
    }
}

ALWAYS_INLINE void multiply_rows(const HOST(bf16_block) * x, size_t first, size_t rows, const size_t panels) {
#define TILE_CASE(count)                                                                                               \
    case count:                                                                                                        \
        multiply_tile(x, first, count, panels);                                                                        \
        break;
    switch (rows) {
        TILE_CASE(1)
        TILE_CASE(2)
        TILE_CASE(3)
        TILE_CASE(4)
        TILE_CASE(5)
        TILE_CASE(6)
        TILE_CASE(7)
        TILE_CASE(8)
    }
#undef TILE_CASE
}

static void multiply(const HOST(bf16_block) * x) {
    for (size_t row = 0; row < x->rows; row += TILE_ROWS) {
        const size_t rows = x->rows - row < TILE_ROWS ? x->rows - row : TILE_ROWS;
        if (x->panels == 1)
            multiply_rows(x, row, rows, 1);
        else
            multiply_rows(x, row, rows, 2);
    }
}

#else

static void pack_rows(const real *from, size_t row_stride, size_t k_stride, size_t rows, size_t k, uint32_t *to,
                      size_t to_stride) {
    for (size_t row = 0; row < rows; row++)
        pack_strided_row(from + row * row_stride, k_stride, k, to + row * to_stride);
}

static void pack_lanes(const real *from, size_t k_stride, size_t k, size_t width, uint32_t *panel) {
    memset(panel, 0, (k + 1) / 2 * LANES * sizeof *panel);
    for (size_t p = 0; 2 * p < k; p++, from += 2 * k_stride)
        for (size_t lane = 0; lane < width; lane++)
            panel[p * LANES + lane] = pair_of(from[lane], 2 * p + 1 < k ? from[k_stride + lane] : 0);
}

/* ---- Products ---- */

/* Writes the numbers of `pairs` pairs in the order of the sums: the second of a pair, then the first. */
static void unpack(const uint32_t *from, size_t pair_stride, size_t count, size_t pairs, real *to) {
    for (size_t p = 0; p < pairs; p++, to += 2 * count)
        for (size_t i = 0; i < count; i++) {
            const uint32_t pair = from[p * pair_stride + i];
            to[i] = (real)bf16_value(pair);
            to[count + i] = (real)bf16_value(pair << 16);
        }
}

static void multiply(const HOST(bf16_block) * x) {
    real left[LANES * 2 * ICL_BF16_PAIRS], right[LANES * 2 * ICL_BF16_PAIRS], sums[LANES * LANES];

    for (size_t row = 0; row < x->rows; row++)
        unpack(x->a + row * x->row_stride, x->pair_stride, 1, x->pairs, left + row * 2 * ICL_BF16_PAIRS);
    for (size_t panel = 0; panel < x->panels; panel++) {
        real *to = x->sums + panel * x->sums_panel;
        unpack(x->b + panel * x->b_stride, LANES, LANES, x->pairs, right);
        memset(sums, 0, sizeof sums);
        for (size_t row = 0; row < x->rows && !x->is_first; row++)
            memcpy(sums + row * LANES, to + row * x->sums_row, LANES * sizeof *to);
        KERNEL(gemm)(left, 2 * ICL_BF16_PAIRS, 1, right, 2 * x->pairs, sums, x->rows);
        for (size_t row = 0; row < x->rows; row++)
            memcpy(to + row * x->sums_row, sums + row * LANES, LANES * sizeof *to);
    }
}

#endif

const HOST(bf16_kernels) KERNEL(bf16_table) = {.pack_rows = pack_rows,
                                               .pack_lanes = pack_lanes,
                                               .multiply = multiply,
                                               .softmax_forward = KERNEL(bf16_softmax_forward),
                                               .softmax_backward_queries = KERNEL(bf16_softmax_backward_queries),
                                               .softmax_backward_keys = KERNEL(bf16_softmax_backward_keys),
                                               .softmax_backward_sequence = KERNEL(bf16_softmax_backward_sequence),
                                               .softmax_forward_workspace = KERNEL(bf16_softmax_forward_workspace),
                                               .softmax_backward_workspace = KERNEL(bf16_softmax_backward_workspace)};
