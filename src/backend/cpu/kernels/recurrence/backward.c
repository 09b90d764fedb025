/*
 * Recurrences backward, for one batch and head. The state and its gradient are transposed, [values][channels], so that
 * all sums over values are vertical and the one sum over channels, f_j = <G_j, k>, is taken for LANE_COUNT values at
 * once. Blocks of values keep both in the nearest cache; within a segment the state is run back.
 *
 * With C and G in the coordinates of segment.h, d_j = scale d_out_j, u = beta (v - p), for one token from its end:
 *     f_j = <G_j, k> + d_j (q . k),  dv_j = beta f_j,  e_j = -beta f_j,  dbeta = sum_j f_j (v - p)_j
 *     dq += d_j C_j;  C_j -= u_j k;  dr += e_j C_j;  G_j += d_j q;  dk += u_j G_j;  G_j += e_j r
 * Without the delta term u = beta v and e = 0. If there is a write key, w takes beta v and k takes -beta p. Tokens are
 * processed in pairs, see below.
 *
 * The gradients of decays cost a product for each channel and token: D_t = sum_j G_j C_j, by channel, is not changed by
 * decays, and D_t = D_(t+1) + q dq - k dk - w dw + r dr. Such a sum loses digits, so it restarts from sum_j G_j C_j
 * itself at the end of each stretch.
 */
#include "backend/cpu/kernels/parts.h"
#include "backend/cpu/kernels/recurrence/segment.h"

/* ---- Rows that will be touched soon ---- */

/* Rows that will be touched soon. The rows of a segment of one operand are about a page of memory, and the pages of
 * many operands come in turn, so a processor's own prefetcher foresees none of them. They are requested while the
 * segment before them is computed, and arrive in time: in the second cache, because the first one is full. */

#define AHEAD_LARGEST 16
#define AHEAD_PARTS   (SEGMENT / 2)       /* one for each pair of tokens */
#define AHEAD_LINE    (64 / sizeof(real)) /* elements of a cache line */

typedef struct ahead_rows {
    const real *next;
    size_t row, width; /* stride, elements */
    size_t left, each; /* rows: still to be requested, and requested at a time */
} ahead_rows;

typedef struct ahead {
    size_t count;
    ahead_rows of[AHEAD_LARGEST];
} ahead;

/* Adds rows [first, first + count) of an operand, the last ones first, if their elements are adjacent. */
static inline void add_ahead(ahead *to, const rows *from, size_t first, size_t count, size_t width) {
    if (from->elements && from->column == 1)
        to->of[to->count++] = (ahead_rows){.next = from->elements + (first + count - 1) * from->row,
                                           .row = from->row,
                                           .width = width,
                                           .left = count,
                                           .each = (count + AHEAD_PARTS - 1) / AHEAD_PARTS};
}

/* Requests the next part of all operands. */
static inline void ask_ahead(ahead *x) {
    for (ahead_rows *of = x->of; of < x->of + x->count; of++)
        for (size_t i = 0; i < of->each && of->left > 0; i++) {
            for (size_t at = 0; at < of->width; at += AHEAD_LINE)
                PREFETCH_LATER(of->next + at);
            of->left--;
            of->next -= of->left > 0 ? of->row : 0;
        }
}

/* ---- The pass of a head ---- */

enum { Q = ICL_RECURRENCE_Q, K, V, BETA, DECAY, READ_KEY, WRITE_KEY, STATE, INPUTS };

/* The kinds of tokens' rows, [SEGMENT][width]: vectors over channels, and the sums of their gradients. */
enum { ROW_Q = 0, ROW_K, ROW_R, ROW_W, ROW_KINDS };

/* Coefficients for each value of a block, of the later token of a pair and of the earlier one: d, -u, e, and the factor
 * of w, with the sign of -u. Therefore the sums for k and w come out negative. */
enum { FLOW_1 = 0, FLOW_0, KEY_1, KEY_0, READ_1, READ_0, WRITE_1, WRITE_0, COEFFICIENTS };

