/*
 * mamba3: S_t = a_t (S_(t-1) + (1 - l_t) d_t K_(t-1) V_(t-1)^T) + l_t d_t K_t V_t^T,   o_t = S_t^T q_t + D v_t, with
 *
 *     d_t = softplus(x_t W + w)            the step of time, for each head
 *     a_t = exp(-max(softplus(x_t G), 1e-4) d_t),   l_t = sigmoid(x_t L)
 *
 * the trapezoidal rule between tokens. Queries and keys have an RMS norm and an offset, which begins at 1, and turn
 * as a state of complex numbers does. Mamba-3 (arXiv 2603.15569). There is no scale of the products. With
 * model.mimo_rank > 1 a token has several queries and keys, the authors' MIMO form, who also multiply
 * the output's gate for each of them. They turn half of the numbers by default, and here all turn.
 *
 * The op computes C_t, which is S_t without its last term and takes up the token before with both of its weights:
 *     C_t = a_t C_(t-1) + a_t (l_(t-1) d_(t-1) + (1 - l_t) d_t) K_(t-1) V_(t-1)^T
 * The last term is attention of a token's queries to its own keys.
 */
#include "model/sequence/sequence.h"

/* Returns x as [a, b, c, d], or as [a, b, c] if d is 0: a view. */
static icl_variable shape_as(const icl_sequence_pass *pass, icl_variable x, size_t a, size_t b, size_t c, size_t d) {
    return icl_tape_reshape(pass->tape, x, d > 0 ? 4 : 3, (const size_t[]){a, b, c, d});
}

/* ---- Turns by the tokens ---- */

/*
 * Queries and keys turn by angles which depend on the tokens, as states of complex numbers do: pair (i, i + m/2)
 * of both by the sum of pi d_t tanh(x_t P) so far (Mamba-3, arXiv 2603.15569). Sums are not taken modulo 2 pi; sines
 * hold up to 1e5.
 */

#define PI      3.14159265358979323846
#define EPSILON 1e-5

/* Returns the sums of the angles so far, [B T, 1, H, m/2]. */
static icl_variable add_angles(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter angle,
                               icl_variable step) {
    icl_tape *tape = pass->tape;
    const icl_tensor by = icl_tape_value(tape, step);
    const size_t pairs = pass->sequence->key_width / 2;
    const icl_variable speed = icl_tape_unary(tape, ICL_HYPERBOLIC_TANGENT, icl_sequence_linear(pass, x, angle, 0));
    const icl_variable turned =
        icl_sequence_multiply(tape, shape_as(pass, step, by.shape[0], by.shape[1], by.shape[2], 1),
                              shape_as(pass, speed, by.shape[0], by.shape[1], 1, pairs));
    const icl_variable one = icl_tape_filled(tape, 4, (const size_t[]){1, 1, 1, 1}, 1);
    const icl_recurrence_variables sums = {.q = one, .k = one, .v = icl_tape_swap_axes(tape, turned, 1, 2)};
    const icl_variable sum = icl_sequence_remember(pass, &(icl_recurrence_params){.scale = PI}, &sums);

    return shape_as(pass, icl_sequence_join(pass, sum), by.shape[0] * by.shape[1], 1, by.shape[2], pairs);
}

/* Returns queries or keys x [B, H, T R, m], normed, moved and turned, as [B T, R, H, m]. */
static icl_variable turn(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter gain,
                         icl_sequence_parameter offset, icl_variable cosine, icl_variable sine) {
    icl_tape *tape = pass->tape;
    const icl_normalize_params rms = {ICL_NORM_RMS, EPSILON};
    const size_t heads = pass->sequence->heads, m = pass->sequence->key_width, rank = pass->sequence->mimo_rank;
    const icl_tensor seen = icl_tape_value(tape, x);
    const icl_variable scale = icl_sequence_value(pass, gain),
                       rows = shape_as(pass, icl_sequence_join(pass, x), seen.shape[0] * seen.shape[2] / rank, rank,
                                       heads, m),
                       moved = icl_tape_binary(tape, ICL_ADD, icl_tape_normalize(tape, &rms, rows, &scale, NULL),
                                               shape_as(pass, icl_sequence_value(pass, offset), rank, heads, m, 0)),
                       a = icl_tape_slice(tape, moved, 3, 0, m / 2), b = icl_tape_slice(tape, moved, 3, m / 2, m / 2);

    return icl_tape_concatenate(
        tape, 3, 2,
        (const icl_variable[]){icl_tape_binary(tape, ICL_SUBTRACT, icl_sequence_multiply(tape, a, cosine),
                                               icl_sequence_multiply(tape, b, sine)),
                               icl_tape_binary(tape, ICL_ADD, icl_sequence_multiply(tape, a, sine),
                                               icl_sequence_multiply(tape, b, cosine))});
}

