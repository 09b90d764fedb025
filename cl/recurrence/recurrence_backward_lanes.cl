/*
 * The backward pass of the recurrence for CPUs. With G the gradient of S_t, u = beta (v - p) and P the state that the
 * token read,
 *     G += scale q do^T,  dq = scale S do,  du = G^T k (G^T w with a key w for writing),  dv = beta du,
 *     dk = G u (- beta G p; dw = beta G v),  dbeta = du . (v - p),  dp = -beta G^T k,  dr = P dp,  G += r dp^T,
 *     ddecay = row sums of G o P,  G = exp(decay) G,  S_(t-1) = exp(-decay) P,  P = S_t - k u^T.
 *
 * Index mapping: unit = batch * heads + head. State and G are transposed: a vector is LANES key coordinates of one
 * value column, so that all sums but G^T k are vertical. LANES columns are a group; each segment of 32 tokens is walked
 * through, backwards, with one group after the other: its part of S and G, 2 m LANES numbers, stays in the nearest
 * cache. A segment begins with the state that was saved at its end. Where its decays are large its states are computed
 * forward and kept, and else run backwards.
 *
 * Cost of a token and head: 16 m n flops with the delta term, 8 m n without, 4 m n more with decay; from memory
 * 4 (6 m + 5 n) bytes, and from cache four loads and three stores of m n numbers.
 */
#include "ahead.h"
#include "column_sums.h"
#include "recurrence.h"

#if LANES > 1

/* The state of one unit at work. Rows of m numbers are `width` vectors, padded with zeros; those of tokens stand one
 * after the other, for each token of the segment. */
typedef struct work {
    uint m, width;
    __global floats *adjoint, *state, *kept;                      /* [width][LANES]; kept: for each token */
    __global floats *q, *k, *r, *w;                               /* rows; q is scaled */
    __global floats *factors, *inverses;                          /* rows, or a float for each token */
    __global floats *d_q, *d_k, *d_r, *d_w, *d_factors, *d_betas; /* rows; the last: a vector for each token */
    __global floats *d_out, *u, *x, *p, *v;                       /* LANES columns of each token */
    __global floats *d_read;                                      /* of the token at work */
} work;

/* Runs one statement for each column of a group. The sums are variables, because an array would stay in memory. */
#if LANES == 4
#define EACH_COLUMN(X) X(0) X(1) X(2) X(3)
#elif LANES == 8
#define EACH_COLUMN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7)
#else
#define EACH_COLUMN(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)
#endif

/* Loads elements [0, count) of a run, count > 0, and zeros; all elements may be the same one (stride 0). */
static floats load_padded(__global const float *from, int stride, uint count) {
    const floats x = load_run(from, stride, count);
    return stride == 0 ? select((floats)(0.0f), x, AS_INTS(LANE_NUMBERS) < (ints)((int)min(count, (uint)LANES))) : x;
}

/* Loads LANES columns of `count` rows of a matrix, transposed, to [width][LANES]. `columns` > 0 of them exist; the rest
 * are zeros. */
static void load_transposed(__global floats *to, __global const float *from, int row_stride, int column_stride,
                            uint rows, uint columns) {
    for (uint i = 0; i < rows; i += LANES, to += LANES, from += LANES * row_stride) {
        if (column_stride == 1 && columns >= LANES) {
            load_columns(to, from, row_stride, rows - i);
        } else {
            for (uint j = 0; j < LANES; j++)
                to[j] = j < columns ? load_padded(from + (int)j * column_stride, row_stride, rows - i) : (floats)(0.0f);
        }
    }
}

/* Loads a row to [width], padded with zeros. */
static void load_row(__global floats *to, __global const float *from, int stride, uint m) {
    for (uint i = 0; i < m; i += LANES)
        *to++ = load_padded(from + (int)i * stride, stride, m - i);
}

static void store_row(__global const floats *from, float factor, __global float *to, int stride, uint m) {
    for (uint i = 0; i < m; i += LANES)
        store_run((floats)(factor) * *from++, to + (int)i * stride, stride, m - i);
}

static void clear(__global floats *to, uint count) {
    for (uint i = 0; i < count; i++)
        to[i] = (floats)(0.0f);
}

