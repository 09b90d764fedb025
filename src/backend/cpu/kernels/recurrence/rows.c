/*
 * Outputs from the other side, o_t = scale S_t q_t, of one segment of a batch and head, from the state before it and
 * the reads p_t, which the usual forward pass has left. With p known a row of the state meets no other row:
 *
 *     s = f_ti s + k_ti u_t + w_ti x_t,   o_ti = scale s . q_t
 *
 * f = exp(decay); u = beta (v - p), or u = -beta p and x = beta v with a written key of its own. A few rows go through
 * all tokens of the segment, and the lanes of their products are added up for several tokens at once. Cost of a token:
 * 4 m n operations, m n more with decay and 2 m n with a written key.
 */
#include "backend/cpu/kernels/parts.h"
#include "backend/cpu/kernels/recurrence/segment.h"

#define ROWS 4 /* of the state at once: their sums do not wait for each other */

enum { Q = ICL_RECURRENCE_Q, K, V, BETA, DECAY, READ_KEY, WRITE_KEY };

/* The rows of a segment's tokens, without gaps and with zeros up to whole vectors. */
typedef struct tokens {
    size_t first, count, chunks; /* chunks: vectors of n numbers */
    lane *q, *u, *x, *state;     /* [SEGMENT][chunks], x only with a written key; [ROWS][chunks] */
    real *k, *w;                 /* [SEGMENT][m] */
    real *factors;               /* [SEGMENT][m], or [SEGMENT] */
    size_t factor_row;           /* m; 1: one factor for all rows; 0: no decay */
} tokens;

static tokens divide(const recurrence_plan *plan, void *memory) {
    const size_t chunks = padded(plan->n) / LANE_COUNT, keys = SEGMENT * padded(plan->m);
    tokens all = {.chunks = chunks, .q = memory};

    all.u = all.q + SEGMENT * chunks;
    all.x = all.u + SEGMENT * chunks;
    all.state = all.x + SEGMENT * chunks;
    all.k = (real *)(all.state + ROWS * chunks);
    all.w = all.k + keys;
    all.factors = all.w + keys;
    all.factor_row = !plan->input[DECAY].elements ? 0 : plan->by_channel ? plan->m : 1;
    return all;
}

size_t KERNEL(recurrence_rows_workspace)(const recurrence_plan *plan) {
    return ((3 * SEGMENT + ROWS) * padded(plan->n) + 3 * SEGMENT * padded(plan->m)) * sizeof(real);
}

/* Sets u, and x with a written key, of token t of the segment. */
static void load_written(const tokens *all, const recurrence_plan *plan, size_t item, size_t t) {
    const rows v = rows_of(plan, &plan->input[V], item), reads = rows_of(plan, &plan->reads, item);
    const rows beta = rows_of(plan, &plan->input[BETA], item);
    const real strength = beta.elements ? beta.elements[(all->first + t) * beta.row] : 1;
    const bool apart = plan->input[WRITE_KEY].elements;
    lane *u = all->u + t * all->chunks, *x = all->x + t * all->chunks;

    for (size_t c = 0; c < all->chunks; c++) {
        const lane value = load_chunk(&v, all->first + t, c * LANE_COUNT, plan->n);
        const lane read = plan->delta ? load_chunk(&reads, all->first + t, c * LANE_COUNT, plan->n) : lane_set(0);
        u[c] = lane_multiply(lane_set(strength), lane_fma(lane_set(-1), read, apart ? lane_set(0) : value));
        x[c] = lane_multiply(lane_set(strength), value);
    }
}

static void load_tokens(const tokens *all, const recurrence_plan *plan, size_t item) {
    const rows q = rows_of(plan, &plan->input[Q], item), k = rows_of(plan, &plan->input[K], item);
    const rows w = rows_of(plan, &plan->input[WRITE_KEY], item), decay = rows_of(plan, &plan->input[DECAY], item);
    const size_t m = plan->m;

    for (size_t t = 0; t < all->count; t++) {
        load_row((real *)(all->q + t * all->chunks), &q, all->first + t, 0, plan->n, all->chunks * LANE_COUNT);
        load_row(all->k + t * m, &k, all->first + t, 0, m, m);
        if (w.elements)
            load_row(all->w + t * m, &w, all->first + t, 0, m, m);
        if (decay.elements)
            load_row(all->factors + t * all->factor_row, &decay, all->first + t, 0, all->factor_row, all->factor_row);
        load_written(all, plan, item, t);
    }
    exponentials(all->factors, all->count * all->factor_row);
}