/* Returns heads whose queries and keys have an RMS norm with a gain and an offset, and then turn by angles that add up
 * over the tokens of x, with steps of time [B, T, H]: q and k are [B T, R, H, m] without gaps, R = model.mimo_rank, and
 * v is [B, T, H n]. Remembers the last angles. */
static icl_sequence_heads turn_heads(const icl_sequence_pass *pass, const icl_sequence_turns *own, icl_variable x,
                                     icl_variable step, const icl_sequence_heads *heads) {
    const icl_variable angle = add_angles(pass, x, own->angle, step);
    const icl_variable cosine = icl_tape_unary(pass->tape, ICL_COSINE, angle);
    const icl_variable sine = icl_tape_unary(pass->tape, ICL_SINE, angle);

    return (icl_sequence_heads){turn(pass, heads->q, own->query_gain, own->query_offset, cosine, sine),
                                turn(pass, heads->k, own->key_gain, own->key_offset, cosine, sine),
                                icl_sequence_join(pass, heads->v)};
}

/* ---- States with R = model.mimo_rank queries and keys a token ---- */

/*
 * R queries and keys of a token share a state [m, n] (MIMO, Mamba-3, arXiv 2603.15569): token t writes
 * sum_r k_(t,r) (v_t o u_r)^T, and its output is sum_r e_r o (S^T q_(t,r)), u and e vectors [H n] for each r.
 *
 * A token is stretched to R writes, and to reads from the last one on: 2 R - 1 steps of a recurrence.
 */

/* A token's reads and writes: queries, and its own keys, [B T, R, H, m]; keys of the token before [B, T, R H m];
 * values with the weights of both tokens, and what is added to what is read, [B, T, H n]; the decay [B, T, H]. */
typedef struct shared_operands {
    icl_variable q, k, late_k, v, late_v, added, decay;
} shared_operands;

/* Returns x [B, T, w] with zeros up to `width` numbers a token, in front or behind. */
static icl_variable pad(const icl_sequence_pass *pass, icl_variable x, size_t width, bool in_front) {
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    if (width == seen.shape[2])
        return x;
    const icl_variable zeros =
        icl_tape_filled(pass->tape, 3, (const size_t[]){seen.shape[0], seen.shape[1], width - seen.shape[2]}, 0);
    return icl_tape_concatenate(pass->tape, 2, 2, (const icl_variable[]){in_front ? zeros : x, in_front ? x : zeros});
}

/* Returns x [B, T, R H n], or [B, T, H n] for each r, times a vector [R H n]; x itself if R is 1. */
static icl_variable multiply_ranks(const icl_sequence_pass *pass, icl_variable x, icl_sequence_parameter factor) {
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t rank = pass->sequence->mimo_rank, values = pass->sequence->heads * pass->sequence->value_width;

    if (rank == 1)
        return x;
    x = icl_tape_binary(pass->tape, ICL_MULTIPLY,
                        shape_as(pass, x, seen.shape[0], seen.shape[1], seen.shape[2] / values, values),
                        shape_as(pass, icl_sequence_value(pass, factor), 1, rank, values, 0));
    return shape_as(pass, x, seen.shape[0], seen.shape[1], rank * values, 0);
}

/* Reads the state from the tokens before: [B, T, R H n]. */
static icl_variable read_past(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable q,
                              icl_variable k, icl_variable v, icl_variable decay) {
    const size_t heads = pass->sequence->heads, m = pass->sequence->key_width, n = pass->sequence->value_width;
    const size_t rank = pass->sequence->mimo_rank, steps = 2 * rank - 1;
    const icl_tensor seen = icl_tape_value(pass->tape, v);
    const icl_variable slow = icl_sequence_split(pass, pad(pass, decay, steps * heads, false), 1);
    const icl_recurrence_variables operands = {.q = icl_sequence_split(pass, pad(pass, q, steps * heads * m, true), m),
                                               .k = icl_sequence_split(pass, pad(pass, k, steps * heads * m, false), m),
                                               .v = icl_sequence_split(pass, pad(pass, v, steps * heads * n, false), n),
                                               .decay = &slow};
    const icl_variable o =
        icl_sequence_join(pass, icl_sequence_recur_with(pass, layer, &(icl_recurrence_params){.scale = 1}, &operands));

    return icl_tape_slice(pass->tape, shape_as(pass, o, seen.shape[0], seen.shape[1], steps * heads * n, 0), 2,
                          (rank - 1) * heads * n, rank * heads * n);
}

