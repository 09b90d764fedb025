/*
 * gla: S_t = Diag(g_t) S_(t-1) + k_t v_t^T, o_t = S_t^T q_t, with a gate for each number of the key,
 *
 *     g_t = gate_limit sigmoid(x_t A B + b)^(1 / gate_root),   A [width, 16], gate_root = 16
 *
 * Yang and others 2024 (gated linear attention), whose gates have rank 16 and are near 1.
 */
#include "model/sequence/sequence.h"

#define GATE_RANK 16

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence_start start = {ICL_START_CONSTANT, 0, 0, true};

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    return icl_sequence_add_low_rank(builder, layer, GATE_RANK, start, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable low = icl_sequence_linear(pass, x, layer->gate_rank, 0);
    const icl_variable decay = icl_sequence_root_gate(pass, layer, low, pass->sequence->feature_width);
    const icl_recurrence_variables operands = {.q = heads.q, .k = heads.k, .v = heads.v, .decay = &decay};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, false, &operands));
}

const icl_sequence_mixer icl_mixer_gla = {
    .word = "gla",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_GATE_LIMIT | ICL_READS_GATE_ROOT,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
