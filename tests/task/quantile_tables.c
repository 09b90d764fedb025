/* The tables that turn normals into chi-distributed numbers and into radii, against quantiles found by bisection of the
 * incomplete gamma function, from probabilities by erfc, which are independent of how the tables are made; and the
 * tables' bits, which are the same on every machine. */
#include <math.h>
#include <stdint.h>

#include "gamma_tail.h"
#include "iclab/random.h"
#include "tap.h"
#include "task/laws.h"

enum { PIECES = ICL_CHI_PIECES, TERMS = ICL_CHI_TERMS };

/* The bounds that chi.h and radius.h promise, in units of max(1, T) and max(8, |L|). */
static const double CHI_BOUND = 2e-7, RADIUS_BOUND = 3e-7;

/* A quantity x whose law follows from a gamma distribution of this shape, by a function that grows with x. */
typedef struct quantity {
    double shape, scale, low, high;
    double (*gamma_of)(const struct quantity *law, double x);
    double unit; /* errors are measured in max(unit, |x|) */
} quantity;

/* Returns the x at which the distribution function is that of a normal at z, by bisection of the smaller of the two
 * tails. */
static double quantile(const quantity *law, double z) {
    const bool upper = z > 0;
    const double wanted = erfc(fabs(z) / sqrt(2.0)) / 2;
    double low = law->low, high = law->high;

    for (int i = 0; i < 64; i++) {
        const double middle = (low + high) / 2;
        if ((gamma_tail(law->shape, law->gamma_of(law, middle), upper) > wanted) == upper)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

/* Evaluates a table as the op does, in float. */
static double from_table(const double *table, float z) {
    const int piece = (int)(z + (float)PIECES * 0.5F);
    const volatile float t = z - ((float)piece - (float)(PIECES - 1) / 2);
    volatile float value = (float)table[piece * TERMS + TERMS - 1];

    for (int j = TERMS - 2; j >= 0; j--) {
        volatile float product = value * t;
        value = product + (float)table[piece * TERMS + j];
    }
    return (double)value;
}

static void check_accuracy(tap_run *tap, const char *name, const double *table, const quantity *law, double bound) {
    const float last = icl_normal_from_word(UINT32_MAX);
    double worst = 0, where = 0;

    for (int i = -331; i <= 331; i++) {
        const float z = last * (float)i / 331;
        const double truth = quantile(law, (double)z);
        const double error = fabs(from_table(table, z) - truth) / fmax(law->unit, fabs(truth));
        where = error > worst ? (double)z : where;
        worst = fmax(error, worst);
    }
    tap_ok(tap, worst < bound, "%s of shape %g, scale %g: within %.2g of the quantile (worst at z = %g)", name,
           law->shape, law->scale, worst, where);
}

/* Returns the FNV-1a hash of the table's floats, a word at a time. */
static uint64_t hash_table(uint64_t hash, const double *table) {
    for (size_t i = 0; i < (size_t)PIECES * TERMS; i++) {
        const float coefficient = (float)table[i];
        uint32_t word;
        memcpy(&word, &coefficient, sizeof word);
        hash = (hash ^ word) * 0x100000001b3u;
    }
    return hash;
}

static const uint64_t EMPTY_HASH = 0xcbf29ce484222325u;

/* ---- Chi ---- */

static double square_half(const quantity *law, double chi) {
    (void)law;
    return chi * chi / 2;
}

/* Neighbouring pieces join, and every row of a table is the table of its own degrees of freedom. */
static void check_rows(tap_run *tap) {
    enum { ROWS = 6, CONTEXT = 23 };
    double table[ROWS][PIECES * TERMS], own[PIECES * TERMS], jump = 0;
    size_t different = 0;

    icl_chi_table(CONTEXT, ROWS, table[0]);
    for (size_t i = 0; i < ROWS; i++) {
        icl_chi_table(CONTEXT - i, 1, own);
        for (size_t k = 0; k < PIECES * TERMS; k++)
            different += table[i][k] != own[k];
        for (int piece = 1; piece < PIECES; piece++) {
            double left = 0, right = 0;
            for (int j = TERMS - 1; j >= 0; j--) {
                left = left * 0.5 + table[i][(piece - 1) * TERMS + j];
                right = right * -0.5 + table[i][piece * TERMS + j];
            }
            jump = fmax(jump, fabs(left - right) / fmax(1, right));
        }
    }
    tap_ok(tap, different == 0, "row i has n - i degrees of freedom");
    tap_ok(tap, jump < 2 * CHI_BOUND, "the pieces join (%.2g)", jump);
}

static void check_chi(tap_run *tap) {
    static const size_t degrees[] = {1, 2, 3, 4, 5, 10, 20, 50, 100, 1000, 10000, 16384, 1000000};
    double table[PIECES * TERMS];
    uint64_t hash = EMPTY_HASH;

    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++) {
        const double k = (double)degrees[i];
        icl_chi_table(degrees[i], 1, table);
        check_accuracy(tap, "chi", table, &(quantity){k / 2, 2, 0, sqrt(k) + 10, square_half, 1}, CHI_BOUND);
    }
    for (size_t k = 1; k < 2000; k = k * 2 + 1) {
        icl_chi_table(k, 1, table);
        hash = hash_table(hash, table);
    }
    tap_ok(tap, hash == 0xb3b5be5a3ca7facc, "its bits (%016llx)", (unsigned long long)hash);
}

/* ---- Radii ---- */

/* Returns the square of a radius over the scale, from the radius's logarithm to base 2. */
static double square_of_exponent(const quantity *law, double exponent) {
    return exp2(2 * exponent) / law->scale;
}

static void check_radii(tap_run *tap) {
    static const double shapes[] = {0.05, 0.1, 0.3, 0.5, 1, 2.5, 10, 100, 10000}, hashed[] = {0.1, 0.5, 2.5, 100, 1000};
    double table[PIECES * TERMS];
    uint64_t hash = EMPTY_HASH;

    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const double shape = shapes[i], scale = i % 2 ? 10 : 0.5;
        const double high = (log(shape + 60 + 14 * sqrt(shape)) + log(scale)) / (2 * log(2));
        icl_radius_table(shape, scale, table);
        check_accuracy(tap, "radii", table, &(quantity){shape, scale, -500, high, square_of_exponent, 8}, RADIUS_BOUND);
    }
    for (size_t i = 0; i < sizeof hashed / sizeof *hashed; i++) {
        icl_radius_table(hashed[i], 10, table);
        hash = hash_table(hash, table);
    }
    tap_ok(tap, hash == 0x5898d67a34b6a17c, "its bits (%016llx)", (unsigned long long)hash);
}

int main(void) {
    tap_run tap = {0};

    check_chi(&tap);
    check_rows(&tap);
    check_radii(&tap);
    return tap_done(&tap);
}
