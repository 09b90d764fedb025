/*
 * softmax: o_t = sum_s softmax_s(q_t . k_s / sqrt(m)) v_s over s <= t, or over all s (model.causal = false), or over
 * t - w < s <= t (model.window = w). Vaswani and others 2017; windows: Beltagy and others 2020 (Longformer). Its
 * recurrent form keeps every key and value, or those of the last w - 1 positions. With model.sinks a learned exp(z) for
 * each head stands in the divisor, too, which a query can give its weight to (Xiao and others 2024; as gpt-oss has it).
 */
#include "model/sequence/sequence.h"

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    return icl_sequence_attend(pass, layer, x, NULL);
}

const icl_sequence_mixer icl_mixer_softmax = {
    .word = "softmax",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_OUTPUT_GATE | ICL_READS_SINKS |
             ICL_READS_WINDOW,
    .is_two_sided = true,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .has_sigmoid = true,
    .create = icl_sequence_add_attention,
    .mix = mix,
};
