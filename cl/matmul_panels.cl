/*
 * Matrix products of CPUs with fused multiply-adds: out = alpha a b + beta out for any strides. matmul.cl has the
 * strict product and those of GPUs.
 *
 * A tile of PANEL_ROWS rows and two vectors of columns stays in registers: 24 multiply-adds for 2 loads of vectors and
 * 12 of numbers with 16 lanes. Its factors are strips [depth][LANES], packed once for many tiles: of b two strips a
 * panel, which stay in the second cache for all rows of a unit; of a one strip, which stays in the first for all
 * panels. `depth` terms are summed in order, then these sums are added in order, whatever the tiles and units, and
 * also where the host cuts a long k into splits of as many.
 * Cost: 2 m n k flops; b is packed once for each chunk of rows, and what cannot be read of a where it lies once for
 * each block of columns.
 */
#include "common.h"

#if LANES > 1

#define PANEL_ROWS    (LANES == 16 ? 12u : LANES == 8 ? 6u : 4u) /* for 32 registers, or 16; as in matmul.c */
#define PANEL_COLUMNS (2u * LANES)
#define STRIP         (depth + 4u) /* vectors of a strip: no power of two, which caches do not like; as in matmul.c */

/* Sets sums [rows][2], or adds to them, a tile's products of `length` terms. rows and vectors, 1 or 2, are known at
 * compile time. Factors: rows of a lie `a_row` apart, terms of a `a_step` apart; terms of b `b_step` apart, its second
 * vector b_next behind the first. */
ROW_FUNCTION void multiply_panels(const uint rows, const uint vectors, __global floats *sums, bool is_first,
                                  __global const float *a, int a_row, int a_step, __global const float *b, int b_step,
                                  int b_next, uint length) {
    floats sum[PANEL_ROWS][2];
    UNROLL for (uint r = 0; r < rows; r++) {
        UNROLL for (uint v = 0; v < vectors; v++) sum[r][v] = (floats)(0.0f);
    }
    for (uint i = 0; i < length; i++, a += a_step, b += b_step) {
        const floats factor0 = LOAD_ANYWHERE(b), factor1 = vectors > 1 ? LOAD_ANYWHERE(b + b_next) : factor0;
        UNROLL for (uint r = 0; r < rows; r++) {
            const floats element = (floats)(a[(int)r * a_row]);
            sum[r][0] = MULTIPLY_ADD(element, factor0, sum[r][0]);
            if (vectors > 1)
                sum[r][1] = MULTIPLY_ADD(element, factor1, sum[r][1]);
        }
    }
    UNROLL for (uint r = 0; r < rows; r++) {
        UNROLL for (uint v = 0; v < vectors; v++) sums[2 * r + v] = is_first ? sum[r][v] : sums[2 * r + v] + sum[r][v];
    }
}

#define MULTIPLY_ROWS(rows, a_row)                                                                                     \
    do {                                                                                                               \
        if (columns > LANES)                                                                                           \
            multiply_panels(rows, 2, sums, is_first, a, a_row, a_step, b, b_step, b_next, length);                     \
        else                                                                                                           \
            multiply_panels(rows, 1, sums, is_first, a, a_row, a_step, b, b_step, b_next, length);                     \
    } while (0)

/* The same for a tile of which `rows` rows and `columns` columns exist; all rows exist where a_row is not 1. */
static void multiply_tile_of(uint rows, uint columns, __global floats *sums, bool is_first, __global const float *a,
                             int a_row, int a_step, __global const float *b, int b_step, int b_next, uint length) {
    if (a_row != 1)
        MULTIPLY_ROWS(PANEL_ROWS, a_row);
    else if (rows > PANEL_ROWS / 3 * 2)
        MULTIPLY_ROWS(PANEL_ROWS, 1);
    else if (rows > PANEL_ROWS / 3)
        MULTIPLY_ROWS(PANEL_ROWS / 3 * 2, 1);
    else
        MULTIPLY_ROWS(PANEL_ROWS / 3, 1);
}

/* Stores what exists of a tile's sums. stride: of rows, of columns. */
static void store_panels(__global const floats *sums, __global float *out, int2 stride, uint rows, uint columns,
                         float alpha, float beta) {
    for (uint r = 0; r < rows; r++, out += stride.s0)
        for (uint v = 0; v * LANES < columns; v++) {
            __global float *to = out + (int)(v * LANES) * stride.s1;
            floats value = alpha * sums[2 * r + v];
            if (beta != 0.0f)
                value += beta * load_run(to, stride.s1, columns - v * LANES);
            store_run(value, to, stride.s1, columns - v * LANES);
        }
}

