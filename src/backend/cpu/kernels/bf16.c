/* Products of bfloat16: by the instruction that multiplies pairs, or by the float kernel on the rounded numbers. */
#include "arithmetic/bf16.h"
#include "arithmetic/vector.h"
#include "backend/cpu/kernels/parts.h"

#ifdef __AVX512BF16__
#include <immintrin.h>
#include <stdatomic.h>
#endif

/* ---- Packing ---- */

static uint32_t pair_of(real low, real high) {
    return bf16_bits((float)low) | bf16_bits((float)high) << 16;
}

/* Returns pair p of k elements. */
static uint32_t strided_pair(const real *from, size_t stride, size_t k, size_t p) {
    return pair_of(from[2 * p * stride], 2 * p + 1 < k ? from[(2 * p + 1) * stride] : 0);
}

#ifdef __AVX512BF16__
#include "arithmetic/lane_transpose.h"

#ifdef __AMX_BF16__
#define IN_TILES true
#else
#define IN_TILES false
#endif

#define FIRST_LANES(count) ((__mmask16)((1u << (count)) - 1))

/* Returns the number of pairs of k elements, padding included. */
ALWAYS_INLINE size_t pairs_of(size_t k) {
    return IN_TILES ? (k + 2 * LANES - 1) / (2 * LANES) * LANES : (k + 1) / 2;
}

ALWAYS_INLINE size_t lanes_left(size_t count, size_t done) {
    return count <= done ? 0 : count - done < LANES ? count - done : LANES;
}

/* The words of `low`, then those of `high`. */
ALWAYS_INLINE __m512i round_both(__m512 low, __m512 high) {
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}

/* Returns LANES pairs of adjacent elements, of which `left` are left. */
ALWAYS_INLINE __m512i adjacent_pairs(const float *from, size_t left) {
    const size_t low = lanes_left(left, 0), high = lanes_left(left, LANES);
    return round_both(_mm512_maskz_loadu_ps(FIRST_LANES(low), from),
                      _mm512_maskz_loadu_ps(FIRST_LANES(high), from + low));
}

/* Returns pairs of two vectors, lane by lane: words of the first row go to even places, those of the second to odd
 * ones. */
ALWAYS_INLINE __m512i pairs_of_rows(const float *from, size_t stride, __mmask16 mask, size_t left) {
    const __m512i low = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i place = _mm512_or_si512(low, _mm512_slli_epi32(_mm512_add_epi32(low, _mm512_set1_epi32(16)), 16));
    const __m512 first = left > 0 ? _mm512_maskz_loadu_ps(mask, from) : _mm512_setzero_ps();
    const __m512 second = left > 1 ? _mm512_maskz_loadu_ps(mask, from + stride) : _mm512_setzero_ps();
    return _mm512_permutexvar_epi16(place, round_both(first, second));
}

/* The next two write LANES pairs of each of `count` rows as `words` vectors of words that lie `to_stride` apart. */

/* Vector i holds the pairs of row i, whose elements are adjacent to those of the other rows. */
static void pack_rows_across(const float *from, size_t k_stride, size_t left, size_t count, uint32_t *to,
                             size_t to_stride, size_t words) {
    lane square[LANES];
    for (size_t p = 0; p < LANES; p++) {
        const size_t more = left > 2 * p ? left - 2 * p : 0;
        square[p] = (lane)pairs_of_rows(from + (more ? 2 * p * k_stride : 0), k_stride, FIRST_LANES(count), more);
    }
    transpose_square(square);
    for (size_t row = 0; row < count; row++)
        _mm512_mask_storeu_epi32(to + row * to_stride, FIRST_LANES(words), (__m512i)square[row]);
}

/* Vector i holds pair i of each row, whose own elements are adjacent. */
static void pack_columns_across(const float *from, size_t column_stride, size_t left, size_t count, uint32_t *to,
                                size_t words) {
    lane square[LANES];
    for (size_t column = 0; column < LANES; column++)
        square[column] = (lane)(column < count ? adjacent_pairs(from + column * column_stride, left) : (__m512i){0});
    transpose_square(square);
    for (size_t p = 0; p < words; p++)
        _mm512_storeu_si512(to + p * LANES, (__m512i)square[p]);
}

