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
