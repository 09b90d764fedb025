/*
 * Matrix products: out = alpha a b + beta out for any strides, and the strict product, which is the same sum with
 * alpha = 1 and beta = 0: every element adds its products from k = 0 upwards, each product and each sum rounded once.
 *
 * A long k with few outputs is cut into splits: each writes its raw sum, and matmul_combine adds them in order.
 * Cost: 2 m n k flops; a is read once for each column block, b once for each row chunk.
 */
#include "common.h"

#define ROWS 4 /* rows of out that one step of the inner loop computes */

#if LANES > 1

/* Packs `length` rows of b, of which `columns` columns are left. Where the columns are runs, as in a transpose, they are loaded as such
 * and turned around; the last rows overlap those before. stride: of rows, of columns. */
static void pack_rows(__global float *packed, __global const float *b, int2 stride, uint length,
                      uint columns) {
    if (stride.s0 == 1 && stride.s1 != 1 && length >= LANES) {
        for (uint i = 0; i < length; i += LANES) {
            const uint at = min(i, length - LANES);
            load_columns((__global floats *)packed + at, b + at, stride.s1, columns);
        }
        return;
    }
    for (uint i = 0; i < length; i++)
        pack_run(packed + i * LANES, b + (int)i * stride.s0, stride.s1, columns);
}

/*
 * Lanes are neighbouring columns. Index mapping: unit = ((batch * splits + split) * row chunks + row chunk) * column
 * blocks + column block. A unit packs its columns of b, depth rows at a time, into contiguous lanes, and streams its
 * rows of a past them. scratch: for each work-item depth * LANES floats for b, then row_chunk * LANES for running sums.
 * batch: extents of the two leading axes; strides: batch, batch, row, column. sizes: m, n, k, rows of a chunk.
 * cuts: columns blocks, row chunks, splits, length of a split (a multiple of depth).
 */
__kernel void matmul_lanes(__global float *out, uint out_offset, int4 out_stride, int split_stride,
                           __global const float *a, uint a_offset, int4 a_stride, __global const float *b,
                           uint b_offset, int4 b_stride, uint inner_batch, uint4 sizes, uint4 cuts,
                           uint depth, uint2 units, float alpha, float beta, __global float *scratch,
                           uint scratch_length) {
    __global float *packed = scratch + get_global_id(0) * scratch_length;
    __global float *sums = packed + depth * LANES;
    const uint m = sizes.s0, n = sizes.s1, k = sizes.s2, row_chunk = sizes.s3;
    FOR_EACH_UNIT(units) {
        const uint chunks = unit / cuts.s0, splits = chunks / cuts.s1, batches = splits / cuts.s2;
        const uint column = (unit - chunks * cuts.s0) * LANES,
                   first_row = (chunks - splits * cuts.s1) * row_chunk;
        const uint split = splits - batches * cuts.s2, outer = batches / inner_batch;
        const int2 at = (int2)((int)outer, (int)(batches - outer * inner_batch));
        const uint first_k = split * cuts.s3, end_k = min(k, first_k + cuts.s3);
        const uint last_row = min(first_row + row_chunk, m) - 1;
        __global const float *a_matrix = a + a_offset + at.s0 * a_stride.s0 + at.s1 * a_stride.s1;
        __global const float *b_columns =
            b + b_offset + at.s0 * b_stride.s0 + at.s1 * b_stride.s1 + (int)column * b_stride.s3;
        __global float *out_columns = out + out_offset + at.s0 * out_stride.s0 + at.s1 * out_stride.s1 +
                                      (int)column * out_stride.s3 + (int)split * split_stride;
        uint from_k = first_k;
        do { /* once even for k = 0 */
            const uint length = min(depth, end_k - from_k);
            const int first_part = from_k == first_k, last_part = from_k + length == end_k;
            pack_rows(packed, b_columns + (int)from_k * b_stride.s2, b_stride.s23, length, n - column);
            for (uint row = first_row; row <= last_row; row += ROWS) {
                __global float *running = sums + (row - first_row) * LANES;
                floats sum[ROWS];
                __global const float *a_row[ROWS];
                uint i = 0;
                for (uint r = 0; r < ROWS; r++)
                    a_row[r] =
                        a_matrix + (int)min(row + r, last_row) * a_stride.s2 + (int)from_k * a_stride.s3;
                if (!first_part) {
                    for (uint r = 0; r < ROWS; r++)
                        sum[r] = LOAD_LANES(running + r * LANES);
                } else if (length > 0) {
                    const floats x = LOAD_LANES(packed);
                    for (uint r = 0; r < ROWS; r++)
                        sum[r] = *a_row[r] * x;
                    i = 1;
                } else {
                    for (uint r = 0; r < ROWS; r++)
                        sum[r] = (floats)(0.0f);
                }
                floats sum0 = sum[0], sum1 = sum[1], sum2 = sum[2], sum3 = sum[3];
                for (; i < length; i++) {
                    const floats x = LOAD_LANES(packed + i * LANES);
                    const int step = (int)i * a_stride.s3;
                    sum0 += a_row[0][step] * x;
                    sum1 += a_row[1][step] * x;
                    sum2 += a_row[2][step] * x;
                    sum3 += a_row[3][step] * x;
                }
                sum[0] = sum0, sum[1] = sum1, sum[2] = sum2, sum[3] = sum3;
                for (uint r = 0; r < ROWS; r++) {
                    if (!last_part) {
                        STORE_LANES(sum[r], running + r * LANES);
                    } else if (row + r <= last_row) {
                        __global float *to = out_columns + (int)(row + r) * out_stride.s2;
                        floats value = alpha * sum[r];
                        if (beta != 0.0f)
                            value += beta * load_run(to, out_stride.s3, n - column);
                        store_run(value, to, out_stride.s3, n - column);
                    }
                }
            }
            from_k += length;
        } while (from_k < end_k);
    }
}

