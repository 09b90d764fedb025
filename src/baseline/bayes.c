/*
 * The Bayes-optimal predictor under the task's prior over the noise level: ridge averaged over the posterior of sigma.
 *
 * In the prior's basis w ~ N(0, I), so y ~ N(0, X X^T + sigma^2 I). With r = rank X, b_k = a_k / sqrt(lambda_k) and RSS
 * the least-squares residual,
 *     -2 log p(y | sigma) = sum_{k <= r} [log(lambda_k + sigma^2) + b_k^2 / (lambda_k + sigma^2)]
 *                           + (n - r) log sigma^2 + RSS / sigma^2 + constant,
 * and the posterior mean of w has the filter  integral p(sigma | y) / (lambda_k + sigma^2) d sigma.
 *
 * A mixture of levels is summed exactly. For sigma ~ U[0, S] the integral runs over t = log(sigma / S), whose integrand
 * is p(y | sigma) exp(t), on panels of Gauss-Legendre nodes. log p has a curvature of at most about 2 n in t, so panels
 * are sqrt(2 / n) wide, and are halved where the integrand is steep. Below S exp(LOWEST_LOG) ridge is practically
 * least squares, and one node stands for all of that mass.
 */
#include <float.h>
#include <math.h>

#include "baseline/estimator.h"

/* 1e-5 of the maximum. */
#define LOWEST_LOG (-11.512925464970229)

/* Panels with both ends this far (in log) below the peak are left out: exp(-40) is far below rounding. */
static const double NEGLIGIBLE = 40;

/* The integrand may change by exp(STEEP) within one panel: 8 nodes integrate such a panel to 1e-8. */
static const double STEEP = 4;

typedef struct bayes {
    bool uniform;
    double noise_max;
    size_t level_count;
    double levels[ICL_MAX_CHOICES];
} bayes;

static void create(const icl_task_prior *prior, size_t steps, void *state) {
    bayes *rule = state;
    (void)steps;
    rule->uniform = prior->noise == ICL_NOISE_UNIFORM && prior->noise_max > 0;
    rule->noise_max = prior->noise_max;
    if (prior->noise == ICL_NOISE_UNIFORM) {
        rule->level_count = 1; /* used if the maximum is 0 */
        rule->levels[0] = 0;
        return;
    }
    rule->level_count = prior->noise_count;
    for (size_t i = 0; i < prior->noise_count; i++)
        rule->levels[i] = prior->noise_levels[i];
}

/* Returns the variance below which noise cannot be told from rounding, because labels are floats made of d + 1
 * products. It keeps the evidence finite at sigma = 0. */
static double rounding_variance(const icl_spectrum *spectrum) {
    const double scale = (double)spectrum->dimension * (double)FLT_EPSILON * (double)FLT_EPSILON;
    return scale * spectrum->label_square / (double)spectrum->context + DBL_MIN;
}

/* Returns log p(y | sigma) up to a constant, for noise variance `variance` > 0. */
static double log_evidence(const icl_spectrum *spectrum, double variance) {
    const double freedom = (double)(spectrum->context - spectrum->rank);
    double logarithms = freedom * log(variance), quadratic = spectrum->residual / variance, product = 1;

    for (size_t k = 0; k < spectrum->dimension; k++) {
        const double eigenvalue = spectrum->eigenvalues[k], total = eigenvalue + variance;
        if (eigenvalue == 0)
            continue;
        quadratic += spectrum->products[k] * spectrum->products[k] / (eigenvalue * total);
        product *= total; /* one logarithm for many factors, taken before the product leaves the range of a double */
        if (product > 1e100 || product < 1e-100) {
            logarithms += log(product);
            product = 1;
        }
    }
    return -0.5 * (logarithms + log(product) + quadratic);
}

/* ---- Averaging ridge over weighted noise levels, with weights given as logarithms ---- */

typedef struct average {
    const icl_spectrum *spectrum;
    double rounding;
    double largest_log; /* the logarithm of the weight that others are relative to */
    double weight;      /* their sum */
    double *filter;     /* sum of weight / (lambda + sigma^2) */
} average;

