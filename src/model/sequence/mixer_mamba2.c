/*
 * mamba2: S_t = exp(a_t) S_(t-1) + k_t v_t^T, o_t = S_t^T q_t, with one gate for each head,
 *
 *     a_t = -exp(A) softplus(x_t W + dt)
 *
 * the core of Mamba-2 (Dao and Gu 2024), called simple gated linear attention elsewhere; without its scaling of v_t by
 * the step, and with queries, keys and values as all mixers here have them.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    return icl_sequence_add_rate_gate(builder, layer, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable decay = icl_sequence_rate_gate(pass, layer, x);
    const icl_recurrence_variables operands = {.q = heads.q, .k = heads.k, .v = heads.v, .decay = &decay};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, false, &operands));
}

const icl_sequence_mixer icl_mixer_mamba2 = {
    .word = "mamba2",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
