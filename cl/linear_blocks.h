/*
 * Products of the small matrices that belong to one sequence.
 *
 * A team computes. On CPUs (LANES > 1) it is one work-item, and every element of its matrices is a vector of LANES
 * sequences; on GPUs (LANES == 1) it is a work-group with one sequence, whose work-items share the blocks. Matrices lie
 * in the team's STATE memory (-DIN_LOCAL=1: local memory). A transpose is a matter of strides. Parameters are shared by all
 * sequences: plain floats.
 *
 * A product is cut into blocks of ROWS x COLUMNS sums that stay in registers (-D options that the host chooses for the size).
 * CPUs compute whole blocks, into rows and columns that pad the matrices: what lies there is never read for an element
 * that counts. GPUs leave the padding out.
 */
#ifndef ICL_LINEAR_BLOCKS_H
#define ICL_LINEAR_BLOCKS_H

#include "common.h"
#include "linear_steps.h"

#ifndef ROWS /* compiled alone, to be checked */
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
typedef size_t place;
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

/* A step, see linear_steps.h. */
typedef struct instruction {
    uint kind, mode, to, to_row, to_column, a, a_row, a_column, b, b_row, b_column, start, rows, columns,
        depth, extra;
} instruction;

static instruction read_step(__global const uint *words) {
    const uint8 x = vload8(0, words), y = vload8(1, words);
    const instruction s = {x.s0, x.s1, x.s2, x.s3, x.s4, x.s5, x.s6, x.s7,
                           y.s0, y.s1, y.s2, y.s3, y.s4, y.s5, y.s6, y.s7};
    return s;
}

/* sum[r][c] = sum over k < depth of a[i + r][k] b[k][j + c], k upwards. b_column: the stride of b's columns, so that one that
 * is known at compile time is used as such. */
#define SUM_BLOCK(R, C, sum, s, a_base, A_AT, b_base, B_AT, stride_b, row_count, column_count, terms)        \
    floats sum[R][C];                                                                                        \
    place a_at_[R], b_at_[C];                                                                                \
    UNROLL for (uint r = 0; r < R; r++) {                                                                    \
        a_at_[r] = (place)CLAMPED(i + r, row_count) * (s).a_row;                                             \
        UNROLL for (uint c = 0; c < C; c++) sum[r][c] = (floats)(0.0f);                                      \
    }                                                                                                        \
    UNROLL for (uint c = 0; c < C; c++) b_at_[c] = (place)CLAMPED(j + c, column_count) * (stride_b);         \
    for (place k = 0; k < (terms); k++) {                                                                    \
        floats y_[C];                                                                                        \
        UNROLL for (uint c = 0; c < C; c++) y_[c] = B_AT(b_base, k * (s).b_row + b_at_[c]);                  \
        UNROLL for (uint r = 0; r < R; r++) {                                                                \
            const floats x_ = A_AT(a_base, a_at_[r] + k * (s).a_column);                                     \
            UNROLL for (uint c = 0; c < C; c++) sum[r][c] = MULTIPLY_ADD(x_, y_[c], sum[r][c]);              \
        }                                                                                                    \
    }

/* Runs what follows for each of the member's blocks; place i, j: the block's first row and column. */
#define FOR_EACH_BLOCK(R, C, row_count, column_count)                                                        \
    const uint across_ = ((column_count) + C - 1) / C, blocks_ = ((row_count) + R - 1) / R * across_;        \
    for (uint block_ = MEMBER; block_ < blocks_; block_ += MEMBERS)                                          \
        for (place i = block_ / across_ * R, j = block_ % across_ * C, once_ = 1; once_; once_ = 0)

#define FOR_EACH_SUM(R, C) UNROLL for (uint r = 0; r < R; r++) UNROLL for (uint c = 0; c < C; c++)

