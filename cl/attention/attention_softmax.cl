/*
 * Softmax attention: out_i = sum_j p_ij v_j, p_ij = exp(s_ij - log_sum_exp_i), s_ij = scale q_i . k_j. For CPUs; the
 * kernels for GPUs are in attention_softmax_tiles.cl.
 *
 * Forward: one pass over the keys, TILE at a time, with a running maximum and rescaled sums (Milakov and Gimelshein,
 * "Online normalizer calculation for softmax", 2018). Backward: with D_i = d_out_i . out_i,
 *     d_v_j = sum_i p_ij d_out_i,  t_ij = p_ij (d_out_i . v_j - D_i),
 *     d_q_i = scale sum_j t_ij k_j,  d_k_j = scale sum_i t_ij q_i,
 * in two passes, one that owns queries and one that owns keys, so that no unit adds to the sums of another. p is
 * recomputed; no matrix of queries x keys is ever stored (Dao et al., "FlashAttention", 2022).
 *
 * Masked pairs never meet the arithmetic: no infinity is subtracted from another. A query that attends to nothing gets
 * out = 0, log_sum_exp = -infinity and no gradient. Query i attends to keys j < sources with j <= i + shift, and of
 * these to the last `window` alone; window = queries + keys lets all pass.
 *
 * Index mapping: lanes are queries (keys in the third kernel, which takes the heads that read them in order), VECTORS
 * vectors of them a block; unit = (batch * heads + head) * blocks + block, with groups for heads in the third kernel.
 * All products have one form, add_products: GROUP strided elements of a matrix in memory, each times the vectors of one
 * packed row. Each work-item keeps packed rows of BLOCK lanes in scratch: one for each coordinate of its lanes' vectors
 * and of its sums, one for each key of a tile.
 * Cost for each pair: forward 2 (d + e) flops and an exp; backward 8 d + 6 e flops and two exps. Memory: a block reads
 * the whole of k and v (or q and d_out) from cache: 4 (d + e) bytes for BLOCK pairs.
 *
 * strides: batch, row, column, head. sizes: queries, keys, d, e. heads: see place_of_head.
 */
#include "places.h"

#if LANES > 1

#define VECTORS 2
#define BLOCK   (VECTORS * LANES)
#define TILE    32 /* keys (or queries) that share one rescaling and one pass over the sums */
#if LANES == 16
#define GROUP 8 /* GROUP * VECTORS sums, VECTORS factors and an element fit in the registers: 32 here, 16 otherwise */
#else
#define GROUP 4
#endif

#define MINUS_INFINITY as_float(0xff800000u)

/* ---- Exponential ---- */

#define LOWEST         (-104.0f) /* exp of less rounds to 0 */
#define HIGHEST        71.0f     /* Weights are at most 1 but for rounding; larger ones become infinite. */
#define LN2_HIGH       0x1.62cp-1f
#define LN2_LOW        0x1.217f7ep-12f
#define INVERSE_LN2    0x1.715476p+0f
#define ROUND_CONSTANT 0x1.8p+23f /* adding it leaves the integer in the low mantissa bits */

/* This integer is the same in both forms. It is taken from the bits of the number, because relaxed arithmetic would
 * cancel the constant, and the rounding with it (Intel's compiler does). */
#ifdef __FAST_RELAXED_MATH__
#define ROUNDED(shifted) TO_FLOATS(AS_INTS(shifted) - AS_INTS((floats)(ROUND_CONSTANT)))
#else
#define ROUNDED(shifted) ((shifted) - (floats)(ROUND_CONSTANT))
#endif

/*
 * exp(x) = 2^n exp(r), n = round(x / ln 2), |r| <= ln 2 / 2: r by a two-part ln 2, whose first part times n is exact
 * (Cody and Waite), exp(r) by its Taylor polynomial, whose remainder |r|^8 / 8! is below a tenth of a unit in the last
 * place. 2^(n + 24) is made from its bits and is a normal number for -150 <= n <= 103; the product with 2^-24 rounds
 * once where the result is subnormal. Within 2 ulp. exp(-infinity) = 0; a NaN stays. Where the polynomial's value is of
 * no use, because x is out of range, it is replaced at the end.
 */
