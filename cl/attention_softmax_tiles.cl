/*
 * Softmax attention on GPUs, through tiles in local memory: the algorithm, the masks and the operands of attention_softmax.cl.
 *
 * Index mapping: group = (batch * blocks + block) * column_blocks + column block. A work-group of 64 owns TILE queries (keys in the
 * third kernel), its rows, and COLUMNS columns of what it writes, and walks through the others, its sources, TILE at a time.
 * Work-item (x, y) = (id % 8, id / 8) holds rows y + 8 i and columns, or sources, x + 8 j. Matrices wider than COLUMNS are
 * rare: each of their column blocks computes the weights again.
 * Local memory: 17 KiB at most. Cost: as there; of each pair 4 (d + e) / TILE bytes of global memory.
 */
#include "common.h"

#if LANES == 1

#define TILE    32
#define COLUMNS 64
#define DEPTH   16 /* coordinates of a dot product between two barriers */
#define STRIDE  (TILE + 1)

#define MINUS_INFINITY as_float(0xff800000u)

/* Of the work-item, in its work-group. */
#define LOCAL_X (get_local_id(0) % 8)
#define LOCAL_Y (get_local_id(0) / 8)

/* staging [DEPTH][STRIDE] = columns [first, first + length) of a tile of rows, transposed, and zeros around them. Neighbouring
 * work-items read neighbouring elements: along the row where that is contiguous. */
static void stage_columns(__local float *staging, __global const float *from, int row_stride,
                          int column_stride, uint rows, uint first, uint length) {
    for (uint n = get_local_id(0); n < DEPTH * TILE; n += 64) {
        const uint c = column_stride == 1 ? n % DEPTH : n / TILE;
        const uint row = column_stride == 1 ? n / DEPTH : n % TILE;
        staging[c * STRIDE + row] =
            c < length && row < rows ? from[(int)row * row_stride + (int)(first + c) * column_stride] : 0.0f;
    }
}

/* sum[i][j] = the dot product of row y + 8 i of a with row x + 8 j of b, both `width` wide; `a_rows` and `b_rows` <= TILE exist. Ends
 * with a barrier unless width = 0; staging: 2 DEPTH STRIDE. */
