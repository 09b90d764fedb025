/*
 * What the steps of linear_steps.h do but for the products of linear_blocks.h, and each of them as a statement of the
 * kernel: for the interpreter, and for straight-line programs.
 */
#ifndef ICL_LINEAR_RUN_H
#define ICL_LINEAR_RUN_H

#include "linear_blocks.h"

#define FLAG_TRAIN  1u
#define FLAG_CLIP   2u
#define FLAG_EXPAND 4u /* Parameters are copied to the form that the steps need. */
#define FLAG_CLEAR  8u /* Padding begins as zeros, because whole blocks reach into it. */
#define FLAG_NORMS  16u

/* Runs the statement that follows for the member's elements (i, j) of [row_count, column_count]. */
#if LANES > 1
#define FOR_EACH_ELEMENT_OF(member, row_count, column_count)                                                           \
    for (uint i = 0; i < (row_count); i++)                                                                             \
        for (uint j = 0; j < (column_count); j++)
#else
#define FOR_EACH_ELEMENT_OF(member, row_count, column_count)                                                           \
    for (uint e_ = (member); e_ < (row_count) * (column_count); e_ += MEMBERS)                                         \
        for (uint i = e_ / (column_count), j = e_ - i * (column_count), once_ = 1; once_; once_ = 0)
#endif
#define FOR_EACH_ELEMENT(row_count, column_count) FOR_EACH_ELEMENT_OF(STEP_MEMBER, row_count, column_count)

/* Where a gradient goes. */
typedef struct target {
    __global floats *to;
    uint adds;      /* The result is added to what is there, or else replaces it. */
    uint squared;   /* The caller needs the norm. */
    floats squares; /* the member's share of the sum */
} target;

STEP_FUNCTION void put_gradient(target *t, place at, floats value) {
    t->squares = MULTIPLY_ADD(value, value, t->squares);
    t->to[at] = t->adds ? t->to[at] + value : value;
}

/* STEP_GRADIENT: 2 rows^2 depth flops. Squares are summed for each row, so that they do not wait for one another. */
STEP_FUNCTION void add_gradient(const instruction *s, STATE const floats *state, target *t) {
    STATE const floats *a = state + s->a, *b = state + s->b;
    const uint size = s->rows;
    floats squares[ROWS];
    UNROLL for (uint r = 0; r < ROWS; r++) squares[r] = (floats)(0.0f);
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        SUM_BLOCK(ROWS, COLUMNS, sum, *s, TEAM_FLOATS, a, TEAM_FLOATS, b, 1, s->depth)
        __global floats *to = t->to + s->to + i * size + j;
        if (!IS_WHOLE(ROWS, COLUMNS, size)) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (IS_INSIDE(ROWS, COLUMNS, r, c, size)) {
                squares[r] = MULTIPLY_ADD(sum[r][c], sum[r][c], squares[r]);
                to[r * size + c] = t->adds ? to[r * size + c] + sum[r][c] : sum[r][c];
            }
            continue;
        }
        if (t->squared)
            FOR_EACH_SUM(ROWS, COLUMNS) squares[r] = MULTIPLY_ADD(sum[r][c], sum[r][c], squares[r]);
        if (t->adds)
            FOR_EACH_SUM(ROWS, COLUMNS) to[r * size + c] += sum[r][c];
        else
            FOR_EACH_SUM(ROWS, COLUMNS) to[r * size + c] = sum[r][c];
    }
    UNROLL for (uint r = 0; r < ROWS; r++) t->squares += squares[r];
}

#if LANES > 1
/* Adds up one row of `length` elements. The last block overlaps the one before. */
static void take_row(__global floats *to, __global const float *from, int4 stride, uint count, uint length) {
    if (stride.s2 == 1 && length >= LANES) {
        for (uint j = 0; j < length; j += LANES) {
            const uint at = min(j, length - LANES);
            load_columns(to + at, from + at, stride.s0, count);
        }
        return;
    }
    for (uint lane = 0; lane < LANES; lane++)
        for (uint j = 0; j < length; j++)
            ((__global float *)(to + j))[lane] = lane < count ? from[(int)lane * stride.s0 + (int)j * stride.s2] : 0.0f;
}
#endif

