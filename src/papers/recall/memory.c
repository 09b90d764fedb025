/*
 * One pass of the delta rule, exactly. P_i = I - k_i k_i^T, and the keys are independent and uniform on the unit
 * sphere. Behind the last write the memory returns for key j, in the place of value i, k_j^T A_i k_i with
 * A_i = P_n … P_(i+1), where 1 is right for i = j and 0 elsewhere. With a = 1 - 1 / d:
 *
 *     E |P x|^2 = a |x|^2
 *     c_m = E (k^T P_m … P_1 k)^2:   c_0 = 1,   c_(m+1) = b c_m + a^m / (d (d + 2)),   b = 1 - 2 (d + 1) / (d (d + 2)),
 *           from E P X P = X - 2 X / d + (2 X + tr X I) / (d (d + 2)), so c_m = a b^m + a^m / d
 *
 * and for m = n - j writes behind key j
 *
 *     i > j:  E (k_j^T A_i k_i)^2 = a^(n-i) / d,                              in all 1 - a^m
 *     i = j:  E (k_j^T A_j k_j - 1)^2 = 1 - 2 a^m + c_m
 *     i < j:  E (k_j^T A_j P_j … k_i)^2 = a^(j-1-i) (a^m - c_m) / d,          in all (1 - a^(j-1)) (a^m - c_m)
 *
 * Half of the sum is 1 - a^m - a^n (1 - (b / a)^m) / 2; its mean over m = 0 … n - 1, with rho = b / a:
 *
 *     1 - d (1 - a^n) / n - a^n / 2 (1 - (1 - rho^n) / (n (1 - rho)))
 *
 * For d to infinity a^n and rho^n become e^-r: 1 - (1 - e^-r) / r - e^-r (r - 1 + e^-r) / (2 r).
 *
 * Many passes. With the Gram matrix I + L + L^T of the keys, L below the diagonal, a pass of the delta rule is a sweep
 * of Gauss and Seidel: the errors of all values become -L^T (I + L)^-1 times what they were, I at the beginning.
 */
#include "papers/recall/memory.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/eigen.h"

double icl_recall_error_sum(size_t d, size_t n) {
    return ((double)n - 1) / (2 * (double)d);
}

double icl_recall_error_delta(size_t d, size_t n) {
    const double dimension = (double)d, keys = (double)n;
    const double a = 1 - 1 / dimension, b = 1 - 2 * (dimension + 1) / (dimension * (dimension + 2)), rho = b / a;
    const double all = pow(a, keys), mean = (1 - pow(rho, keys)) / (keys * (1 - rho));

    return 1 - dimension * (1 - all) / keys - all / 2 * (1 - mean);
}

double icl_recall_error_delta_limit(double r) {
    const double left = exp(-r);
    return 1 - (1 - left) / r - left * (r - 1 + left) / (2 * r);
}

double icl_recall_error_least_squares(size_t d, size_t n) {
    return fmax(0, 1 - (double)d / (double)n) / 2;
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* matrix <- -L^T (I + L)^-1 matrix, both [n][n]; `work` [n][n]. */
static void sweep(size_t n, const double *gram, double *matrix, double *work) {
    for (size_t i = 0; i < n; i++) { /* work = (I + L)^-1 matrix */
        memcpy(work + i * n, matrix + i * n, n * sizeof *work);
        for (size_t j = 0; j < i; j++)
            for (size_t c = 0; c < n; c++)
                work[i * n + c] -= gram[i * n + j] * work[j * n + c];
    }
    memset(matrix, 0, n * n * sizeof *matrix);
    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            for (size_t c = 0; c < n; c++)
                matrix[i * n + c] -= gram[j * n + i] * work[j * n + c];
}

icl_status icl_recall_error_passes(size_t d, size_t n, const double *keys, size_t passes, double *half_error,
                                   icl_error *error) {
    double *gram = NULL, *errors, *work;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(3 * n * n, sizeof *gram, "passes", &gram, error));
    errors = gram + n * n;
    work = errors + n * n;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            gram[i * n + j] = dot(keys + i * d, keys + j * d, d);
            errors[i * n + j] = i == j;
        }
    for (size_t pass = 0; pass < passes; pass++)
        sweep(n, gram, errors, work);
    *half_error = dot(errors, errors, n * n) / (2 * (double)n);
done:
    icl_free(&gram);
    return status;
}

/* The errors are ridge (K K^T + ridge)^-1, whose eigenvalues are ridge / (lambda + ridge): d of them with the
 * eigenvalues lambda of K^T K, and 1 for the others, or, where n < d, n of them. */
icl_status icl_recall_error_ridge(size_t d, size_t n, const double *keys, double ridge, double *half_error,
                                  icl_error *error) {
    double *matrix = NULL, *eigenvalues, *vectors, sum = (double)n - (double)d;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(2 * d * d + 4 * d, sizeof *matrix, "eigenvalues", &matrix, error));
    vectors = matrix + d * d;
    eigenvalues = vectors + d * d;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < d; j++)
            for (size_t c = 0; c < d; c++)
                matrix[j * d + c] += keys[i * d + j] * keys[i * d + c];
    if (!icl_symmetric_eigen(d, matrix, eigenvalues, vectors, eigenvalues + d))
        ICL_TRY(icl_fail(error, ICL_ERROR_DIVERGED, "recall-onepass: eigenvalues of %zu keys do not converge", n));
    for (size_t i = 0; i < d; i++) {
        const double share = ridge / (fmax(0, eigenvalues[i]) + ridge);
        sum += share * share;
    }
    *half_error = fmax(0, sum) / (2 * (double)n);
done:
    icl_free(&matrix);
    return status;
}
