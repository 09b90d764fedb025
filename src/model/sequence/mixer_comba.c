/*
 * comba: with the gate exp(a_t) of mamba2 and p_t = sigmoid(f) k_t,
 *
 *     S_t = exp(a_t) S_(t-1) + b_t k_t (v_t - S_(t-1)^T p_t)^T,   o_t = S_t^T (q_t - d p_t)
 *
 * feedback of the state by p_t, and of the output by d. f and d are numbers for each head; f begins at 1, d at 0.02,
 * which the authors' code names for small models. Comba (Hu and others 2025, arXiv 2506.02475), whose output gate is a
 * sigmoid. The state is read before its decay, so that r = p exp(-a), down to a = -8.
 */
#include "model/sequence/sequence.h"

#define FIRST_FEEDBACK   1.0
#define FIRST_CORRECTION 0.02

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const size_t heads = builder->sequence->heads;

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_write(builder, layer, 1, error));
    ICL_CHECK(icl_sequence_add_rate_gate(builder, layer, error));
    ICL_CHECK(
        icl_sequence_add_constants(builder, &layer->feedback, layer, "mixer.feedback", heads, FIRST_FEEDBACK, error));
    return icl_sequence_add_constants(builder, &layer->correction, layer, "mixer.correction", heads, FIRST_CORRECTION,
                                      error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable beta = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_variable decay = icl_sequence_rate_gate(pass, layer, x);
    const icl_variable share = icl_tape_unary(tape, ICL_SIGMOID, icl_sequence_by_head(pass, layer->feedback, 1));
    const icl_variable p = icl_tape_binary(tape, ICL_MULTIPLY, heads.k, share);
    const icl_variable read_key = icl_sequence_before_decay(pass, p, decay);
    const icl_variable corrected =
        icl_tape_binary(tape, ICL_MULTIPLY, p, icl_sequence_by_head(pass, layer->correction, 1));
    const icl_recurrence_variables operands = {.q = icl_tape_binary(tape, ICL_SUBTRACT, heads.q, corrected),
                                               .k = heads.k,
                                               .v = heads.v,
                                               .beta = &beta,
                                               .decay = &decay,
                                               .read_key = &read_key};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_comba = {
    .word = "comba",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES | ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_UNIT,
    .has_sigmoid = true,
    .create = create,
    .mix = mix,
};
