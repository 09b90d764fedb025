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
#include <lapacke.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "baseline/estimator.h"
#include "core/allocate.h"
#include "iclab/descent_optimum.h"
#include "numeric/statistics.h"

/* ---- The mean spectrum of a Wishart matrix ---- */

/*
 * The moments follow from each other by integration by parts over the normal entries of X (Stein's identity). With
 * U = S - I, and for any further factors tr U^m_i,
 *     E tr U^(k+1) prod_i tr U^m_i = 1/n E [ k (tr U^k + tr U^(k-1)) prod_i tr U^m_i
 *                                    + sum_(j<k) (tr U^(j+1) + tr U^j) tr U^(k-1-j) prod_i tr U^m_i
 *                                    + sum_i 2 m_i (tr U^(k+m_i) + tr U^(k+m_i-1)) prod_(h != i) tr U^m_h ].
 * The powers on the right have a lower sum, and no term is negative, so nothing cancels, however near S is to I.
 * Moments of S itself would lose all digits of its difference from I if n is far above d.
 */
enum { MOST = ICL_WISHART_MOST_POWER, MOST_RULE_NODES = (MOST + 1) / 2, SLOTS = 4096 };

/* The expectations that are known. A product of traces is stored as how often each power occurs in it, packed into one
 * number. There are 1,597 partitions of 0 .. 17. */
typedef struct expectations {
    double d, n;
    uint64_t unit[MOST + 1]; /* the code of one factor tr U^m; 0 for m = 0, which is d */
    unsigned bits[MOST + 1];
    struct slot {
        uint64_t product;
        double value;
        bool is_known;
    } * slots; /* [SLOTS] */
} expectations;

static unsigned bits_for(size_t most) {
    unsigned bits = 0;
    while (most >> bits)
        bits++;
    return bits;
}

static void lay_out(expectations *known) {
    unsigned offset = 0;

    known->unit[0] = 0;
    for (size_t power = 1; power <= MOST; power++) {
        known->unit[power] = (uint64_t)1 << offset;
        known->bits[power] = bits_for(MOST / power);
        offset += known->bits[power];
    }
}

static size_t times(const expectations *known, uint64_t product, size_t power) {
    return (size_t)(product / known->unit[power]) & (((size_t)1 << known->bits[power]) - 1);
}

static struct slot *slot_of(const expectations *known, uint64_t product) {
    size_t at = (size_t)((product * 0x9e3779b97f4a7c15u) >> 52) % SLOTS;
    while (known->slots[at].is_known && known->slots[at].product != product)
        at = (at + 1) % SLOTS;
    return &known->slots[at];
}

static double expect(expectations *all, uint64_t product);

/* Returns the expectation of (tr U^(a+1) + tr U^a) times the rest. */
static double expect_pair(expectations *known, uint64_t rest, size_t a) {
    return expect(known, rest + known->unit[a + 1]) +
           (a > 0 ? expect(known, rest + known->unit[a]) : known->d * expect(known, rest));
}

static double expect_new(expectations *known, uint64_t product) {
    size_t largest = MOST;
    double sum = 0;

    while (times(known, product, largest) == 0)
        largest--;
    const uint64_t rest = product - known->unit[largest];
    const size_t k = largest - 1;
    if (k > 0)
        sum += (double)k * expect_pair(known, rest, k - 1);
    for (size_t j = 0; j < k; j++) {
        const size_t other = k - 1 - j;
        sum += (other > 0 ? 1 : known->d) * expect_pair(known, rest + known->unit[other], j);
    }
    for (size_t m = 1; m <= largest; m++)
        if (times(known, rest, m) > 0)
            sum += (double)(2 * m * times(known, rest, m)) * expect_pair(known, rest - known->unit[m], k + m - 1);
    return sum / known->n;
}

static double expect(expectations *known, uint64_t product) {
    if (product == 0)
        return 1;
    if (!slot_of(known, product)->is_known) {
        const double value = expect_new(known, product);
        *slot_of(known, product) = (struct slot){product, value, true};
    }
    return slot_of(known, product)->value;
}

