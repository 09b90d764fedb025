/*
 * Recurrences backward, for one batch and head. The state and its gradient are transposed, [values][channels], so that
 * all sums over values are vertical and the one sum over channels, f_j = <G_j, k>, is taken for LANE_COUNT values at
 * once. Blocks of values keep both in the nearest cache; within a segment the state is run back.
 *
 * With C and G in the coordinates of segment.h, d_j = scale d_out_j, u = beta (v - p), for one token from its end:
 *     f_j = <G_j, k> + d_j (q . k),  dv_j = beta f_j,  e_j = -beta f_j,  dbeta = sum_j f_j (v - p)_j
 *     dq += d_j C_j;  C_j -= u_j k;  dr += e_j C_j;  G_j += d_j q;  dk += u_j G_j;  G_j += e_j r
 * A decay by channel changes the rows q, k and r here; one decay for all changes d, u, e and f instead.
 * Without the delta term u = beta v and e = 0. If there is a write key, w takes beta v and k takes -beta p. Tokens are
 * processed in pairs, as stated below.
 *
 * The gradients of decays cost a product for each channel and token: D_t = sum_j G_j C_j, by channel, is not changed by
 * decays, and D_t = D_(t+1) + q dq - k dk - w dw + r dr. Over all channels the products are q . dq - v . dv. Such a sum
 * loses digits, so it restarts from sum_j G_j C_j itself at the end of each stretch.
 */
#include "backend/cpu/kernels/parts.h"
#include "backend/cpu/kernels/recurrence/segment.h"

/* ---- Rows that will be touched soon ---- */

/* Rows that will be touched soon. The rows of a segment of one operand are about a page of memory, and the pages of
 * many operands come in turn, so a processor's own prefetcher foresees none of them. They are requested while the
 * segment before them is computed, and arrive in time: in the second cache, because the first one is full. */

#define AHEAD_LARGEST 64
#define AHEAD_PARTS   (SEGMENT / 2)       /* one for each pair of tokens */
#define AHEAD_LINE    (64 / sizeof(real)) /* elements of a cache line */

/* Lines at equal distances, of which a few are requested at a time. */
typedef struct ahead_lines {
    const real *next;
    size_t step, left, each;
} ahead_lines;

typedef struct ahead {
    size_t count;
    ahead_lines of[AHEAD_LARGEST];
} ahead;

static inline void add_lines(ahead *to, const real *first, size_t step, size_t count) {
    if (to->count < AHEAD_LARGEST)
        to->of[to->count++] =
            (ahead_lines){first + (count - 1) * step, step, count, (count + AHEAD_PARTS - 1) / AHEAD_PARTS};
}

/* Adds rows [first, first + count) of an operand, the last ones first, if their elements are adjacent. */
static inline void add_ahead(ahead *to, const rows *from, size_t first, size_t count, size_t width) {
    const real *at = from->elements + first * from->row;
    if (!from->elements || from->column != 1)
        return;
    if (from->row == width && width % AHEAD_LINE == 0)
        add_lines(to, at, AHEAD_LINE, count * width / AHEAD_LINE);
    else
        for (size_t i = 0; i < width; i += AHEAD_LINE)
            add_lines(to, at + i, from->row, count);
}

/* Requests the next part of all operands. */
static inline void ask_ahead(ahead *soon) {
    for (ahead_lines *lines = soon->of; lines < soon->of + soon->count; lines++) {
        const size_t count = lines->left < lines->each ? lines->left : lines->each;
        for (size_t i = 0; i < count; i++)
            PREFETCH_LATER(lines->next - i * lines->step);
        lines->left -= count;
        lines->next -= lines->left > 0 ? count * lines->step : 0;
    }
}

/* ---- The pass of a head ---- */

enum { Q = ICL_RECURRENCE_Q, K, V, BETA, DECAY, READ_KEY, WRITE_KEY, STATE, INPUTS };

/* The kinds of tokens' rows, [SEGMENT][width]: vectors over channels, and the sums of their gradients. */
enum { ROW_Q = 0, ROW_K, ROW_R, ROW_W, ROW_KINDS };

/* Coefficients for each value of a block, of the later token of a pair and of the earlier one: d, -u, e, and the factor
 * of w, with the sign of -u. Therefore the sums for k and w come out negative. */
enum { FLOW = 0, KEY = 2, READ = 4, WRITE = 6, COEFFICIENTS = 8 };

/* Values of a block: so few that their S and G leave room for the tokens' rows. */
#define LARGEST_BLOCK ((size_t)32)
#define BLOCK_BYTES   ((size_t)16 << 10)

typedef struct head_pass head_pass;

/* Runs back token t and, if is_pair, t - 1. */
typedef void pair_function(head_pass *x, size_t t, bool is_pair);

struct head_pass {
    const recurrence_plan *plan;
    pair_function *run;
    rows in[INPUTS], gradient[INPUTS];
    rows d_out, d_final, final, reads, states;
    bool apart;
    size_t width, chunks; /* channels with padding; the same in vectors */
    size_t block;         /* values of a block, a multiple of LANE_COUNT */

    /* One segment. */
    size_t first, count;
    decay_track track;
    token_rows row[ROW_KINDS], sum[ROW_KINDS];
    bool joined; /* the gradient of k is one sum: that for r, which begins with that for k */
    real beta[SEGMENT];
    real factor[SEGMENT], inverse[SEGMENT];          /* c_t and 1 / c_t of one decay for all channels, else 1 */
    real same_key[SEGMENT], same_write[SEGMENT];     /* q_t . k_t, q_t . w_t */
    real before_key[SEGMENT], before_write[SEGMENT]; /* q_t . k_(t-1), q_t . w_(t-1) */
    real read_key[SEGMENT], read_write[SEGMENT];     /* r_t . k_(t-1), r_t . w_(t-1) */
    lane d_beta[SEGMENT], v_dv[SEGMENT];             /* sums over values, in lanes */
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
};

