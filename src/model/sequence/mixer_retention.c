/*
 * retention: S_t = g_h S_(t-1) + k_t v_t^T with g_h = 1 - 2^(-5 - h) for head h = 0, 1, …; o_t = S_t^T q_t. Sun and
 * others 2023 (RetNet); with model.positions = rotary, model.output_norm and model.output_gate it is their layer.
 */
#include <math.h>

#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    return icl_sequence_add_matrix_state(builder, layer, 1, error);
}

/* Returns log g_h [1, H, 1, 1], by log1p because g_h is near 1. */
static icl_variable make_decay(const icl_sequence_pass *pass) {
    const size_t one[] = {1, 1, 1, 1}, heads = pass->sequence->heads;
    icl_variable decay = icl_tape_filled(pass->tape, 4, one, log1p(-0x1p-5));

    for (size_t h = 1; h < heads; h++) {
        const icl_variable next = icl_tape_filled(pass->tape, 4, one, log1p(-exp2(-5.0 - (double)h)));
        decay = icl_tape_concatenate(pass->tape, 1, 2, (const icl_variable[]){decay, next});
    }
    return decay;
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable decay = make_decay(pass);
    const icl_recurrence_variables operands = {.q = heads.q, .k = heads.k, .v = heads.v, .decay = &decay};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, false, &operands));
}

const icl_sequence_mixer icl_mixer_retention = {
    .word = "retention",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