/* STEP_TAKE. `from` stands at the first sequence's element; strides: of sequence, row, column. Lanes beyond `count`
 * sequences become 0. */
STEP_FUNCTION void take(const instruction *s, STATE floats *to, __global const float *from, int4 stride, uint count,
                        uint rows) {
#if LANES > 1
    const uint is_dense = stride.s1 == (int)s->columns * stride.s2 && s->to_row == s->columns;
    for (uint i = 0; i < (is_dense ? min(rows, 1u) : rows); i++)
        take_row(to + (place)i * s->to_row, from + (int)i * stride.s1, stride, count,
                 is_dense ? rows * s->columns : s->columns);
#else
    FOR_EACH_ELEMENT(rows, s->columns)
    to[i * s->to_row + j] = from[(int)i * stride.s1 + (int)j * stride.s2];
#endif
}

/* STEP_WEIGH: W_ij = sum over heads of p_i q_j, where p and q are (x ... x, y). */
STEP_FUNCTION void weigh(const instruction *s, STATE floats *state, __global const float *shared) {
    STATE floats *to = state + s->to, *a = state + s->a;
    float4 w = (float4)(0.0f); /* of inputs (x) and label (y): xx, xy, yx, yy */
    for (uint head = 0; head < s->depth; head++) {
        const float4 pairs = vload4(head, shared + s->b);
        w += pairs.s0011 * pairs.s2323;
    }
    FOR_EACH_ELEMENT(s->rows, s->columns) {
        const float2 row = i + 1 < s->rows ? w.s01 : w.s23;
        const floats value = (j + 1 < s->columns ? row.s0 : row.s1) * a[i * s->a_row + j];
        to[i * s->to_row + j] = i == j && s->mode & MODE_IDENTITY ? value + 1.0f : value;
    }
}

/* STEP_ROW_SUMS. */
STEP_FUNCTION void sum_rows(const instruction *s, STATE floats *state) {
    STATE floats *to = state + s->to;
    STATE const floats *a = state + s->a, *b = state + s->b;
    for (uint i = STEP_MEMBER; i < s->rows; i += MEMBERS) {
        floats sum = (floats)(0.0f);
        for (uint j = 0; j + 1 < s->rows; j++)
            sum = MULTIPLY_ADD(a[i * s->a_row + j], b[i * s->b_row + j], sum);
        to[i] = sum;
        to[s->to_row + i] = a[i * s->a_row + s->rows - 1] * b[i * s->b_row + s->rows - 1];
    }
}

/* Returns the sum of the first count - 1 elements, and the last one. */
STEP_FUNCTION floats sum_but_last(STATE const floats *from, uint count, floats *last) {
    floats sum = (floats)(0.0f);
    for (uint i = 0; i + 1 < count; i++)
        sum += from[i];
    *last = from[count - 1];
    return sum;
}

/* STEP_GRADIENT_PAIR: one member runs it. */
STEP_FUNCTION void add_gradient_pair(const instruction *s, STATE const floats *a, target *t) {
    floats label;
    put_gradient(t, s->to, sum_but_last(a, s->columns, &label));
    if (!(s->mode & MODE_SHORT))
        put_gradient(t, s->to + 1, label);
}

/* STEP_GRADIENT_WEIGHTS: one member runs it. With E = dA o G, summed over inputs (x) and labels (y): dp_x = q_x E_xx +
 * q_y E_xy, dp_y = q_x E_yx + q_y E_yy, dq_x = p_x E_xx + p_y E_yx, dq_y = p_x E_xy + p_y E_yy. */
