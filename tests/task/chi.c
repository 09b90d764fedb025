/*
 * The table that turns normals into chi-distributed numbers: against quantiles found by bisection of the incomplete
 * gamma function, which share nothing with the way the table is made; and its bits, which are the
 * same on every machine.
 */
#include <math.h>

#include "gamma_tail.h"
#include "table_hash.h"
#include "tap.h"
#include "task/chi.h"

enum { PIECES = ICL_CHI_PIECES, TERMS = ICL_CHI_TERMS };

static const double BOUND = 2e-7; /* what chi.h promises, in units of max(1, T) */

/* T_k(z) by bisection, from the smaller of the two tail probabilities. */
static double quantile(double k, double z) {
    const bool upper = z > 0;
    const double wanted = erfc(fabs(z) / sqrt(2.0)) / 2;
    double low = 0, high = sqrt(k) + 10;
    for (int i = 0; i < 60; i++) {
        const double u = (low + high) / 2;
        if ((gamma_tail(k / 2, u * u / 2, upper) > wanted) == upper)
            low = u;
        else
            high = u;
    }
    return (low + high) / 2;
}

/* As the op evaluates it, in float. */
static double from_table(const double *row, float z) {
    const int piece = (int)(z + (float)PIECES * 0.5F);
    const volatile float t = z - ((float)piece - (float)(PIECES - 1) / 2);
    volatile float value = (float)row[piece * TERMS + TERMS - 1];
    for (int j = TERMS - 2; j >= 0; j--) {
        volatile float product = value * t;
        value = product + (float)row[piece * TERMS + j];
    }
    return (double)value;
}

static void check_accuracy(tap_run *tap, size_t k) {
    const float last = icl_normal_from_word(UINT32_MAX);
    double row[PIECES * TERMS], worst = 0;
    float where = 0;

    icl_chi_table(k, 1, row);
    for (int i = -331; i <= 331; i++) {
        const float z = last * (float)i / 331;
        const double truth = quantile((double)k, (double)z);
        const double error = fabs(from_table(row, z) - truth) / fmax(1, truth);
        if (error > worst) {
            worst = error;
            where = z;
        }
    }
    tap_ok(tap, worst < BOUND, "k = %zu: within %.2g of the quantile (worst at z = %g)", k, worst, (double)where);
}

/* Neighbouring pieces meet, and every row of a table is that of its own degrees of freedom. */
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
    tap_ok(tap, jump < 2 * BOUND, "the pieces join (%.2g)", jump);
}

static void check_bits(tap_run *tap) {
    double row[PIECES * TERMS];
    uint64_t hash = TABLE_HASH;

    for (size_t k = 1; k < 2000; k = k * 2 + 1) {
        icl_chi_table(k, 1, row);
        hash = table_hash(hash, row, PIECES * TERMS);
    }
    tap_ok(tap, hash == 0xb3b5be5a3ca7facc, "its bits (%016llx)", (unsigned long long)hash);
}

int main(void) {
    static const size_t degrees[] = {1, 2, 3, 4, 5, 10, 20, 50, 100, 1000, 10000, 16384, 1000000};
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        check_accuracy(&tap, degrees[i]);
    check_rows(&tap);
    check_bits(&tap);
    return tap_done(&tap);
}
