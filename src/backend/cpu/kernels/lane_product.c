/*
 * Products of matrices of lanes: a block of the result stays in registers while the depth runs. Each element is summed from left to
 * right. A panel of columns of b stays in the first cache while the rows of a pass by.
 */
#include "backend/cpu/kernels/linear.h"

/* As many sums as registers allow beside one row of a's factors and one factor of b. */
#define BLOCK_ROWS 3
#if defined(__AVX512F__) || defined(__aarch64__)
#define BLOCK_COLUMNS 7
#define EACH_COLUMNS(ROW)                                                                                    \
    ROW(1)                                                                                                   \
    ROW(2)                                                                                                   \
    ROW(3)                                                                                                   \
    ROW(4)                                                                                                   \
    ROW(5)                                                                                                   \
    ROW(6)                                                                                                   \
    ROW(7)
#elif defined(__FMA__)
#define BLOCK_COLUMNS 4
#define EACH_COLUMNS(ROW)                                                                                    \
    ROW(1)                                                                                                   \
    ROW(2)                                                                                                   \
    ROW(3)                                                                                                   \
    ROW(4)
#else
#define BLOCK_COLUMNS 3
#define EACH_COLUMNS(ROW)                                                                                    \
    ROW(1)                                                                                                   \
    ROW(2)                                                                                                   \
    ROW(3)
#endif

/* Where the sums of a block begin. */
ALWAYS_INLINE void start_block(const size_t rows, const size_t columns, const lane_product *x, size_t row,
                               size_t column, lane sum[BLOCK_ROWS][BLOCK_COLUMNS]) {
    if (x->start == LANES_ADD) {
        const lane *to = x->to + row * x->to_row + column * x->to_column;
        const size_t to_row = x->to_row, to_column = x->to_column;
        UNROLL for (size_t j = 0; j < columns; j++, to += to_column) {
            UNROLL for (size_t i = 0; i < rows; i++) sum[i][j] = to[i * to_row];
        }
    } else if (x->start == LANES_OUTER) {
        UNROLL for (size_t i = 0; i < rows; i++) {
            UNROLL for (size_t j = 0; j < columns; j++) sum[i][j] =
                lane_multiply(x->outer_row[row + i], x->outer_column[column + j]);
        }
    } else {
        UNROLL for (size_t i = 0; i < rows; i++) {
            UNROLL for (size_t j = 0; j < columns; j++) sum[i][j] = lane_set(0);
        }
    }
}

ALWAYS_INLINE void store_block(const size_t rows, const size_t columns, lane *to, size_t to_row,
                               size_t to_column, lane sum[BLOCK_ROWS][BLOCK_COLUMNS]) {
    LANE_FORGET(to);
    LANE_FORGET(to_row);
    LANE_FORGET(to_column);
    UNROLL for (size_t j = 0; j < columns; j++) {
        UNROLL for (size_t i = 0; i < rows; i++) to[i * to_row] = sum[i][j];
        to += to_column;
        LANE_FORGET(to);
    }
}

/* Blocks of `rows` rows in one panel of `columns` columns, from row `first` on, as many as fit before row `last`. The extents are
 * constants at each call, so that the block unrolls. Returns the first row left over. */
ALWAYS_INLINE size_t compute_blocks(const size_t rows, const size_t columns, const bool is_shared,
                                    const lane_product *x, size_t first, size_t last, size_t column) {
    const size_t a_row = x->a_row, a_depth = x->a_depth, b_depth = x->b_depth, depth = x->depth;
    size_t row = first;

    for (; row + rows <= last; row += rows) {
        lane sum[BLOCK_ROWS][BLOCK_COLUMNS];
        const lane *a = x->a + row * a_row, *b = is_shared ? NULL : x->b + column;
        const real *shared = is_shared ? x->shared + column : NULL;

        start_block(rows, columns, x, row, column, sum);
        UNROLL_THRICE for (size_t k = depth; k > 0; k--) {
            lane left[BLOCK_ROWS];
            UNROLL for (size_t i = 0; i < rows; i++) left[i] = a[i * a_row];
            UNROLL for (size_t j = 0; j < columns; j++) {
                lane right = is_shared ? lane_set(shared[j]) : b[j];
                LANE_KEEP(right);
                UNROLL for (size_t i = 0; i < rows; i++) sum[i][j] = lane_fma(left[i], right, sum[i][j]);
            }
            a += a_depth;
            if (is_shared)
                shared += b_depth;
            else
                b += b_depth;
        }
        store_block(rows, columns, x->to + row * x->to_row + column * x->to_column, x->to_row, x->to_column,
                    sum);
        if (x->symmetric && row < column)
            store_block(rows, columns, x->to + row * x->to_column + column * x->to_row, x->to_column,
                        x->to_row, sum);
    }
    return row;
}

/* Rows [first, last) of the panel at `column`. */
typedef void panel_function(const lane_product *x, size_t first, size_t last, size_t column);

#define DEFINE_PANEL(name, columns, is_shared)                                                               \
    static void name##columns(const lane_product *x, size_t first, size_t last, size_t column) {             \
        first = compute_blocks(3, columns, is_shared, x, first, last, column);                               \
        first = compute_blocks(2, columns, is_shared, x, first, last, column);                               \
        compute_blocks(1, columns, is_shared, x, first, last, column);                                       \
    }
#define DEFINE_PANELS(columns)                                                                               \
    DEFINE_PANEL(lanes_, columns, false)                                                                     \
    DEFINE_PANEL(shared_, columns, true)
EACH_COLUMNS(DEFINE_PANELS)

#define LANES_ENTRY(columns)  lanes_##columns,
#define SHARED_ENTRY(columns) shared_##columns,

/* [b is shared][columns - 1] */
static panel_function *const panels[2][BLOCK_COLUMNS] = {
    {EACH_COLUMNS(LANES_ENTRY)},
    {EACH_COLUMNS(SHARED_ENTRY)},
};

void KERNEL(lane_product)(const lane_product *x) {
    const size_t count = (x->columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;
    size_t column = 0;

    /* Panels as even as can be. */
    for (size_t left = count; left > 0; left--) {
        const size_t width = (x->columns - column + left - 1) / left;
        panel_function *panel = panels[x->shared != NULL][width - 1];
        if (x->symmetric) { /* what stands above the panel's own square, which is mirrored; then that square */
            panel(x, 0, column, column);
            panel(x, column, column + width, column);
        } else {
            panel(x, 0, x->rows, column);
        }
        column += width;
    }
}
