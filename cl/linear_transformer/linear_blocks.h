/*
 * Products of the small matrices that belong to one sequence.
 *
 * A team computes. On CPUs (LANES > 1) it is one work-item, and every element of its matrices is a vector of LANES
 * sequences; on GPUs (LANES == 1) it is a work-group with one sequence, whose work-items share the blocks. Matrices lie
 * in the team's STATE memory (-DIN_LOCAL=1: local memory). A transpose is a matter of strides. Parameters are shared by
 * all sequences: plain floats.
 *
 * A product is cut into blocks of ROWS x COLUMNS sums that stay in registers (-D options that the host chooses for the
 * size). CPUs compute whole blocks, into rows and columns that pad the matrices: what lies there is never read for an
 * element that counts. GPUs have no padding, and matrices of at least a block. A thin product has no padding below it,
 * and reads no row that its left matrix lacks: unwritten memory may hold denormal numbers, which slow a CPU down.
 */
#ifndef ICL_LINEAR_BLOCKS_H
#define ICL_LINEAR_BLOCKS_H

#include "../common.h"
#include "linear_steps.h"

#ifndef ROWS /* This file can be compiled alone, to be checked. */
#define ROWS     4
#define COLUMNS  4
#define IN_LOCAL 0
#endif

#ifndef TEAM_SIZE
#define TEAM_SIZE 64 /* work-items of a team on GPUs */
#endif

/* A straight-line program knows every step at compile time: each step's code stands in its place, and the compiler
 * knows whether a block reaches over an edge. */
#ifdef STRAIGHT_STEPS
#define STEP_MEMBER        (s->member) /* The number is the same, but compilers do not know it: see STEP. */
#define FITS(count, block) ((count) % (block) == 0)
#define UNROLL_TERMS       _Pragma("unroll 2")
#else
#define STEP_MEMBER        MEMBER
#define FITS(count, block) 0
#define UNROLL_TERMS
#endif

/* GPUs would keep a step in memory if a function took its address. */
#if LANES == 1
#define STEP_FUNCTION __attribute__((always_inline)) static
#else
#define STEP_FUNCTION static
#endif

#if LANES > 1
#define STATE   __global
#define MEMBER  0u
#define MEMBERS 1u
#define TEAM    ((uint)get_global_id(0))
#define TEAMS   ((uint)get_global_size(0))
#define MEET
#define HOLDS(R, C, r, c, row_count, column_count) 1
#define IS_WHOLE(R, C, size)                       (i + (R) <= (size) && j + (C) <= (size))
#define IS_INSIDE(R, C, r, c, size)                (i + (r) < (size) && j + (c) < (size))
typedef size_t place;
#else
#if IN_LOCAL
#define STATE __local
#else
#define STATE __global
#endif
#define MEMBER  ((uint)get_local_id(0))
#define MEMBERS ((uint)TEAM_SIZE)
#define TEAM    ((uint)get_group_id(0))
#define TEAMS   ((uint)get_num_groups(0))
#define MEET    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
/* A block at the lower or right edge is moved back so that it overlaps its neighbours, and leaves the overlap to
 * them. */
#define HOLDS(R, C, r, c, row_count, column_count)                                                                     \
    ((FITS(row_count, R) || i + (r) >= first_row_) && (FITS(column_count, C) || j + (c) >= first_column_))
#define IS_WHOLE(R, C, size)        (FITS(size, R) && FITS(size, C))
#define IS_INSIDE(R, C, r, c, size) HOLDS(R, C, r, c, size, size)
typedef uint place;
#endif

#define TEAM_FLOATS   STATE const floats
#define SHARED_FLOATS __global const float

/* One step of a program; linear_steps.h explains the members. */
typedef struct instruction {
    uint kind, mode, to, to_row, to_column, a, a_row, a_column, b, b_row, b_column, start, rows, columns, depth, extra;
#ifdef STRAIGHT_STEPS
    uint member;
#endif
} instruction;

/* Defines a step of this name that is read from memory. */
#define READ_STEP(name, words)                                                                                         \
    const uint8 x_ = vload8(0, words), y_ = vload8(1, words);                                                          \
    const instruction name = {x_.s0, x_.s1, x_.s2, x_.s3, x_.s4, x_.s5, x_.s6, x_.s7,                                  \
                              y_.s0, y_.s1, y_.s2, y_.s3, y_.s4, y_.s5, y_.s6, y_.s7};

/* The addresses of the rows of a left matrix: one for each row on CPUs; one for all on GPUs, which have few
 * registers. */
