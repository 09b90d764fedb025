/*
 * Elementwise ops and random numbers.
 *
 * One correctly rounded operation has relative error u. Division and the elementary functions take the limits of the
 * OpenCL 1.2 specification, table 7.1 (1 ulp is at most 2u relative): divide and reciprocal 2.5 ulp, sqrt 3 ulp, exp
 * and log 3 ulp, tanh 5 ulp.
 */
#include <math.h>

#include "conformance/cases.h"

#define ULP 2.0 /* in units of u */

static const double divide_error = 2.5 * ULP;

/* The exact value, and its relative error bound in units of u. */
static double unary_truth(icl_unary_kind kind, double x, double *units) {
    *units = 0;
    switch (kind) {
    case ICL_NEGATE:
        return -x;
    case ICL_ABSOLUTE:
        return fabs(x);
    case ICL_SQUARE:
        *units = 1;
        return x * x;
    case ICL_SQUARE_ROOT:
        *units = 3 * ULP;
        return sqrt(x);
    case ICL_RECIPROCAL:
        *units = divide_error;
        return 1 / x;
    case ICL_EXPONENTIAL:
        *units = 3 * ULP;
        return exp(x);
    case ICL_LOGARITHM:
        *units = 3 * ULP;
        return log(x);
    case ICL_HYPERBOLIC_TANGENT:
        *units = 5 * ULP;
        return tanh(x);
    case ICL_SIGMOID:
        /* e = exp(-x) (1 + 6u); 1 + e rounds once, and e's error counts at most in full; then one division. */
        *units = 3 * ULP + 1 + divide_error;
        return 1 / (1 + exp(-x));
    case ICL_RELU:
        return isnan(x) ? x : fmax(x, 0);
    case ICL_SIGN:
        return isnan(x) ? x : (double)((x > 0) - (x < 0));
    case ICL_UNARY_COUNT:
        break;
    }
    return (double)NAN;
}

static double binary_truth(icl_binary_kind kind, double a, double b, double *units) {
    *units = 0;
    switch (kind) {
    case ICL_ADD:
        *units = 1;
        return a + b;
    case ICL_SUBTRACT:
        *units = 1;
        return a - b;
    case ICL_MULTIPLY:
        *units = 1;
        return a * b;
    case ICL_DIVIDE:
        *units = divide_error;
        return a / b;
    case ICL_MAXIMUM:
        return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
    case ICL_MINIMUM:
        return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
    case ICL_EQUAL:
        return a == b;
    case ICL_BINARY_COUNT:
        break;
    }
    return (double)NAN;
}

/* out = fl(fl(alpha a) + fl(beta b)): the products' errors, and the sum's. */
static double scale_add_truth(const icl_truth *truth, double a, double b, double *bound) {
    const double alpha_a = icl_device_rounded(truth, truth->c->params.scale_add.alpha) * a;
    const double beta_b = icl_device_rounded(truth, truth->c->params.scale_add.beta) * b;
    *bound = icl_gamma(2, truth->unit) * (fabs(alpha_a) + fabs(beta_b));
    return alpha_a + beta_b;
}

/* The element of a broadcast operand that meets element `index` of the output. */
static double broadcast_element(const icl_truth *truth, int operand, size_t index) {
    const icl_case *c = truth->c;
    size_t position = 0, stride = 1;

    if (c->rank[operand] < 0)
        return 0;
    for (int axis = c->rank[0] - 1, own = c->rank[operand] - 1; own >= 0; axis--, own--) {
        const size_t coordinate = index % c->shape[0][axis];
        index /= c->shape[0][axis];
        if (c->shape[operand][own] != 1)
            position += coordinate * stride;
        stride *= c->shape[operand][own];
    }
    return truth->operand[operand][position];
}

icl_status icl_truth_elementwise(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t count = icl_case_count(c, 0);
    (void)error;

    for (size_t i = 0; i < count; i++) {
        const double a = c->op == ICL_OP_fill ? 0 : broadcast_element(truth, 1, i);
        double *out = &truth->operand[0][i], *bound = &truth->bound[0][i], units = 0;
        switch (c->op) {
        case ICL_OP_fill:
            *out = icl_device_rounded(truth, c->params.value);
            break;
        case ICL_OP_copy:
            *out = a;
            break;
        case ICL_OP_unary:
            *out = unary_truth(c->params.unary, a, &units);
            break;
        case ICL_OP_binary:
            *out = binary_truth(c->params.binary, a, broadcast_element(truth, 2, i), &units);
            break;
        default:
            *out = scale_add_truth(truth, a, broadcast_element(truth, 2, i), bound);
            continue;
        }
        *bound = units * truth->unit * fabs(*out);
    }
    return ICL_OK;
}

icl_status icl_truth_random_fill(icl_truth *truth, icl_error *error) {
    (void)error;
    for (size_t i = 0; i < icl_case_count(truth->c, 0); i++) {
        truth->operand[0][i] = (double)icl_random_value(&truth->c->params.random, i);
        truth->bound[0][i] = 0;
    }
    return ICL_OK;
}
