/*
 * Softmax attention: out_i = sum_j p_ij v_j, p_ij = exp(s_ij - log_sum_exp_i), s_ij = scale q_i . k_j.
 *
 * Forward: one pass over the keys with a running maximum and rescaled sums (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", 2018), TILE keys at a time. Backward: with D_i = d_out_i . out_i,
 *     d_v_j = sum_i p_ij d_out_i,  r_ij = scale p_ij (d_out_i . v_j - D_i),  d_q_i = sum_j r_ij k_j,  d_k_j = sum_i r_ij q_i,
 * in two passes, one that owns queries and one that owns keys, so that nobody adds into another's sums. p is recomputed; no
 * matrix of queries x keys is ever stored.
 *
 * Masked pairs never meet the arithmetic: no infinity is subtracted from another. A query that attends to nothing gets
 * out = 0, log_sum_exp = -infinity and no gradient. Query i attends to keys j < sources with j <= i + shift.
 *
 * Index mapping: lanes are queries (or keys, in the third kernel); unit = batch * blocks + block of LANES of them.
 * Each work-item keeps its lanes' vectors in scratch, one row of lanes for each coordinate; on GPUs the rows of
 * neighbouring work-items lie side by side. Cost for each pair: forward 2 (d + e) flops and an exp; backward 8 d + 6 e
 * flops and two exps.
 *
 * strides: batch, row, column, unused. sizes: queries, keys, d, e.
 */
#include "common.h"

#define TILE 8 /* keys (or queries) that share one rescaling and one pass over the sums */

#if LANES == 1
#define SCRATCH(r) (scratch + (r)*get_global_size(0) + get_global_id(0))
#else
#define SCRATCH(r) (scratch + ((get_global_id(0) * scratch_rows) + (r)) * LANES)
#endif

#define MINUS_INFINITY as_float(0xff800000u)

/* Lane l of scratch row first + c := row[l][c] for `width` coordinates c and `count` lanes; the lanes beyond repeat the last. */
#define PACK_LANES(first, from, row_stride, column_stride, count, width)                                     \
    for (uint c_ = 0; c_ < (width); c_++)                                                                    \
        for (uint l_ = 0; l_ < LANES; l_++)                                                                  \
    SCRATCH((first) + c_)[l_] = (from)[(int)min(l_, (count)-1) * (row_stride) + (int)c_ * (column_stride)]

/* The dot products of the lanes' vectors, packed from scratch row `first`, with one vector in global memory. */
#define DOT_LANES(sum, first, vector, stride, width)                                                         \
    floats sum = (floats)(0.0f);                                                                             \
    for (uint c_ = 0; c_ < (width); c_++)                                                                    \
    sum += (vector)[(int)c_ * (stride)] * LOAD_LANES(SCRATCH((first) + c_))

__kernel void softmax_forward(__global float *out, uint out_offset, int4 out_stride,
                              __global float *log_sum_exp, uint lse_offset, int4 lse_stride,
                              __global const float *q, uint q_offset, int4 q_stride, __global const float *k,
                              uint k_offset, int4 k_stride, __global const float *v, uint v_offset,
                              int4 v_stride, uint4 sizes, uint sources, int shift, uint blocks, uint units,
                              float scale, __global float *scratch, uint scratch_rows) {
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3;
    for (uint unit = get_global_id(0); unit < units; unit += get_global_size(0)) {
        const uint batch = unit / blocks, first = (unit - batch * blocks) * LANES;
        const uint count = min(queries - first, (uint)LANES);
        __global const float *from_q = q + q_offset + (int)batch * q_stride.s0 + (int)first * q_stride.s1;
        __global const float *from_k = k + k_offset + (int)batch * k_stride.s0;
        __global const float *from_v = v + v_offset + (int)batch * v_stride.s0;
        /* Lane l attends to keys below limit. */
        const ints limit = AS_INTS(LANE_NUMBERS) + (int)first + shift + 1;
        const uint end = min(sources, (uint)max((int)(first + count) + shift, 0));
        floats maximum = (floats)(-MAXFLOAT), total = (floats)(0.0f);

        PACK_LANES(0, from_q, q_stride.s1, q_stride.s2, count, d);
        for (uint c = 0; c < e; c++)
            STORE_LANES((floats)(0.0f), SCRATCH(d + c));
        for (uint j = 0; j < end; j += TILE) {
            const uint length = min((uint)TILE, end - j);
            floats weight[TILE], higher = maximum;
            for (uint t = 0; t < length; t++) {
                DOT_LANES(dot, 0, from_k + (int)(j + t) * k_stride.s1, k_stride.s2, d);
                weight[t] = scale * dot;
                higher = select(higher, fmax(higher, weight[t]), limit > (ints)((int)(j + t)));
            }
            const floats rescale = exp(maximum - higher);
            maximum = higher;
            total *= rescale;
            for (uint t = 0; t < length; t++) {
                weight[t] = select((floats)(0.0f), exp(weight[t] - maximum), limit > (ints)((int)(j + t)));
                total += weight[t];
            }
            for (uint c = 0; c < e; c++) {
                __global const float *column = from_v + (int)c * v_stride.s2;
                floats sum = LOAD_LANES(SCRATCH(d + c)) * rescale;
                for (uint t = 0; t < length; t++)
                    sum += column[(int)(j + t) * v_stride.s1] * weight[t];
                STORE_LANES(sum, SCRATCH(d + c));
            }
        }
        const ints any = (limit > (ints)(0)) & (ints)(sources > 0 ? -1 : 0);
        __global float *to = out + out_offset + (int)batch * out_stride.s0 + (int)first * out_stride.s1;
        for (uint c = 0; c < e; c++)
            store_run(select((floats)(0.0f), LOAD_LANES(SCRATCH(d + c)) / total, any),
                      to + (int)c * out_stride.s2, out_stride.s1, count);
        store_run(select((floats)(MINUS_INFINITY), maximum + log(total), any),
                  log_sum_exp + lse_offset + (int)batch * lse_stride.s0 + (int)first * lse_stride.s1,
                  lse_stride.s1, count);
    }
}

