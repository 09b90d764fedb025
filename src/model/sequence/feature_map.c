/*
 * Feature maps phi of queries and keys, x in R^m:
 *
 *     identity
 *     elu+1      x + 1 above 0, exp(x) below: Katharopoulos and others 2020
 *     relu       max(x, 0)
 *     tanh       tanh(x): Schlag, Munkhdalai, Schmidhuber 2021 (fast weight memory)
 *     dpfp:NU    r = relu([x; -x]); the products r_i r_(i - j) for j = 1..NU, indices modulo 2 m: 2 m NU numbers that
 *                are never negative (Schlag, Irie, Schmidhuber 2021, section 5.3)
 *     favor:M    exp(+-u - |x|^2 / 2) / sqrt(2 M), u = Omega^T x over M fixed random directions, with x m^(-1/4) for x:
 *                2 M numbers with phi(q) . phi(k) = exp(q . k / sqrt(m)) on average (Choromanski and others 2021)
 *     learned:M  relu(W x + b), M numbers, with W and b for each head (Kasai and others 2021); plain learned: M = m
 */
#include <math.h>

#include "model/sequence/sequence.h"

icl_status icl_sequence_add_features(icl_sequence_builder *builder, icl_sequence_layer *layer, icl_error *error) {
    const icl_sequence *sequence = builder->sequence;
    const size_t m = sequence->key_width, M = sequence->feature_width;
    const double std = sequence->init > 0 ? sequence->init : 1.0 / sqrt((double)m);

    if (sequence->feature_map == ICL_FEATURES_FAVOR)
        return icl_sequence_add(builder, &layer->features, (icl_sequence_start){ICL_START_ORTHOGONAL, 0, 0, true}, 2,
                                (const size_t[]){m, sequence->feature_count}, error, "block.%zu.mixer.directions",
                                layer->index);
    if (sequence->feature_map != ICL_FEATURES_LEARNED)
        return ICL_OK;
    ICL_CHECK(icl_sequence_add(builder, &layer->features, (icl_sequence_start){ICL_START_NORMAL, std, 0, false}, 3,
                               (const size_t[]){sequence->heads, m, M}, error, "block.%zu.mixer.features",
                               layer->index));
    return icl_sequence_add(builder, &layer->features_bias, (icl_sequence_start){ICL_START_CONSTANT, 0, 0, true}, 3,
                            (const size_t[]){sequence->heads, 1, M}, error, "block.%zu.mixer.features_bias",
                            layer->index);
}

/* Returns max(x, 0) + exp(min(x, 0)). At 0 maximum and minimum share the slope, and both halves have slope 1. */
static icl_variable elu_plus_one(icl_tape *tape, icl_variable x) {
    const icl_variable zero = icl_tape_filled(tape, 0, NULL, 0.0);
    const icl_variable below = icl_tape_binary(tape, ICL_MINIMUM, x, zero);
    return icl_tape_binary(tape, ICL_ADD, icl_tape_binary(tape, ICL_MAXIMUM, x, zero),
                           icl_tape_unary(tape, ICL_EXPONENTIAL, below));
}

/* Returns tanh(x) = 2 sigmoid(2 x) - 1, exact up to some roundings of 1. */
static icl_variable hyperbolic_tangent(const icl_sequence_pass *pass, icl_variable x) {
    const icl_variable share = icl_tape_unary(pass->tape, ICL_SIGMOID, icl_tape_scale(pass->tape, 2, x));
    return icl_sequence_add_scalar(pass, icl_tape_scale(pass->tape, 2, share), -1);
}

static icl_variable dpfp(icl_tape *tape, icl_variable x, size_t m, size_t count) {
    const icl_variable signs[] = {icl_tape_unary(tape, ICL_RELU, x),
                                  icl_tape_unary(tape, ICL_RELU, icl_tape_unary(tape, ICL_NEGATE, x))};
    const icl_variable r = icl_tape_concatenate(tape, 3, 2, signs);
    icl_variable out = r;

    for (size_t j = 1; j <= count; j++) {
        const size_t turn = j % (2 * m);
        const icl_variable parts[] = {icl_tape_slice(tape, r, 3, 2 * m - turn, turn),
                                      icl_tape_slice(tape, r, 3, 0, 2 * m - turn)};
        const icl_variable rolled = turn > 0 ? icl_tape_concatenate(tape, 3, 2, parts) : r;
        const icl_variable product = icl_tape_binary(tape, ICL_MULTIPLY, r, rolled);
        out = j == 1 ? product : icl_tape_concatenate(tape, 3, 2, (const icl_variable[]){out, product});
    }
    return out;
}

static icl_variable favor(const icl_sequence_pass *pass, icl_variable x, icl_variable directions) {
    icl_tape *tape = pass->tape;
    const double m = (double)pass->sequence->key_width, count = (double)pass->sequence->feature_count;
    const icl_variable scaled = pass->sequence->favor_as_it_is ? x : icl_tape_scale(tape, pow(m, -0.25), x);
    const icl_variable u = icl_tape_matmul(tape, 1.0, scaled, icl_tape_detach(tape, directions));
    const icl_variable half =
        icl_tape_scale(tape, 0.5, icl_tape_reduce(tape, ICL_SUM, 1u << 3, icl_tape_unary(tape, ICL_SQUARE, scaled)));
    const icl_variable exponents[] = {
        icl_tape_binary(tape, ICL_SUBTRACT, u, half),
        icl_tape_binary(tape, ICL_SUBTRACT, icl_tape_unary(tape, ICL_NEGATE, u), half),
    };
    return icl_tape_scale(tape, 1.0 / sqrt(2.0 * count),
                          icl_tape_unary(tape, ICL_EXPONENTIAL, icl_tape_concatenate(tape, 3, 2, exponents)));
}

icl_variable icl_sequence_features(const icl_sequence_pass *pass, const icl_sequence_layer *layer, icl_variable x) {
    icl_tape *tape = pass->tape;

    switch (pass->sequence->feature_map) {
    case ICL_FEATURES_ELU:
        return elu_plus_one(tape, x);
    case ICL_FEATURES_RELU:
        return icl_tape_unary(tape, ICL_RELU, x);
    case ICL_FEATURES_TANH:
        return hyperbolic_tangent(pass, x);
    case ICL_FEATURES_DPFP:
        return dpfp(tape, x, pass->sequence->key_width, pass->sequence->feature_count);
    case ICL_FEATURES_FAVOR:
        return favor(pass, x, icl_sequence_value(pass, layer->features));
    case ICL_FEATURES_LEARNED:
        x = icl_tape_matmul(tape, 1.0, x, icl_sequence_value(pass, layer->features));
        return icl_tape_unary(tape, ICL_RELU,
                              icl_tape_binary(tape, ICL_ADD, x, icl_sequence_value(pass, layer->features_bias)));
    case ICL_FEATURES_IDENTITY:
        break;
    }
    return x;
}