/* Computes P: the factor times the state before the token, or the new state less what was written. */
static floats before_writing(floats state, floats k, floats w, float u, float x) {
#if WRITE_KEY
    state = MULTIPLY_ADD(-w, (floats)(x), state);
#endif
    return MULTIPLY_ADD(-k, (floats)(u), state);
}

static floats after_writing(floats state, floats k, floats w, float u, float x) {
    state = MULTIPLY_ADD(k, (floats)(u), state);
#if WRITE_KEY
    state = MULTIPLY_ADD(w, (floats)(x), state);
#endif
    return state;
}

/* Returns the factor of vector c of a row. */
#if DECAY == CHANNEL_DECAY
#define FACTOR(of, t, c) ((of)[(t)*by->width + (c)])
#else
#define FACTOR(of, t, c) ((floats)(((__global const float *)(of))[t]))
#endif

/* Computes the states before each of the segment's tokens from the one before the first. */
static void keep_states(const work *by, uint length) {
#if DECAY != NO_DECAY
    const uint size = by->width * LANES;
    for (uint t = 0; t < length; t++) {
        __global const floats *from = by->kept + t * size;
        __global floats *to = t + 1 < length ? by->kept + (t + 1) * size : by->state;
        __global const float *u = (__global const float *)(by->u + t), *x = (__global const float *)(by->x + t);
        for (uint c = 0; c < by->width; c++) {
            const floats k = by->k[t * by->width + c], w = by->w[t * by->width + c];
            UNROLL for (uint j = 0; j < LANES; j++) to[c * LANES + j] =
                after_writing(FACTOR(by->factors, t, c) * from[c * LANES + j], k, w, u[j], x[j]);
        }
    }
#endif
}

/* G += q do^T, dq += S do. Returns G^T k, with *of_w = G^T w. */
static floats take_output(const work *by, uint t, __global const floats *state, floats *of_w) {
    __global const float *d_out = (__global const float *)(by->d_out + t);
#define START(j) floats of_k##j = (floats)(0.0f);
    EACH_COLUMN(START)
#undef START
    for (uint c = 0; c < by->width; c++) {
        __global floats *adjoint = by->adjoint + c * LANES;
        __global const floats *of_column = state + c * LANES;
        const uint at = t * by->width + c;
        const floats q = by->q[at], k = by->k[at];
        floats d_q = by->d_q[at];
#define TAKE(j)                                                                                                        \
    {                                                                                                                  \
        const floats d_o = (floats)(d_out[j]), g = MULTIPLY_ADD(d_o, q, adjoint[j]);                                   \
        adjoint[j] = g;                                                                                                \
        of_k##j = MULTIPLY_ADD(g, k, of_k##j);                                                                         \
        d_q = MULTIPLY_ADD(d_o, of_column[j], d_q);                                                                    \
    }
        EACH_COLUMN(TAKE)
#undef TAKE
        by->d_q[at] = d_q;
    }
#if WRITE_KEY
#define START(j) floats of_w##j = (floats)(0.0f);
    EACH_COLUMN(START)
#undef START
    for (uint c = 0; c < by->width; c++) {
        __global const floats *adjoint = by->adjoint + c * LANES;
        const floats w = by->w[t * by->width + c];
#define TAKE(j) of_w##j = MULTIPLY_ADD(adjoint[j], w, of_w##j);
        EACH_COLUMN(TAKE)
#undef TAKE
    }
    *of_w = SUM_EACH(of_w);
    return SUM_EACH(of_k);
#else
    return *of_w = SUM_EACH(of_k);
#endif
}

/* Adds what only some kinds of recurrences have, for column j: g and p are its vectors of G and of P. */
#if WRITE_KEY
#define ADD_W(j) d_w = MULTIPLY_ADD(g, (floats)(x[j]), d_w)
#else
#define ADD_W(j)
#endif
#if DELTA
#define ADD_R(j)                                                                                                       \
    d_r = MULTIPLY_ADD(p, (floats)(d_p[j]), d_r);                                                                      \
    g = MULTIPLY_ADD(r, (floats)(d_p[j]), g)
