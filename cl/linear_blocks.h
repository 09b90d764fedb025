/*
 * What the fused linear-transformer kernels are made of: products of the small matrices that belong to one sequence.
 *
 * A team computes. On CPUs (LANES > 1) it is one work-item, and every element of its matrices is a vector of LANES
 * sequences; on GPUs (LANES == 1) it is a work-group with one sequence, whose work-items share the blocks. Matrices lie
 * in STATE memory (-DSTATE=__local where they fit, else __global). An address counts elements, of LANES floats each, and a
 * matrix is told by two strides, so that a transpose is free. Parameters are shared by all sequences: plain floats.
 *
 * A product is cut into blocks of ROWS x COLUMNS sums that stay in registers (-D options that the host chooses for the size).
 * CPUs compute whole blocks, into rows and columns that pad the matrices: what lies there is never read for an element
 * that counts. GPUs leave the padding out.
 *
 * Every function ends with MEET, after which the whole team sees its result.
 */
#ifndef ICL_LINEAR_BLOCKS_H
#define ICL_LINEAR_BLOCKS_H

#include "common.h"

#ifndef FORM /* compiled alone, to be checked */
#define FORM     0
#define ROWS     4
#define COLUMNS  4
#define IN_LOCAL 0
#endif

#define TEAM_SIZE 64 /* work-items of a team on GPUs */

#if LANES > 1
#define STATE   __global
#define MEMBER  0u
#define MEMBERS 1u
#define TEAM    ((uint)get_global_id(0))
#define TEAMS   ((uint)get_global_size(0))
#define MEET
#define THIN_ROWS         2
#define THIN_COLUMNS      COLUMNS
#define CLAMPED(i, count) (i)
#define HOLDS(i, count)   1
typedef size_t place; /* of an element */
#else
#if IN_LOCAL
#define STATE __local
#else
#define STATE __global
#endif
#define MEMBER            ((uint)get_local_id(0))
#define MEMBERS           ((uint)TEAM_SIZE)
#define TEAM              ((uint)get_group_id(0))
#define TEAMS             ((uint)get_num_groups(0))
#define MEET              barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define THIN_ROWS         1
#define THIN_COLUMNS      1
#define CLAMPED(i, count) min(i, (count)-1)
#define HOLDS(i, count)   ((i) < (count))
typedef uint place;
#endif

/* One rounding where the device does that at full speed. */
#if defined(FP_FAST_FMAF) || defined(__FMA__) || defined(__aarch64__)
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#endif

#define AT(pointer, i)         LOAD_LANES((pointer) + (place)(i)*LANES)
#define PUT(value, pointer, i) STORE_LANES(value, (pointer) + (place)(i)*LANES)
#define SHARED_AT(pointer, i)  ((floats)((pointer)[i]))
#define UNROLL                 _Pragma("unroll")

typedef struct matrix {
    STATE float *at;
    place row, column; /* strides */
} matrix;

typedef struct shared_matrix {
    __global const float *at;
    place row, column;
} shared_matrix;

static matrix matrix_at(STATE float *at, place row, place column) {
    const matrix m = {at, row, column};
    return m;
}

static matrix transposed(matrix m) {
    return matrix_at(m.at, m.column, m.row);
}

static shared_matrix shared_transposed(shared_matrix m) {
    const shared_matrix t = {m.at, m.column, m.row};
    return t;
}

/* sum[r][c] = sum over k < depth of a[i + r][k] b[k][j + c], k upwards. b_column: the stride of b's columns, so that one that is
 * known at compile time is used as such. */
#define SUM_BLOCK(R, C, sum, a, A_AT, b, B_AT, b_column, rows, columns, depth)                               \
    floats sum[R][C];                                                                                        \
    place a_at_[R], b_at_[C];                                                                                \
    UNROLL for (uint r = 0; r < R; r++) {                                                                    \
        a_at_[r] = CLAMPED(i + r, rows) * (a).row;                                                           \
        UNROLL for (uint c = 0; c < C; c++) sum[r][c] = (floats)(0.0f);                                      \
    }                                                                                                        \
    UNROLL for (uint c = 0; c < C; c++) b_at_[c] = CLAMPED(j + c, columns) * (b_column);                     \
    for (place k = 0; k < (depth); k++) {                                                                    \
        floats y_[C];                                                                                        \
        UNROLL for (uint c = 0; c < C; c++) y_[c] = B_AT((b).at, k * (b).row + b_at_[c]);                    \
        UNROLL for (uint r = 0; r < R; r++) {                                                                \
            const floats x_ = A_AT((a).at, a_at_[r] + k * (a).column);                                       \
            UNROLL for (uint c = 0; c < C; c++) sum[r][c] = MULTIPLY_ADD(x_, y_[c], sum[r][c]);              \
        }                                                                                                    \
    }

/* Runs what follows for each of the member's blocks; place i, j: the block's first row and column. */
#define FOR_EACH_BLOCK(R, C, rows, columns)                                                                  \
    const uint across_ = ((columns) + C - 1) / C, blocks_ = ((rows) + R - 1) / R * across_;                  \
    for (uint block_ = MEMBER; block_ < blocks_; block_ += MEMBERS)                                          \
        for (place i = block_ / across_ * R, j = block_ % across_ * C, once_ = 1; once_; once_ = 0)

#define FOR_EACH_SUM(R, C) UNROLL for (uint r = 0; r < R; r++) UNROLL for (uint c = 0; c < C; c++)

#if LANES > 1
/* The sum of the lanes, in pairs. */
static float sum_lanes(floats x) {
#if LANES == 16
    const float8 y = x.lo + x.hi;
    const float4 z = y.lo + y.hi;
#elif LANES == 8
    const float4 z = x.lo + x.hi;
#else
    const float4 z = x;
#endif
    const float2 w = z.lo + z.hi;
    return w.s0 + w.s1;
}
#endif

