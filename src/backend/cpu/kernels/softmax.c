/*
 * Softmax attention, a block of queries or of keys at a time: the algorithm of cl/attention_softmax.cl.
 *
 * Forward: one pass over the keys, TILE at a time, with a running maximum and rescaled sums (Milakov and Gimelshein, "Online
 * normalizer calculation for softmax", 2018): out_i = sum_j p_ij v_j, p_ij = exp(s_ij - log_sum_exp_i), s_ij = scale q_i . k_j.
 * Backward, with G the gradient of out and D_i = G_i . out_i, in two passes, one that owns queries and one that owns keys:
 *     dv_j = sum_i p_ij G_i,  t_ij = p_ij (G_i . v_j - D_i),  dq_i = scale sum_j t_ij k_j,  dk_j = scale sum_i t_ij q_i.
 *
 * Lanes are the block's queries (in the last pass its keys), VECTORS vectors of them. All products have one form, add_products:
 * GROUP strided elements of a matrix, each times the vectors of one packed row, into sums that stay in registers. Packed rows
 * of BLOCK lanes, one for each coordinate of the lanes' vectors and of their sums and one for each key of a tile, are all the
 * memory it takes. 4 (d + e) flops a pair forward, 8 d + 6 e backward.
 *
 * Sums are in order of keys, or queries, for each lane alone, so that a result depends on neither the threads nor the
 * block it falls into; with lane_fma it depends on the instruction set, see lanes.h.
 */
#include "backend/cpu/kernels/exponential.h"
#include "backend/cpu/kernels/softmax_lanes.h"

#define TILE 32 /* keys (or queries) that share one rescaling and one pass over the sums */
#if VECTOR_BYTES == 64
#define GROUP                                                                                                \
    8 /* GROUP * VECTORS sums, VECTORS factors and an element fit in the registers: 32 here, 16 otherwise */
#else
#define GROUP 4
#endif

static size_t padded(size_t width) {
    return (width + GROUP - 1) / GROUP * GROUP;
}

/* ---- Products ---- */

/* sum[g][v] += sum over i < count, in order, of from[i * step + at[g]] * x[i][v] */
ALWAYS_INLINE void add_products(lane sum[GROUP][VECTORS], const real *from, size_t step,
                                const size_t at[GROUP], const lane *x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const lane x0 = x[0], x1 = x[1];
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            const lane element = lane_set(from[at[g]]);
            sum[g][0] = lane_fma(element, x0, sum[g][0]);
            sum[g][1] = lane_fma(element, x1, sum[g][1]);
        }
        from += step;
        x += VECTORS;
    }
}

/* tile [length] = the dot products of `length` > 0 rows of a matrix with the lanes' vectors, packed as x [width]. Writes up to a
 * multiple of GROUP. */
static void multiply_tile(lane *tile, matrix from, size_t length, size_t width, const lane *x) {
    for (size_t t = 0; t < length; t += GROUP) {
        lane sum[GROUP][VECTORS];
        size_t at[GROUP];
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            at[g] = smaller(t + g, length - 1) * from.row;
            sum[g][0] = lane_set(0);
            sum[g][1] = lane_set(0);
        }
        add_products(sum, from.elements, from.column, at, x, width);
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            tile[(t + g) * VECTORS] = sum[g][0];
            tile[(t + g) * VECTORS + 1] = sum[g][1];
        }
    }
}

/* sums [width] = keep * sums + sum over rows t < length of a matrix of its `width` columns times weights [t]. Touches sums up to
 * a multiple of GROUP. */
static void add_tile(lane *sums, const lane keep[VECTORS], matrix from, size_t length, size_t width,
                     const lane *weights) {
    for (size_t c = 0; c < width; c += GROUP) {
        lane sum[GROUP][VECTORS], *to = sums + c * VECTORS;
        size_t at[GROUP];
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            at[g] = smaller(c + g, width - 1) * from.column;
            sum[g][0] = lane_multiply(keep[0], to[g * VECTORS]);
            sum[g][1] = lane_multiply(keep[1], to[g * VECTORS + 1]);
        }
        add_products(sum, from.elements, from.row, at, weights, length);
        UNROLL for (size_t g = 0; g < GROUP; g++) {
            to[g * VECTORS] = sum[g][0];
            to[g * VECTORS + 1] = sum[g][1];
        }
    }
}

/* ---- Lanes ---- */

static void clear_lanes(lane *to, size_t width) {
    memset(to, 0, width * VECTORS * sizeof *to);
}

/* How many of `length` things from `first` on lie below `limit`, as a number to compare lanes with. */
static real below(size_t limit, size_t first, size_t length) {
    return (real)(limit > first ? smaller(limit - first, length) : 0);
}

/* ---- Forward ---- */

