/*
 * Prepares up to ICL_RECURRENCE_SEGMENT tokens of one batch and head for loops over a state that never decays.
 *
 * The factors g_t of a decay move from the state to the tokens: with c_t = g_1 … g_t (by channel, rounded once for each
 * product) the state C = S_t / c_t obeys C = C + (w_t / c_t) beta v^T - (k_t / c_t) beta p^T, p_t = (c_t r_t)^T C and
 * o_t = scale (c_t q_t)^T C. Terms of a token s reach token t by c_t / c_s, in which the rounding of the products up to
 * s cancels: there are as many roundings as without. If a factor leaves [1/e^4, e^4], a new *stretch* begins: the state
 * takes the factor, and c starts from 1 again. So, up to a factor of e^4, nothing overflows that would not do so
 * otherwise, and a state can be run back within a stretch.
 */
#ifndef ICLAB_BACKEND_CPU_RECURRENCE_SEGMENT_H
#define ICLAB_BACKEND_CPU_RECURRENCE_SEGMENT_H

#include <string.h>

#include "arithmetic/exponential.h"
#include "arithmetic/lane_transpose.h"
#include "arithmetic/lanes.h"
#include "backend/cpu/kernels/plans.h"

#define SEGMENT         ICL_RECURRENCE_SEGMENT
#define SMALLEST_FACTOR ((real)0.018315638888734179)
#define LARGEST_FACTOR  ((real)54.598150033144236)

typedef HOST(recurrence_plan) recurrence_plan;
typedef HOST(recurrence_operand) recurrence_operand;

/* Rows of one batch and head. elements is NULL if the operand is absent. */
typedef struct rows {
    real *elements;
    size_t row, column; /* strides */
} rows;

/* The rows of one kind of vector, one for each token of a segment; the elements of a row are adjacent. */
typedef struct token_rows {
    real *elements;
    size_t row; /* stride */
} token_rows;

ALWAYS_INLINE rows rows_of(const recurrence_plan *plan, const recurrence_operand *operand, size_t item) {
    const size_t start = item / plan->heads * operand->stride[0] + item % plan->heads * operand->stride[1];
    return (rows){operand->elements ? operand->elements + start : NULL, operand->stride[2], operand->stride[3]};
}

ALWAYS_INLINE size_t padded(size_t count) {
    return (count + LANE_COUNT - 1) / LANE_COUNT * LANE_COUNT;
}

/* Copies a row without memcpy, because rows are short: a call would take as long as its work. */
ALWAYS_INLINE void copy_row(real *to, const real *from, size_t count) {
    size_t i = 0;
    for (; i + LANE_COUNT <= count; i += LANE_COUNT)
        memcpy(to + i, from + i, LANE_COUNT * sizeof *to);
    for (; i < count; i++)
        to[i] = from[i];
}

/* Copies columns of one row to `to` [width], with zeros after them. */
static inline void load_row(real *to, const rows *from, size_t row, size_t first, size_t count, size_t width) {
    const real *x = from->elements + row * from->row + first * from->column;
    if (from->column == 1)
        copy_row(to, x, count);
    else
        for (size_t i = 0; i < count; i++)
            to[i] = x[i * from->column];
    for (size_t i = count; i < width; i++)
        to[i] = 0;
}

static inline void store_row(const rows *to, size_t row, size_t first, size_t count, const real *from) {
    real *x = to->elements + row * to->row + first * to->column;
    if (to->column == 1)
        copy_row(x, from, count);
    else
        for (size_t i = 0; i < count; i++)
            x[i * to->column] = from[i];
}

ALWAYS_INLINE lane load_lane(const real *x) {
    lane to;
    memcpy(&to, x, sizeof to);
    return to;
}

/* Loads LANE_COUNT columns that are not adjacent, or go beyond `width`. It is out of line, because the loops seldom
 * need it, and their code stays small. */
