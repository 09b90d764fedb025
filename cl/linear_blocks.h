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
 * that counts. GPUs leave the padding out. A thin product has no padding below it, and reads no row that its left matrix does not
 * have: memory that nobody wrote may hold denormal numbers, with which a CPU is slow.
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
#define CLAMPED(i, count)      (i)
#define COLUMN_FROM(j)         (j)
#define COLUMN_TO(j, c, count) (c)
#define HOLDS(i, count)        1
typedef size_t place;
#else
#if IN_LOCAL
#define STATE __local
#else
#define STATE __global
#endif
#define MEMBER                 ((uint)get_local_id(0))
#define MEMBERS                ((uint)TEAM_SIZE)
#define TEAM                   ((uint)get_group_id(0))
#define TEAMS                  ((uint)get_num_groups(0))
#define MEET                   barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define CLAMPED(i, count)      min(i, (count)-1)
#define COLUMN_FROM(j)         0
#define COLUMN_TO(j, c, count) min(j + c, (count)-1)
#define HOLDS(i, count)        ((i) < (count))
typedef uint place;
#endif

#define TEAM_FLOATS   STATE const floats
#define SHARED_FLOATS __global const float

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

/* One term of each sum: the first one, or one more. */
#define FIRST_TERM(x, y, sum)   ((x) * (y))
#define ANOTHER_TERM(x, y, sum) MULTIPLY_ADD(x, y, sum)
#define SUM_TERM(R, C, sum, b_stride, column_count, TERM)                                                    \
    {                                                                                                        \
        floats y_[C];                                                                                        \
        UNROLL for (uint c = 0; c < C; c++) y_[c] =                                                          \
            (floats)(b_at_[COLUMN_TO(j, c, column_count) * (b_stride)]);                                     \
        b_at_ += b_step_;                                                                                    \
        UNROLL for (uint r = 0; r < R; r++) {                                                                \
            const floats x_ = (floats)(*a_at_[r]);                                                           \
            a_at_[r] += a_step_;                                                                             \
            UNROLL for (uint c = 0; c < C; c++) sum[r][c] = TERM(x_, y_[c], sum[r][c]);                      \
        }                                                                                                    \
    }

/* sum[r][c] = sum over k < terms of a[i + r][k] b[k][j + c], k upwards, with a and b at their first elements. b_stride: of b's columns,
 * so that one that is known at compile time is used as such. *_FLOATS: const floats in STATE memory, or const float in global. */
#define SUM_BLOCK(R, C, sum, s, A_FLOATS, a, B_FLOATS, b, b_stride, row_count, column_count, terms)          \
    floats sum[R][C];                                                                                        \
    A_FLOATS *a_at_[R];                                                                                      \
    B_FLOATS *b_at_ = (b) + COLUMN_FROM(j) * (b_stride);                                                     \
    const place a_step_ = (s).a_column, b_step_ = (s).b_row;                                                 \
    UNROLL for (uint r = 0; r < R; r++) a_at_[r] = (a) + (place)CLAMPED(i + r, row_count) * (s).a_row;       \
    if ((terms) > 0)                                                                                         \
        SUM_TERM(R, C, sum, b_stride, column_count, FIRST_TERM)                                              \
    else                                                                                                     \
        UNROLL for (uint r = 0; r < R; r++) UNROLL for (uint c = 0; c < C; c++) sum[r][c] = (floats)(0.0f);  \
    for (uint k = 1; k < (terms); k++)                                                                       \
    SUM_TERM(R, C, sum, b_stride, column_count, ANOTHER_TERM)

/* Runs what follows for each of the member's blocks; place i, j: the block's first row and column. On CPUs a panel of b's columns stays
 * in the first cache while the rows of a pass by. */
#if LANES > 1
#define FOR_EACH_BLOCK(R, C, row_count, column_count)                                                        \
    for (place j = 0; j < (column_count); j += C)                                                            \
        for (place i = 0; i < (row_count); i += R)
#else
#define FOR_EACH_BLOCK(R, C, row_count, column_count)                                                        \
    const uint across_ = ((column_count) + C - 1) / C, blocks_ = ((row_count) + R - 1) / R * across_;        \
    for (uint block_ = MEMBER; block_ < blocks_; block_ += MEMBERS)                                          \
        for (place i = block_ / across_ * R, j = block_ % across_ * C, once_ = 1; once_; once_ = 0)
#endif

#define FOR_EACH_SUM(R, C) UNROLL for (uint r = 0; r < R; r++) UNROLL for (uint c = 0; c < C; c++)

/* STEP_MULTIPLY: 2 rows^2 depth flops, half of that where the result is symmetric. depth: fewer terms for the last rows of tokens.
 * scale: of the sums and what they are added to. */
