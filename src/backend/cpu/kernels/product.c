/*
 * Products of matrices. The columns of b are packed in panels, the rows of a in others, and a tile of the result, whose
 * sums stay in registers, runs over a panel of each. A panel of a stays in the first cache for all panels of b in a
 * block, and the block of b in the second cache for all rows of a. A long k is cut into pieces whose sums are added up,
 * which also keeps the error well below that of one long sum. Each piece is summed from left to right, whatever the
 * tile, so that the bits do not depend on how a product is divided.
 */
#include <string.h>

#include "arithmetic/lane_transpose.h"
#include "backend/cpu/kernels/moves.h"
#include "backend/cpu/kernels/parts.h"

/* A tile has this many rows and vectors: their sums, a row of b and a factor of a fit into 32 registers, or 16. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define TILE_ROWS 14
#define EACH_HEIGHT(ROW)                                                                                               \
    ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8) ROW(9) ROW(10) ROW(11) ROW(12) ROW(13) ROW(14)
#else
#define TILE_ROWS        6
#define EACH_HEIGHT(ROW) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6)
#endif
#define TILE_VECTORS  2
#define TILE_COLUMNS  (TILE_VECTORS * LANE_COUNT)
#define PANEL_ROWS    ((TILE_ROWS + LANE_COUNT - 1) / LANE_COUNT * LANE_COUNT) /* of a: a tile's, in whole vectors */
#define BLOCK_K       ICL_PRODUCT_TERMS
#define ROW_TERMS     (BLOCK_K + 64 / sizeof(real)) /* from row to row; not a power of two, which caches do not like */
#define PANEL_A       (PANEL_ROWS * ROW_TERMS)      /* elements of a panel of a, however it is laid out */
#define FAR           64   /* terms, which take as long as it takes to fetch a line of memory */
#define BLOCK_COLUMNS 1024 /* of b, which are packed at a time */
#define FEW_ROWS      2    /* of a: packing b would then take longer than reading it once for each */
#define FEW_TERMS     4    /* rows of b that few rows of a read at a time */

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- Tiles ---- */

/* A tile to be computed: to = alpha (a b), or with `onto` alpha (to + a b). Factors of a lie a_row and a_k apart, b is
 * a panel [k][TILE_COLUMNS], and the `width` columns of `to` are adjacent. */
typedef struct tile {
    const real *a, *b;
    size_t a_row, a_k, k;
    real *to;
    size_t to_row, width; /* width: TILE_COLUMNS unless HAS_PARTS */
    real alpha;
    bool onto;
} tile;

ALWAYS_INLINE lane load_lane(const real *from) {
    lane x;
    memcpy(&x, from, sizeof x);
    return x;
}

/* Processors with masks move the first elements of a vector, so that a tile of any width is stored where it belongs. */
#if VECTOR_BYTES == 64
#define HAS_PARTS true

/* Returns how many elements of vector v lie in `width` columns. */
ALWAYS_INLINE size_t part_of(size_t width, size_t v) {
    return width < v * LANE_COUNT ? 0 : smaller(width - v * LANE_COUNT, LANE_COUNT);
}

#if ICL_CPU_DOUBLE
ALWAYS_INLINE lane load_part(const real *from, size_t count) {
    return (lane)_mm512_maskz_loadu_pd(MASK(count), from);
}
ALWAYS_INLINE void store_part(real *to, lane x, size_t count) {
    _mm512_mask_storeu_pd(to, MASK(count), (__m512d)x);
}
#else
ALWAYS_INLINE lane load_part(const real *from, size_t count) {
    return (lane)_mm512_maskz_loadu_ps(MASK(count), from);
}
ALWAYS_INLINE void store_part(real *to, lane x, size_t count) {
    _mm512_mask_storeu_ps(to, MASK(count), (__m512)x);
}
#endif
#else
#define HAS_PARTS false