static void pack_rows(const real *from, size_t row_stride, size_t k_stride, size_t rows, size_t k, uint32_t *to,
                      size_t to_row, size_t to_tile) {
    const size_t pairs = pairs_of(k);

    if (row_stride == 1 && k_stride != 1) {
        for (size_t p = 0; p < pairs; p += LANES, to += to_tile)
            pack_rows_across(from + 2 * p * k_stride, k_stride, k - 2 * p, rows, to, to_row, lanes_left(pairs, p));
        return;
    }
    for (size_t row = 0; row < rows; row++, from += row_stride, to += to_row)
        for (size_t p = 0; p < pairs; p += LANES) {
            const size_t words = lanes_left(pairs, p);
            uint32_t *piece = to + p / LANES * to_tile;
            if (k_stride == 1)
                _mm512_mask_storeu_epi32(piece, FIRST_LANES(words), adjacent_pairs(from + 2 * p, k - 2 * p));
            else
                for (size_t i = 0; i < words; i++)
                    piece[i] = 2 * (p + i) < k ? strided_pair(from, k_stride, k, p + i) : 0;
        }
}

static void pack_columns(const real *from, size_t k_stride, size_t column_stride, size_t k, size_t width,
                         uint32_t *panel) {
    const size_t pairs = pairs_of(k);
    const __mmask16 mask = FIRST_LANES(width);

    if (column_stride != 1 && k_stride == 1) {
        for (size_t p = 0; p < pairs; p += LANES)
            pack_columns_across(from + 2 * p, column_stride, k - 2 * p, width, panel + p * LANES, lanes_left(pairs, p));
        return;
    }
    for (size_t p = 0; p < pairs; p++, panel += LANES) {
        const size_t left = 2 * p < k ? k - 2 * p : 0;
        if (column_stride == 1) {
            _mm512_storeu_si512(panel, pairs_of_rows(from + (left ? 2 * p * k_stride : 0), k_stride, mask, left));
            continue;
        }
        for (size_t column = 0; column < LANES; column++)
            panel[column] = column < width && left ? strided_pair(from + column * column_stride, k_stride, k, p) : 0;
    }
}

#else

static void pack_rows(const real *from, size_t row_stride, size_t k_stride, size_t rows, size_t k, uint32_t *to,
                      size_t to_row, size_t to_tile) {
    (void)to_tile;
    for (size_t row = 0; row < rows; row++)
        for (size_t p = 0; 2 * p < k; p++)
            to[row * to_row + p] = strided_pair(from + row * row_stride, k_stride, k, p);
}

static void pack_columns(const real *from, size_t k_stride, size_t column_stride, size_t k, size_t width,
                         uint32_t *panel) {
    memset(panel, 0, (k + 1) / 2 * LANES * sizeof *panel);
    for (size_t p = 0; 2 * p < k; p++)
        for (size_t lane = 0; lane < width; lane++)
            panel[p * LANES + lane] = strided_pair(from + lane * column_stride, k_stride, k, p);
}

#endif

/* ---- Products in tiles ---- */

#ifdef __AMX_BF16__

/* The instructions take registers of LANES rows of LANES words: 0 to 3 hold sums, 4 and 5 rows of a, 6 and 7 panels of
 * b. With 4 sums there is always one that does not wait for its last product. */
static void begin(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {.palette = 1,
                .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
                .rows = {LANES, LANES, LANES, LANES, LANES, LANES, LANES, LANES}};

    _tile_loadconfig(&shapes);
}

/* Without tiles in use, a thread's state is small again. */
static void end(void) {
    _tile_release();
}

#define BYTES(words) ((words) * sizeof(uint32_t))

