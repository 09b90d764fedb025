/*
 * The forward pass of the recurrence for GPUs, by chunks of CHUNK tokens. Within a chunk, with S the state before it,
 * L_ij = exp(decay_(j+1) + ... + decay_i) and G_i = exp(decay_1 + ... + decay_i), each for all channels or for each:
 *
 *     p_i = (G_i r_i)^T S + sum_(j<i) (r_i^T L_ij k_j) u_j + (r_i^T L_ij w_j) y_j        u_i = -beta_i p_i
 *     o_i = scale ((G_i q_i)^T S + sum_(j<=i) (q_i^T L_ij k_j) u_j + (q_i^T L_ij w_j) y_j)   y_i = beta_i v_i
 *     S  <- G_C S + sum_j (L_Cj k_j) u_j^T + (L_Cj w_j) y_j^T
 *
 * (S. Yang et al., "Parallelizing linear transformers with the delta rule over sequence length", 2024, section 3, and
 * "Gated delta networks", 2025, section 3.) Where w = k, u_i = beta_i (v_i - p_i) and y = 0; without the delta term
 * u_i = beta_i v_i. The papers invert I + A, A_ij = beta_i r_i^T L_ij k_j; here a forward substitution solves for u,
 * whose error is in proportion to p and not to |(I + A)^-1| |p|. L and G are products of gates, not exponentials of
 * differences: they are as exact as the recurrence itself however strong decays are, they do not overflow, and
 * exp(-infinity) is a 0 like any other. Sums over j end at i and start at the oldest token, so that a NaN does not
 * reach tokens before its own.
 *
 * recurrence_chunk_products: group = head * chunks + chunk; work-item (j, y) = (id % CHUNK, id / CHUNK) has the
 * products of token j's keys with q and r of tokens 4 y to 4 y + 3. They do not depend on S: all chunks at once.
 *
 * recurrence_forward_chunks: group = head * blocks + block. A work-group of 64 owns COLUMNS value columns and walks
 * through the chunks. Work-item (x, y) = (id % COLUMNS, id / COLUMNS) holds ROWS vectors of four key coordinates,
 * 4 (y + PARTS e) and on, of column x of the state in registers. Barriers: 6 for each chunk, 10 with the delta term,
 * while keys fit in local memory at once; the form by tokens has 16 more for 16 tokens with the delta term.
 *
 * Cost of a token and head: 6 m n flops with the delta term and 4 m n without, 4 CHUNK n for the terms within the
 * chunk, and 4 CHUNK m for the products; of global memory 4 (3 m blocks + 3 n) bytes and 8 CHUNK blocks of products; of
 * local memory one load of a vector for 4 multiply-adds.
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
#define CHUNK   16 /* tokens: CHUNK of recurrence.c */
#include "recurrence_tiles.h"

/* The rows of several tokens do not fit in registers beside the state. */
#define KEEP_LOOP _Pragma("unroll 1")

/* What is known about a chunk before its state is: matrices [i][j], and G_i and L_Ci if one factor serves all
 * channels. */
enum {
    Q_K = 0,
#if DELTA
    R_K,
#endif
#if WRITE_KEY
    Q_W,
    R_W,
#endif
    PRODUCTS
};
#define MATRIX       (CHUNK * CHUNK)
#define FROM_START   (PRODUCTS * MATRIX)
#define TO_END       (FROM_START + CHUNK)
#define CHUNK_FLOATS (FROM_START + (DECAY == SCALAR_DECAY ? 2 * CHUNK : 0))

/* ---- Products of keys ---- */

#define STEP    8          /* vectors of channels in local memory at a time */
#define STRIDE  (STEP + 1) /* of their rows: neighbouring tokens lie in other banks */
#define BETWEEN 4          /* tokens whose products with token j a work-item has */

