/*
 * Given X, the error of w_K is -r(S) w + h(S) X^T eps sigma / n, with S = X^T X / n, r(s) = prod_k (1 - a_k s) and
 * r = 1 - s h. The mean of the loss over w and eps is
 *     E tr [ r(S)^2 + tau S h(S)^2 ],   tau = E[sigma^2] / n,
 * a polynomial of degree 2 K in the eigenvalues of S: Gauss's rule of K + 1 nodes for their mean spectrum gives it
 * exactly, as a sum of squares.
 *
 * Without noise the best r is the least of all polynomials with r(0) = 1, which is orthogonal to all of lower degree
 * under s times the spectrum. So its roots 1 / a_k are the nodes of Gauss's rule of K nodes for that measure: real,
 * positive and distinct. With noise the best h may need complex steps, so the best real steps are searched for.
 */
#include "iclab/descent_optimum.h"

#include <math.h>
#include <string.h>

#include "baseline/estimator.h"
#include "numeric/statistics.h"
#include "numeric/wishart.h"

enum { MOST_NODES = ICL_DESCENT_MOST_STEPS + 1, SCANNED = 400, ITERATIONS = 400 };

typedef struct spectrum_rule {
    size_t count;
    double nodes[MOST_NODES], weights[MOST_NODES];
    double noise; /* tau */
} spectrum_rule;

static icl_status make_rule(const icl_descent_problem *problem, spectrum_rule *rule, icl_error *error) {
    if (problem->steps < 1 || problem->steps > ICL_DESCENT_MOST_STEPS || !(problem->noise_variance >= 0) ||
        isinf(problem->noise_variance))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "optimal descent: %zu steps with noise of variance %g; expected 1 to %d steps and a finite "
                        "variance of 0 or more",
                        problem->steps, problem->noise_variance, ICL_DESCENT_MOST_STEPS);
    rule->count = problem->steps + 1;
    rule->noise = problem->context > 0 ? problem->noise_variance / (double)problem->context : 0;
    return icl_wishart_rule(ICL_WISHART_SPECTRUM, problem->dimension, problem->context, rule->count, rule->nodes,
                            rule->weights, error);
}

/* ---- The loss ---- */

static double expected_loss(const spectrum_rule *rule, size_t steps, const double *lengths) {
    double sum = 0;

    for (size_t i = 0; i < rule->count; i++) {
        double left = 1, h = 0; /* r = 1 - s h after each step */
        for (size_t k = 0; k < steps; k++) {
            h += lengths[k] * left;
            left *= 1 - lengths[k] * rule->nodes[i];
        }
        sum += rule->weights[i] * (left * left + rule->noise * rule->nodes[i] * h * h);
    }
    return sum;
}

icl_status icl_descent_loss(const icl_descent_problem *problem, const double *lengths, double *loss, icl_error *error) {
    spectrum_rule rule = {0};

    ICL_CHECK(make_rule(problem, &rule, error));
    *loss = expected_loss(&rule, problem->steps, lengths);
    return ICL_OK;
}

/* ---- Its minimum ---- */

/* An icl_filter_model: h and its derivatives by the lengths, or by the one length that all steps share. */
static double filter(const void *shape, const double *lengths, double eigenvalue, double *gradient) {
    const icl_descent_problem *problem = shape;
    double h = 0;

    for (size_t k = 0; k < problem->steps; k++)
        h += lengths[problem->is_tied ? 0 : k] * (1 - eigenvalue * h);
    if (!gradient)
        return h;
    memset(gradient, 0, (problem->is_tied ? 1 : problem->steps) * sizeof *gradient);
    for (size_t k = 0; k < problem->steps; k++) {
        double others = 1;
        for (size_t j = 0; j < problem->steps; j++)
            others *= j == k ? 1 : 1 - lengths[problem->is_tied ? 0 : j] * eigenvalue;
        gradient[problem->is_tied ? 0 : k] += others;
    }
    return h;
}

/* Lowers the loss to the nearest minimum, as a sum of squares: up to a constant, r^2 + tau s h^2 is s (s + tau) (h - 1
 * / (s + tau))^2. */