/* Runs rows [i, i + ROWS) of the state, of which there are `count`, through the tokens, one vector of columns after the
 * other, and sets products [ROWS][SEGMENT] to the lanes of s . q_t. Rows that are not there repeat the last one. */
ALWAYS_INLINE void run_rows(const tokens *all, size_t m, size_t i, size_t count, lane *products, const bool decays,
                            const bool apart) {
    size_t row[ROWS], factor[ROWS];

    for (size_t r = 0; r < ROWS; r++) {
        row[r] = i + (r < count ? r : count - 1);
        factor[r] = all->factor_row > 1 ? row[r] : 0;
    }
    for (size_t r = 0; r < ROWS; r++)
        for (size_t t = all->count; t < SEGMENT; t++)
            products[r * SEGMENT + t] = lane_set(0);
    for (size_t c = 0; c < all->chunks; c++) {
        lane s[ROWS];
        UNROLL for (size_t r = 0; r < ROWS; r++) s[r] = all->state[r * all->chunks + c];
        for (size_t t = 0; t < all->count; t++) {
            const lane q = all->q[t * all->chunks + c], u = all->u[t * all->chunks + c];
            const lane x = apart ? all->x[t * all->chunks + c] : u;
            UNROLL for (size_t r = 0; r < ROWS; r++) {
                if (decays)
                    s[r] = lane_multiply(lane_set(all->factors[t * all->factor_row + factor[r]]), s[r]);
                s[r] = lane_fma(lane_set(all->k[t * m + row[r]]), u, s[r]);
                if (apart)
                    s[r] = lane_fma(lane_set(all->w[t * m + row[r]]), x, s[r]);
                products[r * SEGMENT + t] = lane_fma(s[r], q, c > 0 ? products[r * SEGMENT + t] : lane_set(0));
            }
        }
    }
}

/* Adds up the lanes of one row's products, and writes its outputs. */
static void write_row(const tokens *all, const rows *out, size_t i, real scale, const lane *products) {
    for (size_t t = 0; t < all->count; t += LANE_COUNT) {
        lane sums = fold_lanes(products + t);
        for (size_t l = 0; l < LANE_COUNT && t + l < all->count; l++)
            out->elements[(all->first + t + l) * out->row + i * out->column] = scale * lane_elements(&sums)[l];
    }
}

void KERNEL(recurrence_rows)(const recurrence_plan *plan, size_t item, size_t segment, void *workspace) {
    const rows states = rows_of(plan, &plan->states, item), out = rows_of(plan, &plan->out, item);
    const size_t m = plan->m, left = plan->tokens - segment * SEGMENT;
    const bool apart = plan->input[WRITE_KEY].elements;
    tokens all = divide(plan, workspace);

    all.first = segment * SEGMENT;
    all.count = left < SEGMENT ? left : SEGMENT;
    load_tokens(&all, plan, item);
    for (size_t i = 0; i < m; i += ROWS) {
        const size_t count = m - i < ROWS ? m - i : ROWS;
        lane products[ROWS * SEGMENT];
        for (size_t r = 0; r < ROWS; r++)
            load_row((real *)(all.state + r * all.chunks), &states, segment * m + i + (r < count ? r : 0), 0, plan->n,
                     all.chunks * LANE_COUNT);
        if (apart)
            run_rows(&all, m, i, count, products, all.factor_row > 0, true);
        else if (all.factor_row > 0)
            run_rows(&all, m, i, count, products, true, false);
        else
            run_rows(&all, m, i, count, products, false, false);
        for (size_t r = 0; r < count; r++)
            write_row(&all, &out, i + r, plan->scale, products + r * SEGMENT);
    }
}