/* d_q, and D for the next kernel: row_terms [batch, queries]. Scratch rows: d of q, e of d_out, d of d_q. */
__kernel void softmax_backward_queries(__global float *d_q, uint dq_offset, int4 dq_stride,
                                       __global float *row_terms, __global const float *d_out, uint do_offset,
                                       int4 do_stride, __global const float *out, uint out_offset,
                                       int4 out_stride, __global const float *log_sum_exp, uint lse_offset,
                                       int4 lse_stride, __global const float *q, uint q_offset, int4 q_stride,
                                       __global const float *k, uint k_offset, int4 k_stride,
                                       __global const float *v, uint v_offset, int4 v_stride, uint4 sizes,
                                       uint sources, int shift, uint blocks, uint units, float scale,
                                       __global float *scratch, uint scratch_rows) {
    const uint queries = sizes.s0, d = sizes.s2, e = sizes.s3;
    for (uint unit = get_global_id(0); unit < units; unit += get_global_size(0)) {
        const uint batch = unit / blocks, first = (unit - batch * blocks) * LANES;
        const uint count = min(queries - first, (uint)LANES);
        __global const float *from_q = q + q_offset + (int)batch * q_stride.s0 + (int)first * q_stride.s1;
        __global const float *from_do =
            d_out + do_offset + (int)batch * do_stride.s0 + (int)first * do_stride.s1;
        __global const float *from_out =
            out + out_offset + (int)batch * out_stride.s0 + (int)first * out_stride.s1;
        __global const float *from_k = k + k_offset + (int)batch * k_stride.s0;
        __global const float *from_v = v + v_offset + (int)batch * v_stride.s0;
        const floats lse =
            load_run(log_sum_exp + lse_offset + (int)batch * lse_stride.s0 + (int)first * lse_stride.s1,
                     lse_stride.s1, count);
        const ints limit = AS_INTS(LANE_NUMBERS) + (int)first + shift + 1;
        const uint end = min(sources, (uint)max((int)(first + count) + shift, 0));
        floats row_term = (floats)(0.0f);

        PACK_LANES(0, from_q, q_stride.s1, q_stride.s2, count, d);
        PACK_LANES(d, from_do, do_stride.s1, do_stride.s2, count, e);
        for (uint c = 0; c < e; c++)
            row_term += LOAD_LANES(SCRATCH(d + c)) *
                        load_run(from_out + (int)c * out_stride.s2, out_stride.s1, count);
        store_run(row_term, row_terms + batch * queries + first, 1, count);
        for (uint c = 0; c < d; c++)
            STORE_LANES((floats)(0.0f), SCRATCH(d + e + c));
        for (uint j = 0; j < end; j += TILE) {
            const uint length = min((uint)TILE, end - j);
            floats slope[TILE];
            for (uint t = 0; t < length; t++) {
                DOT_LANES(dot, 0, from_k + (int)(j + t) * k_stride.s1, k_stride.s2, d);
                DOT_LANES(gain, d, from_v + (int)(j + t) * v_stride.s1, v_stride.s2, e);
                slope[t] = select((floats)(0.0f), scale * exp(scale * dot - lse) * (gain - row_term),
                                  limit > (ints)((int)(j + t)));
            }
            for (uint c = 0; c < d; c++) {
                __global const float *column = from_k + (int)c * k_stride.s2;
                floats sum = LOAD_LANES(SCRATCH(d + e + c));
                for (uint t = 0; t < length; t++)
                    sum += column[(int)(j + t) * k_stride.s1] * slope[t];
                STORE_LANES(sum, SCRATCH(d + e + c));
            }
        }
        __global float *to = d_q + dq_offset + (int)batch * dq_stride.s0 + (int)first * dq_stride.s1;
        for (uint c = 0; c < d; c++)
            store_run(LOAD_LANES(SCRATCH(d + e + c)), to + (int)c * dq_stride.s2, dq_stride.s1, count);
    }
}

