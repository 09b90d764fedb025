/*
 * gsa: gated slot attention, Zhang and others 2024 (arXiv 2409.07146). Each of model.slots slots has a key and a value
 * that average those of the tokens, the newest with the largest weights, and a token reads the slots by softmax:
 *
 *     K_t = Diag(a_t) K_(t-1) + (1 - a_t) k_t^T,   V_t = Diag(a_t) V_(t-1) + (1 - a_t) v_t^T
 *     o_t = V_t^T softmax(K_t q_t),   a_t = gate_limit sigmoid(x_t W + b)^(1 / gate_root)
 *
 * So a token is written to the slots whose gates are open, and forgotten at the same rate. Both are recurrences with
 * 1 - a_t as their key; K_t q_t reads the first from the side of its slots. The authors have gate_root = 8, SiLU as the
 * feature map and of the values, no scale of the products, and SiLU of the output before its norm.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    return icl_sequence_add_root_gate(builder, layer, builder->sequence->slots, error);
}

static icl_variable softmax(icl_tape *tape, icl_variable x) {
    const icl_variable largest = icl_tape_detach(tape, icl_tape_reduce(tape, ICL_MAX, 1u << 3, x));
    const icl_variable weights = icl_tape_unary(tape, ICL_EXPONENTIAL, icl_tape_binary(tape, ICL_SUBTRACT, x, largest));
    return icl_tape_binary(tape, ICL_DIVIDE, weights, icl_tape_reduce(tape, ICL_SUM, 1u << 3, weights));
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_recurrence_params by_slot = {.scale = icl_sequence_scale(pass->sequence, layer), .from_rows = true};
    const icl_recurrence_params by_value = {.scale = 1};
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable decay = icl_sequence_root_gate(pass, layer, x, pass->sequence->slots);
    const icl_variable kept = icl_tape_unary(pass->tape, ICL_EXPONENTIAL, decay);
    icl_recurrence_variables operands = {.q = heads.q, .v = heads.k, .decay = &decay};

    operands.k = icl_sequence_add_scalar(pass, icl_tape_unary(pass->tape, ICL_NEGATE, kept), 1);
    operands.q = softmax(pass->tape, icl_sequence_recur_with(pass, layer, &by_slot, &operands));
    operands.v = heads.v;
    return icl_sequence_emit(pass, layer, x, icl_sequence_recur_with(pass, layer, &by_value, &operands));
}

const icl_sequence_mixer icl_mixer_gsa = {
    .word = "gsa",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_GATE_LIMIT | ICL_READS_GATE_ROOT | ICL_READS_SLOTS,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
