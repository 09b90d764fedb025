/*
 * Ridge regression: the posterior mean of w ~ N(0, I) under label noise of variance s2, w = (X^T X + s2 I)^-1 X^T y.
 *
 * Three that need no fitting: the oracle, which is told s2 = sigma^2; least squares, s2 = 0 (the minimum-norm
 * solution where n < d); and one constant for all sequences. The expected loss of ridge is affine in the true sigma^2,
 * so the best constant is E[sigma^2] exactly.
 */
#include "baseline/estimator.h"

typedef struct constant_ridge {
    double noise_variance;
} constant_ridge;

static void oracle_filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    (void)state;
    icl_ridge_filter(spectrum, sigma * sigma, filter);
}

static void constant_filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    (void)sigma;
    icl_ridge_filter(spectrum, ((const constant_ridge *)state)->noise_variance, filter);
}

static void create_least_squares(const icl_task_prior *prior, size_t steps, void *state) {
    (void)prior;
    (void)steps;
    ((constant_ridge *)state)->noise_variance = 0;
}

static void create_constant(const icl_task_prior *prior, size_t steps, void *state) {
    (void)steps;
    ((constant_ridge *)state)->noise_variance = prior->mean_square_noise;
}

const icl_estimator icl_oracle = {.name = "oracle", .filter = oracle_filter};

const icl_estimator icl_least_squares = {
    .name = "ols",
    .state_size = sizeof(constant_ridge),
    .create = create_least_squares,
    .filter = constant_filter,
};

const icl_estimator icl_constant_ridge = {
    .name = "constrr",
    .state_size = sizeof(constant_ridge),
    .create = create_constant,
    .filter = constant_filter,
};
