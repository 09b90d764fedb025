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
 * processed in pairs, see pairs.h.
 *
 * The gradients of decays cost a product for each channel and token: D_t = sum_j G_j C_j, by channel, is not changed by
 * decays, and D_t = D_(t+1) + q dq - k dk - w dw + r dr. Over all channels the products are q . dq - v . dv. Such a sum
 * loses digits, so it restarts from sum_j G_j C_j itself at the end of each stretch.
 */
#include "backend/cpu/kernels/parts.h"
#include "backend/cpu/kernels/recurrence/pairs.h"

/* ---- Forms: rows of one, two or four vectors get code of their own, because their strides are then constants ---- */

#define PAIRS(name, chunks, delta, apart)                                                                              \
    static void name(head_pass *x, size_t t, bool is_pair) {                                                           \
        run_pair(x, t, is_pair, chunks, delta, apart);                                                                 \
    }

PAIRS(sum_1, 1, false, false)
PAIRS(sum_2, 2, false, false)
PAIRS(sum_4, 4, false, false)
PAIRS(sum_any, x->chunks, false, false)
PAIRS(delta_1, 1, true, false)
PAIRS(delta_2, 2, true, false)
PAIRS(delta_4, 4, true, false)
PAIRS(delta_any, x->chunks, true, false)
PAIRS(apart_any, x->chunks, true, true)

static pair_function *pair_for(const head_pass *x) {
    static pair_function *const functions[2][5] = {{sum_any, sum_1, sum_2, sum_any, sum_4},
                                                   {delta_any, delta_1, delta_2, delta_any, delta_4}};
    return x->apart ? apart_any : functions[x->plan->delta][x->chunks < 5 ? x->chunks : 0];
}

