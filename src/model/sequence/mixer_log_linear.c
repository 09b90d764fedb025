/*
 * log-linear: Guo and others 2025 (arXiv 2506.04761), over the gate of mamba2. A token reads the past in stretches
 * whose lengths are powers of two, each with a weight of its own:
 *
 *     o_t = sum_(s <= t) w_t^(l(t, s)) exp(a_(s + 1) + ... + a_t) (q_t . k_s) v_s,   w_t = softplus(c (x_t W))
 *
 * Level l(t, s) is the length in bits of t xor s, positions from 0: level 0 is the token itself, and at level l the
 * second half of a block of 2^l tokens reads its first half. The last of 16 levels takes all that is farther away.
 *
 * At once: sums of gates from a token to the ends of its block come from those of half blocks, by additions only, and
 * each level is linear attention of second halves over first ones. Position by position: bit l - 1 of t says whether
 * level l has a state, and the carry of t + 1 adds states up.
 */
#include "model/sequence/sequence.h"

enum { LEVELS = 16 };

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t levels = sequence->heads * LEVELS;

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_rate_gate(builder, layer, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->level, layer, "mixer.level", sequence->width, levels, error));
    return icl_sequence_add_constants(builder, &layer->level_scale, layer, "mixer.level_scale", levels, 1, error);
}

/* Returns x [B, H, T, w] without gaps and with zeros up to `padded` tokens. */
static icl_variable pad(icl_tape *tape, icl_variable x, size_t padded) {
    const icl_tensor seen = icl_tape_value(tape, x);
    const size_t shape[] = {seen.shape[0], seen.shape[1], padded - seen.shape[2], seen.shape[3]};

    if (shape[2] == 0)
        return icl_tape_scale(tape, 1, x);
    return icl_tape_concatenate(tape, 2, 2, (const icl_variable[]){x, icl_tape_filled(tape, 4, shape, 0)});
}

/* Returns one half of each block of 2 `half` tokens of x [B, H, T, w]: [B H, T / (2 half), half, w]. */
static icl_variable half_of(icl_tape *tape, icl_variable x, size_t half, size_t which) {
    const icl_tensor seen = icl_tape_value(tape, x);
    const size_t shape[] = {seen.shape[0] * seen.shape[1], seen.shape[2] / (2 * half), 2 * half, seen.shape[3]};
    return icl_tape_slice(tape, icl_tape_reshape(tape, x, 4, shape), 2, which * half, half);
}

/* Returns [B, H, T, w] whose blocks have these halves. */
static icl_variable join_halves(icl_tape *tape, const icl_tensor *like, icl_variable first, icl_variable second) {
    const icl_variable whole = icl_tape_concatenate(tape, 2, 2, (const icl_variable[]){first, second});
    const size_t shape[] = {like->shape[0], like->shape[1], like->shape[2], icl_tape_value(tape, whole).shape[3]};
    return icl_tape_reshape(tape, whole, 4, shape);
}

/* The tokens [B, H, T, .] of a level, T a power of two. Gates are sums from the beginning of a half block up to a token
 * (`before`), and behind it up to the end (`after`). */
typedef struct tokens {
    icl_variable q, k, v, weights, before, after;
    icl_tensor like; /* the shape of v */
} tokens;

/* Returns the outputs of a level, and joins the gates' sums of half blocks to those of blocks. */
static icl_variable read_level(icl_tape *tape, tokens *all, double scale, size_t half, size_t level) {
    const icl_attention_params params = {.kind = ICL_ATTENTION_LINEAR, .scale = scale};
    const icl_variable before[] = {half_of(tape, all->before, half, 0), half_of(tape, all->before, half, 1)};
    const icl_variable after[] = {half_of(tape, all->after, half, 0), half_of(tape, all->after, half, 1)};
    const icl_variable weights = icl_tape_scale(tape, 1, icl_tape_slice(tape, all->weights, 3, level, 1));
    const icl_variable q =
        icl_sequence_multiply(tape, half_of(tape, all->q, half, 1), icl_tape_unary(tape, ICL_EXPONENTIAL, before[1]));
    const icl_variable k =
        icl_sequence_multiply(tape, half_of(tape, all->k, half, 0), icl_tape_unary(tape, ICL_EXPONENTIAL, after[0]));
    const icl_variable read = icl_sequence_multiply(
        tape, half_of(tape, weights, half, 1), icl_tape_attention(tape, &params, q, k, half_of(tape, all->v, half, 0)));
    const icl_tensor seen = icl_tape_value(tape, read);
    /* The sum over a half: up to its last token. */
    const icl_variable first = icl_tape_slice(tape, before[0], 2, half - 1, 1);
    const icl_variable second = icl_tape_slice(tape, before[1], 2, half - 1, 1);

    all->before = join_halves(tape, &all->like, before[0], icl_tape_binary(tape, ICL_ADD, before[1], first));
    all->after = join_halves(tape, &all->like, icl_tape_binary(tape, ICL_ADD, after[0], second), after[1]);
    return join_halves(tape, &all->like, icl_tape_filled(tape, 4, seen.shape, 0), read);
}

