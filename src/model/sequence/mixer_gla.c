/*
 * gla: S_t = Diag(g_t) S_(t-1) + k_t v_t^T, o_t = S_t^T q_t, with a gate for each number of the key,
 *
 *     g_t = gate_limit sigmoid(x_t A B + b)^(1 / gate_root),   A [width, 16], gate_root = 16
 *
 * Yang and others 2024 (gated linear attention), whose gates have rank 16 and are near 1.
 */
#include <math.h>

#include "model/sequence/sequence.h"

#define GATE_RANK 16

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence_start start = {ICL_START_CONSTANT, 0, 0, true};

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    return icl_sequence_add_low_rank(builder, layer, GATE_RANK, start, error);
}

static icl_variable make_decay(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence *sequence = pass->sequence;
    const icl_variable low = icl_sequence_linear(pass, x, layer->gate_rank, 0);
    const icl_variable gate =
        icl_sequence_log_sigmoid(pass, icl_sequence_linear(pass, low, layer->gate, layer->gate_bias));
    const icl_variable decay = icl_tape_scale(pass->tape, 1.0 / sequence->gate_root, gate);

    return icl_sequence_split(
        pass, sequence->gate_limit < 1.0 ? icl_sequence_add_scalar(pass, decay, log(sequence->gate_limit)) : decay,
        sequence->feature_width);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable decay = make_decay(pass, layer, x);
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