STEP_FUNCTION void add_gradient_weights(const instruction *s, STATE const floats *a, __global const float *shared,
                                        target *t) {
    floats yx, yy;
    const floats xx = sum_but_last(a, s->columns, &yx), xy = sum_but_last(a + s->a_row, s->columns, &yy);
    for (uint head = 0; head < s->depth; head++) {
        const float4 pairs = vload4(head, shared + s->b);
        put_gradient(t, s->to + 4 * head, pairs.s2 * xx + pairs.s3 * xy);
        put_gradient(t, s->to + 4 * head + 1, pairs.s2 * yx + pairs.s3 * yy);
        put_gradient(t, s->to + 4 * head + 2, pairs.s0 * xx + pairs.s1 * yx);
        if (!(s->mode & MODE_SHORT))
            put_gradient(t, s->to + 4 * head + 3, pairs.s0 * xy + pairs.s1 * yy);
    }
}

/* The elementwise steps. The choice of the formula stands outside of the loop. */
#define AT                 ((place)i * s->to_row + (place)j * s->to_column)
#define FROM               ((place)i * s->a_row + (place)j * s->a_column)
#define LAST               (j + 1 == s->columns)
#define ELEMENTWISE(value) FOR_EACH_ELEMENT(s->rows, s->columns) to[AT] = value;

STEP_FUNCTION void run_elementwise(const instruction *s, STATE floats *state, __global const float *shared,
                                   float factor, floats slope) {
    STATE floats *to = state + s->to, *start = state + s->start;
    STATE const floats *a = state + s->a;
    switch (s->kind) {
    case STEP_SCALE:
        ELEMENTWISE(factor * to[AT])
        break;
    case STEP_COPY:
        if (s->mode & MODE_SLOPE)
            ELEMENTWISE(LAST ? a[FROM] + slope : a[FROM])
        else
            ELEMENTWISE(a[FROM])
        break;
    case STEP_SLOPE:
        ELEMENTWISE(slope * a[FROM])
        break;
    case STEP_BROADCAST:
        ELEMENTWISE((floats)(shared[s->a + FROM]))
        break;
    case STEP_PAIR:
        if (s->mode & START_GIVEN)
            ELEMENTWISE(shared[s->b + LAST] * a[FROM] + start[AT])
        else
            ELEMENTWISE(shared[s->b + LAST] * a[FROM])
        break;
    default: /* STEP_LABEL */
        ELEMENTWISE((floats)(LAST ? shared[s->b + 1] : 0.0f))
        break;
    }
}

/* STEP_VALUE: minus the prediction. Every member computes it. */
STEP_FUNCTION floats value_of(const instruction *s, STATE const floats *state) {
    STATE const floats *a = state + s->a, *b = state + s->b;
    floats sum = (floats)(0.0f);
    for (uint i = 0; i < s->rows; i++)
        for (uint j = 0; j < s->columns; j++)
            sum = MULTIPLY_ADD(a[i * s->a_row + j], b[i * s->b_row + j], sum);
    return sum + state[s->start];
}

/* The steps, as statements of the kernel below: a step is `s`, and `rest` rows of the context are left. */
#define RUN_TAKE                                                                                                       \
    if (s->mode & MODE_QUERY)                                                                                          \
        take(s, state + s->to, query + FAR(query_offset) + (int)first * query_stride.s0, query_stride, count,          \
             s->rows);                                                                                                 \
    else                                                                                                               \
        take(s, state + s->to, data + FAR(data_offset) + (int)first * data_stride.s0 + (int)row * data_stride.s1,      \
             data_stride, count, s->mode & START_LATER ? min(s->rows, rest) : s->rows);
#define RUN_MULTIPLY(multiply, to_memory, start_memory)                                                                \
    const uint from = s->mode & MODE_START;                                                                            \
    const float scale = s->mode & MODE_SCALED ? factor : 1.0f;                                                         \
    if (from == START_LATER)                                                                                           \
        multiply(s, state, to_memory + s->to, start_memory + s->start, min(s->depth, rest),                            \
                 row > 0 ? START_SELF : START_NONE, rest > s->depth ? 1.0f : scale);                                   \
    else                                                                                                               \
        multiply(s, state, to_memory + s->to, start_memory + s->start, s->depth, from, scale);
#define RUN_MULTIPLY_SHARED(multiply, to_memory, second_memory)                                                        \
    multiply(s, state, to_memory + s->to, second_memory + s->extra, shared);