#else

#define TILE                                                                                                 \
    32 /* rows and columns of out that a work-group computes: 8 x 8 work-items, 4 x 4 elements each */
#define DEPTH 16 /* products added between two barriers */

/*
 * Tiles in local memory. Index mapping: group = ((batch * splits + split) * row tiles + row tile) * column tiles + column tile;
 * local size 64; work-item (x, y) = (id % 8, id / 8) holds rows y + 8 i, columns x + 8 j of the tile. 4.2 KiB local.
 * Arguments as above; cuts: column tiles, row tiles, splits, length of a split.
 */
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
matmul_tiles(__global float *out, uint out_offset, int4 out_stride, int split_stride, __global const float *a,
             uint a_offset, int4 a_stride, __global const float *b, uint b_offset, int4 b_stride,
             uint inner_batch, uint4 sizes, uint4 cuts, uint2 units, float alpha, float beta) {
    __local float a_tile[DEPTH][TILE + 1], b_tile[DEPTH][TILE + 1];
    const uint m = sizes.s0, n = sizes.s1, k = sizes.s2, id = get_local_id(0), x = id % 8, y = id / 8;
    FOR_EACH_GROUP(group, units) {
        const uint rows = group / cuts.s0, splits = rows / cuts.s1, batches = splits / cuts.s2;
        const uint first_column = (group - rows * cuts.s0) * TILE,
                   first_row = (rows - splits * cuts.s1) * TILE;
        const uint split = splits - batches * cuts.s2, outer = batches / inner_batch;
        const int2 at = (int2)((int)outer, (int)(batches - outer * inner_batch));
        const uint first_k = split * cuts.s3, end_k = min(k, first_k + cuts.s3);
        __global const float *a_matrix = a + a_offset + at.s0 * a_stride.s0 + at.s1 * a_stride.s1;
        __global const float *b_matrix = b + b_offset + at.s0 * b_stride.s0 + at.s1 * b_stride.s1;
        __global float *out_matrix =
            out + out_offset + at.s0 * out_stride.s0 + at.s1 * out_stride.s1 + (int)split * split_stride;
        float sum[4][4];
        for (uint i = 0; i < 4; i++)
            for (uint j = 0; j < 4; j++)
                sum[i][j] = 0.0f;
        for (uint from_k = first_k; from_k < end_k; from_k += DEPTH) {
            const uint length = min((uint)DEPTH, end_k - from_k);
            for (uint e = id; e < DEPTH * TILE; e += 64) {
                /* Neighbouring work-items read neighbouring elements of the matrix: along k where that is contiguous. */
                const uint a_k = a_stride.s3 == 1 ? e % DEPTH : e / TILE;
                const uint a_row = a_stride.s3 == 1 ? e / DEPTH : e % TILE;
                const uint b_k = b_stride.s3 == 1 ? e / TILE : e % DEPTH;
                const uint b_column = b_stride.s3 == 1 ? e % TILE : e / DEPTH;
                a_tile[a_k][a_row] =
                    a_k < length && first_row + a_row < m
                        ? a_matrix[(int)(first_row + a_row) * a_stride.s2 + (int)(from_k + a_k) * a_stride.s3]
                        : 0.0f;
                b_tile[b_k][b_column] = b_k < length && first_column + b_column < n
                                            ? b_matrix[(int)(from_k + b_k) * b_stride.s2 +
                                                       (int)(first_column + b_column) * b_stride.s3]
                                            : 0.0f;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint step = 0; step < length; step++) {
                const int first = from_k + step == first_k; /* the first product is not added to a zero */
                for (uint i = 0; i < 4; i++)
                    for (uint j = 0; j < 4; j++) {
                        const float product = a_tile[step][y + 8 * i] * b_tile[step][x + 8 * j];
                        sum[i][j] = first ? product : sum[i][j] + product;
                    }
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        for (uint i = 0; i < 4; i++)
            for (uint j = 0; j < 4; j++) {
                const uint row = first_row + y + 8 * i, column = first_column + x + 8 * j;
                if (row < m && column < n) {
                    __global float *to = out_matrix + (int)row * out_stride.s2 + (int)column * out_stride.s3;
                    const float value = alpha * sum[i][j];
                    *to = beta != 0.0f ? value + beta * *to : value;
                }
            }
    }
}

#endif

/*
 * out = alpha * (sum of `splits` partial results, in order) + beta out. partial: splits matrices of [batch, m, n], contiguous.
 * Index mapping: a unit is one element of out, whose extents are `shape`. splits flops each.
 */
__kernel void matmul_combine(__global float *out, uint out_offset, int4 out_stride, uint4 shape,
                             __global const float *partial, uint splits, uint2 units, float alpha,
                             float beta) {
    const uint elements = shape.s0 * shape.s1 * shape.s2 * shape.s3;
    FOR_EACH_UNIT(units) {
        __global float *to = out + out_offset + dot_position(element_position(unit, shape), out_stride);
        float sum = partial[unit];
        for (uint split = 1; split < splits; split++)
            sum += partial[split * elements + unit];
        sum *= alpha;
        *to = beta != 0.0f ? sum + beta * *to : sum;
    }
}
