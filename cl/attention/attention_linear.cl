/*
 * Linear attention: out_i = scale * sum over the attended j of (q_i . k_j) v_j, through the state S = sum_j k_j v_j^T.
 *
 * The gradients have the same form with other operands (attention_linear.c), so this one kernel is both passes.
 * Sources are taken in order: row i attends to the first clamp(i + 1 + shift, 0, sources) of them; shift >= sources
 * means all of them for every row. Rows from `active` on attend to nothing. Reverse order is a negative stride.
 *
 * Heads may share keys: then several sequences of rows have the same sources, and on the way back one sequence of rows
 * has those of several heads, which it takes in order.
 *
 * Index mapping: unit = (batch * heads + head) * column blocks + column block; lanes are columns of v, so no lane needs
 * another.
 * Cost: 2 (rows + sources) d flops for each column, instead of 2 rows sources (d + 1).
 */
#include "../common.h"

#define PACK 64 /* rows of v that are packed into contiguous lanes at a time */
#define STEP 4  /* rows of S, or of out, in registers at a time */

/* A work-item's scratch: S, one row of lanes for each of d (padded to a multiple of STEP), then PACK rows of v. On GPUs
 * rows of neighbouring work-items lie side by side. */
#if LANES == 1
#define STATE(r) (state + (r)*row_step)
#else
#define STATE(r) (state + (r)*LANES)
#endif

/* strides: of batch, row, column, head. sizes: rows, sources, d, e. heads: of the rows; how many of them share their
 * sources; how many heads of sources each has (one of the last two is 1). v_dense_end: where v's elements end if v has
 * no gaps, else 0. Whole vectors may be loaded up to there, because what follows a row is then the next row. */
