#include "numeric/eigen.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

static double dot(size_t count, const double *a, const double *b) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Turns x into the v of the reflector H = I - tau v v^T with H x = (beta, 0, …), v_0 = 1, and returns tau
 * (Golub and Van Loan, "Matrix Computations", algorithm 5.1.1). */
static double make_reflector(size_t count, double *x, double *beta) {
    const double tail = dot(count - 1, x + 1, x + 1), first = x[0];
    double length, pivot;

    *beta = first;
    x[0] = 1;
    if (tail == 0)
        return 0;
    length = sqrt(first * first + tail);
    *beta = first > 0 ? -length : length;
    pivot = first - *beta;
    for (size_t i = 1; i < count; i++)
        x[i] /= pivot;
    return -pivot / *beta;
}

/* A <- H A H on the trailing block of size `count`, rows `stride` apart: with p = tau A v and p -= (tau p . v / 2) v,
 * it is A - v p^T - p v^T. */
static void reflect_both_sides(size_t count, size_t stride, double *block, const double *v, double tau, double *p) {
    double half;

    for (size_t i = 0; i < count; i++)
        p[i] = tau * dot(count, block + i * stride, v);
    half = tau * dot(count, p, v) / 2;
    for (size_t i = 0; i < count; i++)
        p[i] -= half * v[i];
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++)
            block[i * stride + j] -= v[i] * p[j] + p[i] * v[j];
}

/* matrix = Q T Q^T: row k of vectors receives column k of Q; the diagonal of T and the one beside it. Row k of
 * matrix keeps the k-th reflector's v. */
static void tridiagonalize(size_t d, double *matrix, double *diagonal, double *beside, double *vectors, double *work) {
    double *tau = work, *p = work + d;

    for (size_t k = 0; k + 1 < d; k++) {
        double *v = matrix + k * d + k + 1;
        diagonal[k] = matrix[k * d + k];
        tau[k] = make_reflector(d - k - 1, v, &beside[k]);
        if (tau[k] != 0)
            reflect_both_sides(d - k - 1, d, matrix + (k + 1) * (d + 1), v, tau[k], p);
    }
    diagonal[d - 1] = matrix[d * d - 1];

    memset(vectors, 0, d * d * sizeof(double));
    for (size_t i = 0; i < d; i++)
        vectors[i * d + i] = 1;
    for (size_t k = d - 1; k-- > 0;) {
        const double *v = matrix + k * d + k + 1;
        for (size_t column = k + 1; column < d; column++) {
            double *entries = vectors + column * d + k + 1;
            const double product = tau[k] * dot(d - k - 1, v, entries);
            for (size_t i = 0; i < d - k - 1; i++)
                entries[i] -= product * v[i];
        }
    }
}

bool icl_symmetric_eigen(size_t d, double *matrix, double *eigenvalues, double *vectors, double *work) {
    double *beside = work;

    tridiagonalize(d, matrix, eigenvalues, beside, vectors, work + d);
    /* The matrix is of no more use: dsteqr's workspace. It needs 2 d - 2. */
    return LAPACKE_dsteqr_work(LAPACK_COL_MAJOR, 'V', (int)d, eigenvalues, beside, vectors, (int)d,
                               d > 1 ? matrix : work + d) == 0;
}