#if LANES > 1
#define LEFT_ROWS(R, A_FLOATS, a, a_row)                                                                               \
    A_FLOATS *a_at_[R];                                                                                                \
    UNROLL for (uint r = 0; r < R; r++) a_at_[r] = (a) + (place)(i + r) * (a_row);
#define LEFT(r, a_row) (*a_at_[r])
#define NEXT_OF_ROW(r) a_at_[r] += a_step_
#define NEXT_OF_ROWS
#else
#define LEFT_ROWS(R, A_FLOATS, a, a_row) A_FLOATS *a_at_ = (a) + (place)i * (a_row);
#define LEFT(r, a_row)                   a_at_[(place)(r) * (a_row)]
#define NEXT_OF_ROW(r)
#define NEXT_OF_ROWS a_at_ += a_step_
#endif

/* Adds one term to each sum; the first term sets it. */
#define FIRST_TERM(x, y, sum)   ((x) * (y))
#define ANOTHER_TERM(x, y, sum) MULTIPLY_ADD(x, y, sum)
#define SUM_TERM(R, C, sum, s, b_stride, TERM)                                                                         \
    {                                                                                                                  \
        floats y_[C];                                                                                                  \
        UNROLL for (uint c = 0; c < C; c++) y_[c] = (floats)(b_at_[c * (b_stride)]);                                   \
        b_at_ += b_step_;                                                                                              \
        UNROLL for (uint r = 0; r < R; r++) {                                                                          \
            const floats x_ = (floats)(LEFT(r, (s).a_row));                                                            \
            NEXT_OF_ROW(r);                                                                                            \
            UNROLL for (uint c = 0; c < C; c++) sum[r][c] = TERM(x_, y_[c], sum[r][c]);                                \
        }                                                                                                              \
        NEXT_OF_ROWS;                                                                                                  \
    }

/* sum[r][c] = sum over k < terms of a[i + r][k] b[k][j + c], k upwards; a and b stand at their first elements. b_stride
 * is that of b's columns, an argument so that a stride that is known at compile time is used as such. *_FLOATS: const
 * floats in STATE memory, or const float in global memory. */
#define SUM_BLOCK(R, C, sum, s, A_FLOATS, a, B_FLOATS, b, b_stride, terms)                                             \
    floats sum[R][C];                                                                                                  \
    B_FLOATS *b_at_ = (b) + j * (b_stride);                                                                            \
    const place a_step_ = (s).a_column, b_step_ = (s).b_row;                                                           \
    LEFT_ROWS(R, A_FLOATS, a, (s).a_row)                                                                               \
    if ((terms) > 0)                                                                                                   \
        SUM_TERM(R, C, sum, s, b_stride, FIRST_TERM)                                                                   \
    else                                                                                                               \
        UNROLL for (uint r = 0; r < R; r++) UNROLL for (uint c = 0; c < C; c++) sum[r][c] = (floats)(0.0f);            \
    UNROLL_TERMS for (uint k = 1; k < (terms); k++) SUM_TERM(R, C, sum, s, b_stride, ANOTHER_TERM)

/* Runs the statement that follows for each of the member's blocks; i and j are the block's first row and column. On
 * CPUs a panel of b's columns stays in the first cache while the rows of a pass by. */
#if LANES > 1
#define FOR_EACH_BLOCK(R, C, row_count, column_count)                                                                  \
    for (place j = 0; j < (column_count); j += C)                                                                      \
        for (place i = 0; i < (row_count); i += R)
#else
#define FOR_EACH_BLOCK(R, C, row_count, column_count)                                                                  \
    const uint across_ = ((column_count) + C - 1) / C, blocks_ = ((row_count) + R - 1) / R * across_;                  \
    for (uint block_ = STEP_MEMBER; block_ < blocks_; block_ += MEMBERS)                                               \
        for (place first_row_ = block_ / across_ * R, first_column_ = block_ % across_ * C,                            \
                   i = FITS(row_count, R) ? first_row_ : min(first_row_, (row_count)-R),                               \
                   j = FITS(column_count, C) ? first_column_ : min(first_column_, (column_count)-C), once_ = 1;        \
             once_; once_ = 0)
#endif

#define FOR_EACH_SUM(R, C) UNROLL for (uint r = 0; r < R; r++) UNROLL for (uint c = 0; c < C; c++)

/* STEP_MULTIPLY: 2 rows^2 depth flops, or half of that if the result is symmetric. depth: the last rows of tokens have
 * fewer terms. scale: multiplies the sums and what they are added to. A straight-line program writes to one memory and
 * is read from the other. */
