/*
 * Products of matrices of lanes: a block of the result stays in registers while the sum runs over the depth. Each
 * element is summed from left to right. A panel of columns of b stays in the first cache for all rows of a.
 */
#include "backend/cpu/kernels/linear_transformer/linear.h"

/* The most columns of blocks of 1, 2, 3 and 4 rows such that registers hold their sums, a column of a's factors and one
 * factor of b. At least 8 sums are needed to hide the latency of the two units. 0: no blocks of four rows. */
#if defined(__AVX512F__) || defined(__aarch64__)
#define WIDEST_1 12
#define WIDEST_2 12
#define WIDEST_3 7
#define WIDEST_4 6
#elif defined(__FMA__)
#define WIDEST_1 12
#define WIDEST_2 6
#define WIDEST_3 4
#define WIDEST_4 0
#else
#define WIDEST_1 8
#define WIDEST_2 5
#define WIDEST_3 3
#define WIDEST_4 0
#endif
#define WIDEST WIDEST_1
#if WIDEST == 12
#define EACH_WIDTH(ROW) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8) ROW(9) ROW(10) ROW(11) ROW(12)
#else
#define EACH_WIDTH(ROW) ROW(1) ROW(2) ROW(3) ROW(4) ROW(5) ROW(6) ROW(7) ROW(8)
#endif

/* The most rows of a block of a single column, for the same reason. */
#define TALLEST 7

/* Adds one term to each sum. The first term is only a product, because adding it to zeros would take one more
 * instruction. */
ALWAYS_INLINE void add_term(const size_t rows, const size_t columns, const bool is_first, const bool is_shared,
                            const lane *a, const size_t a_row, const lane *b, const real *shared,
                            lane sum[TALLEST][WIDEST]) {
    lane left[TALLEST];
    UNROLL for (size_t i = 0; i < rows; i++) left[i] = a[i * a_row];
    UNROLL for (size_t j = 0; j < columns; j++) {
        lane right = is_shared ? lane_set(shared[j]) : b[j];
        if (rows > 1)
            LANE_KEEP(right);
        UNROLL for (size_t i = 0; i < rows; i++) sum[i][j] =
            is_first ? lane_multiply(left[i], right) : lane_fma(left[i], right, sum[i][j]);
    }
}

ALWAYS_INLINE void clear_block(const size_t rows, const size_t columns, lane sum[TALLEST][WIDEST]) {
    UNROLL for (size_t i = 0; i < rows; i++) {
        UNROLL for (size_t j = 0; j < columns; j++) sum[i][j] = lane_set(0);
    }
}

/* Stores the columns from `first` on, beginning at `to`. */
ALWAYS_INLINE void store_block(const size_t rows, const size_t first, const size_t columns, lane *to, size_t to_row,
                               size_t to_column, lane sum[TALLEST][WIDEST]) {
    LANE_FORGET(to);
    LANE_FORGET(to_row);
    LANE_FORGET(to_column);
    UNROLL for (size_t j = first; j < columns; j++) {
        UNROLL for (size_t i = 0; i < rows; i++) to[i * to_row] = sum[i][j];
        to += to_column;
        LANE_FORGET(to);
    }
}

/* Adds the squares of the block's elements to *squares. */
ALWAYS_INLINE void add_squares(const size_t rows, const size_t columns, lane *squares, lane sum[TALLEST][WIDEST]) {
    lane total[TALLEST];

    UNROLL for (size_t i = 0; i < rows; i++) {
        total[i] = lane_multiply(sum[i][0], sum[i][0]);
        UNROLL for (size_t j = 1; j < columns; j++) total[i] = lane_fma(sum[i][j], sum[i][j], total[i]);
    }
    UNROLL for (size_t i = 1; i < rows; i++) total[0] = lane_add(total[0], total[i]);
    *squares = lane_add(*squares, total[0]);
}

/* Adds onto to the sums, and stores them in `to`. The sums are complete by then, so they need not wait for onto. */
ALWAYS_INLINE void add_block(const size_t rows, const size_t columns, lane *to, const lane *onto, size_t to_row,
                             size_t to_column, lane sum[TALLEST][WIDEST]) {
    LANE_FORGET(to);
    LANE_FORGET(onto);
    LANE_FORGET(to_row);
    LANE_FORGET(to_column);
    UNROLL for (size_t j = 0; j < columns; j++) {
        UNROLL for (size_t i = 0; i < rows; i++) {
            sum[i][j] = lane_add(onto[i * to_row], sum[i][j]);
            to[i * to_row] = sum[i][j];
        }
        to += to_column;
        onto += to_column;
        LANE_FORGET(to);
        LANE_FORGET(onto);
    }
}

