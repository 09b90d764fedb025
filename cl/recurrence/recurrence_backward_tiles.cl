/*
 * The backward pass of the recurrence for GPUs: the formulas of recurrence_backward_lanes.cl.
 *
 * Index mapping: group = (batch * heads + head) * blocks + block. A work-group owns BLOCK = PARTS * COLUMNS value
 * columns and walks through all tokens backwards, TILE at a time, whose rows it stages in local memory. Work-item
 * (x, y) = (id % QUADS, id / QUADS) holds key coordinates 4 x to 4 x + 3 of columns COLUMNS y and on of the state and
 * of its gradient G in registers. Behind the first of two barriers of each token, sums over key coordinates (G^T k) are
 * added up in the order of the work-items that hold them, and sums over columns (rows of dq, dk, ...) of the token
 * before. These are complete where there is one block; else each block leaves its sums in memory, and
 * recurrence_backward_sum adds them up in their order.
 *
 * Cost of a token and head: as there; of global memory 4 (5 m blocks + 5 n) bytes, and 8 m blocks for each of dq, dk,
 * ... where blocks > 1; of local memory, for each number of the state, 1 / 2 read or written for G^T k and 2 / COLUMNS
 * for each sum over columns.
 */
#include "recurrence.h"

#if LANES == 1

#ifndef QUADS
#define QUADS 16
#endif
#ifndef GROUP
#define GROUP 128
#endif
#ifndef COLUMNS
#define COLUMNS 4
#endif
#define PARTS (GROUP / QUADS)
#define BLOCK (PARTS * COLUMNS)
#define WIDTH (4 * QUADS)
/* Wider tiles do not fit 16 KiB. */
#define TILE (WIDTH <= 32 && !WRITE_KEY ? 8 : WIDTH <= 64 ? 4 : 256 / WIDTH)
/* A head has few groups, so that nothing else runs while a tile is waited for; wider keys leave no registers. */
#define STAGED (WIDTH <= 32 ? 4 : 1)
#include "recurrence_tiles.h"

/* Sums over columns: rows of m numbers. */
enum {
    SUM_Q = 0,
    SUM_K,
#if DELTA
    SUM_R,
#endif
#if WRITE_KEY
    SUM_W,
#endif
#if DECAY == CHANNEL_DECAY
    SUM_DECAY,
#endif
    SUMS
};

/* What a token leaves behind: rows of the sums, and its sums for beta and for a scalar decay. */
#define LEFT(m) (SUMS * (m) + 2)

#define PARTIALS 16 /* of a sum over work-items or over a block's columns */

/* A tile of tokens, and what work-items tell each other about a token. */
typedef struct near {
    float4 q[TILE * QUADS], k[TILE * QUADS];
#if DELTA
    float4 r[TILE * QUADS];
    float reads[TILE * BLOCK];
#endif
#if WRITE_KEY
    float4 w[TILE * QUADS];
#endif
    float v[TILE * BLOCK], d_out[TILE * BLOCK], beta[TILE];
#if DECAY == CHANNEL_DECAY
    float4 decay[TILE * QUADS];
#elif DECAY == SCALAR_DECAY
    float decay[TILE], d_decay[TILE * GROUP];
#endif
    float of_k[QUADS * BLOCK], d_reads[BLOCK];
#if WRITE_KEY
    float of_w[QUADS * BLOCK];
#endif
    float4 sums[SUMS * PARTS * QUADS];
    float d_beta[TILE * BLOCK], partials[TILE * PARTIALS];
    uint is_large;
} near;

/* The work-item's part of a state, of which rows below m and columns below n exist; the rest are zeros. */
static void load_state(float4 *state, __global const float *from, int row_stride, int column_stride, uint m, uint n) {
    const uint i = get_local_id(0) % QUADS * 4, j = get_local_id(0) / QUADS * COLUMNS;
    UNROLL for (uint c = 0; c < COLUMNS; c++) {
        __global const float *column = from + (int)(j + c) * column_stride;
        const uint rows = j + c < n ? m : 0;
        state[c] = (float4)(i < rows ? column[(int)i * row_stride] : 0.0f,
                            i + 1 < rows ? column[(int)(i + 1) * row_stride] : 0.0f,
                            i + 2 < rows ? column[(int)(i + 2) * row_stride] : 0.0f,
                            i + 3 < rows ? column[(int)(i + 3) * row_stride] : 0.0f);
    }
}

