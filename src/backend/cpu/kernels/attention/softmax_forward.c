/*
 * Softmax attention forward, a block of queries at a time: the algorithm of cl/attention/attention_softmax.cl.
 *
 * One pass over the keys, TILE at a time, with a running maximum and rescaled sums (Milakov and Gimelshein, "Online
 * normalizer calculation for softmax", 2018): out_i = sum_j p_ij v_j, p_ij = exp(s_ij - log_sum_exp_i),
 * s_ij = scale q_i . k_j.
 *
 * Lanes are the block's queries. Packed rows of BLOCK lanes, one for each coordinate of a query and of its sum and one
 * for each key of a tile, are all the memory it takes. 2 (d + e) flops a pair, and an exponential.
 *
 * Sums are in order of keys for each lane alone, so that a result depends on neither the threads nor the
 * block it falls into; with lane_fma it depends on the instruction set, see lanes.h.
 */
#include "arithmetic/exponential.h"
#include "backend/cpu/kernels/attention/softmax_products.h"

#define TILE 64 /* keys that share one rescaling and one pass over the sums */

/* A block of queries on its way through the keys. Lane l attends to the current tile's first `seen` keys. */
typedef struct softmax_state {
    size_t vectors;
    real seen[BLOCK], maximum[BLOCK], total[BLOCK];
    lane keep[VECTORS]; /* what the sums so far are to be multiplied with */
} softmax_state;

/* A tile of scores becomes weights relative to the new maximum. masked: some lane does not attend to
 * all of the tile. */
ALWAYS_INLINE void weigh(softmax_state *state, real *tile, size_t length, real scale, const bool masked) {
    const size_t lanes = state->vectors * LANE_COUNT;
    real higher[BLOCK], total[BLOCK];
    real *keep = lane_elements(state->keep);

    memcpy(higher, state->maximum, sizeof higher);
    for (size_t t = 0; t < length; t++) {
        real *score = tile + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < lanes; l++) {
            const real value = scale * score[l];
            const real seen = !masked || (real)t < state->seen[l] ? value : -REAL_MAX;
            higher[l] = seen > higher[l] ? seen : higher[l];
            score[l] = value;
        }
    }
    INDEPENDENT for (size_t l = 0; l < lanes; l++) {
        keep[l] = weight_exponential(state->maximum[l] - higher[l], false);
        total[l] = keep[l] * state->total[l];
    }
    for (size_t t = 0; t < length; t++) {
        real *score = tile + t * BLOCK;
        INDEPENDENT for (size_t l = 0; l < lanes; l++) {
            const real weight = weight_exponential(score[l] - higher[l], false);
            score[l] = !masked || (real)t < state->seen[l] ? weight : 0;
            total[l] += score[l];
        }
    }
    memcpy(state->maximum, higher, sizeof higher);
    memcpy(state->total, total, sizeof total);
}

static void weigh_tile(softmax_state *state, real *tile, size_t length, real scale, bool masked) {
    if (masked)
        weigh(state, tile, length, scale, true);
    else
        weigh(state, tile, length, scale, false);
}

/* out and log_sum_exp of `count` queries from what their lanes hold after the last key. */
static void store_queries(const plan *p, place at, size_t first, size_t count, const softmax_state *state, lane *sums) {
    const matrix out = query_rows(&p->out, at, first), lse = query_rows(&p->log_sum_exp, at, first);
    real reach[BLOCK];

    for (size_t l = 0; l < BLOCK; l++)
        reach[l] = (real)reach_of(p, first + smaller(l, count - 1));
    for (size_t c = 0; c < p->e; c++) {
        real *sum = lane_elements(sums + c * VECTORS);
        INDEPENDENT for (size_t l = 0; l < state->vectors * LANE_COUNT; l++) {
            const real average = sum[l] / state->total[l];
            sum[l] = reach[l] > 0 ? average : 0;
        }
    }
    store_lanes(sums, 1, out, count, p->e);
    for (size_t l = 0; l < count; l++)
        lse.elements[l * lse.row] = reach[l] > 0 ? state->maximum[l] + REAL_LOG(state->total[l]) : -(real)INFINITY;
}

void KERNEL(softmax_forward)(const plan *p, place at, size_t first, void *workspace) {
    const size_t count = smaller(p->queries - first, BLOCK), end = reach_of(p, first + count - 1);
    lane *q = workspace, *sums = q + p->d * VECTORS, *tile = sums + padded(p->e) * VECTORS;
    softmax_state state = {.vectors = vectors_for(count)};

    pack_lanes(q, query_rows(&p->q, at, first), count, state.vectors, p->d);
    clear_lanes(sums, padded(p->e));
    for (size_t l = 0; l < BLOCK; l++)
        state.maximum[l] = -REAL_MAX;
    for (size_t j = 0; j < end; j += TILE) {
        const size_t length = smaller(TILE, end - j);
        for (size_t l = 0; l < BLOCK; l++)
            state.seen[l] = (real)below(smaller(reach_of(p, first + l), end), j, length);
        multiply_tile(tile, key_rows_of(&p->k, at, j), length, p->d, q, state.vectors);
        weigh_tile(&state, lane_elements(tile), length, p->scale, reach_of(p, first) < j + length);
        add_tile(sums, state.keep, key_rows_of(&p->v, at, j), length, p->e, tile, state.vectors);
    }
    store_queries(p, at, first, count, &state, sums);
}

size_t KERNEL(softmax_forward_workspace)(const plan *p) {
    return (p->d + padded(p->e) + TILE) * BLOCK * sizeof(real);
}
