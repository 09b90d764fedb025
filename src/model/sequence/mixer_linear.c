/*
 * linear: S_t = S_(t-1) + phi(k_t) v_t^T, o_t = S_t^T phi(q_t), over phi(q_t) . sum_s phi(k_s) + 1e-6 with
 * model.normalizer. Katharopoulos and others 2020. With model.causal = false S is the sum over all positions.
 *
 * With features that may be 0 (relu, dpfp, learned) a query can have weight 0 for all keys. Since no feature is
 * negative, all weights are 0 if their sum is. The output is then 0, and so is its gradient, because in a product
 * phi(q) phi(k) = 0 one factor is a relu at rest, which the other one multiplies.
 */
#include "model/sequence/sequence.h"

#define EPSILON 1e-6 /* added to the divisor */

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    return icl_sequence_add_matrix_state(builder, layer, 1, error);
}

static icl_variable attend(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable q,
                           icl_variable k, icl_variable v) {
    const icl_attention_params params = {.kind = ICL_ATTENTION_LINEAR,
                                         .scale = icl_sequence_scale(pass->sequence, layer)};

    if (pass->sequence->causal)
        return icl_sequence_recur(pass, layer, false, &(icl_recurrence_variables){.q = q, .k = k, .v = v});
    return icl_tape_attention(pass->tape, &params, q, k, v);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, 1);
    icl_variable o = attend(pass, layer, heads.q, heads.k, heads.v);

    if (pass->sequence->normalizer) {
        const icl_tensor v = icl_tape_value(pass->tape, heads.v);
        const size_t shape[] = {v.shape[0], v.shape[1], v.shape[2], 1};
        const icl_variable ones = icl_tape_filled(pass->tape, 4, shape, 1.0);
        const icl_variable sum = attend(pass, layer, heads.q, heads.k, ones);
        o = icl_tape_binary(pass->tape, ICL_DIVIDE, o, icl_sequence_add_scalar(pass, sum, EPSILON));
    }
    return icl_sequence_emit(pass, layer, x, o);
}

const icl_sequence_mixer icl_mixer_linear = {
    .word = "linear",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_NORMALIZER |
             ICL_READS_OUTPUT,
    .is_two_sided = true,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .create = create,
    .mix = mix,
};
