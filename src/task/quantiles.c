/*
 * Quantiles as piecewise polynomials, which turn normal numbers into those of the chi and gamma distributions, and the
 * elementary functions that they are made with.
 *
 * Everything uses only +, -, *, / and sqrt, because tables must have the same bits on every machine: libm's functions
 * differ from machine to machine in their last bits.
 */
#include "task/laws.h"

#include <math.h>
#include <stdbool.h>

/* ---- Elementary functions ---- */

#define LN_2         0.69314718055994530942
#define HALF_LN_2_PI 0.91893853320467274178 /* log(2 pi) / 2 */

/* exp(x) = 2^j exp(r), |r| <= ln 2 / 2, by its series. */
double icl_exponential(double x) {
    const double j = floor(x / LN_2 + 0.5), r = x - j * LN_2;
    double sum = 1;
    for (int i = 18; i > 0; i--)
        sum = 1 + r / i * sum;
    return ldexp(sum, (int)j);
}

/* log(2^j m) = j ln 2 + 2 artanh((m - 1) / (m + 1)), m in [sqrt(1/2), sqrt(2)). */
double icl_logarithm(double x) {
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

/* log Gamma(a), a > 0, by Stirling's series (Abramowitz and Stegun 6.1.40) for a >= 12, by recurrence below 12. */
static double log_gamma(double a) {
    const int raised = a < 12 ? (int)ceil(12 - a) : 0;
    double product = 1;
    for (int i = 0; i < raised; i++)
        product *= a + i;
    a += raised;
    const double x = 1 / (a * a);
    const double series =
        (1.0 / 12 - x * (1.0 / 360 - x * (1.0 / 1260 - x * (1.0 / 1680 - x * (1.0 / 1188 - x * 691.0 / 360360))))) / a;
    return (a - 0.5) * icl_logarithm(a) - a + HALF_LN_2_PI + series - icl_logarithm(product);
}

/* ---- Polynomials ---- */

_Static_assert(ICL_CHI_TERMS == 8, "the Chebyshev points below are those of eight terms");

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

/* The Chebyshev points, descending, at which a polynomial of ICL_CHI_TERMS terms on [-1, 1] is interpolated. */
static const double chebyshev_points[ICL_CHI_TERMS] = {
    0.98078528040323044913,  0.83146961230254523708,  0.55557023301960222474,  0.19509032201612826785,
    -0.19509032201612826785, -0.55557023301960222474, -0.83146961230254523708, -0.98078528040323044913};

/* Finds the polynomial in t, |t| <= 1/2, that has these values at t = chebyshev_points / 2, as coefficients of 1, t,
 * t^2, …, floats held in doubles: first in Chebyshev's basis, c_j = 1/4 sum_i value_i cos(j (2 i + 1) pi / 16), then in
 * powers of t. */
static void chebyshev_powers(const double values[ICL_CHI_TERMS], double powers[ICL_CHI_TERMS]) {
    double chebyshev[2][ICL_CHI_TERMS] = {{1}, {0, 1}}, scale = 1;

    for (int j = 0; j < ICL_CHI_TERMS; j++)
        powers[j] = 0;
    for (int j = 0; j < ICL_CHI_TERMS; j++) {
        double *current = chebyshev[j % 2], *next = chebyshev[(j + 1) % 2], c = 0;
        for (int i = 0; i < ICL_CHI_TERMS; i++) {
            const int m = j * (2 * i + 1) % 32, folded = m > 16 ? 32 - m : m;
            c += values[i] * (folded > 8 ? -cosine[16 - folded] : cosine[folded]) / 4;
        }
        for (int i = 0; i <= j; i++)
            powers[i] += (j == 0 ? c / 2 : c) * current[i];
        if (j > 0) /* the next polynomial: 2 x (this one) - (the one before), in its place */
            for (int i = ICL_CHI_TERMS - 1; i >= 0; i--)
                next[i] = (i > 0 ? 2 * current[i - 1] : 0) - next[i];
    }
    for (int j = 0; j < ICL_CHI_TERMS; j++) {
        powers[j] = (double)(float)(powers[j] * scale);
        scale *= 2;
    }
}

/* ---- Quantiles of the chi distribution ---- */

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

#define TERMS 26
#define STEP  0.25
#define START 9.0 /* the walks begin there in both tails */

/* Returns about log P(a, x) or, in the upper tail, log (1 - P(a, x)), for the regularised incomplete gamma function P:
 * from the first term of its series times a geometric sum, or the first convergent of its continued fraction
 * (Abramowitz and Stegun 6.5.29, 6.5.31). */
static double log_tail(double a, double x, bool upper, double log_gamma_a) {
    const double tail = a * icl_logarithm(x) - x - log_gamma_a;
    return upper ? tail - icl_logarithm(x - a + 1) : tail - icl_logarithm(a) - icl_logarithm(1 - x / (a + 1));
}

/* Returns about T(START) or T(-START), by bisection of log x: chi^2 / 2 has a gamma distribution of shape a = k / 2. */
static double tail_quantile(double k, bool upper) {
    const double a = k / 2, log_gamma_a = log_gamma(a);
    const double wanted = -START * START / 2 - HALF_LN_2_PI - icl_logarithm(START + 1 / START);
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

/* Returns T'(z) if T(z) = u; log_scale is the logarithm of f_k(u) / (u^(k-1) exp(-u^2 / 2)). */
static double slope_at(double k, double log_scale, double z, double u) {
    return icl_exponential(-z * z / 2 - HALF_LN_2_PI - log_scale - (k - 1) * icl_logarithm(u) + u * u / 2);
}

/* Computes the Taylor coefficients of T about z from T and T' there, by the power series of v = T', v^2, v^2 / T and T
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

/* Finds the polynomial in t, |t| <= 1/2, that agrees with the series at the Chebyshev points. */
static void economise(const double series[TERMS], double powers[ICL_CHI_TERMS]) {
    double values[ICL_CHI_TERMS];
    for (int i = 0; i < ICL_CHI_TERMS; i++)
        values[i] = evaluate(series, chebyshev_points[i] / 2);
    chebyshev_powers(values, powers);
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

/* ---- Quantiles of the gamma distribution ---- */

/*
 * Quantiles of the gamma distribution by bisection, at the Chebyshev points of each piece. P(a, x) is the regularised
 * incomplete gamma function; Phi(-z) = (1 - P(1/2, z^2 / 2)) / 2. Probabilities stand as logarithms, so
 * that tails keep their digits.
 */

/* The most terms of the series and of the continued fraction. */
#define MOST_TERMS 100000
#define BISECTIONS 64

/* Returns log P(a, x) for x < a + 1, by its series (Abramowitz and Stegun 6.5.29). */
static double log_lower(double a, double x) {
    double term = 1, sum = 1;
    for (int j = 1; j < MOST_TERMS && term > 1e-17 * sum; j++) {
        term *= x / (a + j);
        sum += term;
    }
    return a * icl_logarithm(x) - x - log_gamma(a + 1) + icl_logarithm(sum);
}

/* Returns log (1 - P(a, x)) for x >= a + 1, by its continued fraction (6.5.31) and Lentz's method. */
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
    return a * icl_logarithm(x) - x - log_gamma(a) + icl_logarithm(fraction);
}

/* Returns log P(a, x), or log (1 - P(a, x)) if upper. A complement that rounds to 0 counts as 1e-300. */
static double log_probability(double a, double x, bool upper) {
    const bool is_upper = x >= a + 1;
    const double value = is_upper ? log_upper(a, x) : log_lower(a, x);
    double complement;

    if (is_upper == upper)
        return value;
    complement = 1 - icl_exponential(value < 0 ? value : 0);
    return icl_logarithm(complement > 1e-300 ? complement : 1e-300);
}

/* Returns log x of the x with the probability Phi(z), from the smaller tail. */
static double log_quantile(double a, double z) {
    const bool upper = z > 0;
    const double wanted = log_probability(0.5, z * z / 2, true) - LN_2;
    /* P(a, x) <= x^a / Gamma(a + 1) */
    double low = ((upper ? -LN_2 : wanted) + log_gamma(a + 1)) / a - 1e-9;
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
            values[i] = (log_quantile(shape, centre + chebyshev_points[i] / 2) + icl_logarithm(scale)) / (2 * LN_2);
        chebyshev_powers(values, coefficients + (size_t)piece * ICL_CHI_TERMS);
    }
}
