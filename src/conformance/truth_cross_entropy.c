/*
 * Cross-entropy, and its gradient.
 *
 * m is exact. z_k - m rounds once, so that exp(z_k - m), good to 3 ulp, has the relative error (6 + |z_k - m|) u, or is
 * flushed where it is below the smallest normal number. The sum S of V weights passes through at most 48 + V / 256
 * additions (ops_sequence.h): its relative error s is the mean of the weights' errors, by their size, and gamma of
 * that. log(S) is off by log(1 + s) and by 3 ulp of its own; z_y - m and the last difference round once each.
 *
 * Backward exp(z_k - m) d / S has the errors of the weight and of S, a division of 2.5 ulp and a product, and the
 * difference at k = y one rounding more.
 */
#include <float.h>
#include <math.h>

#include "conformance/cases.h"
#include "iclab/status.h"

#define SECOND_ORDER 1.02

typedef struct row {
    const double *z;
    size_t n, own;
    bool is_class;
    double largest, sum, error; /* of the sum: relative */
    double unit, lost;          /* lost: the largest number that may be flushed */
} row;

static double weight(const row *of, size_t k) {
    return exp(of->z[k] - of->largest);
}

/* The relative error of a weight. */
static double weight_error(const row *of, size_t k) {
    return isinf(of->z[k]) ? 0 : of->unit * (6 + fabs(of->z[k] - of->largest));
}

static row describe(const icl_truth *truth, const double *z, size_t n, double number) {
    row of = {.z = z, .n = n, .unit = truth->unit, .largest = -(double)INFINITY};
    long double sum = 0;
    double errors = 0;

    of.lost = truth->unit < (double)FLT_EPSILON / 4 ? DBL_MIN : (double)FLT_MIN;
    of.is_class = number >= 0 && number < (double)n && number == floor(number);
    of.own = of.is_class ? (size_t)number : 0;
    for (size_t k = 0; k < n; k++)
        of.largest = z[k] > of.largest ? z[k] : of.largest;
    for (size_t k = 0; k < n; k++) {
        sum += (long double)weight(&of, k);
        errors += weight(&of, k) * weight_error(&of, k);
    }
    of.sum = (double)sum;
    of.error = SECOND_ORDER * (errors / of.sum + icl_gamma(48 + (double)n / 256, of.unit)) + (double)n * of.lost;
    return of;
}

icl_status icl_truth_cross_entropy(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t n = c->shape[1][c->rank[1] - 1];
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 0); i++) {
        const row of = describe(truth, truth->operand[1] + i * n, n, truth->operand[2][i]);
        const double distance = of.is_class ? of.z[of.own] - of.largest : (double)NAN;
        const double loss = log(of.sum) - distance;
        truth->operand[0][i] = loss;
        truth->bound[0][i] = SECOND_ORDER * (of.error + of.unit * (6 * log(of.sum) + fabs(distance) + fabs(loss)));
    }
    return ICL_OK;
}

icl_status icl_truth_cross_entropy_backward(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t n = c->shape[0][c->rank[0] - 1];
    (void)error;

    for (size_t i = 0; i < icl_case_count(c, 1); i++) {
        const double d_loss = truth->operand[1][i];
        const row of = describe(truth, truth->operand[2] + i * n, n, truth->operand[3][i]);
        for (size_t k = 0; k < n; k++) {
            const double p = weight(&of, k) / of.sum, slope = d_loss * (p - (of.is_class && k == of.own));
            const double relative = weight_error(&of, k) + of.error + 7 * of.unit;
            truth->operand[0][i * n + k] = of.is_class ? slope : (double)NAN;
            truth->bound[0][i * n + k] =
                SECOND_ORDER * (fabs(d_loss) * p * relative + of.unit * fabs(slope)) + of.lost * (2 + fabs(d_loss));
        }
    }
    return ICL_OK;
}
