/*
 * gated-delta-2: S <- Diag(exp(a_t)) S with the gate of kda, then S <- S + k_t (w_t o v_t - S^T (b_t o k_t))^T: what is
 * taken out has a share for each number of the key, what is written one for each number of the value,
 *
 *     b_t = write_strength sigmoid(x_t E + e),   w_t = sigmoid(x_t W + c)
 *
 * Gated DeltaNet-2 (arXiv 2605.22791). As the op has it: r = b o k, value w o v, beta 1.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t keys = sequence->heads * sequence->feature_width, values = sequence->heads * sequence->value_width;

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_share(builder, &layer->erase, layer, "mixer.erase", keys, error));
    ICL_CHECK(icl_sequence_add_share(builder, &layer->write, layer, "mixer.write", values, error));
    return icl_sequence_add_channel_gate(builder, layer, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence *sequence = pass->sequence;
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable erased =
        icl_sequence_share(pass, &layer->erase, x, sequence->write_strength, sequence->feature_width);
    const icl_variable written = icl_sequence_share(pass, &layer->write, x, 1.0, sequence->value_width);
    const icl_variable read_key = icl_tape_binary(pass->tape, ICL_MULTIPLY, erased, heads.k);
    const icl_variable decay = icl_sequence_channel_gate(pass, layer, x);
    const icl_recurrence_variables operands = {.q = heads.q,
                                               .k = heads.k,
                                               .v = icl_tape_binary(pass->tape, ICL_MULTIPLY, written, heads.v),
                                               .decay = &decay,
                                               .read_key = &read_key};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_gated_delta_2 = {
    .word = "gated-delta-2",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES | ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_UNIT,
    .has_sigmoid = true,
    .create = create,
    .mix = mix,
};