/* The sum over the team of what each member has, in a fixed tree. spare: TEAM_SIZE floats of local memory (GPUs). */
#if LANES > 1
#define TEAM_SUM(value, spare) (value)
#else
static float team_sum(float value, __local float *spare) {
    spare[MEMBER] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint half_ = TEAM_SIZE / 2; half_ > 0; half_ /= 2) {
        if (MEMBER < half_)
            spare[MEMBER] += spare[MEMBER + half_];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    value = spare[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return value;
}
#define TEAM_SUM(value, spare) team_sum(value, spare)
#endif

/* ---- Products of matrices ---- */

/* What a product is added to. */
#define START_NONE      0
#define START_SELF      1 /* to */
#define START_IDENTITY  2
#define START_TWO_SIDED 3 /* start + its transpose */
#define START_OUTER     4 /* column of start times row of right */

/* to = start + a b: to [size, size], a [size, depth], b [depth, size] with neighbouring columns. symmetric: the result is,
 * and only the elements on and above the diagonal are computed. 2 size^2 depth flops. */
static void multiply(matrix to, matrix a, matrix b, uint size, uint depth, uint from, matrix start,
                     STATE const float *right, uint symmetric) {
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        if (symmetric && i >= j + COLUMNS)
            continue;
        SUM_BLOCK(ROWS, COLUMNS, sum, a, AT, b, AT, 1, size, size, depth)
        if (from == START_SELF) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] += AT(to.at, (i + r) * to.row + (j + c) * to.column);
        } else if (from == START_TWO_SIDED) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] += AT(start.at, (i + r) * start.row + (j + c) * start.column) +
                             AT(start.at, (j + c) * start.row + (i + r) * start.column);
        } else if (from == START_OUTER) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] = MULTIPLY_ADD(AT(start.at, i + r), AT(right, j + c), sum[r][c]);
        }
        if (symmetric) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (i + r <= j + c && HOLDS(j + c, size)) {
                PUT(sum[r][c], to.at, (i + r) * to.row + (j + c) * to.column);
                PUT(sum[r][c], to.at, (j + c) * to.row + (i + r) * to.column);
            }
        } else {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                PUT(sum[r][c], to.at, (i + r) * to.row + (j + c) * to.column);
        }
    }
    MEET;
}

/* to = start + a b with a shared a [size, size]; also, where `copy` asks for it, into a second matrix. 2 size^3 flops. */
static void multiply_shared(matrix to, shared_matrix a, matrix b, uint size, uint from, uint copy,
                            matrix second) {
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        SUM_BLOCK(ROWS, COLUMNS, sum, a, SHARED_AT, b, AT, 1, size, size, size)
        FOR_EACH_SUM(ROWS, COLUMNS)
        if (HOLDS(i + r, size) && HOLDS(j + c, size)) {
            const place at = (i + r) * to.row + (j + c) * to.column;
            floats value = sum[r][c];
            if (from == START_SELF)
                value += AT(to.at, at);
            else if (from == START_IDENTITY && i + r == j + c)
                value += 1.0f;
            PUT(value, to.at, at);
            if (copy)
                PUT(value, second.at, (i + r) * second.row + (j + c) * second.column);
        }
    }
    MEET;
}

/* ---- Products of a few vectors with a matrix; vectors are rows ---- */

/* to[h] = start[h] + x[h] m for `count` vectors of `size` elements; START_NONE: without start. It may be `to`. 2 count size^2
 * flops. */
#define THIN_PRODUCT(name, M, M_AT)                                                                          \
    static void name(matrix to, matrix x, M m, uint count, uint size, uint from, matrix start) {             \
        FOR_EACH_BLOCK(THIN_ROWS, THIN_COLUMNS, count, size) {                                               \
            SUM_BLOCK(THIN_ROWS, THIN_COLUMNS, sum, x, AT, m, M_AT, m.column, count, size, size)             \
            FOR_EACH_SUM(THIN_ROWS, THIN_COLUMNS)                                                            \
            if (i + r < count && HOLDS(j + c, size)) {                                                       \
                floats value = sum[r][c];                                                                    \
                if (from != START_NONE)                                                                      \
                    value += AT(start.at, (i + r) * start.row + j + c);                                      \
                PUT(value, to.at, (i + r) * to.row + j + c);                                                 \
            }                                                                                                \
        }                                                                                                    \
        MEET;                                                                                                \
    }

THIN_PRODUCT(apply, matrix, AT)
THIN_PRODUCT(apply_shared, shared_matrix, SHARED_AT)

/* ---- Loading ---- */

/* Reads rows x columns elements of `count` sequences (of one, on GPUs), strides: sequence, row, column. Lanes beyond are 0. */
static void take(matrix to, __global const float *from, int4 stride, uint count, uint rows, uint columns) {
#if LANES > 1
    for (uint row = 0; row < rows; row++)
        for (uint lane = 0; lane < LANES; lane++) {
            STATE float *to_lane = to.at + row * to.row * LANES + lane;
            __global const float *from_row = from + (int)lane * stride.s0 + (int)row * stride.s1;
            for (uint column = 0; column < columns; column++)
                to_lane[column * to.column * LANES] = lane < count ? from_row[(int)column * stride.s2] : 0.0f;
        }
#else
    for (uint e = MEMBER; e < rows * columns; e += MEMBERS) {
        const uint row = e / columns, column = e - row * columns;
        to.at[row * to.row + column * to.column] = from[(int)row * stride.s1 + (int)column * stride.s2];
    }
#endif
    MEET;
}

#endif
