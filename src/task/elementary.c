#include "task/elementary.h"

#include <math.h>

/* exp(x) = 2^j exp(r), |r| <= ln 2 / 2, by its series. */
double icl_exponential(double x) {
    const double j = floor(x / ICL_LN_2 + 0.5), r = x - j * ICL_LN_2;
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
    return j * ICL_LN_2 + 2 * s * sum;
}

/* log Gamma(a), a > 0: Stirling's series (Abramowitz and Stegun 6.1.40) from 12 up, and the recurrence below. */
double icl_log_gamma(double a) {
    const int raised = a < 12 ? (int)ceil(12 - a) : 0;
    double product = 1;
    for (int i = 0; i < raised; i++)
        product *= a + i;
    a += raised;
    const double x = 1 / (a * a);
    const double series =
        (1.0 / 12 - x * (1.0 / 360 - x * (1.0 / 1260 - x * (1.0 / 1680 - x * (1.0 / 1188 - x * 691.0 / 360360))))) / a;
    return (a - 0.5) * icl_logarithm(a) - a + ICL_HALF_LN_2_PI + series - icl_logarithm(product);
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

const double icl_chebyshev_points[ICL_CHI_TERMS] = {
    0.98078528040323044913,  0.83146961230254523708,  0.55557023301960222474,  0.19509032201612826785,
    -0.19509032201612826785, -0.55557023301960222474, -0.83146961230254523708, -0.98078528040323044913};

/* c_j = 1/4 sum_i value_i cos(j (2 i + 1) pi / 16), then from Chebyshev's basis to powers of t. */
void icl_chebyshev_powers(const double values[ICL_CHI_TERMS], double powers[ICL_CHI_TERMS]) {
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
        if (j > 0) /* the next one: 2 x (this one) - (the one before), in its place */
            for (int i = ICL_CHI_TERMS - 1; i >= 0; i--)
                next[i] = (i > 0 ? 2 * current[i - 1] : 0) - next[i];
    }
    for (int j = 0; j < ICL_CHI_TERMS; j++) {
        powers[j] = (double)(float)(powers[j] * scale);
        scale *= 2;
    }
}