/* The rows of one token and their sums; zeros if it is not there. */
typedef struct token {
    size_t t;
    const real *row[ROW_KINDS];
    real *sum[ROW_KINDS];
} token;

static token token_at(const head_pass *pass, size_t t, bool is_there) {
    token to = {.t = t};
    for (int i = 0; i < ROW_KINDS; i++) {
        to.row[i] = is_there ? pass->row[i].elements + t * pass->row[i].row : pass->nothing;
        to.sum[i] = is_there ? pass->sum[i].elements + t * pass->sum[i].row : pass->unused;
    }
    return to;
}

/* ---- Two tokens at a time ---- */

/*
 * Two tokens run back at a time, by the formulas above: f of the earlier token is computed before the later one
 * has changed G, with products of the tokens themselves. Then a sweep over the rows of G processes both tokens, and one
 * over those of C: 7 fused multiply-adds for a load and a store. G comes first: the next pair's f needs it, and is
 * computed while C is being run back.
 */

/* Returns a vector whose lane j is the sum over channels of g_j k, for LANE_COUNT values. */
ALWAYS_INLINE lane channel_sums(const lane *g, const real *k, size_t chunks) {
    lane sum[LANE_COUNT];
    UNROLL for (size_t j = 0; j < LANE_COUNT; j++) sum[j] = lane_multiply(g[j * chunks], load_lane(k));
    for (size_t c = 1; c < chunks; c++) {
        const lane factor = load_lane(k + c * LANE_COUNT);
        UNROLL for (size_t j = 0; j < LANE_COUNT; j++) sum[j] = lane_fma(g[j * chunks + c], factor, sum[j]);
    }
    return fold_lanes(sum);
}

/* Returns vector `group` of one token's values of an operand. */
ALWAYS_INLINE lane load_group(const head_pass *pass, const rows *from, size_t t, size_t group) {
    return load_chunk(from, pass->first + t, pass->value + group * LANE_COUNT, pass->plan->n);
}

ALWAYS_INLINE lane load_flow(const head_pass *pass, size_t t, size_t group) {
    return lane_multiply(lane_set(pass->plan->scale * pass->factor[t]), load_group(pass, &pass->d_out, t, group));
}

ALWAYS_INLINE void store_coefficients(const head_pass *pass, size_t kind, size_t group, lane from) {
    memcpy(pass->coefficients + kind * LARGEST_BLOCK + group * LANE_COUNT, &from, sizeof from);
}

/* Computes from one token's f, for one group of values, the gradients of v and beta and the coefficients of the sweep.
 * Returns those for r. */
ALWAYS_INLINE lane use_flow(head_pass *pass, size_t t, size_t group, lane f_key, lane f_write, int number,
                            const bool delta, const bool apart) {
    const lane d_v = lane_multiply(lane_set(pass->beta[t]), f_write),
               minus = lane_set(-pass->beta[t] * pass->inverse[t]);
    const lane read = lane_multiply(lane_set(-pass->beta[t] * pass->factor[t]), f_key);
    const lane v = load_group(pass, &pass->in[V], t, group);
    const lane p = delta ? load_group(pass, &pass->reads, t, group) : lane_set(0);
    const lane taken = lane_multiply(lane_set(-1), p), rest = delta ? lane_add(v, taken) : v;

    if (apart) {
        pass->d_beta[t] = lane_fma(f_write, v, lane_fma(f_key, taken, pass->d_beta[t]));
        store_coefficients(pass, WRITE + number, group, lane_multiply(minus, v));
    } else {
        pass->d_beta[t] = lane_fma(f_key, rest, pass->d_beta[t]);
    }
    pass->v_dv[t] = lane_fma(v, d_v, pass->v_dv[t]);
    store_coefficients(pass, KEY + number, group, lane_multiply(minus, apart ? taken : rest));
    if (delta)
        store_coefficients(pass, READ + number, group, read);
    if (pass->gradient[V].elements)
        store_chunk(&pass->gradient[V], pass->first + t, pass->value + group * LANE_COUNT, pass->plan->n, d_v);
    return read;
}

/* Computes everything that the sweep needs for one group of values. */
ALWAYS_INLINE void prepare_group(head_pass *pass, const token *later, const token *earlier, bool is_pair, size_t group,
                                 const size_t chunks, const bool delta, const bool apart) {
    const size_t t = later->t, s = earlier->t;
    const lane *g = pass->gradients + (pass->value + group * LANE_COUNT) * chunks;
    const lane flow = load_flow(pass, t, group), inverse = lane_set(pass->inverse[t]);
    lane f_key = lane_fma(flow, lane_set(pass->same_key[t]), channel_sums(g, later->row[ROW_K], chunks));
    lane f_write = f_key, read;

    if (apart)
        f_write = lane_fma(flow, lane_set(pass->same_write[t]), channel_sums(g, later->row[ROW_W], chunks));
    store_coefficients(pass, FLOW, group, flow);
    read = use_flow(pass, t, group, lane_multiply(inverse, f_key), lane_multiply(inverse, f_write), 0, delta, apart);
    if (!is_pair)
        return;
    const lane flow0 = load_flow(pass, s, group), inverse0 = lane_set(pass->inverse[s]);
    store_coefficients(pass, FLOW + 1, group, flow0);
    f_key = lane_fma(flow, lane_set(pass->before_key[t]), channel_sums(g, earlier->row[ROW_K], chunks));
    if (delta)
        f_key = lane_fma(read, lane_set(pass->read_key[t]), f_key);
    f_key = lane_fma(flow0, lane_set(pass->same_key[s]), f_key);
    f_write = f_key;
    if (apart) {
        f_write = lane_fma(flow, lane_set(pass->before_write[t]), channel_sums(g, earlier->row[ROW_W], chunks));
        f_write = lane_fma(read, lane_set(pass->read_write[t]), f_write);
        f_write = lane_fma(flow0, lane_set(pass->same_write[s]), f_write);
    }
    use_flow(pass, s, group, lane_multiply(inverse0, f_key), lane_multiply(inverse0, f_write), 1, delta, apart);
}