#define MULTIPLY_FUNCTION(name, TO, START)                                                                             \
    STEP_FUNCTION void name(const instruction *s, STATE floats *state, TO floats *to, START const floats *start,       \
                            uint depth, uint from, float scale) {                                                      \
        STATE const floats *a = state + s->a, *b = state + s->b;                                                       \
        const uint size = s->rows;                                                                                     \
        FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {                                                                    \
            if (s->mode & MODE_SYMMETRIC && i >= j + COLUMNS)                                                          \
                continue;                                                                                              \
            SUM_BLOCK(ROWS, COLUMNS, sum, *s, TEAM_FLOATS, a, TEAM_FLOATS, b, 1, depth)                                \
            if (from == START_SELF) {                                                                                  \
                FOR_EACH_SUM(ROWS, COLUMNS)                                                                            \
                if (HOLDS(ROWS, COLUMNS, r, c, size, size))                                                            \
                    sum[r][c] += to[(i + r) * s->to_row + (j + c) * s->to_column];                                     \
            } else if (from == START_TWO_SIDED) {                                                                      \
                FOR_EACH_SUM(ROWS, COLUMNS)                                                                            \
                if (HOLDS(ROWS, COLUMNS, r, c, size, size))                                                            \
                    sum[r][c] += start[(i + r) * s->b_row + j + c] + start[(j + c) * s->b_row + i + r];                \
            } else if (from == START_OUTER) {                                                                          \
                STATE const floats *right = state + s->extra;                                                          \
                FOR_EACH_SUM(ROWS, COLUMNS)                                                                            \
                if (HOLDS(ROWS, COLUMNS, r, c, size, size))                                                            \
                    sum[r][c] = MULTIPLY_ADD(start[i + r], right[j + c], sum[r][c]);                                   \
            }                                                                                                          \
            if (scale != 1.0f)                                                                                         \
                FOR_EACH_SUM(ROWS, COLUMNS) sum[r][c] *= scale;                                                        \
            if (s->mode & MODE_SYMMETRIC && i + ROWS > j + 1) { /* the diagonal runs through the block */              \
                FOR_EACH_SUM(ROWS, COLUMNS)                                                                            \
                if (i + r <= j + c && HOLDS(ROWS, COLUMNS, r, c, size, size)) {                                        \
                    to[(i + r) * s->to_row + (j + c) * s->to_column] = sum[r][c];                                      \
                    to[(j + c) * s->to_row + (i + r) * s->to_column] = sum[r][c];                                      \
                }                                                                                                      \
                continue;                                                                                              \
            }                                                                                                          \
            FOR_EACH_SUM(ROWS, COLUMNS)                                                                                \
            if (HOLDS(ROWS, COLUMNS, r, c, size, size))                                                                \
                to[(i + r) * s->to_row + (j + c) * s->to_column] = sum[r][c];                                          \
            if (s->mode & MODE_SYMMETRIC) {                                                                            \
                FOR_EACH_SUM(ROWS, COLUMNS)                                                                            \
                if (HOLDS(ROWS, COLUMNS, r, c, size, size))                                                            \
                    to[(j + c) * s->to_row + (i + r) * s->to_column] = sum[r][c];                                      \
            }                                                                                                          \
        }                                                                                                              \
    }

/* STEP_MULTIPLY_SHARED: 2 rows^3 flops. */
#define MULTIPLY_SHARED_FUNCTION(name, TO, SECOND)                                                                     \
    STEP_FUNCTION void name(const instruction *s, STATE floats *state, TO floats *to, SECOND floats *second,           \
                            __global const float *shared) {                                                            \
        STATE const floats *b = state + s->b;                                                                          \
        __global const float *a = shared + s->a;                                                                       \
        const uint size = s->rows, from = s->mode & MODE_START;                                                        \
        FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {                                                                    \
            SUM_BLOCK(ROWS, COLUMNS, sum, *s, SHARED_FLOATS, a, TEAM_FLOATS, b, 1, size)                               \
            if (from == START_SELF) {                                                                                  \
                FOR_EACH_SUM(ROWS, COLUMNS)                                                                            \
                if (HOLDS(ROWS, COLUMNS, r, c, size, size))                                                            \
                    sum[r][c] += to[(i + r) * s->to_row + (j + c) * s->to_column];                                     \
            } else if (from == START_IDENTITY && i + ROWS > j && j + COLUMNS > i) {                                    \
                FOR_EACH_SUM(ROWS, COLUMNS)                                                                            \
                if (i + r == j + c)                                                                                    \
                    sum[r][c] += 1.0f;                                                                                 \
            }                                                                                                          \
            FOR_EACH_SUM(ROWS, COLUMNS)                                                                                \
            if (HOLDS(ROWS, COLUMNS, r, c, size, size))                                                                \
                to[(i + r) * s->to_row + (j + c) * s->to_column] = sum[r][c];                                          \
            if (s->mode & MODE_TWICE) {                                                                                \
                FOR_EACH_SUM(ROWS, COLUMNS)                                                                            \
                if (HOLDS(ROWS, COLUMNS, r, c, size, size))                                                            \
                    second[(i + r) * s->to_column + (j + c) * s->to_row] = sum[r][c];                                  \
            }                                                                                                          \
        }                                                                                                              \
    }