static floats exponential(floats x) {
    const floats shifted = MULTIPLY_ADD(x, (floats)(INVERSE_LN2), (floats)(ROUND_CONSTANT));
    const floats n = ROUNDED(shifted);
    const floats r = MULTIPLY_ADD(-n, (floats)(LN2_LOW), MULTIPLY_ADD(-n, (floats)(LN2_HIGH), x));
    floats value = (floats)(1.0f / 5040);
    value = MULTIPLY_ADD(value, r, (floats)(1.0f / 720));
    value = MULTIPLY_ADD(value, r, (floats)(1.0f / 120));
    value = MULTIPLY_ADD(value, r, (floats)(1.0f / 24));
    value = MULTIPLY_ADD(value, r, (floats)(1.0f / 6));
    value = MULTIPLY_ADD(value, r, (floats)(0.5f));
    value = MULTIPLY_ADD(value, r, (floats)(1.0f));
    value = MULTIPLY_ADD(value, r, (floats)(1.0f));
    value = value * AS_FLOATS((AS_UINTS(shifted) << 23) + (uints)((24 + 127) << 23)) * (floats)(0x1p-24f);
    value = select(value, (floats)(0.0f), x < (floats)(LOWEST));
    return select(value, (floats)(INFINITY), x > (floats)(HIGHEST));
}

/* ---- Products ---- */

/* A row of scratch is VECTORS vectors and aligned: a vstore to an unaligned place is done in pieces, and a load of what
 * was just stored in pieces has to wait. */

/* sum[g][v] += sum over i < count, in order, of from[i * step + at[g]] * x[i][v] */
static void add_products(floats sum[GROUP][VECTORS], __global const float *from, int step, const int at[GROUP],
                         __global const floats *x, uint count) {
    for (uint i = 0; i < count; i++) {
        const floats x0 = x[0], x1 = x[1];
#pragma unroll
        for (uint g = 0; g < GROUP; g++) {
            const floats element = (floats)(from[at[g]]);
            sum[g][0] = MULTIPLY_ADD(element, x0, sum[g][0]);
            sum[g][1] = MULTIPLY_ADD(element, x1, sum[g][1]);
        }
        from += step;
        x += VECTORS;
    }
}

/* Sets tile [length] to the dot products of `length` > 0 rows of a matrix with the lanes' vectors, which are packed as
 * x [width]. It writes up to a multiple of GROUP. */
static void multiply_tile(__global floats *tile, __global const float *from, int row_stride, int column_stride,
                          uint length, uint width, __global const floats *x) {
    for (uint t = 0; t < length; t += GROUP) {
        floats sum[GROUP][VECTORS];
        int at[GROUP];
#pragma unroll
        for (uint g = 0; g < GROUP; g++) {
            at[g] = (int)min(t + g, length - 1) * row_stride;
            sum[g][0] = (floats)(0.0f);
            sum[g][1] = (floats)(0.0f);
        }
        add_products(sum, from, column_stride, at, x, width);
#pragma unroll
        for (uint g = 0; g < GROUP; g++) {
            tile[(t + g) * VECTORS] = sum[g][0];
            tile[(t + g) * VECTORS + 1] = sum[g][1];
        }
    }
}

/* Sets sums [width] to keep * sums + sum over t < length of weights [t] times row t of a matrix of `width` columns. It
 * touches sums up to a multiple of GROUP. */
static void add_tile(__global floats *sums, floats keep0, floats keep1, __global const float *from, int row_stride,
                     int column_stride, uint length, uint width, __global const floats *weights) {
    for (uint c = 0; c < width; c += GROUP) {
        __global floats *to = sums + c * VECTORS;
        floats sum[GROUP][VECTORS];
        int at[GROUP];
#pragma unroll
        for (uint g = 0; g < GROUP; g++) {
            at[g] = (int)min(c + g, width - 1) * column_stride;
            sum[g][0] = keep0 * to[g * VECTORS];
            sum[g][1] = keep1 * to[g * VECTORS + 1];
        }
        add_products(sum, from, row_stride, at, weights, length);
#pragma unroll
        for (uint g = 0; g < GROUP; g++) {
            to[g * VECTORS] = sum[g][0];
            to[g * VECTORS + 1] = sum[g][1];
        }
    }
}

/* ---- Lanes ---- */

static uint padded(uint width) {
    return (width + GROUP - 1) / GROUP * GROUP;
}