ALWAYS_INLINE size_t part_of(size_t width, size_t v) {
    (void)width;
    (void)v;
    return LANE_COUNT;
}
ALWAYS_INLINE lane load_part(const real *from, size_t count) {
    (void)count;
    return load_lane(from);
}
ALWAYS_INLINE void store_part(real *to, lane x, size_t count) {
    (void)count;
    memcpy(to, &x, sizeof x);
}
#endif

/* Stores sums [rows][vectors]. What is there is read before anything is written: a write would hold up reads of other
 * rows at the same place in a page. */
ALWAYS_INLINE void store_tile(const size_t rows, const size_t vectors, const tile *target,
                              lane sum[TILE_ROWS][TILE_VECTORS]) {
    const lane alpha = lane_set(target->alpha);
    const real *from = target->to;
    real *to = target->to;

    if (target->onto) {
        UNROLL for (size_t r = 0; r < rows; r++) {
            UNROLL for (size_t v = 0; v < vectors; v++) sum[r][v] =
                lane_add(load_part(from + v * LANE_COUNT, part_of(target->width, v)), sum[r][v]);
            from += target->to_row;
            LANE_FORGET(from);
        }
    }
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < vectors; v++)
            store_part(to + v * LANE_COUNT, lane_multiply(alpha, sum[r][v]), part_of(target->width, v));
        to += target->to_row;
        LANE_FORGET(to);
    }
}

/* Computes a tile of `rows` rows and `vectors` vectors, constants at each call, so that it unrolls. */
ALWAYS_INLINE void compute_tile(const size_t rows, const size_t vectors, const tile *target) {
    const size_t a_row = target->a_row, a_k = target->a_k;
    const real *a = target->a, *b = target->b;
    lane sum[TILE_ROWS][TILE_VECTORS];

    if (target->k >= FAR) {
        for (size_t r = 0; r < rows; r++)
            for (size_t v = 0; v < vectors; v++)
                PREFETCH_TO_WRITE(target->to + r * target->to_row + v * LANE_COUNT);
    }
    UNROLL for (size_t r = 0; r < rows; r++) {
        UNROLL for (size_t v = 0; v < vectors; v++) sum[r][v] = lane_set(0);
    }
    ROLLED for (size_t k = target->k; k > 0; k--) {
        lane right[TILE_VECTORS];
        UNROLL for (size_t v = 0; v < vectors; v++) {
            right[v] = load_lane(b + v * LANE_COUNT);
            LANE_KEEP(right[v]);
        }
        UNROLL for (size_t r = 0; r < rows; r++) {
            const lane left = lane_set(a[r * a_row]);
            UNROLL for (size_t v = 0; v < vectors; v++) sum[r][v] = lane_fma(left, right[v], sum[r][v]);
        }
        a += a_k;
        b += TILE_COLUMNS;
    }
    store_tile(rows, vectors, target, sum);
}

typedef void tile_function(const tile *x);

#define DEFINE_TILES(rows)                                                                                             \
    static void narrow_tile_##rows(const tile *x) {                                                                    \
        compute_tile(rows, 1, x);                                                                                      \
    }                                                                                                                  \
    static void wide_tile_##rows(const tile *x) {                                                                      \
        compute_tile(rows, 2, x);                                                                                      \
    }
EACH_HEIGHT(DEFINE_TILES)

#define TILES(rows) {narrow_tile_##rows, wide_tile_##rows},

/* [rows - 1][vectors - 1] */
static tile_function *const tiles[TILE_ROWS][TILE_VECTORS] = {EACH_HEIGHT(TILES)};

/* ---- Panels ---- */

/* Packs LANE_COUNT neighbours, of which `count` exist, whose terms are adjacent; the others become copies of the first.
 */
#ifdef LANE_TRANSPOSE
static void pack_square(const real *from, size_t stride, size_t count, real *panel, size_t row) {
    lane x[LANE_COUNT];
    if (count == LANE_COUNT) {
        UNROLL for (size_t j = 0; j < LANE_COUNT; j++) x[j] = load_lane(from + j * stride);
    } else {
        UNROLL for (size_t j = 0; j < LANE_COUNT; j++) x[j] = load_lane(from + (j < count ? j : 0) * stride);
    }
    transpose_square(x);
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) memcpy(panel + j * row, &x[j], sizeof *x);
}