static void store_state(const float4 *state, __global float *to, int row_stride, int column_stride, uint m, uint n) {
    const uint i = get_local_id(0) % QUADS * 4, j = get_local_id(0) / QUADS * COLUMNS;
    UNROLL for (uint c = 0; c < COLUMNS; c++) {
        __global float *column = to + (int)(j + c) * column_stride;
        const uint rows = j + c < n ? m : 0;
        if (i < rows)
            column[(int)i * row_stride] = state[c].s0;
        if (i + 1 < rows)
            column[(int)(i + 1) * row_stride] = state[c].s1;
        if (i + 2 < rows)
            column[(int)(i + 2) * row_stride] = state[c].s2;
        if (i + 3 < rows)
            column[(int)(i + 3) * row_stride] = state[c].s3;
    }
}

/* Computes partials [count][PARTIALS] over `length` numbers of each token of x [count][stride]. */
static void add_partly(__local float *partials, __local const float *x, uint stride, uint length, uint count) {
    for (uint i = get_local_id(0); i < count * PARTIALS; i += GROUP) {
        const uint t = i / PARTIALS, first = i % PARTIALS;
        float sum = 0.0f;
        for (uint c = first; c < length; c += PARTIALS)
            sum += x[t * stride + c];
        partials[i] = sum;
    }
}

static float add_partials(__local const float *partials) {
    float sum = 0.0f;
    UNROLL for (uint c = 0; c < PARTIALS; c++) sum += partials[c];
    return sum;
}

/* Returns coordinate i of a sum over the block's columns. */
static float add_parts(__local const near *by, uint which, uint i) {
    __local const float *sums = (__local const float *)by->sums + which * PARTS * WIDTH + i;
    float sum = 0.0f;
    UNROLL for (uint part = 0; part < PARTS; part++) sum += sums[part * WIDTH];
    return sum;
}

/* The outputs, which the kernels below have in common. */
#define GRADIENTS                                                                                                      \
    OUTPUT(d_q), OUTPUT(d_k), OUTPUT(d_v), OUTPUT(d_beta), OUTPUT(d_decay), OUTPUT(d_read_key), OUTPUT(d_write_key),   \
        OUTPUT(d_first)

/* Stores a number of the sums in its output, if that is wanted. */
#define PUT_IF(which, name, t, i, value)                                                                               \
    do {                                                                                                               \
        if (present & WANTS(which))                                                                                    \
            AT(name, b, h)[ELEMENT(name, t, i)] = (value);                                                             \
    } while (0)

#if DELTA
#define PUT_READ_KEY(sum, t, i, value)                                                                                 \
    if ((sum) == SUM_R)                                                                                                \
    PUT_IF(OF_READ_KEY, d_read_key, t, i, value)
#else
#define PUT_READ_KEY(sum, t, i, value)
#endif
#if WRITE_KEY
#define PUT_WRITE_KEY(sum, t, i, value)                                                                                \
    if ((sum) == SUM_W)                                                                                                \
    PUT_IF(OF_WRITE_KEY, d_write_key, t, i, value)
#else
#define PUT_WRITE_KEY(sum, t, i, value)
#endif
#if DECAY == CHANNEL_DECAY
#define PUT_DECAY(sum, t, i, value)                                                                                    \
    if ((sum) == SUM_DECAY)                                                                                            \
    PUT_IF(OF_DECAY, d_decay, t, i, value)
#else
#define PUT_DECAY(sum, t, i, value)
#endif

#define PUT(sum, t, i, value)                                                                                          \
    do {                                                                                                               \
        if ((sum) == SUM_Q)                                                                                            \
            PUT_IF(OF_Q, d_q, t, i, value);                                                                            \
        if ((sum) == SUM_K)                                                                                            \
            PUT_IF(OF_K, d_k, t, i, value);                                                                            \
        PUT_READ_KEY(sum, t, i, value);                                                                                \
        PUT_WRITE_KEY(sum, t, i, value);                                                                               \
        PUT_DECAY(sum, t, i, value);                                                                                   \
    } while (0)

