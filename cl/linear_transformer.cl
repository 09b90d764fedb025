/*
 * Linear transformers, fused: predictions, and the gradient of the squared error. The kernel runs the steps that
 * src/backend/opencl/linear_program.c composes, where the mathematics stands.
 *
 * Index mapping: a unit is `per_unit` groups of LANES sequences. On GPUs a team takes units TEAM, TEAM + TEAMS, ...; on CPUs, whose
 * cores are not equally fast or free, the next one whenever it has finished one. It writes the sum of a unit's gradients to partial[unit];
 * linear_transformer_sum adds those up. What is summed with what depends on the batch and LANES alone. Cost: the steps'
 * (linear_blocks.h), and 4 D^2 bytes of a Gram matrix, or 4 n D of tokens, read for each sequence.
 */
#include "linear_blocks.h"

#define FLAG_TRAIN  1u
#define FLAG_CLIP   2u
#define FLAG_EXPAND 4u /* parameters are copied to the form that the steps need */
#define FLAG_CLEAR                                                                                           \
    8u /* whole blocks reach into padding, which then begins as zeros instead of what memory held */
#define FLAG_NORMS 16u

/* How parameters are copied. */
#define FORM_DENSE    0u /* P and Q are matrices */
#define FORM_CORNER   1u /* their input blocks, and P has a 1 in its last corner */
#define FORM_DIAGONAL 2u /* a pair each, or Q's first alone */
#define FORM_SPARSE   3u /* Q's input block alone, summed over the heads */

/* Runs what follows for the member's elements (i, j) of [row_count, column_count]. */
#if LANES > 1
#define FOR_EACH_ELEMENT(row_count, column_count)                                                            \
    for (uint i = 0; i < (row_count); i++)                                                                   \
        for (uint j = 0; j < (column_count); j++)
#else
#define FOR_EACH_ELEMENT(row_count, column_count)                                                            \
    for (uint e_ = MEMBER; e_ < (row_count) * (column_count); e_ += MEMBERS)                                 \
        for (uint i = e_ / (column_count), j = e_ - i * (column_count), once_ = 1; once_; once_ = 0)
#endif

/* Sums of squares that are as accurate as any other sum: no square of theirs that counts was too large or too small. */
#define MOST_SQUARES  1e37f
#define LEAST_SQUARES 1e-20f

/* Where a gradient goes. */
typedef struct target {
    __global floats *to;
    uint adds;      /* to what is there, else it takes its place */
    uint squared;   /* somebody asks for the norm */
    floats squares; /* the member's share of the sum */
} target;

static void put_gradient(target *t, place at, floats value) {
    t->squares = MULTIPLY_ADD(value, value, t->squares);
    t->to[at] = t->adds ? t->to[at] + value : value;
}