/* Returns how many of `width` coordinates lie in squares, which are transposed in registers. */
static uint in_squares(uint width, int column_stride) {
    return column_stride == 1 ? width / LANES * LANES : 0;
}

/* Loads `count` rows of a matrix as lanes of to [width]; lanes beyond repeat the last row. */
static void pack_lanes(__global floats *to, __global const float *from, int row_stride, int column_stride, uint count,
                       uint width) {
    const uint squares = in_squares(width, column_stride), whole = count / LANES;
    for (uint n = 0; n < whole; n++)
        for (uint c = 0; c < squares; c += LANES) {
            floats x[LANES];
            UNROLL for (uint l = 0; l < LANES; l++) x[l] =
                LOAD_ANYWHERE(from + (int)(n * LANES + l) * row_stride + (int)c);
            transpose(x);
            UNROLL for (uint i = 0; i < LANES; i++) to[(c + i) * VECTORS + n] = x[i];
        }
    for (uint l = 0; l < BLOCK; l++) {
        __global const float *row = from + (int)min(l, count - 1) * row_stride;
        __global float *lane = (__global float *)to + l;
        for (uint c = l < whole * LANES ? squares : 0; c < width; c++)
            lane[c * BLOCK] = row[(int)c * column_stride];
    }
}

static void clear_lanes(__global floats *to, uint width) {
    for (uint c = 0; c < width * VECTORS; c++)
        to[c] = (floats)(0.0f);
}

/* Stores alpha times lane l of from [width] as row l of a matrix, for l < count. */
static void store_lanes(__global const floats *from, float alpha, __global float *to, int row_stride, int column_stride,
                        uint count, uint width) {
    for (uint n = 0; n * LANES < count; n++) {
        __global float *rows = to + (int)(n * LANES) * row_stride;
        const uint left = count - n * LANES, squares = left >= LANES ? in_squares(width, column_stride) : 0;
        for (uint c = 0; c < squares; c += LANES) {
            floats x[LANES];
            UNROLL for (uint i = 0; i < LANES; i++) x[i] = alpha * from[(c + i) * VECTORS + n];
            transpose(x);
            UNROLL for (uint l = 0; l < LANES; l++) STORE_ANYWHERE(x[l], rows + (int)l * row_stride + (int)c);
        }
        for (uint c = squares; c < width; c++)
            store_run(alpha * from[c * VECTORS + n], rows + (int)c * column_stride, row_stride, left);
    }
}

/* ---- Masks ---- */

/* Returns whether lanes attend to key j (or are attended to by it): begin <= j < begin + window. One comparison of
 * numbers without a sign is both. */
static ints is_seen(int j, ints begin, uint window) {
    return AS_UINTS((ints)(j)-begin) < (uints)(window);
}

/* ---- Forward ---- */

/* Turns the scores of one vector of queries and a tile of keys into weights relative to the new maximum. Lane l attends
 * to `window` keys from `begin` on, counted in the tile. Returns the factor by which earlier sums are rescaled. */
static floats weigh_tile(__global floats *tile, uint length, ints begin, uint window, float scale, floats *maximum,
                         floats *total) {
    floats higher = *maximum, sum;
    for (uint t = 0; t < length; t++) {
        const floats score = scale * tile[t * VECTORS];
        tile[t * VECTORS] = score;
        higher = select(higher, score, (score > higher) & is_seen((int)t, begin, window));
    }
    const floats keep = exponential(*maximum - higher);
    sum = keep * *total;
    for (uint t = 0; t < length; t++) {
        const floats weight =
            select((floats)(0.0f), exponential(tile[t * VECTORS] - higher), is_seen((int)t, begin, window));
        tile[t * VECTORS] = weight;
        sum += weight;
    }
    *maximum = higher;
    *total = sum;
    return keep;
}

