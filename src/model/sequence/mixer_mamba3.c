/*
 * mamba3: S_t = a_t (S_(t-1) + (1 - l_t) d_t K_(t-1) V_(t-1)^T) + l_t d_t K_t V_t^T,   o_t = S_t^T q_t + D v_t, with
 *
 *     d_t = softplus(x_t W + w)            the step of time, for each head
 *     a_t = exp(-max(softplus(x_t G), 1e-4) d_t),   l_t = sigmoid(x_t L)
 *
 * the trapezoidal rule between tokens. Queries and keys have an RMS norm and an offset, which begins at 1, and turn
 * (turns.c), as a state of complex numbers does. Mamba-3 (arXiv 2603.15569). There is no scale of the products. With
 * model.mimo_rank > 1 a token has several queries and keys (shared_state.c), the authors' MIMO form, who also multiply
 * the output's gate for each of them. They turn half of the numbers by default, and here all turn.
 *
 * The op computes C_t, which is S_t without its last term and takes up the token before with both of its weights:
 *     C_t = a_t C_(t-1) + a_t (l_(t-1) d_(t-1) + (1 - l_t) d_t) K_(t-1) V_(t-1)^T
 * The last term is attention of a token's queries to its own keys.
 */
#include "model/sequence/sequence.h"

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
    const icl_variable scaled = icl_sequence_multiply(pass->tape, icl_sequence_shape(pass, x, rows, heads, n, 0),
                                                      icl_sequence_shape(pass, factor, factors, heads, 1, 0));
    return icl_sequence_shape(pass, scaled, seen.shape[0], seen.shape[1], heads * n, 0);
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
    const icl_sequence_heads heads = icl_sequence_turn(pass, own, x, step, &projected);
    const icl_tensor k = icl_tape_value(tape, heads.k), by = icl_tape_value(tape, step);
    const icl_variable keys =
        icl_sequence_shape(pass, heads.k, by.shape[0], by.shape[1], k.shape[1] * k.shape[2] * k.shape[3], 0);
    const icl_sequence_shared shared = {.q = heads.q,
                                        .k = heads.k,
                                        .late_k = delay(pass, keys),
                                        .v = scale_heads(pass, heads.v, written),
                                        .late_v = scale_heads(pass, delay(pass, heads.v), late),
                                        .added = scale_heads(pass, heads.v, icl_sequence_value(pass, own->skip)),
                                        .decay = decay};
    const icl_variable o = icl_sequence_read_shared(pass, layer, &shared);
    return icl_sequence_emit(pass, layer, x, icl_sequence_split(pass, o, pass->sequence->value_width));
}

const icl_sequence_mixer icl_mixer_mamba3 = {
    .word = "mamba3",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_OUTPUT | ICL_READS_RANK,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
