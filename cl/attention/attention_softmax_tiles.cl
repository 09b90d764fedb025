/*
 * Softmax attention on GPUs, through tiles in local memory: the algorithm, the masks and the operands of
 * attention_softmax.cl.
 *
 * Index mapping: group = ((batch * heads + head) * blocks + block) * column_blocks + column block; in the third kernel,
 * which takes all heads that read its keys, with groups for heads. A work-group of 64 owns TILE queries
 * (keys in the third kernel), its rows, and COLUMNS columns of what it writes, and walks through the others, its
 * sources, TILE at a time. Work-item (x, y) = (id % 8, id / 8) holds rows 4 y to 4 y + 3, and of each sources 4 x to 4
 * x + 3 or columns 4 x to 4 x + 3 and COLUMNS / 2 + 4 x to COLUMNS / 2 + 4 x + 3. Matrices wider than COLUMNS are rare:
 * each of their column blocks computes the weights again.
 * All products add outer products of two vectors of four, which are loaded whole: 2 loads from local memory for 16
 * multiply-adds of scores, 3 for 32 of sums.
 * Local memory: 10 KiB at most. Cost: as there; of each pair 4 (d + e) / TILE bytes of global memory.
 */
#include "places.h"
#if LANES == 1
#include "../tiles.h"

#define TILE    32
#define COLUMNS 64
#define DEPTH   16 /* coordinates, or sources, between two barriers */

/* A staged row holds TILE numbers, counted in numbers and in vectors. It is padded so that the next row begins at
 * another bank of local memory. */
#define STRIDE  (TILE + 4)
#define VECTORS (STRIDE / 4)

/* Sizes in vectors: DEPTH rows of both factors of a dot product, or DEPTH rows of COLUMNS numbers. */
#define STAGING (2 * DEPTH * VECTORS)

/* The test looks at the bits, because relaxed arithmetic may assume that no float is infinite. */
#define MINUS_INFINITY_BITS ((int)0xff800000u)

#define LOWEST (-104.0f) /* exp of less rounds to 0 */

/* The work-item's number in its work-group. */
#define LOCAL_X (get_local_id(0) % 8)
#define LOCAL_Y (get_local_id(0) / 8)

/* The work-item's part of the sums of four rows. */
typedef struct sums {
    block low, high;
} sums;

/* Multiplies row r of the block by factor r. */
static block scale_rows(block b, float4 factor) {
    b.v0 *= factor.s0;
    b.v1 *= factor.s1;
    b.v2 *= factor.s2;
    b.v3 *= factor.s3;
    return b;
}

/* Returns the share of 64 work-items in columns [first, first + DEPTH) of a tile of rows, staged as [DEPTH][STRIDE].
 * Of `width` columns the last may be missing. Neighbouring work-items read neighbouring elements where rows are
 * contiguous. */
static share share_of_columns(__global const float *from, int4 stride, uint rows, uint first, uint width) {
    const bool contiguous = stride.s2 == 1;
    const uint id = get_local_id(0);
    const uint c = contiguous ? id % DEPTH : id / TILE, row = contiguous ? id / DEPTH : id % TILE;
    const uint pace = contiguous ? 64 / DEPTH : 64 / TILE, length = width - first;
    return (share){from + (int)row * stride.s1 + (int)(first + c) * stride.s2,
                   (int)pace * (contiguous ? stride.s1 : stride.s2),
                   pace,
                   contiguous ? left_of(rows, row, c < length) : left_of(length, c, row < rows),
                   c * STRIDE + row,
                   contiguous ? pace : pace * STRIDE};
}

/* Returns dot products of `width` terms: vector t has source 4 x + t with each of the work-item's four rows.
 * `row_count` rows and `source_count` sources exist, at most TILE of each. Ends with a barrier unless width = 0. */
static block dot_tile(__global const float *rows, int4 row_stride, uint row_count, __global const float *sources,
                      int4 source_stride, uint source_count, uint width, __local float4 *staging) {
    __local const float4 *of_rows = staging + LOCAL_Y, *of_sources = staging + DEPTH * VECTORS + LOCAL_X;
    block dots = block_of(0.0f);
    for (uint first = 0; first < width; first += DEPTH) {
        const uint length = min((uint)DEPTH, width - first);
        const share row_share = share_of_columns(rows, row_stride, row_count, first, width);
        const share source_share = share_of_columns(sources, source_stride, source_count, first, width);
        store_share(load_share(row_share), (__local float *)staging, row_share);
        store_share(load_share(source_share), (__local float *)(staging + DEPTH * VECTORS), source_share);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint c = 0; c < length; c++)
            dots = add_outer(dots, of_sources[c * VECTORS], of_rows[c * VECTORS]);
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return dots;
}

