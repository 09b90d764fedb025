/*
 * Linear transformers, fused: predictions, and the gradient of the squared error. The kernel runs the steps that
 * src/backend/opencl/linear_transformer/program.c composes, where the mathematics stands.
 *
 * Index mapping: a unit is `per_unit` groups of LANES sequences. On GPUs a team takes units TEAM, TEAM + TEAMS, ...; on
 * CPUs, whose cores are not equally fast or free, the next one whenever it has finished one. It writes the sum of a
 * unit's gradients to partial[unit]; linear_transformer_sum adds those up. What is summed with what depends on the
 * batch and LANES alone. Cost: the steps' (linear_blocks.h), and 4 D^2 bytes of a Gram matrix, or 4 n D of tokens, read
 * for each sequence.
 *
 * The kernel reads the steps from memory, or, where src/backend/opencl/linear_transformer/source.c has put
 * STRAIGHT_STEPS in front of this text, they stand in it as statements with all places and strides as constants (GPUs
 * alone, the same bits). Then NEAR_FLOATS of local memory hold what the next steps work on, and the team's scratch
 * memory the rest: 8 bytes for each number that moves from one to the other.
 */
#include "linear_run.h"

/* The ways in which parameters are copied. */
#define FORM_DENSE    0u /* P and Q are matrices */
#define FORM_CORNER   1u /* their input blocks, and P has a 1 in its last corner */
#define FORM_DIAGONAL 2u /* a pair each, or Q's first alone */
#define FORM_SPARSE   3u /* Q's input block alone, summed over the heads */

/* Sums of squares in this range are as accurate as any other sum: no square in them that matters overflowed or
 * underflowed. */
#define MOST_SQUARES  1e37f
#define LEAST_SQUARES 1e-20f

/* Combines what the members of the team have, over the team: a sum in a fixed tree, or the largest. */
#if LANES == 1
STEP_FUNCTION float fold_members(float value, uint is_max, __local float *spare, uint member) {
    MEET; /* Other members may still run a step that uses `spare`. */
    spare[member] = value;
    for (uint half_ = TEAM_SIZE / 2; half_ > 0; half_ /= 2) {
        MEET;
        if (member < half_) {
            const float other = spare[member + half_];
            spare[member] = is_max ? fmax(spare[member], other) : spare[member] + other;
        }
    }
    MEET;
    value = spare[0];
    MEET;
    return value;
}
#define FOLD_MEMBERS(value, is_max) fold_members(value, is_max, spare, MEMBER_NOW)
#define ANY(condition)              (condition)
#else
#define FOLD_MEMBERS(value, is_max) (value)
#define ANY(condition)              any(condition)
#endif

/* Fetches a few cache lines of the next group's data at each step, because a core waits for more than a few at once. */
STEP_FUNCTION void fetch_ahead(__global const float **next, __global const float *end) {
#ifdef FETCH
    enum { LINE_FLOATS = 16, LINES = 8 };
    for (uint i = 0; i < LINES && *next < end; i++, *next += LINE_FLOATS)
        FETCH(*next);
#else
    (void)next, (void)end;
#endif
}

/* sums += s gradient with s = min(1, limit / norm); nothing is added if the norm is not finite. */
STEP_FUNCTION void add_clipped(__global floats *sums, __global const floats *gradient, uint length, floats norm,
                               float limit) {
    const floats share = select((floats)(1.0f), limit / norm, norm > limit);
    for (uint e = MEMBER; e < length; e += MEMBERS)
        sums[e] += select((floats)(0.0f), share * gradient[e], norm <= MAXFLOAT);
}

#if LANES > 1
/* Halves the number of vectors, LANES or fewer: it adds neighbouring lanes of each, and packs the sums of two vectors
 * into one. */
#define ADD_NEIGHBOURS(left)                                                                                           \
    UNROLL for (uint i = 0; i < (left); i++) {                                                                         \
        const floats a = x[2 * i], b = x[2 * i + 1];                                                                   \
        x[i].lo = a.even + a.odd;                                                                                      \
        x[i].hi = b.even + b.odd;                                                                                      \
    }

/* to[e] = the sum of from[e]'s lanes, added in pairs, for `count` elements, LANES of them at a time. */
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

/* Copies the parameters of the layers in use to `to`: each part as a square of side `pitch`, padded with zeros, or a
 * pair. model: depth, layers, heads, form; parts: rows that are parameters, parameters of P, of Q, pitch. */
STEP_FUNCTION void expand(__global float *to, __global const float *parameters, int stride, uint4 model, uint4 parts,
                          uint size) {
    const uint form = model.s3, kept = parts.s0, sparse = form == FORM_SPARSE;
    const uint sides = form == FORM_DIAGONAL ? 1 : parts.s3, pitch = form == FORM_DIAGONAL ? 2 : parts.s3;
    const uint count = model.s0 * (sparse ? 1 : 2 * model.s2), repeats = sparse ? model.s2 : 1;
    for (uint part = 0; part < count; part++) {
        const uint layer = sparse ? part : part / 2 / model.s2, head = sparse ? 0 : part / 2 % model.s2;
        const uint which = sparse ? 1 : part % 2,
                   wide = form == FORM_DIAGONAL ? (which == 0 ? parts.s1 : parts.s2) : kept;
        const uint source = ((layer + 1 < model.s0 ? layer : model.s1 - 1) * model.s2 + head) * (parts.s1 + parts.s2) +
                            which * parts.s1;
        FOR_EACH_ELEMENT_OF(MEMBER, sides, pitch) {
            float value = form == FORM_CORNER && which == 0 && i + 1 == size && j + 1 == size ? 1.0f : 0.0f;
            for (uint k = 0; k < repeats && i < kept && j < wide; k++)
                value += parameters[(int)(source + k * parts.s2 + i * kept + j) * stride];
            to[(part * sides + i) * pitch + j] = value;
        }
    }
}

