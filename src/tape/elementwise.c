/* Elementwise ops: unary, binary, scaled sums, dropout. g is always the gradient of the output. */
#include <assert.h>

#include "tape/record.h"

/* ---- Unary ---- */

static icl_status unary_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);
    const icl_status status = icl_tape_output(tape, node, in.rank, in.shape, error);
    return status == ICL_OK ? icl_unary(tape->backend, node->params.unary, node->value, in, error) : status;
}

/* Sets d = d out / d in, computed from in or out, whichever is cheaper. */
static icl_status unary_slope(icl_backend *backend, icl_unary_kind kind, icl_tensor d, icl_tensor in, icl_tensor out,
                              icl_error *error) {
    switch (kind) {
    case ICL_ABSOLUTE: /* sign(in) */
        return icl_unary(backend, ICL_SIGN, d, in, error);
    case ICL_SQUARE: /* 2 in */
        return icl_scale_add(backend, d, 2.0, in, 0.0, (icl_tensor){0}, error);
    case ICL_SIGMOID: /* out - out^2 */
        ICL_CHECK(icl_unary(backend, ICL_SQUARE, d, out, error));
        return icl_binary(backend, ICL_SUBTRACT, d, out, d, error);
    case ICL_RELU: /* 1 if out > 0, else 0; at 0 this is a subgradient */
        return icl_unary(backend, ICL_SIGN, d, out, error);
    case ICL_SOFTPLUS: /* sigmoid(in) */
        return icl_unary(backend, ICL_SIGMOID, d, in, error);
    case ICL_SINE: /* cos(in) */
        return icl_unary(backend, ICL_COSINE, d, in, error);
    case ICL_SILU: /* see unary_derivative for these */
    case ICL_GELU:
    case ICL_COSINE:
    case ICL_NEGATE:
    case ICL_SQUARE_ROOT:
    case ICL_RECIPROCAL:
    case ICL_EXPONENTIAL:
    case ICL_LOGARITHM:
    case ICL_HYPERBOLIC_TANGENT:
    case ICL_SIGN:
    case ICL_UNARY_COUNT:
        break;
    }
    return icl_fail(error, ICL_ERROR_INPUT, "tape: unary op %d has no derivative", (int)kind);
}

/* Sets d = g (d out / d in): directly if that saves a pass, else from unary_slope. */
static icl_status unary_derivative(icl_backend *backend, icl_unary_kind kind, icl_tensor d, icl_tensor g, icl_tensor in,
                                   icl_tensor out, icl_error *error) {
    const icl_tensor none = {0};

    switch (kind) {
    case ICL_NEGATE:
        return icl_scale_add(backend, d, -1.0, g, 0.0, none, error);
    case ICL_SQUARE_ROOT: /* 1 / (2 out) */
        ICL_CHECK(icl_scale_add(backend, d, 0.5, g, 0.0, none, error));
        return icl_binary(backend, ICL_DIVIDE, d, d, out, error);
    case ICL_RECIPROCAL: /* -out^2 */
        ICL_CHECK(icl_unary(backend, ICL_SQUARE, d, out, error));
        ICL_CHECK(icl_binary(backend, ICL_MULTIPLY, d, d, g, error));
        return icl_scale_add(backend, d, -1.0, d, 0.0, none, error);
    case ICL_EXPONENTIAL:
        return icl_binary(backend, ICL_MULTIPLY, d, g, out, error);
    case ICL_LOGARITHM:
        return icl_binary(backend, ICL_DIVIDE, d, g, in, error);
    case ICL_HYPERBOLIC_TANGENT: /* 1 - out^2 */
        ICL_CHECK(icl_unary(backend, ICL_SQUARE, d, out, error));
        ICL_CHECK(icl_binary(backend, ICL_MULTIPLY, d, d, g, error));
        return icl_binary(backend, ICL_SUBTRACT, d, g, d, error);
    case ICL_COSINE: /* -sin(in) */
        ICL_CHECK(icl_unary(backend, ICL_SINE, d, in, error));
        ICL_CHECK(icl_binary(backend, ICL_MULTIPLY, d, d, g, error));
        return icl_scale_add(backend, d, -1.0, d, 0.0, none, error);
    case ICL_SILU:
        return icl_binary(backend, ICL_SILU_SLOPE, d, in, g, error);
    case ICL_GELU:
        return icl_binary(backend, ICL_GELU_SLOPE, d, in, g, error);
    default:
        ICL_CHECK(unary_slope(backend, kind, d, in, out, error));
        return icl_binary(backend, ICL_MULTIPLY, d, d, g, error);
    }
}