/* As above, with k < LANE_COUNT terms. */
static void pack_part(const real *from, size_t stride, size_t count, size_t k, real *panel, size_t row) {
    lane x[LANE_COUNT];
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) x[j] = load_part(from + (j < count ? j : 0) * stride, k);
    transpose_square(x);
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) {
        if (j < k)
            memcpy(panel + j * row, &x[j], sizeof *x);
    }
}

static bool pack_squares(const real *from, size_t stride, size_t count, size_t k, real *panel, size_t row) {
    if (k < LANE_COUNT) {
        for (size_t first = 0; HAS_PARTS && first < count; first += LANE_COUNT)
            pack_part(from + first * stride, stride, smaller(count - first, LANE_COUNT), k, panel + first, row);
        return HAS_PARTS;
    }
    for (size_t first = 0; first < count; first += LANE_COUNT)
        for (size_t term = 0; term < k; term += LANE_COUNT) {
            const size_t at = smaller(term, k - LANE_COUNT); /* the last square overlaps the one before it */
            pack_square(from + first * stride + at, stride, smaller(count - first, LANE_COUNT),
                        panel + at * row + first, row);
        }
    return true;
}
#else
static bool pack_squares(const real *from, size_t stride, size_t count, size_t k, real *panel, size_t row) {
    (void)from;
    (void)stride;
    (void)count;
    (void)k;
    (void)panel;
    (void)row;
    return false;
}
#endif

/* panel [k][row] = `count` rows of a or columns of b, which lie `stride` apart. Lanes beyond them are defined, up to a
 * whole vector. */
static void pack_panel(const real *from, size_t stride, size_t k_stride, size_t count, size_t k, real *panel,
                       size_t row) {
    if (stride == 1 && count == row) {
        for (size_t term = 0; term < k; term++)
            for (size_t j = 0; j < row; j += LANE_COUNT) {
                PREFETCH_LATER(from + term * k_stride + j + 2 * row);
                memcpy(panel + term * row + j, from + term * k_stride + j, LANE_COUNT * sizeof *panel);
            }
        return;
    }
    if (stride == 1 && row % LANES == 0) {
        for (size_t term = 0; term < k; term++)
            for (size_t j = 0; j < count; j += LANES)
                pad_lanes(panel + term * row + j, from + term * k_stride + j, smaller(LANES, count - j));
        return;
    }
    if (k_stride == 1 && pack_squares(from, stride, count, k, panel, row))
        return;
    const size_t whole = (count + LANE_COUNT - 1) / LANE_COUNT * LANE_COUNT;
    for (size_t term = 0; term < k; term++) {
        for (size_t j = 0; j < count; j++)
            panel[term * row + j] = from[term * k_stride + j * stride];
        for (size_t j = count; j < whole; j++)
            panel[term * row + j] = 0;
    }
}

/* panel [rows][ROW_TERMS] = rows of a, whose k terms are adjacent. */
static void copy_rows(const real *from, size_t stride, size_t rows, size_t k, real *panel) {
    for (size_t r = 0; r < rows; r++, from += stride, panel += ROW_TERMS) {
        if (k <= LANES) {
            pad_lanes(panel, from, k);
            continue;
        }
        for (size_t term = 0; term < k; term += LANES) {
            const size_t at = smaller(term, k - LANES); /* the last move overlaps the one before it */
            memcpy(panel + at, from + at, LANES * sizeof *panel);
        }
    }
}

/* ---- Blocks ---- */

