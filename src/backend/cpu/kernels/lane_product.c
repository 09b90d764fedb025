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

/* The block at (row, column); its extents are constants at each call, so that it unrolls. */
ALWAYS_INLINE void compute_block(const size_t rows, const size_t columns, const bool is_shared,
                                 const lane_product *x, size_t row, size_t column) {
    lane sum[BLOCK_ROWS][BLOCK_COLUMNS];
    lane *to = x->to + row * x->to_row + column * x->to_column;
    const lane *a = x->a + row * x->a_row;
    const lane *b = is_shared ? NULL : x->b + column * x->b_column;
    const real *shared = is_shared ? x->shared + column * x->b_column : NULL;
    const size_t a_row = x->a_row, b_column = x->b_column;

    if (x->start == LANES_ADD) {
        UNROLL for (size_t i = 0; i < rows; i++) {
            UNROLL for (size_t j = 0; j < columns; j++) sum[i][j] = to[i * x->to_row + j * x->to_column];
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
    for (size_t k = x->depth; k > 0; k--) {
        lane left[BLOCK_ROWS];
        UNROLL for (size_t i = 0; i < rows; i++) left[i] = a[i * a_row];
        UNROLL for (size_t j = 0; j < columns; j++) {
            const lane right = is_shared ? lane_set(shared[j * b_column]) : b[j * b_column];
            UNROLL for (size_t i = 0; i < rows; i++) sum[i][j] = lane_fma(left[i], right, sum[i][j]);
        }
        a += x->a_depth;
        if (is_shared)
            shared += x->b_depth;
        else
            b += x->b_depth;
    }
    UNROLL for (size_t i = 0; i < rows; i++) {
        UNROLL for (size_t j = 0; j < columns; j++) to[i * x->to_row + j * x->to_column] = sum[i][j];
    }
    if (x->symmetric && row < column) {
        to = x->to + row * x->to_column + column * x->to_row;
        UNROLL for (size_t i = 0; i < rows; i++) {
            UNROLL for (size_t j = 0; j < columns; j++) to[i * x->to_column + j * x->to_row] = sum[i][j];
        }
    }
}

typedef void block_function(const lane_product *x, size_t row, size_t column);

#define DEFINE_BLOCKS(columns)                                                                               \
    static void lanes_1x##columns(const lane_product *x, size_t row, size_t column) {                        \
        compute_block(1, columns, false, x, row, column);                                                    \
    }                                                                                                        \
    static void lanes_2x##columns(const lane_product *x, size_t row, size_t column) {                        \
        compute_block(2, columns, false, x, row, column);                                                    \
    }                                                                                                        \
    static void lanes_3x##columns(const lane_product *x, size_t row, size_t column) {                        \
        compute_block(3, columns, false, x, row, column);                                                    \
    }                                                                                                        \
    static void shared_1x##columns(const lane_product *x, size_t row, size_t column) {                       \
        compute_block(1, columns, true, x, row, column);                                                     \
    }                                                                                                        \
    static void shared_2x##columns(const lane_product *x, size_t row, size_t column) {                       \
        compute_block(2, columns, true, x, row, column);                                                     \
    }                                                                                                        \
    static void shared_3x##columns(const lane_product *x, size_t row, size_t column) {                       \
        compute_block(3, columns, true, x, row, column);                                                     \
    }
EACH_COLUMNS(DEFINE_BLOCKS)

#define LANES_ROW(columns)  {lanes_1x##columns, lanes_2x##columns, lanes_3x##columns},
#define SHARED_ROW(columns) {shared_1x##columns, shared_2x##columns, shared_3x##columns},

/* [b is shared][columns - 1][rows - 1] */
static block_function *const blocks[2][BLOCK_COLUMNS][BLOCK_ROWS] = {
    {EACH_COLUMNS(LANES_ROW)},
    {EACH_COLUMNS(SHARED_ROW)},
};

/* Where part `index` of `parts` of an extent begins, the parts as even as can be. */
static size_t part_start(size_t extent, size_t parts, size_t index) {
    const size_t rest = extent % parts;
    return index * (extent / parts) + (index < rest ? index : rest);
}

/* Rows [first, last) of one panel. */
static void compute_rows(const lane_product *x, size_t first, size_t last, size_t column, size_t width) {
    block_function *const *block = blocks[x->shared != NULL][width - 1];
    const size_t strips = (last - first + BLOCK_ROWS - 1) / BLOCK_ROWS;

    for (size_t strip = 0; strip < strips; strip++) {
        const size_t row = part_start(last - first, strips, strip);
        block[part_start(last - first, strips, strip + 1) - row - 1](x, first + row, column);
    }
}

void KERNEL(lane_product)(const lane_product *x) {
    const size_t panels = (x->columns + BLOCK_COLUMNS - 1) / BLOCK_COLUMNS;

    for (size_t panel = 0; panel < panels; panel++) {
        const size_t column = part_start(x->columns, panels, panel);
        const size_t width = part_start(x->columns, panels, panel + 1) - column;
        if (x->symmetric) { /* above the panel's own square, mirrored; and that square */
            compute_rows(x, 0, column, column, width);
            compute_rows(x, column, column + width, column, width);
        } else {
            compute_rows(x, 0, x->rows, column, width);
        }
    }
}