/* Stores the sums over columns of token t. d_r is part of d_k where r = k. */
#define HAND_OVER(t)                                                                                                   \
    do {                                                                                                               \
        for (uint n_ = get_local_id(0); n_ < SUMS * WIDTH; n_ += GROUP) {                                              \
            const uint which_ = n_ / WIDTH, i_ = n_ % WIDTH;                                                           \
            float value_;                                                                                              \
            if (i_ >= m)                                                                                               \
                continue;                                                                                              \
            value_ = add_parts(&by, which_, i_);                                                                       \
            if (DELTA && which_ == SUM_K && !(present & HAS_READ_KEY))                                                 \
                value_ += add_parts(&by, SUM_K + 1, i_);                                                               \
            if (blocks > 1)                                                                                            \
                left[(size_t)(t)*LEFT(m) + which_ * m + i_] = value_;                                                  \
            else                                                                                                       \
                PUT(which_, t, i_, value_);                                                                            \
        }                                                                                                              \
    } while (0)

/* Loads the rows of tokens [start, start + count) into local memory, behind a barrier. */
#define STAGE(start, count)                                                                                            \
    do {                                                                                                               \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
        STAGE_ROWS(q, q, start, count);                                                                                \
        STAGE_ROWS(k, k, start, count);                                                                                \
        STAGE_READ(start, count);                                                                                      \
        STAGE_WRITE(start, count);                                                                                     \
        STAGE_DECAY(start, count);                                                                                     \
        STAGE_COLUMNS(v, v, start, count);                                                                             \
        STAGE_COLUMNS(d_out, d_out, start, count);                                                                     \
        if (present & HAS_BETA)                                                                                        \
            stage(by.beta, AT(beta, b, h) + TOKEN(beta, start), beta_stride.s2, 0, TILE, count, 1, 1);                 \
        barrier(CLK_LOCAL_MEM_FENCE);                                                                                  \
    } while (0)
#define STAGE_ROWS(to, name, start, count)                                                                             \
    stage((__local float *)by.to, AT(name, b, h) + TOKEN(name, start), name##_stride.s2, name##_stride.s3, TILE,       \
          count, m, WIDTH)
#define STAGE_COLUMNS(to, name, start, count)                                                                          \
    stage(by.to, AT(name, b, h) + ELEMENT(name, start, column), name##_stride.s2, name##_stride.s3, TILE, count,       \
          n - column, BLOCK)
#if DELTA
#define STAGE_READ(start, count)                                                                                       \
    STAGE_COLUMNS(reads, reads, start, count);                                                                         \
    if (present & HAS_READ_KEY)                                                                                        \
    STAGE_ROWS(r, read_key, start, count)
#else
#define STAGE_READ(start, count)
#endif
#if WRITE_KEY
#define STAGE_WRITE(start, count) STAGE_ROWS(w, write_key, start, count)
#else
#define STAGE_WRITE(start, count)
#endif
#if DECAY == CHANNEL_DECAY
#define STAGE_DECAY(start, count)                                                                                      \
    STAGE_ROWS(decay, decay, start, count);                                                                            \
    exponentiate((__local float *)by.decay, TILE *WIDTH)
#elif DECAY == SCALAR_DECAY
#define STAGE_DECAY(start, count)                                                                                      \
    stage(by.decay, AT(decay, b, h) + TOKEN(decay, start), decay_stride.s2, 0, TILE, count, 1, 1);                     \
    exponentiate(by.decay, TILE)
#else
#define STAGE_DECAY(start, count)
#endif

/* Returns the factor of the work-item's rows in token t of the tile. */
#if DECAY == CHANNEL_DECAY
#define FACTOR(t) by.decay[(t)*QUADS + x]
#elif DECAY == SCALAR_DECAY
#define FACTOR(t) ((float4)(by.decay[t]))
#endif