/* The local memory of a work-group. */
typedef struct near_keys {
    float4 q[CHUNK * STRIDE], k[CHUNK * STRIDE];
#if DELTA
    float4 read_key[CHUNK * STRIDE];
#endif
#if WRITE_KEY
    float4 write_key[CHUNK * STRIDE];
#endif
#if DECAY == CHANNEL_DECAY
    float4 decay[CHUNK * STRIDE]; /* gates */
#elif DECAY == SCALAR_DECAY
    float decay[CHUNK];
#endif
} near_keys;

/* Sets decayed[s] to the key of token j, decayed to token `first` + s. Nobody uses it if that token comes before j. */
INLINED void decay_key(float4 *decayed, __local const near_keys *by, uint c, float4 key, uint j, uint first) {
#if DECAY == CHANNEL_DECAY
    for (uint i = j + 1; i < first; i++)
        key *= by->decay[i * STRIDE + c];
#endif
    UNROLL for (uint s = 0; s < BETWEEN; s++) {
#if DECAY == CHANNEL_DECAY
        key *= first + s > j ? by->decay[(first + s) * STRIDE + c] : (float4)(1.0f);
#endif
        decayed[s] = key;
    }
}

/* Adds to sums[s] the product of row `first` + s and the key of token j, decayed to it. */
INLINED void add_products(float4 *sums, __local const float4 *rows, const float4 *decayed, uint first) {
    UNROLL for (uint s = 0; s < BETWEEN; s++) sums[s] = MULTIPLY_ADD(rows[(first + s) * STRIDE], decayed[s], sums[s]);
}

/* Adds the products over the channels in local memory; r: read keys. */
INLINED void multiply_keys(float4 sums[PRODUCTS][BETWEEN], __local const near_keys *by, __local const float4 *r, uint j,
                           uint first) {
    float4 decayed[BETWEEN];
    KEEP_LOOP for (uint c = 0; c < STEP; c++) {
        decay_key(decayed, by, c, by->k[j * STRIDE + c], j, first);
        add_products(sums[Q_K], by->q + c, decayed, first);
#if DELTA
        add_products(sums[R_K], r + c, decayed, first);
#endif
#if WRITE_KEY
        decay_key(decayed, by, c, by->write_key[j * STRIDE + c], j, first);
        add_products(sums[Q_W], by->q + c, decayed, first);
        add_products(sums[R_W], r + c, decayed, first);
#endif
    }
}

#if DECAY == SCALAR_DECAY
/* Sets between[s] to L of tokens `first` + s and j. The first row of work-items stores G_j and L_Cj. */
INLINED void multiply_gates(float *between, __global float *known, __local const float *gates, uint j, uint first) {
    UNROLL for (uint s = 0; s < BETWEEN; s++) {
        between[s] = 1.0f;
        for (uint i = j + 1; i <= first + s; i++)
            between[s] *= gates[i];
    }
    if (first == 0) {
        float from_start = gates[0], to_end = 1.0f;
        for (uint i = 1; i <= j; i++)
            from_start *= gates[i];
        for (uint i = j + 1; i < CHUNK; i++)
            to_end *= gates[i];
        known[FROM_START + j] = from_start;
        known[TO_END + j] = to_end;
    }
}
#endif