static void dot_tile(float sum[4][4], __global const float *a, int4 a_stride, uint a_rows,
                     __global const float *b, int4 b_stride, uint b_rows, uint width,
                     __local float *staging) {
    const uint x = LOCAL_X, y = LOCAL_Y;
    for (uint i = 0; i < 4; i++)
        for (uint j = 0; j < 4; j++)
            sum[i][j] = 0.0f;
    for (uint first = 0; first < width; first += DEPTH) {
        const uint length = min((uint)DEPTH, width - first);
        stage_columns(staging, a, a_stride.s1, a_stride.s2, a_rows, first, length);
        stage_columns(staging + DEPTH * STRIDE, b, b_stride.s1, b_stride.s2, b_rows, first, length);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint c = 0; c < length; c++) {
            __local const float *a_column = staging + c * STRIDE + y,
                                *b_column = staging + (DEPTH + c) * STRIDE + x;
            for (uint i = 0; i < 4; i++)
                for (uint j = 0; j < 4; j++)
                    sum[i][j] = MULTIPLY_ADD(a_column[8 * i], b_column[8 * j], sum[i][j]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* sum[i][j] += sum over sources t < length of weights [t][y + 8 i] times column x + 8 j of row t of `from`, of which `width` columns exist.
 * Begins its work on the weights behind a barrier and ends with one; staging: TILE COLUMNS. */
static void add_tile(float sum[4][8], __local const float *weights, __global const float *from, int4 stride,
                     uint length, uint width, __local float *staging) {
    const uint x = LOCAL_X, y = LOCAL_Y;
    for (uint n = get_local_id(0); n < TILE * COLUMNS; n += 64) {
        const uint t = stride.s2 == 1 ? n / COLUMNS : n % TILE;
        const uint c = stride.s2 == 1 ? n % COLUMNS : n / TILE;
        staging[t * COLUMNS + c] =
            t < length && c < width ? from[(int)t * stride.s1 + (int)c * stride.s2] : 0.0f;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = 0; t < length; t++) {
        __local const float *weight = weights + t * STRIDE + y, *row = staging + t * COLUMNS + x;
        for (uint i = 0; i < 4; i++)
            for (uint j = 0; j < 8; j++)
                sum[i][j] = MULTIPLY_ADD(weight[8 * i], row[8 * j], sum[i][j]);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* The work-item's elements of `rows` rows and `width` columns of a matrix = alpha * sum. */
static void store_tile(float sum[4][8], float alpha, __global float *to, int4 stride, uint rows, uint width) {
    for (uint i = 0; i < 4; i++)
        for (uint j = 0; j < 8; j++) {
            const uint row = LOCAL_Y + 8 * i, column = LOCAL_X + 8 * j;
            if (row < rows && column < width)
                to[(int)row * stride.s1 + (int)column * stride.s2] = alpha * sum[i][j];
        }
}

static void clear_sums(float sum[4][8]) {
    for (uint i = 0; i < 4; i++)
        for (uint j = 0; j < 8; j++)
            sum[i][j] = 0.0f;
}

/*
 * A tile of scores, `tile` [t][row], becomes weights relative to the new maximum; row `row` attends to the first `seen` sources. Two
 * work-items share a row, each with half of the tile, and keep the row's *maximum and *total alike. keep [row]: what the sums
 * so far are to be multiplied with. halves: 2 TILE. Begins and ends with a barrier.
 */
static void weigh_tile(__local float *tile, __local float *keep, __local float *halves, int seen,
                       float *maximum, float *total) {
    const uint row = get_local_id(0) % TILE, first = get_local_id(0) / TILE * (TILE / 2);
    float higher = *maximum, sum = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = first; t < first + TILE / 2; t++)
        if ((int)t < seen)
            higher = fmax(higher, tile[t * STRIDE + row]);
    halves[get_local_id(0)] = higher;
    barrier(CLK_LOCAL_MEM_FENCE);
    higher = fmax(halves[row], halves[TILE + row]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = first; t < first + TILE / 2; t++) {
        const float weight = (int)t < seen ? exp(tile[t * STRIDE + row] - higher) : 0.0f;
        tile[t * STRIDE + row] = weight;
        sum += weight;
    }
    halves[get_local_id(0)] = sum;
    if (first == 0)
        keep[row] = exp(*maximum - higher);
    barrier(CLK_LOCAL_MEM_FENCE);
    *total = *total * keep[row] + (halves[row] + halves[TILE + row]);
    *maximum = higher;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
softmax_forward_tiles(__global float *out, uint out_offset, int4 out_stride, __global float *log_sum_exp,
                      uint lse_offset, int4 lse_stride, __global const float *q, uint q_offset, int4 q_stride,
                      __global const float *k, uint k_offset, int4 k_stride, __global const float *v,
                      uint v_offset, int4 v_stride, uint4 sizes, uint sources, int shift, uint blocks,
                      uint units, float scale, uint column_blocks) {
    __local float staging[TILE * COLUMNS], tile[TILE * STRIDE], keep[TILE], halves[2 * TILE];
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3, id = get_local_id(0);
    for (uint group = get_group_id(0); group < units; group += get_num_groups(0)) {
        const uint block = group / column_blocks, batch = block / blocks;
        const uint column = (group - block * column_blocks) * COLUMNS,
                   first = (block - batch * blocks) * TILE;
        const uint count = min(queries - first, (uint)TILE);
        __global const float *from_q = q + q_offset + (int)batch * q_stride.s0 + (int)first * q_stride.s1;
        __global const float *from_k = k + k_offset + (int)batch * k_stride.s0;
        __global const float *from_v = v + v_offset + (int)batch * v_stride.s0 + (int)column * v_stride.s2;
        __global float *to = out + out_offset + (int)batch * out_stride.s0 + (int)first * out_stride.s1 +
                             (int)column * out_stride.s2;
        const uint end = min(sources, (uint)max((int)(first + count) + shift, 0));
        const int limit = min((int)(first + id % TILE) + shift + 1, (int)end);
        float sum[4][8], score[4][4], maximum = -MAXFLOAT, total = 0.0f;

        clear_sums(sum);
        for (uint j = 0; j < end; j += TILE) {
            const uint length = min((uint)TILE, end - j);
            dot_tile(score, from_q, q_stride, count, from_k + (int)j * k_stride.s1, k_stride, length, d,
                     staging);
            for (uint i = 0; i < 4; i++)
                for (uint n = 0; n < 4; n++)
                    tile[(LOCAL_X + 8 * n) * STRIDE + LOCAL_Y + 8 * i] = scale * score[i][n];
            weigh_tile(tile, keep, halves, limit - (int)j, &maximum, &total);
            for (uint i = 0; i < 4; i++)
                for (uint n = 0; n < 8; n++)
                    sum[i][n] *= keep[LOCAL_Y + 8 * i];
            add_tile(sum, tile, from_v + (int)j * v_stride.s1, v_stride, length, e - column, staging);
        }
        if (id < count && column == 0)
            log_sum_exp[lse_offset + (int)batch * lse_stride.s0 + (int)(first + id) * lse_stride.s1] =
                limit > 0 ? maximum + log(total) : MINUS_INFINITY;
        /* A query that attends to nothing has sums of 0. */
        if (id < TILE)
            keep[id] = limit > 0 ? total : 1.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint i = 0; i < 4; i++)
            for (uint n = 0; n < 8; n++)
                sum[i][n] /= keep[LOCAL_Y + 8 * i];
        store_tile(sum, 1.0f, to, out_stride, count, e - column);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* d_q, and D for the next kernel: row_terms [batch, queries]. */
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void softmax_backward_queries_tiles(
    __global float *d_q, uint dq_offset, int4 dq_stride, __global float *row_terms,
    __global const float *d_out, uint do_offset, int4 do_stride, __global const float *out, uint out_offset,
    int4 out_stride, __global const float *log_sum_exp, uint lse_offset, int4 lse_stride,
    __global const float *q, uint q_offset, int4 q_stride, __global const float *k, uint k_offset,
    int4 k_stride, __global const float *v, uint v_offset, int4 v_stride, uint4 sizes, uint sources,
    int shift, uint blocks, uint units, float scale, uint column_blocks) {
    __local float staging[TILE * COLUMNS], slopes[TILE * STRIDE], row_term[TILE], lse[TILE];
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3, id = get_local_id(0);
    for (uint group = get_group_id(0); group < units; group += get_num_groups(0)) {
        const uint block = group / column_blocks, batch = block / blocks;
        const uint column = (group - block * column_blocks) * COLUMNS,
                   first = (block - batch * blocks) * TILE;
        const uint count = min(queries - first, (uint)TILE);
        __global const float *from_q = q + q_offset + (int)batch * q_stride.s0 + (int)first * q_stride.s1;
        __global const float *from_g =
            d_out + do_offset + (int)batch * do_stride.s0 + (int)first * do_stride.s1;
        __global const float *from_k = k + k_offset + (int)batch * k_stride.s0;
        __global const float *from_v = v + v_offset + (int)batch * v_stride.s0;
        __global float *to = d_q + dq_offset + (int)batch * dq_stride.s0 + (int)first * dq_stride.s1 +
                             (int)column * dq_stride.s2;
        const uint end = min(sources, (uint)max((int)(first + count) + shift, 0));
        float sum[4][8], score[4][4], gain[4][4];

        if (id < TILE) {
            const int row = (int)(first + min(id, count - 1));
            __global const float *from_out =
                out + out_offset + (int)batch * out_stride.s0 + row * out_stride.s1;
            float term = 0.0f;
            for (uint c = 0; c < e; c++)
                term += from_g[(row - (int)first) * do_stride.s1 + (int)c * do_stride.s2] *
                        from_out[(int)c * out_stride.s2];
            row_term[id] = term;
            lse[id] = log_sum_exp[lse_offset + (int)batch * lse_stride.s0 + row * lse_stride.s1];
            if (id < count && column == 0)
                row_terms[batch * queries + first + id] = term;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        clear_sums(sum);
        for (uint j = 0; j < end; j += TILE) {
            const uint length = min((uint)TILE, end - j);
            __global const float *k_rows = from_k + (int)j * k_stride.s1;
            dot_tile(score, from_q, q_stride, count, k_rows, k_stride, length, d, staging);
            dot_tile(gain, from_g, do_stride, count, from_v + (int)j * v_stride.s1, v_stride, length, e,
                     staging);
            for (uint i = 0; i < 4; i++)
                for (uint n = 0; n < 4; n++) {
                    const uint row = LOCAL_Y + 8 * i, t = LOCAL_X + 8 * n;
                    const int limit = min((int)(first + row) + shift + 1, (int)end);
                    slopes[t * STRIDE + row] = (int)(j + t) < limit ? exp(scale * score[i][n] - lse[row]) *
                                                                          (gain[i][n] - row_term[row])
                                                                    : 0.0f;
                }
            add_tile(sum, slopes, k_rows + (int)column * k_stride.s2, k_stride, length, d - column, staging);
        }
        store_tile(sum, scale, to, dq_stride, count, d - column);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* d_k and d_v. Rows are keys; a column block may lie beyond the narrower of the two. */
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void softmax_backward_keys_tiles(
    __global float *d_k, uint dk_offset, int4 dk_stride, __global float *d_v, uint dv_offset, int4 dv_stride,
    __global const float *row_terms, __global const float *d_out, uint do_offset, int4 do_stride,
    __global const float *log_sum_exp, uint lse_offset, int4 lse_stride, __global const float *q,
    uint q_offset, int4 q_stride, __global const float *k, uint k_offset, int4 k_stride,
    __global const float *v, uint v_offset, int4 v_stride, uint4 sizes, uint sources, int shift, uint blocks,
    uint units, float scale, uint column_blocks) {
    __local float staging[TILE * COLUMNS], tile[TILE * STRIDE], row_term[TILE], lse[TILE];
    const uint queries = sizes.s0, keys = sizes.s1, d = sizes.s2, e = sizes.s3, id = get_local_id(0);
    for (uint group = get_group_id(0); group < units; group += get_num_groups(0)) {
        const uint block = group / column_blocks, batch = block / blocks;
        const uint column = (group - block * column_blocks) * COLUMNS,
                   first = (block - batch * blocks) * TILE;
        const uint count = min(keys - first, (uint)TILE);
        const uint k_width = d > column ? d - column : 0, v_width = e > column ? e - column : 0;
        __global const float *from_k = k + k_offset + (int)batch * k_stride.s0 + (int)first * k_stride.s1;
        __global const float *from_v = v + v_offset + (int)batch * v_stride.s0 + (int)first * v_stride.s1;
        /* The first query that attends to the block's first key; none where nothing attends to it. */
        const uint start = first < sources ? (uint)max((int)first - shift, 0) : queries;
        float sum_k[4][8], sum_v[4][8], score[4][4], gain[4][4];

        clear_sums(sum_k);
        clear_sums(sum_v);
        for (uint i = start; i < queries; i += TILE) {
            const uint length = min((uint)TILE, queries - i);
            __global const float *q_rows = q + q_offset + (int)batch * q_stride.s0 + (int)i * q_stride.s1;
            __global const float *g_rows =
                d_out + do_offset + (int)batch * do_stride.s0 + (int)i * do_stride.s1;
            if (id < length) {
                row_term[id] = row_terms[batch * queries + i + id];
                lse[id] =
                    log_sum_exp[lse_offset + (int)batch * lse_stride.s0 + (int)(i + id) * lse_stride.s1];
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            dot_tile(score, from_k, k_stride, count, q_rows, q_stride, length, d, staging);
            dot_tile(gain, from_v, v_stride, count, g_rows, do_stride, length, e, staging);
            for (uint r = 0; r < 4; r++)
                for (uint n = 0; n < 4; n++) {
                    const uint row = LOCAL_Y + 8 * r, t = LOCAL_X + 8 * n;
                    const int key = (int)(first + row);
                    const int seen = t < length && key < (int)sources && key <= (int)(i + t) + shift;
                    const float p = seen ? exp(scale * score[r][n] - lse[t]) : 0.0f;
                    tile[t * STRIDE + row] = p;
                    score[r][n] = seen ? p * (gain[r][n] - row_term[t]) : 0.0f;
                }
            add_tile(sum_v, tile, g_rows + (int)column * do_stride.s2, do_stride, length, v_width, staging);
            for (uint r = 0; r < 4; r++)
                for (uint n = 0; n < 4; n++)
                    tile[(LOCAL_X + 8 * n) * STRIDE + LOCAL_Y + 8 * r] = score[r][n];
            add_tile(sum_k, tile, q_rows + (int)column * q_stride.s2, q_stride, length, k_width, staging);
        }
        store_tile(sum_k, scale,
                   d_k + dk_offset + (int)batch * dk_stride.s0 + (int)first * dk_stride.s1 +
                       (int)column * dk_stride.s2,
                   dk_stride, count, k_width);
        store_tile(sum_v, 1.0f,
                   d_v + dv_offset + (int)batch * dv_stride.s0 + (int)first * dv_stride.s1 +
                       (int)column * dv_stride.s2,
                   dv_stride, count, v_width);
    }
}

#endif