OUT_OF_LINE lane load_scattered(const rows *from, size_t row, size_t first, size_t width) {
    const real *x = from->elements + row * from->row + first * from->column;
    lane to = lane_set(0);
    for (size_t i = 0; i < LANE_COUNT && first + i < width; i++)
        lane_elements(&to)[i] = x[i * from->column];
    return to;
}

OUT_OF_LINE void store_scattered(const rows *to, size_t row, size_t first, size_t width, lane from) {
    real *x = to->elements + row * to->row + first * to->column;
    for (size_t i = 0; i < LANE_COUNT && first + i < width; i++)
        x[i * to->column] = lane_elements(&from)[i];
}

/* Loads LANE_COUNT columns of a row of `width`, from column `first` on, with zeros beyond the row. */
ALWAYS_INLINE lane load_chunk(const rows *from, size_t row, size_t first, size_t width) {
    if (from->column == 1 && first + LANE_COUNT <= width)
        return load_lane(from->elements + row * from->row + first);
    return load_scattered(from, row, first, width);
}

ALWAYS_INLINE void store_chunk(const rows *to, size_t row, size_t first, size_t width, lane from) {
    if (to->column == 1 && first + LANE_COUNT <= width)
        memcpy(to->elements + row * to->row + first, &from, sizeof from);
    else
        store_scattered(to, row, first, width, from);
}

/* One stretch: its first token within the segment, and whether the state is multiplied by factors before it. */
typedef struct stretch {
    size_t first;
    bool has_entry;
} stretch;

typedef struct decay_track {
    size_t width;            /* of a row: the padded channels; 1: one factor for all; 0: no decay */
    real *factors;           /* [SEGMENT][width]: c_t */
    real *inverses;          /* [SEGMENT][width]: 1 / c_t */
    real *entries;           /* [SEGMENT][width]: for each stretch the factors of the state before it */
    size_t count;            /* of stretches, at least 1 */
    stretch of[SEGMENT + 1]; /* they are followed by the end of the segment */
} decay_track;

ALWAYS_INLINE size_t track_reals(const recurrence_plan *plan) {
    const bool decays = plan->input[ICL_RECURRENCE_DECAY].elements != NULL;
    return decays ? 3 * SEGMENT * (plan->by_channel ? padded(plan->m) : LANE_COUNT) : 0;
}

/* Beyond this weight_exponential may give infinity too early. */
#define EXP_SAFE ((real)60)

static inline void exponentials(real *x, size_t count) {
    bool is_high = false;
    for (size_t i = 0; i < count; i++)
        is_high |= x[i] > EXP_SAFE;
    if (is_high) {
        for (size_t i = 0; i < count; i++)
            x[i] = REAL_EXP(x[i]);
        return;
    }
    for (size_t i = 0; i < count; i++)
        x[i] = weight_exponential(x[i], false);
}

/* Sets next to c g, and returns whether all of them are in the range. */
static inline bool multiply_factors(real *next, const real *c, const real *g, size_t width) {
    int outside = 0;
    for (size_t i = 0; i < width; i++) {
        next[i] = c[i] * g[i];
        outside |= !(next[i] >= SMALLEST_FACTOR && next[i] <= LARGEST_FACTOR);
    }
    return !outside;
}

/* Begins a stretch at token t: before it the state takes c, and c starts from 1. */
static inline void begin_stretch(decay_track *track, size_t t, real *c) {
    track->count += t > 0;
    track->of[track->count - 1] = (stretch){t, true};
    memcpy(track->entries + (track->count - 1) * track->width, c, track->width * sizeof *c);
    for (size_t i = 0; i < track->width; i++)
        c[i] = 1;
}

/* Turns track->factors from g_t into c_t. */
static inline void track_channels(decay_track *track, size_t count) {
    const size_t width = track->width;
    for (size_t i = 0; i < width; i++) /* c before any token is 1 */
        track->inverses[i] = 1;
    for (size_t t = 0; t < count; t++) {
        real *c = track->factors + t * width;
        if (!multiply_factors(c, t > 0 ? c - width : track->inverses, c, width))
            begin_stretch(track, t, c);
    }
}