typedef struct backward {
    const recurrence_plan *plan;
    rows in[INPUTS], gradient[INPUTS];
    rows d_out, d_final, final, reads, states;
    bool apart;
    size_t width, chunks; /* channels with padding; the same in vectors */
    size_t block;         /* values of a block, a multiple of LANE_COUNT */

    /* One segment. */
    size_t first, count;
    decay_track track;
    const real *row[ROW_KINDS]; /* the row of token 0; that of token t is t width further */
    real beta[SEGMENT];
    real same_key[SEGMENT], same_write[SEGMENT];     /* q_t . k_t, q_t . w_t */
    real before_key[SEGMENT], before_write[SEGMENT]; /* q_t . k_(t-1), q_t . w_(t-1) */
    real read_key[SEGMENT], read_write[SEGMENT];     /* r_t . k_(t-1), r_t . w_(t-1) */
    lane d_beta[SEGMENT];
    ahead soon;

    /* One block. */
    size_t value, values, groups; /* the first one, their number, and that of their vectors */

    /* Memory. */
    lane *gradients;      /* [values, padded][chunks]: G */
    lane *state;          /* [block][chunks]: C */
    lane *ends;           /* [SEGMENT + 1][block][chunks]: before the segment, and at the end of each stretch */
    real *packed;         /* [ROW_KINDS][SEGMENT][width] */
    real *sums;           /* [ROW_KINDS][SEGMENT][width] */
    real *restarts;       /* [SEGMENT + 1][width]: sum_j G_j C_j at each of `ends` */
    real *nothing;        /* [width]: zeros */
    real *unused;         /* [width]: receives what belongs to no token */
    real *v, *p;          /* [SEGMENT][block] */
    real *coefficients;   /* [COEFFICIENTS][block] */
    real *ones, *factors; /* [width]: factors of states: 1, and those of the decay */
    real *last;           /* [2][width]: c of the segment's last token, and 1 / c */
    real *track_space;
} backward;

/* ---- Running back in pairs of tokens ---- */

/* The formulas above are computed for pairs of tokens: f of the earlier token is computed before the later one has
 * changed G, with products of the tokens themselves. Then one sweep over the rows of C and G, a vector of
 * channels at a time, processes both tokens: 14 fused multiply-adds, 3 loads and 2 stores for an element. */

/* Returns a vector whose lane j is the sum over channels of g_j k, for LANE_COUNT values. */
ALWAYS_INLINE lane channel_sums(const lane *g, const lane *k, size_t chunks) {
    lane sum[LANE_COUNT];
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) sum[j] = lane_multiply(g[j * chunks], k[0]);
    for (size_t c = 1; c < chunks; c++) {
        const lane factor = k[c];
        UNROLL for (size_t j = 0; j < LANE_COUNT; j++) sum[j] = lane_fma(g[j * chunks + c], factor, sum[j]);
    }
    return fold_lanes(sum);
}

/* The rows of one token and their sums; zeros if it is not there. */
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

/* Returns vector `group` of one token's values of an operand. */
ALWAYS_INLINE lane load_group(const backward *x, const rows *from, size_t t, size_t group) {
    return load_chunk(from, x->first + t, x->value + group * LANE_COUNT, x->plan->n);
}

ALWAYS_INLINE lane load_flow(const backward *x, size_t t, size_t group) {
    return lane_multiply(lane_set(x->plan->scale), load_group(x, &x->d_out, t, group));
}

ALWAYS_INLINE void store_coefficients(const backward *x, size_t kind, size_t group, lane from) {
    memcpy(x->coefficients + kind * x->block + group * LANE_COUNT, &from, sizeof from);
}

/* Computes from one token's f, for one group of values, the gradients of v and beta and the coefficients of the sweep.
 * Returns those for r. */
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

/* Computes everything that the sweep needs for one group of values. */
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

