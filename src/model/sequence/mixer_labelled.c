/*
 * labelled: o_t = sum_s softmax_s(q_t . k_s / sqrt(m)) v_s over the positions s whose last input is not 0: rows of a
 * table whose label is known (task.family = tables). Every row asks, and none sees a row without a label, so that rows
 * to be predicted do not change each other's outputs. With model.causal = false and model.positions = none another
 * order of the rows changes nothing but rounding.
 *
 * A row without a label adds -10^4 to the logits of its queries. Beside any row with a label its weight is exp(-10^4)
 * times something, which is 0 in floats and in doubles, as long as the other logits differ by less than 9,000. If no
 * row has a label, all weigh as softmax has it.
 */
#include "model/sequence/sequence.h"

#define UNSEEN (-1e4)

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    if (builder->model->shape.symbols > 0)
        return icl_model_refuse(builder->model, "coordinates, the last of which says which rows have a label", error);
    return icl_sequence_add_attention(builder, layer, error);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_tensor seen = icl_tape_value(pass->tape, pass->inputs);
    const size_t rows[] = {seen.shape[0], 1, seen.shape[1], 1}, heads[] = {1, icl_sequence_heads_of(pass), 1, 1};
    const icl_variable flag = icl_tape_slice(pass->tape, pass->inputs, 2, seen.shape[2] - 1, 1);
    const icl_variable zero = icl_tape_filled(pass->tape, 0, NULL, 0);
    const icl_variable without =
        icl_tape_reshape(pass->tape, icl_tape_binary(pass->tape, ICL_EQUAL, flag, zero), 4, rows);
    const icl_variable offset =
        icl_sequence_multiply(pass->tape, without, icl_tape_filled(pass->tape, 4, heads, UNSEEN));

    return icl_sequence_attend(pass, layer, x, &offset);
}

const icl_sequence_mixer icl_mixer_labelled = {
    .word = "labelled",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_OUTPUT_GATE,
    .is_two_sided = true,
    .keys = ICL_KEYS_AS_THEY_ARE,
    .has_sigmoid = true,
    .create = create,
    .mix = mix,
};
