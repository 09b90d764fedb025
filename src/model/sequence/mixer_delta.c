/*
 * delta: S_t = S_(t-1) + b_t k_t (v_t - S_(t-1)^T k_t)^T, o_t = S_t^T q_t: one step of gradient descent on |S^T k_t -
 * v_t|^2 / 2, of length b_t = write_strength sigmoid(x_t W + c). Schlag, Irie, Schmidhuber 2021; Yang and others 2024
 * (DeltaNet). Unit keys keep the step stable up to b_t = 2; above 1 it turns the sign of what it replaces (Grazzi and
 * others 2024).
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    return icl_sequence_add_write(builder, layer, 1, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable beta = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_recurrence_variables operands = {.q = heads.q, .k = heads.k, .v = heads.v, .beta = &beta};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_delta = {
    .word = "delta",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES,
    .keys = ICL_KEYS_UNIT,
    .create = create,
    .mix = mix,
};
