/*
 * The Bayes-optimal predictor against a direct computation with explicit Gaussian densities: y ~ N(0, X C C^T X^T +
 * sigma^2 I) through a Cholesky factor, mixtures summed term by term, the uniform prior on a fine grid of sigma.
 */
#include <math.h>

#include "../task/frame.h"
#include "baseline/estimator.h"
#include "iclab/random.h"

enum { MOST = 24, GRID = 10000 };

static double normal(uint64_t index) {
    return (double)icl_normal_from_word(icl_random_word((icl_random_key){.seed = 9, .stream = 78}, index));
}

/* Makes tokens with noise `sigma` and weights `scale` times the prior's. */
static void make_tokens(const icl_task_prior *prior, uint64_t first, double sigma, double scale, float *tokens) {
    const size_t n = prior->context, d = prior->dimension;
    double weights[MOST] = {0}, normals[MOST];

    for (size_t k = 0; k < d; k++)
        for (size_t j = 0; j < d; j++)
            weights[k] += scale * normal(first + j) * (prior->weight_root ? prior->weight_root[k * d + j] : k == j);
    for (size_t i = 0; i <= n; i++) {
        float *token = tokens + i * (d + 1);
        double label = sigma * normal(first + 5000 + i);
        for (size_t j = 0; j < d; j++)
            normals[j] = normal(first + 100 + i * d + j);
        for (size_t k = 0; k < d; k++) {
            double input = 0;
            for (size_t j = 0; j < d; j++)
                input += normals[j] * (prior->covariance_root ? prior->covariance_root[k * d + j] : k == j);
            token[k] = (float)input;
            label += (double)token[k] * weights[k];
        }
        token[d] = i < n ? (float)label : 0;
    }
}

/* x_i^T C C^T x_j */
static double prior_product(const icl_task_prior *prior, const float *a, const float *b) {
    const size_t d = prior->dimension;
    double sum = 0;
    for (size_t k = 0; k < d; k++) {
        double left = 0, right = 0;
        for (size_t j = 0; j < d; j++) {
            const double root = prior->weight_root ? prior->weight_root[j * d + k] : j == k;
            left += (double)a[j] * root;
            right += (double)b[j] * root;
        }
        sum += left * right;
    }
    return sum;
}

/* The prior_product of all inputs [n + 1][n + 1], and the labels [n]. */
typedef struct problem {
    size_t n;
    double products[MOST][MOST], labels[MOST];
} problem;

static void make_problem(const icl_task_prior *prior, const float *tokens, problem *made) {
    const size_t row = prior->dimension + 1;

    made->n = prior->context;
    for (size_t i = 0; i <= made->n; i++) {
        made->labels[i] = (double)tokens[i * row + row - 1];
        for (size_t j = 0; j <= made->n; j++)
            made->products[i][j] = prior_product(prior, tokens + i * row, tokens + j * row);
    }
}

/* Returns log p(y | sigma), up to the constant n log 2 pi / 2, and the posterior mean of <w, x_t> for this sigma. */
static double direct(const problem *of, double sigma, double *prediction) {
    const size_t n = of->n;
    double factor[MOST][MOST], solved[MOST], log_density = 0;

    for (size_t i = 0; i < n; i++) {
        solved[i] = of->labels[i];
        for (size_t j = 0; j <= i; j++) {
            double sum = of->products[i][j] + (i == j ? sigma * sigma : 0);
            for (size_t k = 0; k < j; k++)
                sum -= factor[i][k] * factor[j][k];
            factor[i][j] = i == j ? sqrt(sum) : sum / factor[j][j];
        }
        for (size_t j = 0; j < i; j++)
            solved[i] -= factor[i][j] * solved[j];
        solved[i] /= factor[i][i];
        log_density -= log(factor[i][i]) + 0.5 * solved[i] * solved[i];
    }
    *prediction = 0;
    for (size_t i = n; i-- > 0;) {
        for (size_t j = i + 1; j < n; j++)
            solved[i] -= factor[j][i] * solved[j];
        solved[i] /= factor[i][i];
        *prediction += solved[i] * of->products[i][n];
    }
    return log_density;
}

/* Returns the average of direct predictions over equally likely levels. */
static double direct_mixture(const problem *of, size_t count, const double *levels) {
    static double logs[GRID], predictions[GRID];
    double largest = -HUGE_VAL, weight_sum = 0, sum = 0;

    for (size_t i = 0; i < count; i++) {
        logs[i] = direct(of, levels[i], &predictions[i]);
        largest = fmax(largest, logs[i]);
    }
    for (size_t i = 0; i < count; i++) {
        weight_sum += exp(logs[i] - largest);
        sum += exp(logs[i] - largest) * predictions[i];
    }
    return sum / weight_sum;
}

static double run(const icl_predictors *predictors, const float *tokens, float sigma) {
    double prediction = (double)NAN;
    icl_predictors_run(predictors, 1, tokens, &sigma, &prediction, NULL);
    return prediction;
}

