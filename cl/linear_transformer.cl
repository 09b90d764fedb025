/*
 * Linear transformers, fused: predictions, and the gradient of the squared error. The kernel runs the steps that
 * src/backend/opencl/linear_program.c composes, where the mathematics stands.
 *
 * Index mapping: a unit is `per_unit` groups of LANES sequences. A team takes units TEAM, TEAM + TEAMS, ..., and writes the sum of
 * a unit's gradients to partial[unit]; linear_transformer_sum adds those up. What is summed with what depends on the batch and
 * LANES alone. Cost: the steps' (linear_blocks.h), and 4 D^2 bytes of a Gram matrix, or 4 n D of tokens, read for each sequence.
 */
#include "linear_blocks.h"

#define FLAG_TRAIN  1u
#define FLAG_CLIP   2u
#define FLAG_EXPAND 4u /* parameters are copied to the form that the steps need */

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

/* Sums of squares that may leave the range of a float: of elements times 2^64, 1 and 2^-64. */
typedef struct squares {
    floats small, plain, large;
} squares;

#define UP   18446744073709551616.0f
#define DOWN (1.0f / 18446744073709551616.0f)

/* Puts one element of the sequence's gradient in its place, or adds it to the unit's, and its square to the member's sums. */
static void put_gradient(__global float *to, place at, floats value, uint flags, squares *sums) {
    const floats up = value * UP, down = value * DOWN;
    sums->small = MULTIPLY_ADD(up, up, sums->small);
    sums->plain = MULTIPLY_ADD(value, value, sums->plain);
    sums->large = MULTIPLY_ADD(down, down, sums->large);
    if (!(flags & FLAG_CLIP))
        value += AT(to, at);
    PUT(value, to, at);
}

/* STEP_GRADIENT: 2 rows^2 depth flops. */
static void add_gradient(const instruction *s, STATE float *state, __global float *gradient, uint flags,
                         squares *sums) {
    STATE const float *a = state + (place)s->a * LANES, *b = state + (place)s->b * LANES;
    __global float *to = gradient + (place)s->to * LANES;
    const uint size = s->rows;
    FOR_EACH_BLOCK(ROWS, COLUMNS, size, size) {
        SUM_BLOCK(ROWS, COLUMNS, sum, *s, a, AT, b, AT, 1, size, size, s->depth)
        if (i + ROWS <= size && j + COLUMNS <= size) {
            FOR_EACH_SUM(ROWS, COLUMNS)
            put_gradient(to, (i + r) * size + j + c, sum[r][c], flags, sums);
        } else {
            FOR_EACH_SUM(ROWS, COLUMNS)
            if (i + r < size && j + c < size)
                put_gradient(to, (i + r) * size + j + c, sum[r][c], flags, sums);
        }
    }
}

/* STEP_TAKE. `from` stands at the first sequence's; strides: sequence, row, column. Lanes beyond `count` sequences are 0. */
static void take(const instruction *s, STATE float *to, __global const float *from, int4 stride, uint count,
                 uint rows) {
#if LANES > 1
    for (uint i = 0; i < rows; i++)
        for (uint lane = 0; lane < LANES; lane++) {
            STATE float *to_lane = to + (place)i * s->to_row * LANES + lane;
            __global const float *from_row = from + (int)lane * stride.s0 + (int)i * stride.s1;
            for (uint j = 0; j < s->columns; j++)
                to_lane[(place)j * LANES] = lane < count ? from_row[(int)j * stride.s2] : 0.0f;
        }
#else
    FOR_EACH_ELEMENT(rows, s->columns)
    to[i * s->to_row + j] = from[(int)i * stride.s1 + (int)j * stride.s2];
#endif
}

/* STEP_WEIGH: W_ij = sum over heads of p_i q_j, where p and q are (x ... x, y). */
static void weigh(const instruction *s, STATE float *state, __global const float *shared) {
    STATE float *to = state + (place)s->to * LANES, *a = state + (place)s->a * LANES;
    float4 w = (float4)(0.0f); /* of inputs (x) and label (y): xx, xy, yx, yy */
    for (uint head = 0; head < s->depth; head++) {
        const float4 pairs = vload4(head, shared + s->b);
        w += pairs.s0011 * pairs.s2323;
    }
    FOR_EACH_ELEMENT(s->rows, s->columns) {
        const float2 row = i + 1 < s->rows ? w.s01 : w.s23;
        const floats value = (j + 1 < s->columns ? row.s0 : row.s1) * AT(a, i * s->a_row + j);
        PUT(i == j && s->mode & MODE_IDENTITY ? value + 1.0f : value, to, i * s->to_row + j);
    }
}

