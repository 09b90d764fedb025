/*
 * Recurrences forward, for a block of up to RECURRENCE_VECTORS vectors of values of one batch and head, with the
 * state's rows [m][values] in the nearest cache. Columns of the state never mix, so a result does not depend on the
 * blocks.
 *
 * Tokens are processed in pairs, so that the state passes through the registers once for two tokens. Let p_1 = r_1^T S;
 * token 2 reads p_2 = r_2^T S + (r_2 . k_1) u_1, where S is the state before token 1, and u = beta (v - p) is what
 * token 1 adds along k_1. One sweep over the rows of S adds k_1 u_1^T and k_2 u_2^T, and computes the outputs of q_1
 * and q_2 and the reads of the next pair: 6 fused multiply-adds for a load and a store. For decay see segment.h.
 */
#include "backend/cpu/kernels/parts.h"
#include "backend/cpu/kernels/recurrence/segment.h"

enum { Q = ICL_RECURRENCE_Q, K, V, BETA, DECAY, READ_KEY, WRITE_KEY, STATE };

/* One segment. Coefficients: p = read_factor (r . C), u = write_factor v + take_factor (r . C), o = out_factor (q . C).
 */
typedef struct segment {
    size_t first, count;
    token_rows q, k, r, w;
    const real *nothing; /* [m] zeros: the row of a token that is not there */
    real read_factor[SEGMENT], write_factor[SEGMENT], take_factor[SEGMENT], out_factor[SEGMENT];
    real key_dot[SEGMENT], write_dot[SEGMENT]; /* r_(t+1) . k_t, r_(t+1) . w_t, for the first token of each pair */
    decay_track track;
} segment;

/* The places of the block's values and results. */
typedef struct block {
    rows v, out, reads;
    size_t first, count, m;
    lane *state;
} block;

static const real *row_at(const token_rows *x, size_t token) {
    return x->elements + token * x->row;
}

/* Loads the vectors of one token's columns. */
ALWAYS_INLINE void load_vectors(lane *to, const rows *from, size_t row, const block *tile, const size_t vectors) {
    if (from->column == 1 && tile->count == vectors * LANE_COUNT) {
        const real *at = from->elements + row * from->row + tile->first;
        UNROLL for (size_t v = 0; v < vectors; v++) to[v] = load_lane(at + v * LANE_COUNT);
    } else {
        load_row((real *)to, from, row, tile->first, tile->count, vectors * LANE_COUNT);
    }
}

ALWAYS_INLINE void store_vectors(const rows *to, size_t row, const block *tile, const lane *from,
                                 const size_t vectors) {
    if (to->column == 1 && tile->count == vectors * LANE_COUNT) {
        real *at = to->elements + row * to->row + tile->first;
        UNROLL for (size_t v = 0; v < vectors; v++) memcpy(at + v * LANE_COUNT, &from[v], sizeof *from);
    } else {
        store_row(to, row, tile->first, tile->count, (const real *)from);
    }
}

/* The values that one token adds along its key, and along its write key if that is another one. */
typedef struct update {
    lane along_key[RECURRENCE_VECTORS], along_write[RECURRENCE_VECTORS];
} update;

/* Computes what a token adds, from read [vectors] = r . C. The read is known last, so it enters last: beta (v - p) / c
 * is one fused multiply-add, because p / c is the read. */
ALWAYS_INLINE void make_update(update *to, const lane *read, const block *tile, const segment *s, size_t t,
                               const bool delta, const bool apart, const size_t vectors) {
    lane written[RECURRENCE_VECTORS], kept[RECURRENCE_VECTORS];
    const lane write = lane_set(s->write_factor[t]), take = lane_set(s->take_factor[t]);

    load_vectors(written, &tile->v, s->first + t, tile, vectors);
    UNROLL for (size_t v = 0; v < vectors; v++) {
        written[v] = lane_multiply(write, written[v]);
        if (apart) {
            to->along_key[v] = lane_multiply(take, read[v]);
            to->along_write[v] = written[v];
        } else {
            to->along_key[v] = delta ? lane_fma(take, read[v], written[v]) : written[v];
        }
    }
    if (delta && tile->reads.elements) {
        UNROLL for (size_t v = 0; v < vectors; v++) kept[v] = lane_multiply(lane_set(s->read_factor[t]), read[v]);
        store_vectors(&tile->reads, s->first + t, tile, kept, vectors);
    }
}

