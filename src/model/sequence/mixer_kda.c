/*
 * kda: S <- Diag(exp(a_t)) S, then the step of delta, with a gate for each number of the key,
 *
 *     a_t = -exp(A) softplus(x_t F G + dt),   F [width, n], G [n, H m], A a number for each head
 *
 * Kimi delta attention (Kimi Team 2025, arXiv 2510.26692), whose output gate is a sigmoid.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_write(builder, layer, 1, error));
    return icl_sequence_add_channel_gate(builder, layer, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable beta = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_variable decay = icl_sequence_channel_gate(pass, layer, x);
    const icl_recurrence_variables operands = {
        .q = heads.q, .k = heads.k, .v = heads.v, .beta = &beta, .decay = &decay};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_kda = {
    .word = "kda",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES | ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_UNIT,
    .has_sigmoid = true,
    .create = create,
    .mix = mix,
};
