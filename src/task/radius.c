/*
 * Quantiles of the gamma distribution by bisection, at the Chebyshev points of each piece. P(a, x) is the regularised
 * incomplete gamma function; Phi(-z) = (1 - P(1/2, z^2 / 2)) / 2. Probabilities stand as logarithms, so
 * that tails keep their digits.
 */
#include "task/radius.h"

#include <math.h>
#include <stdbool.h>

#include "task/elementary.h"

#define MOST_TERMS 100000
#define BISECTIONS 64

/* log P(a, x): series (Abramowitz and Stegun 6.5.29); for x < a + 1. */
static double log_lower(double a, double x) {
    double term = 1, sum = 1;
    for (int j = 1; j < MOST_TERMS && term > 1e-17 * sum; j++) {
        term *= x / (a + j);
        sum += term;
    }
    return a * icl_logarithm(x) - x - icl_log_gamma(a + 1) + icl_logarithm(sum);
}

/* log (1 - P(a, x)): continued fraction (6.5.31) by Lentz's method; for x >= a + 1. */
static double log_upper(double a, double x) {
    double b = x + 1 - a, c = 1e300, d = 1 / b, fraction = d, change = 0;
    for (int j = 1; j < MOST_TERMS && fabs(change - 1) > 1e-15; j++) {
        const double step = -j * (j - a);
        b += 2;
        d = 1 / (step * d + b);
        c = b + step / c;
        change = d * c;
        fraction *= change;
    }
    return a * icl_logarithm(x) - x - icl_log_gamma(a) + icl_logarithm(fraction);
}

/* log P(a, x), or log (1 - P(a, x)). Values of 1 are as good as the largest number below it. */
static double log_probability(double a, double x, bool upper) {
    const bool is_upper = x >= a + 1;
    const double value = is_upper ? log_upper(a, x) : log_lower(a, x);
    double complement;

    if (is_upper == upper)
        return value;
    complement = 1 - icl_exponential(value < 0 ? value : 0);
    return icl_logarithm(complement > 1e-300 ? complement : 1e-300);
}

/* log x where x has the probability Phi(z), from the smaller tail. */
static double log_quantile(double a, double z) {
    const bool upper = z > 0;
    const double wanted = log_probability(0.5, z * z / 2, true) - ICL_LN_2;
    /* P(a, x) <= x^a / Gamma(a + 1) */
    double low = ((upper ? -ICL_LN_2 : wanted) + icl_log_gamma(a + 1)) / a - 1e-9;
    double high = icl_logarithm(a + 60 + 14 * sqrt(a));

    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = (low + high) / 2;
        if ((log_probability(a, icl_exponential(middle), upper) > wanted) == upper)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

void icl_radius_table(double shape, double scale, double *coefficients) {
    for (int piece = 0; piece < ICL_CHI_PIECES; piece++) {
        const double centre = piece - (ICL_CHI_PIECES - 1) / 2.0;
        double values[ICL_CHI_TERMS];
        for (int i = 0; i < ICL_CHI_TERMS; i++)
            values[i] =
                (log_quantile(shape, centre + icl_chebyshev_points[i] / 2) + icl_logarithm(scale)) / (2 * ICL_LN_2);
        icl_chebyshev_powers(values, coefficients + (size_t)piece * ICL_CHI_TERMS);
    }
}
