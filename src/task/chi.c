/*
 * T_k, the chi quantile of a normal's probability, as piecewise polynomials.
 *
 * F_k(T(z)) = Phi(z), with f_k = F_k' proportional to u^(k-1) exp(-u^2 / 2), gives
 *     T' = phi(z) / f_k(T)                            and, differentiated,
 *     T'' = -z T' - (k - 1) T'^2 / T + T T'^2.
 * The second equation yields the Taylor series of T about any point from T and T' there; the first one yields T'. So T is
 * walked from both tails inwards, in small steps. All solutions of the first equation obey F_k(u(z)) = Phi(z) + b: a start that
 * misses its tail probability by some hundredths stays off by b < Phi(-9) / 20 = 6e-21, which is 8e-11 of Phi(-6.4) and less further
 * in; rounding errors fade alike. (A walk outwards from the median would make them grow.)
 *
 * The nearest singularities are the zeros of Phi and 1 - Phi, 2.8 off the real axis, and at the start those of Phi(z) + b, about .5
 * away: a series of TERMS terms is exact to rounding at the distance STEP, and later at 1/2. Each piece is the polynomial that
 * interpolates its series at the Chebyshev points: |error| < 3e-8 before its coefficients are rounded.
 *
 * libm's functions differ from machine to machine in their last bits; those here are made of exact operations.
 */
#include "task/chi.h"

#include <math.h>
#include <stdbool.h>

#define TERMS 26
#define STEP  0.25
#define START 9.0 /* where the walks begin, in both tails */

static const double LN_2 = 0.69314718055994530942, HALF_LN_2_PI = 0.91893853320467274178;

/* ---- Elementary functions from +, -, *, / ---- */

/* exp(x) = 2^j exp(r), |r| <= ln 2 / 2, by its series. */
static double exponential(double x) {
    const double j = floor(x / LN_2 + 0.5), r = x - j * LN_2;
    double sum = 1;
    for (int i = 18; i > 0; i--)
        sum = 1 + r / i * sum;
    return ldexp(sum, (int)j);
}

/* log(2^j m) = j ln 2 + 2 artanh((m - 1) / (m + 1)), m in [sqrt(1/2), sqrt(2)). */
static double logarithm(double x) {
    int j;
    double m = frexp(x, &j), sum = 0;
    if (m < 0.70710678118654752) {
        m *= 2;
        j--;
    }
    const double s = (m - 1) / (m + 1), square = s * s;
    for (int i = 41; i > 0; i -= 2)
        sum = sum * square + 1.0 / i;
    return j * LN_2 + 2 * s * sum;
}

/* log Gamma(a), a > 0: Stirling's series (Abramowitz and Stegun 6.1.40) from 12 up, and the recurrence below. */
static double log_gamma(double a) {
    const int raised = a < 12 ? (int)ceil(12 - a) : 0;
    double product = 1;
    for (int i = 0; i < raised; i++)
        product *= a + i;
    a += raised;
    const double x = 1 / (a * a);
    const double series =
        (1.0 / 12 -
         x * (1.0 / 360 - x * (1.0 / 1260 - x * (1.0 / 1680 - x * (1.0 / 1188 - x * 691.0 / 360360))))) /
        a;
    return (a - 0.5) * logarithm(a) - a + HALF_LN_2_PI + series - logarithm(product);
}

/* ---- The chi distribution ---- */

/* log of about P(a, x) or, in the upper tail, 1 - P(a, x), for the regularised incomplete gamma function P: the first term of its series
 * times a geometric sum; the first convergent of its continued fraction (Abramowitz and Stegun 6.5.29, 6.5.31). */
static double log_tail(double a, double x, bool upper, double log_gamma_a) {
    const double tail = a * logarithm(x) - x - log_gamma_a;
    return upper ? tail - logarithm(x - a + 1) : tail - logarithm(a) - logarithm(1 - x / (a + 1));
}

/* About T(START) or T(-START): chi^2 / 2 has a gamma distribution of shape a = k / 2. Bisection of log x. */
static double tail_quantile(double k, bool upper) {
    const double a = k / 2, log_gamma_a = log_gamma(a);
    const double wanted = -START * START / 2 - HALF_LN_2_PI - logarithm(START + 1 / START);
    double low = upper ? logarithm(a) : -2 * START * START / k - 60 / k - 5,
           high = upper ? logarithm(a + 60 + 14 * sqrt(a)) : logarithm(a);

    for (int i = 0; i < 48; i++) {
        const double middle = (low + high) / 2;
        const bool above = log_tail(a, exponential(middle), upper, log_gamma_a) > wanted;
        if (above == upper)
            low = middle;
        else
            high = middle;
    }
    return sqrt(2 * exponential(low));
}

/* T'(z) where T(z) = u; log_scale is the logarithm of f_k(u) / (u^(k-1) exp(-u^2 / 2)). */
static double slope_at(double k, double log_scale, double z, double u) {
    return exponential(-z * z / 2 - HALF_LN_2_PI - log_scale - (k - 1) * logarithm(u) + u * u / 2);
}

/* The Taylor coefficients of T about z from T and T' there: power series of v = T', v^2, v^2 / T and T v^2, term by term. */
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

_Static_assert(ICL_CHI_TERMS == 8, "the Chebyshev points below are those of eight terms");

/* The polynomial in t, |t| <= 1/2, that agrees with the series at eight Chebyshev points: c_j = 1/4 sum_i T(x_i) cos(j (2 i + 1) pi /
 * 16) with x = 2 t, then from Chebyshev's basis to powers of t. */
static void economise(const double series[TERMS], double powers[ICL_CHI_TERMS]) {
    /* cos(m pi / 16), m = 0 .. 8 */
    static const double cosine[] = {1,
                                    0.98078528040323044913,
                                    0.92387953251128675613,
                                    0.83146961230254523708,
                                    0.70710678118654752440,
                                    0.55557023301960222474,
                                    0.38268343236508977173,
                                    0.19509032201612826785,
                                    0};
    double chebyshev[2][ICL_CHI_TERMS] = {{1}, {0, 1}}, scale = 1;

    for (int j = 0; j < ICL_CHI_TERMS; j++)
        powers[j] = 0;
    for (int j = 0; j < ICL_CHI_TERMS; j++) {
        double *current = chebyshev[j % 2], *next = chebyshev[(j + 1) % 2], c = 0;
        for (int i = 0; i < ICL_CHI_TERMS; i++) {
            const int m = j * (2 * i + 1) % 32, folded = m > 16 ? 32 - m : m;
            const int point = 2 * i + 1; /* < 16 */
            const double x = point > 8 ? -cosine[16 - point] : cosine[point];
            c += evaluate(series, x / 2) * (folded > 8 ? -cosine[16 - folded] : cosine[folded]) / 4;
        }
        for (int i = 0; i <= j; i++)
            powers[i] += (j == 0 ? c / 2 : c) * current[i];
        if (j > 0) /* the next one: 2 x (this one) - (the one before), in its place */
            for (int i = ICL_CHI_TERMS - 1; i >= 0; i--)
                next[i] = (i > 0 ? 2 * current[i - 1] : 0) - next[i];
    }
    for (int j = 0; j < ICL_CHI_TERMS; j++) {
        powers[j] = (double)(float)(powers[j] * scale);
        scale *= 2;
    }
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
        const double k = (double)(context - i), log_scale = (1 - k / 2) * LN_2 - log_gamma(k / 2);
        double *row = coefficients + i * (size_t)(ICL_CHI_PIECES * ICL_CHI_TERMS);
        fill_side(k, log_scale, false, row);
        fill_side(k, log_scale, true, row);
    }
}