/* Computes out and log_sum_exp. Rows of scratch: d for q, e (padded) for sums, TILE for weights. */
__kernel void softmax_forward_lanes(__global float *out, uint out_offset, int4 out_stride, __global float *log_sum_exp,
                                    uint lse_offset, int4 lse_stride, __global const float *q, uint q_offset,
                                    int4 q_stride, __global const float *k, uint k_offset, int4 k_stride,
                                    __global const float *v, uint v_offset, int4 v_stride, uint4 sizes, uint2 heads,
                                    uint sources, int shift, uint window, uint blocks, uint2 units, float scale,
                                    __global floats *scratch, uint scratch_rows) {
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3;
    __global floats *packed_q = scratch + get_global_id(0) * scratch_rows * VECTORS;
    __global floats *sums = packed_q + d * VECTORS, *tile = sums + padded(e) * VECTORS;
    FOR_EACH_UNIT(units) {
        const uint sequence = unit / blocks, first = (unit - sequence * blocks) * BLOCK;
        const place at = place_of_head(sequence, heads);
        const uint count = min(queries - first, (uint)BLOCK);
        __global const float *from_k = k + k_offset + start_of_group(k_stride, at);
        __global const float *from_v = v + v_offset + start_of_group(v_stride, at);
        __global float *to_lse = log_sum_exp + lse_offset + start_of_head(lse_stride, at) + (int)first * lse_stride.s1;
        const uint end = min(sources, (uint)max((int)(first + count) + shift, 0));
        floats maximum[VECTORS], total[VECTORS], keep[VECTORS];
        ints limit[VECTORS]; /* lane l attends to `window` keys before this one */

        pack_lanes(packed_q, q + q_offset + start_of_head(q_stride, at) + (int)first * q_stride.s1, q_stride.s1,
                   q_stride.s2, count, d);
        clear_lanes(sums, padded(e));
        for (uint n = 0; n < VECTORS; n++) {
            maximum[n] = (floats)(-MAXFLOAT);
            total[n] = (floats)(0.0f);
            limit[n] = min(AS_INTS(LANE_NUMBERS) + (int)(first + n * LANES) + shift + 1, (ints)((int)end));
        }
        for (uint j = first_seen(first, shift, window, end) / TILE * TILE; j < end; j += TILE) {
            const uint length = min((uint)TILE, end - j);
            multiply_tile(tile, from_k + (int)j * k_stride.s1, k_stride.s1, k_stride.s2, length, d, packed_q);
            for (uint n = 0; n < VECTORS; n++)
                keep[n] =
                    weigh_tile(tile + n, length, limit[n] - (int)(window + j), window, scale, &maximum[n], &total[n]);
            add_tile(sums, keep[0], keep[1], from_v + (int)j * v_stride.s1, v_stride.s1, v_stride.s2, length, e, tile);
        }
        for (uint n = 0; n * LANES < count; n++) {
            const ints any = limit[n] > (ints)(0);
            for (uint i = n; i < e * VECTORS; i += VECTORS)
                sums[i] = select((floats)(0.0f), sums[i] / total[n], any);
            store_run(select((floats)(MINUS_INFINITY), maximum[n] + log(total[n]), any),
                      to_lse + (int)(n * LANES) * lse_stride.s1, lse_stride.s1, count - n * LANES);
        }
        store_lanes(sums, 1.0f, out + out_offset + start_of_head(out_stride, at) + (int)first * out_stride.s1,
                    out_stride.s1, out_stride.s2, count, e);
    }
}

/* ---- Backward ---- */

/* Returns the dot products of min(left, LANES) > 0 rows of two matrices, each a sum in order. Strides: of rows, of
 * columns. */
static floats dot_rows(__global const float *x, int2 x_stride, __global const float *y, int2 y_stride, uint left,
                       uint width) {
    const uint squares = left >= LANES && x_stride.s1 == 1 ? in_squares(width, y_stride.s1) : 0;
    floats sum = (floats)(0.0f);
    for (uint c = 0; c < squares; c += LANES) {
        floats product[LANES];
        UNROLL for (uint l = 0; l < LANES; l++) product[l] =
            LOAD_ANYWHERE(x + (int)l * x_stride.s0 + (int)c) * LOAD_ANYWHERE(y + (int)l * y_stride.s0 + (int)c);
        transpose(product);
        UNROLL for (uint i = 0; i < LANES; i++) sum += product[i];
    }
    for (uint c = squares; c < width; c++)
        sum += load_run(x + (int)c * x_stride.s1, x_stride.s0, left) *
               load_run(y + (int)c * y_stride.s1, y_stride.s0, left);
    return sum;
}

/* Computes d_q, and D for the next kernel as row_terms [batch, heads, queries]. Rows of scratch: d for q, e for d_out,
 * d (padded) for d_q, and 2 TILE. */