/* A block of queries on its way through the keys. Lane l attends to the current tile's first `seen` keys. */
typedef struct softmax_state {
    real seen[BLOCK], maximum[BLOCK], total[BLOCK];
    lane keep[VECTORS]; /* what the sums so far are to be multiplied with */
} softmax_state;

/* A tile of scores becomes weights relative to the new maximum. */
static void weigh_tile(softmax_state *state, real *tile, size_t length, real scale) {
    real higher[BLOCK], total[BLOCK];
    real *keep = lane_elements(state->keep);

    memcpy(higher, state->maximum, sizeof higher);
    for (size_t t = 0; t < length; t++) {
        real *score = tile + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < BLOCK; l++) {
            const real value = scale * score[l];
            const real seen = (real)t < state->seen[l] ? value : higher[l];
            higher[l] = seen > higher[l] ? seen : higher[l];
            score[l] = value;
        }
    }
    INDEPENDENT for (size_t l = 0; l < BLOCK; l++) {
        keep[l] = weight_exponential(state->maximum[l] - higher[l], false);
        total[l] = keep[l] * state->total[l];
    }
    for (size_t t = 0; t < length; t++) {
        real *score = tile + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < BLOCK; l++) {
            const real weight = weight_exponential(score[l] - higher[l], false);
            score[l] = (real)t < state->seen[l] ? weight : 0;
            total[l] += score[l];
        }
    }
    memcpy(state->maximum, higher, sizeof higher);
    memcpy(state->total, total, sizeof total);
}

void KERNEL(softmax_forward)(const plan *p, size_t sequence, size_t first, void *workspace) {
    const size_t count = smaller(p->queries - first, BLOCK), end = reach_of(p, first + count - 1);
    const matrix out = rows_of(&p->out, sequence, first), lse = rows_of(&p->log_sum_exp, sequence, first);
    lane *q = workspace, *sums = q + p->d * VECTORS, *tile = sums + padded(p->e) * VECTORS;
    softmax_state state;

    pack_lanes(q, rows_of(&p->q, sequence, first), count, p->d);
    clear_lanes(sums, padded(p->e));
    for (size_t l = 0; l < BLOCK; l++) {
        state.maximum[l] = -REAL_MAX;
        state.total[l] = 0;
    }
    for (size_t j = 0; j < end; j += TILE) {
        const size_t length = smaller(TILE, end - j);
        for (size_t l = 0; l < BLOCK; l++)
            state.seen[l] = below(smaller(reach_of(p, first + l), end), j, length);
        multiply_tile(tile, rows_of(&p->k, sequence, j), length, p->d, q);
        weigh_tile(&state, lane_elements(tile), length, p->scale);
        add_tile(sums, state.keep, rows_of(&p->v, sequence, j), length, p->e, tile);
    }
    for (size_t l = 0; l < count; l++) {
        const bool any = reach_of(p, first + l) > 0;
        const real *lanes = lane_elements(sums) + l;
        for (size_t c = 0; c < p->e; c++)
            out.elements[l * out.row + c * out.column] = any ? lanes[c * BLOCK] / state.total[l] : 0;
        lse.elements[l * lse.row] = any ? state.maximum[l] + REAL_LOG(state.total[l]) : -(real)INFINITY;
    }
}

/* ---- Backward ---- */

static const lane *ones(lane one[VECTORS]) {
    for (size_t n = 0; n < VECTORS; n++)
        one[n] = lane_set(1);
    return one;
}

/* What the pass over queries keeps of each lane: log_sum_exp, D, and how many keys of the current tile it attends to. */
typedef struct query_state {
    real seen[BLOCK], log_sum_exp[BLOCK], row_term[BLOCK];
} query_state;

static void start_queries(const plan *p, size_t sequence, size_t first, size_t count, query_state *state) {
    const matrix lse = rows_of(&p->log_sum_exp, sequence, first);
    const matrix g = rows_of(&p->d_out, sequence, first), out = rows_of(&p->out, sequence, first);
    for (size_t l = 0; l < BLOCK; l++) {
        const size_t row = smaller(l, count - 1);
        real term = 0;
        for (size_t c = 0; c < p->e && l < count; c++)
            term += g.elements[row * g.row + c * g.column] * out.elements[row * out.row + c * out.column];
        state->log_sum_exp[l] = lse.elements[row * lse.row];
        state->row_term[l] = term;
        if (l < count)
            p->row_terms[sequence * p->queries + first + l] = term;
    }
}

/* score [length] becomes t, of weights that are never kept; gain holds G_i . v_j. */
static void slope_tile(const query_state *state, real *tile, const real *gains, size_t length, real scale) {
    for (size_t t = 0; t < length; t++) {
        real *score = tile + t * BLOCK;
        const real *gain = gains + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < BLOCK; l++) {
            const real weight = weight_exponential(REAL_FMA(scale, score[l], -state->log_sum_exp[l]), true);
            const real slope = weight * (gain[l] - state->row_term[l]);
            score[l] = (real)t < state->seen[l] ? slope : 0;
        }
    }
}

