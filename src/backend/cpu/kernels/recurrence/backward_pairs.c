/*
 * Recurrences backward, the formulas of backward.c for pairs of tokens: f of the earlier one is had before the later
 * one has changed G, from products of the tokens themselves. Then one sweep over the rows of C and G, a vector of
 * channels at a time, takes both tokens: 14 fused multiply-adds, 3 loads and 2 stores for an element.
 */
#include "backend/cpu/kernels/recurrence/backward.h"

/* Lane j: the sum over channels of g_j k, for LANE_COUNT values. */
ALWAYS_INLINE lane channel_sums(const lane *g, const lane *k, size_t chunks) {
    lane sum[LANE_COUNT];
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) sum[j] = lane_multiply(g[j * chunks], k[0]);
    for (size_t c = 1; c < chunks; c++) {
        const lane factor = k[c];
        UNROLL for (size_t j = 0; j < LANE_COUNT; j++) sum[j] = lane_fma(g[j * chunks + c], factor, sum[j]);
    }
    return fold_lanes(sum);
}

/* Where one token's rows stand, or zeros. */
typedef struct token {
    size_t t;
    const lane *row[ROW_KINDS];
    lane *sum[ROW_KINDS];
} token;

static token token_at(const backward *x, size_t t, bool is_there) {
    token to = {.t = t};
    for (int i = 0; i < ROW_KINDS; i++) {
        const size_t at = ((size_t)i * SEGMENT + t) * x->width;
        to.row[i] = (const lane *)(const void *)(is_there ? x->row[i] + t * x->width : x->nothing);
        to.sum[i] = (lane *)(void *)(is_there ? x->sums + at : x->unused);
    }
    return to;
}

/* Vector `group` of one token's values of an operand. */
ALWAYS_INLINE lane load_group(const backward *x, const rows *from, size_t t, size_t group) {
    return load_chunk(from, x->first + t, x->value + group * LANE_COUNT, x->plan->n);
}

ALWAYS_INLINE lane load_flow(const backward *x, size_t t, size_t group) {
    return lane_multiply(lane_set(x->plan->scale), load_group(x, &x->d_out, t, group));
}

ALWAYS_INLINE void store_coefficients(const backward *x, size_t kind, size_t group, lane from) {
    memcpy(x->coefficients + kind * x->block + group * LANE_COUNT, &from, sizeof from);
}

/* What one token's f gives for one group of values: the gradients of v and beta, and the numbers of the sweep. Returns
 * those for r. */
ALWAYS_INLINE lane use_flow(backward *x, size_t t, size_t group, lane f_key, lane f_write, bool is_later,
                            const bool delta, const bool apart) {
    const lane beta = lane_set(x->beta[t]), minus = lane_set(-x->beta[t]), read = lane_multiply(minus, f_key);
    const lane v = load_group(x, &x->in[V], t, group);
    const lane p = delta ? load_group(x, &x->reads, t, group) : lane_set(0);
    const lane taken = lane_multiply(lane_set(-1), p), rest = delta ? lane_add(v, taken) : v;

    if (apart) {
        x->d_beta[t] = lane_fma(f_write, v, lane_fma(f_key, taken, x->d_beta[t]));
        store_coefficients(x, is_later ? WRITE_1 : WRITE_0, group, lane_multiply(minus, v));
    } else {
        x->d_beta[t] = lane_fma(f_key, rest, x->d_beta[t]);
    }
    store_coefficients(x, is_later ? KEY_1 : KEY_0, group, lane_multiply(minus, apart ? taken : rest));
    if (delta)
        store_coefficients(x, is_later ? READ_1 : READ_0, group, read);
    if (x->gradient[V].elements)
        store_chunk(&x->gradient[V], x->first + t, x->value + group * LANE_COUNT, x->plan->n,
                    lane_multiply(beta, f_write));
    return read;
}

/* Everything that the sweep needs of one group of values. */
ALWAYS_INLINE void prepare_group(backward *x, const token *later, const token *earlier, bool is_pair, size_t group,
                                 const size_t chunks, const bool delta, const bool apart) {
    const size_t t = later->t, s = earlier->t;
    const lane *g = x->gradients + (x->value + group * LANE_COUNT) * chunks;
    const lane flow = load_flow(x, t, group);
    lane f_key = lane_fma(flow, lane_set(x->same_key[t]), channel_sums(g, later->row[ROW_K], chunks));
    lane f_write = f_key, read;

    if (apart)
        f_write = lane_fma(flow, lane_set(x->same_write[t]), channel_sums(g, later->row[ROW_W], chunks));
    store_coefficients(x, FLOW_1, group, flow);
    read = use_flow(x, t, group, f_key, f_write, true, delta, apart);
    if (!is_pair)
        return;
    const lane flow0 = load_flow(x, s, group);
    store_coefficients(x, FLOW_0, group, flow0);
    f_key = lane_fma(flow, lane_set(x->before_key[t]), channel_sums(g, earlier->row[ROW_K], chunks));
    if (delta)
        f_key = lane_fma(read, lane_set(x->read_key[t]), f_key);
    f_key = lane_fma(flow0, lane_set(x->same_key[s]), f_key);
    f_write = f_key;
    if (apart) {
        f_write = lane_fma(flow, lane_set(x->before_write[t]), channel_sums(g, earlier->row[ROW_W], chunks));
        f_write = lane_fma(read, lane_set(x->read_write[t]), f_write);
        f_write = lane_fma(flow0, lane_set(x->same_write[s]), f_write);
    }
    use_flow(x, s, group, f_key, f_write, false, delta, apart);
}