__kernel void softmax_backward_queries_lanes(__global float *d_q, uint dq_offset, int4 dq_stride,
                                             __global float *row_terms, __global const float *d_out, uint do_offset,
                                             int4 do_stride, __global const float *out, uint out_offset,
                                             int4 out_stride, __global const float *log_sum_exp, uint lse_offset,
                                             int4 lse_stride, __global const float *q, uint q_offset, int4 q_stride,
                                             __global const float *k, uint k_offset, int4 k_stride,
                                             __global const float *v, uint v_offset, int4 v_stride, uint4 sizes,
                                             uint2 heads, uint sources, int shift, uint window, uint blocks,
                                             uint2 units, float scale, __global floats *scratch, uint scratch_rows) {
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3;
    __global floats *packed_q = scratch + get_global_id(0) * scratch_rows * VECTORS;
    __global floats *packed_g = packed_q + d * VECTORS, *sums = packed_g + e * VECTORS;
    __global floats *tile = sums + padded(d) * VECTORS, *gains = tile + TILE * VECTORS;
    FOR_EACH_UNIT(units) {
        const uint sequence = unit / blocks, first = (unit - sequence * blocks) * BLOCK;
        const place at = place_of_head(sequence, heads);
        const uint count = min(queries - first, (uint)BLOCK);
        __global const float *from_k = k + k_offset + start_of_group(k_stride, at);
        __global const float *from_v = v + v_offset + start_of_group(v_stride, at);
        const uint end = min(sources, (uint)max((int)(first + count) + shift, 0));
        floats lse[VECTORS], row_term[VECTORS];
        ints limit[VECTORS];

        pack_lanes(packed_q, q + q_offset + start_of_head(q_stride, at) + (int)first * q_stride.s1, q_stride.s1,
                   q_stride.s2, count, d);
        pack_lanes(packed_g, d_out + do_offset + start_of_head(do_stride, at) + (int)first * do_stride.s1, do_stride.s1,
                   do_stride.s2, count, e);
        clear_lanes(sums, padded(d));
        for (uint n = 0; n < VECTORS; n++) {
            const uint row = first + n * LANES, left = count > n * LANES ? count - n * LANES : 0;
            limit[n] = min(AS_INTS(LANE_NUMBERS) + (int)row + shift + 1, (ints)((int)end));
            lse[n] = row_term[n] = (floats)(0.0f);
            if (left > 0) {
                row_term[n] =
                    dot_rows(d_out + do_offset + start_of_head(do_stride, at) + (int)row * do_stride.s1, do_stride.s12,
                             out + out_offset + start_of_head(out_stride, at) + (int)row * out_stride.s1,
                             out_stride.s12, left, e);
                lse[n] = load_run(log_sum_exp + lse_offset + start_of_head(lse_stride, at) + (int)row * lse_stride.s1,
                                  lse_stride.s1, left);
                store_run(row_term[n], row_terms + sequence * queries + row, 1, left);
            }
        }
        for (uint j = first_seen(first, shift, window, end); j < end; j += TILE) {
            const uint length = min((uint)TILE, end - j);
            __global const float *k_rows = from_k + (int)j * k_stride.s1;
            multiply_tile(tile, k_rows, k_stride.s1, k_stride.s2, length, d, packed_q);
            multiply_tile(gains, from_v + (int)j * v_stride.s1, v_stride.s1, v_stride.s2, length, e, packed_g);
            for (uint t = 0; t < length; t++)
                for (uint n = 0; n < VECTORS; n++) {
                    __global floats *score = tile + t * VECTORS + n;
                    const floats p = exponential(MULTIPLY_ADD((floats)(scale), *score, -lse[n]));
                    const floats slope = p * (gains[t * VECTORS + n] - row_term[n]);
                    *score = select((floats)(0.0f), slope, is_seen((int)(j + t), limit[n] - (int)window, window));
                }
            add_tile(sums, (floats)(1.0f), (floats)(1.0f), k_rows, k_stride.s1, k_stride.s2, length, d, tile);
        }
        store_lanes(sums, scale, d_q + dq_offset + start_of_head(dq_stride, at) + (int)first * dq_stride.s1,
                    dq_stride.s1, dq_stride.s2, count, d);
    }
}