/* Stores the work-item's vectors of four sources in tile [source][row]. */
static void put_block(__local float4 *tile, block b) {
    __local float4 *to = tile + 4 * LOCAL_X * VECTORS + LOCAL_Y;
    to[0] = b.v0;
    to[VECTORS] = b.v1;
    to[2 * VECTORS] = b.v2;
    to[3 * VECTORS] = b.v3;
}

static block take_block(__local const float4 *tile) {
    __local const float4 *from = tile + 4 * LOCAL_X * VECTORS + LOCAL_Y;
    return (block){from[0], from[VECTORS], from[2 * VECTORS], from[3 * VECTORS]};
}

/* Returns the share of 64 work-items in rows [0, length) of a matrix, at most DEPTH, staged as [DEPTH][COLUMNS]: its
 * elements 8 to 15 are those of second_half. If `width` is at most half of COLUMNS, only the first half of each row is
 * staged and there are no such elements. */
static share share_of_rows(__global const float *from, int4 stride, uint length, int width) {
    const uint power = width > COLUMNS / 2 ? 6 : 5; /* of 2: the columns that are staged */
    const bool contiguous = stride.s2 == 1;
    const uint id = get_local_id(0), columns = (uint)max(width, 0), rows = min(length, (uint)DEPTH);
    const uint t = contiguous ? id >> power : id % DEPTH, c = contiguous ? id & ((1u << power) - 1) : id / DEPTH;
    const uint pace = contiguous ? 64 >> power : 64 / DEPTH;
    return (share){from + (int)t * stride.s1 + (int)c * stride.s2,
                   (int)pace * (contiguous ? stride.s1 : stride.s2),
                   pace,
                   contiguous ? left_of(rows, t, c < columns) : left_of(columns, c, t < rows),
                   t * COLUMNS + c,
                   contiguous ? pace * COLUMNS : pace};
}

/* It leaves its argument alone: Mesa's rusticl lets a function change the caller's struct. */
static share second_half(share part) {
    share rest = part;
    rest.from += 8 * part.step;
    rest.left = left_of(part.left, 8 * part.pace, true);
    rest.at += 8 * part.gap;
    return rest;
}

/* Returns sum + sum over t < length of weights [t][row] times row t of `from`, which has `width` columns. It waits at a
 * barrier before it reads the weights, and ends with one. */
