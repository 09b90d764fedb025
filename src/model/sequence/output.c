/*
 * Maps the heads' outputs back to the width by a norm of each head (Sun and others 2023, RetNet), a gate and a
 * projection:
 *
 *     y = (norm(o) * silu(x G)) W
 *
 * The gate is sigmoid(x G) in attention (Qiu and others 2025) and in mixers whose authors have it so. Attention has no
 * norm.
 */
#include "model/sequence/sequence.h"

#define EPSILON 1e-5

icl_status icl_sequence_add_output(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t values = sequence->heads * sequence->value_width;
    const unsigned reads = layer->mixer->reads;

    if ((reads & ICL_READS_OUTPUT) && sequence->output_norm != ICL_NORMS_NONE)
        ICL_CHECK(icl_sequence_add_constants(builder, &layer->output_gain, layer, "mixer.output_gain",
                                             sequence->value_width, 1, error));
    if ((reads & (ICL_READS_OUTPUT | ICL_READS_OUTPUT_GATE)) && sequence->output_gate)
        ICL_CHECK(icl_sequence_add_matrix(builder, &layer->output_gate, layer, "mixer.output_gate", sequence->width,
                                          values, error));
    return icl_sequence_add_residual(builder, &layer->output, layer, "mixer.output", values, sequence->width, error);
}

icl_variable icl_sequence_emit(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                               icl_variable o) {
    const icl_normalize_params params = {pass->sequence->output_norm == ICL_NORMS_LAYER ? ICL_NORM_LAYER : ICL_NORM_RMS,
                                         EPSILON};

    /* The heads are laid side by side first, because attention and recurrences lay them out so. */
    o = icl_tape_swap_axes(pass->tape, o, 1, 2);
    if (layer->output_gain) {
        const icl_variable gain = icl_sequence_value(pass, layer->output_gain);
        o = icl_tape_normalize(pass->tape, &params, o, &gain, NULL);
    }
    o = icl_sequence_join(pass, icl_tape_swap_axes(pass->tape, o, 1, 2));
    if (layer->output_gate) {
        const icl_variable gate = icl_sequence_linear(pass, x, layer->output_gate, 0);
        const icl_unary_kind kind = layer->mixer->has_sigmoid ? ICL_SIGMOID : ICL_SILU;
        o = icl_tape_binary(pass->tape, ICL_MULTIPLY, o, icl_tape_unary(pass->tape, kind, gate));
    }
    return icl_sequence_linear(pass, o, layer->output, 0);
}