static void start_average(average *mean, const icl_spectrum *spectrum, double *filter) {
    *mean = (average){
        .spectrum = spectrum,
        .rounding = rounding_variance(spectrum),
        .largest_log = -HUGE_VAL,
        .filter = filter,
    };
    for (size_t k = 0; k < spectrum->dimension; k++)
        filter[k] = 0;
}

static void add_level(average *mean, double sigma, double log_weight) {
    const icl_spectrum *spectrum = mean->spectrum;
    double weight;

    if (log_weight > mean->largest_log) {
        const double shrink = exp(mean->largest_log - log_weight);
        for (size_t k = 0; k < spectrum->dimension; k++)
            mean->filter[k] *= shrink;
        mean->weight *= shrink;
        mean->largest_log = log_weight;
    }
    weight = exp(log_weight - mean->largest_log);
    mean->weight += weight;
    for (size_t k = 0; k < spectrum->dimension; k++)
        if (spectrum->eigenvalues[k] > 0)
            mean->filter[k] += weight / (spectrum->eigenvalues[k] + sigma * sigma);
}

static void finish_average(average *mean) {
    for (size_t k = 0; k < mean->spectrum->dimension; k++)
        mean->filter[k] /= mean->weight;
}

/* ---- sigma ~ U[0, S] ---- */

typedef struct integral {
    average mean;
    double noise_max;
    double peak; /* largest log integrand seen at the ends of panels */
} integral;

/* Returns the log of the integrand over t = log(sigma / S). */
static double log_integrand(const integral *sum, double t) {
    const double sigma = sum->noise_max * exp(t);
    return log_evidence(sum->mean.spectrum, sigma * sigma + sum->mean.rounding) + t;
}

static void add_panel(integral *sum, double low, double high, double at_low, double at_high, int depth) {
    /* Abramowitz and Stegun, table 25.4, n = 8. */
    static const double nodes[4] = {0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363};
    static const double weights[4] = {0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763};
    const double middle = (low + high) / 2, half = (high - low) / 2;

    if (fmax(at_low, at_high) < sum->peak - NEGLIGIBLE)
        return;
    if (depth > 0 && fabs(at_low - at_high) > STEEP) {
        const double at_middle = log_integrand(sum, middle);
        add_panel(sum, low, middle, at_low, at_middle, depth - 1);
        add_panel(sum, middle, high, at_middle, at_high, depth - 1);
        return;
    }
    for (int i = 0; i < 8; i++) {
        const double t = middle + half * (i < 4 ? -nodes[i] : nodes[i - 4]);
        add_level(&sum->mean, sum->noise_max * exp(t), log_integrand(sum, t) + log(half * weights[i % 4]));
    }
}

static void integrate(integral *sum) {
    const double widest = sqrt(2 / (double)sum->mean.spectrum->context);
    const size_t panels = (size_t)ceil(-LOWEST_LOG / fmin(widest, 0.5));
    const double width = -LOWEST_LOG / (double)panels;
    double at_low = log_integrand(sum, LOWEST_LOG);

    sum->peak = at_low;
    for (size_t i = 1; i <= panels; i++)
        sum->peak = fmax(sum->peak, log_integrand(sum, LOWEST_LOG + (double)i * width));
    /* One node stands for the mass below, where p(y | sigma) is flat, or so small that it does not count. */
    add_level(&sum->mean, sum->noise_max * exp(LOWEST_LOG), at_low);
    for (size_t i = 1; i <= panels; i++) {
        const double low = LOWEST_LOG + (double)(i - 1) * width, at_high = log_integrand(sum, low + width);
        add_panel(sum, low, low + width, at_low, at_high, 40);
        at_low = at_high;
    }
}

static void filter(const void *state, const icl_spectrum *spectrum, double sigma, double *filter) {
    const bayes *rule = state;
    integral sum = {.noise_max = rule->noise_max};

    (void)sigma;
    start_average(&sum.mean, spectrum, filter);
    if (rule->uniform)
        integrate(&sum);
    else
        for (size_t i = 0; i < rule->level_count; i++) {
            const double level = rule->levels[i];
            add_level(&sum.mean, level, log_evidence(spectrum, level * level + sum.mean.rounding));
        }
    finish_average(&sum.mean);
}

const icl_estimator icl_bayes = {
    .name = "bayes",
    .state_size = sizeof(bayes),
    .create = create,
    .filter = filter,
};