/* a, b = r_0 . C, r_1 . C */
ALWAYS_INLINE void read_pair(const block *tile, const real *r0, const real *r1, lane *a, lane *b,
                             const size_t vectors) {
    lane sum[2][RECURRENCE_VECTORS];
    UNROLL for (size_t v = 0; v < vectors; v++) sum[0][v] = sum[1][v] = lane_set(0);
    for (size_t i = 0; i < tile->m; i++) {
        const lane *row = tile->state + i * vectors;
        UNROLL for (size_t v = 0; v < vectors; v++) {
            sum[0][v] = lane_fma(lane_set(r0[i]), row[v], sum[0][v]);
            sum[1][v] = lane_fma(lane_set(r1[i]), row[v], sum[1][v]);
        }
    }
    UNROLL for (size_t v = 0; v < vectors; v++) {
        a[v] = sum[0][v];
        b[v] = sum[1][v];
    }
}

/* Applies both tokens' updates, and computes their outputs and the reads of the next two. */
ALWAYS_INLINE void sweep(const block *tile, const segment *s, size_t t, bool is_pair, const update u[2],
                         lane out[2][RECURRENCE_VECTORS], const real *r2, const real *r3, lane *a, lane *b,
                         const bool delta, const bool apart, const size_t vectors) {
    const real *const q0 = row_at(&s->q, t), *const k0 = row_at(&s->k, t), *const w0 = row_at(&s->w, t);
    const real *const q1 = is_pair ? row_at(&s->q, t + 1) : s->nothing;
    const real *const k1 = is_pair ? row_at(&s->k, t + 1) : s->nothing;
    const real *const w1 = is_pair ? row_at(&s->w, t + 1) : s->nothing;
    lane o0[RECURRENCE_VECTORS], o1[RECURRENCE_VECTORS], c[RECURRENCE_VECTORS], d[RECURRENCE_VECTORS];
    lane u0[RECURRENCE_VECTORS], u1[RECURRENCE_VECTORS], z0[RECURRENCE_VECTORS], z1[RECURRENCE_VECTORS];

    UNROLL for (size_t v = 0; v < vectors; v++) {
        o0[v] = o1[v] = c[v] = d[v] = lane_set(0);
        u0[v] = u[0].along_key[v];
        u1[v] = u[1].along_key[v];
        if (apart) {
            z0[v] = u[0].along_write[v];
            z1[v] = u[1].along_write[v];
        }
    }
    for (size_t i = 0; i < tile->m; i++) {
        lane *row = tile->state + i * vectors;
        UNROLL for (size_t v = 0; v < vectors; v++) {
            lane y = lane_fma(lane_set(k0[i]), u0[v], row[v]);
            if (apart)
                y = lane_fma(lane_set(w0[i]), z0[v], y);
            o0[v] = lane_fma(lane_set(q0[i]), y, o0[v]);
            y = lane_fma(lane_set(k1[i]), u1[v], y);
            if (apart)
                y = lane_fma(lane_set(w1[i]), z1[v], y);
            o1[v] = lane_fma(lane_set(q1[i]), y, o1[v]);
            row[v] = y;
            if (delta) {
                c[v] = lane_fma(lane_set(r2[i]), y, c[v]);
                d[v] = lane_fma(lane_set(r3[i]), y, d[v]);
            }
        }
    }
    UNROLL for (size_t v = 0; v < vectors; v++) {
        out[0][v] = o0[v];
        out[1][v] = o1[v];
        a[v] = c[v];
        b[v] = d[v];
    }
}

ALWAYS_INLINE void store_output(const block *tile, const segment *s, size_t t, lane *out, const size_t vectors) {
    UNROLL for (size_t v = 0; v < vectors; v++) out[v] = lane_multiply(lane_set(s->out_factor[t]), out[v]);
    store_vectors(&tile->out, s->first + t, tile, out, vectors);
}

/* Runs the tokens [first, last) of a segment, which are one stretch. */
ALWAYS_INLINE void run_stretch(const block *tile, const segment *s, size_t first, size_t last, const bool delta,
                               const bool apart, const size_t vectors) {
    lane a[RECURRENCE_VECTORS], b[RECURRENCE_VECTORS], out[2][RECURRENCE_VECTORS];
    update u[2];

    if (delta)
        read_pair(tile, row_at(&s->r, first), first + 1 < last ? row_at(&s->r, first + 1) : s->nothing, a, b, vectors);
    for (size_t t = first; t < last; t += 2) {
        const bool is_pair = t + 1 < last;
        make_update(&u[0], a, tile, s, t, delta, apart, vectors);
        if (is_pair) {
            UNROLL for (size_t v = 0; delta && v < vectors; v++) {
                b[v] = lane_fma(lane_set(s->key_dot[t]), u[0].along_key[v], b[v]);
                if (apart)
                    b[v] = lane_fma(lane_set(s->write_dot[t]), u[0].along_write[v], b[v]);
            }
            make_update(&u[1], b, tile, s, t + 1, delta, apart, vectors);
        } else {
            UNROLL for (size_t v = 0; v < vectors; v++) u[1].along_key[v] = u[1].along_write[v] = lane_set(0);
        }
        sweep(tile, s, t, is_pair, u, out, t + 2 < last ? row_at(&s->r, t + 2) : s->nothing,
              t + 3 < last ? row_at(&s->r, t + 3) : s->nothing, a, b, delta, apart, vectors);
        store_output(tile, s, t, out[0], vectors);
        if (is_pair)
            store_output(tile, s, t + 1, out[1], vectors);
    }
}