#else
#define ADD_R(j)
#endif
#if DECAY != NO_DECAY
/* Two sums take turns, because an addition waits for the one before it. */
#define ADD_DECAY(j)                                                                                                   \
    if ((j) % 2)                                                                                                       \
        d_odd = MULTIPLY_ADD(g, p, d_odd);                                                                             \
    else                                                                                                               \
        d_even = MULTIPLY_ADD(g, p, d_even);                                                                           \
    g *= factor
#else
#define ADD_DECAY(j)
#endif

/* Does the rest of a token whose previous state is at `kept` or, in the other function, is computed backwards. There
 * are two functions, because a compiler would merge two calls that differ in one argument, and test it at each
 * column. */
#define TAKE_WRITING(name, READ, LEAVE)                                                                                \
    static void name(const work *by, uint t, __global const floats *kept) {                                            \
        __global const float *u = (__global const float *)(by->u + t), *x = (__global const float *)(by->x + t);       \
        __global const float *d_p = (__global const float *)by->d_read;                                                \
        for (uint c = 0; c < by->width; c++) {                                                                         \
            __global floats *adjoint = by->adjoint + c * LANES, *state = by->state + c * LANES;                        \
            const uint at = t * by->width + c;                                                                         \
            const floats k = by->k[at], r = by->r[at], w = by->w[at];                                                  \
            const floats factor = FACTOR(by->factors, t, c), inverse = FACTOR(by->inverses, t, c);                     \
            floats d_k = by->d_k[at], d_r = by->d_r[at], d_w = by->d_w[at];                                            \
            floats d_even = (floats)(0.0f), d_odd = (floats)(0.0f);                                                    \
            (void)state, (void)k, (void)w, (void)x, (void)inverse; /* not all forms read them */                       \
            UNROLL for (uint j = 0; j < LANES; j++) {                                                                  \
                floats g = adjoint[j];                                                                                 \
                const floats p = READ(j);                                                                              \
                d_k = MULTIPLY_ADD(g, (floats)(u[j]), d_k);                                                            \
                ADD_W(j);                                                                                              \
                ADD_R(j);                                                                                              \
                ADD_DECAY(j);                                                                                          \
                LEAVE(j);                                                                                              \
                adjoint[j] = g;                                                                                        \
            }                                                                                                          \
            add_token(by, t, c, d_k, d_r, d_w, d_even + d_odd);                                                        \
        }                                                                                                              \
    }
#define READ_BACK(j)  before_writing(state[j], k, w, u[j], x[j])
#define LEAVE_BACK(j) state[j] = DECAY == NO_DECAY ? p : inverse * p
#define READ_KEPT(j)  (factor * kept[c * LANES + (j)])
#define LEAVE_KEPT(j)

static void add_token(const work *by, uint t, uint c, floats d_k, floats d_r, floats d_w, floats d_factor) {
    const uint at = t * by->width + c;
    by->d_k[at] = d_k;
    if (DELTA)
        by->d_r[at] = d_r;
    if (WRITE_KEY)
        by->d_w[at] = d_w;
    if (DECAY == CHANNEL_DECAY)
        by->d_factors[at] += d_factor;
    else if (DECAY == SCALAR_DECAY)
        by->d_factors[t] += d_factor;
}

TAKE_WRITING(take_running_back, READ_BACK, LEAVE_BACK)
#if DECAY != NO_DECAY
TAKE_WRITING(take_kept, READ_KEPT, LEAVE_KEPT)
#endif

/* Computes the factors of the segment's tokens and their inverses. Returns whether the states must be computed
 * forward. */
static bool load_factors(const work *by, __global const float *decay, int token_stride, int stride, uint length) {
    bool is_large = false;
#if DECAY == SCALAR_DECAY
    floats sum = (floats)(0.0f);
    for (uint t = 0; t < length; t += LANES) {
        const floats x = load_run(decay + (int)t * token_stride, token_stride, length - t);
        by->factors[t / LANES] = exp(x);
        by->inverses[t / LANES] = exp(-x);
        sum += fabs(x);
    }
    is_large = !(add_lanes(sum) <= LARGEST_DECAY);
#elif DECAY == CHANNEL_DECAY
    for (uint c = 0; c < by->width; c++) {
        floats sum = (floats)(0.0f);
        for (uint t = 0; t < length; t++) {
            const floats x =
                load_run(decay + (int)t * token_stride + (int)(c * LANES) * stride, stride, by->m - c * LANES);
            by->factors[t * by->width + c] = exp(x);
            by->inverses[t * by->width + c] = exp(-x);
            sum += fabs(x);
        }
        is_large |= any(!(sum <= (floats)(LARGEST_DECAY)));
    }
#endif
    return is_large;
}