/* STEP_ROW_SUMS. */
static void sum_rows(const instruction *s, STATE float *state) {
    STATE float *to = state + (place)s->to * LANES;
    STATE const float *a = state + (place)s->a * LANES, *b = state + (place)s->b * LANES;
    for (uint i = MEMBER; i < s->rows; i += MEMBERS) {
        floats sum = (floats)(0.0f);
        for (uint j = 0; j + 1 < s->rows; j++)
            sum = MULTIPLY_ADD(AT(a, i * s->a_row + j), AT(b, i * s->b_row + j), sum);
        PUT(sum, to, i);
        PUT(AT(a, i * s->a_row + s->rows - 1) * AT(b, i * s->b_row + s->rows - 1), to, s->to_row + i);
    }
}

/* The sum of the first count - 1 elements, and the last one. */
static floats sum_but_last(STATE const float *from, uint count, floats *last) {
    floats sum = (floats)(0.0f);
    for (uint i = 0; i + 1 < count; i++)
        sum += AT(from, i);
    *last = AT(from, count - 1);
    return sum;
}

/* STEP_GRADIENT_PAIR; one member does it. */
static void add_gradient_pair(const instruction *s, STATE const float *a, __global float *to, uint flags,
                              squares *sums) {
    floats label, inputs = sum_but_last(a, s->columns, &label);
    put_gradient(to, 0, inputs, flags, sums);
    if (!(s->mode & MODE_SHORT))
        put_gradient(to, 1, label, flags, sums);
}

/* STEP_GRADIENT_WEIGHTS; one member does it. With E = dA o G, summed over inputs (x) and labels (y):
 * dp_x = q_x E_xx + q_y E_xy, dp_y = q_x E_yx + q_y E_yy, dq_x = p_x E_xx + p_y E_yx, dq_y = p_x E_xy + p_y E_yy. */
static void add_gradient_weights(const instruction *s, STATE const float *a, __global const float *shared,
                                 __global float *to, uint flags, squares *sums) {
    floats yx, yy, xx = sum_but_last(a, s->columns, &yx);
    const floats xy = sum_but_last(a + (place)s->a_row * LANES, s->columns, &yy);
    for (uint head = 0; head < s->depth; head++) {
        const float4 pairs = vload4(head, shared + s->b);
        put_gradient(to, 4 * head, pairs.s2 * xx + pairs.s3 * xy, flags, sums);
        put_gradient(to, 4 * head + 1, pairs.s2 * yx + pairs.s3 * yy, flags, sums);
        put_gradient(to, 4 * head + 2, pairs.s0 * xx + pairs.s1 * yx, flags, sums);
        if (!(s->mode & MODE_SHORT))
            put_gradient(to, 4 * head + 3, pairs.s0 * xy + pairs.s1 * yy, flags, sums);
    }
}

/* The elementwise steps. */
static void run_elementwise(const instruction *s, STATE float *state, __global const float *shared,
                            float factor, floats slope) {
    STATE float *to = state + (place)s->to * LANES, *start = state + (place)s->start * LANES;
    STATE const float *a = state + (place)s->a * LANES;
    FOR_EACH_ELEMENT(s->rows, s->columns) {
        const place at = (place)i * s->to_row + (place)j * s->to_column,
                    from = (place)i * s->a_row + (place)j * s->a_column;
        const uint is_last = j + 1 == s->columns;
        floats value;
        switch (s->kind) {
        case STEP_SCALE:
            value = factor * AT(to, at);
            break;
        case STEP_COPY:
            value = AT(a, from);
            if (is_last && s->mode & MODE_SLOPE)
                value += slope;
            break;
        case STEP_SLOPE:
            value = slope * AT(a, from);
            break;
        case STEP_BROADCAST:
            value = SHARED_AT(shared, s->a + from);
            break;
        case STEP_PAIR:
            value = shared[s->b + is_last] * AT(a, from);
            if (s->mode & START_GIVEN)
                value += AT(start, at);
            break;
        default: /* STEP_LABEL */
            value = (floats)(is_last ? shared[s->b + 1] : 0.0f);
            break;
        }
        PUT(value, to, at);
    }
}