/* ---- Forms ---- */

typedef void stretch_function(const block *x, const segment *s, size_t first, size_t last);

#define STRETCH(vectors)                                                                                               \
    static void sum_##vectors(const block *x, const segment *s, size_t first, size_t last) {                           \
        run_stretch(x, s, first, last, false, false, vectors);                                                         \
    }                                                                                                                  \
    static void delta_##vectors(const block *x, const segment *s, size_t first, size_t last) {                         \
        run_stretch(x, s, first, last, true, false, vectors);                                                          \
    }                                                                                                                  \
    static void apart_##vectors(const block *x, const segment *s, size_t first, size_t last) {                         \
        run_stretch(x, s, first, last, true, true, vectors);                                                           \
    }

STRETCH(1)
STRETCH(2)
#if RECURRENCE_VECTORS == 4
STRETCH(3)
STRETCH(4)
#endif

static stretch_function *stretch_for(const recurrence_plan *plan, size_t vectors) {
    static stretch_function *const functions[3][RECURRENCE_VECTORS] = {
#if RECURRENCE_VECTORS == 4
        {sum_1, sum_2, sum_3, sum_4},
        {delta_1, delta_2, delta_3, delta_4},
        {apart_1, apart_2, apart_3, apart_4},
#else
        {sum_1, sum_2},
        {delta_1, delta_2},
        {apart_1, apart_2},
#endif
    };
    return functions[plan->delta ? plan->input[WRITE_KEY].elements ? 2 : 1 : 0][vectors - 1];
}

/* ---- Segments ---- */

/* A thread's workspace, in this order; each part is a multiple of LANE_COUNT. */
typedef struct space {
    lane *state;   /* [m][vectors] */
    real *nothing; /* [m] */
    real *track;
    real *packed; /* [4][SEGMENT][m]: rows that are not adjacent, or take factors by channel */
} space;

static size_t packed_reals(const recurrence_plan *plan) {
    return SEGMENT * padded(plan->m);
}

size_t KERNEL(recurrence_forward_workspace)(const recurrence_plan *plan) {
    const size_t state = padded(plan->m) * RECURRENCE_VECTORS * LANE_COUNT;
    return (state + padded(plan->m) + track_reals(plan) + 4 * packed_reals(plan)) * sizeof(real);
}

/* Returns the rows of one input for the segment's tokens, times factors by channel, if given. */
static token_rows gather_rows(const rows *from, const segment *s, size_t m, const real *factors, real *packed) {
    if (from->column == 1 && !factors)
        return (token_rows){from->elements + s->first * from->row, from->row};
    for (size_t t = 0; t < s->count; t++) {
        real *to = packed + t * padded(m);
        load_row(to, from, s->first + t, 0, m, padded(m));
        for (size_t i = 0; factors && i < padded(m); i++)
            to[i] *= factors[t * padded(m) + i];
    }
    return (token_rows){packed, padded(m)};
}

/* Computes the coefficients of a segment's tokens, in plain loops: of one loop with conditions gcc makes masked stores,
 * for which the loads after them wait. */
static void gather_factors(segment *s, const recurrence_plan *plan, const rows *beta) {
    const real *factors = s->track.factors, *inverses = s->track.inverses;
    const size_t count = s->count;

    for (size_t t = 0; t < count; t++)
        s->write_factor[t] = beta->elements ? beta->elements[(s->first + t) * beta->row] : 1;
    for (size_t t = 0; t < count; t++) {
        s->take_factor[t] = -s->write_factor[t];
        s->read_factor[t] = 1;
        s->out_factor[t] = plan->scale;
    }
    if (s->track.width == 0 || plan->by_channel)
        return;
    for (size_t t = 0; t < count; t++) {
        s->write_factor[t] *= inverses[t];
        s->read_factor[t] = factors[t];
        s->out_factor[t] *= factors[t];
    }
}

static void gather_dots(segment *s, const recurrence_plan *plan) {
    dots products;

    products.count = 0;
    for (size_t i = 0; i < s->track.count; i++)
        for (size_t t = s->track.of[i].first; t + 1 < s->track.of[i + 1].first; t += 2) {
            add_dot(&products, &s->key_dot[t], row_at(&s->r, t + 1), row_at(&s->k, t), plan->m);
            if (plan->input[WRITE_KEY].elements)
                add_dot(&products, &s->write_dot[t], row_at(&s->r, t + 1), row_at(&s->w, t), plan->m);
        }
    finish_dots(&products);
}