static icl_status unary_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_contribution_begin(tape, node->inputs[0], gradient.rank, gradient.shape, &d, error));
    ICL_TRY(unary_derivative(tape->backend, node->params.unary, d.tensor, gradient, icl_node_input(tape, node, 0),
                             node->value, error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation unary_operation = {"unary", unary_forward, unary_backward, NULL};

icl_variable icl_tape_unary(icl_tape *tape, icl_unary_kind kind, icl_variable in) {
    return icl_tape_record(tape, &(icl_node){.operation = &unary_operation,
                                             .inputs = {in},
                                             .input_count = 1,
                                             .constant = kind == ICL_SIGN,
                                             .params.unary = kind});
}

/* ---- Binary ---- */

static icl_status broadcast_output(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor a = icl_node_input(tape, node, 0), b = icl_node_input(tape, node, 1);
    size_t shape[ICL_MAX_RANK];
    int rank;

    icl_broadcast_shape(&a, &b, &rank, shape);
    return icl_tape_output(tape, node, rank, shape, error);
}

static icl_status binary_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_status status = broadcast_output(tape, node, error);
    return status == ICL_OK ? icl_binary(tape->backend, node->params.binary, node->value, icl_node_input(tape, node, 0),
                                         icl_node_input(tape, node, 1), error)
                            : status;
}

/* The gradient of input `own` of a product: g times the other factor. */
static icl_status multiply_backward(icl_tape *tape, const icl_node *node, int own, icl_tensor g, icl_error *error) {
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_contribution_begin(tape, node->inputs[own], g.rank, g.shape, &d, error));
    ICL_TRY(icl_binary(tape->backend, ICL_MULTIPLY, d.tensor, g, icl_node_input(tape, node, 1 - own), error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

/* out = a / b: d_a = g / b, d_b = -g out / b */
static icl_status divide_backward(icl_tape *tape, const icl_node *node, int own, icl_tensor g, icl_error *error) {
    const icl_tensor divisor = icl_node_input(tape, node, 1);
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_contribution_begin(tape, node->inputs[own], g.rank, g.shape, &d, error));
    ICL_TRY(icl_binary(tape->backend, ICL_DIVIDE, d.tensor, g, divisor, error));
    if (own == 1) {
        ICL_TRY(icl_binary(tape->backend, ICL_MULTIPLY, d.tensor, d.tensor, node->value, error));
        ICL_TRY(icl_scale_add(tape->backend, d.tensor, -1.0, d.tensor, 0.0, (icl_tensor){0}, error));
    }
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

/* out = max or min (a, b): g goes to the operand that equals out; a tie is split equally: d_own = g (own = out) / ((a =
 * out) + (b = out)). */
static icl_status extreme_backward(icl_tape *tape, const icl_node *node, int own, icl_tensor g, icl_error *error) {
    icl_backend *backend = tape->backend;
    icl_contribution d = {0};
    icl_tensor winners = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_contribution_begin(tape, node->inputs[own], g.rank, g.shape, &d, error));
    ICL_TRY(icl_tensor_create(backend, g.rank, g.shape, &winners, error));
    ICL_TRY(icl_binary(backend, ICL_EQUAL, winners, icl_node_input(tape, node, 1 - own), node->value, error));
    ICL_TRY(icl_binary(backend, ICL_EQUAL, d.tensor, icl_node_input(tape, node, own), node->value, error));
    ICL_TRY(icl_binary(backend, ICL_ADD, winners, winners, d.tensor, error));
    ICL_TRY(icl_binary(backend, ICL_DIVIDE, d.tensor, d.tensor, winners, error));
    ICL_TRY(icl_binary(backend, ICL_MULTIPLY, d.tensor, d.tensor, g, error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_tensor_release(&winners);
    icl_contribution_drop(&d);
    return status;
}

static icl_status binary_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const icl_binary_kind kind = node->params.binary;

    for (int own = 0; own < 2; own++) {
        icl_status status = ICL_OK;
        if (!icl_gradient_wanted(tape, node->inputs[own]))
            continue;
        switch (kind) {
        case ICL_ADD:
            status = icl_gradient_share(tape, node->inputs[own], node, gradient, error);
            break;
        case ICL_SUBTRACT:
            status = own == 0 ? icl_gradient_share(tape, node->inputs[0], node, gradient, error)
                              : icl_gradient_add(tape, node->inputs[1], -1.0, gradient, error);
            break;
        case ICL_MULTIPLY:
            status = multiply_backward(tape, node, own, gradient, error);
            break;
        case ICL_DIVIDE:
            status = divide_backward(tape, node, own, gradient, error);
            break;
        case ICL_MAXIMUM:
        case ICL_MINIMUM:
            status = extreme_backward(tape, node, own, gradient, error);
            break;
        case ICL_EQUAL:
        case ICL_SILU_SLOPE:
        case ICL_GELU_SLOPE:
        case ICL_BINARY_COUNT:
            status = icl_fail(error, ICL_ERROR_INPUT, "tape: binary op %d has no derivative", (int)kind);
            break;
        }
        if (status != ICL_OK)
            return status;
    }
    return ICL_OK;
}

static const icl_operation binary_operation = {"binary", binary_forward, binary_backward, NULL};

icl_variable icl_tape_binary(icl_tape *tape, icl_binary_kind kind, icl_variable a, icl_variable b) {
    return icl_tape_record(tape, &(icl_node){.operation = &binary_operation,
                                             .inputs = {a, b},
                                             .input_count = 2,
                                             .constant = kind == ICL_EQUAL,
                                             .params.binary = kind});
}

/* ---- Scaled sums ---- */

static icl_status scale_add_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_status status = broadcast_output(tape, node, error);
    return status == ICL_OK
               ? icl_scale_add(tape->backend, node->value, node->params.scale.alpha, icl_node_input(tape, node, 0),
                               node->params.scale.beta, icl_node_input(tape, node, 1), error)
               : status;
}

static icl_status scale_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);
    const icl_status status = icl_tape_output(tape, node, in.rank, in.shape, error);
    return status == ICL_OK
               ? icl_scale_add(tape->backend, node->value, node->params.scale.alpha, in, 0.0, (icl_tensor){0}, error)
               : status;
}