/* Returns what the queries [B T, R, H, m] of a token read from its own keys, and values [B, T, R H n], as these. */
static icl_variable read_own(const icl_sequence_pass *pass, icl_variable q, icl_variable k, icl_variable v) {
    icl_tape *tape = pass->tape;
    const icl_tensor of = icl_tape_value(tape, q), seen = icl_tape_value(tape, v);
    const icl_attention_params params = {.kind = ICL_ATTENTION_LINEAR, .scale = 1};
    const icl_variable values = shape_as(pass, v, of.shape[0], of.shape[1], of.shape[2], pass->sequence->value_width);
    const icl_variable o =
        icl_tape_attention(tape, &params, icl_tape_swap_axes(tape, q, 1, 2), icl_tape_swap_axes(tape, k, 1, 2),
                           icl_tape_swap_axes(tape, values, 1, 2));

    return shape_as(pass, icl_sequence_join(pass, o), seen.shape[0], seen.shape[1], seen.shape[2], 0);
}

/* Returns the sum over r of o [B, T, R H n] times `gather` [R H n]: [B, T, H n]. */
static icl_variable gather(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable o) {
    const icl_tensor seen = icl_tape_value(pass->tape, o);
    const size_t rank = pass->sequence->mimo_rank, values = seen.shape[2] / rank;

    if (rank == 1)
        return o;
    const icl_variable each =
        shape_as(pass, multiply_ranks(pass, o, layer->turns.gather), seen.shape[0], seen.shape[1], rank, values);
    return shape_as(pass, icl_tape_reduce(pass->tape, ICL_SUM, 1u << 2, each), seen.shape[0], seen.shape[1], values, 0);
}

/* Returns outputs [B, T, H n] that read the state behind the last token, S_t = exp(decay_t) S_(t-1) + K'_t V'_t^T with
 * the late keys and values, and the token's own keys and values. Remembers the state. */
static icl_variable read_shared(const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                                const shared_operands *of) {
    const icl_sequence_parameter spread = layer->turns.spread;
    const icl_tensor late = icl_tape_value(pass->tape, of->late_k);
    const icl_variable q = shape_as(pass, of->q, late.shape[0], late.shape[1], late.shape[2], 0);
    const icl_variable past =
        read_past(pass, layer, q, of->late_k, multiply_ranks(pass, of->late_v, spread), of->decay);
    const icl_variable now = read_own(pass, of->q, of->k, multiply_ranks(pass, of->v, spread));
    const icl_variable read = icl_tape_binary(pass->tape, ICL_ADD, past, now);

    return gather(pass, layer, icl_tape_binary(pass->tape, ICL_ADD, read, multiply_ranks(pass, of->added, spread)));
}

/* ---- The mixer ---- */

#define LEAST_RATE 1e-4

/* Gains and offsets of queries and keys, and of each r what spreads and gathers values. */
static icl_status create_constants(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t heads = sequence->heads, m = sequence->key_width, rank = sequence->mimo_rank;
    const size_t offsets = rank * heads * m, values = rank * heads * sequence->value_width;
    icl_sequence_turns *own = &layer->turns;

    ICL_CHECK(icl_sequence_add_constants(builder, &own->query_gain, layer, "mixer.query_gain", m, 1, error));
    ICL_CHECK(icl_sequence_add_constants(builder, &own->key_gain, layer, "mixer.key_gain", m, 1, error));
    ICL_CHECK(icl_sequence_add_constants(builder, &own->query_offset, layer, "mixer.query_offset", offsets, 1, error));
    ICL_CHECK(icl_sequence_add_constants(builder, &own->key_offset, layer, "mixer.key_offset", offsets, 1, error));
    ICL_CHECK(icl_sequence_add_constants(builder, &own->skip, layer, "mixer.skip", heads, 1, error));
    if (rank == 1)
        return ICL_OK;
    ICL_CHECK(
        icl_sequence_add_constants(builder, &own->spread, layer, "mixer.spread", values, 1 / (double)rank, error));
    return icl_sequence_add_constants(builder, &own->gather, layer, "mixer.gather", values, 1 / (double)rank, error);
}

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const icl_sequence_start first_step = {ICL_START_INVERSE_SOFTPLUS, 0.001, 0.1, true};
    const size_t heads = sequence->heads, width = sequence->width, m = sequence->key_width;
    icl_sequence_turns *own = &layer->turns;

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, sequence->mimo_rank, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &own->step, layer, "mixer.step", width, heads, error));
    ICL_CHECK(icl_sequence_add(builder, &own->step_bias, first_step, 1, &heads, error, "block.%zu.mixer.step_bias",
                               layer->index));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->gate, layer, "mixer.gate", width, heads, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &own->share, layer, "mixer.share", width, heads, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &own->angle, layer, "mixer.angle", width, m / 2, error));
    return create_constants(builder, layer, error);
}

