/*
 * delta-product: delta_steps steps of the delta rule for each token, each with a key, a value and a strength of its
 * own, and then one read: Siems and others 2025 (DeltaProduct). The state's transition is a product of that many
 * reflections (strength 2), which a rotation needs.
 *
 * Time is stretched: token t becomes delta_steps writes, all with the query of t, and the last output of each is kept.
 */
#include "model/sequence/sequence.h"

static icl_status create(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const size_t steps = builder->sequence->delta_steps;

    ICL_CHECK(icl_sequence_add_matrix_state(builder, layer, steps, error));
    return icl_sequence_add_write(builder, layer, steps, error);
}

/* Repeats each token's query for all its steps: [B, H, T, m] to [B, H, T steps, m]. */
static icl_variable stretch(const icl_sequence_pass *pass, icl_variable q, size_t steps) {
    const icl_tensor seen = icl_tape_value(pass->tape, q);
    const size_t width = seen.shape[1] * seen.shape[3], tokens = seen.shape[0] * seen.shape[2];
    const icl_variable rows =
        icl_tape_reshape(pass->tape, icl_sequence_join(pass, q), 3, (const size_t[]){tokens, 1, width});
    const icl_variable zeros = icl_tape_filled(pass->tape, 3, (const size_t[]){tokens, steps, width}, 0.0);
    const icl_variable repeated = icl_tape_binary(pass->tape, ICL_ADD, zeros, rows);
    const size_t stretched[] = {seen.shape[0], seen.shape[2] * steps, width};

    return icl_sequence_split(pass, icl_tape_reshape(pass->tape, repeated, 3, stretched), seen.shape[3]);
}

/* Keeps the last of each token's outputs: [B, H, T steps, n] to [B, H, T, n]. */
static icl_variable shrink(const icl_sequence_pass *pass, icl_variable o, size_t steps) {
    const icl_tensor seen = icl_tape_value(pass->tape, o);
    const size_t positions = seen.shape[2] / steps, width = seen.shape[1] * seen.shape[3];
    const size_t by_step[] = {seen.shape[0], positions, steps, width};
    const icl_variable all = icl_tape_reshape(pass->tape, icl_sequence_join(pass, o), 4, by_step);
    const icl_variable last = icl_tape_slice(pass->tape, all, 2, steps - 1, 1);

    return icl_sequence_split(pass,
                              icl_tape_reshape(pass->tape, icl_tape_scale(pass->tape, 1.0, last), 3,
                                               (const size_t[]){seen.shape[0], positions, width}),
                              seen.shape[3]);
}

static icl_variable mix(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const size_t steps = pass->sequence->delta_steps;
    const icl_sequence_heads heads = icl_sequence_project(pass, layer, x, steps);
    const icl_variable beta = icl_sequence_write(pass, layer, x, pass->sequence->write_strength);
    const icl_recurrence_variables operands = {
        .q = steps > 1 ? stretch(pass, heads.q, steps) : heads.q, .k = heads.k, .v = heads.v, .beta = &beta};
    const icl_variable o = icl_sequence_recur(pass, layer, true, &operands);

    return icl_sequence_emit(pass, layer, x, steps > 1 ? shrink(pass, o, steps) : o);
}

const icl_sequence_mixer icl_mixer_delta_product = {
    .word = "delta-product",
    .reads = ICL_READS_KEYS | ICL_READS_VALUES | ICL_READS_CONVOLUTION | ICL_READS_FEATURES | ICL_READS_OUTPUT |
             ICL_READS_WRITES | ICL_READS_STEPS,
    .keys = ICL_KEYS_UNIT,
    .create = create,
    .mix = mix,
};