static icl_status scale_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    const double factors[] = {node->params.scale.alpha, node->params.scale.beta};

    assert(node->input_count <= 2);
    for (int i = 0; i < node->input_count; i++) {
        const icl_status status = factors[i] == 1.0
                                      ? icl_gradient_share(tape, node->inputs[i], node, gradient, error)
                                      : icl_gradient_add(tape, node->inputs[i], factors[i], gradient, error);
        if (status != ICL_OK)
            return status;
    }
    return ICL_OK;
}

static const icl_operation scale_add_operation = {"scale_add", scale_add_forward, scale_backward, NULL};
static const icl_operation scale_operation = {"scale", scale_forward, scale_backward, NULL};

icl_variable icl_tape_scale_add(icl_tape *tape, double alpha, icl_variable a, double beta, icl_variable b) {
    return icl_tape_record(tape, &(icl_node){.operation = &scale_add_operation,
                                             .inputs = {a, b},
                                             .input_count = 2,
                                             .params.scale = {alpha, beta}});
}

icl_variable icl_tape_scale(icl_tape *tape, double alpha, icl_variable a) {
    return icl_tape_record(
        tape,
        &(icl_node){.operation = &scale_operation, .inputs = {a}, .input_count = 1, .params.scale = {.alpha = alpha}});
}

/* ---- Dropout ---- */

/* The calls of a tape take numbers this far apart. */
#define NUMBERS_OF_A_CALL (UINT64_C(1) << 40)

/* node->saved becomes the factors: 0, or 1 / (1 - share). */
static icl_status draw_factors(const icl_tape *tape, icl_node *node, icl_error *error) {
    const double share = node->params.drop_out.share;
    const icl_tensor in = icl_node_input(tape, node, 0);
    const uint64_t sequence = in.rank > 0 && in.shape[0] > 0 ? icl_tensor_count(&in) / in.shape[0] : 1;
    const icl_random_params draws = {
        .key = tape->dropout.key,
        .first_index = node->params.drop_out.call * NUMBERS_OF_A_CALL + tape->dropout.first_sequence * sequence,
        .distribution = ICL_UNIFORM,
        .low = (float)-share,
        .high = (float)(1 - share),
    };

    ICL_CHECK(icl_tensor_create(tape->backend, in.rank, in.shape, &node->saved, error));
    ICL_CHECK(icl_random_fill(tape->backend, &draws, node->saved, error));
    ICL_CHECK(icl_unary(tape->backend, ICL_SIGN, node->saved, node->saved, error));
    ICL_CHECK(icl_unary(tape->backend, ICL_RELU, node->saved, node->saved, error));
    return icl_scale_add(tape->backend, node->saved, 1 / (1 - share), node->saved, 0, (icl_tensor){0}, error);
}

static icl_status drop_out_forward(icl_tape *tape, icl_node *node, icl_error *error) {
    const icl_tensor in = icl_node_input(tape, node, 0);

    ICL_CHECK(icl_tape_output(tape, node, in.rank, in.shape, error));
    ICL_CHECK(draw_factors(tape, node, error));
    return icl_binary(tape->backend, ICL_MULTIPLY, node->value, in, node->saved, error);
}

static icl_status drop_out_backward(icl_tape *tape, const icl_node *node, icl_tensor gradient, icl_error *error) {
    icl_contribution d = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_contribution_begin(tape, node->inputs[0], gradient.rank, gradient.shape, &d, error));
    ICL_TRY(icl_binary(tape->backend, ICL_MULTIPLY, d.tensor, gradient, node->saved, error));
    ICL_TRY(icl_contribution_end(tape, &d, error));
done:
    icl_contribution_drop(&d);
    return status;
}

static const icl_operation drop_out_operation = {"drop_out", drop_out_forward, drop_out_backward, NULL};

void icl_tape_set_dropout(icl_tape *tape, icl_dropout_numbers numbers) {
    tape->drops_out = true;
    tape->dropout = numbers;
    tape->dropout_calls = 0;
}

icl_variable icl_tape_drop_out(icl_tape *tape, double share, icl_variable in) {
    if (!tape->drops_out || share == 0)
        return in;
    return icl_tape_record(tape, &(icl_node){.operation = &drop_out_operation,
                                             .inputs = {in},
                                             .input_count = 1,
                                             .params.drop_out = {share, tape->dropout_calls++}});
}