/*
 * Index mapping: unit = ((batch * splits + split) * row chunks + row chunk) * column blocks + column block. Arguments
 * as of matmul_lanes; a block has `panels` panels, and row_chunk is a multiple of PANEL_ROWS. scratch: for each
 * work-item STRIP * LANES floats for a, panels * STRIP * PANEL_COLUMNS for b, then PANEL_COLUMNS for each row and
 * panel, or where depth >= k for those of one tile.
 */
__kernel void matmul_panels(__global float *out, uint out_offset, int4 out_stride, int split_stride,
                            __global const float *a, uint a_offset, int4 a_stride, __global const float *b,
                            uint b_offset, int4 b_stride, uint inner_batch, uint4 sizes, uint4 cuts, uint depth,
                            uint panels, uint2 units, float alpha, float beta, __global floats *scratch,
                            uint scratch_length) {
    __global float *packed_a = (__global float *)(scratch + get_global_id(0) * scratch_length);
    __global float *packed_b = packed_a + STRIP * LANES;
    __global floats *all_sums = (__global floats *)(packed_b + panels * STRIP * PANEL_COLUMNS);
    FOR_EACH_UNIT(units) {
        const uint chunks = unit / cuts.s0, splits = chunks / cuts.s1, batches = splits / cuts.s2;
        const uint split = splits - batches * cuts.s2, outer = batches / inner_batch;
        const int2 at = (int2)((int)outer, (int)(batches - outer * inner_batch));
        const uint first_row = (chunks - splits * cuts.s1) * sizes.s3, rows = min(sizes.s0 - first_row, sizes.s3);
        const uint first_column = (unit - chunks * cuts.s0) * panels * PANEL_COLUMNS;
        const uint columns = min(sizes.s1 - first_column, panels * PANEL_COLUMNS);
        const uint first_k = split * cuts.s3, end_k = min(sizes.s2, first_k + cuts.s3);
        __global const float *a_rows =
            a + a_offset + at.s0 * a_stride.s0 + at.s1 * a_stride.s1 + (int)first_row * a_stride.s2;
        __global const float *b_columns =
            b + b_offset + at.s0 * b_stride.s0 + at.s1 * b_stride.s1 + (int)first_column * b_stride.s3;
        __global float *to = out + out_offset + at.s0 * out_stride.s0 + at.s1 * out_stride.s1 +
                             (int)split * split_stride + (int)first_row * out_stride.s2 +
                             (int)first_column * out_stride.s3;
        /* Whole tiles of a with adjacent rows or terms are read where they lie, unless a cache would keep all rows
         * in one place. Whole panels of adjacent columns that are read once are not packed, either. */
        const bool can_read_a = a_stride.s2 == 1 || (a_stride.s3 == 1 && a_stride.s2 % 1024 != 0);
        const bool is_direct = b_stride.s3 == 1 && rows <= PANEL_ROWS;
        uint from_k = first_k;
        do { /* once even for k = 0 */
            const uint length = min(depth, end_k - from_k);
            const bool is_first = from_k == first_k, is_last = from_k + length == end_k;
            __global const float *b_part = b_columns + (int)from_k * b_stride.s2;
            __global floats *sums = all_sums;
            for (uint c = is_direct ? columns / PANEL_COLUMNS * PANEL_COLUMNS : 0; c < columns; c += LANES)
                pack_rows(packed_b + c * STRIP, b_part + (int)c * b_stride.s3, b_stride.s23, length, columns - c);
            for (uint row = 0; row < rows; row += PANEL_ROWS) {
                const uint height = min(rows - row, PANEL_ROWS);
                __global const float *a_part = a_rows + (int)row * a_stride.s2 + (int)from_k * a_stride.s3;
                const bool is_a_read = height == PANEL_ROWS && can_read_a;
                if (!is_a_read)
                    pack_rows(packed_a, a_part, a_stride.s32, length, height);
                for (uint c = 0; c < columns; c += PANEL_COLUMNS) {
                    const bool is_read = is_direct && columns - c >= PANEL_COLUMNS;
                    multiply_tile_of(height, columns - c, sums, is_first, is_a_read ? a_part : packed_a,
                                     is_a_read ? a_stride.s2 : 1, is_a_read ? a_stride.s3 : LANES,
                                     is_read ? b_part + c : packed_b + c * STRIP, is_read ? b_stride.s2 : LANES,
                                     is_read ? LANES : (int)(STRIP * LANES), length);
                    if (is_last)
                        store_panels(sums, to + (int)row * out_stride.s2 + (int)c * out_stride.s3, out_stride.s23,
                                     height, min(columns - c, PANEL_COLUMNS), alpha, beta);
                    if (depth < sizes.s2)
                        sums += 2 * PANEL_ROWS;
                }
            }
            from_k += length;
        } while (from_k < end_k);
    }
}

#endif
