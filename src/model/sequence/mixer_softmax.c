/*
 * softmax: o_t = sum_s softmax_s(q_t . k_s / sqrt(m)) v_s over s <= t, or over all s (model.causal = false). Vaswani
 * and others 2017. Its recurrent form keeps every key and value. In the last layer only the scored positions ask, if
 * they are the last ones.
 */
#include <math.h>

#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_heads(builder, layer, 1, error));
    return icl_sequence_add_output(builder, layer, error);
}

/* Returns the positions that ask. They are the scored ones only if these come last, so that the mask fits, and if no
 * filter of queries reads those before, too. */
static icl_variable asked_of(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const bool are_last = pass->first_scored + pass->scored == icl_tape_value(pass->tape, x).shape[1];
    return pass->is_last && are_last && !layer->query_filter ? icl_sequence_keep_scored(pass, x) : x;
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_attention_params params = {
        .kind = ICL_ATTENTION_SOFTMAX,
        .mask = pass->sequence->causal ? ICL_MASK_CAUSAL : ICL_MASK_NONE,
        .scale = 1.0 / sqrt((double)pass->sequence->key_width),
    };
    const icl_variable asked = asked_of(pass, layer, x);
    icl_sequence_heads heads = icl_sequence_project_for(pass, layer, x, asked, 1);

    if (pass->memory) {
        heads.k = icl_model_memory_append(pass->memory, pass->tape, heads.k);
        heads.v = icl_model_memory_append(pass->memory, pass->tape, heads.v);
    }
    if (pass->watch && pass->watch->attention)
        pass->watch->attention(pass->watch->user, pass, layer, &params, &heads);
    return icl_sequence_emit(pass, layer, asked, icl_tape_attention(pass->tape, &params, heads.q, heads.k, heads.v));
}

const icl_sequence_mixer icl_mixer_softmax = {
    .word = "softmax",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION,
    .is_two_sided = true,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
