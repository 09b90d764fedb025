#include "iclab/loss.h"

#include <math.h>

#include "tape/record.h"

enum { POSITIONS_AND_OUTPUTS = 6, OUTPUTS = 4 }; /* axes of [B, S, q] */

const char *icl_loss_name(icl_loss_kind kind) {
    static const char *const names[ICL_LOSS_COUNT] = {"squared error", "cross-entropy", "logistic"};
    return kind < ICL_LOSS_COUNT ? names[kind] : "unknown";
}

size_t icl_loss_target_size(icl_loss_kind kind, size_t outputs) {
    return kind == ICL_LOSS_CROSS_ENTROPY ? 1 : outputs;
}

bool icl_loss_has_accuracy(icl_loss_kind kind) {
    return kind != ICL_LOSS_SQUARED_ERROR;
}

/* ---- On the host ---- */

static double squared_error_of(size_t count, const double *outputs, const double *target) {
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += (outputs[k] - target[k]) * (outputs[k] - target[k]);
    return sum;
}

static size_t largest_of(size_t count, const double *values) {
    size_t largest = 0;
    for (size_t k = 1; k < count; k++)
        if (values[k] > values[largest])
            largest = k;
    return largest;
}

static double cross_entropy_of(size_t count, const double *outputs, double class) {
    const double largest = outputs[largest_of(count, outputs)];
    double sum = 0;

    if (!(class >= 0 && class < (double)count) || class != floor(class))
        return (double)NAN;
    for (size_t k = 0; k < count; k++)
        sum += exp(outputs[k] - largest);
    return log(sum) - (outputs[(size_t) class] - largest);
}

static double logistic_of(size_t count, const double *outputs, const double *target) {
    double sum = 0;
    for (size_t k = 0; k < count; k++)
        sum += fmax(outputs[k], 0) + log1p(exp(-fabs(outputs[k]))) - target[k] * outputs[k];
    return sum;
}

double icl_loss_of(icl_loss_kind kind, size_t count, const double *outputs, const double *target) {
    if (kind == ICL_LOSS_CROSS_ENTROPY)
        return cross_entropy_of(count, outputs, *target);
    return kind == ICL_LOSS_LOGISTIC ? logistic_of(count, outputs, target) : squared_error_of(count, outputs, target);
}

/* Returns the expected accuracy if ties are broken at random: a model that knows nothing gets 1 / count, whichever
 * class is right. */
static double accuracy_of_class(size_t count, const double *outputs, double class) {
    const double largest = outputs[largest_of(count, outputs)];
    size_t ties = 0;

    for (size_t k = 0; k < count; k++)
        ties += outputs[k] == largest;
    return class >= 0 && class < (double)count && outputs[(size_t) class] == largest ? 1 / (double)ties : 0;
}

double icl_loss_accuracy(icl_loss_kind kind, size_t count, const double *outputs, const double *target) {
    size_t right = 0;

    if (kind == ICL_LOSS_CROSS_ENTROPY)
        return accuracy_of_class(count, outputs, *target);
    for (size_t k = 0; k < count; k++)
        right += (outputs[k] > 0) == (target[k] == 1);
    return (double)right / (double)count;
}

/* ---- On the tape ---- */

/* Returns the variable's value as a constant, which passes no gradient on. */
static icl_variable detached(icl_tape *tape, icl_variable variable) {
    return icl_tape_constant(tape, icl_tape_value(tape, variable));
}

/* Computes m + log(exp(-m) + exp(z - m)) - y z with m = max(z, 0), which passes no gradient on: the result is smooth at
 * z = 0, as the loss is. */
static icl_variable logistic(icl_tape *tape, icl_variable outputs, icl_variable targets) {
    const icl_variable positive = detached(tape, icl_tape_unary(tape, ICL_RELU, outputs));
    const icl_variable of_zero = icl_tape_unary(tape, ICL_EXPONENTIAL, icl_tape_unary(tape, ICL_NEGATE, positive));
    const icl_variable of_output =
        icl_tape_unary(tape, ICL_EXPONENTIAL, icl_tape_binary(tape, ICL_SUBTRACT, outputs, positive));
    const icl_variable rest = icl_tape_unary(tape, ICL_LOGARITHM, icl_tape_binary(tape, ICL_ADD, of_zero, of_output));

    return icl_tape_binary(tape, ICL_SUBTRACT, icl_tape_binary(tape, ICL_ADD, positive, rest),
                           icl_tape_binary(tape, ICL_MULTIPLY, targets, outputs));
}

static bool has_shape(const icl_tensor *tensor, size_t sequences, size_t positions, size_t width) {
    return icl_same_shape(tensor, 3, (const size_t[]){sequences, positions, width});
}

static bool shapes_fit(icl_tape *tape, icl_loss_kind kind, const icl_tensor *outputs, const icl_tensor *targets,
                       const icl_tensor *weights) {
    const size_t *shape = outputs->shape;

    if (tape->error.status != ICL_OK)
        return false;
    if (outputs->rank == 3 && shape[1] > 0 && shape[2] > 0 &&
        has_shape(targets, shape[0], shape[1], icl_loss_target_size(kind, shape[2])) &&
        (!weights->buffer || has_shape(weights, shape[0], shape[1], 1)))
        return true;
    icl_fail(&tape->error, ICL_ERROR_INPUT,
             "tape: %s of outputs [%zu, %zu, %zu] (rank %d) and targets [%zu, %zu, %zu] (rank %d), expected as "
             "many sequences and positions, %zu numbers as the target of one, and a weight for each, if any",
             icl_loss_name(kind), shape[0], shape[1], shape[2], outputs->rank, targets->shape[0], targets->shape[1],
             targets->shape[2], targets->rank, icl_loss_target_size(kind, shape[2]));
    return false;
}

icl_variable icl_tape_loss(icl_tape *tape, icl_loss_kind kind, icl_variable outputs, icl_tensor targets,
                           icl_tensor weights) {
    const icl_tensor value = icl_tape_value(tape, outputs);
    icl_variable y, terms, sum;

    if (!shapes_fit(tape, kind, &value, &targets, &weights))
        return (icl_variable){-1};
    y = icl_tape_constant(tape, targets);
    if (kind == ICL_LOSS_SQUARED_ERROR)
        terms = icl_tape_binary(tape, ICL_SUBTRACT, outputs, y);
    else
        terms = kind == ICL_LOSS_LOGISTIC ? logistic(tape, outputs, y) : icl_tape_cross_entropy(tape, outputs, y);
    if (kind == ICL_LOSS_SQUARED_ERROR && !weights.buffer) {
        sum = icl_tape_reduce(tape, ICL_SUM_OF_SQUARES, POSITIONS_AND_OUTPUTS, terms);
    } else {
        if (kind == ICL_LOSS_SQUARED_ERROR)
            terms = icl_tape_unary(tape, ICL_SQUARE, terms);
        if (weights.buffer)
            terms = icl_tape_binary(tape, ICL_MULTIPLY, terms, icl_tape_constant(tape, weights));
        sum = icl_tape_reduce(tape, ICL_SUM, POSITIONS_AND_OUTPUTS, terms);
    }
    return value.shape[1] == 1 ? sum : icl_tape_scale(tape, 1.0 / (double)value.shape[1], sum);
}