/* STEP_VALUE: minus the prediction. Every member computes it. */
static floats value_of(const instruction *s, STATE const float *state) {
    STATE const float *a = state + (place)s->a * LANES, *b = state + (place)s->b * LANES;
    floats sum = (floats)(0.0f);
    for (uint i = 0; i < s->rows; i++)
        for (uint j = 0; j < s->columns; j++)
            sum = MULTIPLY_ADD(AT(a, i * s->a_row + j), AT(b, i * s->b_row + j), sum);
    return sum + AT(state, s->start);
}

#if LANES == 1
/* The sums over the team of what its members have, in a fixed tree. */
static void add_up_members(squares *sums, __local float3 *spare) {
    spare[MEMBER] = (float3)(sums->small, sums->plain, sums->large);
    for (uint half_ = TEAM_SIZE / 2; half_ > 0; half_ /= 2) {
        MEET;
        if (MEMBER < half_)
            spare[MEMBER] += spare[MEMBER + half_];
    }
    MEET;
    sums->small = spare[0].s0, sums->plain = spare[0].s1, sums->large = spare[0].s2;
}
#endif

/* The norm, from those sums whose elements were scaled least, as long as they are in range. */
static floats norm_of(const squares *sums) {
    const floats norm = select(sqrt(sums->plain), sqrt(sums->large) * UP, sums->plain > 1e37f);
    return select(norm, sqrt(sums->small) * DOWN, sums->plain < 1e-20f);
}

/* sums += s gradient, s = min(1, limit / norm); nothing where the norm is not finite. */
static void add_clipped(__global float *sums, __global const float *gradient, uint length, floats norm,
                        float limit) {
    const floats share = select((floats)(1.0f), limit / norm, norm > limit);
    for (uint e = MEMBER; e < length; e += MEMBERS)
        PUT(AT(sums, e) + select((floats)(0.0f), share * AT(gradient, e), norm <= MAXFLOAT), sums, e);
}

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

/* Copies the parameters of the layers in use to `to`: each part as a square of side `pitch`, padded with zeros, or a pair.
 * model: depth, layers, heads, form; parts: rows that are parameters, parameters of P, of Q, pitch. */
static void expand(__global float *to, uint length, __global const float *parameters, int stride, uint4 model,
                   uint4 parts, uint size) {
    const uint form = model.s3, kept = parts.s0, pitch = parts.s3, sparse = form == FORM_SPARSE;
    const uint part_length = form == FORM_DIAGONAL ? 2 : pitch * pitch, per_layer = sparse ? 1 : 2 * model.s2;
    for (uint e = MEMBER; e < length; e += MEMBERS) {
        const uint part = e / part_length, at = e - part * part_length, layer = part / per_layer;
        const uint which = sparse ? 1 : part % 2, head = sparse ? 0 : part / 2 % model.s2;
        const uint source =
            ((layer + 1 < model.s0 ? layer : model.s1 - 1) * model.s2 + head) * (parts.s1 + parts.s2) +
            which * parts.s1;
        const uint i = form == FORM_DIAGONAL ? 0 : at / pitch, j = at - i * pitch;
        const uint inside =
            form == FORM_DIAGONAL ? j < (which == 0 ? parts.s1 : parts.s2) : i < kept && j < kept;
        float value = form == FORM_CORNER && which == 0 && i + 1 == size && j + 1 == size ? 1.0f : 0.0f;
        for (uint k = 0; inside && k < (sparse ? model.s2 : 1); k++)
            value += parameters[(int)(source + k * parts.s2 + i * kept + j) * stride];
        to[e] = value;
    }
}

/*
 * data: tokens [batch, rows + 1, D] or Gram matrices [batch, D, D], strides of sequence, row, column; query likewise. shape: batch,
 * rows of the context, D, groups of a unit. program: `steps` steps. lengths:
 * floats of expanded parameters, of STATE memory, elements of the gradient, floats of scratch for each team. repeats: how many
 * parameters have each element of the gradient as theirs.
 */