/* Goes backwards through the segment's tokens, with one group of columns. */
static void walk_back(const work *by, const ahead *next, uint length, bool is_kept, __global const float *beta,
                      int beta_stride, __global float *d_v, int4 dv_stride, uint columns) {
    const uint size = by->width * LANES;
    for (uint t = length; t-- > 0;) {
        __global const floats *after = is_kept && t + 1 < length ? by->kept + (t + 1) * size : by->state;
        const float strength = beta ? beta[(int)t * beta_stride] : 1.0f;
        floats d_u;
        ask_ahead(next, t);
        const floats d_read = take_output(by, t, after, &d_u);
        if (d_v)
            store_run((floats)(strength)*d_u, d_v + (int)t * dv_stride.s2, dv_stride.s3, columns);
#if WRITE_KEY
        by->d_betas[t] += d_u * by->v[t] - d_read * by->p[t];
#else
        by->d_betas[t] += d_u * (by->v[t] - by->p[t]);
#endif
        *by->d_read = (floats)(-strength) * d_read;
#if DECAY != NO_DECAY
        if (is_kept) {
            take_kept(by, t, by->kept + t * size);
            continue;
        }
#endif
        take_running_back(by, t, by->kept);
    }
}

/* Loads values, reads and gradients of outputs of one group of columns, and computes what they make the tokens
 * write. */
static void load_group(const work *by, uint length, __global const float *d_out, int4 do_stride,
                       __global const float *v, int4 v_stride, __global const float *reads, int4 reads_stride,
                       __global const float *beta, int beta_stride, uint columns) {
    for (uint t = 0; t < length; t++) {
        const floats strength = (floats)(beta ? beta[(int)t * beta_stride] : 1.0f);
        const floats value = load_padded(v + (int)t * v_stride.s2, v_stride.s3, columns);
#if DELTA
        const floats read = load_padded(reads + (int)t * reads_stride.s2, reads_stride.s3, columns);
#else
        const floats read = (floats)(0.0f);
#endif
        by->d_out[t] = load_padded(d_out + (int)t * do_stride.s2, do_stride.s3, columns);
        by->v[t] = value;
        by->p[t] = read;
#if WRITE_KEY
        by->u[t] = -strength * read;
        by->x[t] = strength * value;
#else
        by->u[t] = strength * (value - read);
#endif
    }
}

/* Takes `count` vectors of scratch memory. The gap behind them keeps arrays of 2^k bytes, used together at the same
 * place, from falling into one set of the cache. */
#define GAP 5

static __global floats *take(__global floats **scratch, uint count) {
    __global floats *taken = *scratch;
    *scratch += count + GAP;
    return taken;
}

/* Rows of scratch of a work-item, with w = ceil(m / LANES) and columns rounded up to whole groups: w (columns +
 * LANES) for G and the state; 32 (11 w + 6) + 1, with gaps of 5 behind each; with decay 32 w LANES for states that
 * are kept. */