/* STEP_MULTIPLY: 2 rows^2 depth flops, half of that where the result is symmetric. depth: fewer terms for the last rows of tokens. */
static void multiply(const instruction *s, STATE float *state, uint depth, uint from) {
    STATE float *to = state + (place)s->to * LANES, *start = state + (place)s->start * LANES;
    STATE const float *a = state + (place)s->a * LANES, *b = state + (place)s->b * LANES;
    const uint size = s->rows;
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        if (s->mode & MODE_SYMMETRIC && i >= j + COLUMNS)
            continue;
        SUM_BLOCK(ROWS, COLUMNS, sum, *s, a, AT, b, AT, 1, size, size, depth)
        if (from == START_SELF) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] += AT(to, (i + r) * s->to_row + (j + c) * s->to_column);
        } else if (from == START_TWO_SIDED) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] += AT(start, (i + r) * s->b_row + j + c) + AT(start, (j + c) * s->b_row + i + r);
        } else if (from == START_OUTER) {
            STATE const float *right = state + (place)s->extra * LANES;
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] = MULTIPLY_ADD(AT(start, i + r), AT(right, j + c), sum[r][c]);
        }
        if (s->mode & MODE_SYMMETRIC) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (i + r <= j + c && HOLDS(j + c, size)) {
                PUT(sum[r][c], to, (i + r) * s->to_row + (j + c) * s->to_column);
                PUT(sum[r][c], to, (j + c) * s->to_row + (i + r) * s->to_column);
            }
        } else {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                PUT(sum[r][c], to, (i + r) * s->to_row + (j + c) * s->to_column);
        }
    }
}

/* STEP_MULTIPLY_SHARED: 2 rows^3 flops. */
static void multiply_shared(const instruction *s, STATE float *state, __global const float *shared) {
    STATE float *to = state + (place)s->to * LANES, *second = state + (place)s->extra * LANES;
    STATE const float *b = state + (place)s->b * LANES;
    __global const float *a = shared + s->a;
    const uint size = s->rows, from = s->mode & MODE_START;
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        SUM_BLOCK(ROWS, COLUMNS, sum, *s, a, SHARED_AT, b, AT, 1, size, size, size)
        FOR_EACH_SUM(ROWS, COLUMNS)
        if (HOLDS(i + r, size) && HOLDS(j + c, size)) {
            const place at = (i + r) * s->to_row + (j + c) * s->to_column;
            floats value = sum[r][c];
            if (from == START_SELF)
                value += AT(to, at);
            else if (from == START_IDENTITY && i + r == j + c)
                value += 1.0f;
            PUT(value, to, at);
            if (s->mode & MODE_TWICE)
                PUT(value, second, (i + r) * s->to_column + (j + c) * s->to_row);
        }
    }
}

/* STEP_APPLY, STEP_APPLY_SHARED: 2 rows columns depth flops. */
#define THIN_PRODUCT(name, B_SPACE, B_AT)                                                                    \
    static void name(const instruction *s, STATE float *state, B_SPACE const float *b) {                     \
        STATE float *to = state + (place)s->to * LANES;                                                      \
        STATE const float *a = state + (place)s->a * LANES, *start = state + (place)s->start * LANES;        \
        FOR_EACH_BLOCK(THIN_ROWS, THIN_COLUMNS, s->rows, s->columns) {                                       \
            SUM_BLOCK(THIN_ROWS, THIN_COLUMNS, sum, *s, a, AT, b, B_AT, s->b_column, s->rows, s->columns,    \
                      s->depth)                                                                              \
            FOR_EACH_SUM(THIN_ROWS, THIN_COLUMNS)                                                            \
            if (i + r < s->rows && HOLDS(j + c, s->columns)) {                                               \
                const place at = (i + r) * s->to_row + j + c;                                                \
                PUT(s->mode &START_GIVEN ? sum[r][c] + AT(start, at) : sum[r][c], to, at);                   \
            }                                                                                                \
        }                                                                                                    \
    }

THIN_PRODUCT(apply, STATE, AT)
THIN_PRODUCT(apply_shared, __global, SHARED_AT)

#endif