static void gather_segment(segment *s, const recurrence_plan *plan, const rows in[ICL_RECURRENCE_INPUTS],
                           space *memory) {
    const size_t size = packed_reals(plan);
    const real *factors, *inverses;

    track_decay(&s->track, plan, &in[DECAY], s->first, s->count, memory->track);
    factors = plan->by_channel ? s->track.factors : NULL;
    inverses = factors ? s->track.inverses : NULL;
    gather_factors(s, plan, &in[BETA]);
    s->q = gather_rows(&in[Q], s, plan->m, factors, memory->packed);
    s->k = gather_rows(&in[K], s, plan->m, inverses, memory->packed + size);
    s->r = s->w = s->k;
    if (!plan->delta)
        return;
    const rows *read = in[READ_KEY].elements ? &in[READ_KEY] : &in[K];
    if (factors || in[READ_KEY].elements)
        s->r = gather_rows(read, s, plan->m, factors, memory->packed + 2 * size);
    if (in[WRITE_KEY].elements)
        s->w = gather_rows(&in[WRITE_KEY], s, plan->m, inverses, memory->packed + 3 * size);
    gather_dots(s, plan);
}

/* Multiplies each row of the state by its factor, or all rows by one. */
static void scale_state(const block *tile, const real *factors, size_t width, size_t vectors) {
    for (size_t i = 0; i < tile->m; i++) {
        const lane factor = lane_set(factors[width == 1 ? 0 : i]);
        for (size_t v = 0; v < vectors; v++)
            tile->state[i * vectors + v] = lane_multiply(factor, tile->state[i * vectors + v]);
    }
}

static void store_state(const block *tile, const rows *to, size_t first_row, size_t vectors) {
    for (size_t i = 0; to->elements && i < tile->m; i++)
        store_row(to, first_row + i, tile->first, tile->count, (const real *)(tile->state + i * vectors));
}

static void run_segment(const block *tile, const segment *s, stretch_function *run, size_t vectors) {
    const decay_track *track = &s->track;
    for (size_t i = 0; i < track->count; i++) {
        if (track->of[i].has_entry)
            scale_state(tile, track->entries + i * track->width, track->width, vectors);
        run(tile, s, track->of[i].first, track->of[i + 1].first);
    }
    if (track->width > 0)
        scale_state(tile, track->factors + (s->count - 1) * track->width, track->width, vectors);
}

static space divide(const recurrence_plan *plan, void *workspace) {
    space memory = {.state = workspace};
    memory.nothing = (real *)workspace + padded(plan->m) * RECURRENCE_VECTORS * LANE_COUNT;
    memory.track = memory.nothing + padded(plan->m);
    memory.packed = memory.track + track_reals(plan);
    memset(memory.nothing, 0, padded(plan->m) * sizeof(real));
    return memory;
}

void KERNEL(recurrence_forward)(const recurrence_plan *plan, size_t item, size_t first, size_t count, void *workspace) {
    const size_t vectors = (count + LANE_COUNT - 1) / LANE_COUNT;
    const rows states = rows_of(plan, &plan->states, item), final = rows_of(plan, &plan->final, item);
    stretch_function *run = stretch_for(plan, vectors);
    space at = divide(plan, workspace);
    const block part = {.v = rows_of(plan, &plan->input[V], item),
                        .out = rows_of(plan, &plan->out, item),
                        .reads = rows_of(plan, &plan->reads, item),
                        .first = first,
                        .count = count,
                        .m = plan->m,
                        .state = at.state};
    rows in[ICL_RECURRENCE_INPUTS];
    segment s;

    for (int i = 0; i < ICL_RECURRENCE_INPUTS; i++)
        in[i] = rows_of(plan, &plan->input[i], item);
    s.nothing = at.nothing;
    for (size_t i = 0; i < part.m; i++) {
        real *row = (real *)(part.state + i * vectors);
        if (in[STATE].elements)
            load_row(row, &in[STATE], i, first, count, vectors * LANE_COUNT);
        else
            memset(row, 0, vectors * sizeof(lane));
    }
    for (s.first = 0; s.first < plan->tokens; s.first += SEGMENT) {
        s.count = plan->tokens - s.first < SEGMENT ? plan->tokens - s.first : SEGMENT;
        store_state(&part, &states, s.first / SEGMENT * plan->m, vectors);
        gather_segment(&s, plan, in, &at);
        run_segment(&part, &s, run, vectors);
    }
    store_state(&part, &final, 0, vectors);
}
