/*
 * The table that turns normals into radii: against quantiles of the gamma distribution found by bisection with libm,
 * from probabilities by erfc, which share nothing with the way the table is made; and its bits, which are
 * the same on every machine.
 */

#include "task/radius.h"
#include "gamma_tail.h"
#include "iclab/random.h"
#include "table_hash.h"
#include "tap.h"

enum { PIECES = ICL_CHI_PIECES, TERMS = ICL_CHI_TERMS };

static const double BOUND = 3e-7; /* what radius.h promises, in units of max(8, |L|) */

/* log2 of the root of the quantile, by bisection of log x. Where x would be 0 as a double, P(a, x) = x^a
 * / Gamma(a + 1). */
static double exponent(double shape, double scale, double z) {
    const bool upper = z > 0;
    const double wanted = erfc(fabs(z) / sqrt(2.0)) / 2;
    double low = -700, high = log(shape + 60 + 14 * sqrt(shape));

    for (int i = 0; i < 64; i++) {
        const double middle = (low + high) / 2;
        if ((gamma_tail(shape, exp(middle), upper) > wanted) == upper)
            low = middle;
        else
            high = middle;
    }
    return (low + log(scale)) / (2 * log(2));
}

/* As the op evaluates it, in float. */
static float from_table(const double *table, float z) {
    const int piece = (int)(z + (float)PIECES * 0.5F);
    const volatile float t = z - ((float)piece - (float)(PIECES - 1) / 2);
    volatile float value = (float)table[piece * TERMS + TERMS - 1];
    for (int j = TERMS - 2; j >= 0; j--) {
        volatile float product = value * t;
        value = product + (float)table[piece * TERMS + j];
    }
    return value;
}

static void check_accuracy(tap_run *tap, double shape, double scale) {
    const float last = icl_normal_from_word(UINT32_MAX);
    double table[PIECES * TERMS], worst = 0;
    float where = 0;

    icl_radius_table(shape, scale, table);
    for (int i = -331; i <= 331; i++) {
        const float z = last * (float)i / 331;
        const double truth = exponent(shape, scale, (double)z);
        const double error = fabs((double)from_table(table, z) - truth) / fmax(8, fabs(truth));
        if (error > worst) {
            worst = error;
            where = z;
        }
    }
    tap_ok(tap, worst < BOUND, "shape %g, scale %g: within %.2g of the quantile (worst at z = %g)", shape, scale, worst,
           (double)where);
}

static void check_bits(tap_run *tap) {
    static const double shapes[] = {0.1, 0.5, 2.5, 100, 1000};
    double table[PIECES * TERMS];
    uint64_t hash = TABLE_HASH;

    for (int i = 0; i < 5; i++) {
        icl_radius_table(shapes[i], 10, table);
        hash = table_hash(hash, table, PIECES * TERMS);
    }
    tap_ok(tap, hash == 0x5898d67a34b6a17c, "its bits (%016llx)", (unsigned long long)hash);
}

int main(void) {
    static const double shapes[] = {0.05, 0.1, 0.3, 0.5, 1, 2.5, 10, 100, 10000};
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_accuracy(&tap, shapes[i], i % 2 ? 10 : 0.5);
    check_bits(&tap);
    return tap_done(&tap);
}
