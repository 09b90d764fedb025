/*
 * Rows that are normalized, and their gradients; the formulas stand in ops_sequence.h. first: x_0 of the layer norm, 0
 * of the others. A root of 0 counts as infinite: what it would divide is 0.
 *
 * Index mapping on CPUs: a unit is a row forward, and ROWS rows backward, whose terms of d_gain and d_shift it adds up.
 * On GPUs a work-group of 64 takes 64 / team rows, a team of neighbours a row each, which adds through local memory; it
 * leaves mean and reciprocal root of each row, from which a second kernel sums over ROWS rows of a column. In
 * both cases the sums of the blocks are added in pairs: on CPUs a unit of that is LANES columns, and GPUs reduce them.
 * Cost of an element: 7 flops and 8 bytes forward, 18 and 12 backward (20 on GPUs).
 */
#include "normalize_rows.h"

#define ROWS 64u /* of a block of the sums over rows, as ops_sequence.h promises */

#if LANES > 1

/* Adds sums [blocks][2][n] in pairs of blocks. to[0] and to[1] are d_gain and d_shift, [n] with a stride each; a flag
 * says which of them are wanted. */
__kernel void normalize_add(__global float *d_gain, uint gain_offset, int gain_stride, __global float *d_shift,
                            uint shift_offset, int shift_stride, uint wanted, __global float *sums, uint blocks, uint n,
                            uint columns, uint2 units) {
    FOR_EACH_UNIT(units) {
        const uint is_shift = unit >= columns, at = (unit - is_shift * columns) * LANES, left = n - at;
        __global float *from = sums + is_shift * n + at;
        if (!(wanted & (is_shift ? HAS_SHIFT : HAS_GAIN)))
            continue;
        for (uint step = 1; step < blocks; step *= 2)
            for (uint block = 0; block + step < blocks; block += 2 * step) {
                __global float *to = from + block * 2 * n;
                store_run(load_run(to, 1, left) + load_run(to + step * 2 * n, 1, left), to, 1, left);
            }
        if (is_shift)
            store_run(load_run(from, 1, left), d_shift + shift_offset + (int)at * shift_stride, shift_stride, left);
        else
            store_run(load_run(from, 1, left), d_gain + gain_offset + (int)at * gain_stride, gain_stride, left);
    }
}

/* kind and flags (HAS_GAIN, HAS_SHIFT). share: the divisor of sums. */
__kernel void normalize_lanes(__global float *out, uint out_offset, int4 out_stride, __global const float *in,
                              uint in_offset, int4 in_stride, __global const float *gain, uint gain_offset,
                              int gain_stride, __global const float *shift, uint shift_offset, int shift_stride,
                              uint4 shape, uint2 units, uint kind, uint flags, float share, float epsilon) {
    vector gains = {flags & HAS_GAIN ? gain + gain_offset : 0, gain_stride, 1.0f};
    vector shifts = {flags & HAS_SHIFT ? shift + shift_offset : 0, shift_stride, 0.0f};
    const bool is_dense = in_stride.s3 == 1 && out_stride.s3 == 1 && (!gains.from || gain_stride == 1) &&
                          (!shifts.from || shift_stride == 1);
    FOR_EACH_STRETCH(UNIT_OF_ITEM(get_global_id(0), units), UNIT_OF_ITEM(get_global_id(0) + 1, units), row, count,
                     shape) {
        const int4 at = row_position(row, shape);
        target_rows to = {out + out_offset + dot_position(at, out_stride), out_stride.s2, out_stride.s3};
        source_rows from = {in + in_offset + dot_position(at, in_stride), in_stride.s2, in_stride.s3};
        if (is_dense) {
            to.step = from.step = gains.step = shifts.step = 1;
            normalize_rows(to, from, gains, shifts, count, shape.s3, kind, share, epsilon);
        } else {
            normalize_rows(to, from, gains, shifts, count, shape.s3, kind, share, epsilon);
        }
    }
}