/* Returns one vector of a token's row; of its sums, which begin with the first block; and stores one of these. */
ALWAYS_INLINE lane row_chunk(const token *from, int kind, size_t chunk) {
    return load_lane(from->row[kind] + chunk * LANE_COUNT);
}

ALWAYS_INLINE lane sum_chunk(const head_pass *pass, const token *from, int kind, size_t chunk) {
    return pass->value > 0 ? load_lane(from->sum[kind] + chunk * LANE_COUNT) : lane_set(0);
}

ALWAYS_INLINE void store_sum(const token *to, int kind, size_t chunk, lane sum) {
    memcpy(to->sum[kind] + chunk * LANE_COUNT, &sum, sizeof sum);
}

/* to += factor x */
ALWAYS_INLINE void add_rows(lane *to, real factor, const lane *x, const size_t vectors) {
    UNROLL for (size_t v = 0; v < vectors; v++) to[v] = lane_fma(lane_set(factor), x[v], to[v]);
}

/* Vectors of channels that pass through the registers together: a coefficient is loaded once for both. */
#define TOGETHER 2

/* Runs `vectors` vectors of all rows of G back by two tokens, and adds to the tokens' sums. */
ALWAYS_INLINE void sweep_gradient(const head_pass *pass, const token pair[2], size_t chunk, const size_t chunks,
                                  const size_t vectors, const bool delta, const bool apart) {
    const size_t count = pass->groups * LANE_COUNT;
    const real *at = pass->coefficients;
    lane *gradient = pass->gradients + pass->value * chunks + chunk, g[TOGETHER];
    lane q[2][TOGETHER], r[2][TOGETHER], sum_k[2][TOGETHER], sum_w[2][TOGETHER];

    UNROLL for (int i = 0; i < 2; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        q[i][v] = row_chunk(&pair[i], ROW_Q, chunk + v);
        r[i][v] = row_chunk(&pair[i], ROW_R, chunk + v);
        sum_k[i][v] = pass->joined ? lane_set(0) : sum_chunk(pass, &pair[i], ROW_K, chunk + v);
        sum_w[i][v] = apart ? sum_chunk(pass, &pair[i], ROW_W, chunk + v) : lane_set(0);
    }
    for (size_t j = 0; j < count; j++, at++, gradient += chunks) {
        UNROLL for (size_t v = 0; v < vectors; v++) g[v] = gradient[v];
        UNROLL for (int i = 0; i < 2; i++) {
            add_rows(g, at[(FLOW + i) * LARGEST_BLOCK], q[i], vectors);
            add_rows(sum_k[i], at[(KEY + i) * LARGEST_BLOCK], g, vectors);
            if (apart)
                add_rows(sum_w[i], at[(WRITE + i) * LARGEST_BLOCK], g, vectors);
            if (delta)
                add_rows(g, at[(READ + i) * LARGEST_BLOCK], r[i], vectors);
        }
        UNROLL for (size_t v = 0; v < vectors; v++) gradient[v] = g[v];
    }
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        store_sum(&pair[i], ROW_K, chunk + v, sum_k[i][v]);
        if (apart)
            store_sum(&pair[i], ROW_W, chunk + v, sum_w[i][v]);
    }
}

/* Does the same to C, which becomes the state before the two tokens. */
ALWAYS_INLINE void sweep_state(const head_pass *pass, const token pair[2], size_t chunk, const size_t chunks,
                               const size_t vectors, const bool delta, const bool apart) {
    const size_t count = pass->groups * LANE_COUNT;
    const real *at = pass->coefficients;
    lane *state = pass->state + chunk, c[TOGETHER];
    lane k[2][TOGETHER], w[2][TOGETHER], sum_q[2][TOGETHER], sum_r[2][TOGETHER];

    UNROLL for (int i = 0; i < 2; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        k[i][v] = row_chunk(&pair[i], ROW_K, chunk + v);
        w[i][v] = row_chunk(&pair[i], ROW_W, chunk + v);
        sum_q[i][v] = sum_chunk(pass, &pair[i], ROW_Q, chunk + v);
        sum_r[i][v] = sum_chunk(pass, &pair[i], ROW_R, chunk + v);
        if (pass->joined)
            sum_r[i][v] = lane_fma(lane_set(-1), load_lane(pair[i].sum[ROW_K] + (chunk + v) * LANE_COUNT), sum_r[i][v]);
    }
    for (size_t j = 0; j < count; j++, at++, state += chunks) {
        UNROLL for (size_t v = 0; v < vectors; v++) c[v] = state[v];
        UNROLL for (int i = 0; i < 2; i++) {
            add_rows(sum_q[i], at[(FLOW + i) * LARGEST_BLOCK], c, vectors);
            add_rows(c, at[(KEY + i) * LARGEST_BLOCK], k[i], vectors);
            if (apart)
                add_rows(c, at[(WRITE + i) * LARGEST_BLOCK], w[i], vectors);
            if (delta)
                add_rows(sum_r[i], at[(READ + i) * LARGEST_BLOCK], c, vectors);
        }
        UNROLL for (size_t v = 0; v < vectors; v++) state[v] = c[v];
    }
    UNROLL for (int i = 0; i < 2; i++) UNROLL for (size_t v = 0; v < vectors; v++) {
        store_sum(&pair[i], ROW_Q, chunk + v, sum_q[i][v]);
        store_sum(&pair[i], ROW_R, chunk + v, sum_r[i][v]);
    }
}

