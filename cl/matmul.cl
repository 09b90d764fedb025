/*
 * Matrix products: out = alpha a b + beta out for any strides, and the strict product, which is the same sum with
 * alpha = 1 and beta = 0: every element adds its products from k = 0 upwards, each product and each sum rounded once.
 * On CPUs matmul_panels.cl serves all but the strict product.
 *
 * A long k with few outputs is cut into splits: each writes its raw sum, and matmul_combine adds them in order.
 * Cost: 2 m n k flops; a is read once for each column block, b once for each row chunk.
 */
#include "common.h"

#define ROWS 4 /* rows of out that one step of the inner loop computes */

#if LANES > 1

/*
 * Lanes are neighbouring columns. Index mapping: unit = ((batch * splits + split) * row chunks + row chunk) * column
 * blocks + column block. A unit packs its columns of b, depth rows at a time, into contiguous lanes, and streams its
 * rows of a past them. scratch: for each work-item depth * LANES floats for b, then row_chunk * LANES for running sums.
 * batch: extents of the two leading axes; strides: batch, batch, row, column. sizes: m, n, k, rows of a chunk.
 * cuts: columns blocks, row chunks, splits, length of a split (a multiple of depth).
 */
__kernel void matmul_lanes(__global float *out, uint out_offset, int4 out_stride, int split_stride,
                           __global const float *a, uint a_offset, int4 a_stride, __global const float *b,
                           uint b_offset, int4 b_stride, uint inner_batch, uint4 sizes, uint4 cuts, uint depth,
                           uint2 units, float alpha, float beta, __global float *scratch, uint scratch_length) {
    __global float *packed = scratch + get_global_id(0) * scratch_length;
    __global float *sums = packed + depth * LANES;
    const uint m = sizes.s0, n = sizes.s1, k = sizes.s2, row_chunk = sizes.s3;
    FOR_EACH_UNIT(units) {
        const uint chunks = unit / cuts.s0, splits = chunks / cuts.s1, batches = splits / cuts.s2;
        const uint column = (unit - chunks * cuts.s0) * LANES, first_row = (chunks - splits * cuts.s1) * row_chunk;
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
                    a_row[r] = a_matrix + (int)min(row + r, last_row) * a_stride.s2 + (int)from_k * a_stride.s3;
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

#include "tiles.h"

#define TILE         32           /* The side of a work-group's tile of out, for strict and for small products. */
#define WIDE         64           /* of any other */
#define DEPTH        16           /* products added between two barriers */
#define WIDE_DEPTH   8            /* the same for wide tiles: a share of 8 numbers for each of 64 work-items */
#define PADDED(size) ((size) + 4) /* of a staged row: whole vectors, and the next begins at another bank */

/* Sets staged [DEPTH][PADDED(size)] to `length` terms of `size` rows of a, or columns of b, of which `left` exist,
 * padded with zeros. Neighbouring work-items read neighbouring elements: along k where that is contiguous. */
static void stage_factor(__local float *staged, uint size, __global const float *from, int k_stride, int stride,
                         uint length, uint left) {
    for (uint e = get_local_id(0); e < DEPTH * size; e += 64) {
        const uint k = k_stride == 1 ? e % DEPTH : e / size, at = k_stride == 1 ? e / DEPTH : e % size;
        staged[k * PADDED(size) + at] = k < length && at < left ? from[(int)at * stride + (int)k * k_stride] : 0.0f;
    }
}

/* The part that a group computes: its tile of a product, or of one split of it. */
typedef struct task {
    uint row, column; /* the first of the tile */
    uint first_k, end_k;
    __global const float *a, *b; /* from the tile's first row, and column */
    __global float *out;         /* from the tile's first element */
} task;

/* Index mapping: group = ((batch * splits + split) * row tiles + row tile) * column tiles + column tile. */
static task task_of(uint group, uint size, __global float *out, int4 out_stride, int split_stride,
                    __global const float *a, int4 a_stride, __global const float *b, int4 b_stride, uint inner_batch,
                    uint k, uint4 cuts) {
    const uint rows = group / cuts.s0, splits = rows / cuts.s1, batches = splits / cuts.s2;
    const uint split = splits - batches * cuts.s2, outer = batches / inner_batch;
    const int2 at = (int2)((int)outer, (int)(batches - outer * inner_batch));
    task t;
    t.row = (rows - splits * cuts.s1) * size;
    t.column = (group - rows * cuts.s0) * size;
    t.first_k = split * cuts.s3;
    t.end_k = min(k, t.first_k + cuts.s3);
    t.a = a + at.s0 * a_stride.s0 + at.s1 * a_stride.s1 + (int)t.row * a_stride.s2;
    t.b = b + at.s0 * b_stride.s0 + at.s1 * b_stride.s1 + (int)t.column * b_stride.s3;
    t.out = out + at.s0 * out_stride.s0 + at.s1 * out_stride.s1 + (int)split * split_stride +
            (int)t.row * out_stride.s2 + (int)t.column * out_stride.s3;
    return t;
}

static void store_number(float sum, __global float *to, float alpha, float beta) {
    const float value = alpha * sum;
    *to = beta != 0.0f ? value + beta * *to : value;
}

static void store_row(float4 sum, __global float *to, int step, int columns, float alpha, float beta) {
    if (columns > 0)
        store_number(sum.s0, to, alpha, beta);
    if (columns > 1)
        store_number(sum.s1, to + step, alpha, beta);
    if (columns > 2)
        store_number(sum.s2, to + 2 * step, alpha, beta);
    if (columns > 3)
        store_number(sum.s3, to + 3 * step, alpha, beta);
}

/* Stores the block at (row, column) of a tile, of which `rows` rows and `columns` columns exist. */
static void store_product(block sum, uint row, uint column, __global float *to, int4 stride, uint rows, uint columns,
                          float alpha, float beta) {
    const int left = (int)rows - (int)row, width = (int)columns - (int)column;
    to += (int)row * stride.s2 + (int)column * stride.s3;
    if (left > 0)
        store_row(sum.v0, to, stride.s3, width, alpha, beta);
    if (left > 1)
        store_row(sum.v1, to + stride.s2, stride.s3, width, alpha, beta);
    if (left > 2)
        store_row(sum.v2, to + 2 * stride.s2, stride.s3, width, alpha, beta);
    if (left > 3)
        store_row(sum.v3, to + 3 * stride.s2, stride.s3, width, alpha, beta);
}

/*
 * The strict form: each product and each sum rounds once. Local size 64; work-item (x, y) = (id % 8, id / 8) holds rows
 * 4 y to 4 y + 3 and columns 4 x to 4 x + 3 of a tile of TILE: 2 loads of a vector for 16 products. 4.5 KiB local.
 * Sums begin at -0, to which every product can be added without a change, so that the first product is not added to a
 * zero; without products they are 0.
 * Arguments as above; cuts: column tiles, row tiles, splits, length of a split.
 */
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
matmul_tiles(__global float *out, uint out_offset, int4 out_stride, int split_stride, __global const float *a,
             uint a_offset, int4 a_stride, __global const float *b, uint b_offset, int4 b_stride, uint inner_batch,
             uint4 sizes, uint4 cuts, uint2 units, float alpha, float beta) {
    __local float4 a_tile[DEPTH * PADDED(TILE) / 4], b_tile[DEPTH * PADDED(TILE) / 4];
    const uint m = sizes.s0, n = sizes.s1, k = sizes.s2, x = get_local_id(0) % 8, y = get_local_id(0) / 8;
    FOR_EACH_GROUP(group, units) {
        const task t = task_of(group, TILE, out + out_offset, out_stride, split_stride, a + a_offset, a_stride,
                               b + b_offset, b_stride, inner_batch, k, cuts);
        block sum = block_of(k > 0 ? -0.0f : 0.0f);
        for (uint from_k = t.first_k; from_k < t.end_k; from_k += DEPTH) {
            const uint length = min((uint)DEPTH, t.end_k - from_k);
            stage_factor((__local float *)a_tile, TILE, t.a + (int)from_k * a_stride.s3, a_stride.s3, a_stride.s2,
                         length, m - t.row);
            stage_factor((__local float *)b_tile, TILE, t.b + (int)from_k * b_stride.s2, b_stride.s2, b_stride.s3,
                         length, n - t.column);
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint step = 0; step < length; step++) {
                const float4 rows = a_tile[step * (PADDED(TILE) / 4) + y];
                const float4 columns = b_tile[step * (PADDED(TILE) / 4) + x];
                sum.v0 += rows.s0 * columns;
                sum.v1 += rows.s1 * columns;
                sum.v2 += rows.s2 * columns;
                sum.v3 += rows.s3 * columns;
            }
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        store_product(sum, 4 * y, 4 * x, t.out, out_stride, m - t.row, n - t.column, alpha, beta);
    }
}

#define UNROLL_TWICE _Pragma("unroll 2") /* more would take registers that groups need */

/* Returns the share of 64 work-items in `length` terms, at most WIDE_DEPTH, of a tile of WIDE rows of a, or columns of
 * b, of which `left` exist. Neighbouring work-items read neighbours: along k where that is contiguous, so that the
 * work-item keeps its term and walks over rows; else it keeps its row and walks over terms. */
static share share_of_factor(__global const float *from, int k_stride, int stride, uint length, uint left) {
    const bool along_k = k_stride == 1;
    const uint id = get_local_id(0), pace = along_k ? 64 / WIDE_DEPTH : 1;
    const uint k = along_k ? id % WIDE_DEPTH : 0, row = along_k ? id / WIDE_DEPTH : id;
    return (share){from + (int)row * stride + (int)k * k_stride,
                   along_k ? (int)pace * stride : k_stride,
                   pace,
                   along_k ? left_of(left, row, k < length) : left_of(length, 0, row < left),
                   k * PADDED(WIDE) + row,
                   along_k ? pace : PADDED(WIDE)};
}

/*
 * The same with fused multiply-adds and tiles of WIDE: work-item (x, y) holds rows 4 y to 4 y + 3 and 32 + 4 y to 32 +
 * 4 y + 3, and such columns of x: 4 loads of a vector for 64 multiply-adds. The next WIDE_DEPTH terms are loaded
 * while these are multiplied. 4.25 KiB local.
 */
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
matmul_wide(__global float *out, uint out_offset, int4 out_stride, int split_stride, __global const float *a,
            uint a_offset, int4 a_stride, __global const float *b, uint b_offset, int4 b_stride, uint inner_batch,
            uint4 sizes, uint4 cuts, uint2 units, float alpha, float beta) {
    __local float4 a_tile[WIDE_DEPTH * PADDED(WIDE) / 4], b_tile[WIDE_DEPTH * PADDED(WIDE) / 4];
    const uint m = sizes.s0, n = sizes.s1, k = sizes.s2, x = get_local_id(0) % 8, y = get_local_id(0) / 8;
    FOR_EACH_GROUP(group, units) {
        const task t = task_of(group, WIDE, out + out_offset, out_stride, split_stride, a + a_offset, a_stride,
                               b + b_offset, b_stride, inner_batch, k, cuts);
        block sum00 = block_of(0.0f), sum01 = sum00, sum10 = sum00, sum11 = sum00;
        share of_a = share_of_factor(t.a + (int)t.first_k * a_stride.s3, a_stride.s3, a_stride.s2, t.end_k - t.first_k,
                                     m - t.row);
        share of_b = share_of_factor(t.b + (int)t.first_k * b_stride.s2, b_stride.s2, b_stride.s3, t.end_k - t.first_k,
                                     n - t.column);
        float8 held_a = load_share(of_a), held_b = load_share(of_b);
        for (uint from_k = t.first_k; from_k < t.end_k; from_k += WIDE_DEPTH) {
            barrier(CLK_LOCAL_MEM_FENCE); /* the terms before these are multiplied */
            store_share(held_a, (__local float *)a_tile, of_a);
            store_share(held_b, (__local float *)b_tile, of_b);
            barrier(CLK_LOCAL_MEM_FENCE);
            const uint length = min((uint)WIDE_DEPTH, t.end_k - from_k), left = t.end_k - from_k - length;
            if (left > 0) {
                const int next_k = (int)(from_k + WIDE_DEPTH);
                of_a = share_of_factor(t.a + next_k * a_stride.s3, a_stride.s3, a_stride.s2, left, m - t.row);
                of_b = share_of_factor(t.b + next_k * b_stride.s2, b_stride.s2, b_stride.s3, left, n - t.column);
                held_a = load_share(of_a);
                held_b = load_share(of_b);
            }
            UNROLL_TWICE for (uint step = 0; step < length; step++) {
                __local const float4 *rows = a_tile + step * (PADDED(WIDE) / 4) + y;
                __local const float4 *columns = b_tile + step * (PADDED(WIDE) / 4) + x;
                const float4 columns0 = columns[0], columns1 = columns[8];
                sum00 = add_outer(sum00, rows[0], columns0);
                sum01 = add_outer(sum01, rows[0], columns1);
                sum10 = add_outer(sum10, rows[8], columns0);
                sum11 = add_outer(sum11, rows[8], columns1);
            }
        }
        barrier(CLK_LOCAL_MEM_FENCE); /* another product may follow */
        const uint rows = m - t.row, columns = n - t.column;
        store_product(sum00, 4 * y, 4 * x, t.out, out_stride, rows, columns, alpha, beta);
        store_product(sum01, 4 * y, 32 + 4 * x, t.out, out_stride, rows, columns, alpha, beta);
        store_product(sum10, 32 + 4 * y, 4 * x, t.out, out_stride, rows, columns, alpha, beta);
        store_product(sum11, 32 + 4 * y, 32 + 4 * x, t.out, out_stride, rows, columns, alpha, beta);
    }
}

#endif

/*
 * out = alpha * (sum of `splits` partial results, in order) + beta out. partial: splits matrices of [batch, m, n],
 * contiguous. Index mapping: a unit is one element of out, whose extents are `shape`. splits flops each.
 */
__kernel void matmul_combine(__global float *out, uint out_offset, int4 out_stride, uint4 shape,
                             __global const float *partial, uint splits, uint2 units, float alpha, float beta) {
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