/* out = alpha x + beta out, or with `onto` alpha (out + x), where x [rows][TILE_COLUMNS]. */
static void finish_tile(const HOST(product) * p, const real *x, size_t rows, size_t width, bool onto, real alpha,
                        real *out) {
    if (!onto && alpha == 1 && p->beta == 0 && p->out_column == 1) {
        for (size_t r = 0; r < rows; r++)
            for (size_t j = 0; j < width; j += LANES)
                copy_lanes(out + r * p->out_row + j, x + r * TILE_COLUMNS + j, smaller(LANES, width - j));
        return;
    }
    for (size_t r = 0; r < rows; r++)
        for (size_t j = 0; j < width; j++) {
            real *to = out + r * p->out_row + j * p->out_column;
            const real sum = onto ? *to + x[r * TILE_COLUMNS + j] : x[r * TILE_COLUMNS + j];
            const real product = alpha * sum;
            *to = p->beta == 0 ? product : product + p->beta * *to;
        }
}

/* The panels in use. */
typedef struct panels {
    real *panel, *b; /* of a, and those of b */
    const real *a;   /* the rows of a: in their panel, or in place */
    size_t a_row, a_k;
    size_t row, column, term; /* the first in use */
    size_t rows, columns, terms;
    size_t packed; /* the first of these columns that is packed: those before it are done */
} panels;

#define LINE (64 / sizeof(real)) /* elements in a line of the caches */

/* Prefetches part of the next panel of a, with `left` columns of b to go: a quarter before each of the last four tiles,
 * because the second cache would not keep it for longer. */
static void prefetch_rows(const HOST(product) * p, const panels *use, size_t left) {
    const real *from = p->a + (use->row + use->rows) * p->a_row + use->term * p->a_k;
    const size_t tiles_left = (left - 1) / TILE_COLUMNS, share = (use->terms + 3) / 4;
    const size_t first = (3 - tiles_left % 4) * share, last = smaller(first + share, use->terms);

    if (tiles_left > 3 || use->row + 2 * use->rows > p->rows)
        return;
    if (p->a_k == 1)
        for (size_t r = 0; r < use->rows; r++)
            for (size_t k = first; k < last; k += LINE)
                PREFETCH_LATER(from + r * p->a_row + k);
    else
        for (size_t k = first; k < last; k++)
            PREFETCH_LATER(from + k * p->a_k);
}

/* Computes the rows of the panel of a, in all columns of the panels of b. */
static void compute_rows(const HOST(product) * p, const panels *use) {
    const bool last = use->term + use->terms == p->k;
    tile target = {.a = use->a, .a_row = use->a_row, .a_k = use->a_k, .k = use->terms};

    for (size_t column = use->packed; column < use->columns; column += TILE_COLUMNS) {
        const size_t width = smaller(TILE_COLUMNS, use->columns - column);
        const bool whole = (HAS_PARTS || width == TILE_COLUMNS) && p->out_column == 1 && p->beta == 0;
        real *out = p->out + use->row * p->out_row + (use->column + column) * p->out_column;
        real sums[TILE_ROWS * TILE_COLUMNS];
        target.b = use->b + column * use->terms;
        target.to = whole ? out : sums;
        target.to_row = whole ? p->out_row : TILE_COLUMNS;
        target.width = whole ? width : TILE_COLUMNS;
        target.alpha = whole && last ? p->alpha : 1;
        target.onto = whole && use->term > 0;
        prefetch_rows(p, use, use->columns - column);
        tiles[use->rows - 1][width > LANE_COUNT](&target);
        if (!whole)
            finish_tile(p, sums, use->rows, width, use->term > 0, last ? p->alpha : 1, out);
    }
}

/* Packs the rows of a in use, unless there is a single panel of b, for which they are read only once. */
static void pack_rows(const HOST(product) * p, panels *use) {
    const real *from = p->a + use->row * p->a_row + use->term * p->a_k;

    if (p->columns <= TILE_COLUMNS) {
        use->a = from;
        use->a_row = p->a_row;
        use->a_k = p->a_k;
        return;
    }
    use->a = use->panel;
    use->a_row = p->a_k == 1 ? ROW_TERMS : 1;
    use->a_k = p->a_k == 1 ? 1 : PANEL_ROWS;
    if (p->a_k == 1)
        copy_rows(from, p->a_row, use->rows, use->terms, use->panel);
    else
        pack_panel(from, p->a_row, p->a_k, smaller(PANEL_ROWS, p->rows - use->row), use->terms, use->panel, PANEL_ROWS);
}

