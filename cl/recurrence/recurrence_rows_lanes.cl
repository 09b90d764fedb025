/*
 * Outputs of the recurrence from the other side, o_t = scale S_t q_t, for CPUs. As in recurrence_rows.cl a row of the
 * state meets no other row, because the reads p_t are known:
 *
 *     s = f_t s + k_t u_t + w_t x_t,   o_t = scale s . q_t,   u = beta (v - p), or u = -beta p and x = beta v
 *
 * Index mapping: unit = (batch * heads + head) * segments + segment. A unit lays the segment's q, u and x out without
 * gaps, and then runs LANES rows of the state at a time through its tokens, COLUMNS columns after the other, so that
 * each lane adds up the outputs of its own row.
 *
 * Cost of a token: 4 m n flops, m n more with decay and 2 m n with a written key; of memory 4 (2 m + 3 n) bytes and
 * 4 m n / 32 of the state, and from cache COLUMNS numbers of q and u for as many vectors of the state.
 */
#include "recurrence.h"

#if LANES > 1

#define COLUMNS 4

/* The tokens of a segment as rows of `width` numbers, whole vectors with zeros at the end; x with a written key. */
typedef struct tokens {
    __global float *q, *u, *x;
    uint count, width;
} tokens;

/* One vector of rows in each token of a segment: its parts of k, w and exp(decay), and the sums of its outputs. */
typedef struct lanes_of_rows {
    floats keys[SEGMENT], sums[SEGMENT];
#if DECAY != NO_DECAY
    floats factors[SEGMENT];
#endif
#if WRITE_KEY
    floats writes[SEGMENT];
#endif
} lanes_of_rows;

/* Loads min(count, LANES) > 0 elements and zeros, also of a view that repeats one element. */
static floats load_padded(__global const float *from, int stride, uint count) {
    return AS_FLOATS(AS_INTS(load_run(from, stride, count)) & (LANE_NUMBERS < (uints)(count)));
}

/* Sets to[j] to column j of `count` rows of the state, for j < width; columns from n on are 0. */
static void load_state(__global floats *to, __global const float *from, int row_stride, int stride, uint count, uint n,
                       uint width) {
    for (uint j = 0; j < width; j += LANES) {
        if (stride == 1 && j + LANES <= n)
            load_columns(to + j, from + j, row_stride, count);
        else
            for (uint l = j; l < j + LANES; l++)
                to[l] = l < n ? load_run(from + (int)l * stride, row_stride, count) : (floats)(0.0f);
    }
}

/* Runs COLUMNS columns of the state through the tokens. */
static void run_columns(__global const floats *state, uint j, const tokens *by, lanes_of_rows *rows) {
    floats s[COLUMNS];
    UNROLL for (uint c = 0; c < COLUMNS; c++) s[c] = state[j + c];
    for (uint t = 0; t < by->count; t++) {
        __global const float *q = by->q + t * by->width + j, *u = by->u + t * by->width + j;
        floats sum = rows->sums[t];
        UNROLL for (uint c = 0; c < COLUMNS; c++) {
#if DECAY != NO_DECAY
            s[c] *= rows->factors[t];
#endif
            s[c] = MULTIPLY_ADD(rows->keys[t], (floats)(u[c]), s[c]);
#if WRITE_KEY
            s[c] = MULTIPLY_ADD(rows->writes[t], (floats)((by->x + t * by->width + j)[c]), s[c]);
#endif
            sum = MULTIPLY_ADD(s[c], (floats)(q[c]), sum);
        }
        rows->sums[t] = sum;
    }
}

/* Rows of scratch of a work-item: SEGMENT times the vectors of n columns, for q, u and x each, and a vector for each of
 * these columns. */
__kernel void recurrence_rows_lanes(OUTPUT(out), INPUT(reads), INPUT(states), INPUT(q), INPUT(k), INPUT(v), INPUT(beta),
                                    INPUT(decay), INPUT(write_key), uint4 sizes, uint present, float scale,
                                    uint segments, uint2 units, __global floats *scratch, uint scratch_rows) {
    const uint m = sizes.s2, n = sizes.s3, width = (n + LANES - 1) / LANES * LANES;
    __global floats *state = scratch + get_global_id(0) * scratch_rows;
    tokens by = {.q = (__global float *)(state + width), .width = width};

    by.u = by.q + SEGMENT * width;
    by.x = by.u + SEGMENT * width;
    FOR_EACH_UNIT(units) {
        const uint head = unit / segments, b = head / sizes.s0, h = head - b * sizes.s0;
        const uint segment = unit - head * segments, first = segment * SEGMENT;
        lanes_of_rows rows;
        by.count = min((uint)SEGMENT, sizes.s1 - first);
        for (uint t = 0; t < by.count; t++) {
            const floats strength = (floats)(present & HAS_BETA ? AT(beta, b, h)[TOKEN(beta, first + t)] : 1.0f);
            for (uint j = 0; j < width; j += LANES) {
                const floats value = load_padded(AT(v, b, h) + ELEMENT(v, first + t, j), v_stride.s3, n - j);
#if DELTA
                const floats read = load_padded(AT(reads, b, h) + ELEMENT(reads, first + t, j), reads_stride.s3, n - j);
#else
                const floats read = (floats)(0.0f);
#endif
                STORE_LANES(load_padded(AT(q, b, h) + ELEMENT(q, first + t, j), q_stride.s3, n - j),
                            by.q + t * width + j);
                STORE_LANES(strength * (WRITE_KEY ? -read : value - read), by.u + t * width + j);
#if WRITE_KEY
                STORE_LANES(strength * value, by.x + t * width + j);
#endif
            }
        }
        for (uint i = 0; i < m; i += LANES) {
            for (uint t = 0; t < by.count; t++) {
                rows.sums[t] = (floats)(0.0f);
                rows.keys[t] = load_run(AT(k, b, h) + ELEMENT(k, first + t, i), k_stride.s3, m - i);
#if DECAY == CHANNEL_DECAY
                rows.factors[t] = exp(load_run(AT(decay, b, h) + ELEMENT(decay, first + t, i), decay_stride.s3, m - i));
#elif DECAY == SCALAR_DECAY
                rows.factors[t] = (floats)(exp(AT(decay, b, h)[TOKEN(decay, first + t)]));
#endif
#if WRITE_KEY
                rows.writes[t] =
                    load_run(AT(write_key, b, h) + ELEMENT(write_key, first + t, i), write_key_stride.s3, m - i);
#endif
            }
            load_state(state, AT(states, b, h) + TOKEN(states, segment * m + i), states_stride.s2, states_stride.s3,
                       m - i, n, width);
            for (uint j = 0; j < n; j += COLUMNS)
                run_columns(state, j, &by, &rows);
            for (uint t = 0; t < by.count; t++)
                store_run((floats)(scale)*rows.sums[t], AT(out, b, h) + ELEMENT(out, first + t, i), out_stride.s3,
                          m - i);
        }
    }
}
#endif
