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

icl_variable icl_sequence_recur(const icl_sequence_pass *pass, const icl_sequence_layer *layer, bool delta,
                                const icl_recurrence_variables *operands) {
    const icl_recurrence_params params = {.delta = delta, .scale = icl_sequence_scale(pass->sequence, layer)};
    const icl_tensor k = icl_tape_value(pass->tape, operands->k), v = icl_tape_value(pass->tape, operands->v);
    icl_recurrence_variables with = *operands;
    icl_variable before, after, out;
    size_t part;

    if (pass->watch && pass->watch->recurrence)
        pass->watch->recurrence(pass->watch->user, pass, layer, delta, operands);
    if (!pass->memory)
        return icl_tape_recurrence(pass->tape, &params, operands, NULL);
    before = icl_model_memory_recall(pass->memory, pass->tape, 4,
                                     (const size_t[]){k.shape[0], k.shape[1], k.shape[3], v.shape[3]}, &part);
    with.state = &before;
    out = icl_tape_recurrence(pass->tape, &params, &with, &after);
    icl_model_memory_keep(pass->memory, pass->tape, part, after);
    return out;
}

/* ---- Strength of writing ---- */

icl_status icl_sequence_add_write(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t steps,
                                  icl_error *error) {
    const size_t width = builder->sequence->width, heads = steps * builder->sequence->heads;

    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->write, layer, "mixer.write", width, heads, error));
    return icl_sequence_add_constants(builder, &layer->write_bias, layer, "mixer.write_bias", heads, 0, error);
}

icl_variable icl_sequence_write(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                double strength) {
    const icl_variable share =
        icl_tape_unary(pass->tape, ICL_SIGMOID, icl_sequence_linear(pass, x, layer->write, layer->write_bias));
    return icl_sequence_split(pass, strength == 1.0 ? share : icl_tape_scale(pass->tape, strength, share), 1);
}

/* ---- The gate of Mamba-2 ---- */

/* exp(A) begins uniform in (1, 16), softplus(dt) log-uniform in (0.001, 0.1): Dao and Gu 2024, and Gated DeltaNet. */
icl_status icl_sequence_add_rate_gate(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const size_t width = builder->sequence->width, heads = builder->sequence->heads;

    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->gate, layer, "mixer.gate", width, heads, error));
    ICL_CHECK(icl_sequence_add(builder, &layer->gate_bias,
                               (icl_sequence_start){ICL_START_INVERSE_SOFTPLUS, 0.001, 0.1, true}, 1, &heads, error,
                               "block.%zu.mixer.gate_bias", layer->index));
    return icl_sequence_add(builder, &layer->gate_rate, (icl_sequence_start){ICL_START_LOG_UNIFORM, 1, 16, true}, 1,
                            &heads, error, "block.%zu.mixer.gate_rate", layer->index);
}

icl_variable icl_sequence_rate_gate(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;
    const double limit = pass->sequence->gate_limit;
    const icl_variable rate = icl_tape_unary(tape, ICL_EXPONENTIAL, icl_sequence_value(pass, layer->gate_rate));
    const icl_variable time =
        icl_tape_unary(tape, ICL_SOFTPLUS, icl_sequence_linear(pass, x, layer->gate, layer->gate_bias));
    const icl_variable decay = icl_tape_scale(tape, -1.0, icl_tape_binary(tape, ICL_MULTIPLY, time, rate));

    return icl_sequence_split(pass, limit < 1.0 ? icl_sequence_add_scalar(pass, decay, log(limit)) : decay, 1);
}
