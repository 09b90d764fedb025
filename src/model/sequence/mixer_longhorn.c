/*
 * longhorn: S_t minimizes |S - S_(t-1)|^2 + b_t |S^T k_t - v_t|^2, whose solution is the delta rule with a step that
 * cannot overshoot,
 *
 *     S_t = S_(t-1) + b_t / (1 + b_t |k_t|^2) k_t (v_t - S_(t-1)^T k_t)^T,   b_t = write_strength sigmoid(x_t W + c)
 *
 * Longhorn (Liu and others 2024, arXiv 2407.14207), whose code keeps only the diagonal of k k^T. Keys of any length are
 * stable, so that they stay as they are.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, 1, error));
    return icl_sequence_add_write(builder, layer, 1, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    const icl_variable b = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_variable squares = icl_tape_reduce(tape, ICL_SUM_OF_SQUARES, 1u << 3, heads.k);
    const icl_variable divisor = icl_sequence_add_scalar(pass, icl_tape_binary(tape, ICL_MULTIPLY, b, squares), 1.0);
    const icl_variable beta = icl_tape_binary(tape, ICL_DIVIDE, b, divisor);
    const icl_recurrence_variables operands = {.q = heads.q, .k = heads.k, .v = heads.v, .beta = &beta};

    return icl_sequence_emit(pass, layer, x, icl_sequence_recur(pass, layer, true, &operands));
}

const icl_sequence_mixer icl_mixer_longhorn = {
    .word = "longhorn",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