/* d_k and d_v. Lanes are keys. Scratch rows: d of k, e of v, d of d_k, e of d_v. */
__kernel void softmax_backward_keys(__global float *d_k, uint dk_offset, int4 dk_stride, __global float *d_v,
                                    uint dv_offset, int4 dv_stride, __global const float *row_terms,
                                    __global const float *d_out, uint do_offset, int4 do_stride,
                                    __global const float *log_sum_exp, uint lse_offset, int4 lse_stride,
                                    __global const float *q, uint q_offset, int4 q_stride,
                                    __global const float *k, uint k_offset, int4 k_stride,
                                    __global const float *v, uint v_offset, int4 v_stride, uint4 sizes,
                                    uint sources, int shift, uint blocks, uint units, float scale,
                                    __global float *scratch, uint scratch_rows) {
    const uint queries = sizes.s0, keys = sizes.s1, d = sizes.s2, e = sizes.s3;
    for (uint unit = get_global_id(0); unit < units; unit += get_global_size(0)) {
        const uint batch = unit / blocks, first = (unit - batch * blocks) * LANES;
        const uint count = min(keys - first, (uint)LANES);
        __global const float *from_k = k + k_offset + (int)batch * k_stride.s0 + (int)first * k_stride.s1;
        __global const float *from_v = v + v_offset + (int)batch * v_stride.s0 + (int)first * v_stride.s1;
        __global const float *from_q = q + q_offset + (int)batch * q_stride.s0;
        __global const float *from_do = d_out + do_offset + (int)batch * do_stride.s0;
        __global const float *from_lse = log_sum_exp + lse_offset + (int)batch * lse_stride.s0;
        const ints key = AS_INTS(LANE_NUMBERS) + (int)first;
        const ints attended = key < (ints)((int)sources);

        PACK_LANES(0, from_k, k_stride.s1, k_stride.s2, count, d);
        PACK_LANES(d, from_v, v_stride.s1, v_stride.s2, count, e);
        for (uint c = 0; c < d + e; c++)
            STORE_LANES((floats)(0.0f), SCRATCH(d + e + c));
        /* The first query that attends to the block's first key. */
        const uint start = (uint)max((int)first - shift, 0);
        for (uint i = start; i < queries && first < sources; i += TILE) {
            const uint length = min((uint)TILE, queries - i);
            floats weight[TILE], slope[TILE];
            for (uint t = 0; t < length; t++) {
                const uint row = i + t;
                const ints seen = attended & (key <= (ints)((int)row + shift));
                DOT_LANES(dot, 0, from_q + (int)row * q_stride.s1, q_stride.s2, d);
                DOT_LANES(gain, d, from_do + (int)row * do_stride.s1, do_stride.s2, e);
                const floats p = exp(scale * dot - from_lse[(int)row * lse_stride.s1]);
                weight[t] = select((floats)(0.0f), p, seen);
                slope[t] =
                    select((floats)(0.0f), scale * p * (gain - row_terms[batch * queries + row]), seen);
            }
            for (uint c = 0; c < d; c++) {
                __global const float *column = from_q + (int)c * q_stride.s2;
                floats sum = LOAD_LANES(SCRATCH(d + e + c));
                for (uint t = 0; t < length; t++)
                    sum += column[(int)(i + t) * q_stride.s1] * slope[t];
                STORE_LANES(sum, SCRATCH(d + e + c));
            }
            for (uint c = 0; c < e; c++) {
                __global const float *column = from_do + (int)c * do_stride.s2;
                floats sum = LOAD_LANES(SCRATCH(d + e + d + c));
                for (uint t = 0; t < length; t++)
                    sum += column[(int)(i + t) * do_stride.s1] * weight[t];
                STORE_LANES(sum, SCRATCH(d + e + d + c));
            }
        }
        __global float *to_k = d_k + dk_offset + (int)batch * dk_stride.s0 + (int)first * dk_stride.s1;
        __global float *to_v = d_v + dv_offset + (int)batch * dv_stride.s0 + (int)first * dv_stride.s1;
        for (uint c = 0; c < d; c++)
            store_run(LOAD_LANES(SCRATCH(d + e + c)), to_k + (int)c * dk_stride.s2, dk_stride.s1, count);
        for (uint c = 0; c < e; c++)
            store_run(LOAD_LANES(SCRATCH(d + e + d + c)), to_v + (int)c * dv_stride.s2, dv_stride.s1, count);
    }
}