static icl_variable read_at_once(icl_tape *tape, const icl_sequence_heads *heads, icl_variable decay,
                                 icl_variable weights, icl_variable own, double scale) {
    const size_t count = icl_tape_value(tape, heads->v).shape[2];
    size_t padded = 1, level = 1;

    while (padded < count)
        padded *= 2;
    tokens all = {.q = pad(tape, heads->q, padded), .k = pad(tape, heads->k, padded), .v = pad(tape, heads->v, padded)};
    all.weights = pad(tape, weights, padded);
    all.before = pad(tape, decay, padded);
    all.after = icl_tape_scale(tape, 0, all.before);
    all.like = icl_tape_value(tape, all.v);
    for (size_t half = 1; half < padded; half *= 2, level += level < LEVELS - 1) {
        const icl_variable read = read_level(tape, &all, scale, half, level);
        own = icl_tape_binary(tape, ICL_ADD, own, icl_tape_slice(tape, read, 2, 0, count));
    }
    return own;
}

/* The decoder's step at position `at`: one token. */
static icl_variable read_next(const icl_sequence_pass *pass, const icl_sequence_heads *heads, icl_variable decay,
                              icl_variable weights, icl_variable own, double scale) {
    icl_tape *tape = pass->tape;
    const icl_tensor k = icl_tape_value(tape, heads->k), v = icl_tape_value(tape, heads->v);
    const size_t shape[] = {k.shape[0], k.shape[1], k.shape[3], v.shape[3]}, at = pass->first_position;
    const icl_variable kept = icl_tape_unary(tape, ICL_EXPONENTIAL, decay);
    icl_variable carried = icl_tape_matmul(tape, 1, icl_tape_swap_axes(tape, heads->k, 2, 3), heads->v);
    bool is_carried = true; /* all lower levels have a state */

    for (size_t level = 1; level < LEVELS; level++) {
        const bool is_last = level == LEVELS - 1, has = is_last ? at >> (level - 1) : at >> (level - 1) & 1;
        size_t part;
        icl_variable state = icl_model_memory_recall(pass->memory, tape, 4, shape, &part);
        if (has) {
            state = icl_sequence_multiply(tape, state, kept);
            const icl_variable read = icl_tape_matmul(tape, scale, heads->q, state);
            own = icl_tape_binary(tape, ICL_ADD, own,
                                  icl_sequence_multiply(tape, icl_tape_slice(tape, weights, 3, level, 1), read));
        }
        if (is_carried && has)
            carried = icl_tape_binary(tape, ICL_ADD, carried, state);
        if (is_carried && (!has || is_last))
            icl_model_memory_keep(pass->memory, tape, part, carried);
        else if (has)
            icl_model_memory_keep(pass->memory, tape, part, state);
        is_carried = is_carried && has;
    }
    return own;
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;
    const double scale = icl_sequence_scale(pass->sequence, layer);
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable decay = icl_sequence_rate_gate(pass, layer, x);
    const icl_variable product = icl_sequence_multiply(tape, icl_sequence_linear(pass, x, layer->level, 0),
                                                       icl_sequence_value(pass, layer->level_scale));
    const icl_variable weights = icl_sequence_split(pass, icl_tape_unary(tape, ICL_SOFTPLUS, product), LEVELS);
    const icl_variable match = icl_tape_reduce(tape, ICL_SUM, 1u << 3, icl_sequence_multiply(tape, heads.q, heads.k));
    const icl_variable own =
        icl_tape_scale(tape, scale,
                       icl_sequence_multiply(
                           tape, icl_sequence_multiply(tape, match, icl_tape_slice(tape, weights, 3, 0, 1)), heads.v));

    return icl_sequence_emit(pass, layer, x,
                             pass->memory ? read_next(pass, &heads, decay, weights, own, scale)
                                          : read_at_once(tape, &heads, decay, weights, own, scale));
}

const icl_sequence_mixer icl_mixer_log_linear = {
    .word = "log-linear",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