/* The operands of the gradient of one sequence of keys. Strides: of rows, of columns. sums_q: NULL, or where d_q /
 * scale is added up, in bands of BLOCK coordinates; rows_kept: the rows of a band. */
typedef struct key_pass {
    __global const float *k, *v;
    __global float *d_k, *d_v;
    int2 k_stride, v_stride, dk_stride, dv_stride;
    __global floats *packed_k, *packed_v, *sums_k, *sums_v, *weights, *slopes, *key_rows, *sums_q;
    uint rows_kept;
} key_pass;

/* One head of queries that reads these keys; terms: D of its queries. */
typedef struct query_head {
    __global const float *q, *d_out, *lse, *terms;
    int2 q_stride, do_stride;
    int lse_step;
    uint first_kept; /* its first row in a band of sums_q */
} query_head;

/* Lays the packed rows out from `at` on. Returns their end. */
static __global floats *lay_out(key_pass *pass, __global floats *at, uint d, uint e) {
    pass->packed_k = at;
    pass->packed_v = pass->packed_k + d * VECTORS;
    pass->sums_k = pass->packed_v + e * VECTORS;
    pass->sums_v = pass->sums_k + padded(d) * VECTORS;
    pass->weights = pass->sums_v + padded(e) * VECTORS;
    pass->slopes = pass->weights + TILE * VECTORS;
    return pass->slopes + TILE * VECTORS;
}

/* Copies `count` keys to key_rows, with coordinates as lanes; zeros fill up the bands. */
static void pack_key_rows(__global floats *to, __global const float *k, int2 stride, uint count, uint d) {
    for (uint c = 0; c < d; c += BLOCK)
        for (uint j = 0; j < BLOCK; j++, to += VECTORS)
            for (uint n = 0; n < VECTORS; n++) {
                const uint at = c + n * LANES;
                to[n] = j < count && at < d ? load_run(k + (int)j * stride.s0 + (int)at * stride.s1, stride.s1, d - at)
                                            : (floats)(0.0f);
            }
}

/* Turns scores into weights, and d_out . v into slopes, of the queries from i on. */
static void weigh_keys(const key_pass *pass, const query_head *head, uint i, uint length, const ints *key,
                       const ints *attended, int shift, uint window, float scale) {
    for (uint t = 0; t < length; t++) {
        const int row = (int)(i + t);
        const float lse = head->lse[row * head->lse_step], row_term = head->terms[row];
        for (uint n = 0; n < VECTORS; n++) {
            __global floats *weight = pass->weights + t * VECTORS + n;
            __global floats *slope = pass->slopes + t * VECTORS + n;
            const ints seen = attended[n] & is_seen(row + shift, key[n], window);
            const floats p = exponential(MULTIPLY_ADD((floats)(scale), *weight, (floats)(-lse)));
            const floats t_ij = p * (*slope - row_term);
            *weight = select((floats)(0.0f), p, seen);
            *slope = select((floats)(0.0f), t_ij, seen);
        }
    }
}

/* Adds the terms of one head to the sums of the `count` keys from `first` on, and to sums_q if it is there. */
static void pass_head(const key_pass *pass, const query_head *head, uint first, uint count, uint4 sizes, uint sources,
                      int shift, uint window, float scale) {
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3;
    /* Finds the first query that attends to the block's first key; the range is empty if there is none. */
    const uint start = first < sources ? (uint)max((int)first - shift, 0) : queries;
    /* Groups of queries are whole, because the products for sums_q add something to all rows of a group. */
    const uint behind = last_seen(first + count, shift, window, queries);
    const uint last = start < behind ? min(start + padded(behind - start), queries) : start;
    const floats one = (floats)(1.0f);
    ints key[VECTORS], attended[VECTORS];

    for (uint n = 0; n < VECTORS; n++) {
        key[n] = AS_INTS(LANE_NUMBERS) + (int)(first + n * LANES);
        attended[n] = key[n] < (ints)((int)sources);
    }
    for (uint i = start; i < last; i += TILE) {
        const uint length = min((uint)TILE, last - i);
        __global const float *q = head->q + (int)i * head->q_stride.s0;
        __global const float *g = head->d_out + (int)i * head->do_stride.s0;
        multiply_tile(pass->weights, q, head->q_stride.s0, head->q_stride.s1, length, d, pass->packed_k);
        multiply_tile(pass->slopes, g, head->do_stride.s0, head->do_stride.s1, length, e, pass->packed_v);
        weigh_keys(pass, head, i, length, key, attended, shift, window, scale);
        add_tile(pass->sums_v, one, one, g, head->do_stride.s0, head->do_stride.s1, length, e, pass->weights);
        add_tile(pass->sums_k, one, one, q, head->q_stride.s0, head->q_stride.s1, length, d, pass->slopes);
        if (!pass->sums_q)
            continue;
        /* These queries see keys of the block from `begin` on; the loop's bounds leave one at least. */
        const uint begin = max(first_seen(i, shift, window, sources), first) - first;
        const uint seen = (uint)clamp((int)(i + length) + shift - (int)first, 0, (int)count) - begin;
        for (uint band = 0; band * BLOCK < d; band++)
            add_tile(pass->sums_q + (band * pass->rows_kept + head->first_kept + i) * VECTORS, one, one,
                     (__global const float *)pass->slopes + begin, 1, BLOCK, seen, length,
                     pass->key_rows + (band * BLOCK + begin) * VECTORS);
    }
}