/* Adds `count` terms to the sums of a row of a: sums[j] += a_i b_ij, i from 0 on. The rows of b after these are asked
 * for, because a processor does so by itself only within a page of memory. */
ALWAYS_INLINE void add_terms(const size_t count, const real *a, size_t a_k, const real *b, size_t b_k, size_t columns,
                             real *sums) {
    lane left[FEW_TERMS];

    UNROLL for (size_t i = 0; i < count; i++) left[i] = lane_set(a[i * a_k]);
    for (size_t j = 0; j < columns; j += LANE_COUNT) {
        lane sum = load_lane(sums + j);
        UNROLL for (size_t i = 0; i < count; i++) {
            sum = lane_fma(left[i], load_lane(b + i * b_k + j), sum);
            PREFETCH(b + (i + count) * b_k + j);
        }
        memcpy(sums + j, &sum, sizeof sum);
    }
}

/* Computes few rows in as many columns as whole tiles have, and reads the rows of b where they lie, from their first
 * element to their last. Returns the number of columns. The sums stand in the panel of a. */
static size_t compute_few_rows(const HOST(product) * p, const panels *use) {
    const size_t columns = use->columns / TILE_COLUMNS * TILE_COLUMNS;
    const bool last = use->term + use->terms == p->k;
    const real *b = p->b + use->term * p->b_k + use->column;
    _Static_assert(PANEL_A >= BLOCK_COLUMNS, "the sums of a row fit into the panel");

    for (size_t row = 0; row < p->rows; row++) {
        const real *a = p->a + row * p->a_row + use->term * p->a_k;
        size_t k = 0;
        memset(use->panel, 0, columns * sizeof *use->panel);
        for (; k + FEW_TERMS <= use->terms; k += FEW_TERMS)
            add_terms(FEW_TERMS, a + k * p->a_k, p->a_k, b + k * p->b_k, p->b_k, columns, use->panel);
        for (; k < use->terms; k++)
            add_terms(1, a + k * p->a_k, p->a_k, b + k * p->b_k, p->b_k, columns, use->panel);
        finish_tile(p, use->panel, 1, columns, use->term > 0, last ? p->alpha : 1,
                    p->out + row * p->out_row + use->column * p->out_column);
    }
    return columns;
}

/* Divides the rows as evenly as possible into tiles. */
static void compute_block(const HOST(product) * p, panels *use) {
    const size_t count = (p->rows + TILE_ROWS - 1) / TILE_ROWS, low = p->rows / count, higher = p->rows % count;

    use->packed = p->rows <= FEW_ROWS && p->b_column == 1 ? compute_few_rows(p, use) : 0;
    for (size_t column = use->packed; column < use->columns; column += TILE_COLUMNS)
        pack_panel(p->b + use->term * p->b_k + (use->column + column) * p->b_column, p->b_column, p->b_k,
                   smaller(TILE_COLUMNS, use->columns - column), use->terms, use->b + column * use->terms,
                   TILE_COLUMNS);
    use->row = 0;
    for (size_t i = 0; i < count; i++) {
        use->rows = low + (i < higher);
        pack_rows(p, use);
        compute_rows(p, use);
        use->row += use->rows;
    }
}

size_t KERNEL(product_workspace)(size_t columns, size_t k) {
    const size_t width = (smaller(columns, BLOCK_COLUMNS) + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS;
    return (PANEL_A + smaller(k, BLOCK_K) * width) * sizeof(real);
}

void KERNEL(product)(const HOST(product) * p, void *workspace) {
    panels use = {.panel = workspace, .b = (real *)workspace + PANEL_A};

    if (p->rows == 0)
        return;
    for (; use.column < p->columns; use.column += use.columns) {
        use.columns = smaller(BLOCK_COLUMNS, p->columns - use.column);
        use.term = 0;
        do {
            use.terms = smaller(BLOCK_K, p->k - use.term);
            compute_block(p, &use);
            use.term += use.terms;
        } while (use.term < p->k);
    }
}