/* Returns what token t of the tile writes into column c of the work-item: k u^T, and w written^T. */
#if WRITE_KEY
#define U(t, c)       (-strength * by.reads[(t)*BLOCK + y * COLUMNS + (c)])
#define WRITTEN(t, c) (strength * by.v[(t)*BLOCK + y * COLUMNS + (c)])
#elif DELTA
#define U(t, c) (strength * (by.v[(t)*BLOCK + y * COLUMNS + (c)] - by.reads[(t)*BLOCK + y * COLUMNS + (c)]))
#else
#define U(t, c) (strength * by.v[(t)*BLOCK + y * COLUMNS + (c)])
#endif

/* Returns whether a segment's decays are so large that its states must be computed forward. */
static uint decays_are_large(__local uint *is_large, __global const float *decay, int token_stride, int stride,
                             uint length, uint count) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (get_local_id(0) == 0)
        *is_large = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = get_local_id(0); i < count; i += GROUP) {
        float sum = 0.0f;
        for (uint t = 0; t < length; t++)
            sum += fabs(decay[(int)t * token_stride + (int)i * stride]);
        if (!(sum <= LARGEST_DECAY))
            atomic_or(is_large, 1);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    return *is_large;
}

/* scratch: with decay, GROUP * COLUMNS * SEGMENT vectors for each work-group. lefts: with several blocks, LEFT(m)
 * numbers for each block, head from `first_head` on and token, of `heads` heads. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
recurrence_backward_tiles(GRADIENTS, INPUT(d_out), INPUT(d_last), INPUT(last), INPUT(reads), INPUT(states), INPUT(q),
                          INPUT(k), INPUT(v), INPUT(beta), INPUT(decay), INPUT(read_key), INPUT(write_key),
                          INPUT(first), uint4 sizes, uint present, float scale, uint blocks, uint2 units,
                          uint first_head, uint heads, __global float *lefts, __global float4 *scratch) {
    __local near by;
    const uint tokens = sizes.s1, m = sizes.s2, n = sizes.s3;
    const uint x = get_local_id(0) % QUADS, y = get_local_id(0) / QUADS;
    float4 state[COLUMNS], adjoint[COLUMNS];
#if DECAY != NO_DECAY
    __global float4 *kept = scratch + (size_t)get_group_id(0) * GROUP * COLUMNS * SEGMENT + get_local_id(0);
#endif
    FOR_EACH_GROUP(unit, units) {
        const uint within = unit / blocks, block = unit - within * blocks, column = block * BLOCK;
        const uint head = first_head + within, b = head / sizes.s0, h = head - b * sizes.s0;
        __global float *left = lefts + ((size_t)block * heads + within) * tokens * LEFT(m);
        UNROLL for (uint c = 0; c < COLUMNS; c++) adjoint[c] = (float4)(0.0f);
        if (present & HAS_D_FINAL)
            load_state(adjoint, AT(d_last, b, h) + COLUMN(d_last, column), d_last_stride.s2, d_last_stride.s3, m,
                       n - column);
        for (uint segment = (tokens + SEGMENT - 1) / SEGMENT; segment-- > 0;) {
            const uint start = segment * SEGMENT, end = min(start + SEGMENT, tokens);
            uint is_kept = 0;
#if DECAY != NO_DECAY
            is_kept = decays_are_large(&by.is_large, AT(decay, b, h) + TOKEN(decay, start), decay_stride.s2,
                                       decay_stride.s3, end - start, DECAY == CHANNEL_DECAY ? m : 1);
            if (is_kept) {
                load_state(state, AT(states, b, h) + ELEMENT(states, segment * m, column), states_stride.s2,
                           states_stride.s3, m, n - column);
                for (uint from = start; from < end; from += TILE) {
                    const uint count = min((uint)TILE, end - from);
                    STAGE(from, count);
                    for (uint t = 0; t < count; t++) {
                        const float strength = present & HAS_BETA ? by.beta[t] : 1.0f;
                        const float4 factor = FACTOR(t), of_k = by.k[t * QUADS + x];
                        UNROLL for (uint c = 0; c < COLUMNS; c++) {
                            kept[((from - start + t) * COLUMNS + c) * GROUP] = state[c];
                            state[c] = MULTIPLY_ADD(of_k, (float4)(U(t, c)), factor * state[c]);
#if WRITE_KEY
                            state[c] = MULTIPLY_ADD(by.w[t * QUADS + x], (float4)(WRITTEN(t, c)), state[c]);
#endif
                        }
                    }
                }
            }
#endif
            if (!is_kept && end == tokens)
                load_state(state, AT(last, b, h) + COLUMN(last, column), last_stride.s2, last_stride.s3, m, n - column);
            else if (!is_kept)
                load_state(state, AT(states, b, h) + ELEMENT(states, (segment + 1) * m, column), states_stride.s2,
                           states_stride.s3, m, n - column);
            for (uint tile = (end - start + TILE - 1) / TILE; tile-- > 0;) {
                const uint from = start + tile * TILE, count = min((uint)TILE, end - from);
                STAGE(from, count);
#if DELTA
                __local const float4 *near_r = present & HAS_READ_KEY ? by.r : by.k;
#endif
                for (uint t = count; t-- > 0;) {
                    const float strength = present & HAS_BETA ? by.beta[t] : 1.0f;
                    const float4 of_q = scale * by.q[t * QUADS + x], of_k = by.k[t * QUADS + x];
                    float4 sum_q = (float4)(0.0f), sum_k = (float4)(0.0f);
#if WRITE_KEY
                    const float4 of_w = by.w[t * QUADS + x];
                    float4 sum_w = (float4)(0.0f);
#endif
                    UNROLL for (uint c = 0; c < COLUMNS; c++) {
                        const float4 d_o = (float4)(by.d_out[t * BLOCK + y * COLUMNS + c]);
                        adjoint[c] = MULTIPLY_ADD(of_q, d_o, adjoint[c]);
                        sum_q = MULTIPLY_ADD(state[c], d_o, sum_q);
                        by.of_k[x * BLOCK + y * COLUMNS + c] = sum_of(adjoint[c] * of_k);
#if WRITE_KEY
                        by.of_w[x * BLOCK + y * COLUMNS + c] = sum_of(adjoint[c] * of_w);
#endif
                    }
                    barrier(CLK_LOCAL_MEM_FENCE);
                    if (t + 1 < count)
                        HAND_OVER(from + t + 1);
                    for (uint c = get_local_id(0); c < BLOCK; c += GROUP) {
                        float d_read = 0.0f;
                        UNROLL for (uint i = 0; i < QUADS; i++) d_read += by.of_k[i * BLOCK + c];
                        float d_u = d_read;
#if WRITE_KEY
                        d_u = 0.0f;
                        UNROLL for (uint i = 0; i < QUADS; i++) d_u += by.of_w[i * BLOCK + c];
                        by.d_beta[t * BLOCK + c] = d_u * by.v[t * BLOCK + c] - d_read * by.reads[t * BLOCK + c];
#elif DELTA
                        by.d_beta[t * BLOCK + c] = d_u * (by.v[t * BLOCK + c] - by.reads[t * BLOCK + c]);
#else
                        by.d_beta[t * BLOCK + c] = d_u * by.v[t * BLOCK + c];
#endif
                        by.d_reads[c] = -strength * d_read;
                        if (column + c < n)
                            PUT_IF(OF_V, d_v, from + t, column + c, strength * d_u);
                    }
                    barrier(CLK_LOCAL_MEM_FENCE);
#if DELTA
                    const float4 of_r = near_r[t * QUADS + x];
                    float4 sum_r = (float4)(0.0f);
#endif
#if DECAY != NO_DECAY
                    const float4 factor = FACTOR(t), inverse = (float4)(1.0f) / factor;
                    float4 sum_decay = (float4)(0.0f);
#endif
                    UNROLL for (uint c = 0; c < COLUMNS; c++) {
                        const float4 u = (float4)(U(t, c));
                        sum_k = MULTIPLY_ADD(adjoint[c], u, sum_k);
#if WRITE_KEY
                        const float4 written = (float4)(WRITTEN(t, c));
                        sum_w = MULTIPLY_ADD(adjoint[c], written, sum_w);
#endif
                        float4 read = state[c]; /* P */
