/* The eigen-decomposition of a small symmetric matrix, on many threads at once. */
#ifndef ICLAB_NUMERIC_EIGEN_H
#define ICLAB_NUMERIC_EIGEN_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Computes matrix = sum_k eigenvalues[k] v_k v_k^T. matrix [d][d] is symmetric and finite, and is destroyed;
 * eigenvalues [d] are ascending; row k of vectors [d][d] receives v_k; work holds 3 d doubles. Returns false if the
 * iteration does not converge.
 *
 * Householder's tridiagonalisation is done here, the tridiagonal problem by LAPACK's dsteqr. LAPACK's dsyev would do
 * both, but on OpenBLAS every level-2 call takes a process-wide lock: 8 times slower on 2 threads at d = 10, measured;
 * and for larger matrices the result would depend on OpenBLAS's own number of threads.
 */
bool icl_symmetric_eigen(size_t d, double *matrix, double *eigenvalues, double *vectors, double *work);

#endif