/* Runs back token t and, if is_pair, t - 1. */
ALWAYS_INLINE void run_pair(head_pass *pass, size_t t, bool is_pair, const size_t chunks, const bool delta,
                            const bool apart) {
    const token pair[2] = {token_at(pass, t, true), token_at(pass, is_pair ? t - 1 : t, is_pair)};

    if (!is_pair)
        memset(pass->coefficients, 0, COEFFICIENTS * LARGEST_BLOCK * sizeof(real));
    for (size_t group = 0; group < pass->groups; group++)
        prepare_group(pass, &pair[0], &pair[1], is_pair, group, chunks, delta, apart);
    const size_t even = chunks / TOGETHER * TOGETHER;
    for (size_t chunk = 0; chunk < even; chunk += TOGETHER)
        sweep_gradient(pass, pair, chunk, chunks, TOGETHER, delta, apart);
    if (even < chunks)
        sweep_gradient(pass, pair, even, chunks, 1, delta, apart);
    for (size_t chunk = 0; chunk < even; chunk += TOGETHER)
        sweep_state(pass, pair, chunk, chunks, TOGETHER, delta, apart);
    if (even < chunks)
        sweep_state(pass, pair, even, chunks, 1, delta, apart);
}

/* ---- Forms: rows of one, two or four vectors get code of their own, because their strides are then constants ---- */

#define PAIRS(name, chunks, delta, apart)                                                                              \
    static void name(head_pass *pass, size_t t, bool is_pair) {                                                        \
        run_pair(pass, t, is_pair, chunks, delta, apart);                                                              \
    }

PAIRS(sum_1, 1, false, false)
PAIRS(sum_2, 2, false, false)
PAIRS(sum_4, 4, false, false)
PAIRS(sum_any, pass->chunks, false, false)
PAIRS(delta_1, 1, true, false)
PAIRS(delta_2, 2, true, false)
PAIRS(delta_4, 4, true, false)
PAIRS(delta_any, pass->chunks, true, false)
PAIRS(apart_any, pass->chunks, true, true)

static pair_function *pair_for(const head_pass *pass) {
    static pair_function *const functions[2][5] = {{sum_any, sum_1, sum_2, sum_any, sum_4},
                                                   {delta_any, delta_1, delta_2, delta_any, delta_4}};
    return pass->apart ? apart_any : functions[pass->plan->delta][pass->chunks < 5 ? pass->chunks : 0];
}

/* Runs back the tokens [first, last) of a segment, which are one stretch, for one block of values. */
static void run_back(head_pass *pass, size_t first, size_t last) {
    for (size_t end = last; end > first;) {
        const bool is_pair = end - first > 1;
        if (pass->value == 0)
            ask_ahead(&pass->soon);
        pass->run(pass, end - 1, is_pair);
        end -= is_pair ? 2 : 1;
    }
}

/* ---- One head ---- */

static size_t block_of(const recurrence_plan *plan) {
    size_t block = padded(plan->n) < LARGEST_BLOCK ? padded(plan->n) : LARGEST_BLOCK;
    while (block > LANE_COUNT && 2 * block * padded(plan->m) * sizeof(real) > BLOCK_BYTES)
        block = padded(block / 2);
    return block;
}

/* Gives each part of the memory its place, unless it is NULL. Returns how many reals the parts take. */
static size_t divide(head_pass *pass, real *memory) {
    const recurrence_plan *plan = pass->plan;
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
                            COEFFICIENTS * LARGEST_BLOCK,
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
    pass->gradients = (lane *)(void *)parts[0];
    pass->state = (lane *)(void *)parts[1];
    pass->ends = (lane *)(void *)parts[2];
    pass->packed = parts[3];
    pass->sums = parts[4];
    pass->restarts = parts[5];
    pass->nothing = parts[6];
    pass->unused = parts[7];
    pass->v = parts[8];
    pass->p = parts[9];
    pass->coefficients = parts[10];
    pass->ones = parts[11];
    pass->factors = parts[12];
    pass->last = parts[13];
    pass->track_space = parts[14];
    return count;
}