/* data: tokens [batch, rows + 1, D] or Gram matrices [batch, D, D], with strides of sequence, row and column; query
 * likewise. shape: batch, rows of the context, D, groups of a unit. program: `steps` steps, and behind them a counter
 * of the units that a CPU's teams have asked for, which was `given` before this launch. lengths: floats of expanded
 * parameters, floats of STATE memory, elements of the gradient, floats of scratch for each team. repeats: the number of
 * parameters that share each element of the gradient. */
#if LANES == 1
__attribute__((reqd_work_group_size(TEAM_SIZE, 1, 1)))
#endif
__kernel void
linear_transformer(__global float *answers, uint answers_offset, int answers_stride, __global float *norms,
                   uint norms_offset, int norms_stride, __global const float *parameters, uint parameters_offset,
                   int parameters_stride, __global const float *data, uint data_offset, int4 data_stride,
                   __global const float *query, uint query_offset, int4 query_stride, __global const float *targets,
                   uint targets_offset, int targets_stride, __global const float *threshold, uint threshold_offset,
                   __global uint *program, uint steps, uint given, uint4 shape, uint4 model, uint4 parts, uint4 lengths,
                   uint2 units, uint flags, float factor, float repeats, __global float *partial,
                   __global float *scratch
#if LANES == 1 && IN_LOCAL && !defined(STRAIGHT_STEPS)
                   ,
                   __local floats *state
#endif
) {
    const uint batch = shape.s0, length = lengths.s2;
    __global float *free = scratch + (place)TEAM * lengths.s3;
    __global const float *shared = parameters + parameters_offset;
#ifdef STRAIGHT_STEPS
    __local float state[NEAR_FLOATS];
    __local float *const spare = state; /* behind the steps */
    __local uint zero;
    volatile __local uint *const nothing = &zero;
    if (MEMBER == 0)
        *nothing = 0;
    MEET;
#elif LANES == 1
    __local float spare[TEAM_SIZE];
#endif
    if (flags & FLAG_EXPAND) {
        expand(free, shared, parameters_stride, model, parts, shape.s2);
        shared = free;
        free += lengths.s0;
    }
#ifdef STRAIGHT_STEPS
    __global floats *const far = free;
    free += lengths.s1;
#elif LANES > 1 || !IN_LOCAL
    __global floats *state = (__global floats *)free;
    free += lengths.s1;
#endif
    __global floats *const own = (__global floats *)free, *sums = own + length;
    /* A unit's first group sets the gradient; zeros remain only where no step writes. */
    const uint adds_to_zeros = flags & FLAG_CLIP;
    for (uint e = MEMBER; e < length && flags & FLAG_CLIP; e += MEMBERS)
        own[e] = (floats)(0.0f);
#if LANES > 1
    for (uint e = 0; e < lengths.s1 / LANES && flags & FLAG_CLEAR; e++)
        state[e] = (floats)(0.0f);
#endif

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
#ifdef STRAIGHT_STEPS
            STRAIGHT_STEPS(void) next, (void)next_end, (void)steps;
#else
            for (uint at = 0; at < steps; at++) {
                READ_STEP(step, program + at * STEP_WORDS)
                const instruction *const s = &step;
                const uint rest = shape.s1 - row;
                fetch_ahead(&next, next_end);
                MEET;
                switch (s->kind) {
                case STEP_TAKE:
                    RUN_TAKE
                    break;
                case STEP_MORE_ROWS:
                    if (rest > s->rows) {
                        row += s->rows;
                        at = s->to - 1;
                    }
                    break;
                case STEP_MULTIPLY: {
                    RUN_MULTIPLY(multiply, state, state)
                    break;
                }
                case STEP_MULTIPLY_SHARED:
                    RUN_MULTIPLY_SHARED(multiply_shared, state, state)
                    break;
                case STEP_GRADIENT:
                    RUN_GRADIENT
                    break;
                case STEP_APPLY:
                    RUN_APPLY
                    break;
                case STEP_APPLY_SHARED:
                    RUN_APPLY_SHARED
                    break;
                case STEP_WEIGH:
                    RUN_WEIGH
                    break;
                case STEP_VALUE: {
                    RUN_VALUE
                    break;
                }
                case STEP_COLUMN_DOTS:
                    RUN_COLUMN_DOTS
                    break;
                case STEP_ROW_SUMS:
                    RUN_ROW_SUMS
                    break;
                case STEP_GRADIENT_ROW:
                    RUN_GRADIENT_ROW
                    break;
                case STEP_GRADIENT_PAIR:
                    RUN_GRADIENT_PAIR
                    break;
                case STEP_GRADIENT_WEIGHTS:
                    RUN_GRADIENT_WEIGHTS
                    break;
                default:
                    RUN_ELEMENTWISE
                    break;
                }
            }
#endif
            if (flags & FLAG_NORMS) {
                const floats squares = repeats * FOLD_MEMBERS(gradient.squares, 0);
                /* A sequence's squares leave the range of a float. The group then runs again to scale that sequence's
                 * gradient. */
                const ints odd = (squares > MOST_SQUARES || squares < LEAST_SQUARES) && LANE_NUMBERS < (uints)(count);
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
                    norm =
                        select(norm, select(largest, largest * sqrt(sum), largest > 0.0f && largest <= MAXFLOAT), odd);
                }
                if (MEMBER == 0)
                    store_run(norm, norms + HIDDEN(norms_offset) + (int)first * norms_stride, norms_stride, count);
                if (flags & FLAG_CLIP)
                    add_clipped(sums, own, length, norm, threshold[HIDDEN(threshold_offset)]);
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