void KERNEL(softmax_backward_queries)(const plan *p, size_t sequence, size_t first, void *workspace) {
    const size_t count = smaller(p->queries - first, BLOCK), end = reach_of(p, first + count - 1);
    lane *q = workspace, *g = q + p->d * VECTORS, *sums = g + p->e * VECTORS;
    lane *tile = sums + padded(p->d) * VECTORS, *gains = tile + TILE * VECTORS, one[VECTORS];
    query_state state;

    pack_lanes(q, rows_of(&p->q, sequence, first), count, p->d);
    pack_lanes(g, rows_of(&p->d_out, sequence, first), count, p->e);
    clear_lanes(sums, padded(p->d));
    start_queries(p, sequence, first, count, &state);
    for (size_t j = 0; j < end; j += TILE) {
        const size_t length = smaller(TILE, end - j);
        const matrix k = rows_of(&p->k, sequence, j);
        for (size_t l = 0; l < BLOCK; l++)
            state.seen[l] = below(smaller(reach_of(p, first + l), end), j, length);
        multiply_tile(tile, k, length, p->d, q);
        multiply_tile(gains, rows_of(&p->v, sequence, j), length, p->e, g);
        slope_tile(&state, lane_elements(tile), lane_elements(gains), length, p->scale);
        add_tile(sums, ones(one), k, length, p->d, tile);
    }
    store_lanes(sums, p->scale, rows_of(&p->d_q, sequence, first), count, p->d);
}

/* Scores become weights, and gains become t, of keys in lanes and `length` queries from `row` on. Query t sees the lanes below
 * seen[t]. */
static void weigh_queries(const plan *p, size_t sequence, size_t row, const real seen[TILE], real *weights,
                          real *gains, size_t length) {
    const matrix lse = rows_of(&p->log_sum_exp, sequence, row);
    real number[BLOCK];

    for (size_t l = 0; l < BLOCK; l++)
        number[l] = (real)l;
    for (size_t t = 0; t < length; t++) {
        const real log_sum_exp = lse.elements[t * lse.row], limit = seen[t];
        const real row_term = p->row_terms[sequence * p->queries + row + t];
        real *score = weights + t * BLOCK, *gain = gains + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < BLOCK; l++) {
            const real weight = weight_exponential(REAL_FMA(p->scale, score[l], -log_sum_exp), true);
            const real slope = weight * (gain[l] - row_term);
            score[l] = number[l] < limit ? weight : 0;
            gain[l] = number[l] < limit ? slope : 0;
        }
    }
}

void KERNEL(softmax_backward_keys)(const plan *p, size_t sequence, size_t first, void *workspace) {
    const size_t count = smaller(p->keys - first, BLOCK), d = p->d, e = p->e;
    lane *k = workspace, *v = k + d * VECTORS, *sums_k = v + e * VECTORS;
    lane *sums_v = sums_k + padded(d) * VECTORS, *weights = sums_v + padded(e) * VECTORS;
    lane *slopes = weights + TILE * VECTORS, one[VECTORS];
    /* The first query that attends to the block's first key; none where nothing attends to it. */
    const size_t unmasked = first + 1 + p->queries > p->reach ? first + 1 + p->queries - p->reach : 0;
    const size_t start = first < p->sources ? unmasked : p->queries;
    real seen[TILE];

    pack_lanes(k, rows_of(&p->k, sequence, first), count, d);
    pack_lanes(v, rows_of(&p->v, sequence, first), count, e);
    clear_lanes(sums_k, padded(d) + padded(e));
    for (size_t i = start; i < p->queries; i += TILE) {
        const size_t length = smaller(TILE, p->queries - i);
        const matrix q = rows_of(&p->q, sequence, i), g = rows_of(&p->d_out, sequence, i);
        for (size_t t = 0; t < length; t++)
            seen[t] = below(reach_of(p, i + t), first, BLOCK);
        multiply_tile(weights, q, length, d, k);
        multiply_tile(slopes, g, length, e, v);
        weigh_queries(p, sequence, i, seen, lane_elements(weights), lane_elements(slopes), length);
        add_tile(sums_v, ones(one), g, length, e, weights);
        add_tile(sums_k, ones(one), q, length, d, slopes);
    }
    store_lanes(sums_k, p->scale, rows_of(&p->d_k, sequence, first), count, d);
    store_lanes(sums_v, 1, rows_of(&p->d_v, sequence, first), count, e);
}

/* Of the hungriest pass, that over keys. */
size_t KERNEL(softmax_workspace)(const plan *p) {
    return (p->d + p->e + padded(p->d) + padded(p->e) + 2 * TILE) * BLOCK * sizeof(real);
}