static sums add_tile(sums sum, __local const float4 *weights, __global const float *from, int4 stride, uint length,
                     int width, __local float4 *staging) {
    __local const float4 *columns = staging + LOCAL_X;
    const bool wide = width > COLUMNS / 2;
    weights += LOCAL_Y;
    for (uint first = 0; first < length; first += DEPTH) {
        const uint count = min((uint)DEPTH, length - first);
        const share part = share_of_rows(from + (int)first * stride.s1, stride, count, width);
        store_share(load_share(part), (__local float *)staging, part);
        if (wide) {
            const share rest = second_half(part);
            store_share(load_share(rest), (__local float *)staging, rest);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint t = 0; t < count; t++) {
            const float4 weight = weights[(first + t) * VECTORS];
            sum.low = add_outer(sum.low, weight, columns[t * (COLUMNS / 4)]);
            if (wide)
                sum.high = add_outer(sum.high, weight, columns[t * (COLUMNS / 4) + COLUMNS / 8]);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    return sum;
}

static void store_vector(float4 value, __global float *to, int step, int count) {
    if (count > 0)
        to[0] = value.s0;
    if (count > 1)
        to[step] = value.s1;
    if (count > 2)
        to[2 * step] = value.s2;
    if (count > 3)
        to[3 * step] = value.s3;
}

/* Loads the work-item's four rows of the block. `rows` rows and `width` columns exist; none if these are negative. */
static void store_block(block b, __global float *to, int4 stride, int rows, int width) {
    if (rows > 0)
        store_vector(b.v0, to, stride.s2, width);
    if (rows > 1)
        store_vector(b.v1, to + stride.s1, stride.s2, width);
    if (rows > 2)
        store_vector(b.v2, to + 2 * stride.s1, stride.s2, width);
    if (rows > 3)
        store_vector(b.v3, to + 3 * stride.s1, stride.s2, width);
}

/* Stores the work-item's sums as elements of a matrix, of which `rows` rows and `width` columns exist. */
static void store_sums(sums sum, __global float *to, int4 stride, int rows, int width) {
    const int row = (int)(4 * LOCAL_Y), low = (int)(4 * LOCAL_X), high = COLUMNS / 2 + low;
    to += row * stride.s1;
    store_block(sum.low, to + low * stride.s2, stride, rows - row, width - low);
    store_block(sum.high, to + high * stride.s2, stride, rows - row, width - high);
}

/* Returns whether rows attend to source t: begin <= t < begin + window. One comparison of numbers without a sign is
 * both. */
static bool is_seen(int t, int begin, uint window) {
    return (uint)(t - begin) < window;
}
static int4 are_seen(int4 t, int4 begin, uint window) {
    return as_uint4(t - begin) < (uint4)(window);
}

/* Turns a tile of scores, `tile` [t][row], into weights relative to the new maximum; row `row` attends to `window`
 * sources from `begin` on. Two work-items share a row, each with half of the tile, and both hold its *maximum and
 * *total. keep [row] is the factor by which earlier sums are rescaled; halves has 2 TILE numbers. Begins and ends with
 * a barrier. */
static void weigh_tile(__local float *tile, __local float *keep, __local float *halves, int begin, uint window,
                       float *maximum, float *total) {
    const uint row = get_local_id(0) % TILE, first = get_local_id(0) / TILE * (TILE / 2);
    float higher = *maximum, sum = 0.0f;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = first; t < first + TILE / 2; t++)
        if (is_seen((int)t, begin, window))
            higher = fmax(higher, tile[t * STRIDE + row]);
    halves[get_local_id(0)] = higher;
    barrier(CLK_LOCAL_MEM_FENCE);
    higher = fmax(halves[row], halves[TILE + row]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint t = first; t < first + TILE / 2; t++) {
        const float weight = is_seen((int)t, begin, window) ? exp(tile[t * STRIDE + row] - higher) : 0.0f;
        tile[t * STRIDE + row] = weight;
        sum += weight;
    }
    halves[get_local_id(0)] = sum;
    if (first == 0)
        keep[row] = exp(fmax(*maximum - higher, LOWEST));
    barrier(CLK_LOCAL_MEM_FENCE);
    *total = *total * keep[row] + (halves[row] + halves[TILE + row]);
    *maximum = higher;
}

/* Divides row r of the block by divisor r. */
static block divide_rows(block b, float4 divisor) {
    b.v0 /= divisor.s0;
    b.v1 /= divisor.s1;
    b.v2 /= divisor.s2;
    b.v3 /= divisor.s3;
    return b;
}

__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
softmax_forward_tiles(__global float *out, uint out_offset, int4 out_stride, __global float *log_sum_exp,
                      uint lse_offset, int4 lse_stride, __global const float *q, uint q_offset, int4 q_stride,
                      __global const float *k, uint k_offset, int4 k_stride, __global const float *v, uint v_offset,
                      int4 v_stride, uint4 sizes, uint2 heads, uint sources, int shift, uint window, uint blocks,
                      uint2 units, float scale, uint column_blocks) {
    __local float4 staging[STAGING], tile[TILE * VECTORS], keep[TILE / 4];
    __local float halves[2 * TILE];
    __local float *keep_numbers = (__local float *)keep;
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3, id = get_local_id(0);
    FOR_EACH_GROUP(group, units) {
        const uint pair = group / column_blocks, sequence = pair / blocks;
        const uint column = (group - pair * column_blocks) * COLUMNS, first = (pair - sequence * blocks) * TILE;
        const place at = place_of_head(sequence, heads);
        const uint count = min(queries - first, (uint)TILE);
        __global const float *from_q = q + q_offset + start_of_head(q_stride, at) + (int)first * q_stride.s1;
        __global const float *from_k = k + k_offset + start_of_group(k_stride, at);
        __global const float *from_v = v + v_offset + start_of_group(v_stride, at) + (int)column * v_stride.s2;
        __global float *to =
            out + out_offset + start_of_head(out_stride, at) + (int)first * out_stride.s1 + (int)column * out_stride.s2;
        const uint end = min(sources, (uint)max((int)(first + count) + shift, 0));
        const int limit = min((int)(first + id % TILE) + shift + 1, (int)end);
        sums sum = {block_of(0.0f), block_of(0.0f)};
        float maximum = -MAXFLOAT, total = 0.0f;

        for (uint j = first_seen(first, shift, window, end) / TILE * TILE; j < end; j += TILE) {
            const uint length = min((uint)TILE, end - j);
            block scores =
                dot_tile(from_q, q_stride, count, from_k + (int)j * k_stride.s1, k_stride, length, d, staging);
            put_block(tile, scale_rows(scores, (float4)(scale)));
            weigh_tile((__local float *)tile, keep_numbers, halves, limit - (int)(window + j), window, &maximum,
                       &total);
            const float4 factor = keep[LOCAL_Y];
            sum.low = scale_rows(sum.low, factor);
            sum.high = scale_rows(sum.high, factor);
            sum = add_tile(sum, tile, from_v + (int)j * v_stride.s1, v_stride, length, (int)(e - column), staging);
        }
        if (id < count && column == 0) {
            __global float *to_lse = log_sum_exp + lse_offset + start_of_head(lse_stride, at);
            to_lse[(int)(first + id) * lse_stride.s1] =
                as_float(limit > 0 ? as_int(maximum + log(total)) : MINUS_INFINITY_BITS);
        }
        /* A query that attends to nothing has sums of 0. */
        if (id < TILE)
            keep_numbers[id] = limit > 0 ? total : 1.0f;
        barrier(CLK_LOCAL_MEM_FENCE);
        const float4 totals = keep[LOCAL_Y];
        sum.low = divide_rows(sum.low, totals);
        sum.high = divide_rows(sum.high, totals);
        store_sums(sum, to, out_stride, (int)count, (int)(e - column));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* ---- Backward ---- */

/* Returns p_ij of one source and four rows. */
static float4 weight_of(float4 score, float scale, float4 lse, int4 seen) {
    return select((float4)(0.0f), exp(MULTIPLY_ADD((float4)(scale), score, -lse)), seen);
}

/* Returns t_ij; it is 0 for a masked pair (p = 0), even if the other factor is not finite. */
static float4 slope_of(float4 weight, float4 gain, float4 row_term, int4 seen) {
    return select((float4)(0.0f), weight * (gain - row_term), seen);
}

/* Computes d_q, and D for the next kernel as row_terms [batch, heads, queries]. */
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
softmax_backward_queries_tiles(__global float *d_q, uint dq_offset, int4 dq_stride, __global float *row_terms,
                               __global const float *d_out, uint do_offset, int4 do_stride, __global const float *out,
                               uint out_offset, int4 out_stride, __global const float *log_sum_exp, uint lse_offset,
                               int4 lse_stride, __global const float *q, uint q_offset, int4 q_stride,
                               __global const float *k, uint k_offset, int4 k_stride, __global const float *v,
                               uint v_offset, int4 v_stride, uint4 sizes, uint2 heads, uint sources, int shift,
                               uint window, uint blocks, uint2 units, float scale, uint column_blocks) {
    __local float4 staging[STAGING], tile[TILE * VECTORS], row_term[TILE / 4], lse[TILE / 4];
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3, id = get_local_id(0);
    FOR_EACH_GROUP(group, units) {
        const uint pair = group / column_blocks, sequence = pair / blocks;
        const uint column = (group - pair * column_blocks) * COLUMNS, first = (pair - sequence * blocks) * TILE;
        const place at = place_of_head(sequence, heads);
        const uint count = min(queries - first, (uint)TILE);
        __global const float *from_q = q + q_offset + start_of_head(q_stride, at) + (int)first * q_stride.s1;
        __global const float *from_g = d_out + do_offset + start_of_head(do_stride, at) + (int)first * do_stride.s1;
        __global const float *from_k = k + k_offset + start_of_group(k_stride, at);
        __global const float *from_v = v + v_offset + start_of_group(v_stride, at);
        __global float *to =
            d_q + dq_offset + start_of_head(dq_stride, at) + (int)first * dq_stride.s1 + (int)column * dq_stride.s2;
        const uint end = min(sources, (uint)max((int)(first + count) + shift, 0));
        /* The work-item's rows attend to the `window` keys before `limit`. */
        const int4 limit = min((int4)((int)(first + 4 * LOCAL_Y) + shift) + (int4)(1, 2, 3, 4), (int4)((int)end));
        sums sum = {block_of(0.0f), block_of(0.0f)};

        if (id < TILE) {
            const int row = (int)(first + min(id, count - 1));
            __global const float *from_out = out + out_offset + start_of_head(out_stride, at) + row * out_stride.s1;
            float term = 0.0f;
            for (uint c = 0; c < e; c++)
                term += from_g[(row - (int)first) * do_stride.s1 + (int)c * do_stride.s2] *
                        from_out[(int)c * out_stride.s2];
            ((__local float *)row_term)[id] = term;
            ((__local float *)lse)[id] = log_sum_exp[lse_offset + start_of_head(lse_stride, at) + row * lse_stride.s1];
            if (id < count && column == 0)
                row_terms[sequence * queries + first + id] = term;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint j = first_seen(first, shift, window, end); j < end; j += TILE) {
            const uint length = min((uint)TILE, end - j);
            const int4 begin = limit - (int4)((int)(window + j + 4 * LOCAL_X));
            __global const float *k_rows = from_k + (int)j * k_stride.s1;
            block weights = dot_tile(from_q, q_stride, count, k_rows, k_stride, length, d, staging);
            const float4 row_lse = lse[LOCAL_Y], term = row_term[LOCAL_Y];
            weights.v0 = weight_of(weights.v0, scale, row_lse, are_seen((int4)(0), begin, window));
            weights.v1 = weight_of(weights.v1, scale, row_lse, are_seen((int4)(1), begin, window));
            weights.v2 = weight_of(weights.v2, scale, row_lse, are_seen((int4)(2), begin, window));
            weights.v3 = weight_of(weights.v3, scale, row_lse, are_seen((int4)(3), begin, window));
            const block gains =
                dot_tile(from_g, do_stride, count, from_v + (int)j * v_stride.s1, v_stride, length, e, staging);
            weights.v0 = slope_of(weights.v0, gains.v0, term, are_seen((int4)(0), begin, window));
            weights.v1 = slope_of(weights.v1, gains.v1, term, are_seen((int4)(1), begin, window));
            weights.v2 = slope_of(weights.v2, gains.v2, term, are_seen((int4)(2), begin, window));
            weights.v3 = slope_of(weights.v3, gains.v3, term, are_seen((int4)(3), begin, window));
            put_block(tile, weights);
            sum = add_tile(sum, tile, k_rows + (int)column * k_stride.s2, k_stride, length, (int)(d - column), staging);
        }
        const float4 factor = (float4)(scale);
        sum.low = scale_rows(sum.low, factor);
        sum.high = scale_rows(sum.high, factor);
        store_sums(sum, to, dq_stride, (int)count, (int)(d - column));
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* Computes d_k and d_v. Rows are keys, sources are queries. A column block may lie beyond the narrower of the two. */
__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void
softmax_backward_keys_tiles(__global float *d_k, uint dk_offset, int4 dk_stride, __global float *d_v, uint dv_offset,
                            int4 dv_stride, __global const float *row_terms, __global const float *d_out,
                            uint do_offset, int4 do_stride, __global const float *log_sum_exp, uint lse_offset,
                            int4 lse_stride, __global const float *q, uint q_offset, int4 q_stride,
                            __global const float *k, uint k_offset, int4 k_stride, __global const float *v,
                            uint v_offset, int4 v_stride, uint4 sizes, uint2 heads, uint sources, int shift,
                            uint window, uint blocks, uint2 units, float scale, uint column_blocks) {
    __local float4 staging[STAGING], tile[TILE * VECTORS], row_term[TILE / 4], lse[TILE / 4];
    __local int4 begin[TILE / 4]; /* The query sees `window` keys from this one on, counted in the block. */
    const int4 row = (int4)((int)(4 * LOCAL_Y)) + (int4)(0, 1, 2, 3);
    const uint queries = sizes.s0, keys = sizes.s1, d = sizes.s2, e = sizes.s3, id = get_local_id(0);
    FOR_EACH_GROUP(group, units) {
        const uint pair = group / column_blocks, sequence = pair / blocks;
        const uint column = (group - pair * column_blocks) * COLUMNS, first = (pair - sequence * blocks) * TILE;
        place at = place_of_group(sequence, heads);
        const uint count = min(keys - first, (uint)TILE);
        const int k_width = (int)d - (int)column, v_width = (int)e - (int)column; /* one may be negative */
        __global const float *from_k = k + k_offset + start_of_group(k_stride, at) + (int)first * k_stride.s1;
        __global const float *from_v = v + v_offset + start_of_group(v_stride, at) + (int)first * v_stride.s1;
        /* Finds the first query that attends to the block's first key; the range is empty if there is none. */
        const uint start = first < sources ? (uint)max((int)first - shift, 0) : queries;
        const uint last = last_seen(first + count, shift, window, queries);
        sums sum_k = {block_of(0.0f), block_of(0.0f)}, sum_v = sum_k;

        for (uint end = at.head + heads.s1; at.head < end; at.head++) {
            for (uint i = start; i < last; i += TILE) {
                const uint length = min((uint)TILE, last - i);
                __global const float *q_rows = q + q_offset + start_of_head(q_stride, at) + (int)i * q_stride.s1;
                __global const float *g_rows = d_out + do_offset + start_of_head(do_stride, at) + (int)i * do_stride.s1;
                if (id < TILE) {
                    __global const float *from_lse = log_sum_exp + lse_offset + start_of_head(lse_stride, at);
                    ((__local float *)row_term)[id] =
                        id < length ? row_terms[(at.batch * heads.s0 + at.head) * queries + i + id] : 0.0f;
                    ((__local float *)lse)[id] = id < length ? from_lse[(int)(i + id) * lse_stride.s1] : 0.0f;
                    ((__local int *)begin)[id] =
                        (id < length ? min((int)(i + id) + shift + 1, (int)sources) - (int)first : 0) - (int)window;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                block dots = dot_tile(from_k, k_stride, count, q_rows, q_stride, length, d, staging);
                put_block(tile, dots);
                for (uint t = 4 * LOCAL_X; t < 4 * LOCAL_X + 4; t++) {
                    __local float4 *cell = tile + t * VECTORS + LOCAL_Y;
                    const int4 seen = are_seen(row, (int4)(((__local const int *)begin)[t]), window);
                    *cell = weight_of(*cell, scale, (float4)(((__local const float *)lse)[t]), seen);
                }
                sum_v = add_tile(sum_v, tile, g_rows + (int)column * do_stride.s2, do_stride, length, v_width, staging);
                dots = dot_tile(from_v, v_stride, count, g_rows, do_stride, length, e, staging);
                const float4 term = row_term[LOCAL_X];
                const int4 from = begin[LOCAL_X];
                __local float4 *cell = tile + 4 * LOCAL_X * VECTORS + LOCAL_Y;
                cell[0] = slope_of(cell[0], dots.v0, (float4)(term.s0), are_seen(row, (int4)(from.s0), window));
                cell[VECTORS] =
                    slope_of(cell[VECTORS], dots.v1, (float4)(term.s1), are_seen(row, (int4)(from.s1), window));
                cell[2 * VECTORS] =
                    slope_of(cell[2 * VECTORS], dots.v2, (float4)(term.s2), are_seen(row, (int4)(from.s2), window));
                cell[3 * VECTORS] =
                    slope_of(cell[3 * VECTORS], dots.v3, (float4)(term.s3), are_seen(row, (int4)(from.s3), window));
                sum_k = add_tile(sum_k, tile, q_rows + (int)column * q_stride.s2, q_stride, length, k_width, staging);
            }
        }
        const float4 factor = (float4)(scale);
        sum_k.low = scale_rows(sum_k.low, factor);
        sum_k.high = scale_rows(sum_k.high, factor);
        store_sums(sum_k,
                   d_k + dk_offset + start_of_group(dk_stride, at) + (int)first * dk_stride.s1 +
                       (int)column * dk_stride.s2,
                   dk_stride, (int)count, k_width);
        store_sums(sum_v,
                   d_v + dv_offset + start_of_group(dv_stride, at) + (int)first * dv_stride.s1 +
                       (int)column * dv_stride.s2,
                   dv_stride, (int)count, v_width);
    }
}

#endif