#if DECAY != NO_DECAY
                        if (is_kept) {
                            state[c] = kept[((from - start + t) * COLUMNS + c) * GROUP];
                            read = factor * state[c];
                        } else
#endif
                        {
#if WRITE_KEY
                            read = MULTIPLY_ADD(-of_w, written, read);
#endif
                            read = MULTIPLY_ADD(-of_k, u, read);
#if DECAY != NO_DECAY
                            state[c] = inverse * read;
#else
                            state[c] = read;
#endif
                        }
#if DELTA
                        const float4 d_read = (float4)(by.d_reads[y * COLUMNS + c]);
                        sum_r = MULTIPLY_ADD(read, d_read, sum_r);
                        adjoint[c] = MULTIPLY_ADD(of_r, d_read, adjoint[c]);
#endif
#if DECAY != NO_DECAY
                        sum_decay = MULTIPLY_ADD(adjoint[c], read, sum_decay);
                        adjoint[c] *= factor;
#endif
                    }
                    __local float4 *sums = by.sums + y * QUADS + x;
                    sums[SUM_Q * PARTS * QUADS] = scale * sum_q;
                    sums[SUM_K * PARTS * QUADS] = sum_k;
#if DELTA
                    sums[SUM_R * PARTS * QUADS] = sum_r;