/* of_gain: where d_out y is added up, with that of d_out n behind it; or NULL. */
ROW_FUNCTION void rows_backward(target_rows d_in, source_rows d_out, source_rows in, vector gain, uint count, uint n,
                                uint kind, float share, float epsilon, __global float *of_gain) {
    __global float *of_shift = of_gain ? of_gain + n : 0;
    for (uint row = 0; row < count; row++) {
        found of = {in.first, in.step, 0.0f, 0.0f, 0.0f};
        find(&of, n, kind, share, epsilon);
        float level = 0.0f, slope;
#define D_OUT(i, left) load_run(d_out.first + (int)(i)*d_out.step, d_out.step, left)
#define G(i, left)     existing(D_OUT(i, left) * load_vector(&gain, i, left), left)
#define G_X(i, left)   (G(i, left) * centred(&of, i, left))
        if (kind == KIND_LAYER)
            SUM_ROW(level, n, G);
        SUM_ROW(slope, n, G_X);
        level /= share;
        slope = slope * of.r / share;
#define TAKE(i, left)                                                                                                  \
    {                                                                                                                  \
        const floats g = D_OUT(i, left), y = centred(&of, i, left) * (floats)(of.r);                                   \
        store_run((floats)(of.r) * (g * load_vector(&gain, i, left) - (floats)(level)-y * (floats)(slope)),            \
                  d_in.first + (int)(i)*d_in.step, d_in.step, left);                                                   \
        if (of_gain) {                                                                                                 \
            store_run(load_run(of_gain + (i), 1, left) + g * y, of_gain + (i), 1, left);                               \
            store_run(load_run(of_shift + (i), 1, left) + g, of_shift + (i), 1, left);                                 \
        }                                                                                                              \
    }
        FOR_RUNS(n, TAKE);
        d_in.first += d_in.row_step;
        d_out.first += d_out.row_step;
        in.first += in.row_step;
    }
}

/* sums [units][2][n] are written if is_summed. */
__kernel void normalize_backward_lanes(__global float *d_in, uint d_in_offset, int4 d_in_stride,
                                       __global const float *d_out, uint d_out_offset, int4 d_out_stride,
                                       __global const float *in, uint in_offset, int4 in_stride,
                                       __global const float *gain, uint gain_offset, int gain_stride, uint4 shape,
                                       uint rows, uint2 units, uint kind, uint flags, float share, float epsilon,
                                       __global float *sums, uint is_summed) {
    const uint n = shape.s3;
    vector gains = {flags & HAS_GAIN ? gain + gain_offset : 0, gain_stride, 1.0f};
    const bool is_dense =
        in_stride.s3 == 1 && d_in_stride.s3 == 1 && d_out_stride.s3 == 1 && (!gains.from || gain_stride == 1);
    FOR_EACH_UNIT(units) {
        __global float *of_gain = is_summed ? sums + unit * 2 * n : 0;
        for (uint i = 0; is_summed && i < 2 * n; i += LANES)
            store_run((floats)(0.0f), of_gain + i, 1, 2 * n - i);
        FOR_EACH_STRETCH(unit * ROWS, min(rows, unit * ROWS + ROWS), row, count, shape) {
            const int4 at = row_position(row, shape);
            target_rows to = {d_in + d_in_offset + dot_position(at, d_in_stride), d_in_stride.s2, d_in_stride.s3};
            source_rows g = {d_out + d_out_offset + dot_position(at, d_out_stride), d_out_stride.s2, d_out_stride.s3};
            source_rows x = {in + in_offset + dot_position(at, in_stride), in_stride.s2, in_stride.s3};
            if (is_dense) {
                to.step = g.step = x.step = gains.step = 1;
                rows_backward(to, g, x, gains, count, n, kind, share, epsilon, of_gain);
            } else {
                rows_backward(to, g, x, gains, count, n, kind, share, epsilon, of_gain);
            }
        }
    }
}

#else

