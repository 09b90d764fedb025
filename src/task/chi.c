/*
 * T_k, the chi quantile of a normal's probability, as piecewise polynomials.
 *
 * F_k(T(z)) = Phi(z), with f_k = F_k' proportional to u^(k-1) exp(-u^2 / 2), gives
 *     T' = phi(z) / f_k(T)                            and, differentiated,
 *     T'' = -z T' - (k - 1) T'^2 / T + T T'^2.
 * The second equation yields the Taylor series of T about any point from T and T' there; the first one yields T'. So T
 * is walked from both tails inwards, in small steps. All solutions of the first equation obey F_k(u(z)) = Phi(z) + b: a
 * start that misses its tail probability by some hundredths stays off by b < Phi(-9) / 20 = 6e-21, which is 8e-11 of
 * Phi(-6.4) and less further in; rounding errors fade alike. (A walk outwards from the median would make them grow.)
 *
 * The nearest singularities are the zeros of Phi and 1 - Phi, 2.8 off the real axis, and at the start those of Phi(z) +
 * b, about .5 away: a series of TERMS terms is exact to rounding at the distance STEP, and later at 1/2. Each piece is
 * the polynomial that interpolates its series at the Chebyshev points: |error| < 3e-8 before
 * its coefficients are rounded.
 */
#include "task/chi.h"

#include <math.h>
#include <stdbool.h>

#include "task/elementary.h"

#define TERMS 26
#define STEP  0.25
#define START 9.0 /* where the walks begin, in both tails */

/* ---- The chi distribution ---- */

/* log of about P(a, x) or, in the upper tail, 1 - P(a, x), for the regularised incomplete gamma function P: the first
 * term of its series times a geometric sum; the first convergent of its continued fraction (Abramowitz and Stegun
 * 6.5.29, 6.5.31). */
static double log_tail(double a, double x, bool upper, double log_gamma_a) {
    const double tail = a * icl_logarithm(x) - x - log_gamma_a;
    return upper ? tail - icl_logarithm(x - a + 1) : tail - icl_logarithm(a) - icl_logarithm(1 - x / (a + 1));
}

/* About T(START) or T(-START): chi^2 / 2 has a gamma distribution of shape a = k / 2. Bisection of log x. */
static double tail_quantile(double k, bool upper) {
    const double a = k / 2, log_gamma_a = icl_log_gamma(a);
    const double wanted = -START * START / 2 - ICL_HALF_LN_2_PI - icl_logarithm(START + 1 / START);
    double low = upper ? icl_logarithm(a) : -2 * START * START / k - 60 / k - 5,
           high = upper ? icl_logarithm(a + 60 + 14 * sqrt(a)) : icl_logarithm(a);

    for (int i = 0; i < 48; i++) {
        const double middle = (low + high) / 2;
        const bool above = log_tail(a, icl_exponential(middle), upper, log_gamma_a) > wanted;
        if (above == upper)
            low = middle;
        else
            high = middle;
    }
    return sqrt(2 * icl_exponential(low));
}

/* T'(z) where T(z) = u; log_scale is the logarithm of f_k(u) / (u^(k-1) exp(-u^2 / 2)). */
static double slope_at(double k, double log_scale, double z, double u) {
    return icl_exponential(-z * z / 2 - ICL_HALF_LN_2_PI - log_scale - (k - 1) * icl_logarithm(u) + u * u / 2);
}

/* The Taylor coefficients of T about z from T and T' there: power series of v = T', v^2, v^2 / T and T
 * v^2, term by term. */
static void expand(double k, double z, double value, double slope, double series[TERMS]) {
    double v[TERMS], squares[TERMS], quotients[TERMS];

    series[0] = value;
    v[0] = slope;
    for (int j = 0; j + 1 < TERMS; j++) {
        double product = 0, quotient = 0;
        squares[j] = 0;
        for (int i = 0; i <= j; i++)
            squares[j] += v[i] * v[j - i];
        for (int i = 0; i <= j; i++)
            product += series[i] * squares[j - i];
        for (int i = 1; i <= j; i++)
            quotient += series[i] * quotients[j - i];
        quotients[j] = (squares[j] - quotient) / value;
        v[j + 1] = (product - (k - 1) * quotients[j] - z * v[j] - (j > 0 ? v[j - 1] : 0)) / (j + 1);
        series[j + 1] = v[j] / (j + 1);
    }
}

static double evaluate(const double series[TERMS], double t) {
    double sum = 0;
    for (int j = TERMS - 1; j >= 0; j--)
        sum = sum * t + series[j];
    return sum;
}

/* ---- Polynomials ---- */

/* The polynomial in t, |t| <= 1/2, that agrees with the series at the Chebyshev points. */
static void economise(const double series[TERMS], double powers[ICL_CHI_TERMS]) {
    double values[ICL_CHI_TERMS];
    for (int i = 0; i < ICL_CHI_TERMS; i++)
        values[i] = evaluate(series, icl_chebyshev_points[i] / 2);
    icl_chebyshev_powers(values, powers);
}

/* Walks from one tail to z = 0. Pieces are one wide, their centres half-way between whole numbers. */
static void fill_side(double k, double log_scale, bool upper, double *row) {
    const double side = upper ? 1 : -1;
    double series[TERMS], value = tail_quantile(k, upper);

    for (int i = (int)(START / STEP); i > 0; i--) {
        const double z = side * i * STEP;
        const int piece = (int)floor(z) + ICL_CHI_PIECES / 2;
        expand(k, z, value, slope_at(k, log_scale, z, value), series);
        if (i % 4 == 2 && piece >= 0 && piece < ICL_CHI_PIECES)
            economise(series, row + (size_t)piece * ICL_CHI_TERMS);
        value = evaluate(series, -side * STEP);
    }
}

void icl_chi_table(size_t context, size_t rows, double *coefficients) {
    for (size_t i = 0; i < rows; i++) {
        const double k = (double)(context - i), log_scale = (1 - k / 2) * ICL_LN_2 - icl_log_gamma(k / 2);
        double *row = coefficients + i * (size_t)(ICL_CHI_PIECES * ICL_CHI_TERMS);
        fill_side(k, log_scale, false, row);
        fill_side(k, log_scale, true, row);
    }
}