#endif
#if WRITE_KEY
                    sums[SUM_W * PARTS * QUADS] = sum_w;
#endif
#if DECAY == CHANNEL_DECAY
                    sums[SUM_DECAY * PARTS * QUADS] = sum_decay;
#elif DECAY == SCALAR_DECAY
                    by.d_decay[t * GROUP + get_local_id(0)] = sum_of(sum_decay);
#endif
                }
                barrier(CLK_LOCAL_MEM_FENCE);
                HAND_OVER(from);
                add_partly(by.partials, by.d_beta, BLOCK, BLOCK, count);
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint t = get_local_id(0); t < count; t += GROUP) {
                    const float sum = add_partials(by.partials + t * PARTIALS);
                    if (blocks > 1)
                        left[(size_t)(from + t) * LEFT(m) + SUMS * m] = sum;
                    else
                        PUT_IF(OF_BETA, d_beta, from + t, 0, sum);
                }
#if DECAY == SCALAR_DECAY
                barrier(CLK_LOCAL_MEM_FENCE);
                add_partly(by.partials, by.d_decay, GROUP, GROUP, count);
                barrier(CLK_LOCAL_MEM_FENCE);
                for (uint t = get_local_id(0); t < count; t += GROUP) {
                    const float sum = add_partials(by.partials + t * PARTIALS);
                    if (blocks > 1)
                        left[(size_t)(from + t) * LEFT(m) + SUMS * m + 1] = sum;
                    else
                        PUT_IF(OF_DECAY, d_decay, from + t, 0, sum);
                }
#endif
            }
        }
        if (present & WANTS(OF_STATE))
            store_state(adjoint, AT(d_first, b, h) + COLUMN(d_first, column), d_first_stride.s2, d_first_stride.s3, m,
                        n - column);
    }
}

/* Adds up what the blocks left behind, in their order. A work-item has one number of one token of `heads` heads. */
__kernel void recurrence_backward_sum(GRADIENTS, uint4 sizes, uint present, uint blocks, uint2 units, uint first_head,
                                      uint heads, __global const float *lefts) {
    const uint tokens = sizes.s1, m = sizes.s2;
    FOR_EACH_UNIT(units) {
        const uint row = unit / LEFT(m), at = unit - row * LEFT(m), which = at / m, i = at - which * m;
        const uint within = row / tokens, t = row - within * tokens;
        const uint head = first_head + within, b = head / sizes.s0, h = head - b * sizes.s0;
        float sum = 0.0f;
        for (uint block = 0; block < blocks; block++)
            sum += lefts[((size_t)block * heads * tokens + row) * LEFT(m) + at];
        if (at < SUMS * m)
            PUT(which, t, i, sum);
        else if (at == SUMS * m)
            PUT_IF(OF_BETA, d_beta, t, 0, sum);
#if DECAY == SCALAR_DECAY
        else
            PUT_IF(OF_DECAY, d_decay, t, 0, sum);
#endif
    }
}
#endif