static void start_keys(const key_pass *pass, uint first, uint count, uint d, uint e) {
    __global const float *k = pass->k + (int)first * pass->k_stride.s0;
    pack_lanes(pass->packed_k, k, pass->k_stride.s0, pass->k_stride.s1, count, d);
    pack_lanes(pass->packed_v, pass->v + (int)first * pass->v_stride.s0, pass->v_stride.s0, pass->v_stride.s1, count,
               e);
    clear_lanes(pass->sums_k, padded(d) + padded(e));
    if (pass->sums_q)
        pack_key_rows(pass->key_rows, k, pass->k_stride, count, d);
}

static void store_keys(const key_pass *pass, uint first, uint count, uint d, uint e, float scale) {
    store_lanes(pass->sums_k, scale, pass->d_k + (int)first * pass->dk_stride.s0, pass->dk_stride.s0,
                pass->dk_stride.s1, count, d);
    store_lanes(pass->sums_v, 1.0f, pass->d_v + (int)first * pass->dv_stride.s0, pass->dv_stride.s0, pass->dv_stride.s1,
                count, e);
}

#define KEY_PASS                                                                                                       \
    {                                                                                                                  \
        .k = k + k_offset + start_of_group(k_stride, at), .v = v + v_offset + start_of_group(v_stride, at),            \
        .d_k = d_k + dk_offset + start_of_group(dk_stride, at),                                                        \
        .d_v = d_v + dv_offset + start_of_group(dv_stride, at), .k_stride = k_stride.s12, .v_stride = v_stride.s12,    \
        .dk_stride = dk_stride.s12, .dv_stride = dv_stride.s12, .key_rows = 0, .sums_q = 0                             \
    }
#define QUERY_HEAD(kept)                                                                                               \
    {                                                                                                                  \
        q + q_offset + start_of_head(q_stride, at), d_out + do_offset + start_of_head(do_stride, at),                  \
            log_sum_exp + lse_offset + start_of_head(lse_stride, at),                                                  \
            row_terms + (at.batch * heads.s0 + at.head) * queries, q_stride.s12, do_stride.s12, lse_stride.s1, kept    \
    }

/* Computes d_k and d_v. Lanes are keys. Rows of scratch: d for k, e for v, d and e (padded) for d_k and d_v, and 2
 * TILE. */
__kernel void softmax_backward_keys_lanes(__global float *d_k, uint dk_offset, int4 dk_stride, __global float *d_v,
                                          uint dv_offset, int4 dv_stride, __global const float *row_terms,
                                          __global const float *d_out, uint do_offset, int4 do_stride,
                                          __global const float *log_sum_exp, uint lse_offset, int4 lse_stride,
                                          __global const float *q, uint q_offset, int4 q_stride,
                                          __global const float *k, uint k_offset, int4 k_stride,
                                          __global const float *v, uint v_offset, int4 v_stride, uint4 sizes,
                                          uint2 heads, uint sources, int shift, uint window, uint blocks, uint2 units,
                                          float scale, __global floats *scratch, uint scratch_rows) {
    const uint queries = sizes.s0, keys = sizes.s1, d = sizes.s2, e = sizes.s3;
    FOR_EACH_UNIT(units) {
        const uint sequence = unit / blocks, first = (unit - sequence * blocks) * BLOCK;
        const uint count = min(keys - first, (uint)BLOCK);
        place at = place_of_group(sequence, heads);
        key_pass pass = KEY_PASS;
        lay_out(&pass, scratch + get_global_id(0) * scratch_rows * VECTORS, d, e);
        start_keys(&pass, first, count, d, e);
        for (uint end = at.head + heads.s1; at.head < end; at.head++) {
            const query_head head = QUERY_HEAD(0);
            pass_head(&pass, &head, first, count, sizes, sources, shift, window, scale);
        }
        store_keys(&pass, first, count, d, e, scale);
    }
}

