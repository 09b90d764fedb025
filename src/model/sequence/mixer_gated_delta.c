/*
 * gated-delta: the state decays by the gate of mamba2 before each step of the delta rule. Yang, Kautz, Hatamizadeh 2024
 * (Gated DeltaNet).
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_write(builder, layer, 1, error));
    return icl_sequence_add_rate_gate(builder, layer, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable beta = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_variable decay = icl_sequence_rate_gate(pass, layer, x);
    const icl_recurrence_variables operands = {
        .q = heads.q, .k = heads.k, .v = heads.v, .beta = &beta, .decay = &decay};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_gated_delta = {
    .word = "gated-delta",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES | ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_UNIT,
    .create = create,
    .mix = mix,
};
