/* The parts that all mixers with a matrix state S [m, n] for each head share. */
#include <math.h>

#include "model/sequence/sequence.h"

icl_status icl_sequence_add_matrix_state(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t steps,
                                         icl_error *error) {
    ICL_CHECK(icl_sequence_add_heads(builder, layer, steps, error));
    ICL_CHECK(icl_sequence_add_features(builder, layer, error));
    return icl_sequence_add_output(builder, layer, error);
}

double icl_sequence_scale(const icl_sequence *sequence, const icl_sequence_layer *layer) {
    const icl_key_norm norm = sequence->normalize_keys == ICL_KEYS_AUTO ? layer->mixer->keys : sequence->normalize_keys;
    const bool plain = norm == ICL_KEYS_AS_THEY_ARE && sequence->feature_map == ICL_FEATURES_IDENTITY;
    return plain ? 1.0 / sqrt((double)sequence->key_width) : 1.0;
}

icl_variable icl_sequence_remember(const icl_sequence_pass *pass, const icl_recurrence_params *params,
                                   const icl_recurrence_variables *operands) {
    const icl_tensor k = icl_tape_value(pass->tape, operands->k), v = icl_tape_value(pass->tape, operands->v);
    const size_t shape[] = {k.shape[0] > v.shape[0] ? k.shape[0] : v.shape[0],
                            k.shape[1] > v.shape[1] ? k.shape[1] : v.shape[1], k.shape[3], v.shape[3]};
    icl_recurrence_variables with = *operands;
    icl_variable before, after, out;
    size_t part;

    if (!pass->memory)
        return icl_tape_recurrence(pass->tape, params, operands, NULL);
    before = icl_model_memory_recall(pass->memory, pass->tape, 4, shape, &part);
    with.state = &before;
    out = icl_tape_recurrence(pass->tape, params, &with, &after);
    icl_model_memory_keep(pass->memory, pass->tape, part, after);
    return out;
}

icl_variable icl_sequence_recur_with(const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                                     const icl_recurrence_params *params, const icl_recurrence_variables *operands) {
    if (pass->watch && pass->watch->recurrence)
        pass->watch->recurrence(pass->watch->user, pass, layer, params->delta, operands);
    return icl_sequence_remember(pass, params, operands);
}

icl_variable icl_sequence_recur(const icl_sequence_pass *pass, const icl_sequence_layer *layer, bool delta,
                                const icl_recurrence_variables *operands) {
    const icl_recurrence_params params = {.delta = delta, .scale = icl_sequence_scale(pass->sequence, layer)};
    return icl_sequence_recur_with(pass, layer, &params, operands);
}

/* ---- Strength of writing ---- */

icl_status icl_sequence_add_write(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t steps,
                                  icl_error *error) {
    return icl_sequence_add_share(builder, &layer->write, layer, "mixer.write", steps * builder->sequence->heads,
                                  error);
}

icl_variable icl_sequence_write(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                double strength) {
    return icl_sequence_share(pass, &layer->write, x, strength, 1);
}