/* Checks many sequences of one task; sigma and the scale of the weights vary, even beyond the prior. */
static void check_task(tap_run *tap, const char *overrides, double tolerance) {
    static const double sigmas[] = {0.01, 0.1, 0.5, 1, 2, 3, 7}, scales[] = {1, 6};
    static double levels[GRID];
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};
    float tokens[MOST * MOST];
    problem made;
    double worst = 0;

    if (tap_status(tap, make_task(overrides, &task, &error), &error, overrides) &&
        tap_status(tap, icl_predictors_create(task, NULL, "bayes", 0, 1, &predictors, &error), &error, "bayes")) {
        const icl_task_prior *prior = icl_task_get_prior(task);
        const size_t count = prior->noise == ICL_NOISE_UNIFORM ? GRID : prior->noise_count;
        for (size_t i = 0; i < count; i++)
            levels[i] = prior->noise == ICL_NOISE_UNIFORM ? prior->noise_max * ((double)i + 0.5) / GRID
                                                          : prior->noise_levels[i];
        for (size_t i = 0; i < 14; i++) {
            double expected, difference;
            make_tokens(prior, 10000 * i, sigmas[i % 7], scales[i / 7], tokens);
            make_problem(prior, tokens, &made);
            expected = direct_mixture(&made, count, levels);
            difference = fabs(run(predictors, tokens, 0) - expected) / (1 + fabs(expected));
            worst = fmax(worst, difference);
            if (difference > tolerance)
                tap_note("sigma %g, weights x %g: %.9g, directly %.9g", sigmas[i % 7], scales[i / 7],
                         run(predictors, tokens, 0), expected);
        }
        tap_ok(tap, worst <= tolerance, "agrees with the direct computation (%.1e)", worst);
    }
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

static void check_fixed(tap_run *tap, const char *overrides) {
    icl_task *task = NULL;
    icl_predictors *bayes = NULL, *oracle = NULL;
    icl_error error = {0};
    float tokens[MOST * MOST];

    if (tap_status(tap, make_task(overrides, &task, &error), &error, overrides) &&
        tap_status(tap, icl_predictors_create(task, NULL, "bayes", 0, 1, &bayes, &error), &error, "bayes") &&
        tap_status(tap, icl_predictors_create(task, NULL, "oracle", 0, 1, &oracle, &error), &error, "oracle"))
        for (uint64_t i = 0; i < 5; i++) {
            const icl_task_prior *prior = icl_task_get_prior(task);
            const double sigma = prior->noise_max;
            double ours, expected;
            make_tokens(prior, 100000 + 10000 * i, sigma, 1, tokens);
            ours = run(bayes, tokens, (float)sigma);
            expected = run(oracle, tokens, (float)sigma);
            tap_ok(tap, fabs(ours - expected) <= 1e-14 * (1 + fabs(expected)),
                   "a known sigma: the oracle (%.12g, %.12g)", ours, expected);
        }
    icl_predictors_destroy(&bayes);
    icl_predictors_destroy(&oracle);
    icl_task_destroy(&task);
}

/* Tests priors that include sigma = 0, with data without noise or without anything: predictions are finite, and are
 * least squares if the data say so. */
static void check_no_noise(tap_run *tap, const char *overrides) {
    icl_task *task = NULL;
    icl_predictors *predictors = NULL;
    icl_error error = {0};
    float tokens[MOST * MOST], sigma = 0;
    double predictions[2] = {1, 0};

    if (tap_status(tap, make_task(overrides, &task, &error), &error, overrides) &&
        tap_status(tap, icl_predictors_create(task, NULL, "bayes,ols", 0, 1, &predictors, &error), &error,
                   "bayes, ols")) {
        make_tokens(icl_task_get_prior(task), 700000, 0, 1, tokens);
        tap_status(tap, icl_predictors_run(predictors, 1, tokens, &sigma, predictions, &error), &error, "run");
        tap_ok(tap, fabs(predictions[0] - predictions[1]) < 1e-6, "data without noise: least squares (%.9g, %.9g)",
               predictions[0], predictions[1]);
        memset(tokens, 0, sizeof tokens);
        tap_status(tap, icl_predictors_run(predictors, 1, tokens, &sigma, predictions, &error), &error, "run");
        tap_ok(tap, predictions[0] == 0 && predictions[1] == 0, "all zeros predict 0");
    }
    icl_predictors_destroy(&predictors);
    icl_task_destroy(&task);
}

int main(void) {
    static const char *const coloured = " task.covariance=spectrum:1,0.25,4 task.rotate=true";
    static const size_t contexts[] = {1, 2, 3, 4, 12};
    tap_run tap = {0};
    char overrides[256];

    for (size_t i = 0; i < 5; i++)
        for (int colour = 0; colour < 3; colour++) {
            const char *covariance = colour ? coloured : "";
            const char *weights = colour == 2 ? " task.weights=inverse-covariance" : "";
            snprintf(overrides, sizeof overrides, "task.d=3 task.n=%zu task.noise=choice:1,3%s%s", contexts[i],
                     covariance, weights);
            check_task(&tap, overrides, 1e-9);
            if (contexts[i] == 3 || contexts[i] == 12 || colour == 0) {
                snprintf(overrides, sizeof overrides, "task.d=3 task.n=%zu task.noise=uniform:5%s%s", contexts[i],
                         covariance, weights);
                check_task(&tap, overrides, 1e-6);
            }
        }
    check_task(&tap, "task.d=10 task.n=20 task.noise=choice:0.1,1,3,5", 1e-9);
    check_task(&tap, "task.d=10 task.n=20 task.noise=uniform:3", 1e-6);
    check_fixed(&tap, "task.d=10 task.n=20 task.noise=fixed:2");
    check_fixed(&tap, "task.d=3 task.n=2 task.noise=fixed:0.3 task.covariance=spectrum:1,0.25,4 "
                      "task.weights=inverse-covariance");
    check_no_noise(&tap, "task.d=4 task.n=9 task.noise=choice:0,1");
    check_no_noise(&tap, "task.d=4 task.n=9 task.noise=uniform:2");
    check_no_noise(&tap, "task.d=4 task.n=9 task.noise=uniform:0");
    check_no_noise(&tap, "task.d=4 task.n=9 task.noise=fixed:0");
    return tap_done(&tap);
}
