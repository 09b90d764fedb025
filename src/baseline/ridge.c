/*
 * Ridge regression: the posterior mean of w ~ N(0, I) under label noise of variance s2, w = (X^T X + s2 I)^-1 X^T y.
 *
 * Three that need no fitting: the oracle, which is told s2 = sigma^2; least squares, s2 = 0 (the minimum-norm
 * solution where n < d); and one constant for all sequences. The expected loss of ridge is affine in the true sigma^2,
 * so the best constant is E[sigma^2] exactly. And one whose constant is fitted, for what is not the best.
 */
#include <math.h>
#include <stdio.h>

#include "baseline/filter_fit.h"
#include "core/print.h"
#include "iclab/status.h"

typedef struct constant_ridge {
    double noise_variance;
} constant_ridge;

static void oracle_filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    (void)state;
    icl_ridge_filter(spectrum->eigenvalues, spectrum->dimension, sigma * sigma, filter);
}

static void constant_filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    (void)sigma;
    icl_ridge_filter(spectrum->eigenvalues, spectrum->dimension, ((const constant_ridge *)state)->noise_variance,
                     filter);
}

static void create_constant(const icl_task_prior *prior, size_t steps, void *state) {
    (void)steps;
    ((constant_ridge *)state)->noise_variance = prior->mean_square_noise;
}

const icl_estimator icl_oracle = {.name = "oracle", .filter = oracle_filter};

const icl_estimator icl_least_squares = {
    .name = "ols",
    .state_size = sizeof(constant_ridge), /* of no noise */
    .filter = constant_filter,
};

const icl_estimator icl_constant_ridge = {
    .name = "constrr",
    .state_size = sizeof(constant_ridge),
    .create = create_constant,
    .filter = constant_filter,
};

/* ---- A fitted constant ---- */

/* icl_filter_model: 1 / (lambda + e^c), whose derivative by c is -e^c / (lambda + e^c)^2. */
static double evaluate(const void *shape, const double *coefficients, double eigenvalue, double *gradient) {
    const double noise_variance = exp(coefficients[0]), value = 1 / (eigenvalue + noise_variance);

    (void)shape;
    if (gradient)
        gradient[0] = -noise_variance * value * value;
    return value;
}

/* From several starts around the eigenvalues, for the distance may have more than one minimum where the
 * target is no ridge. */
static icl_status fit(void *state, const icl_fit_set *set, icl_error *error) {
    enum { STARTS = 6 };
    const icl_filter_fit ridge = {
        .model = evaluate, .coefficient_count = 1, .sequences = set->count, .iterations = 100};
    const double middle = log(icl_fit_set_mean_eigenvalue(set));
    double least = HUGE_VAL;

    for (int i = 0; i < STARTS; i++) {
        double coefficient = middle + 2 - 2 * i, distance;
        ICL_CHECK(icl_filter_minimize(&ridge, set, &coefficient, &distance, error));
        if (distance < least) {
            least = distance;
            ((constant_ridge *)state)->noise_variance = exp(coefficient);
        }
    }
    return ICL_OK;
}

static void describe(const void *state, char *text, size_t capacity) {
    icl_print(text, capacity, "penalty %.6g", ((const constant_ridge *)state)->noise_variance);
}

const icl_estimator icl_fitted_ridge = {
    .name = "ridge",
    .state_size = sizeof(constant_ridge),
    .create = create_constant,
    .fit = fit,
    .filter = constant_filter,
    .describe = describe,
};