#define X(i)   (x[(int)(i)*in_stride.s3] - first - mean)
#define X_X(i) (X(i) * X(i))
#define VECTOR(vector, i, flag, absent)                                                                                \
    (flags & (flag) ? vector[(int)vector##_offset + (int)(i)*vector##_stride] : absent)
#define G(i)   (from[(int)(i)*d_out_stride.s3] * VECTOR(gain, i, HAS_GAIN, 1.0f))
#define G_X(i) (G(i) * X(i))

/* Afterwards these are in scope: the row's x, first, mean and r; `count`, its elements (0 for a team without a row). */
#define FIND_ROW                                                                                                       \
    const uint member = get_local_id(0) % team, row = unit * (GROUP / team) + get_local_id(0) / team;                  \
    const uint count = row < rows ? shape.s3 : 0;                                                                      \
    const int4 at = row_position(min(row, rows - 1), shape);                                                           \
    __global const float *x = in + in_offset + dot_position(at, in_stride);                                            \
    const float first = kind == KIND_LAYER ? x[0] : 0.0f;                                                              \
    float mean = 0.0f, square;                                                                                         \
    if (kind == KIND_LAYER) {                                                                                          \
        float sum;                                                                                                     \
        SUM_ROW(sum, count, X);                                                                                        \
        mean = sum / share;                                                                                            \
    }                                                                                                                  \
    SUM_ROW(square, count, X_X);                                                                                       \
    const float r = reciprocal_root(square / share + epsilon);

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
normalize_teams(__global float *out, uint out_offset, int4 out_stride, __global const float *in, uint in_offset,
                int4 in_stride, __global const float *gain, uint gain_offset, int gain_stride,
                __global const float *shift, uint shift_offset, int shift_stride, uint4 shape, uint rows, uint team,
                uint2 units, uint kind, uint flags, float share, float epsilon) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        FIND_ROW
        __global float *to = out + out_offset + dot_position(at, out_stride);
        barrier(CLK_GLOBAL_MEM_FENCE); /* out may be in's own view: all members have read in's first element by now. */
        for (uint i = member; i < count; i += team)
            to[(int)i * out_stride.s3] = X(i) * r * VECTOR(gain, i, HAS_GAIN, 1.0f) + VECTOR(shift, i, HAS_SHIFT, 0.0f);
    }
}

/* found [rows]: mean and r. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
normalize_backward_teams(__global float *d_in, uint d_in_offset, int4 d_in_stride, __global const float *d_out,
                         uint d_out_offset, int4 d_out_stride, __global const float *in, uint in_offset, int4 in_stride,
                         __global const float *gain, uint gain_offset, int gain_stride, uint4 shape, uint rows,
                         uint team, uint2 units, uint kind, uint flags, float share, float epsilon,
                         __global float2 *found) {
    __local float local_sums[GROUP];
    FOR_EACH_GROUP(unit, units) {
        FIND_ROW
        __global float *to = d_in + d_in_offset + dot_position(at, d_in_stride);
        __global const float *from = d_out + d_out_offset + dot_position(at, d_out_stride);
        float level = 0.0f, slope;
        if (kind == KIND_LAYER)
            SUM_ROW(level, count, G);
        SUM_ROW(slope, count, G_X);
        level /= share;
        slope = slope * r / share;
        for (uint i = member; i < count; i += team)
            to[(int)i * d_in_stride.s3] = r * (G(i) - level - X(i) * r * slope);
        if (member == 0 && row < rows)
            found[row] = (float2)(mean, r);
    }
}

/* sums [blocks][2][n]: a unit is a column of a block. Rows side by side are loaded several at a time. */
__kernel void normalize_sums(__global const float *d_out, uint d_out_offset, int4 d_out_stride,
                             __global const float *in, uint in_offset, int4 in_stride, uint4 shape, uint rows,
                             uint2 units, uint kind, __global const float2 *found, __global float *sums) {
    const uint n = shape.s3;
    FOR_EACH_UNIT(units) {
        const uint block = unit / n, i = unit - block * n;
        float of_gain = 0.0f, of_shift = 0.0f;
        FOR_EACH_STRETCH(block * ROWS, min(rows, block * ROWS + ROWS), row, count, shape) {
            const int4 at = row_position(row, shape);
            __global const float *x = in + in_offset + dot_position(at, in_stride);
            __global const float *from = d_out + d_out_offset + dot_position(at, d_out_stride);
            _Pragma("unroll 8") for (uint j = 0; j < count; j++) {
                const float g = from[(int)j * d_out_stride.s2 + (int)i * d_out_stride.s3];
                const float first = kind == KIND_LAYER ? x[(int)j * in_stride.s2] : 0.0f;
                const float2 mean_and_root = found[row + j];
                const float centred = x[(int)j * in_stride.s2 + (int)i * in_stride.s3] - first - mean_and_root.s0;
                of_gain += g * (centred * mean_and_root.s1);
                of_shift += g;
            }
        }
        sums[block * 2 * n + i] = of_gain;
        sums[block * 2 * n + n + i] = of_shift;
    }
}
#endif
