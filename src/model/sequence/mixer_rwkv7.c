/*
 * rwkv7: S_t = Diag(exp(g_t)) S_(t-1) - (c_t o a_t) (S_(t-1)^T c_t)^T + k'_t v_t^T, with
 *
 *     g_t = -exp(-1/2) sigmoid(tanh(x_t F) G + w)     a decay for each number of the key, F [width, n], G [n, H m]
 *     a_t = sigmoid(x_t E + e)                        how much is taken out, for each number of the key
 *     c_t = k_t o z / |k_t o z|,   k'_t = k_t o (1 + (a_t - 1) o u)
 *
 * the core of RWKV-7 (Peng and others 2025, arXiv 2503.14456); without its mixing of tokens, for which
 * model.convolution stands, its residual of values and its bonus for the current token. It takes out what the state
 * holds before the decay, and the op reads it after, so that r = c exp(-g). z and u begin at 1, and exp(g) between .9
 * and .999.
 */
#include <math.h>

#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t keys = sequence->heads * sequence->feature_width;
    const icl_sequence_start odds = {ICL_START_LOG_UNIFORM, 0.0015, 0.22, true};

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_low_rank(builder, layer, sequence->value_width, odds, error));
    ICL_CHECK(icl_sequence_add_share(builder, &layer->erase, layer, "mixer.erase", keys, error));
    ICL_CHECK(icl_sequence_add_constants(builder, &layer->removal, layer, "mixer.removal", keys, 1, error));
    return icl_sequence_add_constants(builder, &layer->blend, layer, "mixer.blend", keys, 1, error);
}

static icl_variable make_decay(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;
    const icl_variable low =
        icl_tape_unary(tape, ICL_HYPERBOLIC_TANGENT, icl_sequence_linear(pass, x, layer->gate_rank, 0));
    const icl_variable share =
        icl_tape_unary(tape, ICL_SIGMOID, icl_sequence_linear(pass, low, layer->gate, layer->gate_bias));

    return icl_sequence_split(pass, icl_tape_scale(tape, -exp(-0.5), share), pass->sequence->feature_width);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;
    const size_t m = pass->sequence->feature_width;
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable decay = make_decay(pass, layer, x);
    const icl_variable a = icl_sequence_share(pass, &layer->erase, x, 1.0, m);
    const icl_variable scaled =
        icl_tape_binary(tape, ICL_MULTIPLY, heads.k, icl_sequence_by_head(pass, layer->removal, m));
    const icl_variable removal = icl_sequence_unit(pass, scaled);
    const icl_variable read_key = icl_sequence_before_decay(pass, removal, decay);
    const icl_variable less = icl_tape_binary(tape, ICL_MULTIPLY, icl_sequence_add_scalar(pass, a, -1.0),
                                              icl_sequence_by_head(pass, layer->blend, m));
    const icl_variable write_key =
        icl_tape_binary(tape, ICL_MULTIPLY, heads.k, icl_sequence_add_scalar(pass, less, 1.0));
    const icl_recurrence_variables operands = {.q = heads.q,
                                               .k = icl_tape_binary(tape, ICL_MULTIPLY, removal, a),
                                               .v = heads.v,
                                               .decay = &decay,
                                               .read_key = &read_key,
                                               .write_key = &write_key};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_rwkv7 = {
    .word = "rwkv7",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