#define STAGE_STEP(name)                                                                                               \
    stage((__local float *)by.name, AT(name, b, h) + ELEMENT(name, start, channel), name##_stride.s2,                  \
          name##_stride.s3, CHUNK, count, min(4u * STEP, m - channel), 4 * STRIDE)

/* products: CHUNK_FLOATS numbers for each unit. */
__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
recurrence_chunk_products(INPUT(q), INPUT(k), INPUT(decay), INPUT(read_key), INPUT(write_key), uint4 sizes,
                          uint present, uint chunks, uint2 units, uint first_head, __global float *products) {
    __local near_keys by;
    const uint tokens = sizes.s1, m = sizes.s2, j = get_local_id(0) % CHUNK, first = get_local_id(0) / CHUNK * BETWEEN;
    FOR_EACH_GROUP(unit, units) {
        const uint within = unit / chunks, start = (unit - within * chunks) * CHUNK;
        const uint head = first_head + within, b = head / sizes.s0, h = head - b * sizes.s0;
        const uint count = min((uint)CHUNK, tokens - start);
        __global float *known = products + (size_t)unit * CHUNK_FLOATS;
        float between[BETWEEN] = {1.0f, 1.0f, 1.0f, 1.0f};
        float4 sums[PRODUCTS][BETWEEN];
        UNROLL for (uint i = 0; i < PRODUCTS * BETWEEN; i++) sums[i / BETWEEN][i % BETWEEN] = (float4)(0.0f);
        for (uint channel = 0; channel < m; channel += 4 * STEP) {
            __local const float4 *r = by.k;
            barrier(CLK_LOCAL_MEM_FENCE);
            STAGE_STEP(q);
            STAGE_STEP(k);
#if DELTA
            if (present & HAS_READ_KEY) {
                STAGE_STEP(read_key);
                r = by.read_key;
            }
#endif
#if WRITE_KEY
            STAGE_STEP(write_key);
#endif
#if DECAY == CHANNEL_DECAY
            STAGE_STEP(decay);
            exponentiate((__local float *)by.decay, CHUNK * 4 * STRIDE);
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
            multiply_keys(sums, &by, r, j, first);
        }
#if DECAY == SCALAR_DECAY
        barrier(CLK_LOCAL_MEM_FENCE);
        stage(by.decay, AT(decay, b, h) + TOKEN(decay, start), decay_stride.s2, 0, CHUNK, count, 1, 1);
        exponentiate(by.decay, CHUNK);
        barrier(CLK_LOCAL_MEM_FENCE);
        multiply_gates(between, known, by.decay, j, first);
#endif
        UNROLL for (uint product = 0; product < PRODUCTS; product++) UNROLL for (uint s = 0; s < BETWEEN; s++)
            known[product * MATRIX + (first + s) * CHUNK + j] = between[s] * sum_of(sums[product][s]);
    }
}

/* ---- The walk through the chunks ---- */

#define KEYS (1 + WRITE_KEY)
#define NEAR (WIDTH * KEYS <= 128 ? CHUNK : 2048 / (WIDTH * KEYS)) /* tokens whose rows are in 8 KiB of local memory */

/* The local memory of a work-group, in rows [CHUNK][COLUMNS]. */
typedef struct near {
    float4 rows[KEYS][NEAR * QUADS]; /* of keys; while reads are solved for, the products with read keys */
    float parts[CHUNK * GROUP];      /* of sums over key coordinates */
    float u[CHUNK * COLUMNS];
#if DELTA
    float v[CHUNK * COLUMNS], p[CHUNK * COLUMNS], beta[CHUNK]; /* v: with write keys, y */
#endif
#if DECAY == CHANNEL_DECAY
    float4 whole[QUADS]; /* G_C */
#endif
} near;

/* The rows of a chunk's tokens. */
typedef struct token_rows {
    __global const float *from;
    int token_stride, column_stride;
} token_rows;

#define ROWS_OF(name) ((token_rows){AT(name, b, h) + TOKEN(name, start), name##_stride.s2, name##_stride.s3})

typedef struct chunk {
    __global const float *known; /* from recurrence_chunk_products */
    token_rows decay;
    uint count, m; /* tokens, key coordinates */
    uint columns;  /* of values from the first of the work-group on */
    uint present;
} chunk;

INLINED float element(const token_rows *rows, uint t, uint column) {
    return rows->from[(int)t * rows->token_stride + (int)column * rows->column_stride];
}

/* Returns a factor of one token if it serves all channels, and 1 if each channel's factor is already in the rows. */
#if DECAY == SCALAR_DECAY
#define FACTOR(where, t) is->known[(where) + (t)]
#else
#define FACTOR(where, t) 1.0f
#endif

/* Sets near [NEAR][WIDTH] to rows of tokens from `from` on. With a decay for each channel, row i is multiplied by G_i,
 * and G_C stands behind the rows of the last token. */
INLINED void stage_from_start(__local near *by, const token_rows *rows, const chunk *is, uint from) {
    __local float *to = (__local float *)by->rows;
#if DECAY == CHANNEL_DECAY
    for (uint c = get_local_id(0); c < WIDTH; c += GROUP) {
        const uint end = c < is->m ? min(is->count, from + NEAR) : 0;
        float product = 1.0f;
        for (uint t = 0; t < end; t++) {
            product *= exp(element(&is->decay, t, c));
            if (t >= from)
                to[(t - from) * WIDTH + c] = product * element(rows, t, c);
        }
        for (uint t = max(end, from); t < from + NEAR; t++)
            to[(t - from) * WIDTH + c] = 0.0f;
        ((__local float *)by->whole)[c] = product;
    }
#else
    stage(to, rows->from + (int)from * rows->token_stride, rows->token_stride, rows->column_stride, NEAR,
          max(is->count, from) - from, is->m, WIDTH);
#endif
}

/* As above for keys of what tokens write; with a decay for each channel they are multiplied by L_Ci. */
INLINED void stage_to_end(__local float4 *near, const token_rows *rows, const chunk *is, uint from) {
    __local float *to = (__local float *)near;
#if DECAY == CHANNEL_DECAY
    for (uint c = get_local_id(0); c < WIDTH; c += GROUP) {
        const uint count = c < is->m ? is->count : 0;
        float product = 1.0f;
        for (uint t = from + NEAR; t-- > max(count, from);)
            to[(t - from) * WIDTH + c] = 0.0f;
        for (uint t = count; t-- > from;) {
            if (t < from + NEAR)
                to[(t - from) * WIDTH + c] = product * element(rows, t, c);
            product *= exp(element(&is->decay, t, c));
        }
    }
#else
    stage(to, rows->from + (int)from * rows->token_stride, rows->token_stride, rows->column_stride, NEAR,
          max(is->count, from) - from, is->m, WIDTH);
#endif
}

/* Computes what tokens write as far as it is known: u without the delta term; otherwise v and beta. */
INLINED void stage_values(__local near *by, const token_rows *v, const token_rows *beta, const chunk *is) {
    const uint x = get_local_id(0) % COLUMNS, y = get_local_id(0) / COLUMNS;
    for (uint t = y; t < CHUNK; t += PARTS) {
        const float strength = is->present & HAS_BETA && t < is->count ? element(beta, t, 0) : 1.0f;
        const float value = t < is->count && x < is->columns ? element(v, t, x) : 0.0f;
#if DELTA
        by->v[t * COLUMNS + x] = WRITE_KEY ? strength * value : value;
        if (x == 0)
            by->beta[t] = strength;
#else
        by->u[t * COLUMNS + x] = strength * value;
#endif
    }
}

/* Sets parts[t][id] to the work-item's part of token t's row times its column of the state, behind a barrier. */
INLINED void multiply_rows(__local near *by, const float4 *state, const token_rows *rows, const chunk *is) {
    const uint y = get_local_id(0) / COLUMNS;
    for (uint from = 0; from < CHUNK; from += NEAR) {
        barrier(CLK_LOCAL_MEM_FENCE);
        stage_from_start(by, rows, is, from);
        barrier(CLK_LOCAL_MEM_FENCE);
        KEEP_LOOP for (uint t = from; t < min(is->count, from + NEAR); t++) {
            float4 part = (float4)(0.0f);
            UNROLL for (uint e = 0; e < ROWS; e++) part =
                MULTIPLY_ADD(by->rows[0][(t - from) * QUADS + y + PARTS * e], state[e], part);
            by->parts[t * GROUP + get_local_id(0)] = sum_of(part);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
}

/* Returns the row of token t times column x of the state before the chunk, decayed up to that token. */
INLINED float add_parts(__local const near *by, const chunk *is, uint t) {
    const uint x = get_local_id(0) % COLUMNS;
    float sum = 0.0f;
    UNROLL for (uint part = 0; part < PARTS; part++) sum += by->parts[t * GROUP + part * COLUMNS + x];
    return FACTOR(FROM_START, t) * sum;
}

#if DELTA
/* Computes p and u of the chunk's tokens, one after the other. */
INLINED void solve_reads(__local near *by, const chunk *is) {
    const uint x = get_local_id(0) % COLUMNS, y = get_local_id(0) / COLUMNS;
    __local float *of_k = (__local float *)by->rows; /* and of w behind it */
    for (uint t = y; t < is->count; t += PARTS)
        by->p[t * COLUMNS + x] = add_parts(by, is, t);
    for (uint i = get_local_id(0); i < MATRIX; i += GROUP) {
        of_k[i] = is->known[R_K * MATRIX + i];
#if WRITE_KEY
        of_k[MATRIX + i] = is->known[R_W * MATRIX + i];
#endif
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint i = 0; i < (y == 0 ? is->count : 0); i++) {
        float read = by->p[i * COLUMNS + x];
        for (uint j = 0; j < i; j++) {
            read = MULTIPLY_ADD(of_k[i * CHUNK + j], by->u[j * COLUMNS + x], read);
#if WRITE_KEY
            read = MULTIPLY_ADD(of_k[MATRIX + i * CHUNK + j], by->v[j * COLUMNS + x], read);
#endif
        }
        by->p[i * COLUMNS + x] = read;
        by->u[i * COLUMNS + x] = by->beta[i] * (WRITE_KEY ? -read : by->v[i * COLUMNS + x] - read);
    }
}

INLINED void put_reads(__global float *reads, int4 stride, __local const near *by, const chunk *is) {
    const uint x = get_local_id(0) % COLUMNS, y = get_local_id(0) / COLUMNS;
    if (x < is->columns && is->present & HAS_SAVED)
        for (uint t = y; t < is->count; t += PARTS)
            reads[(int)t * stride.s2 + (int)x * stride.s3] = by->p[t * COLUMNS + x];
}
#endif

INLINED void put_outputs(__global float *out, int4 stride, __local const near *by, const chunk *is, float scale) {
    const uint x = get_local_id(0) % COLUMNS, y = get_local_id(0) / COLUMNS;
    for (uint t = y; t < is->count; t += PARTS) {
        float o = add_parts(by, is, t);
        for (uint j = 0; j <= t; j++) {
            o = MULTIPLY_ADD(is->known[Q_K * MATRIX + t * CHUNK + j], by->u[j * COLUMNS + x], o);
#if WRITE_KEY
            o = MULTIPLY_ADD(is->known[Q_W * MATRIX + t * CHUNK + j], by->v[j * COLUMNS + x], o);
#endif
        }
        if (x < is->columns)
            out[(int)t * stride.s2 + (int)x * stride.s3] = scale * o;
    }
}

INLINED void decay_state(float4 *state, __local const near *by, const chunk *is) {
#if DECAY == CHANNEL_DECAY
    const uint y = get_local_id(0) / COLUMNS;
    UNROLL for (uint e = 0; e < ROWS; e++) state[e] *= by->whole[y + PARTS * e];
#elif DECAY == SCALAR_DECAY
    UNROLL for (uint e = 0; e < ROWS; e++) state[e] *= (float4)(FACTOR(FROM_START, CHUNK - 1));
#endif
}

INLINED void write_state(float4 *state, __local near *by, const token_rows *k, const token_rows *w, const chunk *is) {
    const uint x = get_local_id(0) % COLUMNS, y = get_local_id(0) / COLUMNS;
    for (uint from = 0; from < CHUNK; from += NEAR) {
        barrier(CLK_LOCAL_MEM_FENCE);
        stage_to_end(by->rows[0], k, is, from);
#if WRITE_KEY
        stage_to_end(by->rows[1], w, is, from);
#endif
        barrier(CLK_LOCAL_MEM_FENCE);
        KEEP_LOOP for (uint t = from; t < min(is->count, from + NEAR); t++) {
            const uint row = (t - from) * QUADS + y;
            const float4 u = (float4)(FACTOR(TO_END, t) * by->u[t * COLUMNS + x]);
            UNROLL for (uint e = 0; e < ROWS; e++) state[e] = MULTIPLY_ADD(by->rows[0][row + PARTS * e], u, state[e]);
#if WRITE_KEY
            const float4 written = (float4)(FACTOR(TO_END, t) * by->v[t * COLUMNS + x]);
            UNROLL for (uint e = 0; e < ROWS; e++) state[e] =
                MULTIPLY_ADD(by->rows[1][row + PARTS * e], written, state[e]);
#endif
        }
    }
}

/* Stores the work-item's column of a state, of which `m` rows exist, in `to`. */
INLINED void store_state(const float4 *state, __global float *to, int stride, uint m) {
    const uint y = get_local_id(0) / COLUMNS;
    UNROLL for (uint e = 0; e < ROWS; e++) store_rows(state[e], to, stride, 4 * (y + PARTS * e), m);
}

__kernel __attribute__((reqd_work_group_size(GROUP, 1, 1))) void
recurrence_forward_chunks(OUTPUT(out), OUTPUT(last), OUTPUT(reads), OUTPUT(states), INPUT(q), INPUT(k), INPUT(v),
                          INPUT(beta), INPUT(decay), INPUT(read_key), INPUT(write_key), INPUT(first), uint4 sizes,
                          uint present, float scale, uint blocks, uint2 units, uint first_head, uint chunks,
                          __global const float *products) {
    __local near by;
    const uint tokens = sizes.s1, m = sizes.s2, n = sizes.s3;
    const uint x = get_local_id(0) % COLUMNS, y = get_local_id(0) / COLUMNS;
    float4 state[ROWS];
    FOR_EACH_GROUP(unit, units) {
        const uint within = unit / blocks, column = (unit - within * blocks) * COLUMNS, j = column + x;
        const uint head = first_head + within, b = head / sizes.s0, h = head - b * sizes.s0;
        const uint rows = j < n ? m : 0;
        UNROLL for (uint e = 0; e < ROWS; e++) state[e] = load_rows(
            AT(first, b, h) + COLUMN(first, j), first_stride.s2, 4 * (y + PARTS * e), present & HAS_STATE ? rows : 0);
        for (uint start = 0; start < tokens; start += CHUNK) {
            const chunk is = {.known = products + (size_t)(within * chunks + start / CHUNK) * CHUNK_FLOATS,
                              .decay = ROWS_OF(decay),
                              .count = min((uint)CHUNK, tokens - start),
                              .m = m,
                              .columns = n - column,
                              .present = present};
            const token_rows of_q = ROWS_OF(q), of_k = ROWS_OF(k), of_w = ROWS_OF(write_key), of_beta = ROWS_OF(beta);
            token_rows of_v = ROWS_OF(v);
            of_v.from += COLUMN(v, column);
            if (start % SEGMENT == 0 && present & HAS_SAVED)
                store_state(state, AT(states, b, h) + ELEMENT(states, start / SEGMENT * m, j), states_stride.s2, rows);
            barrier(CLK_LOCAL_MEM_FENCE);
            stage_values(&by, &of_v, &of_beta, &is);
#if DELTA
            const token_rows of_r = present & HAS_READ_KEY ? ROWS_OF(read_key) : of_k;
            multiply_rows(&by, state, &of_r, &is);
            solve_reads(&by, &is);
#endif
            multiply_rows(&by, state, &of_q, &is);
#if DELTA
            put_reads(AT(reads, b, h) + ELEMENT(reads, start, column), reads_stride, &by, &is);
#endif
            put_outputs(AT(out, b, h) + ELEMENT(out, start, column), out_stride, &by, &is, scale);
            decay_state(state, &by, &is);
            write_state(state, &by, &of_k, &of_w, &is);
        }
        if (present & HAS_FINAL)
            store_state(state, AT(last, b, h) + COLUMN(last, j), last_stride.s2, rows);
    }
}
#endif
