/* Tests moments and quadrature of the Wishart distribution against closed forms and a symmetry that the computation
 * does not have: E tr (X^T X)^k = E tr (X X^T)^k. */
#include "baseline/estimator.h"

#include <math.h>

#include "tap.h"

enum { MOST = ICL_WISHART_MOST_POWER };

/* Returns E tr W^power, W = X^T X = n (I + U), from the moments of U. */
static double raw_moment(const double *moments, size_t n, size_t power) {
    double sum = 0, binomial = 1;

    for (size_t k = 0; k <= power; k++) {
        sum += binomial * moments[k];
        binomial *= (double)(power - k) / (double)(k + 1);
    }
    return sum * pow((double)n, (double)power);
}

static void check_moments(tap_run *tap, size_t d, size_t n) {
    const double p = (double)d, q = (double)n;
    double moments[MOST + 1] = {0}, swapped[MOST + 1] = {0}, furthest = 0;
    icl_error error;

    if (!tap_ok(tap,
                icl_wishart_moments(d, n, MOST, moments, &error) == ICL_OK &&
                    icl_wishart_moments(n, d, MOST, swapped, &error) == ICL_OK,
                "d = %zu, n = %zu: moments", d, n))
        return;
    const double second = q * p * (q + p + 1), third = q * p * (q * q + p * p + 3 * q * p + 3 * q + 3 * p + 4);
    tap_ok(tap,
           fabs(raw_moment(moments, n, 1) - q * p) < 1e-13 * q * p &&
               fabs(raw_moment(moments, n, 2) - second) < 1e-13 * second &&
               fabs(raw_moment(moments, n, 3) - third) < 1e-13 * third,
           "the first three are known polynomials");
    for (size_t k = 1; k <= MOST; k++)
        furthest = fmax(furthest, fabs(raw_moment(moments, n, k) / raw_moment(swapped, d, k) - 1));
    tap_ok(tap, furthest < 1e-12, "the same for X^T and X (they differ by %.1g)", furthest);
}

/* If n is far above d, U is small, and its moments are known independently: sqrt(n) U is near a symmetric matrix of
 * normal entries, with variance 2 on the diagonal and 1 off it, and E tr^4 = d (2 d^2 + 5 d + 5). */
static void check_far(tap_run *tap) {
    const double d = 5, n = 1e9;
    double moments[5] = {0};
    icl_error error;

    tap_ok(tap, icl_wishart_moments(5, 1000000000, 4, moments, &error) == ICL_OK, "d = 5, n = 1e9: moments");
    tap_ok(tap, moments[1] == 0 && fabs(moments[2] * n / (d * (d + 1)) - 1) < 1e-14,
           "of U the second is d (d + 1) / n");
    tap_ok(tap, fabs(moments[4] * n * n / (d * (2 * d * d + 5 * d + 5)) - 1) < 1e-7,
           "the fourth that of a normal matrix");
}

/* The rule reproduces every moment that it should, but not the next one. */
static void check_rule(tap_run *tap, icl_wishart_measure measure, size_t d, size_t n, size_t count, double tolerance) {
    double nodes[9] = {0}, weights[9] = {0}, moments[MOST + 1] = {0}, furthest = 0, next = 0;
    icl_error error;
    bool ordered = true;

    if (!tap_status(tap, icl_wishart_rule(measure, d, n, count, nodes, weights, &error), &error, "Gauss's rule"))
        return;
    icl_wishart_moments(d, n, MOST, moments, &error);
    for (size_t i = 0; i < count; i++)
        ordered = ordered && weights[i] > 0 && nodes[i] > (i > 0 ? nodes[i - 1] : 0);
    for (size_t power = 0; power <= 2 * count && power + (size_t)measure <= MOST; power++) {
        const double right =
            raw_moment(moments, n, power + (size_t)measure) / pow((double)n, (double)power + (double)measure);
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += weights[i] * pow(nodes[i], (double)power);
        if (power < 2 * count)
            furthest = fmax(furthest, fabs(sum / right - 1));
        else
            next = fabs(sum / right - 1);
    }
    tap_ok(tap, ordered, "d = %zu, n = %zu: %zu nodes ascend above 0, weights are above 0", d, n, count);
    tap_ok(tap, furthest < tolerance, "they have the first %zu moments (%.1g off)", 2 * count, furthest);
    tap_ok(tap, 2 * count + (size_t)measure > MOST || next > 10 * tolerance, "but not one more (%.1g off)", next);
}

int main(void) {
    static const size_t sizes[][2] = {{5, 20}, {20, 3}, {1, 1}, {2, 1}, {40, 41}};
    double nodes[9] = {0}, weights[9] = {0};
    icl_error error;
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check_moments(&tap, sizes[i][0], sizes[i][1]);
    check_far(&tap);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int measure = 0; measure < 2; measure++)
            check_rule(&tap, (icl_wishart_measure)measure, sizes[i][0], sizes[i][1], 5, 1e-11);
    check_rule(&tap, ICL_WISHART_SPECTRUM, 5, 20, 9, 1e-11);

    /* One column of one entry gives the square of a normal number: the roots of He_2 are 1 and -1, those of He_4 have
     * the squares 3 -+ sqrt(6). */
    icl_wishart_rule(ICL_WISHART_SPECTRUM, 1, 1, 1, nodes, weights, &error);
    tap_ok(&tap, fabs(nodes[0] - 1) < 1e-14 && fabs(weights[0] - 1) < 1e-14, "d = n = 1: one node is 1");
    icl_wishart_rule(ICL_WISHART_SPECTRUM, 1, 1, 2, nodes, weights, &error);
    tap_ok(&tap, fabs(nodes[0] - 3 + sqrt(6)) < 1e-13 && fabs(nodes[1] - 3 - sqrt(6)) < 1e-13,
           "two are the squares of Hermite's");
    tap_ok(&tap, icl_wishart_rule(ICL_WISHART_SPECTRUM, 5, 20, 10, nodes, weights, &error) == ICL_ERROR_INPUT,
           "ten are refused");
    tap_ok(&tap,
           icl_wishart_rule(ICL_WISHART_SPECTRUM, 0, 20, 2, nodes, weights, &error) == ICL_ERROR_INPUT &&
               icl_wishart_rule(ICL_WISHART_SPECTRUM, 5, 0, 2, nodes, weights, &error) == ICL_ERROR_INPUT &&
               icl_wishart_rule(ICL_WISHART_SPECTRUM, 5, 20, 0, nodes, weights, &error) == ICL_ERROR_INPUT,
           "and so are no columns, no rows, no nodes");
    return tap_done(&tap);
}
