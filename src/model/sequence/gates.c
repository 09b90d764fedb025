/*
 * Gates: factors of states, as their natural logarithms, and shares between 0 and 1, that depend on the token.
 *
 * A rate gate is -exp(A) softplus(.), the step of Mamba-2 (Dao and Gu 2024): exp(A) begins uniform in (1, 16) and
 * softplus(bias) log-uniform in (0.001, 0.1).
 */
#include <math.h>
#include <stdio.h>

#include "model/sequence/sequence.h"

#define FIRST_KEPT  4.0 /* sigmoid(4) = .98: a model begins with a long memory */
#define MOST_GROWTH 8.0 /* the gradient of a read key is off by a rounding times exp(-decay), up to 3,000 */

static const icl_sequence_start first_step = {ICL_START_INVERSE_SOFTPLUS, 0.001, 0.1, true};

static icl_variable limit(const icl_sequence_pass *pass, icl_variable decay) {
    const double most = pass->sequence->gate_limit;
    return most < 1.0 ? icl_sequence_add_scalar(pass, decay, log(most)) : decay;
}

/* ---- A rate gate for each head ---- */

static icl_status add_rate(icl_sequence_builder *builder, icl_sequence_parameter *rate, const icl_sequence_layer *layer,
                           const char *name, icl_error *error) {
    const icl_sequence_start start = {ICL_START_LOG_UNIFORM, 1, 16, true};
    return icl_sequence_add(builder, rate, start, 1, &builder->sequence->heads, error, "block.%zu.%s_rate",
                            layer->index, name);
}

icl_status icl_sequence_add_rate_of(icl_sequence_builder *builder, icl_sequence_rate *gate,
                                    const icl_sequence_layer *layer, const char *name, icl_error *error) {
    const size_t width = builder->sequence->width, heads = builder->sequence->heads;

    ICL_CHECK(icl_sequence_add_matrix(builder, &gate->weight, layer, name, width, heads, error));
    ICL_CHECK(
        icl_sequence_add(builder, &gate->bias, first_step, 1, &heads, error, "block.%zu.%s_bias", layer->index, name));
    return add_rate(builder, &gate->rate, layer, name, error);
}

icl_variable icl_sequence_rate_of(const icl_sequence_pass *pass, const icl_sequence_rate *gate, icl_variable x) {
    icl_tape *tape = pass->tape;
    const icl_variable rate = icl_tape_unary(tape, ICL_EXPONENTIAL, icl_sequence_value(pass, gate->rate));
    const icl_variable time =
        icl_tape_unary(tape, ICL_SOFTPLUS, icl_sequence_linear(pass, x, gate->weight, gate->bias));
    const icl_variable decay = icl_tape_scale(tape, -1.0, icl_tape_binary(tape, ICL_MULTIPLY, time, rate));

    return icl_sequence_split(pass, limit(pass, decay), 1);
}

/* ---- Gates of low rank, and a rate gate for each number of a key ---- */

icl_status icl_sequence_add_low_rank(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t rank,
                                     icl_sequence_start start, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t gates = sequence->heads * sequence->feature_width;

    ICL_CHECK(
        icl_sequence_add_matrix(builder, &layer->gate_rank, layer, "mixer.gate_down", sequence->width, rank, error));
    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->gate, layer, "mixer.gate_up", rank, gates, error));
    return icl_sequence_add(builder, &layer->gate_bias, start, 1, &gates, error, "block.%zu.mixer.gate_bias",
                            layer->index);
}

icl_status icl_sequence_add_channel_gate(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    ICL_CHECK(icl_sequence_add_low_rank(builder, layer, builder->sequence->value_width, first_step, error));
    return add_rate(builder, &layer->gate_rate, layer, "mixer.gate", error);
}

