/*
 * fox: o_t = sum_s softmax_s(q_t . k_s / sqrt(m) + c_t - c_s) v_s over s <= t, c_t = sum_(s <= t) log f_s, with a gate
 * f_t = gate_limit sigmoid(x_t W + b) for each head that begins near .98: attention that forgets (Lin and others 2025,
 * arXiv 2503.02130). c_t is the same for all keys of a query, so that only -c_s stands in the logits. The recurrent
 * form keeps every key and value, and the running sum c; in floats a logit is off by |c| 2^-24.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_attention(builder, layer, error));
    return icl_sequence_add_kept(builder, layer, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_variable one = icl_tape_filled(pass->tape, 4, (const size_t[]){1, 1, 1, 1}, 1);
    const icl_recurrence_variables sum = {.q = one, .k = one, .v = icl_sequence_kept(pass, layer, x)};
    const icl_variable offset = icl_sequence_remember(pass, &(icl_recurrence_params){.scale = -1.0}, &sum);

    return icl_sequence_attend(pass, layer, x, &offset);
}

const icl_sequence_mixer icl_mixer_fox = {
    .word = "fox",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_OUTPUT_GATE | ICL_READS_GATE_LIMIT,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .has_sigmoid = true,
    .create = create,
    .mix = mix,
};
