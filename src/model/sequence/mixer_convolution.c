/*
 * conv: y_t = (F * x)_t (x_t W + b): a causal convolution of width model.convolution with a filter for each channel,
 * times a projection. BaseConv of Arora and others 2023 (Zoology).
 */
#include <math.h>

#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const double std = sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)sequence->convolution);

    ICL_CHECK(icl_sequence_add(builder, &layer->value_filter, (icl_sequence_start){ICL_START_NORMAL, std, 0, false}, 2,
                               (const size_t[]){sequence->convolution, sequence->width}, error,
                               "block.%zu.mixer.filter", layer->index));
    ICL_CHECK(icl_sequence_add_residual(builder, &layer->output, layer, "mixer.output", sequence->width,
                                        sequence->width, error));
    return icl_sequence_add_constants(builder, &layer->write.bias, layer, "mixer.output_bias", sequence->width, 0,
                                      error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    return icl_tape_binary(pass->tape, ICL_MULTIPLY, icl_sequence_convolve(pass, x, layer->value_filter),
                           icl_sequence_linear(pass, x, layer->output, layer->write.bias));
}

const icl_sequence_mixer icl_mixer_convolution = {
    .word = "conv",
    .reads = ICL_READS_CONVOLUTION,
    .create = create,
    .mix = mix,
};