#ifdef STRAIGHT_STEPS
MULTIPLY_FUNCTION(multiply_near_near, __local, __local)
MULTIPLY_FUNCTION(multiply_near_far, __local, __global)
MULTIPLY_FUNCTION(multiply_far_near, __global, __local)
MULTIPLY_FUNCTION(multiply_far_far, __global, __global)
MULTIPLY_SHARED_FUNCTION(multiply_shared_near_near, __local, __local)
MULTIPLY_SHARED_FUNCTION(multiply_shared_near_far, __local, __global)
MULTIPLY_SHARED_FUNCTION(multiply_shared_far_near, __global, __local)
MULTIPLY_SHARED_FUNCTION(multiply_shared_far_far, __global, __global)
#else
MULTIPLY_FUNCTION(multiply, STATE, STATE)
MULTIPLY_SHARED_FUNCTION(multiply_shared, STATE, STATE)
#endif

/* Sets `to` to start plus a block's sums, for STEP_APPLY and STEP_APPLY_SHARED. */
#define THIN_BLOCK(R, C, B_FLOATS, b_stride)                                                                           \
    {                                                                                                                  \
        SUM_BLOCK(R, C, sum, *s, TEAM_FLOATS, a, B_FLOATS, b, b_stride, s->depth)                                      \
        FOR_EACH_SUM(R, C)                                                                                             \
        if (i + r < s->rows) {                                                                                         \
            const place at = (i + r) * s->to_row + j + c;                                                              \
            to[at] = s->mode & START_GIVEN ? sum[r][c] + start[at] : sum[r][c];                                        \
        }                                                                                                              \
    }

/* On CPUs rows are taken in pairs, and an odd last row in blocks of `wide` columns. */
#if LANES > 1
#define THIN_BLOCKS(B_FLOATS, b_stride, wide)                                                                          \
    const place pairs_ = s->rows & ~1u, cover_ = (s->columns + COLUMNS - 1) / COLUMNS * COLUMNS;                       \
    FOR_EACH_BLOCK(2, COLUMNS, pairs_, s->columns)                                                                     \
    THIN_BLOCK(2, COLUMNS, B_FLOATS, b_stride) if (pairs_ < s->rows) {                                                 \
        const place i = pairs_;                                                                                        \
        place j = 0;                                                                                                   \
        for (; j + wide <= cover_; j += wide)                                                                          \
            THIN_BLOCK(1, wide, B_FLOATS, b_stride)                                                                    \
        for (; j < cover_; j += COLUMNS)                                                                               \
            THIN_BLOCK(1, COLUMNS, B_FLOATS, b_stride)                                                                 \
    }
#define WIDE ((LANES == 16 ? 21 : 12) / COLUMNS * COLUMNS) /* as registers allow */
#define THIN_PRODUCTS(B_FLOATS)                                                                                        \
    if (s->b_column == 1) {                                                                                            \
        THIN_BLOCKS(B_FLOATS, 1, WIDE)                                                                                 \
    } else { /* an address for each column takes registers as well */                                                  \
        THIN_BLOCKS(B_FLOATS, s->b_column, COLUMNS)                                                                    \
    }
#else
#define THIN_PRODUCTS(B_FLOATS) FOR_EACH_BLOCK(1, 1, s->rows, s->columns) THIN_BLOCK(1, 1, B_FLOATS, s->b_column)
#endif

/* 2 rows columns depth flops. */
#define THIN_PRODUCT(name, B_FLOATS)                                                                                   \
    STEP_FUNCTION void name(const instruction *s, STATE floats *state, B_FLOATS *b) {                                  \
        STATE floats *to = state + s->to;                                                                              \
        STATE const floats *a = state + s->a, *start = state + s->start;                                               \
        THIN_PRODUCTS(B_FLOATS)                                                                                        \
    }

THIN_PRODUCT(apply, TEAM_FLOATS)
THIN_PRODUCT(apply_shared, SHARED_FLOATS)

#endif
