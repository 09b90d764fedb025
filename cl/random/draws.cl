/*
 * Gamma draws, cumulative sums, symbols by their weights, different numbers and elements by number, with the bits that
 * include/iclab/ops.h states.
 */
#include "../common.h"

#include "gather.h"
#include "random_words.h"

/* ---- Gamma draws: the formulas of src/arithmetic/random.c ---- */

#define ATTEMPTS 16

#if LANES == 1
#define ANY(mask) ((mask) != 0)
#else
#define ANY(mask) any(mask)
#endif

/* Returns log x for 2^-24 <= x < 2^30. */
static floats logarithm(floats x) {
    const uints exponent = (AS_UINTS(x) - (uints)(0x3f3504f3u) + (uints)(64u << 23)) >> 23;
    const floats g = AS_FLOATS(AS_UINTS(x) - ((exponent - 64u) << 23)) - 1.0f;
    const floats k = TO_FLOATS(AS_INTS(exponent) - 64);
    return (k * LOG_2_HIGH + log_near_one(g)) + k * LOG_2_LOW;
}

/* Returns x^2 / 2 + d - d v^3 + d log v^3 for v = 1 + y > 0, x = 3 sqrt(d) y. */
static floats log_ratio(floats d, floats y) {
    const floats cube = y * y * y;
    const floats near = d * (cube * (3.0f * log_polynomial(y) - 1.0f));
    const floats far = d * (1.5f * y * y - 3.0f * y - cube + 3.0f * logarithm(1.0f + y));
    return select(far, near, isgreater(y, (floats)(-0.29f)) & isless(y, (floats)(0.41f)));
}

/* Returns the draws of lanes from draw `first` on. */
static floats gamma_draws(floats shape, ulong first, uint seed, uint stream, uint2 step) {
    const ints is_small = isless(shape, (floats)(1.0f));
    const ints is_valid = isgreaterequal(shape, (floats)(0x1p-10f)) & islessequal(shape, (floats)(0x1p30f));
    const floats d = select(shape, shape + 1.0f, is_small) - 0x1.555556p-2f;
    const floats c = reciprocal_root(d) * 0x1.555556p-2f;
    floats value = d, small_exponential = (floats)(0.0f);
    ints is_open = is_valid;
    uint low[LANES], high[LANES];
    for (uint i = 0; i < LANES; i++) {
        const ulong block = (first + i) * ATTEMPTS; /* of words whose number has 64 bits */
        low[i] = (uint)block;
        high[i] = (uint)(block >> 32) & 0x3fffffffu;
    }
    for (uint attempt = 0; attempt < ATTEMPTS && ANY(is_open); attempt++) {
        uints word[BLOCK] = {LOAD_LANES(low) + attempt, LOAD_LANES(high), (uints)(step.s0), (uints)(step.s1)};
        floats normal[BLOCK];
        philox(&word[0], &word[1], &word[2], &word[3], seed, stream);
        normals_from_words(word, normal);
        if (attempt == 0)
            small_exponential = exponential_from_word(word[2]);
        const floats y = c * normal[0], v = 1.0f + y;
        const ints is_taken =
            isgreater(v, (floats)(0.0f)) & isgreater(exponential_from_word(word[1]), -log_ratio(d, y)) & is_open;
        value = select(value, d * (v * v * v), is_taken);
        is_open &= ~is_taken;
    }
    const floats inverse_root = reciprocal_root(shape);
    const floats exponent = -(small_exponential * (inverse_root * inverse_root) * 0x1.715476p+0f);
    value = select(value, value * power_of_two(exponent, 110.0f), is_small);
    value = select(value, (floats)(0.0f), isless(value, (floats)(0x1p-100f)));
    return select((floats)(NAN), value, is_valid);
}

/* Element k of out, in row-major order, becomes draw first + k. A unit is LANES elements, which may lie anywhere; lanes
 * without an element repeat the last one. Cost of a draw: 600 integer ops and flops; 8 bytes. */
__kernel void random_gamma(__global float *out, uint out_offset, int4 out_stride, __global const float *shapes,
                           uint shapes_offset, int4 shapes_stride, uint4 shape, uint count, uint2 units, uint seed,
                           uint stream, uint2 step, ulong first) {
    FOR_EACH_UNIT(units) {
        const uint start = unit * LANES;
        int from[LANES], at[LANES];
        for (uint i = 0; i < LANES; i++) {
            const int4 position = element_position(min(start + i, count - 1), shape);
            from[i] = dot_position(position, shapes_stride);
            at[i] = dot_position(position, out_stride);
        }
        scatter(gamma_draws(gather(shapes + shapes_offset, from), first + start, seed, stream, step), out + out_offset,
                at, count - start);
    }
}

/* ---- Cumulative sums ---- */

/* out_i = in_0 + ... + in_i along each row, from left to right. A unit is a row. out may be in's own view. Cost of an
 * element: 1 flop, 8 bytes. */
__kernel void cumulative_sum(__global float *out, uint out_offset, int4 out_stride, __global const float *in,
                             uint in_offset, int4 in_stride, uint4 shape, uint2 units) {
    FOR_EACH_UNIT(units) {
        const int4 at = row_position(unit, shape);
        __global const float *from = in + in_offset + dot_position(at, in_stride);
        __global float *to = out + out_offset + dot_position(at, out_stride);
        float sum = from[0];
        to[0] = sum;
        for (uint i = 1; i < shape.s3; i++) {
            sum += from[(int)i * in_stride.s3];
            to[(int)i * out_stride.s3] = sum;
        }
    }
}

/* ---- Symbols by their weights ---- */

