/*
 * The forward pass of the recurrence for CPUs: the formulas stand in ops_recurrence.h.
 *
 * Index mapping: unit = (batch * heads + head) * blocks + block; a block is VECTORS * LANES columns of the values, and
 * the unit walks through all tokens with its columns of the state, [m][VECTORS] vectors in scratch memory, which the
 * nearest cache holds. Columns do not depend on each other. Two passes over the state for each token: p = r^T P, then
 * S = P + k u^T with o += q S.
 *
 * Cost of a token and head: 6 m n flops with the delta term and 4 m n without, m n more with decay; from memory
 * 4 (3 m + 3 n) bytes, and from cache two loads and a store of the state.
 */
#include "recurrence.h"

#if LANES > 1

#ifndef VECTORS
#define VECTORS 4
#endif
#define BLOCK (VECTORS * LANES)

/* Sums that run beside each other, because a fused multiply-add takes four cycles. */
#define CHAINS (VECTORS == 1 ? 4 : 2)

typedef struct vectors {
    floats x[VECTORS];
} vectors;

static vectors zeros(void) {
    vectors z;
    UNROLL for (uint c = 0; c < VECTORS; c++) z.x[c] = (floats)(0.0f);
    return z;
}

/* Loads columns [0, count) of a row, and zeros. */
static vectors load_values(__global const float *from, int stride, uint count) {
    vectors z = zeros();
    UNROLL for (uint c = 0; c < VECTORS; c++) if (c * LANES < count) z.x[c] =
        load_run(from + (int)(c * LANES) * stride, stride, count - c * LANES);
    return z;
}

static void store_values(vectors z, __global float *to, int stride, uint count) {
    UNROLL for (uint c = 0; c < VECTORS; c++) if (c * LANES < count)
        store_run(z.x[c], to + (int)(c * LANES) * stride, stride, count - c * LANES);
}

/* Returns the row itself if its elements are neighbours, and otherwise a copy. */
static __global const float *row_of(__global const float *from, int stride, uint width, __global float *copy) {
    if (stride == 1)
        return from;
    for (uint i = 0; i < width; i++)
        copy[i] = from[(int)i * stride];
    return copy;
}

static vectors add_chains(const vectors *chain) {
    vectors sum = chain[0];
    UNROLL for (uint n = 1; n < CHAINS; n++) UNROLL for (uint c = 0; c < VECTORS; c++) sum.x[c] += chain[n].x[c];
    return sum;
}

/* p = r^T S */
static vectors read_state(__global const floats *state, __global const float *r, uint m) {
    vectors chain[CHAINS];
    uint i = 0;
    UNROLL for (uint n = 0; n < CHAINS; n++) chain[n] = zeros();
    for (; i + CHAINS <= m; i += CHAINS)
        UNROLL for (uint n = 0; n < CHAINS; n++) UNROLL for (uint c = 0; c < VECTORS; c++) chain[n].x[c] =
            MULTIPLY_ADD((floats)(r[i + n]), state[(i + n) * VECTORS + c], chain[n].x[c]);
    for (; i < m; i++)
        UNROLL for (uint c = 0; c < VECTORS; c++) chain[0].x[c] =
            MULTIPLY_ADD((floats)(r[i]), state[i * VECTORS + c], chain[0].x[c]);
    return add_chains(chain);
}

/* Applies what a token writes: factor times S, plus k u^T or k u^T + w x^T. */
typedef struct write {
    __global const float *q, *k, *w, *factors;
    float factor;
    vectors u, x;
} write;

/* Updates row i of the state, and adds its part of o. */
static void write_row(__global floats *row, const write *by, uint i, vectors *sum) {
    const floats q = (floats)(by->q[i]), k = (floats)(by->k[i]);
    UNROLL for (uint c = 0; c < VECTORS; c++) {
        floats s = row[c];
#if DECAY == SCALAR_DECAY
        s *= (floats)(by->factor);
#elif DECAY == CHANNEL_DECAY
        s *= (floats)(by->factors[i]);
#endif
        s = MULTIPLY_ADD(k, by->u.x[c], s);
#if WRITE_KEY
        s = MULTIPLY_ADD((floats)(by->w[i]), by->x.x[c], s);
#endif
        row[c] = s;
        sum->x[c] = MULTIPLY_ADD(q, s, sum->x[c]);
    }
}

/* Returns o = q^T S of the new state. */
static vectors write_state(__global floats *state, const write *by, uint m) {
    vectors chain[CHAINS];
    uint i = 0;
    UNROLL for (uint n = 0; n < CHAINS; n++) chain[n] = zeros();
    for (; i + CHAINS <= m; i += CHAINS)
        UNROLL for (uint n = 0; n < CHAINS; n++) write_row(state + (i + n) * VECTORS, by, i + n, &chain[n]);
    for (; i < m; i++)
        write_row(state + i * VECTORS, by, i, &chain[0]);
    return add_chains(chain);
}

/* Sets to [width] to exp of `width` numbers; it writes whole vectors. */
static void exponentials(__global float *to, __global const float *from, int stride, uint width) {
    for (uint i = 0; i < width; i += LANES)
        STORE_LANES(exp(load_run(from + (int)i * stride, stride, width - i)), to + i);
}

/* Sets to [width] to a x; it writes whole vectors. */
static void multiply(__global float *to, __global const float *a, __global const float *x, uint width) {
    uint i = 0;
    for (; i + LANES <= width; i += LANES)
        STORE_LANES(LOAD_LANES(a + i) * LOAD_LANES(x + i), to + i);
    for (; i < width; i++)
        to[i] = a[i] * x[i];
}