/* Runs one row of C back by one token: adds to the token's sums, and restores the state before it. */
#define RUN_BACK(number)                                                                                               \
    sum_q##number = lane_fma(lane_set(flow##number), c, sum_q##number);                                                \
    c = lane_fma(lane_set(key##number), k##number, c);                                                                 \
    if (apart)                                                                                                         \
        c = lane_fma(lane_set(write##number), w##number, c);                                                           \
    if (delta)                                                                                                         \
        sum_r##number = lane_fma(lane_set(read##number), c, sum_r##number);

/* Does the same to one row of G. */
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

/* Runs back token t and, if is_pair, t - 1. */
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

/* Rows of one or two vectors get code of their own, because their strides are then constants. */
/* Runs back the tokens [first, last) of a segment, which are one stretch, for one block of values. */
static void run_back(backward *x, size_t first, size_t last) {
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

/* ---- One head ---- */

/* Values of a block: so few that their S and G leave room for the tokens' rows. */
#define LARGEST_BLOCK ((size_t)32)
#define BLOCK_BYTES   ((size_t)16 << 10)

static size_t block_of(const recurrence_plan *plan) {
    size_t block = padded(plan->n) < LARGEST_BLOCK ? padded(plan->n) : LARGEST_BLOCK;
    while (block > LANE_COUNT && 2 * block * padded(plan->m) * sizeof(real) > BLOCK_BYTES)
        block = padded(block / 2);
    return block;
}

/* Gives each part of the memory its place, unless it is NULL. Returns how many reals the parts take. */
static size_t divide(backward *x, real *memory) {
    const recurrence_plan *plan = x->plan;
    const size_t width = padded(plan->m), block = block_of(plan), kind = SEGMENT * width;
    const size_t sizes[] = {padded(plan->n) * width,
                            block * width,
                            (SEGMENT + 1) * block * width,
                            ROW_KINDS * kind,
                            ROW_KINDS * kind,
                            (SEGMENT + 1) * width,
                            width,
                            width,
                            SEGMENT * block,
                            SEGMENT * block,
                            COEFFICIENTS * block,
                            width,
                            width,
                            2 * width,
                            track_reals(plan)};
    real *parts[sizeof sizes / sizeof *sizes];
    size_t count = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        parts[i] = memory ? memory + count : NULL;
        count += sizes[i];
    }
    x->gradients = (lane *)(void *)parts[0];
    x->state = (lane *)(void *)parts[1];
    x->ends = (lane *)(void *)parts[2];
    x->packed = parts[3];
    x->sums = parts[4];
    x->restarts = parts[5];
    x->nothing = parts[6];
    x->unused = parts[7];
    x->v = parts[8];
    x->p = parts[9];
    x->coefficients = parts[10];
    x->ones = parts[11];
    x->factors = parts[12];
    x->last = parts[13];
    x->track_space = parts[14];
    return count;
}

size_t KERNEL(recurrence_backward_workspace)(const recurrence_plan *plan) {
    backward x = {.plan = plan};
    return divide(&x, NULL) * sizeof(real);
}

/* ---- A block of values ---- */

/* Turns LANE_COUNT columns of LANE_COUNT rows, which lie `row` apart, into vectors `chunks` apart, times their
 * factors. */
static void transpose_tile(lane *to, size_t chunks, const real *from, size_t row, lane factors) {
#ifdef LANE_TRANSPOSE
    lane tile[LANE_COUNT];
    transpose_lanes(tile, from, row, lane_set(1));
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) to[j * chunks] = lane_multiply(factors, tile[j]);
#else
    for (size_t j = 0; j < LANE_COUNT; j++) {
        for (size_t i = 0; i < LANE_COUNT; i++)
            lane_elements(&to[j * chunks])[i] = from[i * row + j];
        to[j * chunks] = lane_multiply(factors, to[j * chunks]);
    }
#endif
}

/* Loads a state's columns as rows, to [block][chunks], with zeros beyond it, times factors [width]. */
static void load_state(const backward *x, lane *to, const rows *from, size_t first_row, const real *factors) {
    const size_t m = x->plan->m;
    real part[LANE_COUNT][LANE_COUNT];

    for (size_t c = 0; c < x->chunks; c++)
        for (size_t group = 0; group < x->groups; group++) {
            const size_t i = c * LANE_COUNT, j = group * LANE_COUNT, column = x->value + j;
            const size_t down = m - i < LANE_COUNT ? m - i : LANE_COUNT;
            const size_t across = x->values - j < LANE_COUNT ? x->values - j : LANE_COUNT;
            const bool is_whole = from->column == 1 && down == LANE_COUNT && across == LANE_COUNT;
            const real *tile = &part[0][0];
            if (is_whole)
                tile = from->elements + (first_row + i) * from->row + column;
            else
                memset(part, 0, sizeof part);
            for (size_t row = 0; !is_whole && row < down; row++)
                load_row(part[row], from, first_row + i + row, column, across, LANE_COUNT);
            transpose_tile(to + j * x->chunks + c, x->chunks, tile, is_whole ? from->row : LANE_COUNT,
                           load_lane(factors + i));
        }
}

/* Returns the factors of a decay for each channel [width]. */
static const real *spread(const backward *x, const real *factors) {
    if (x->track.width > 1)
        return factors;
    for (size_t i = 0; i < x->width; i++)
        x->factors[i] = *factors;
    return x->factors;
}

/* Multiplies the rows of `count` values by factors [width]. */
static void scale_rows(const backward *x, lane *to, size_t count, const real *factors) {
    for (size_t j = 0; j < count; j++)
        for (size_t c = 0; c < x->chunks; c++)
            to[j * x->chunks + c] = lane_multiply(load_lane(factors + c * LANE_COUNT), to[j * x->chunks + c]);
}

/* restarts[index] += sum_j G_j C_j */
static void add_restart(const backward *x, size_t index, const lane *state) {
    lane *to = (lane *)(void *)(x->restarts + index * x->width);
    const lane *g = x->gradients + x->value * x->chunks;
    for (size_t c = 0; c < x->chunks; c++) {
        lane sum = to[c];
        for (size_t j = 0; j < x->groups * LANE_COUNT; j++)
            sum = lane_fma(g[j * x->chunks + c], state[j * x->chunks + c], sum);
        to[c] = sum;
    }
}

/* Copies the values and reads of the segment, so that they are adjacent. */
static void load_values(const backward *x) {
    for (size_t t = 0; t < x->count; t++) {
        load_row(x->v + t * x->block, &x->in[V], x->first + t, x->value, x->values, x->values);
        if (x->plan->delta)
            load_row(x->p + t * x->block, &x->reads, x->first + t, x->value, x->values, x->values);
    }
}

/* Computes C at the end of each stretch, from the state before the segment. It is a sum, because the reads are
 * known. */
static void compute_ends(backward *x) {
    const size_t size = x->block * x->chunks;
    const recurrence_plan *plan = x->plan;

    load_values(x);
    load_state(x, x->ends, &x->states, x->first / SEGMENT * plan->m, x->ones);
    for (size_t i = 0; i < x->track.count; i++) {
        lane *to = x->ends + (i + 1) * size;
        memcpy(to, to - size, size * sizeof *to);
        if (x->track.of[i].has_entry)
            scale_rows(x, to, x->groups * LANE_COUNT, spread(x, x->track.entries + i * x->track.width));
        for (size_t t = x->track.of[i].first; t < x->track.of[i + 1].first; t++) {
            const lane *k = (const lane *)(const void *)(x->row[ROW_K] + t * x->width);
            const lane *w = (const lane *)(const void *)(x->row[x->apart ? ROW_W : ROW_K] + t * x->width);
            for (size_t j = 0; j < x->values; j++) {
                const real v = x->beta[t] * x->v[t * x->block + j];
                const real p = plan->delta ? x->beta[t] * x->p[t * x->block + j] : 0;
                for (size_t c = 0; c < x->chunks; c++) {
                    lane *element = &to[j * x->chunks + c];
                    *element = x->apart ? lane_fma(lane_set(v), w[c], lane_fma(lane_set(-p), k[c], *element))
                                        : lane_fma(lane_set(v - p), k[c], *element);
                }
            }
        }
    }
}

static void run_block(backward *x) {
    const decay_track *track = &x->track;
    const size_t width = track->width, size = x->block * x->chunks, after = x->first + x->count;
    const bool again = track->count > 1 || track->of[0].has_entry;
    const bool is_wanted = x->gradient[DECAY].elements;
    lane *g = x->gradients + x->value * x->chunks;

    if (again)
        compute_ends(x);
    if (width > 0)
        scale_rows(x, g, x->groups * LANE_COUNT, x->last);
    for (size_t i = track->count; i-- > 0;) {
        if (again)
            memcpy(x->state, x->ends + (i + 1) * size, size * sizeof *g);
        else
            load_state(x, x->state, after < x->plan->tokens ? &x->states : &x->final,
                       after < x->plan->tokens ? after / SEGMENT * x->plan->m : 0, x->last + x->width);
        if (is_wanted)
            add_restart(x, i + 1, x->state);
        run_back(x, track->of[i].first, track->of[i + 1].first);
        if (track->of[i].has_entry)
            scale_rows(x, g, x->groups * LANE_COUNT, spread(x, track->entries + i * width));
    }
    if (is_wanted && track->of[0].has_entry)
        add_restart(x, 0, x->ends);
}

/* ---- A segment ---- */

/* Returns vector `chunk` of the factors of token t; 1 without decay. */
ALWAYS_INLINE lane token_factor(const backward *x, const real *factors, size_t t, size_t chunk) {
    if (x->track.width > 1)
        return load_lane(factors + t * x->width + chunk * LANE_COUNT);
    return lane_set(x->track.width == 1 ? factors[t] : 1);
}

/* Packs the rows of one input, padded, times factors by token or by channel, if given. */
static const real *gather_rows(const backward *x, const rows *from, const real *factors, int kind) {
    real *packed = x->packed + (size_t)kind * SEGMENT * x->width;
    for (size_t t = 0; t < x->count; t++)
        for (size_t c = 0; c < x->chunks; c++) {
            const lane row = load_chunk(from, x->first + t, c * LANE_COUNT, x->plan->m);
            const lane result = lane_multiply(token_factor(x, factors, t, c), row);
            memcpy(packed + t * x->width + c * LANE_COUNT, &result, sizeof result);
        }
    return packed;
}

/* Sets to[t] to a_t . b_t, for rows of the segment; with `before` to a_t . b_(t-1), and to[0] is not used. */
static void dot_tokens(const backward *x, real *to, const real *a, const real *b, bool before) {
    const size_t width = x->width, last = x->count - 1;
    for (size_t start = 0; start <= last; start += LANE_COUNT) {
        lane products[LANE_COUNT], sums;
        for (size_t i = 0; i < LANE_COUNT; i++) {
            const size_t t = start + i < last ? start + i : last;
            products[i] = dot_lanes(a + t * width, b + (before && t > 0 ? t - 1 : t) * width, width);
        }
        sums = fold_lanes(products);
        memcpy(to + start, &sums, sizeof sums);
    }
}

static void gather_dots(backward *x) {
    const real *q = x->row[ROW_Q], *k = x->row[ROW_K], *r = x->row[ROW_R], *w = x->row[ROW_W];

    dot_tokens(x, x->same_key, q, k, false);
    dot_tokens(x, x->before_key, q, k, true);
    if (x->plan->delta)
        dot_tokens(x, x->read_key, r, k, true);
    if (x->apart) {
        dot_tokens(x, x->same_write, q, w, false);
        dot_tokens(x, x->before_write, q, w, true);
        dot_tokens(x, x->read_write, r, w, true);
    }
}

static void gather_segment(backward *x) {
    const recurrence_plan *plan = x->plan;
    const rows *read = x->in[READ_KEY].elements ? &x->in[READ_KEY] : &x->in[K];

    track_decay(&x->track, plan, &x->in[DECAY], x->first, x->count, x->track_space);
    const size_t end = (x->count - 1) * x->track.width;
    memcpy(x->last, x->track.width > 0 ? spread(x, x->track.factors + end) : x->ones, x->width * sizeof(real));
    memcpy(x->last + x->width, x->track.width > 0 ? spread(x, x->track.inverses + end) : x->ones,
           x->width * sizeof(real));
    x->row[ROW_Q] = gather_rows(x, &x->in[Q], x->track.factors, ROW_Q);
    x->row[ROW_K] = gather_rows(x, &x->in[K], x->track.inverses, ROW_K);
    x->row[ROW_R] = x->row[ROW_W] = x->row[ROW_K];
    if (plan->delta && (x->in[READ_KEY].elements || x->track.width > 0))
        x->row[ROW_R] = gather_rows(x, read, x->track.factors, ROW_R);
    if (x->apart)
        x->row[ROW_W] = gather_rows(x, &x->in[WRITE_KEY], x->track.inverses, ROW_W);
    for (size_t t = 0; t < x->count; t++) {
        x->beta[t] = x->in[BETA].elements ? x->in[BETA].elements[(x->first + t) * x->in[BETA].row] : 1;
        x->d_beta[t] = lane_set(0);
    }
    gather_dots(x);
    memset(x->restarts, 0, (SEGMENT + 1) * x->width * sizeof(real));
}

/* Lists the rows to be requested: those that this segment writes, and those that the next one to be processed reads.
 * That is the segment before this one, or the last one of the next item. */
static void look_ahead(backward *x, size_t item) {
    const recurrence_plan *plan = x->plan;
    const bool is_first = x->first == 0;
    const size_t next = is_first && item + 1 < plan->items ? item + 1 : item;
    const size_t first = is_first ? (plan->tokens - 1) / SEGMENT * SEGMENT : x->first - SEGMENT;
    const size_t count = is_first ? plan->tokens - first : SEGMENT;
    const rows d_out = rows_of(plan, &plan->d_out, next), reads = rows_of(plan, &plan->reads, next);
    const rows state = rows_of(plan, is_first ? &plan->final : &plan->states, next);

    x->soon.count = 0;
    for (int i = Q; i < STATE; i++) {
        const rows in = rows_of(plan, &plan->input[i], next);
        if (i == BETA || (i == DECAY && !plan->by_channel))
            continue;
        add_ahead(&x->soon, &in, first, count, i == V ? plan->n : plan->m);
        add_ahead(&x->soon, &x->gradient[i], x->first, x->count, i == V ? plan->n : plan->m);
    }
    add_ahead(&x->soon, &d_out, first, count, plan->n);
    add_ahead(&x->soon, &reads, first, count, plan->n);
    add_ahead(&x->soon, &state, is_first ? 0 : x->first / SEGMENT * plan->m, plan->m, plan->n);
}

/* ---- Gradients of tokens ---- */

/* Returns the product of two rows' vectors at offset `at`. */
ALWAYS_INLINE lane product_at(const real *x, const real *y, size_t at) {
    return lane_multiply(load_lane(x + at), load_lane(y + at));
}

/* Computes the running sums of the decays' gradients of one stretch; they replace the rows of q. */
static void decay_gradients(backward *x, size_t index, size_t chunk) {
    const size_t width = x->width, kind = SEGMENT * width;
    const stretch *of = &x->track.of[index];
    lane next = load_lane(x->restarts + (index + 1) * width + chunk * LANE_COUNT);

    for (size_t t = of[1].first; t-- > of->first;) {
        const size_t at = t * width + chunk * LANE_COUNT;
        lane term = lane_add(product_at(x->row[ROW_Q], x->sums + ROW_Q * kind, at),
                             product_at(x->row[ROW_K], x->sums + ROW_K * kind, at));
        if (x->plan->delta)
            term = lane_add(term, product_at(x->row[ROW_R], x->sums + ROW_R * kind, at));
        if (x->apart)
            term = lane_add(term, product_at(x->row[ROW_W], x->sums + ROW_W * kind, at));
        next = lane_add(next, term);
        memcpy(x->packed + at, &next, sizeof next);
    }
    if (of->has_entry)
        memcpy(x->packed + of->first * width + chunk * LANE_COUNT, x->restarts + index * width + chunk * LANE_COUNT,
               sizeof next);
}

/* Stores one number for each token of the segment, the sum of its lanes. */
static void store_sums(const backward *x, const rows *to, const lane *sums) {
    for (size_t t = 0; t < x->count; t += LANE_COUNT) {
        const size_t left = x->count - t < LANE_COUNT ? x->count - t : LANE_COUNT;
        lane waiting[LANE_COUNT], result;
        for (size_t i = 0; i < LANE_COUNT; i++)
            waiting[i] = i < left ? sums[t + i] : lane_set(0);
        result = fold_lanes(waiting);
        for (size_t i = 0; i < left; i++)
            to->elements[(x->first + t + i) * to->row] = lane_elements(&result)[i];
    }
}

static void store_decays(backward *x) {
    const rows *to = &x->gradient[DECAY];
    lane sums[SEGMENT];

    for (size_t c = 0; c < x->chunks; c++)
        for (size_t i = x->track.count; i-- > 0;)
            decay_gradients(x, i, c);
    for (size_t t = 0; t < x->count; t++) {
        const real *row = x->packed + t * x->width;
        sums[t] = load_lane(row);
        for (size_t c = 1; !x->plan->by_channel && c < x->chunks; c++)
            sums[t] = lane_add(sums[t], load_lane(row + c * LANE_COUNT));
        if (x->plan->by_channel)
            store_row(to, x->first + t, 0, x->plan->m, row);
    }
    if (!x->plan->by_channel)
        store_sums(x, to, sums);
}

/* Stores the gradients of one input: its sums times `sign` and its factors, plus `other`, if given, times its own. */
static void store_kind(const backward *x, int input, int kind, const real *factors, real sign, const real *other,
                       const real *other_factors) {
    const rows to = x->gradient[input];
    const real *sums = x->sums + (size_t)kind * SEGMENT * x->width;
    const size_t width = x->width, count = to.elements ? x->count : 0;

    for (size_t t = 0; t < count; t++)
        for (size_t c = 0; c < x->chunks; c++) {
            const size_t at = t * width + c * LANE_COUNT;
            lane row =
                lane_multiply(lane_multiply(lane_set(sign), token_factor(x, factors, t, c)), load_lane(sums + at));
            if (other)
                row = lane_fma(token_factor(x, other_factors, t, c), load_lane(other + at), row);
            store_chunk(&to, x->first + t, c * LANE_COUNT, x->plan->m, row);
        }
}

static void store_segment(backward *x) {
    const real *factors = x->track.factors, *inverses = x->track.inverses;
    const real *reads = x->plan->delta ? x->sums + ROW_R * SEGMENT * x->width : NULL;
    const bool read_apart = x->plan->delta && x->in[READ_KEY].elements;

    if (x->gradient[DECAY].elements)
        store_decays(x);
    store_kind(x, Q, ROW_Q, factors, 1, NULL, NULL);
    store_kind(x, K, ROW_K, inverses, -1, read_apart ? NULL : reads, factors);
    if (read_apart)
        store_kind(x, READ_KEY, ROW_R, factors, 1, NULL, NULL);
    if (x->apart)
        store_kind(x, WRITE_KEY, ROW_W, inverses, -1, NULL, NULL);
    if (x->gradient[BETA].elements)
        store_sums(x, &x->gradient[BETA], x->d_beta);
}

/* ---- All of it ---- */

static void set_block(backward *x, size_t value) {
    const size_t left = x->plan->n - value;
    x->value = value;
    x->values = left < x->block ? left : x->block;
    x->groups = padded(x->values) / LANE_COUNT;
}

static void begin(backward *x, const recurrence_plan *plan, size_t item, void *workspace) {
    x->plan = plan;
    x->width = padded(plan->m);
    x->block = block_of(plan);
    x->chunks = x->width / LANE_COUNT;
    x->track.factors = x->track.inverses = NULL;
    for (int i = 0; i < INPUTS; i++) {
        x->in[i] = rows_of(plan, &plan->input[i], item);
        x->gradient[i] = rows_of(plan, &plan->gradient[i], item);
    }
    x->apart = x->in[WRITE_KEY].elements;
    x->d_out = rows_of(plan, &plan->d_out, item);
    x->d_final = rows_of(plan, &plan->d_final, item);
    x->final = rows_of(plan, &plan->final, item);
    x->reads = rows_of(plan, &plan->reads, item);
    x->states = rows_of(plan, &plan->states, item);
    divide(x, workspace);
    memset(x->nothing, 0, x->width * sizeof(real));
    memset(x->unused, 0, x->width * sizeof(real));
    for (size_t i = 0; i < x->width; i++)
        x->ones[i] = 1;
}

void KERNEL(recurrence_backward)(const recurrence_plan *plan, size_t item, void *workspace) {
    const rows *d_state;
    backward x;

    begin(&x, plan, item, workspace);
    d_state = &x.gradient[STATE];
    for (size_t value = 0; value < plan->n; value += x.block) {
        set_block(&x, value);
        if (x.d_final.elements)
            load_state(&x, x.gradients + value * x.chunks, &x.d_final, 0, x.ones);
        else
            memset(x.gradients + value * x.chunks, 0, x.groups * LANE_COUNT * x.width * sizeof(real));
    }
    for (size_t end = plan->tokens; end > 0; end = x.first) {
        x.first = (end - 1) / SEGMENT * SEGMENT;
        x.count = end - x.first;
        gather_segment(&x);
        look_ahead(&x, item);
        for (size_t value = 0; value < plan->n; value += x.block) {
            set_block(&x, value);
            run_block(&x);
        }
        store_segment(&x);
    }
    for (size_t i = 0; d_state->elements && i < plan->m; i++)
        for (size_t j = 0; j < plan->n; j++)
            d_state->elements[i * d_state->row + j * d_state->column] =
                ((const real *)(const void *)x.gradients)[j * x.width + i];
}