/* One token of one row of C: its sums, and the state before it. */
#define RUN_BACK(number)                                                                                               \
    sum_q##number = lane_fma(lane_set(flow##number), c, sum_q##number);                                                \
    c = lane_fma(lane_set(key##number), k##number, c);                                                                 \
    if (apart)                                                                                                         \
        c = lane_fma(lane_set(write##number), w##number, c);                                                           \
    if (delta)                                                                                                         \
        sum_r##number = lane_fma(lane_set(read##number), c, sum_r##number);

/* And of G. */
#define FLOW_BACK(number)                                                                                              \
    g = lane_fma(lane_set(flow##number), q##number, g);                                                                \
    sum_k##number = lane_fma(lane_set(key##number), g, sum_k##number);                                                 \
    if (apart)                                                                                                         \
        sum_w##number = lane_fma(lane_set(write##number), g, sum_w##number);                                           \
    if (delta)                                                                                                         \
        g = lane_fma(lane_set(read##number), r##number, g);

#define LOAD_TOKEN(number, from)                                                                                       \
    const lane q##number = (from)->row[ROW_Q][chunk], k##number = (from)->row[ROW_K][chunk];                           \
    const lane r##number = (from)->row[ROW_R][chunk], w##number = (from)->row[ROW_W][chunk];                           \
    lane sum_q##number = lane_set(0), sum_k##number = lane_set(0);                                                     \
    lane sum_r##number = lane_set(0), sum_w##number = lane_set(0);                                                     \
    if (x->value > 0) {                                                                                                \
        sum_q##number = (from)->sum[ROW_Q][chunk], sum_k##number = (from)->sum[ROW_K][chunk];                          \
        sum_r##number = (from)->sum[ROW_R][chunk], sum_w##number = (from)->sum[ROW_W][chunk];                          \
    }                                                                                                                  \
    (void)r##number, (void)w##number

#define STORE_TOKEN(number, to)                                                                                        \
    (to)->sum[ROW_Q][chunk] = sum_q##number;                                                                           \
    (to)->sum[ROW_K][chunk] = sum_k##number;                                                                           \
    if (delta)                                                                                                         \
        (to)->sum[ROW_R][chunk] = sum_r##number;                                                                       \
    if (apart)                                                                                                         \
    (to)->sum[ROW_W][chunk] = sum_w##number

ALWAYS_INLINE void sweep(const backward *x, const token *later, const token *earlier, size_t chunk, const size_t chunks,
                         const bool delta, const bool apart) {
    const size_t block = x->block, count = x->groups * LANE_COUNT;
    const real *at = x->coefficients;
    lane *state = x->state + chunk, *gradient = x->gradients + x->value * chunks + chunk;
    LOAD_TOKEN(1, later);
    LOAD_TOKEN(0, earlier);

    for (size_t j = 0; j < count; j++, at++) {
        const real flow1 = at[FLOW_1 * block], flow0 = at[FLOW_0 * block], key1 = at[KEY_1 * block];
        const real key0 = at[KEY_0 * block], read1 = at[READ_1 * block], read0 = at[READ_0 * block];
        const real write1 = at[WRITE_1 * block], write0 = at[WRITE_0 * block];
        lane c = state[j * chunks], g = gradient[j * chunks];
        RUN_BACK(1)
        RUN_BACK(0)
        FLOW_BACK(1)
        FLOW_BACK(0)
        state[j * chunks] = c;
        gradient[j * chunks] = g;
        (void)read1, (void)read0, (void)write1, (void)write0;
    }
    STORE_TOKEN(1, later);
    STORE_TOKEN(0, earlier);
}

/* Tokens t and, with is_pair, t - 1. */
ALWAYS_INLINE void run_pair(backward *x, size_t t, bool is_pair, const size_t chunks, const bool delta,
                            const bool apart) {
    const token later = token_at(x, t, true), earlier = token_at(x, is_pair ? t - 1 : t, is_pair);

    if (!is_pair)
        memset(x->coefficients, 0, COEFFICIENTS * x->block * sizeof(real));
    for (size_t group = 0; group < x->groups; group++)
        prepare_group(x, &later, &earlier, is_pair, group, chunks, delta, apart);
    for (size_t chunk = 0; chunk < chunks; chunk++)
        sweep(x, &later, &earlier, chunk, chunks, delta, apart);
}

/* Rows of one or two vectors get code of their own: their strides are then constants. */
void KERNEL(recurrence_run_back)(backward *x, size_t first, size_t last) {
    for (size_t end = last; end > first;) {
        const bool is_pair = end - first > 1;
        if (x->value == 0)
            ask_ahead(&x->soon);
        if (x->apart)
            run_pair(x, end - 1, is_pair, x->chunks, true, true);
        else if (x->plan->delta && x->chunks == 1)
            run_pair(x, end - 1, is_pair, 1, true, false);
        else if (x->plan->delta && x->chunks == 2)
            run_pair(x, end - 1, is_pair, 2, true, false);
        else if (x->plan->delta)
            run_pair(x, end - 1, is_pair, x->chunks, true, false);
        else
            run_pair(x, end - 1, is_pair, x->chunks, false, false);
        end -= is_pair ? 2 : 1;
    }
}