/* out = the first of the row's `symbols` sums that is above u times the last one. A unit is an element; its row of sums
 * is that of its leading axes. out may be in's own view. Cost of an element: 1 flop, 8 bytes, and 4 log2(symbols) of
 * the sums. */
__kernel void categorical(__global float *out, uint out_offset, int4 out_stride, __global const float *in,
                          uint in_offset, int4 in_stride, __global const float *sums, uint sums_offset,
                          int4 sums_stride, uint4 shape, uint2 units, uint symbols, float least) {
    FOR_EACH_UNIT(units) {
        const int4 at = element_position(unit, shape);
        const int4 row_at = (int4)(at.s0, at.s1, at.s2, 0);
        __global const float *row = sums + sums_offset + dot_position(row_at, sums_stride);
        const float u = in[in_offset + dot_position(at, in_stride)], total = row[(int)(symbols - 1) * sums_stride.s3];
        const float share = u * total;
        const bool is_valid = u >= 0.0f && u < 1.0f && total >= least && total < INFINITY;
        uint low = 0, high = symbols - 1;
        while (low < high) {
            const uint middle = low + (high - low) / 2;
            if (row[(int)middle * sums_stride.s3] > share)
                high = middle;
            else
                low = middle + 1;
        }
        out[out_offset + dot_position(at, out_stride)] = is_valid ? convert_float(low) : NAN;
    }
}

/* ---- Different numbers ---- */

/* Returns where the entry of place to[j] stood before all draws: see random_distinct. Most blocks of lanes hold no such
 * place. */
static float place_in_list(__global const float *to, int stride, uint j) {
    float x = to[(int)j * stride];
    for (uint i = j; i > 0;) {
#if LANES > 1
        if (stride == 1 && i % LANES == 0 && !any(LOAD_ANYWHERE(to + i - LANES) == (floats)(x))) {
            i -= LANES;
            continue;
        }
#endif
        i--;
        x = to[(int)i * stride] == x ? convert_float(i) : x;
    }
    return x;
}

/*
 * A unit is a row. to[j] first holds place j + floor(w (count - j) / 2^32) of a list that begins as 0, 1, …; then, from
 * the last draw to the first, what the list held there: draw i < j moved the entry of place i to its own place, so that
 * the last i with to[i] = x sends x to place i of the list before draw i. Cost of a row of n: n^2 / 2 comparisons, 70
 * integer ops for each block of four words, 12 bytes an element.
 */
__kernel void random_distinct(__global float *out, uint out_offset, int4 out_stride, uint4 shape, uint2 units,
                              uint seed, uint stream, uint2 step, ulong first, ulong row_words, uint count,
                              float least) {
    FOR_EACH_UNIT(units) {
        __global float *to = out + out_offset + dot_position(row_position(unit, shape), out_stride);
        const int stride = out_stride.s3;
        uint4 word = (uint4)(0u);
        for (uint j = 0; j < shape.s3; j++) {
            const ulong index = first + unit * row_words + j;
            const uint at = (uint)index & 3u;
            if (j == 0 || at == 0) {
                uint c0 = (uint)(index >> 2), c1 = (uint)(index >> 34), c2 = step.s0, c3 = step.s1;
                philox_block(&c0, &c1, &c2, &c3, seed, stream);
                word = (uint4)(c0, c1, c2, c3);
            }
            const uint2 two = at & 2u ? word.hi : word.lo;
            to[(int)j * stride] = convert_float(j + mul_hi(at & 1u ? two.s1 : two.s0, count - j));
        }
        for (uint j = shape.s3; j-- > 0;)
            to[(int)j * stride] = least + place_in_list(to, stride, j);
    }
}

/* ---- Elements by number ---- */

/* Returns the number that a float is, or `count` (2^24 at most) if it is none below that. */
static uint element_number(float place, uint count) {
    const uint number = place >= 0.0f && place < convert_float(count) ? convert_uint(place) : count;
    return number < count && convert_float(number) == place ? number : count;
}

/* out_j = in_(places_j) by rows. A unit is an element. Cost: no flops, 12 bytes an element. */
__kernel void take(__global float *out, uint out_offset, int4 out_stride, __global const float *in, uint in_offset,
                   int4 in_stride, __global const float *places, uint places_offset, int4 places_stride, uint4 shape,
                   uint2 units, uint count) {
    FOR_EACH_UNIT(units) {
        const int4 at = element_position(unit, shape);
        const uint number = element_number(places[places_offset + dot_position(at, places_stride)], count);
        const int4 from = (int4)(at.s0, at.s1, at.s2, (int)number);
        out[out_offset + dot_position(at, out_stride)] =
            number < count ? in[in_offset + dot_position(from, in_stride)] : NAN;
    }
}

/* out_(places_j) = values_j by rows. A unit is a row, because the last of equal places counts. Cost: no flops, 12 bytes
 * an element of places. */
__kernel void put(__global float *out, uint out_offset, int4 out_stride, __global const float *values,
                  uint values_offset, int4 values_stride, __global const float *places, uint places_offset,
                  int4 places_stride, uint4 shape, uint2 units, uint count) {
    FOR_EACH_UNIT(units) {
        const int4 at = row_position(unit, shape);
        __global float *to = out + out_offset + dot_position(at, out_stride);
        __global const float *from = values + values_offset + dot_position(at, values_stride);
        __global const float *place = places + places_offset + dot_position(at, places_stride);
        for (uint j = 0; j < shape.s3; j++) {
            const uint number = element_number(place[(int)j * places_stride.s3], count);
            if (number < count)
                to[(int)number * out_stride.s3] = from[(int)j * values_stride.s3];
        }
    }
}
