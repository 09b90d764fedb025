/*
 * Rows of softmax attention by products (src/backend/opencl/attention.c): products leave scores, these kernels
 * make weights of them, and backward slopes too, and products take these to the outputs.
 *
 * Scores are [batch, heads, rows, columns] without gaps, a column for each key that some row attends to. Row i attends
 * to the columns j <= i + shift. What it does not attend to gets the weight 0.
 * Index mapping: on CPUs a unit is a row; on GPUs a work-group takes 64 / team rows, a team of neighbours a row each.
 * Cost of a score: an exponential, a comparison, 3 flops and 28 bytes, most of them from a cache where the row fits;
 * backward an exponential, 4 flops and 16 bytes.
 */
#include "../rows.h"

/* The test looks at the bits, because relaxed arithmetic may assume that no float is infinite. */
#define MINUS_INFINITY as_float(0xff800000u)

static uint attended(int row, int shift, uint columns) {
    const int last = row + shift;
    return last < 0 ? 0 : min((uint)last + 1, columns);
}

#if LANES > 1

static void clear(__global float *row, uint from, uint end) {
    for (uint j = from; j < end; j += LANES)
        store_run((floats)(0.0f), row + j, 1, end - j);
}

/* Scores become weights, and lse the logarithm of the sum of their exponentials. */
__kernel void softmax_rows_lanes(__global float *scores, __global float *lse, uint lse_offset, int4 lse_stride,
                                 uint4 shape, uint2 units, int shift) {
    FOR_EACH_UNIT(units) {
        const int4 at = row_position(unit, shape);
        const uint n = attended(at.s2, shift, shape.s3);
        __global float *row = scores + unit * shape.s3;
        float largest = 0.0f, sum = 0.0f, log_sum = MINUS_INFINITY;
        if (n > 0) {
#define SCORE(j)                                                                                                       \
    (n - (j) >= LANES ? LOAD_ANYWHERE(row + (j))                                                                       \
                      : select((floats)(row[0]), load_run(row + (j), 1, n - (j)), LANE_NUMBERS < (uints)(n - (j))))
            MAX_ROW(largest, n, row[0], SCORE);
            for (uint j = 0; j < n; j += LANES)
                store_run(exp(load_run(row + j, 1, n - j) - (floats)(largest)), row + j, 1, n - j);
#define WEIGHT(j, left) load_run(row + (j), 1, left)
            SUM_ROW(sum, n, WEIGHT);
            const float factor = 1.0f / sum;
            for (uint j = 0; j < n; j += LANES)
                store_run(load_run(row + j, 1, n - j) * (floats)(factor), row + j, 1, n - j);
            log_sum = largest + log(sum);
        }
        clear(row, n, shape.s3);
        lse[lse_offset + dot_position(at, lse_stride)] = log_sum;
    }
}

/* Scores become weights, and the products d_out . v become slopes: scale weight (d_out . v - d_out . out). width: of
 * out. */
__kernel void softmax_slopes_lanes(__global float *scores, __global float *slopes, __global const float *d_out,
                                   uint d_out_offset, int4 d_out_stride, __global const float *out, uint out_offset,
                                   int4 out_stride, __global const float *lse, uint lse_offset, int4 lse_stride,
                                   uint4 shape, uint2 units, int shift, uint width, float scale) {
    FOR_EACH_UNIT(units) {
        const int4 at = row_position(unit, shape);
        const uint n = attended(at.s2, shift, shape.s3);
        __global float *row = scores + unit * shape.s3, *slope = slopes + unit * shape.s3;
        __global const float *g = d_out + d_out_offset + dot_position(at, d_out_stride);
        __global const float *o = out + out_offset + dot_position(at, out_stride);
        const floats log_sum = (floats)(lse[lse_offset + dot_position(at, lse_stride)]);
        float term;
#define PART(c, left)                                                                                                  \
    (load_run(g + (int)(c)*d_out_stride.s3, d_out_stride.s3, left) *                                                   \
     load_run(o + (int)(c)*out_stride.s3, out_stride.s3, left))
        SUM_ROW(term, width, PART);
        for (uint j = 0; j < n; j += LANES) {
            const floats weight = exp(load_run(row + j, 1, n - j) - log_sum);
            const floats gain = load_run(slope + j, 1, n - j) - (floats)(term);
            store_run(weight, row + j, 1, n - j);
            store_run((floats)(scale) * (weight * gain), slope + j, 1, n - j);
        }
        clear(row, n, shape.s3);
        clear(slope, n, shape.s3);
    }
}

#else

/* Afterwards these are in scope: the team's row at `at`; n, how many columns it attends to (0 for a team without a
 * row); `columns`, those that it writes. */
#define FIND_ROW                                                                                                       \
    const uint member = get_local_id(0) % team, number = unit * (GROUP / team) + get_local_id(0) / team;               \
    const int4 at = row_position(min(number, rows - 1), shape);                                                        \
    const uint columns = number < rows ? shape.s3 : 0, n = attended(at.s2, shift, columns);                            \
    __global float *row = scores + min(number, rows - 1) * shape.s3;

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
softmax_rows_teams(__global float *scores, __global float *lse, uint lse_offset, int4 lse_stride, uint4 shape,
                   uint rows, uint team, uint2 units, int shift) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        FIND_ROW
        float most = n > 0 ? row[0] : 0.0f, sum;
        for (uint j = member; j < n; j += team)
            most = fmax(most, row[j]);
        const float largest = largest_of_team(local_sums, member, team, most);
        barrier(CLK_GLOBAL_MEM_FENCE); /* every member has read row[0] */
        for (uint j = member; j < n; j += team)
            row[j] = exp(row[j] - largest);
#define WEIGHT(j) row[j]
        SUM_ROW(sum, n, WEIGHT);
        const float factor = 1.0f / sum;
        for (uint j = member; j < columns; j += team)
            row[j] = j < n ? row[j] * factor : 0.0f;
        if (member == 0 && number < rows)
            lse[lse_offset + dot_position(at, lse_stride)] = n > 0 ? largest + log(sum) : MINUS_INFINITY;
    }
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
softmax_slopes_teams(__global float *scores, __global float *slopes, __global const float *d_out, uint d_out_offset,
                     int4 d_out_stride, __global const float *out, uint out_offset, int4 out_stride,
                     __global const float *lse, uint lse_offset, int4 lse_stride, uint4 shape, uint rows, uint team,
                     uint2 units, int shift, uint width, float scale) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        FIND_ROW
        __global float *slope = slopes + (row - scores);
        __global const float *g = d_out + d_out_offset + dot_position(at, d_out_stride);
        __global const float *o = out + out_offset + dot_position(at, out_stride);
        const float log_sum = lse[lse_offset + dot_position(at, lse_stride)];
        float term;
#define PART(c)   (g[(int)(c)*d_out_stride.s3] * o[(int)(c)*out_stride.s3])
        SUM_ROW(term, width, PART);
        for (uint j = member; j < columns; j += team) {
            const float weight = j < n ? exp(row[j] - log_sum) : 0.0f;
            slope[j] = j < n ? scale * (weight * (slope[j] - term)) : 0.0f;
            row[j] = weight;
        }
    }
}
#endif
