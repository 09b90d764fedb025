/*
 * Matrix products.
 *
 * An inner product of k terms in any order has |error| <= gamma(k) |a|.|b| (Higham, section 3.1); scaling by alpha,
 * scaling the old value by beta and the last sum add three roundings. With small integers and scales that are powers of
 * two every intermediate is exact, and so must the result be. The strict product has no freedom at all: its truth is
 * computed in float.
 */
#include <math.h>

#include "conformance/cases.h"

/* The start of the matrix of a broadcast operand that meets matrix number `batch` of out. */
static const double *matrix(const icl_truth *truth, int operand, size_t batch) {
    const icl_case *c = truth->c;
    const int rank = c->rank[operand];
    size_t position = 0, stride = c->shape[operand][rank - 2] * c->shape[operand][rank - 1];

    for (int axis = c->rank[0] - 3, own = rank - 3; own >= 0; axis--, own--) {
        const size_t coordinate = batch % c->shape[0][axis];
        batch /= c->shape[0][axis];
        if (c->shape[operand][own] != 1)
            position += coordinate * stride;
        stride *= c->shape[operand][own];
    }
    return truth->operand[operand] + position;
}

static double strict_element(const double *a, const double *b, size_t k, size_t n) {
    volatile float sum = 0;
    for (size_t l = 0; l < k; l++) {
        const volatile float product = (float)a[l] * (float)b[l * n];
        sum = l == 0 ? product : sum + product;
    }
    return (double)sum;
}

icl_status icl_truth_matmul(icl_truth *truth, icl_error *error) {
    const icl_case *c = truth->c;
    const size_t m = c->shape[0][c->rank[0] - 2], n = c->shape[0][c->rank[0] - 1];
    const size_t k = c->shape[1][c->rank[1] - 1], count = icl_case_count(c, 0);
    const bool strict = c->op == ICL_OP_matmul_strict, exact = c->values == ICL_VALUES_INTEGERS;
    const double alpha = strict ? 1 : icl_device_rounded(truth, c->params.matmul.alpha);
    const double beta = strict ? 0 : icl_device_rounded(truth, c->params.matmul.beta);
    (void)error;

    for (size_t i = 0; i < count; i++) {
        const double *a = matrix(truth, 1, i / (m * n)) + i / n % m * k;
        const double *b = matrix(truth, 2, i / (m * n)) + i % n;
        const double old = beta == 0 ? 0 : beta * truth->operand[0][i];
        long double sum = 0; /* wider where the platform has it, so that "ref" can be judged too */
        double magnitude = 0;
        for (size_t l = 0; l < k; l++) {
            sum += (long double)a[l] * (long double)b[l * n];
            magnitude += fabs(a[l] * b[l * n]);
        }
        truth->operand[0][i] =
            strict ? strict_element(a, b, k, n) : (double)((long double)alpha * sum + (long double)old);
        truth->bound[0][i] = strict || exact ? 0
                                             : icl_gamma((double)k + 3, truth->unit) * fabs(alpha) * magnitude +
                                                   icl_gamma(3, truth->unit) * fabs(old);
    }
    return ICL_OK;
}
