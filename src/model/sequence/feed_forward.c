/*
 * The part that each position computes by itself, hidden = model.feed_forward_factor * width:
 *
 *     relu, gelu:  f(x U + a) D + b
 *     swiglu:      (silu(x G) * x U) D                   Shazeer 2020, without biases
 *     quadratic:   (x G * x U) D                         the bilinear map, which adds products of two coordinates
 */
#include "model/sequence/sequence.h"

static bool is_gated(icl_feed_forward kind) {
    return kind == ICL_FEED_FORWARD_SWIGLU || kind == ICL_FEED_FORWARD_QUADRATIC;
}

icl_status icl_sequence_add_feed_forward(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;

    if (sequence->feed_forward == ICL_FEED_FORWARD_NONE)
        return ICL_OK;
    if (is_gated(sequence->feed_forward))
        ICL_CHECK(icl_sequence_add_matrix(builder, &layer->gated, layer, "feed_forward.gate", sequence->width,
                                          sequence->hidden, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->up, layer, "feed_forward.up", sequence->width, sequence->hidden,
                                      error));
    if (!is_gated(sequence->feed_forward))
        ICL_CHECK(icl_sequence_add_constants(builder, &layer->up_bias, layer, "feed_forward.up_bias", sequence->hidden,
                                             0, error));
    ICL_CHECK(icl_sequence_add_residual(builder, &layer->down, layer, "feed_forward.down", sequence->hidden,
                                        sequence->width, error));
    if (!is_gated(sequence->feed_forward))
        ICL_CHECK(icl_sequence_add_constants(builder, &layer->down_bias, layer, "feed_forward.down_bias",
                                             sequence->width, 0, error));
    return ICL_OK;
}

icl_variable icl_sequence_feed_forward(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_variable hidden = icl_sequence_linear(pass, x, layer->up, layer->up_bias), gate;

    switch (pass->sequence->feed_forward) {
    case ICL_FEED_FORWARD_RELU:
        hidden = icl_tape_unary(pass->tape, ICL_RELU, hidden);
        break;
    case ICL_FEED_FORWARD_GELU:
        hidden = icl_tape_unary(pass->tape, ICL_GELU, hidden);
        break;
    case ICL_FEED_FORWARD_SWIGLU:
        gate = icl_tape_unary(pass->tape, ICL_SILU, icl_sequence_linear(pass, x, layer->gated, 0));
        hidden = icl_tape_binary(pass->tape, ICL_MULTIPLY, gate, hidden);
        break;
    case ICL_FEED_FORWARD_QUADRATIC:
        gate = icl_sequence_linear(pass, x, layer->gated, 0);
        hidden = icl_tape_binary(pass->tape, ICL_MULTIPLY, gate, hidden);
        break;
    case ICL_FEED_FORWARD_NONE:
        break;
    }
    return icl_sequence_linear(pass, hidden, layer->down, layer->down_bias);
}