__kernel void recurrence_backward_lanes(OUTPUT(d_q), OUTPUT(d_k), OUTPUT(d_v), OUTPUT(d_beta), OUTPUT(d_decay),
                                        OUTPUT(d_read_key), OUTPUT(d_write_key), OUTPUT(d_first), INPUT(d_out),
                                        INPUT(d_last), INPUT(last), INPUT(reads), INPUT(states), INPUT(q), INPUT(k),
                                        INPUT(v), INPUT(beta), INPUT(decay), INPUT(read_key), INPUT(write_key),
                                        INPUT(first), uint4 sizes, uint present, float scale, uint2 units,
                                        __global floats *scratch, uint scratch_rows) {
    const uint tokens = sizes.s1, m = sizes.s2, n = sizes.s3, width = (m + LANES - 1) / LANES;
    const uint size = width * LANES, groups = (n + LANES - 1) / LANES, rows = SEGMENT * width;
    __global floats *free = scratch + get_global_id(0) * scratch_rows;
    work by = {.m = m, .width = width};
    __global floats *adjoints = take(&free, groups * size);
    by.state = take(&free, size);
    by.q = take(&free, rows);
    by.k = take(&free, rows);
    by.r = present & HAS_READ_KEY ? take(&free, rows) : by.k;
    by.w = WRITE_KEY ? take(&free, rows) : by.k;
    by.factors = take(&free, rows);
    by.inverses = take(&free, rows);
    by.d_q = take(&free, rows);
    by.d_k = take(&free, rows);
    by.d_r = take(&free, rows);
    by.d_w = WRITE_KEY ? take(&free, rows) : by.d_r;
    by.d_out = take(&free, SEGMENT);
    by.u = take(&free, SEGMENT);
    by.v = take(&free, SEGMENT);
    by.p = take(&free, SEGMENT);
    by.x = WRITE_KEY ? take(&free, SEGMENT) : by.u;
    by.d_betas = take(&free, SEGMENT);
    by.d_factors = take(&free, rows);
    by.d_read = take(&free, 1);
    by.kept = free;

    FOR_EACH_UNIT(units) {
        const uint b = unit / sizes.s0, h = unit - b * sizes.s0;
        __global const float *of_beta = present & HAS_BETA ? AT(beta, b, h) : 0;
        for (uint group = 0; group < groups; group++) {
            if (present & HAS_D_FINAL)
                load_transposed(adjoints + group * size, AT(d_last, b, h) + COLUMN(d_last, group * LANES),
                                d_last_stride.s2, d_last_stride.s3, m, n - group * LANES);
            else
                clear(adjoints + group * size, size);
        }
        for (uint segment = (tokens + SEGMENT - 1) / SEGMENT; segment-- > 0;) {
            const uint start = segment * SEGMENT, length = min((uint)SEGMENT, tokens - start);
            const bool is_last = start + length == tokens;
            __global const float *beta_here = of_beta ? of_beta + TOKEN(beta, start) : 0;
            bool is_kept = false;
            for (uint t = 0; t < length; t++) {
                load_row(by.q + t * width, AT(q, b, h) + TOKEN(q, start + t), q_stride.s3, m);
                for (uint c = 0; c < width; c++)
                    by.q[t * width + c] *= (floats)(scale);
                load_row(by.k + t * width, AT(k, b, h) + TOKEN(k, start + t), k_stride.s3, m);
                if (present & HAS_READ_KEY)
                    load_row(by.r + t * width, AT(read_key, b, h) + TOKEN(read_key, start + t), read_key_stride.s3, m);
#if WRITE_KEY
                load_row(by.w + t * width, AT(write_key, b, h) + TOKEN(write_key, start + t), write_key_stride.s3, m);
#endif
            }
            clear(by.d_q, rows);
            clear(by.d_k, rows);
            clear(by.d_r, rows);
            clear(by.d_w, rows);
            clear(by.d_betas, SEGMENT);
#if DECAY != NO_DECAY
            clear(by.d_factors, rows);
            is_kept =
                load_factors(&by, AT(decay, b, h) + TOKEN(decay, start), decay_stride.s2, decay_stride.s3, length);
#endif
            ahead next = {.count = 0};
            const uint next_unit = start > 0 ? unit : unit + 1;
            if (next_unit < units.s1) {
                const uint b2 = next_unit / sizes.s0, h2 = next_unit - b2 * sizes.s0;
                const uint t = start > 0 ? start - SEGMENT : (tokens - 1) / SEGMENT * SEGMENT;
                const uint each = (m + SEGMENT - 1) / SEGMENT;
#define AHEAD(is_there, name, width)                                                                                   \
    add_ahead(&next, is_there, AT(name, b2, h2) + TOKEN(name, t), name##_stride.s2, name##_stride.s3, 1, width)
                AHEAD(true, q, m);
                AHEAD(true, k, m);
                AHEAD(present & HAS_READ_KEY, read_key, m);
                AHEAD(true, v, n);
                AHEAD(DELTA, reads, n);
                AHEAD(true, d_out, n);
                AHEAD(present & WANTS(OF_Q), d_q, m);
                AHEAD(present & WANTS(OF_K), d_k, m);
                AHEAD(present & WANTS(OF_V), d_v, n);
                if (start > 0)
                    add_ahead(&next, true, AT(states, b, h) + ELEMENT(states, segment * m, 0), states_stride.s2,
                              states_stride.s3, each, n);
                else
                    add_ahead(&next, true, AT(last, b2, h2), last_stride.s2, last_stride.s3, each, n);
            }
            for (uint group = 0; group < groups; group++) {
                const uint j = group * LANES;
                by.adjoint = adjoints + group * size;
                load_group(&by, length, AT(d_out, b, h) + ELEMENT(d_out, start, j), d_out_stride,
                           AT(v, b, h) + ELEMENT(v, start, j), v_stride, AT(reads, b, h) + ELEMENT(reads, start, j),
                           reads_stride, beta_here, beta_stride.s2, n - j);
                if (is_kept) {
                    load_transposed(by.kept, AT(states, b, h) + ELEMENT(states, segment * m, j), states_stride.s2,
                                    states_stride.s3, m, n - j);
                    keep_states(&by, length);
                } else if (is_last) {
                    load_transposed(by.state, AT(last, b, h) + COLUMN(last, j), last_stride.s2, last_stride.s3, m,
                                    n - j);
                } else {
                    load_transposed(by.state, AT(states, b, h) + ELEMENT(states, (segment + 1) * m, j),
                                    states_stride.s2, states_stride.s3, m, n - j);
                }
                walk_back(&by, &next, length, is_kept, beta_here, beta_stride.s2,
                          present & WANTS(OF_V) ? AT(d_v, b, h) + ELEMENT(d_v, start, j) : 0, d_v_stride, n - j);
                next.count = 0; /* asked for */
            }
            for (uint t = 0; t < length; t++) {
                const uint at = t * width, token = start + t;
                if (present & WANTS(OF_Q))
                    store_row(by.d_q + at, scale, AT(d_q, b, h) + TOKEN(d_q, token), d_q_stride.s3, m);
#if DELTA
                if (!(present & HAS_READ_KEY))
                    for (uint c = 0; c < width; c++)
                        by.d_k[at + c] += by.d_r[at + c];
                if (present & WANTS(OF_READ_KEY))
                    store_row(by.d_r + at, 1.0f, AT(d_read_key, b, h) + TOKEN(d_read_key, token), d_read_key_stride.s3,
                              m);
#endif
                if (present & WANTS(OF_K))
                    store_row(by.d_k + at, 1.0f, AT(d_k, b, h) + TOKEN(d_k, token), d_k_stride.s3, m);
#if WRITE_KEY
                if (present & WANTS(OF_WRITE_KEY))
                    store_row(by.d_w + at, 1.0f, AT(d_write_key, b, h) + TOKEN(d_write_key, token),
                              d_write_key_stride.s3, m);
#endif
                if (present & WANTS(OF_BETA))
                    *(AT(d_beta, b, h) + TOKEN(d_beta, token)) = add_lanes(by.d_betas[t]);
#if DECAY == SCALAR_DECAY
                if (present & WANTS(OF_DECAY))
                    *(AT(d_decay, b, h) + TOKEN(d_decay, token)) = add_lanes(by.d_factors[t]);
#elif DECAY == CHANNEL_DECAY
                if (present & WANTS(OF_DECAY))
                    store_row(by.d_factors + at, 1.0f, AT(d_decay, b, h) + TOKEN(d_decay, token), d_decay_stride.s3, m);
#endif
            }
        }
        if (present & WANTS(OF_STATE))
            for (uint j = 0; j < n; j++)
                for (uint i = 0; i < m; i += LANES)
                    store_run(adjoints[j / LANES * size + i + j % LANES], AT(d_first, b, h) + ELEMENT(d_first, i, j),
                              d_first_stride.s2, m - i);
    }
}
#endif
