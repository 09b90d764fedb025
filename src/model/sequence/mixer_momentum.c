/*
 * momentum: the sum rule with a heavy ball, m_t = b m_(t-1) + k_t v_t^T, S_t = S_(t-1) + m_t, o_t = S_t^T q_t, b =
 * model.momentum. Nguyen and others 2022 (Momentum Transformer). Since
 *
 *     S_t = sum over s <= t of (1 - b^(t - s + 1)) / (1 - b) k_s v_s^T
 *
 * it is (U_t - b D_t) / (1 - b) of two plain recurrences: the sum U and the sum D that decays by b.
 */
#include <math.h>

#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    return icl_sequence_add_matrix_state(builder, layer, 1, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const double b = pass->sequence->momentum;
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    icl_recurrence_variables operands = {.q = heads.q, .k = heads.k, .v = heads.v};
    icl_variable o = icl_sequence_recur(pass, layer, false, &operands);

    if (b > 0) {
        const icl_variable decay = icl_tape_filled(pass->tape, 4, (const size_t[]){1, 1, 1, 1}, log(b));
        operands.decay = &decay;
        const icl_variable decayed = icl_sequence_recur(pass, layer, false, &operands);
        o = icl_tape_scale_add(pass->tape, 1.0 / (1.0 - b), o, -b / (1.0 - b), decayed);
    }
    return icl_sequence_emit(pass, layer, x, o);
}

const icl_sequence_mixer icl_mixer_momentum = {
    .word = "momentum",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_MOMENTUM,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