/*
 * Computes all gradients in one pass where there are sequences for every processor: d_q is added up while the keys of
 * its weights are at hand, with coordinates as lanes, so that scores and exponentials are computed once: 6 d + 4 e
 * flops a pair and one exponential. Bits are those of the two passes. A unit is a sequence of keys with the heads that
 * read it; `blocks` is 1. Rows of scratch: as above, then for each band of BLOCK coordinates of d BLOCK for keys, and
 * queries + GROUP for each head.
 */
__kernel void softmax_backward_sequences_lanes(__global float *d_q, uint dq_offset, int4 dq_stride, __global float *d_k,
                                               uint dk_offset, int4 dk_stride, __global float *d_v, uint dv_offset,
                                               int4 dv_stride, __global float *row_terms, __global const float *d_out,
                                               uint do_offset, int4 do_stride, __global const float *out,
                                               uint out_offset, int4 out_stride, __global const float *log_sum_exp,
                                               uint lse_offset, int4 lse_stride, __global const float *q, uint q_offset,
                                               int4 q_stride, __global const float *k, uint k_offset, int4 k_stride,
                                               __global const float *v, uint v_offset, int4 v_stride, uint4 sizes,
                                               uint2 heads, uint sources, int shift, uint window, uint blocks,
                                               uint2 units, float scale, __global floats *scratch, uint scratch_rows) {
    const uint queries = sizes.s0, keys = sizes.s1, d = sizes.s2, e = sizes.s3;
    const uint bands = (d + BLOCK - 1) / BLOCK, kept = queries + GROUP;
    FOR_EACH_UNIT(units) {
        place at = place_of_group(unit, heads);
        const uint first_head = at.head, end_head = first_head + heads.s1;
        key_pass pass = KEY_PASS;
        pass.key_rows = lay_out(&pass, scratch + get_global_id(0) * scratch_rows * VECTORS, d, e);
        pass.sums_q = pass.key_rows + bands * BLOCK * VECTORS;
        pass.rows_kept = heads.s1 * kept;
        clear_lanes(pass.sums_q, bands * pass.rows_kept);
        for (; at.head < end_head; at.head++)
            for (uint i = 0; i < queries; i += LANES)
                store_run(dot_rows(d_out + do_offset + start_of_head(do_stride, at) + (int)i * do_stride.s1,
                                   do_stride.s12,
                                   out + out_offset + start_of_head(out_stride, at) + (int)i * out_stride.s1,
                                   out_stride.s12, queries - i, e),
                          row_terms + (at.batch * heads.s0 + at.head) * queries + i, 1, queries - i);
        for (uint first = 0; first < keys; first += BLOCK) {
            const uint count = min(keys - first, (uint)BLOCK);
            start_keys(&pass, first, count, d, e);
            for (at.head = first_head; at.head < end_head; at.head++) {
                const query_head head = QUERY_HEAD((at.head - first_head) * kept);
                pass_head(&pass, &head, first, count, sizes, sources, shift, window, scale);
            }
            store_keys(&pass, first, count, d, e, scale);
        }
        for (at.head = first_head; at.head < end_head; at.head++)
            for (uint i = 0; i < queries; i++)
                for (uint c = 0; c < d; c += LANES)
                    store_run(
                        scale * pass.sums_q[(c / BLOCK * pass.rows_kept + (at.head - first_head) * kept + i) * VECTORS +
                                            c % BLOCK / LANES],
                        d_q + dq_offset + start_of_head(dq_stride, at) + (int)i * dq_stride.s1 + (int)c * dq_stride.s2,
                        dq_stride.s2, d - c);
    }
}

#endif
