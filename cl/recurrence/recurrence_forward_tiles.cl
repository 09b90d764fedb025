/*
 * The forward pass of the recurrence for GPUs: the formulas stand in ops_recurrence.h.
 *
 * Index mapping: group = (batch * heads + head) * blocks + block. A work-group of 64 owns COLUMNS value columns and
 * walks through all tokens, TILE at a time, whose rows it stages in local memory. Work-item (x, y) = (id % COLUMNS,
 * id / COLUMNS) holds ROWS vectors of four key coordinates, 4 (y + PARTS e) and on, of column x of the state in
 * registers. A sum over key coordinates is added up from the PARTS work-items of its column, in their order: that of p
 * behind the one barrier of each token, that of o once for each tile.
 *
 * Cost of a token and head: 6 m n flops with the delta term and 4 m n without, m n more with decay; of global memory
 * 4 (3 m blocks + 3 n) bytes; of local memory three loads of a vector for 16 multiply-adds.
 */
#include "recurrence.h"

#if LANES == 1

#ifndef ROWS
#define ROWS 4
#endif
#define GROUP   64
#define PARTS   4
#define COLUMNS (GROUP / PARTS)
#define QUADS   (ROWS * PARTS)
#define WIDTH   (4 * QUADS)
#define TILE    (WIDTH <= 32 ? 16 : 512 / WIDTH)
#include "recurrence_tiles.h"

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
recurrence_forward_tiles(OUTPUT(out), OUTPUT(last), OUTPUT(reads), OUTPUT(states), INPUT(q), INPUT(k), INPUT(v),
                         INPUT(beta), INPUT(decay), INPUT(read_key), INPUT(write_key), INPUT(first), uint4 sizes,
                         uint present, float scale, uint blocks, uint2 units) {
    __local float4 near_q[TILE * QUADS], near_k[TILE * QUADS];
    __local float near_v[TILE * COLUMNS], near_beta[TILE], outs[TILE * GROUP];
#if DELTA
    __local float4 near_r[TILE * QUADS];
    __local float sums[2 * GROUP];
#endif
#if WRITE_KEY
    __local float4 near_w[TILE * QUADS];
#endif
#if DECAY == CHANNEL_DECAY
    __local float4 near_decay[TILE * QUADS];
#elif DECAY == SCALAR_DECAY
    __local float near_decay[TILE];
#endif
    const uint tokens = sizes.s1, m = sizes.s2, n = sizes.s3;
    const uint x = get_local_id(0) % COLUMNS, y = get_local_id(0) / COLUMNS;
    float4 state[ROWS];
    FOR_EACH_GROUP(unit, units) {
        const uint head = unit / blocks, b = head / sizes.s0, h = head - b * sizes.s0;
        const uint column = (unit - head * blocks) * COLUMNS, j = column + x;
        UNROLL for (uint e = 0; e < ROWS; e++) state[e] =
            present & HAS_STATE && j < n
                ? load_rows(AT(first, b, h) + COLUMN(first, j), first_stride.s2, 4 * (y + PARTS * e), m)
                : (float4)(0.0f);
        for (uint start = 0; start < tokens; start += TILE) {
            const uint count = min((uint)TILE, tokens - start);
            barrier(CLK_LOCAL_MEM_FENCE);
            stage((__local float *)near_q, AT(q, b, h) + TOKEN(q, start), q_stride.s2, q_stride.s3, TILE, count, m,
                  WIDTH);
            stage((__local float *)near_k, AT(k, b, h) + TOKEN(k, start), k_stride.s2, k_stride.s3, TILE, count, m,
                  WIDTH);
            stage(near_v, AT(v, b, h) + ELEMENT(v, start, column), v_stride.s2, v_stride.s3, TILE, count, n - column,
                  COLUMNS);
            if (present & HAS_BETA)
                stage(near_beta, AT(beta, b, h) + TOKEN(beta, start), beta_stride.s2, 0, TILE, count, 1, 1);
#if DELTA
            if (present & HAS_READ_KEY)
                stage((__local float *)near_r, AT(read_key, b, h) + TOKEN(read_key, start), read_key_stride.s2,
                      read_key_stride.s3, TILE, count, m, WIDTH);
            __local const float4 *r = present & HAS_READ_KEY ? near_r : near_k;
#endif
#if WRITE_KEY
            stage((__local float *)near_w, AT(write_key, b, h) + TOKEN(write_key, start), write_key_stride.s2,
                  write_key_stride.s3, TILE, count, m, WIDTH);
#endif
#if DECAY == CHANNEL_DECAY
            stage((__local float *)near_decay, AT(decay, b, h) + TOKEN(decay, start), decay_stride.s2, decay_stride.s3,
                  TILE, count, m, WIDTH);
            barrier(CLK_LOCAL_MEM_FENCE);
            exponentiate((__local float *)near_decay, TILE * WIDTH);
#elif DECAY == SCALAR_DECAY
            stage(near_decay, AT(decay, b, h) + TOKEN(decay, start), decay_stride.s2, 0, TILE, count, 1, 1);
            barrier(CLK_LOCAL_MEM_FENCE);
            exponentiate(near_decay, TILE);
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
            if (start % SEGMENT == 0 && present & HAS_SAVED && j < n)
                UNROLL for (uint e = 0; e < ROWS; e++)
                    store_rows(state[e], AT(states, b, h) + ELEMENT(states, start / SEGMENT * m, j), states_stride.s2,
                               4 * (y + PARTS * e), m);
            for (uint t = 0; t < count; t++) {
                const float strength = present & HAS_BETA ? near_beta[t] : 1.0f;
                float4 o = (float4)(0.0f);
#if DECAY != NO_DECAY
                UNROLL for (uint e = 0; e < ROWS; e++) state[e] *=
#if DECAY == CHANNEL_DECAY
                    near_decay[t * QUADS + y + PARTS * e];
#else
                    (float4)(near_decay[t]);
#endif
#endif
#if DELTA
                float4 part = (float4)(0.0f);
                float read = 0.0f;
                __local float *sum = sums + t % 2 * GROUP;
                UNROLL for (uint e = 0; e < ROWS; e++) part =
                    MULTIPLY_ADD(r[t * QUADS + y + PARTS * e], state[e], part);
                sum[get_local_id(0)] = sum_of(part);
                barrier(CLK_LOCAL_MEM_FENCE);
                UNROLL for (uint c = 0; c < PARTS; c++) read += sum[c * COLUMNS + x];
                if (y == 0 && j < n && present & HAS_SAVED)
                    AT(reads, b, h)[ELEMENT(reads, start + t, j)] = read;
#if WRITE_KEY
                const float u = -strength * read, written = strength * near_v[t * COLUMNS + x];
#else
                const float u = strength * (near_v[t * COLUMNS + x] - read);
#endif
#else
                const float u = strength * near_v[t * COLUMNS + x];
#endif
                UNROLL for (uint e = 0; e < ROWS; e++) {
                    const uint at = t * QUADS + y + PARTS * e;
                    state[e] = MULTIPLY_ADD(near_k[at], (float4)(u), state[e]);
#if WRITE_KEY
                    state[e] = MULTIPLY_ADD(near_w[at], (float4)(written), state[e]);
#endif
                    o = MULTIPLY_ADD(near_q[at], state[e], o);
                }
                outs[t * GROUP + get_local_id(0)] = sum_of(o);
            }
            barrier(CLK_LOCAL_MEM_FENCE);
            for (uint i = get_local_id(0); i < count * COLUMNS; i += GROUP) {
                const uint t = i / COLUMNS, c = i % COLUMNS;
                float sum = 0.0f;
                UNROLL for (uint part = 0; part < PARTS; part++) sum += outs[t * GROUP + part * COLUMNS + c];
                if (column + c < n)
                    AT(out, b, h)[ELEMENT(out, start + t, column + c)] = scale * sum;
            }
        }
        if (present & HAS_FINAL && j < n)
            UNROLL for (uint e = 0; e < ROWS; e++)
                store_rows(state[e], AT(last, b, h) + COLUMN(last, j), last_stride.s2, 4 * (y + PARTS * e), m);
    }
}
#endif