static void scale_by(__global float *to, float a, __global const float *x, uint width) {
    uint i = 0;
    for (; i + LANES <= width; i += LANES)
        STORE_LANES((floats)(a)*LOAD_LANES(x + i), to + i);
    for (; i < width; i++)
        to[i] = a * x[i];
}

/* Rows of scratch of a work-item: m * VECTORS for the state, and six times `padded` floats: m or SEGMENT, the larger of
 * the two, rounded up to whole vectors. */
__kernel void recurrence_forward_lanes(OUTPUT(out), OUTPUT(last), OUTPUT(reads), OUTPUT(states), INPUT(q), INPUT(k),
                                       INPUT(v), INPUT(beta), INPUT(decay), INPUT(read_key), INPUT(write_key),
                                       INPUT(first), uint4 sizes, uint present, float scale, uint blocks, uint2 units,
                                       __global floats *scratch, uint scratch_rows, uint padded) {
    const uint tokens = sizes.s1, m = sizes.s2, n = sizes.s3;
    __global floats *state = scratch + get_global_id(0) * scratch_rows;
    __global float *spare = (__global float *)(state + m * VECTORS);
    __global float *factors = spare, *faded = spare + padded, *q_copy = spare + 2 * padded;
    __global float *k_copy = spare + 3 * padded, *r_copy = spare + 4 * padded, *w_copy = spare + 5 * padded;

    (void)w_copy; /* without keys apart */
    FOR_EACH_UNIT(units) {
        const uint head = unit / blocks, b = head / sizes.s0, h = head - b * sizes.s0;
        const uint j = (unit - head * blocks) * BLOCK, count = n - j;
        for (uint i = 0; i < m; i++) {
            const vectors row = present & HAS_STATE
                                    ? load_values(AT(first, b, h) + ELEMENT(first, i, j), first_stride.s3, count)
                                    : zeros();
            UNROLL for (uint c = 0; c < VECTORS; c++) state[i * VECTORS + c] = row.x[c];
        }
        for (uint t = 0; t < tokens; t++) {
            const float strength = present & HAS_BETA ? AT(beta, b, h)[TOKEN(beta, t)] : 1.0f;
            write by = {.q = row_of(AT(q, b, h) + TOKEN(q, t), q_stride.s3, m, q_copy),
                        .k = row_of(AT(k, b, h) + TOKEN(k, t), k_stride.s3, m, k_copy)};
            const vectors value = load_values(AT(v, b, h) + ELEMENT(v, t, j), v_stride.s3, count);
            if (t % SEGMENT == 0) {
                if (present & HAS_SAVED)
                    for (uint i = 0; i < m; i++) {
                        vectors row;
                        UNROLL for (uint c = 0; c < VECTORS; c++) row.x[c] = state[i * VECTORS + c];
                        store_values(row, AT(states, b, h) + ELEMENT(states, t / SEGMENT * m + i, j), states_stride.s3,
                                     count);
                    }
#if DECAY == SCALAR_DECAY
                exponentials(factors, AT(decay, b, h) + TOKEN(decay, t), decay_stride.s2,
                             min((uint)SEGMENT, tokens - t));
#endif
            }
#if DECAY == SCALAR_DECAY
            by.factor = factors[t % SEGMENT];
#elif DECAY == CHANNEL_DECAY
            exponentials(factors, AT(decay, b, h) + TOKEN(decay, t), decay_stride.s3, m);
            by.factors = factors;
#endif
#if DELTA
            __global const float *r = by.k;
            if (present & HAS_READ_KEY)
                r = row_of(AT(read_key, b, h) + TOKEN(read_key, t), read_key_stride.s3, m, r_copy);
#if DECAY == SCALAR_DECAY
            scale_by(faded, by.factor, r, m);
            r = faded;
#elif DECAY == CHANNEL_DECAY
            multiply(faded, factors, r, m);
            r = faded;
#endif
            const vectors read = read_state(state, r, m);
            if (present & HAS_SAVED)
                store_values(read, AT(reads, b, h) + ELEMENT(reads, t, j), reads_stride.s3, count);
#if WRITE_KEY
            by.w = row_of(AT(write_key, b, h) + TOKEN(write_key, t), write_key_stride.s3, m, w_copy);
            UNROLL for (uint c = 0; c < VECTORS; c++) {
                by.u.x[c] = (floats)(-strength) * read.x[c];
                by.x.x[c] = (floats)(strength)*value.x[c];
            }
#else
            UNROLL for (uint c = 0; c < VECTORS; c++) by.u.x[c] = (floats)(strength) * (value.x[c] - read.x[c]);
#endif
#else
            UNROLL for (uint c = 0; c < VECTORS; c++) by.u.x[c] = (floats)(strength)*value.x[c];
#endif
            vectors o = write_state(state, &by, m);
            UNROLL for (uint c = 0; c < VECTORS; c++) o.x[c] *= (floats)(scale);
            store_values(o, AT(out, b, h) + ELEMENT(out, t, j), out_stride.s3, count);
        }
        if (present & HAS_FINAL)
            for (uint i = 0; i < m; i++) {
                vectors row;
                UNROLL for (uint c = 0; c < VECTORS; c++) row.x[c] = state[i * VECTORS + c];
                store_values(row, AT(last, b, h) + ELEMENT(last, i, j), last_stride.s3, count);
            }
    }
}
#endif