__kernel void attention_linear(__global float *out, uint out_offset, int4 out_stride, __global const float *q,
                               uint q_offset, int4 q_stride, __global const float *k, uint k_offset, int4 k_stride,
                               __global const float *v, uint v_offset, int4 v_stride, uint v_dense_end, uint4 sizes,
                               uint4 heads, int shift, uint active, uint blocks, uint2 units, float scale,
                               __global float *scratch, uint scratch_rows) {
    const uint rows = sizes.s0, sources = sizes.s1, d = sizes.s2, e = sizes.s3;
    const int running = shift < (int)sources;
#if LANES == 1
    const uint row_step = get_global_size(0);
    __global float *state = scratch + get_global_id(0);
#else
    __global float *state = scratch + get_global_id(0) * scratch_rows * LANES;
    __global float *packed = state + (scratch_rows - PACK) * LANES;
#endif
    FOR_EACH_UNIT(units) {
        const uint sequence = unit / blocks, column = (unit - sequence * blocks) * LANES, width = e - column;
        const uint batch = sequence / heads.s0, head = sequence - batch * heads.s0, source = head * heads.s2 / heads.s1;
        __global float *to =
            out + out_offset + (int)batch * out_stride.s0 + (int)head * out_stride.s3 + (int)column * out_stride.s2;
        __global const float *from_q = q + q_offset + (int)batch * q_stride.s0 + (int)head * q_stride.s3;
        __global const float *from_k = k + k_offset + (int)batch * k_stride.s0 + (int)source * k_stride.s3;
        __global const float *from_v =
            v + v_offset + (int)batch * v_stride.s0 + (int)source * v_stride.s3 + (int)column * v_stride.s2;
        uint taken = 0;
#if LANES > 1
        const ints inside = LANE_NUMBERS < (uints)(width);
        __global const float *v_end = v + v_dense_end;
#endif

        for (uint r = 0; r < d; r++)
            STORE_LANES((floats)(0.0f), STATE(r));
        /* Takes the sources that every row attends to, a pack at a time. */
        const uint common = min(sources, (uint)max(shift + 1, 0));
        for (uint h = 0; h < heads.s2; h++) {
            __global const float *k_rows = from_k + (int)h * k_stride.s3, *v_rows = from_v + (int)h * v_stride.s3;
            taken = 0;
            while (taken < common) {
                const uint length = min((uint)PACK, common - taken);
#if LANES > 1
                for (uint j = 0; j < length; j++) {
                    __global const float *v_row = v_rows + (int)(taken + j) * v_stride.s1;
                    if (v_row + LANES <= v_end)
                        STORE_LANES(select((floats)(0.0f), LOAD_LANES(v_row), inside), packed + j * LANES);
                    else
                        pack_run(packed + j * LANES, v_row, v_stride.s2, width);
                }
#endif
                for (uint r = 0; r < d; r += STEP) {
                    const int last = (int)d - 1;
                    const int at0 = (int)r * k_stride.s2, at1 = min((int)r + 1, last) * k_stride.s2,
                              at2 = min((int)r + 2, last) * k_stride.s2, at3 = min((int)r + 3, last) * k_stride.s2;
                    floats s0 = LOAD_LANES(STATE(r)), s1 = (floats)(0.0f), s2 = s1, s3 = s1;
                    if (r + 1 < d)
                        s1 = LOAD_LANES(STATE(r + 1));
                    if (r + 2 < d)
                        s2 = LOAD_LANES(STATE(r + 2));
                    if (r + 3 < d)
                        s3 = LOAD_LANES(STATE(r + 3));
                    for (uint j = 0; j < length; j++) {
                        __global const float *k_row = k_rows + (int)(taken + j) * k_stride.s1;
#if LANES > 1
                        const floats x = LOAD_LANES(packed + j * LANES);
#else
                        const floats x = v_rows[(int)(taken + j) * v_stride.s1];
#endif
                        s0 += k_row[at0] * x;
                        s1 += k_row[at1] * x;
                        s2 += k_row[at2] * x;
                        s3 += k_row[at3] * x;
                    }
                    STORE_LANES(s0, STATE(r));
                    if (r + 1 < d)
                        STORE_LANES(s1, STATE(r + 1));
                    if (r + 2 < d)
                        STORE_LANES(s2, STATE(r + 2));
                    if (r + 3 < d)
                        STORE_LANES(s3, STATE(r + 3));
                }
                taken += length;
            }
        }
        for (uint i = 0; i < rows; i += STEP) {
            if (running || i + STEP > active) {
                /* Takes one row at a time, because its state differs from the next one's, or because it attends to
                 * nothing. */
                for (uint row = i; row < min(i + STEP, rows); row++) {
                    const uint until = (uint)clamp((int)row + 1 + shift, 0, (int)sources);
                    floats sum = (floats)(0.0f);
                    for (; running && taken < until; taken++) {
                        for (uint h = 0; h < heads.s2; h++) {
                            __global const float *k_row = from_k + (int)h * k_stride.s3 + (int)taken * k_stride.s1;
                            __global const float *v_row = from_v + (int)h * v_stride.s3 + (int)taken * v_stride.s1;
                            const floats x = load_run(v_row, v_stride.s2, width);
                            for (uint r = 0; r < d; r++)
                                STORE_LANES(LOAD_LANES(STATE(r)) + k_row[(int)r * k_stride.s2] * x, STATE(r));
                        }
                    }
                    for (uint r = 0; r < d && row < active; r++)
                        sum += from_q[(int)row * q_stride.s1 + (int)r * q_stride.s2] * LOAD_LANES(STATE(r));
                    store_run(scale * sum, to + (int)row * out_stride.s1, out_stride.s2, width);
                }
            } else {
                const int last = (int)rows - 1;
                __global const float *q0 = from_q + (int)i * q_stride.s1;
                __global const float *q1 = from_q + min((int)i + 1, last) * q_stride.s1;
                __global const float *q2 = from_q + min((int)i + 2, last) * q_stride.s1;
                __global const float *q3 = from_q + min((int)i + 3, last) * q_stride.s1;
                floats sum0 = (floats)(0.0f), sum1 = sum0, sum2 = sum0, sum3 = sum0;
                for (uint r = 0; r < d; r++) {
                    const int at = (int)r * q_stride.s2;
                    const floats s = LOAD_LANES(STATE(r));
                    sum0 += q0[at] * s;
                    sum1 += q1[at] * s;
                    sum2 += q2[at] * s;
                    sum3 += q3[at] * s;
                }
                __global float *to_row = to + (int)i * out_stride.s1;
                store_run(scale * sum0, to_row, out_stride.s2, width);
                if (i + 1 < rows)
                    store_run(scale * sum1, to_row + out_stride.s1, out_stride.s2, width);
                if (i + 2 < rows)
                    store_run(scale * sum2, to_row + 2 * out_stride.s1, out_stride.s2, width);
                if (i + 3 < rows)
                    store_run(scale * sum3, to_row + 3 * out_stride.s1, out_stride.s2, width);
            }
        }
    }
}