static void multiply(const instruction *s, STATE floats *state, uint depth, uint from, float scale) {
    STATE floats *to = state + s->to, *start = state + s->start;
    STATE const floats *a = state + s->a, *b = state + s->b;
    const uint size = s->rows;
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        if (s->mode & MODE_SYMMETRIC && i >= j + COLUMNS)
            continue;
        SUM_BLOCK(ROWS, COLUMNS, sum, *s, TEAM_FLOATS, a, TEAM_FLOATS, b, 1, size, size, depth)
        if (from == START_SELF) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] += to[(i + r) * s->to_row + (j + c) * s->to_column];
        } else if (from == START_TWO_SIDED) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] += start[(i + r) * s->b_row + j + c] + start[(j + c) * s->b_row + i + r];
        } else if (from == START_OUTER) {
            STATE const floats *right = state + s->extra;
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] = MULTIPLY_ADD(start[i + r], right[j + c], sum[r][c]);
        }
        if (scale != 1.0f)
            FOR_EACH_SUM(ROWS, COLUMNS) sum[r][c] *= scale;
        if (s->mode & MODE_SYMMETRIC && i + ROWS > j + 1) { /* the diagonal runs through the block */
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (i + r <= j + c && HOLDS(j + c, size)) {
                to[(i + r) * s->to_row + (j + c) * s->to_column] = sum[r][c];
                to[(j + c) * s->to_row + (i + r) * s->to_column] = sum[r][c];
            }
            continue;
        }
        FOR_EACH_SUM(ROWS, COLUMNS)
        if (HOLDS(i + r, size) && HOLDS(j + c, size))
            to[(i + r) * s->to_row + (j + c) * s->to_column] = sum[r][c];
        if (s->mode & MODE_SYMMETRIC) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(j + c, size))
                to[(j + c) * s->to_row + (i + r) * s->to_column] = sum[r][c];
        }
    }
}

/* STEP_MULTIPLY_SHARED: 2 rows^3 flops. */
static void multiply_shared(const instruction *s, STATE floats *state, __global const float *shared) {
    STATE floats *to = state + s->to, *second = state + s->extra;
    STATE const floats *b = state + s->b;
    __global const float *a = shared + s->a;
    const uint size = s->rows, from = s->mode & MODE_START;
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        SUM_BLOCK(ROWS, COLUMNS, sum, *s, SHARED_FLOATS, a, TEAM_FLOATS, b, 1, size, size, size)
        if (from == START_SELF) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                sum[r][c] += to[(i + r) * s->to_row + (j + c) * s->to_column];
        } else if (from == START_IDENTITY && i + ROWS > j && j + COLUMNS > i) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (i + r == j + c)
                sum[r][c] += 1.0f;
        }
        FOR_EACH_SUM(ROWS, COLUMNS)
        if (HOLDS(i + r, size) && HOLDS(j + c, size))
            to[(i + r) * s->to_row + (j + c) * s->to_column] = sum[r][c];
        if (s->mode & MODE_TWICE) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (HOLDS(i + r, size) && HOLDS(j + c, size))
                second[(i + r) * s->to_column + (j + c) * s->to_row] = sum[r][c];
        }
    }
}

/* to = start + a block's sums: STEP_APPLY and STEP_APPLY_SHARED. */
#define THIN_BLOCK(R, C, B_FLOATS, b_stride)                                                                 \
    {                                                                                                        \
        SUM_BLOCK(R, C, sum, *s, TEAM_FLOATS, a, B_FLOATS, b, b_stride, s->rows, s->columns, s->depth)       \
        FOR_EACH_SUM(R, C)                                                                                   \
        if (i + r < s->rows && HOLDS(j + c, s->columns)) {                                                   \
            const place at = (i + r) * s->to_row + j + c;                                                    \
            to[at] = s->mode & START_GIVEN ? sum[r][c] + start[at] : sum[r][c];                              \
        }                                                                                                    \
    }

/* On CPUs rows in pairs, and the last odd row in blocks of `wide` columns. */
#if LANES > 1
#define THIN_BLOCKS(B_FLOATS, b_stride, wide)                                                                \
    const place pairs_ = s->rows & ~1u, cover_ = (s->columns + COLUMNS - 1) / COLUMNS * COLUMNS;             \
    FOR_EACH_BLOCK(2, COLUMNS, pairs_, s->columns)                                                           \
    THIN_BLOCK(2, COLUMNS, B_FLOATS, b_stride) if (pairs_ < s->rows) {                                       \
        const place i = pairs_;                                                                              \
        place j = 0;                                                                                         \
        for (; j + wide <= cover_; j += wide)                                                                \
            THIN_BLOCK(1, wide, B_FLOATS, b_stride)                                                          \
        for (; j < cover_; j += COLUMNS)                                                                     \
            THIN_BLOCK(1, COLUMNS, B_FLOATS, b_stride)                                                       \
    }
#define WIDE ((LANES == 16 ? 21 : 12) / COLUMNS * COLUMNS) /* as registers allow */
#define THIN_PRODUCTS(B_FLOATS)                                                                              \
    if (s->b_column == 1) {                                                                                  \
        THIN_BLOCKS(B_FLOATS, 1, WIDE)                                                                       \
    } else { /* an address for each column takes registers as well */                                        \
        THIN_BLOCKS(B_FLOATS, s->b_column, COLUMNS)                                                          \
    }
#else
#define THIN_PRODUCTS(B_FLOATS)                                                                              \
    FOR_EACH_BLOCK(1, 1, s->rows, s->columns) THIN_BLOCK(1, 1, B_FLOATS, s->b_column)
#endif

/* 2 rows columns depth flops. */
#define THIN_PRODUCT(name, B_FLOATS)                                                                         \
    static void name(const instruction *s, STATE floats *state, B_FLOATS *b) {                               \
        STATE floats *to = state + s->to;                                                                    \
        STATE const floats *a = state + s->a, *start = state + s->start;                                     \
        THIN_PRODUCTS(B_FLOATS)                                                                              \
    }

THIN_PRODUCT(apply, TEAM_FLOATS)
THIN_PRODUCT(apply_shared, SHARED_FLOATS)

#endif