size_t KERNEL(recurrence_backward_workspace)(const recurrence_plan *plan) {
    head_pass pass = {.plan = plan};
    return divide(&pass, NULL) * sizeof(real);
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
static void load_state(const head_pass *pass, lane *to, const rows *from, size_t first_row, const real *factors) {
    const size_t m = pass->plan->m;
    real part[LANE_COUNT][LANE_COUNT];

    for (size_t c = 0; c < pass->chunks; c++)
        for (size_t group = 0; group < pass->groups; group++) {
            const size_t i = c * LANE_COUNT, j = group * LANE_COUNT, column = pass->value + j;
            const size_t down = m - i < LANE_COUNT ? m - i : LANE_COUNT;
            const size_t across = pass->values - j < LANE_COUNT ? pass->values - j : LANE_COUNT;
            const bool is_whole = from->column == 1 && down == LANE_COUNT && across == LANE_COUNT;
            const real *tile = &part[0][0];
            if (is_whole)
                tile = from->elements + (first_row + i) * from->row + column;
            else
                memset(part, 0, sizeof part);
            for (size_t row = 0; !is_whole && row < down; row++)
                load_row(part[row], from, first_row + i + row, column, across, LANE_COUNT);
            transpose_tile(to + j * pass->chunks + c, pass->chunks, tile, is_whole ? from->row : LANE_COUNT,
                           load_lane(factors + i));
        }
}

/* Returns the factors of a decay for each channel [width]. */
static const real *spread(const head_pass *pass, const real *factors) {
    if (pass->track.width > 1)
        return factors;
    for (size_t i = 0; i < pass->width; i++)
        pass->factors[i] = *factors;
    return pass->factors;
}

/* Multiplies the rows of `count` values by factors [width]. */
static void scale_rows(const head_pass *pass, lane *to, size_t count, const real *factors) {
    for (size_t j = 0; j < count; j++)
        for (size_t c = 0; c < pass->chunks; c++)
            to[j * pass->chunks + c] = lane_multiply(load_lane(factors + c * LANE_COUNT), to[j * pass->chunks + c]);
}

/* restarts[index] += sum_j G_j C_j */
static void add_restart(const head_pass *pass, size_t index, const lane *state) {
    lane *to = (lane *)(void *)(pass->restarts + index * pass->width);
    const lane *g = pass->gradients + pass->value * pass->chunks;
    for (size_t c = 0; c < pass->chunks; c++) {
        lane sum = to[c];
        for (size_t j = 0; j < pass->groups * LANE_COUNT; j++)
            sum = lane_fma(g[j * pass->chunks + c], state[j * pass->chunks + c], sum);
        to[c] = sum;
    }
}

/* Copies the values and reads of the segment, so that they are adjacent. */
static void load_values(const head_pass *pass) {
    for (size_t t = 0; t < pass->count; t++) {
        load_row(pass->v + t * pass->block, &pass->in[V], pass->first + t, pass->value, pass->values, pass->values);
        if (pass->plan->delta)
            load_row(pass->p + t * pass->block, &pass->reads, pass->first + t, pass->value, pass->values, pass->values);
    }
}

/* Computes C at the end of each stretch, from the state before the segment. It is a sum, because the reads are
 * known. */
static void compute_ends(head_pass *pass) {
    const size_t chunks = pass->chunks, size = pass->block * chunks;
    const recurrence_plan *plan = pass->plan;

    load_values(pass);
    load_state(pass, pass->ends, &pass->states, pass->first / SEGMENT * plan->m, pass->ones);
    for (size_t i = 0; i < pass->track.count; i++) {
        lane *to = pass->ends + (i + 1) * size;
        memcpy(to, to - size, size * sizeof *to);
        if (pass->track.of[i].has_entry)
            scale_rows(pass, to, pass->groups * LANE_COUNT, spread(pass, pass->track.entries + i * pass->track.width));
        for (size_t t = pass->track.of[i].first; t < pass->track.of[i + 1].first; t++) {
            const real *k = pass->row[ROW_K].elements + t * pass->row[ROW_K].row;
            const real *w = pass->row[ROW_W].elements + t * pass->row[ROW_W].row;
            const real factor = pass->beta[t] * pass->inverse[t];
            const bool apart = pass->apart;
            for (size_t j = 0; j < pass->values; j++) {
                const real v = factor * pass->v[t * pass->block + j];
                const real p = plan->delta ? factor * pass->p[t * pass->block + j] : 0;
                lane *element = &to[j * chunks];
                for (size_t c = 0; c < chunks; c++, element++) {
                    const lane key = load_lane(k + c * LANE_COUNT);
                    *element = apart ? lane_fma(lane_set(v), load_lane(w + c * LANE_COUNT),
                                                lane_fma(lane_set(-p), key, *element))
                                     : lane_fma(lane_set(v - p), key, *element);
                }
            }
        }
    }
}

static void run_block(head_pass *pass) {
    const decay_track *track = &pass->track;
    const size_t width = track->width, size = pass->block * pass->chunks, after = pass->first + pass->count;
    const bool again = track->count > 1 || track->of[0].has_entry;
    const bool is_wanted = pass->gradient[DECAY].elements;
    lane *g = pass->gradients + pass->value * pass->chunks;

    if (again)
        compute_ends(pass);
    if (width > 0)
        scale_rows(pass, g, pass->groups * LANE_COUNT, pass->last);
    for (size_t i = track->count; i-- > 0;) {
        if (again)
            memcpy(pass->state, pass->ends + (i + 1) * size, size * sizeof *g);
        else
            load_state(pass, pass->state, after < pass->plan->tokens ? &pass->states : &pass->final,
                       after < pass->plan->tokens ? after / SEGMENT * pass->plan->m : 0, pass->last + pass->width);
        if (is_wanted)
            add_restart(pass, i + 1, pass->state);
        run_back(pass, track->of[i].first, track->of[i + 1].first);
        if (track->of[i].has_entry)
            scale_rows(pass, g, pass->groups * LANE_COUNT, spread(pass, track->entries + i * width));
    }
    if (is_wanted && track->of[0].has_entry)
        add_restart(pass, 0, pass->ends);
}

/* ---- A segment ---- */

/* Returns the rows of one input, with padding, times factors by channel, if given; packed, if they are not so. */
static token_rows gather_rows(const head_pass *pass, const rows *from, const real *factors, int kind) {
    real *packed = pass->packed + (size_t)kind * SEGMENT * pass->width;
    if (!factors && from->column == 1 && pass->plan->m == pass->width)
        return (token_rows){from->elements + pass->first * from->row, from->row};
    for (size_t t = 0; t < pass->count; t++)
        for (size_t c = 0; c < pass->chunks; c++) {
            const size_t at = t * pass->width + c * LANE_COUNT;
            const lane row = load_chunk(from, pass->first + t, c * LANE_COUNT, pass->plan->m);
            const lane result = factors ? lane_multiply(load_lane(factors + at), row) : row;
            memcpy(packed + at, &result, sizeof result);
        }
    return (token_rows){packed, pass->width};
}

/* Returns where the sums of one kind go: to the gradient's rows, if that is what they are and its rows take them. */
static token_rows place_sums(const head_pass *pass, int kind, const rows *gradient) {
    if (gradient && gradient->elements && gradient->column == 1 && pass->plan->m == pass->width)
        return (token_rows){gradient->elements + pass->first * gradient->row, gradient->row};
    return (token_rows){pass->sums + (size_t)kind * SEGMENT * pass->width, pass->width};
}

/* Sets to[t] to a_t . b_(t - before), for the last token, the one `step` before it, and so on. */
static void dot_tokens(const head_pass *pass, real *to, int a, int b, size_t before, size_t step) {
    const token_rows *left = &pass->row[a], *right = &pass->row[b];
    for (size_t end = pass->count; end > before;) {
        lane products[LANE_COUNT], sums;
        size_t t = end;
        for (size_t i = 0; i < LANE_COUNT; i++) {
            const real *y = left->elements + (t - 1) * left->row, *z = right->elements + (t - 1 - before) * right->row;
            products[i] = lane_multiply(load_lane(y), load_lane(z));
            for (size_t c = LANE_COUNT; c < pass->width; c += LANE_COUNT)
                products[i] = lane_fma(load_lane(y + c), load_lane(z + c), products[i]);
            t -= t > step + before ? step : 0;
        }
        sums = fold_lanes(products);
        for (size_t i = 0; i < LANE_COUNT && end > before; i++) {
            to[end - 1] = lane_elements(&sums)[i];
            end -= end > step ? step : end;
        }
    }
}

/* Computes the products of tokens with themselves, and of the later token of each pair with the earlier one. In a
 * single stretch every second token is a later one; else any may be. */
static void gather_dots(head_pass *pass) {
    const size_t step = pass->track.count == 1 ? 2 : 1;

    dot_tokens(pass, pass->same_key, ROW_Q, ROW_K, 0, 1);
    dot_tokens(pass, pass->before_key, ROW_Q, ROW_K, 1, step);
    if (pass->plan->delta)
        dot_tokens(pass, pass->read_key, ROW_R, ROW_K, 1, step);
    if (pass->apart) {
        dot_tokens(pass, pass->same_write, ROW_Q, ROW_W, 0, 1);
        dot_tokens(pass, pass->before_write, ROW_Q, ROW_W, 1, step);
        dot_tokens(pass, pass->read_write, ROW_R, ROW_W, 1, step);
    }
}

/* Computes what belongs to tokens, apart from their rows. */
static void gather_factors(head_pass *pass) {
    const bool is_scalar = pass->track.width == 1;
    for (size_t t = 0; t < pass->count; t++) {
        pass->beta[t] = pass->in[BETA].elements ? pass->in[BETA].elements[(pass->first + t) * pass->in[BETA].row] : 1;
        pass->d_beta[t] = pass->v_dv[t] = lane_set(0);
    }
    for (size_t t = 0; t < pass->count; t++)
        pass->factor[t] = pass->inverse[t] = 1;
    if (is_scalar) {
        memcpy(pass->factor, pass->track.factors, pass->count * sizeof(real));
        memcpy(pass->inverse, pass->track.inverses, pass->count * sizeof(real));
    }
}

static void gather_segment(head_pass *pass) {
    const recurrence_plan *plan = pass->plan;
    const rows *read = pass->in[READ_KEY].elements ? &pass->in[READ_KEY] : &pass->in[K];

    track_decay(&pass->track, plan, &pass->in[DECAY], pass->first, pass->count, pass->track_space);
    const size_t end = (pass->count - 1) * pass->track.width;
    const real *factors = pass->track.width > 1 ? pass->track.factors : NULL;
    const real *inverses = pass->track.width > 1 ? pass->track.inverses : NULL;
    memcpy(pass->last, pass->track.width > 0 ? spread(pass, pass->track.factors + end) : pass->ones,
           pass->width * sizeof(real));
    memcpy(pass->last + pass->width, pass->track.width > 0 ? spread(pass, pass->track.inverses + end) : pass->ones,
           pass->width * sizeof(real));
    gather_factors(pass);
    pass->row[ROW_Q] = gather_rows(pass, &pass->in[Q], factors, ROW_Q);
    pass->row[ROW_K] = gather_rows(pass, &pass->in[K], inverses, ROW_K);
    pass->row[ROW_R] = pass->row[ROW_W] = pass->row[ROW_K];
    if (plan->delta && (pass->in[READ_KEY].elements || factors))
        pass->row[ROW_R] = gather_rows(pass, read, factors, ROW_R);
    if (pass->apart)
        pass->row[ROW_W] = gather_rows(pass, &pass->in[WRITE_KEY], inverses, ROW_W);
    pass->joined = !factors && !pass->apart && !pass->in[READ_KEY].elements;
    pass->sum[ROW_Q] = place_sums(pass, ROW_Q, factors ? NULL : &pass->gradient[Q]);
    pass->sum[ROW_K] = place_sums(pass, ROW_K, NULL);
    pass->sum[ROW_R] = place_sums(pass, ROW_R, pass->joined ? &pass->gradient[K] : NULL);
    pass->sum[ROW_W] = place_sums(pass, ROW_W, NULL);
    gather_dots(pass);
    memset(pass->restarts, 0, (SEGMENT + 1) * pass->width * sizeof(real));
}

/* Lists the rows to be requested: those that this segment writes, and those that the next one to be processed reads.
 * That is the segment before this one, or the last one of the next item. */
static void look_ahead(head_pass *pass, size_t item) {
    const recurrence_plan *plan = pass->plan;
    const bool is_first = pass->first == 0;
    const size_t next = is_first && item + 1 < plan->items ? item + 1 : item;
    const size_t first = is_first ? (plan->tokens - 1) / SEGMENT * SEGMENT : pass->first - SEGMENT;
    const size_t count = is_first ? plan->tokens - first : SEGMENT;
    const rows d_out = rows_of(plan, &plan->d_out, next), reads = rows_of(plan, &plan->reads, next);
    const rows state = rows_of(plan, is_first ? &plan->final : &plan->states, next);

    pass->soon.count = 0;
    for (int i = Q; i < STATE; i++) {
        const rows in = rows_of(plan, &plan->input[i], next);
        if (i == BETA || (i == DECAY && !plan->by_channel))
            continue;
        add_ahead(&pass->soon, &in, first, count, i == V ? plan->n : plan->m);
        add_ahead(&pass->soon, &pass->gradient[i], pass->first, pass->count, i == V ? plan->n : plan->m);
    }
    add_ahead(&pass->soon, &d_out, first, count, plan->n);
    add_ahead(&pass->soon, &reads, first, count, plan->n);
    add_ahead(&pass->soon, &state, is_first ? 0 : pass->first / SEGMENT * plan->m, plan->m, plan->n);
}

/* ---- Gradients of tokens ---- */

/* Computes the running sums of the decays' gradients of one stretch, by channel; they replace the rows of q. All rows
 * and sums are packed. */
static void channel_decays(const head_pass *pass, size_t index, size_t chunk) {
    const size_t width = pass->width, kinds = pass->apart ? 4 : pass->plan->delta ? 3 : 2;
    const stretch *whole = &pass->track.of[index];
    lane next = load_lane(pass->restarts + (index + 1) * width + chunk * LANE_COUNT);

    for (size_t t = whole[1].first; t-- > whole->first;) {
        const size_t at = t * width + chunk * LANE_COUNT;
        lane term = lane_multiply(load_lane(pass->packed + at), load_lane(pass->sums + at));
        for (size_t kind = 1; kind < kinds; kind++) {
            const size_t from = kind * SEGMENT * width + at;
            term = lane_add(term, lane_multiply(load_lane(pass->packed + from), load_lane(pass->sums + from)));
        }
        next = lane_add(next, term);
        memcpy(pass->packed + at, &next, sizeof next);
    }
    if (whole->has_entry)
        memcpy(pass->packed + whole->first * width + chunk * LANE_COUNT,
               pass->restarts + index * width + chunk * LANE_COUNT, sizeof next);
}

/* Returns the sum over the vectors of channels of one restart. */
static lane restart_sum(const head_pass *pass, size_t index) {
    const real *row = pass->restarts + index * pass->width;
    lane sum = load_lane(row);
    for (size_t c = 1; c < pass->chunks; c++)
        sum = lane_add(sum, load_lane(row + c * LANE_COUNT));
    return sum;
}

/* Computes the running sums of one stretch, of one decay for all channels, in lanes. */
static void token_decays(const head_pass *pass, size_t index, lane *sums) {
    const stretch *whole = &pass->track.of[index];
    lane next = restart_sum(pass, index + 1);

    for (size_t t = whole[1].first; t-- > whole->first;) {
        const real *q = pass->row[ROW_Q].elements + t * pass->row[ROW_Q].row;
        const real *d_q = pass->sum[ROW_Q].elements + t * pass->sum[ROW_Q].row;
        lane term = lane_multiply(load_lane(q), load_lane(d_q));
        for (size_t c = LANE_COUNT; c < pass->width; c += LANE_COUNT)
            term = lane_add(term, lane_multiply(load_lane(q + c), load_lane(d_q + c)));
        next = lane_add(next, lane_fma(lane_set(-1), pass->v_dv[t], term));
        sums[t] = next;
    }
    if (whole->has_entry)
        sums[whole->first] = restart_sum(pass, index);
}

/* Stores one number for each token of the segment, the sum of its lanes. */
static void store_sums(const head_pass *pass, const rows *to, const lane *sums) {
    for (size_t t = 0; t < pass->count; t += LANE_COUNT) {
        const size_t left = pass->count - t < LANE_COUNT ? pass->count - t : LANE_COUNT;
        lane waiting[LANE_COUNT], result;
        for (size_t i = 0; i < LANE_COUNT; i++)
            waiting[i] = i < left ? sums[t + i] : lane_set(0);
        result = fold_lanes(waiting);
        for (size_t i = 0; i < left; i++)
            to->elements[(pass->first + t + i) * to->row] = lane_elements(&result)[i];
    }
}

static void store_decays(head_pass *pass) {
    const rows *to = &pass->gradient[DECAY];
    lane sums[SEGMENT];

    if (pass->track.width == 1) {
        for (size_t i = pass->track.count; i-- > 0;)
            token_decays(pass, i, sums);
        store_sums(pass, to, sums);
        return;
    }
    for (size_t c = 0; c < pass->chunks; c++)
        for (size_t i = pass->track.count; i-- > 0;)
            channel_decays(pass, i, c);
    for (size_t t = 0; t < pass->count; t++)
        store_row(to, pass->first + t, 0, pass->plan->m, pass->packed + t * pass->width);
}

/* Stores the gradients of one input, unless they are there already: its sums times `sign` and factors by channel, if
 * given, plus `other`, if given, times its own. */
static void store_kind(const head_pass *pass, int input, int kind, const real *factors, real sign, const real *other,
                       const real *other_factors) {
    const rows to = pass->gradient[input];
    const real *sums = pass->sums + (size_t)kind * SEGMENT * pass->width;
    const size_t width = pass->width, count = to.elements && pass->sum[kind].elements == sums ? pass->count : 0;

    for (size_t t = 0; t < count; t++)
        for (size_t c = 0; c < pass->chunks; c++) {
            const size_t at = t * width + c * LANE_COUNT;
            lane row = lane_multiply(lane_set(sign), load_lane(sums + at));
            if (factors)
                row = lane_multiply(load_lane(factors + at), row);
            if (other)
                row = lane_fma(other_factors ? load_lane(other_factors + at) : lane_set(1), load_lane(other + at), row);
            store_chunk(&to, pass->first + t, c * LANE_COUNT, pass->plan->m, row);
        }
}

static void store_segment(head_pass *pass) {
    const real *factors = pass->track.width > 1 ? pass->track.factors : NULL;
    const real *inverses = pass->track.width > 1 ? pass->track.inverses : NULL;
    const real *reads = pass->plan->delta ? pass->sums + ROW_R * SEGMENT * pass->width : NULL;
    const bool has_read_key = pass->plan->delta && pass->in[READ_KEY].elements;

    if (pass->gradient[DECAY].elements)
        store_decays(pass);
    store_kind(pass, Q, ROW_Q, factors, 1, NULL, NULL);
    if (pass->joined)
        store_kind(pass, K, ROW_R, NULL, 1, NULL, NULL);
    else
        store_kind(pass, K, ROW_K, inverses, -1, has_read_key ? NULL : reads, factors);
    if (has_read_key)
        store_kind(pass, READ_KEY, ROW_R, factors, 1, NULL, NULL);
    if (pass->apart)
        store_kind(pass, WRITE_KEY, ROW_W, inverses, -1, NULL, NULL);
    if (pass->gradient[BETA].elements)
        store_sums(pass, &pass->gradient[BETA], pass->d_beta);
}

/* ---- All of it ---- */

static void set_block(head_pass *pass, size_t value) {
    const size_t left = pass->plan->n - value;
    pass->value = value;
    pass->values = left < pass->block ? left : pass->block;
    pass->groups = padded(pass->values) / LANE_COUNT;
}

static void begin(head_pass *pass, const recurrence_plan *plan, size_t item, void *workspace) {
    pass->plan = plan;
    pass->width = padded(plan->m);
    pass->block = block_of(plan);
    pass->chunks = pass->width / LANE_COUNT;
    pass->track.factors = pass->track.inverses = NULL;
    for (int i = 0; i < INPUTS; i++) {
        pass->in[i] = rows_of(plan, &plan->input[i], item);
        pass->gradient[i] = rows_of(plan, &plan->gradient[i], item);
    }
    pass->apart = pass->in[WRITE_KEY].elements;
    pass->run = pair_for(pass);
    pass->d_out = rows_of(plan, &plan->d_out, item);
    pass->d_final = rows_of(plan, &plan->d_final, item);
    pass->final = rows_of(plan, &plan->final, item);
    pass->reads = rows_of(plan, &plan->reads, item);
    pass->states = rows_of(plan, &plan->states, item);
    divide(pass, workspace);
    memset(pass->nothing, 0, pass->width * sizeof(real));
    memset(pass->unused, 0, pass->width * sizeof(real));
    for (size_t i = 0; i < pass->width; i++)
        pass->ones[i] = 1;
}

void KERNEL(recurrence_backward)(const recurrence_plan *plan, size_t item, void *workspace) {
    const rows *d_state;
    head_pass pass;

    begin(&pass, plan, item, workspace);
    d_state = &pass.gradient[STATE];
    for (size_t value = 0; value < plan->n; value += pass.block) {
        set_block(&pass, value);
        if (pass.d_final.elements)
            load_state(&pass, pass.gradients + value * pass.chunks, &pass.d_final, 0, pass.ones);
        else
            memset(pass.gradients + value * pass.chunks, 0, pass.groups * LANE_COUNT * pass.width * sizeof(real));
    }
    for (size_t end = plan->tokens; end > 0; end = pass.first) {
        pass.first = (end - 1) / SEGMENT * SEGMENT;
        pass.count = end - pass.first;
        gather_segment(&pass);
        look_ahead(&pass, item);
        for (size_t value = 0; value < plan->n; value += pass.block) {
            set_block(&pass, value);
            run_block(&pass);
        }
        store_segment(&pass);
    }
    for (size_t i = 0; d_state->elements && i < plan->m; i++)
        for (size_t j = 0; j < plan->n; j++)
            d_state->elements[i * d_state->row + j * d_state->column] =
                ((const real *)(const void *)pass.gradients)[j * pass.width + i];
}