icl_status icl_wishart_moments(size_t d, size_t n, size_t most, double *moments, icl_error *error) {
    expectations known = {.d = (double)d, .n = (double)n};
    icl_status status;

    lay_out(&known);
    ICL_TRY(icl_allocate(SLOTS, sizeof *known.slots, "Wishart moments", &known.slots, error));
    for (size_t k = 0; k <= most; k++)
        moments[k] = k > 0 ? expect(&known, known.unit[k]) : known.d;
done:
    icl_free(&known.slots);
    return status;
}

/* ---- Gauss's rule ---- */

/* Finds the recurrence p_(k+1) = (t - alpha_k) p_k - beta_k p_(k-1) of the orthogonal polynomials of 2 `count` moments
 * by Chebyshev's algorithm (Gautschi 2004, "Orthogonal Polynomials", section 2.1.7). Returns false if a beta is not
 * above 0. */
static bool recurrence(size_t count, const double *moments, double *alpha, double *beta) {
    double before[2 * MOST_RULE_NODES] = {0}, current[2 * MOST_RULE_NODES] = {0}, next[2 * MOST_RULE_NODES] = {0};

    for (size_t l = 0; l < 2 * count; l++)
        current[l] = moments[l];
    alpha[0] = moments[1] / moments[0];
    beta[0] = moments[0];
    for (size_t k = 1; k < count; k++) {
        for (size_t l = k; l < 2 * count - k; l++)
            next[l] = current[l + 1] - alpha[k - 1] * current[l] - beta[k - 1] * before[l];
        if (!(next[k] > 0))
            return false;
        alpha[k] = next[k + 1] / next[k] - current[k] / current[k - 1];
        beta[k] = next[k] / current[k - 1];
        for (size_t l = k; l < 2 * count - k; l++) {
            before[l] = current[l];
            current[l] = next[l];
        }
    }
    return true;
}

/* Finds nodes and weights: the nodes are the eigenvalues of the Jacobi matrix, the weights its eigenvectors' first
 * entries squared (Golub and Welsch 1969). */
static bool solve(size_t count, double *alpha, const double *beta, double *weights) {
    double beside[MOST_RULE_NODES], vectors[MOST_RULE_NODES * MOST_RULE_NODES], work[2 * MOST_RULE_NODES];

    for (size_t k = 1; k < count; k++)
        beside[k - 1] = sqrt(beta[k]);
    if (LAPACKE_dstev_work(LAPACK_COL_MAJOR, 'V', (int)count, alpha, beside, vectors, (int)count, work) != 0)
        return false;
    for (size_t i = 0; i < count; i++)
        weights[i] = beta[0] * vectors[i * count] * vectors[i * count];
    return true;
}

icl_status icl_wishart_rule(icl_wishart_measure measure, size_t d, size_t n, size_t count, double *nodes,
                            double *weights, icl_error *error) {
    const size_t powers = 2 * count - 1 + (measure == ICL_WISHART_WEIGHTED);
    /* The scale of the eigenvalues' distances from 1. */
    const double width = sqrt(((double)d + 1) / (double)n);
    double moments[MOST + 1] = {0}, beta[MOST_RULE_NODES] = {0}, scale = 1;

    if (count < 1 || d < 1 || n < 1 || powers > MOST)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "Wishart quadrature: %zu nodes for d = %zu, n = %zu; expected 1 to %d nodes, and d, n of 1 or "
                        "more",
                        count, d, n, (MOST + 1 - (measure == ICL_WISHART_WEIGHTED)) / 2);
    ICL_CHECK(icl_wishart_moments(d, n, powers, moments, error));
    for (size_t k = 0; k < 2 * count; k++) {
        moments[k] = (measure == ICL_WISHART_WEIGHTED ? moments[k] + moments[k + 1] : moments[k]) / scale;
        scale *= width;
    }
    if (!recurrence(count, moments, nodes, beta) || !solve(count, nodes, beta, weights))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "Wishart quadrature: %zu nodes for d = %zu, n = %zu are more than double precision tells apart",
                        count, d, n);
    for (size_t i = 0; i < count; i++)
        nodes[i] = 1 + width * nodes[i];
    return ICL_OK;
}

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