/* STEP_GRADIENT: 2 rows^2 depth flops. Squares are summed for each row, so that they do not wait for one another. */
static void add_gradient(const instruction *s, STATE const floats *state, target *t) {
    STATE const floats *a = state + s->a, *b = state + s->b;
    const uint size = s->rows;
    floats squares[ROWS];
    UNROLL for (uint r = 0; r < ROWS; r++) squares[r] = (floats)(0.0f);
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        SUM_BLOCK(ROWS, COLUMNS, sum, *s, TEAM_FLOATS, a, TEAM_FLOATS, b, 1, size, size, s->depth)
        __global floats *to = t->to + s->to + i * size + j;
        if (i + ROWS > size || j + COLUMNS > size) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (i + r < size && j + c < size) {
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
/* One row of `length` elements. The last block overlaps the one before. */
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
            ((__global float *)(to + j))[lane] =
                lane < count ? from[(int)lane * stride.s0 + (int)j * stride.s2] : 0.0f;
}
#endif

/* STEP_TAKE. `from` stands at the first sequence's; strides: sequence, row, column. Lanes beyond `count` sequences are 0. */
static void take(const instruction *s, STATE floats *to, __global const float *from, int4 stride, uint count,
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
static void weigh(const instruction *s, STATE floats *state, __global const float *shared) {
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
static void sum_rows(const instruction *s, STATE floats *state) {
    STATE floats *to = state + s->to;
    STATE const floats *a = state + s->a, *b = state + s->b;
    for (uint i = MEMBER; i < s->rows; i += MEMBERS) {
        floats sum = (floats)(0.0f);
        for (uint j = 0; j + 1 < s->rows; j++)
            sum = MULTIPLY_ADD(a[i * s->a_row + j], b[i * s->b_row + j], sum);
        to[i] = sum;
        to[s->to_row + i] = a[i * s->a_row + s->rows - 1] * b[i * s->b_row + s->rows - 1];
    }
}

/* The sum of the first count - 1 elements, and the last one. */
static floats sum_but_last(STATE const floats *from, uint count, floats *last) {
    floats sum = (floats)(0.0f);
    for (uint i = 0; i + 1 < count; i++)
        sum += from[i];
    *last = from[count - 1];
    return sum;
}

/* STEP_GRADIENT_PAIR; one member does it. */
static void add_gradient_pair(const instruction *s, STATE const floats *a, target *t) {
    floats label;
    put_gradient(t, s->to, sum_but_last(a, s->columns, &label));
    if (!(s->mode & MODE_SHORT))
        put_gradient(t, s->to + 1, label);
}

/* STEP_GRADIENT_WEIGHTS; one member does it. With E = dA o G, summed over inputs (x) and labels (y):
 * dp_x = q_x E_xx + q_y E_xy, dp_y = q_x E_yx + q_y E_yy, dq_x = p_x E_xx + p_y E_yx, dq_y = p_x E_xy + p_y E_yy. */
static void add_gradient_weights(const instruction *s, STATE const floats *a, __global const float *shared,
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

/* The elementwise steps; what decides about the formula stands outside of the loop. */
#define AT                 ((place)i * s->to_row + (place)j * s->to_column)
#define FROM               ((place)i * s->a_row + (place)j * s->a_column)
#define LAST               (j + 1 == s->columns)
#define ELEMENTWISE(value) FOR_EACH_ELEMENT(s->rows, s->columns) to[AT] = value;

static void run_elementwise(const instruction *s, STATE floats *state, __global const float *shared,
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
static floats value_of(const instruction *s, STATE const floats *state) {
    STATE const floats *a = state + s->a, *b = state + s->b;
    floats sum = (floats)(0.0f);
    for (uint i = 0; i < s->rows; i++)
        for (uint j = 0; j < s->columns; j++)
            sum = MULTIPLY_ADD(a[i * s->a_row + j], b[i * s->b_row + j], sum);
    return sum + state[s->start];
}

/* Over the team: the sum of what its members have, in a fixed tree, or the largest. */
#if LANES == 1
static float fold_members(float value, uint is_max, __local float *spare) {
    spare[MEMBER] = value;
    for (uint half_ = TEAM_SIZE / 2; half_ > 0; half_ /= 2) {
        MEET;
        if (MEMBER < half_) {
            const float other = spare[MEMBER + half_];
            spare[MEMBER] = is_max ? fmax(spare[MEMBER], other) : spare[MEMBER] + other;
        }
    }
    MEET;
    value = spare[0];
    MEET;
    return value;
}
#define FOLD_MEMBERS(value, is_max) fold_members(value, is_max, spare)
#define ANY(condition)              (condition)
#else
#define FOLD_MEMBERS(value, is_max) (value)
#define ANY(condition)              any(condition)
#endif

/* A few cache lines of the next group's data, at each step: a core waits for more than a few at once. */
static void fetch_ahead(__global const float **next, __global const float *end) {
#ifdef FETCH
    enum { LINE_FLOATS = 16, LINES = 8 };
    for (uint i = 0; i < LINES && *next < end; i++, *next += LINE_FLOATS)
        FETCH(*next);
#else
    (void)next, (void)end;
#endif
}

/* sums += s gradient, s = min(1, limit / norm); nothing where the norm is not finite. */
static void add_clipped(__global floats *sums, __global const floats *gradient, uint length, floats norm,
                        float limit) {
    const floats share = select((floats)(1.0f), limit / norm, norm > limit);
    for (uint e = MEMBER; e < length; e += MEMBERS)
        sums[e] += select((floats)(0.0f), share * gradient[e], norm <= MAXFLOAT);
}

#if LANES > 1
/* Halves LANES, or fewer, vectors: neighbouring lanes of each are added, and the sums of two vectors make one. */
#define ADD_NEIGHBOURS(left)                                                                                 \
    UNROLL for (uint i = 0; i < (left); i++) {                                                               \
        const floats a = x[2 * i], b = x[2 * i + 1];                                                         \
        x[i].lo = a.even + a.odd;                                                                            \
        x[i].hi = b.even + b.odd;                                                                            \
    }

/* to[e] = the sum of from[e]'s lanes, in pairs, for `count` elements: LANES of them at a time. */
static void sum_lanes(__global float *to, __global const floats *from, uint count) {
    for (uint e = 0; e < count; e += LANES) {
        floats x[LANES];
        if (e + LANES <= count) {
            __global const floats *neighbours = from + e;
            UNROLL for (uint i = 0; i < LANES; i++) x[i] = neighbours[i];
        } else {
            UNROLL for (uint i = 0; i < LANES; i++) x[i] = from[min(e + i, count - 1)];
        }
#if LANES > 8
        ADD_NEIGHBOURS(8)
#endif
#if LANES > 4
        ADD_NEIGHBOURS(4)
#endif
        ADD_NEIGHBOURS(2)
        ADD_NEIGHBOURS(1)
        store_run(x[0], to + e, 1, count - e);
    }
}
#endif

/* Copies the parameters of the layers in use to `to`: each part as a square of side `pitch`, padded with zeros, or a pair.
 * model: depth, layers, heads, form; parts: rows that are parameters, parameters of P, of Q, pitch. */
static void expand(__global float *to, __global const float *parameters, int stride, uint4 model, uint4 parts,
                   uint size) {
    const uint form = model.s3, kept = parts.s0, sparse = form == FORM_SPARSE;
    const uint sides = form == FORM_DIAGONAL ? 1 : parts.s3, pitch = form == FORM_DIAGONAL ? 2 : parts.s3;
    const uint count = model.s0 * (sparse ? 1 : 2 * model.s2), repeats = sparse ? model.s2 : 1;
    for (uint part = 0; part < count; part++) {
        const uint layer = sparse ? part : part / 2 / model.s2, head = sparse ? 0 : part / 2 % model.s2;
        const uint which = sparse ? 1 : part % 2,
                   wide = form == FORM_DIAGONAL ? (which == 0 ? parts.s1 : parts.s2) : kept;
        const uint source =
            ((layer + 1 < model.s0 ? layer : model.s1 - 1) * model.s2 + head) * (parts.s1 + parts.s2) +
            which * parts.s1;
        FOR_EACH_ELEMENT(sides, pitch) {
            float value = form == FORM_CORNER && which == 0 && i + 1 == size && j + 1 == size ? 1.0f : 0.0f;
            for (uint k = 0; k < repeats && i < kept && j < wide; k++)
                value += parameters[(int)(source + k * parts.s2 + i * kept + j) * stride];
            to[(part * sides + i) * pitch + j] = value;
        }
    }
}

/*
 * data: tokens [batch, rows + 1, D] or Gram matrices [batch, D, D], strides of sequence, row, column; query likewise. shape: batch,
 * rows of the context, D, groups of a unit. program: `steps` steps, and behind them a number that grows by one with each unit that a
 * team of a CPU asks for; it was `given` before this launch. lengths: floats of expanded parameters, of STATE memory, elements of the
 * gradient, floats of scratch for each team. repeats: how many parameters have each element of the gradient as theirs.
 */
#if LANES == 1
__attribute__((reqd_work_group_size(TEAM_SIZE, 1, 1)))
#endif
__kernel void
linear_transformer(__global float *predictions, uint predictions_offset, int predictions_stride,
                   __global float *norms, uint norms_offset, int norms_stride,
                   __global const float *parameters, uint parameters_offset, int parameters_stride,
                   __global const float *data, uint data_offset, int4 data_stride,
                   __global const float *query, uint query_offset, int4 query_stride,
                   __global const float *targets, uint targets_offset, int targets_stride,
                   __global const float *threshold, uint threshold_offset, __global uint *program, uint steps,
                   uint given, uint4 shape, uint4 model, uint4 parts, uint4 lengths, uint2 units, uint flags,
                   float factor, float repeats, __global float *partial, __global float *scratch
#if LANES == 1 && IN_LOCAL
                   ,
                   __local floats *state
#endif
) {
    const uint batch = shape.s0, length = lengths.s2;
    __global float *free = scratch + (place)TEAM * lengths.s3;
    __global const float *shared = parameters + parameters_offset;
#if LANES == 1
    __local float spare[TEAM_SIZE];
#endif
    if (flags & FLAG_EXPAND) {
        expand(free, shared, parameters_stride, model, parts, shape.s2);
        shared = free;
        free += lengths.s0;
    }
#if LANES > 1 || !IN_LOCAL
    __global floats *state = (__global floats *)free;
    free += lengths.s1;
#endif
    __global floats *const own = (__global floats *)free, *sums = own + length;
    /* A unit's first group need not add to zeros, which remain only where no step writes. */
    const uint adds_to_zeros = (flags & FLAG_CLIP) | (LANES == 1);
    for (uint e = MEMBER; e < length && flags & FLAG_CLIP; e += MEMBERS)
        own[e] = (floats)(0.0f);
    for (uint e = MEMBER; e < lengths.s1 / LANES && flags & FLAG_CLEAR; e += MEMBERS)
        state[e] = (floats)(0.0f);

    uint is_new = 1; /* nothing stands in `sums` */
#if LANES > 1
#define NEXT_UNIT (atomic_inc(program + steps * STEP_WORDS) - given)
    for (uint unit = NEXT_UNIT; unit < units.s1; unit = NEXT_UNIT) {
#else
    for (uint unit = units.s0 + TEAM; unit < units.s1; unit += TEAMS) {
        sums = partial + (place)unit * length;
#endif
        uint measures = 0;
        for (uint e = MEMBER; e < length && flags & FLAG_TRAIN && (is_new || adds_to_zeros); e += MEMBERS)
            sums[e] = (floats)(0.0f);
        for (uint group = 0; group < shape.s3; group++) {
            const uint first = (unit * shape.s3 + group) * LANES, count = min(batch - first, (uint)LANES);
            const uint apart = flags & FLAG_CLIP || measures;
            target gradient = {apart ? own : sums, !apart && (group > 0 || adds_to_zeros), flags & FLAG_NORMS,
                               (floats)(0.0f)};
            floats slope = (floats)(0.0f);
            uint row = 0;
            if (first >= batch)
                break;
            __global const float *next = data + data_offset + (int)min(batch, first + LANES) * data_stride.s0;
            __global const float *const next_end =
                data + data_offset + (int)min(batch, first + 2 * LANES) * data_stride.s0;
            for (uint at = 0; at < steps; at++) {
                const instruction s = read_step(program + at * STEP_WORDS);
                const uint rest = shape.s1 - row;
                fetch_ahead(&next, next_end);
                MEET;
                switch (s.kind) {
                case STEP_TAKE:
                    if (s.mode & MODE_QUERY)
                        take(&s, state + s.to, query + query_offset + (int)first * query_stride.s0,
                             query_stride, count, s.rows);
                    else
                        take(&s, state + s.to,
                             data + data_offset + (int)first * data_stride.s0 + (int)row * data_stride.s1,
                             data_stride, count, s.mode & START_LATER ? min(s.rows, rest) : s.rows);
                    break;
                case STEP_MORE_ROWS:
                    if (rest > s.rows) {
                        row += s.rows;
                        at = s.to - 1;
                    }
                    break;
                case STEP_MULTIPLY: {
                    const uint from = s.mode & MODE_START;
                    const float scale = s.mode & MODE_SCALED ? factor : 1.0f;
                    if (from == START_LATER)
                        multiply(&s, state, min(s.depth, rest), row > 0 ? START_SELF : START_NONE,
                                 rest > s.depth ? 1.0f : scale);
                    else
                        multiply(&s, state, s.depth, from, scale);
                    break;
                }
                case STEP_MULTIPLY_SHARED:
                    multiply_shared(&s, state, shared);
                    break;
                case STEP_GRADIENT:
                    add_gradient(&s, state, &gradient);
                    break;
                case STEP_APPLY:
                    apply(&s, state, state + s.b);
                    break;
                case STEP_APPLY_SHARED:
                    apply_shared(&s, state, shared + s.b);
                    break;
                case STEP_WEIGH:
                    weigh(&s, state, shared);
                    break;
                case STEP_VALUE: {
                    const floats value = value_of(&s, state);
                    if (MEMBER == 0)
                        store_run(-value, predictions + predictions_offset + (int)first * predictions_stride,
                                  predictions_stride, count);
                    if (flags & FLAG_TRAIN)
                        slope =
                            2.0f * (value + load_run(targets + targets_offset + (int)first * targets_stride,
                                                     targets_stride, count));
                    break;
                }
                case STEP_COLUMN_DOTS:
                    for (uint j = MEMBER; j < s.columns; j += MEMBERS) {
                        floats sum = (floats)(0.0f);
                        for (uint k = 0; k < s.depth; k++)
                            sum =
                                MULTIPLY_ADD(state[s.a + k * s.a_row + j], state[s.b + k * s.b_row + j], sum);
                        state[s.to + j] = sum;
                    }
                    break;
                case STEP_ROW_SUMS:
                    sum_rows(&s, state);
                    break;
                case STEP_GRADIENT_ROW:
                    for (uint j = MEMBER; j < s.columns; j += MEMBERS)
                        put_gradient(&gradient, s.to + j, state[s.a + j]);
                    break;
                case STEP_GRADIENT_PAIR:
                    if (MEMBER == 0)
                        add_gradient_pair(&s, state + s.a, &gradient);
                    break;
                case STEP_GRADIENT_WEIGHTS:
                    if (MEMBER == 0)
                        add_gradient_weights(&s, state + s.a, shared, &gradient);
                    break;
                default:
                    run_elementwise(&s, state, shared, factor, slope);
                    break;
                }
            }
            if (flags & FLAG_NORMS) {
                const floats squares = repeats * FOLD_MEMBERS(gradient.squares, 0);
                /* Of a sequence: its squares leave the range of a float. The group then runs again, for its gradient apart. */
                const ints odd =
                    (squares > MOST_SQUARES || squares < LEAST_SQUARES) && LANE_NUMBERS < (uints)(count);
                floats norm = sqrt(squares);
                if (ANY(odd) && !apart) {
                    for (uint e = MEMBER; e < length; e += MEMBERS)
                        own[e] = (floats)(0.0f);
                    measures = 1;
                    group--;
                    continue;
                }
                measures = 0;
                if (ANY(odd)) {
                    floats largest = (floats)(0.0f), sum = largest;
                    for (uint e = MEMBER; e < length; e += MEMBERS)
                        largest = fmax(largest, fabs(own[e]));
                    largest = FOLD_MEMBERS(largest, 1);
                    for (uint e = MEMBER; e < length; e += MEMBERS) {
                        const floats share = own[e] / largest;
                        sum += share * share;
                    }
                    sum = repeats * FOLD_MEMBERS(sum, 0);
                    norm = select(norm,
                                  select(largest, largest * sqrt(sum), largest > 0.0f && largest <= MAXFLOAT),
                                  odd);
                }
                if (MEMBER == 0)
                    store_run(norm, norms + norms_offset + (int)first * norms_stride, norms_stride, count);
                if (flags & FLAG_CLIP)
                    add_clipped(sums, own, length, norm, threshold[threshold_offset]);
            }
            MEET;
        }
#if LANES > 1
        if (flags & FLAG_TRAIN)
            sum_lanes(partial + (place)unit * length, sums, length);
        is_new = 0;
#endif
    }
}
