/*
 * titans: a step of gradient descent on |S^T k_t - v_t|^2 / 2 with weight decay,
 *
 *     S_t = (1 - a_t) S_(t-1) - b_t k_t (S_(t-1)^T k_t - v_t)^T
 *
 * the linear memory without momentum of Titans (Behrouz, Zhong, Mirrokni 2024, arXiv 2501.00663), and with a_t = 0
 * TTT-Linear with batches of one token and without its norm (Sun and others 2024). 1 - a_t = gate_limit sigmoid(x_t W +
 * c) is a number for each head that begins near .98. The gradient is that at S_(t-1), before the decay, so that r = k /
 * (1 - a), down to 1 - a = exp(-8). Unit keys keep the step stable while a_t + b_t <= 2.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_write(builder, layer, 1, error));
    return icl_sequence_add_kept(builder, layer, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable beta = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_variable decay = icl_sequence_kept(pass, layer, x);
    const icl_variable read_key = icl_sequence_before_decay(pass, heads.k, decay);
    const icl_recurrence_variables operands = {
        .q = heads.q, .k = heads.k, .v = heads.v, .beta = &beta, .decay = &decay, .read_key = &read_key};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_titans = {
    .word = "titans",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES | ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_UNIT,
    .create = create,
    .mix = mix,
};