/* Computes a block of `rows` rows and `columns` columns, constants at each call, so that it unrolls. */
ALWAYS_INLINE void compute_block(const size_t rows, const size_t columns, const bool is_shared,
                                 const lane_product *product, size_t row, size_t column) {
    const size_t a_row = product->a_row, a_depth = product->a_depth, b_depth = product->b_depth;
    lane sum[TALLEST][WIDEST];
    const lane *a = product->a + row * a_row, *b = is_shared ? NULL : product->b + column;
    const real *shared = is_shared ? product->shared + column : NULL;
    size_t depth = product->depth;

    if (product->outer_row) {
        add_term(rows, columns, true, false, product->outer_row + row, 1, product->outer_column + column, NULL, sum);
    } else if (depth == 0) {
        clear_block(rows, columns, sum);
    } else {
        add_term(rows, columns, true, is_shared, a, a_row, b, shared, sum);
        a += a_depth;
        if (is_shared)
            shared += b_depth;
        else
            b += b_depth;
        depth--;
    }
    UNROLL_THRICE for (size_t k = depth; k > 0; k--) {
        add_term(rows, columns, false, is_shared, a, a_row, b, shared, sum);
        a += a_depth;
        if (is_shared)
            shared += b_depth;
        else
            b += b_depth;
    }
    const size_t at = row * product->to_row + column * product->to_column;
    if (product->squares)
        add_squares(rows, columns, product->squares, sum);
    if (product->onto)
        add_block(rows, columns, product->to + at, product->onto + at, product->to_row, product->to_column, sum);
    else
        store_block(rows, 0, columns, product->to + at, product->to_row, product->to_column, sum);
    if (!product->symmetric || product->unmirrored)
        return;
    if (row < column)
        store_block(rows, 0, columns, product->to + row * product->to_column + column * product->to_row,
                    product->to_column, product->to_row, sum);
    else /* a square on the diagonal, which is complete, and the columns beside it */
        store_block(rows, rows, columns, product->to + row * product->to_column + (column + rows) * product->to_row,
                    product->to_column, product->to_row, sum);
}

/* Computes rows [first, last) of the panel at `column`. */
typedef void panel_function(const lane_product *x, size_t first, size_t last, size_t column);

/* Computes a panel in blocks of three rows. If one row would be left over, the last block has four rows, or the last
 * two have two each. */
ALWAYS_INLINE void compute_panel(const size_t columns, const bool is_shared, const lane_product *product, size_t first,
                                 size_t last, size_t column) {
    size_t row = first;

    if (columns == 1)
        for (; row + TALLEST <= last; row += TALLEST)
            compute_block(TALLEST, columns, is_shared, product, row, column);
    if (columns <= WIDEST_3) {
        for (; last - row >= 5 || last - row == 3; row += 3)
            compute_block(3, columns, is_shared, product, row, column);
        if (columns <= WIDEST_4 && last - row == 4) {
            compute_block(4, columns, is_shared, product, row, column);
            return;
        }
    }
    if (columns <= WIDEST_2)
        for (; last - row >= 2; row += 2)
            compute_block(2, columns, is_shared, product, row, column);
    for (; row < last; row++)
        compute_block(1, columns, is_shared, product, row, column);
}

#define DEFINE_PANELS(columns)                                                                                         \
    static void lanes_##columns(const lane_product *x, size_t first, size_t last, size_t column) {                     \
        compute_panel(columns, false, x, first, last, column);                                                         \
    }                                                                                                                  \
    static void shared_##columns(const lane_product *x, size_t first, size_t last, size_t column) {                    \
        compute_panel(columns, true, x, first, last, column);                                                          \
    }
EACH_WIDTH(DEFINE_PANELS)

#define LANES_ENTRY(columns)  lanes_##columns,
#define SHARED_ENTRY(columns) shared_##columns,

/* [b is shared][columns - 1] */
static panel_function *const panels[2][WIDEST] = {
    {EACH_WIDTH(LANES_ENTRY)},
    {EACH_WIDTH(SHARED_ENTRY)},
};

/* Returns the most columns that a panel may have. */
static unsigned widest_panel(size_t rows) {
    static const unsigned char few[] = {WIDEST, WIDEST_1, WIDEST_2};
    if (rows <= 2)
        return few[rows];
    return WIDEST_4 > 0 && rows % 3 == 1 ? WIDEST_4 : WIDEST_3;
}

/* Computes the upper triangle of the square at `first`, three rows at a time, or four at the end. */
static void compute_triangle(const lane_product *product, size_t first, size_t last) {
    panel_function *const *panel = panels[product->shared != NULL];

    while (first < last) {
        const size_t left = last - first;
        assert(left > 0 && left <= WIDEST);
        const size_t rows = left < 5 && left <= WIDEST_4 ? left : left < 3 ? left : 3;
        panel[left - 1](product, first, first + rows, first);
        first += rows;
    }
}

/* Divides the columns as evenly as possible into panels. The numbers are short, because a division of long ones would
 * take as long as a small product. */
void KERNEL(lane_product)(const lane_product *product) {
    const unsigned columns = (unsigned)product->columns, widest = widest_panel(product->rows);
    unsigned count = 1;
    while (count * widest < columns)
        count++;
    const unsigned narrow = columns / count, wider = columns % count;
    panel_function *const *panel = panels[product->shared != NULL];

    for (unsigned i = 0, column = 0; column < columns; i++) {
        const unsigned width = narrow + (i < wider);
        assert(width > 0 && width <= WIDEST);
        if (product->symmetric) { /* the rows above the panel's own square, then that square */
            panel[width - 1](product, 0, column, column);
            compute_triangle(product, column, column + width);
        } else {
            panel[width - 1](product, 0, product->rows, column);
        }
        column += width;
    }
}