#define RUN_GRADIENT     add_gradient(s, state, &gradient);
#define RUN_APPLY        apply(s, state, state + s->b);
#define RUN_APPLY_SHARED apply_shared(s, state, shared + s->b);
#define RUN_WEIGH        weigh(s, state, shared);
#define RUN_VALUE                                                                                                      \
    const floats value = value_of(s, state);                                                                           \
    floats answer = -value;                                                                                            \
    if (flags & FLAG_TRAIN) {                                                                                          \
        const floats miss =                                                                                            \
            value + load_run(targets + FAR(targets_offset) + (int)first * targets_stride, targets_stride, count);      \
        slope = 2.0f * miss;                                                                                           \
        answer = miss * miss;                                                                                          \
    }                                                                                                                  \
    if (STEP_MEMBER == 0)                                                                                              \
        store_run(answer, answers + FAR(answers_offset) + (int)first * answers_stride, answers_stride, count);
#define RUN_COLUMN_DOTS                                                                                                \
    for (uint j = STEP_MEMBER; j < s->columns; j += MEMBERS) {                                                         \
        floats sum = (floats)(0.0f);                                                                                   \
        for (uint k = 0; k < s->depth; k++)                                                                            \
            sum = MULTIPLY_ADD(state[s->a + k * s->a_row + j], state[s->b + k * s->b_row + j], sum);                   \
        state[s->to + j] = sum;                                                                                        \
    }
#define RUN_ROW_SUMS sum_rows(s, state);
#define RUN_GRADIENT_ROW                                                                                               \
    for (uint j = STEP_MEMBER; j < s->columns; j += MEMBERS)                                                           \
        put_gradient(&gradient, s->to + j, state[s->a + j]);
#define RUN_GRADIENT_PAIR                                                                                              \
    if (STEP_MEMBER == 0)                                                                                              \
        add_gradient_pair(s, state + s->a, &gradient);
#define RUN_GRADIENT_WEIGHTS                                                                                           \
    if (STEP_MEMBER == 0)                                                                                              \
        add_gradient_weights(s, state + s->a, shared, &gradient);
#define RUN_ELEMENTWISE run_elementwise(s, state, shared, factor, slope);

#ifdef STRAIGHT_STEPS
/* STEP, the step's numbers with commas between them, RUN_STEP and the macro that runs it: a statement. OpenCL C 1.2 has
 * no macros with `...` that could take them all. `nothing` is a 0 in local memory that is read anew for each step: a
 * compiler that knew the member and where far memory and parameters begin would compute the addresses of all steps
 * before the first one, and run out of registers. */
#define MEMBER_NOW    ((uint)get_local_id(0) + *nothing)
#define HIDDEN(place) ((place) + *nothing)
#define FAR(place)    ((place) + zero_)
#define STEP                                                                                                           \
    {                                                                                                                  \
        const uint zero_ = *nothing;                                                                                   \
        const instruction step_ = {
#define RUN_STEP(RUN)                                                                                                  \
    , (uint)get_local_id(0) + zero_                                                                                    \
    }                                                                                                                  \
    , *const s = &step_;                                                                                               \
    const uint rest = shape.s1 - row;                                                                                  \
    RUN(void) rest;                                                                                                    \
    }
/* Ends the loop over rows of tokens. */
#define FOR_MORE_ROWS for (;;)
#define MORE_ROWS(rows)                                                                                                \
    if (shape.s1 - row <= (rows))                                                                                      \
        break;                                                                                                         \
    row += (rows);
#define FETCH_FAR(to, from, count)                                                                                     \
    for (uint e = MEMBER_NOW; e < (count); e += MEMBERS)                                                               \
        state[(to) + e] = far[(from) + e];
#define KEEP_FAR(to, from, count)                                                                                      \
    for (uint e = MEMBER_NOW; e < (count); e += MEMBERS)                                                               \
        far[(to) + e] = state[(from) + e];
#else
#define MEMBER_NOW    MEMBER
#define HIDDEN(place) (place)
#define FAR(place)    (place)
#endif

#endif