static icl_status minimize(const icl_descent_problem *problem, const spectrum_rule *rule, double *lengths,
                           icl_error *error) {
    spectrum_rule nodes = *rule;
    double factors[MOST_NODES], targets[MOST_NODES], distance;
    const icl_fit_set set = {
        .count = 1, .dimension = rule->count, .eigenvalues = nodes.nodes, .factors = factors, .targets = targets};
    const icl_filter_fit fit = {.model = filter,
                                .shape = problem,
                                .coefficient_count = problem->is_tied ? 1 : problem->steps,
                                .sequences = 1,
                                .iterations = ITERATIONS};

    for (size_t i = 0; i < rule->count; i++) {
        const double s = rule->nodes[i];
        factors[i] = sqrt(rule->weights[i] * s * (s + rule->noise));
        targets[i] = factors[i] / (s + rule->noise);
    }
    return icl_filter_minimize(&fit, &set, lengths, &distance, error);
}

/* Finds the best single length, which lies in [0, 2], with or without noise: E tr (I - a S)^(2 K) is at least d (1 -
 * a)^(2 K), which is more than d, the loss of no step, if a is outside. */
static icl_status minimize_tied(const icl_descent_problem *problem, const spectrum_rule *rule, double *lengths,
                                icl_error *error) {
    icl_descent_problem tied = *problem;
    double least = HUGE_VAL, best = 0;

    tied.is_tied = true;
    for (size_t i = 1; i <= SCANNED; i++) {
        for (size_t k = 0; k < problem->steps; k++)
            lengths[k] = 2 * (double)i / SCANNED;
        const double loss = expected_loss(rule, problem->steps, lengths);
        if (loss < least) {
            least = loss;
            best = lengths[0];
        }
    }
    ICL_CHECK(minimize(&tied, rule, &best, error));
    for (size_t k = 0; k < problem->steps; k++)
        lengths[k] = best;
    return ICL_OK;
}

/* Computes the optimum without noise. */
static icl_status noiseless(const icl_descent_problem *problem, double *lengths, icl_error *error) {
    double weights[ICL_DESCENT_MOST_STEPS];

    ICL_CHECK(icl_wishart_rule(ICL_WISHART_WEIGHTED, problem->dimension, problem->context, problem->steps, lengths,
                               weights, error));
    for (size_t k = 0; k < problem->steps; k++)
        lengths[k] = 1 / lengths[k];
    return ICL_OK;
}

/* Searches for the optimum with noise from two starts: the optimum without noise, in `lengths`, and the best single
 * length, spread to distinct ones because the derivative cannot separate equal lengths. A search from only one of them
 * can end above the least minimum. */
static icl_status minimize_noisy(const icl_descent_problem *problem, const spectrum_rule *rule, double *lengths,
                                 icl_error *error) {
    double spread[ICL_DESCENT_MOST_STEPS];

    ICL_CHECK(minimize_tied(problem, rule, spread, error));
    for (size_t k = 0; k < problem->steps; k++)
        spread[k] *= exp(.1 * ((double)k - .5 * (double)(problem->steps - 1)));
    ICL_CHECK(minimize(problem, rule, spread, error));
    ICL_CHECK(minimize(problem, rule, lengths, error));
    if (expected_loss(rule, problem->steps, spread) < expected_loss(rule, problem->steps, lengths))
        memcpy(lengths, spread, problem->steps * sizeof *lengths);
    return ICL_OK;
}

icl_status icl_descent_optimum(const icl_descent_problem *problem, double *lengths, double *loss, icl_error *error) {
    spectrum_rule rule = {0};
    double best[ICL_DESCENT_MOST_STEPS] = {0};

    ICL_CHECK(make_rule(problem, &rule, error));
    if (problem->is_tied) {
        ICL_CHECK(minimize_tied(problem, &rule, best, error));
    } else {
        ICL_CHECK(noiseless(problem, best, error));
        if (rule.noise > 0)
            ICL_CHECK(minimize_noisy(problem, &rule, best, error));
        icl_sort_ascending(best, problem->steps);
    }
    if (lengths)
        memcpy(lengths, best, problem->steps * sizeof *lengths);
    if (loss)
        *loss = expected_loss(&rule, problem->steps, best);
    return ICL_OK;
}