/* Runs back the tokens [first, last) of a segment, which are one stretch, for one block of values. */
static void run_back(head_pass *x, size_t first, size_t last) {
    for (size_t end = last; end > first;) {
        const bool is_pair = end - first > 1;
        if (x->value == 0)
            ask_ahead(&x->soon);
        x->run(x, end - 1, is_pair);
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
static size_t divide(head_pass *x, real *memory) {
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
    head_pass x = {.plan = plan};
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
static void load_state(const head_pass *x, lane *to, const rows *from, size_t first_row, const real *factors) {
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
static const real *spread(const head_pass *x, const real *factors) {
    if (x->track.width > 1)
        return factors;
    for (size_t i = 0; i < x->width; i++)
        x->factors[i] = *factors;
    return x->factors;
}

/* Multiplies the rows of `count` values by factors [width]. */
static void scale_rows(const head_pass *x, lane *to, size_t count, const real *factors) {
    for (size_t j = 0; j < count; j++)
        for (size_t c = 0; c < x->chunks; c++)
            to[j * x->chunks + c] = lane_multiply(load_lane(factors + c * LANE_COUNT), to[j * x->chunks + c]);
}

/* restarts[index] += sum_j G_j C_j */
static void add_restart(const head_pass *x, size_t index, const lane *state) {
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
static void load_values(const head_pass *x) {
    for (size_t t = 0; t < x->count; t++) {
        load_row(x->v + t * x->block, &x->in[V], x->first + t, x->value, x->values, x->values);
        if (x->plan->delta)
            load_row(x->p + t * x->block, &x->reads, x->first + t, x->value, x->values, x->values);
    }
}

/* Computes C at the end of each stretch, from the state before the segment. It is a sum, because the reads are
 * known. */
static void compute_ends(head_pass *x) {
    const size_t chunks = x->chunks, size = x->block * chunks;
    const recurrence_plan *plan = x->plan;

    load_values(x);
    load_state(x, x->ends, &x->states, x->first / SEGMENT * plan->m, x->ones);
    for (size_t i = 0; i < x->track.count; i++) {
        lane *to = x->ends + (i + 1) * size;
        memcpy(to, to - size, size * sizeof *to);
        if (x->track.of[i].has_entry)
            scale_rows(x, to, x->groups * LANE_COUNT, spread(x, x->track.entries + i * x->track.width));
        for (size_t t = x->track.of[i].first; t < x->track.of[i + 1].first; t++) {
            const real *k = x->row[ROW_K].elements + t * x->row[ROW_K].row;
            const real *w = x->row[ROW_W].elements + t * x->row[ROW_W].row;
            const real factor = x->beta[t] * x->inverse[t];
            const bool apart = x->apart;
            for (size_t j = 0; j < x->values; j++) {
                const real v = factor * x->v[t * x->block + j];
                const real p = plan->delta ? factor * x->p[t * x->block + j] : 0;
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

static void run_block(head_pass *x) {
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

/* Returns the rows of one input, with padding, times factors by channel, if given; packed, if they are not so. */
static token_rows gather_rows(const head_pass *x, const rows *from, const real *factors, int kind) {
    real *packed = x->packed + (size_t)kind * SEGMENT * x->width;
    if (!factors && from->column == 1 && x->plan->m == x->width)
        return (token_rows){from->elements + x->first * from->row, from->row};
    for (size_t t = 0; t < x->count; t++)
        for (size_t c = 0; c < x->chunks; c++) {
            const size_t at = t * x->width + c * LANE_COUNT;
            const lane row = load_chunk(from, x->first + t, c * LANE_COUNT, x->plan->m);
            const lane result = factors ? lane_multiply(load_lane(factors + at), row) : row;
            memcpy(packed + at, &result, sizeof result);
        }
    return (token_rows){packed, x->width};
}

/* Returns where the sums of one kind go: to the gradient's rows, if that is what they are and its rows take them. */
static token_rows place_sums(const head_pass *x, int kind, const rows *gradient) {
    if (gradient && gradient->elements && gradient->column == 1 && x->plan->m == x->width)
        return (token_rows){gradient->elements + x->first * gradient->row, gradient->row};
    return (token_rows){x->sums + (size_t)kind * SEGMENT * x->width, x->width};
}

/* Sets to[t] to a_t . b_(t - before), for the last token, the one `step` before it, and so on. */
static void dot_tokens(const head_pass *x, real *to, int a, int b, size_t before, size_t step) {
    const token_rows *left = &x->row[a], *right = &x->row[b];
    for (size_t end = x->count; end > before;) {
        lane products[LANE_COUNT], sums;
        size_t t = end;
        for (size_t i = 0; i < LANE_COUNT; i++) {
            const real *y = left->elements + (t - 1) * left->row, *z = right->elements + (t - 1 - before) * right->row;
            products[i] = lane_multiply(load_lane(y), load_lane(z));
            for (size_t c = LANE_COUNT; c < x->width; c += LANE_COUNT)
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
static void gather_dots(head_pass *x) {
    const size_t step = x->track.count == 1 ? 2 : 1;

    dot_tokens(x, x->same_key, ROW_Q, ROW_K, 0, 1);
    dot_tokens(x, x->before_key, ROW_Q, ROW_K, 1, step);
    if (x->plan->delta)
        dot_tokens(x, x->read_key, ROW_R, ROW_K, 1, step);
    if (x->apart) {
        dot_tokens(x, x->same_write, ROW_Q, ROW_W, 0, 1);
        dot_tokens(x, x->before_write, ROW_Q, ROW_W, 1, step);
        dot_tokens(x, x->read_write, ROW_R, ROW_W, 1, step);
    }
}

/* Computes what belongs to tokens, apart from their rows. */
static void gather_factors(head_pass *x) {
    const bool is_scalar = x->track.width == 1;
    for (size_t t = 0; t < x->count; t++) {
        x->beta[t] = x->in[BETA].elements ? x->in[BETA].elements[(x->first + t) * x->in[BETA].row] : 1;
        x->d_beta[t] = x->v_dv[t] = lane_set(0);
    }
    for (size_t t = 0; t < x->count; t++)
        x->factor[t] = x->inverse[t] = 1;
    if (is_scalar) {
        memcpy(x->factor, x->track.factors, x->count * sizeof(real));
        memcpy(x->inverse, x->track.inverses, x->count * sizeof(real));
    }
}

static void gather_segment(head_pass *x) {
    const recurrence_plan *plan = x->plan;
    const rows *read = x->in[READ_KEY].elements ? &x->in[READ_KEY] : &x->in[K];

    track_decay(&x->track, plan, &x->in[DECAY], x->first, x->count, x->track_space);
    const size_t end = (x->count - 1) * x->track.width;
    const real *factors = x->track.width > 1 ? x->track.factors : NULL;
    const real *inverses = x->track.width > 1 ? x->track.inverses : NULL;
    memcpy(x->last, x->track.width > 0 ? spread(x, x->track.factors + end) : x->ones, x->width * sizeof(real));
    memcpy(x->last + x->width, x->track.width > 0 ? spread(x, x->track.inverses + end) : x->ones,
           x->width * sizeof(real));
    gather_factors(x);
    x->row[ROW_Q] = gather_rows(x, &x->in[Q], factors, ROW_Q);
    x->row[ROW_K] = gather_rows(x, &x->in[K], inverses, ROW_K);
    x->row[ROW_R] = x->row[ROW_W] = x->row[ROW_K];
    if (plan->delta && (x->in[READ_KEY].elements || factors))
        x->row[ROW_R] = gather_rows(x, read, factors, ROW_R);
    if (x->apart)
        x->row[ROW_W] = gather_rows(x, &x->in[WRITE_KEY], inverses, ROW_W);
    x->joined = !factors && !x->apart && !x->in[READ_KEY].elements;
    x->sum[ROW_Q] = place_sums(x, ROW_Q, factors ? NULL : &x->gradient[Q]);
    x->sum[ROW_K] = place_sums(x, ROW_K, NULL);
    x->sum[ROW_R] = place_sums(x, ROW_R, x->joined ? &x->gradient[K] : NULL);
    x->sum[ROW_W] = place_sums(x, ROW_W, NULL);
    gather_dots(x);
    memset(x->restarts, 0, (SEGMENT + 1) * x->width * sizeof(real));
}

/* Lists the rows to be requested: those that this segment writes, and those that the next one to be processed reads.
 * That is the segment before this one, or the last one of the next item. */
static void look_ahead(head_pass *x, size_t item) {
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

/* Computes the running sums of the decays' gradients of one stretch, by channel; they replace the rows of q. All rows
 * and sums are packed. */
static void channel_decays(const head_pass *x, size_t index, size_t chunk) {
    const size_t width = x->width, kinds = x->apart ? 4 : x->plan->delta ? 3 : 2;
    const stretch *of = &x->track.of[index];
    lane next = load_lane(x->restarts + (index + 1) * width + chunk * LANE_COUNT);

    for (size_t t = of[1].first; t-- > of->first;) {
        const size_t at = t * width + chunk * LANE_COUNT;
        lane term = lane_multiply(load_lane(x->packed + at), load_lane(x->sums + at));
        for (size_t kind = 1; kind < kinds; kind++) {
            const size_t from = kind * SEGMENT * width + at;
            term = lane_add(term, lane_multiply(load_lane(x->packed + from), load_lane(x->sums + from)));
        }
        next = lane_add(next, term);
        memcpy(x->packed + at, &next, sizeof next);
    }
    if (of->has_entry)
        memcpy(x->packed + of->first * width + chunk * LANE_COUNT, x->restarts + index * width + chunk * LANE_COUNT,
               sizeof next);
}

/* Returns the sum over the vectors of channels of one restart. */
static lane restart_sum(const head_pass *x, size_t index) {
    const real *row = x->restarts + index * x->width;
    lane sum = load_lane(row);
    for (size_t c = 1; c < x->chunks; c++)
        sum = lane_add(sum, load_lane(row + c * LANE_COUNT));
    return sum;
}

/* Computes the running sums of one stretch, of one decay for all channels, in lanes. */
static void token_decays(const head_pass *x, size_t index, lane *sums) {
    const stretch *of = &x->track.of[index];
    lane next = restart_sum(x, index + 1);

    for (size_t t = of[1].first; t-- > of->first;) {
        const real *q = x->row[ROW_Q].elements + t * x->row[ROW_Q].row;
        const real *d_q = x->sum[ROW_Q].elements + t * x->sum[ROW_Q].row;
        lane term = lane_multiply(load_lane(q), load_lane(d_q));
        for (size_t c = LANE_COUNT; c < x->width; c += LANE_COUNT)
            term = lane_add(term, lane_multiply(load_lane(q + c), load_lane(d_q + c)));
        next = lane_add(next, lane_fma(lane_set(-1), x->v_dv[t], term));
        sums[t] = next;
    }
    if (of->has_entry)
        sums[of->first] = restart_sum(x, index);
}

/* Stores one number for each token of the segment, the sum of its lanes. */
static void store_sums(const head_pass *x, const rows *to, const lane *sums) {
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

static void store_decays(head_pass *x) {
    const rows *to = &x->gradient[DECAY];
    lane sums[SEGMENT];

    if (x->track.width == 1) {
        for (size_t i = x->track.count; i-- > 0;)
            token_decays(x, i, sums);
        store_sums(x, to, sums);
        return;
    }
    for (size_t c = 0; c < x->chunks; c++)
        for (size_t i = x->track.count; i-- > 0;)
            channel_decays(x, i, c);
    for (size_t t = 0; t < x->count; t++)
        store_row(to, x->first + t, 0, x->plan->m, x->packed + t * x->width);
}

/* Stores the gradients of one input, unless they are there already: its sums times `sign` and factors by channel, if
 * given, plus `other`, if given, times its own. */
static void store_kind(const head_pass *x, int input, int kind, const real *factors, real sign, const real *other,
                       const real *other_factors) {
    const rows to = x->gradient[input];
    const real *sums = x->sums + (size_t)kind * SEGMENT * x->width;
    const size_t width = x->width, count = to.elements && x->sum[kind].elements == sums ? x->count : 0;

    for (size_t t = 0; t < count; t++)
        for (size_t c = 0; c < x->chunks; c++) {
            const size_t at = t * width + c * LANE_COUNT;
            lane row = lane_multiply(lane_set(sign), load_lane(sums + at));
            if (factors)
                row = lane_multiply(load_lane(factors + at), row);
            if (other)
                row = lane_fma(other_factors ? load_lane(other_factors + at) : lane_set(1), load_lane(other + at), row);
            store_chunk(&to, x->first + t, c * LANE_COUNT, x->plan->m, row);
        }
}

static void store_segment(head_pass *x) {
    const real *factors = x->track.width > 1 ? x->track.factors : NULL;
    const real *inverses = x->track.width > 1 ? x->track.inverses : NULL;
    const real *reads = x->plan->delta ? x->sums + ROW_R * SEGMENT * x->width : NULL;
    const bool has_read_key = x->plan->delta && x->in[READ_KEY].elements;

    if (x->gradient[DECAY].elements)
        store_decays(x);
    store_kind(x, Q, ROW_Q, factors, 1, NULL, NULL);
    if (x->joined)
        store_kind(x, K, ROW_R, NULL, 1, NULL, NULL);
    else
        store_kind(x, K, ROW_K, inverses, -1, has_read_key ? NULL : reads, factors);
    if (has_read_key)
        store_kind(x, READ_KEY, ROW_R, factors, 1, NULL, NULL);
    if (x->apart)
        store_kind(x, WRITE_KEY, ROW_W, inverses, -1, NULL, NULL);
    if (x->gradient[BETA].elements)
        store_sums(x, &x->gradient[BETA], x->d_beta);
}

/* ---- All of it ---- */

static void set_block(head_pass *x, size_t value) {
    const size_t left = x->plan->n - value;
    x->value = value;
    x->values = left < x->block ? left : x->block;
    x->groups = padded(x->values) / LANE_COUNT;
}

static void begin(head_pass *x, const recurrence_plan *plan, size_t item, void *workspace) {
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
    x->run = pair_for(x);
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
    head_pass x;

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