icl_variable icl_sequence_channel_gate(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;
    const icl_variable rate = icl_tape_unary(tape, ICL_EXPONENTIAL, icl_sequence_value(pass, layer->gate_rate));
    const icl_variable low = icl_sequence_linear(pass, x, layer->gate_rank, 0);
    const icl_variable time =
        icl_tape_unary(tape, ICL_SOFTPLUS, icl_sequence_linear(pass, low, layer->gate, layer->gate_bias));
    const size_t heads = pass->sequence->heads, by_head[] = {heads, 1, 1};
    const icl_variable split = icl_sequence_split(pass, time, pass->sequence->feature_width);
    const icl_variable decay = icl_tape_binary(tape, ICL_MULTIPLY, split, icl_tape_reshape(tape, rate, 3, by_head));

    return limit(pass, icl_tape_scale(tape, -1.0, decay));
}

/* ---- Roots of sigmoids, for each channel ---- */

icl_status icl_sequence_add_root_gate(icl_sequence_builder *builder, icl_sequence_layer *layer, size_t channels,
                                      icl_error *error) {
    const size_t width = builder->sequence->width, gates = builder->sequence->heads * channels;

    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->gate, layer, "mixer.gate", width, gates, error));
    return icl_sequence_add_constants(builder, &layer->gate_bias, layer, "mixer.gate_bias", gates, 0, error);
}

/* Returns log sigmoid(x) = -softplus(-x). */
static icl_variable log_sigmoid(const icl_sequence_pass *pass, icl_variable x) {
    const icl_variable opposite = icl_tape_unary(pass->tape, ICL_NEGATE, x);
    return icl_tape_unary(pass->tape, ICL_NEGATE, icl_tape_unary(pass->tape, ICL_SOFTPLUS, opposite));
}

icl_variable icl_sequence_root_gate(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x,
                                    size_t channels) {
    const icl_variable gate = log_sigmoid(pass, icl_sequence_linear(pass, x, layer->gate, layer->gate_bias));
    const icl_variable decay = icl_tape_scale(pass->tape, 1.0 / pass->sequence->gate_root, gate);

    return icl_sequence_split(pass, limit(pass, decay), channels);
}

/* ---- What a state keeps, for each head ---- */

icl_status icl_sequence_add_kept(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const size_t width = builder->sequence->width, heads = builder->sequence->heads;

    ICL_CHECK(icl_sequence_add_matrix(builder, &layer->gate, layer, "mixer.gate", width, heads, error));
    return icl_sequence_add_constants(builder, &layer->gate_bias, layer, "mixer.gate_bias", heads, FIRST_KEPT, error);
}

icl_variable icl_sequence_kept(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    const icl_variable gate = log_sigmoid(pass, icl_sequence_linear(pass, x, layer->gate, layer->gate_bias));
    return icl_sequence_split(pass, limit(pass, gate), 1);
}

icl_variable icl_sequence_before_decay(const icl_sequence_pass *pass, icl_variable key, icl_variable decay) {
    icl_tape *tape = pass->tape;
    const icl_variable opposite = icl_tape_scale(tape, -1.0, decay);
    const icl_variable most = icl_tape_filled(tape, 0, NULL, MOST_GROWTH);
    const icl_variable growth =
        icl_tape_unary(tape, ICL_EXPONENTIAL, icl_tape_binary(tape, ICL_MINIMUM, opposite, most));

    return icl_tape_binary(tape, ICL_MULTIPLY, key, growth);
}

/* ---- Shares ---- */

icl_status icl_sequence_add_share(icl_sequence_builder *builder, icl_sequence_share_of *share,
                                  const icl_sequence_layer *layer, const char *name, size_t count, icl_error *error) {
    char bias[64];

    snprintf(bias, sizeof bias, "%s_bias", name);
    ICL_CHECK(icl_sequence_add_matrix(builder, &share->weight, layer, name, builder->sequence->width, count, error));
    return icl_sequence_add_constants(builder, &share->bias, layer, bias, count, 0, error);
}

icl_variable icl_sequence_share(const icl_sequence_pass *pass, const icl_sequence_share_of *share, icl_variable x,
                                double largest, size_t width) {
    const icl_variable part =
        icl_tape_unary(pass->tape, ICL_SIGMOID, icl_sequence_linear(pass, x, share->weight, share->bias));
    return icl_sequence_split(pass, largest == 1.0 ? part : icl_tape_scale(pass->tape, largest, part), width);
}