ALWAYS_INLINE void multiply_tiles(const HOST(bf16_block) * x, size_t first, real *sums, size_t sums_panel,
                                  const size_t groups, const size_t panels) {
    const uint32_t *a = x->a + first / LANES * x->a_group, *b = x->b;
    real *below = sums + LANES * LANES;

    atomic_signal_fence(memory_order_seq_cst); /* compilers do not know what tiles are loaded from */
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (!x->is_first) {
        _tile_loadd(0, sums, BYTES(LANES));
        if (panels == 2)
            _tile_loadd(1, sums + sums_panel, BYTES(LANES));
        if (groups == 2)
            _tile_loadd(2, below, BYTES(LANES));
        if (groups == 2 && panels == 2)
            _tile_loadd(3, below + sums_panel, BYTES(LANES));
    }
    for (size_t p = 0; p < x->pairs; p += LANES, a += x->a_tile, b += LANES * LANES) {
        _tile_loadd(4, a, BYTES(x->a_row));
        _tile_loadd(6, b, BYTES(LANES));
        _tile_dpbf16ps(0, 4, 6);
        if (panels == 2) {
            _tile_loadd(7, b + x->b_stride, BYTES(LANES));
            _tile_dpbf16ps(1, 4, 7);
        }
        if (groups == 2) {
            _tile_loadd(5, a + x->a_group, BYTES(x->a_row));
            _tile_dpbf16ps(2, 5, 6);
            if (panels == 2)
                _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, sums, BYTES(LANES));
    if (panels == 2)
        _tile_stored(1, sums + sums_panel, BYTES(LANES));
    if (groups == 2)
        _tile_stored(2, below, BYTES(LANES));
    if (groups == 2 && panels == 2)
        _tile_stored(3, below + sums_panel, BYTES(LANES));
}

/* Copies `rows` rows of a block's sums from row `first` on to a square, or back. */
static void copy_sums(const HOST(bf16_block) * x, size_t first, size_t rows, real *square, bool back) {
    for (size_t row = 0; row < rows; row++)
        for (size_t panel = 0; panel < x->panels; panel++) {
            real *sums = x->sums + (first + row) * x->sums_row + panel * x->sums_panel;
            real *copy = square + (panel * ICL_BF16_ROWS + row) * LANES;
            memcpy(back ? sums : copy, back ? copy : sums, LANES * sizeof *sums);
        }
}

ALWAYS_INLINE void multiply_groups(const HOST(bf16_block) * x, size_t first, real *sums, size_t sums_panel,
                                   const size_t groups) {
    if (x->panels == 2)
        multiply_tiles(x, first, sums, sums_panel, groups, 2);
    else
        multiply_tiles(x, first, sums, sums_panel, groups, 1);
}

/* Sums that do not lie in whole tiles without gaps pass through a square: a tile is stored as a whole, and the rows of
 * a matrix, which often lie multiples of a page apart, compete for the same places in the first cache. */
static void multiply(const HOST(bf16_block) * x) {
    real square[ICL_BF16_PANELS * ICL_BF16_ROWS * LANES];

    for (size_t row = 0; row < x->rows; row += ICL_BF16_ROWS) {
        const size_t left = x->rows - row, rows = left < ICL_BF16_ROWS ? left : ICL_BF16_ROWS;
        const bool in_place = x->sums_row == LANES && rows % LANES == 0;
        real *sums = in_place ? x->sums + row * LANES : square;
        const size_t sums_panel = in_place ? x->sums_panel : ICL_BF16_ROWS * LANES;
        if (!in_place && !x->is_first) {
            memset(square, 0, sizeof square);
            copy_sums(x, row, rows, square, false);
        }
        if (rows > LANES)
            multiply_groups(x, row, sums, sums_panel, 2);
        else
            multiply_groups(x, row, sums, sums_panel, 1);
        if (!in_place)
            copy_sums(x, row, rows, square, true);
    }
}

/* ---- Products of pairs ---- */

#elif defined(__AVX512BF16__)

#define TILE_ROWS 8

/* Multiplies `rows` rows from `first` on. */
ALWAYS_INLINE void multiply_tile(const HOST(bf16_block) * x, size_t first, const size_t rows, const size_t panels) {
    const uint32_t *a = x->a + first / LANES * x->a_group + first % LANES * x->a_row, *b = x->b;
    float *sums = x->sums + first * x->sums_row;
    __m512 sum[TILE_ROWS][ICL_BF16_PANELS];

    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < panels; v++) sum[r][v] =
            x->is_first ? _mm512_setzero_ps() : _mm512_loadu_ps(sums + r * x->sums_row + v * x->sums_panel);
    }
    for (size_t p = 0; p < x->pairs; p++, a++, b += LANES) {
        __m512i column[ICL_BF16_PANELS];
        UNROLL for (size_t v = 0; v < panels; v++) column[v] = _mm512_loadu_si512(b + v * x->b_stride);
        UNROLL for (size_t r = 0; r < rows; r++) {
            const __m512i factor = _mm512_set1_epi32((int)a[r * x->a_row]);
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

/* ---- Products of the rounded numbers ---- */

#else

/* Writes the numbers of `pairs` pairs in the order of the sums: the second of a pair, then the first. */
static void unpack(const uint32_t *from, size_t pair_stride, size_t count, size_t pairs, real *to) {
    for (size_t p = 0; p < pairs; p++, to += 2 * count)
        for (size_t i = 0; i < count; i++) {
            const uint32_t pair = from[p * pair_stride + i];
            to[i] = (real)bf16_value(pair);
            to[count + i] = (real)bf16_value(pair << 16);
        }
}

/* Multiplies the LANES rows, or fewer, from `first` on. */
static void multiply_group(const HOST(bf16_block) * x, size_t first) {
    const size_t rows = x->rows - first < LANES ? x->rows - first : LANES;
    const uint32_t *a = x->a + first / LANES * x->a_group;
    real left[LANES * 2 * ICL_BF16_PAIRS], right[LANES * 2 * ICL_BF16_PAIRS], sums[LANES * LANES];

    for (size_t row = 0; row < rows; row++)
        unpack(a + row * x->a_row, 1, 1, x->pairs, left + row * 2 * ICL_BF16_PAIRS);
    for (size_t panel = 0; panel < x->panels; panel++) {
        real *to = x->sums + panel * x->sums_panel + first * x->sums_row;
        unpack(x->b + panel * x->b_stride, LANES, LANES, x->pairs, right);
        memset(sums, 0, sizeof sums);
        for (size_t row = 0; row < rows && !x->is_first; row++)
            memcpy(sums + row * LANES, to + row * x->sums_row, LANES * sizeof *to);
        KERNEL(gemm)(left, 2 * ICL_BF16_PAIRS, 1, right, 2 * x->pairs, sums, rows);
        for (size_t row = 0; row < rows; row++)
            memcpy(to + row * x->sums_row, sums + row * LANES, LANES * sizeof *to);
    }
}

static void multiply(const HOST(bf16_block) * x) {
    for (size_t row = 0; row < x->rows; row += LANES)
        multiply_group(x, row);
}

#endif

const HOST(bf16_kernels) KERNEL(bf16_table) = {
#ifdef __AMX_BF16__
    .in_tiles = true,
    .begin = begin,
    .end = end,
#endif
    .pack_rows = pack_rows,
    .pack_columns = pack_columns,
    .multiply = multiply,
    .softmax_forward = KERNEL(bf16_softmax_forward),
    .softmax_backward_queries = KERNEL(bf16_softmax_backward_queries),
    .softmax_backward_keys = KERNEL(bf16_softmax_backward_keys),
    .softmax_backward_sequence = KERNEL(bf16_softmax_backward_sequence),
    .softmax_forward_workspace = KERNEL(bf16_softmax_forward_workspace),
    .softmax_backward_workspace = KERNEL(bf16_softmax_backward_workspace)};
