/*
 * oja: the gated form of Oja's rule, as in flash-linear-attention (Yang, Zhang, Li: gated_oja_rule),
 *
 *     S_t = S_(t-1) Diag(a_t) + beta_t (k_t - S_(t-1) Diag(a_t) v_t) v_t^T,   o_t = S_t^T q_t
 *     a_t = gate_limit sigmoid(x_t W + b)^(1 / gate_root)
 *
 * with a gate for each number of a value. It is the delta rule in which keys and values change places: the memory
 * learns the key of a value, and is asked from the other side. It is a contraction while beta |v|^2 is at most 2, so
 * values have length 1 here. Gates as those of gla: that code has the recurrence alone.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_write(builder, layer, 1, error));
    return icl_sequence_add_root_gate(builder, layer, builder->sequence->value_width, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_recurrence_params params = {
        .delta = true, .scale = icl_sequence_scale(pass->sequence, layer), .from_rows = true};
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable beta = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_variable decay = icl_sequence_root_gate(pass, layer, x, pass->sequence->value_width);
    const icl_recurrence_variables operands = {
        .q = heads.q, .k = icl_sequence_unit(pass, heads.v), .v = heads.k, .beta = &beta, .decay = &decay};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur_with(pass, layer, &params, &operands));
}

const icl_sequence_mixer icl_mixer_oja = {
    .word = "oja",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES | ICL_READS_GATE_LIMIT | ICL_READS_GATE_ROOT,
    .keys = ICL_KEYS_UNIT,
    .create = create,
    .mix = mix,
};