/* As above for a single factor, which stays in a register. */
static inline void track_one(decay_track *track, size_t count) {
    real c = 1;
    for (size_t t = 0; t < count; t++) {
        c *= track->factors[t];
        if (!(c >= SMALLEST_FACTOR && c <= LARGEST_FACTOR))
            begin_stretch(track, t, &c);
        track->factors[t] = c;
    }
}

/* Fills in the track of the tokens [first, first + count); `space` holds track_reals(plan). */
static inline void track_decay(decay_track *track, const recurrence_plan *plan, const rows *decay, size_t first,
                               size_t count, real *space) {
    const size_t width = plan->by_channel ? padded(plan->m) : 1;

    track->width = decay->elements ? width : 0;
    track->factors = track->inverses = track->entries = NULL;
    track->count = 1;
    track->of[0] = (stretch){0, false};
    if (decay->elements) {
        track->factors = space;
        track->inverses = space + SEGMENT * width;
        track->entries = track->inverses + SEGMENT * width;
        for (size_t t = 0; width == 1 && t < count; t++)
            track->factors[t] = decay->elements[(first + t) * decay->row];
        for (size_t t = 0; width > 1 && t < count; t++)
            load_row(track->factors + t * width, decay, first + t, 0, plan->m, width);
        exponentials(track->factors, count * width);
        if (width == 1)
            track_one(track, count);
        else
            track_channels(track, count);
        for (size_t i = 0; i < count * width; i++)
            track->inverses[i] = 1 / track->factors[i];
    }
    track->of[track->count] = (stretch){count, false};
}

/* ---- Products of tokens ---- */

/* Returns a vector whose lane j is the sum of x[j]'s lanes. */
ALWAYS_INLINE lane fold_lanes(const lane *x) {
#ifdef LANE_TRANSPOSE
    return fold_square(x);
#else
    lane sums;
    for (size_t j = 0; j < LANE_COUNT; j++) {
        lane all = x[j];
        real *sum = lane_elements(&all);
        for (size_t half = LANE_COUNT / 2; half > 0; half /= 2)
            for (size_t l = 0; l < half; l++)
                sum[l] += sum[l + half];
        lane_elements(&sums)[j] = sum[0];
    }
    return sums;
#endif
}

/* Returns the sum over x[i] y[i] in lanes; the elements left over go into the first lanes. */
ALWAYS_INLINE lane dot_lanes(const real *x, const real *y, size_t count) {
    lane sum = lane_set(0);
    size_t i = 0;
    for (; i + LANE_COUNT <= count; i += LANE_COUNT)
        sum = lane_fma(load_lane(x + i), load_lane(y + i), sum);
    if (i < count) {
        real a[LANE_COUNT] = {0}, b[LANE_COUNT] = {0};
        memcpy(a, x + i, (count - i) * sizeof *a);
        memcpy(b, y + i, (count - i) * sizeof *b);
        sum = lane_fma(load_lane(a), load_lane(b), sum);
    }
    return sum;
}

/* Wanted products, gathered until there are enough to add up their lanes together. */
typedef struct dots {
    lane waiting[LANE_COUNT];
    real *to[LANE_COUNT];
    size_t count;
} dots;

static inline void finish_dots(dots *products) {
    for (size_t i = products->count; i < LANE_COUNT; i++)
        products->waiting[i] = lane_set(0);
    lane sums = fold_lanes(products->waiting);
    for (size_t i = 0; i < products->count; i++)
        *products->to[i] = lane_elements(&sums)[i];
    products->count = 0;
}

static inline void add_dot(dots *products, real *to, const real *x, const real *y, size_t count) {
    products->waiting[products->count] = dot_lanes(x, y, count);
    products->to[products->count++] = to;
    if (products->count == LANE_COUNT)
        finish_dots(products);
}

#endif