__kernel void linear_transformer(__global float *predictions, uint predictions_offset, int predictions_stride,
                                 __global float *norms, uint norms_offset, int norms_stride,
                                 __global const float *parameters, uint parameters_offset,
                                 int parameters_stride, __global const float *data, uint data_offset,
                                 int4 data_stride, __global const float *query, uint query_offset,
                                 int4 query_stride, __global const float *targets, uint targets_offset,
                                 int targets_stride, __global const float *threshold, uint threshold_offset,
                                 __global const uint *program, uint steps, uint4 shape, uint4 model,
                                 uint4 parts, uint4 lengths, uint units, uint flags, float factor,
                                 float repeats, __global float *partial, __global float *scratch
#if LANES == 1 && IN_LOCAL
                                 ,
                                 __local float *state
#endif
) {
    const uint batch = shape.s0, length = lengths.s2;
    __global float *own = scratch + (place)TEAM * lengths.s3;
    __global const float *shared = parameters + parameters_offset;
#if LANES == 1
    __local float3 spare[TEAM_SIZE];
#endif
    if (flags & FLAG_EXPAND) {
        expand(own, lengths.s0, shared, parameters_stride, model, parts, shape.s2);
        shared = own;
        own += lengths.s0;
    }
#if LANES > 1 || !IN_LOCAL
    __global float *state = own;
    own += lengths.s1;
#endif
    __global float *sums = own + (flags & FLAG_CLIP ? (place)length * LANES : 0);
    for (uint e = MEMBER; e < length && flags & FLAG_CLIP; e += MEMBERS)
        PUT((floats)(0.0f), own, e);

    for (uint unit = TEAM; unit < units; unit += TEAMS) {
#if LANES == 1
        sums = partial + (place)unit * length;
#endif
        __global float *gradient = flags & FLAG_CLIP ? own : sums;
        for (uint e = MEMBER; e < length && flags & FLAG_TRAIN; e += MEMBERS)
            PUT((floats)(0.0f), sums, e);
        for (uint group = 0; group < shape.s3; group++) {
            const uint first = (unit * shape.s3 + group) * LANES, count = min(batch - first, (uint)LANES);
            squares squared = {(floats)(0.0f), (floats)(0.0f), (floats)(0.0f)};
            floats slope = (floats)(0.0f);
            uint row = 0;
            if (first >= batch)
                break;
            for (uint at = 0; at < steps; at++) {
                const instruction s = read_step(program + at * STEP_WORDS);
                const uint rest = shape.s1 - row;
                MEET;
                switch (s.kind) {
                case STEP_TAKE:
                    if (s.mode & MODE_QUERY)
                        take(&s, state + (place)s.to * LANES,
                             query + query_offset + (int)first * query_stride.s0, query_stride, count,
                             s.rows);
                    else
                        take(&s, state + (place)s.to * LANES,
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
                    if (from == START_LATER)
                        multiply(&s, state, min(s.depth, rest), row > 0 ? START_SELF : START_NONE);
                    else
                        multiply(&s, state, s.depth, from);
                    break;
                }
                case STEP_MULTIPLY_SHARED:
                    multiply_shared(&s, state, shared);
                    break;
                case STEP_GRADIENT:
                    add_gradient(&s, state, gradient, flags, &squared);
                    break;
                case STEP_APPLY:
                    apply(&s, state, state + (place)s.b * LANES);
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
                            sum = MULTIPLY_ADD(AT(state, s.a + k * s.a_row + j),
                                               AT(state, s.b + k * s.b_row + j), sum);
                        PUT(sum, state, s.to + j);
                    }
                    break;
                case STEP_ROW_SUMS:
                    sum_rows(&s, state);
                    break;
                case STEP_GRADIENT_ROW:
                    for (uint j = MEMBER; j < s.columns; j += MEMBERS)
                        put_gradient(gradient, s.to + j, AT(state, s.a + j), flags, &squared);
                    break;
                case STEP_GRADIENT_PAIR:
                    if (MEMBER == 0)
                        add_gradient_pair(&s, state + (place)s.a * LANES, gradient + (place)s.to * LANES,
                                          flags, &squared);
                    break;
                case STEP_GRADIENT_WEIGHTS:
                    if (MEMBER == 0)
                        add_gradient_weights(&s, state + (place)s.a * LANES, shared,
                                             gradient + (place)s.to * LANES, flags, &squared);
                    break;
                default:
                    run_elementwise(&s, state, shared, factor, slope);
                    break;
                }
            }
            if (flags & FLAG_TRAIN) {
#if LANES == 1
                add_up_members(&squared, spare);
#endif
                squared.small *= repeats, squared.plain *= repeats, squared.large *= repeats;
                const floats norm = norm_of(&squared);
                if (MEMBER == 0)
                    store_run(norm, norms + norms_offset + (int)first * norms_stride, norms_stride, count);
                if (flags & FLAG_CLIP)
                    add_clipped(sums, own, length, norm, threshold[threshold_offset]);
            }
            MEET;
        }
#if LANES > 1
        for (uint e = 0; e < length && flags & FLAG_TRAIN; e++)
            partial[(place)unit * length + e] = sum_lanes(AT(sums, e));
#endif
    }
}