/* Returns x [B, T, H n] times a factor for each head: of one shape with [B T, H, 1], or [1, H, 1]. */
static icl_variable scale_heads(const icl_sequence_pass *pass, icl_variable x, icl_variable factor) {
    const icl_tensor seen = icl_tape_value(pass->tape, x);
    const size_t heads = pass->sequence->heads, rows = seen.shape[0] * seen.shape[1], n = pass->sequence->value_width;
    const size_t factors = icl_tape_value(pass->tape, factor).rank == 1 ? 1 : rows;
    const icl_variable scaled = icl_sequence_multiply(pass->tape, shape_as(pass, x, rows, heads, n, 0),
                                                      shape_as(pass, factor, factors, heads, 1, 0));
    return shape_as(pass, scaled, seen.shape[0], seen.shape[1], heads * n, 0);
}

/* Returns x [B, T, .] a token later: behind zeros, or, for the one token of a decoder's step, what it was before. */
static icl_variable delay(const icl_sequence_pass *pass, icl_variable x) {
    icl_tape *tape = pass->tape;
    const icl_tensor seen = icl_tape_value(tape, x);
    const size_t one[] = {seen.shape[0], 1, seen.shape[2]}, last = seen.shape[1] - 1;
    size_t part;

    if (pass->memory) {
        /* A copy, because what is kept takes the place of what was. */
        const icl_variable old = icl_tape_scale(tape, 1, icl_model_memory_recall(pass->memory, tape, 3, one, &part));
        icl_model_memory_keep(pass->memory, tape, part, x);
        return old;
    }
    const icl_variable zeros = icl_tape_filled(tape, 3, one, 0);
    if (last == 0)
        return zeros;
    return icl_tape_concatenate(tape, 1, 2, (const icl_variable[]){zeros, icl_tape_slice(tape, x, 1, 0, last)});
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;
    const icl_sequence_turns *own = &layer->turns;
    const icl_sequence_heads projected = icl_sequence_project(pass, layer, x, pass->sequence->mimo_rank);
    const icl_variable step =
        icl_tape_unary(tape, ICL_SOFTPLUS, icl_sequence_linear(pass, x, own->step, own->step_bias));
    const icl_variable least = icl_tape_filled(tape, 0, NULL, LEAST_RATE);
    const icl_variable rate = icl_tape_binary(
        tape, ICL_MAXIMUM, icl_tape_unary(tape, ICL_SOFTPLUS, icl_sequence_linear(pass, x, layer->gate, 0)), least);
    const icl_variable decay = icl_tape_scale(tape, -1, icl_sequence_multiply(tape, rate, step));
    const icl_variable share = icl_tape_unary(tape, ICL_SIGMOID, icl_sequence_linear(pass, x, own->share, 0));
    const icl_variable written = icl_sequence_multiply(tape, share, step),
                       rest = icl_tape_binary(tape, ICL_SUBTRACT, step, written);
    const icl_variable late = icl_sequence_multiply(tape, icl_tape_binary(tape, ICL_ADD, delay(pass, written), rest),
                                                    icl_tape_unary(tape, ICL_EXPONENTIAL, decay));
    const icl_sequence_heads heads = turn_heads(pass, own, x, step, &projected);
    const icl_tensor k = icl_tape_value(tape, heads.k), by = icl_tape_value(tape, step);
    const icl_variable keys =
        shape_as(pass, heads.k, by.shape[0], by.shape[1], k.shape[1] * k.shape[2] * k.shape[3], 0);
    const shared_operands shared = {.q = heads.q,
                                    .k = heads.k,
                                    .late_k = delay(pass, keys),
                                    .v = scale_heads(pass, heads.v, written),
                                    .late_v = scale_heads(pass, delay(pass, heads.v), late),
                                    .added = scale_heads(pass, heads.v, icl_sequence_value(pass, own->skip)),
                                    .decay = decay};
    const icl_variable o = read_shared(pass, layer, &shared);
    return icl_sequence_emit(pass, layer, x, icl_sequence_split(pass, o, pass->sequence->value_width));
}

const icl_sequence_mixer icl_mixer_mamba3 = {
    .word = "mamba3",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_OUTPUT | ICL_READS_RANK,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
