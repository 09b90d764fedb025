/* Matrices in double, row-major: decompositions, inverses, and measures of learned ones. */
#ifndef ICLAB_NUMERIC_MATRIX_H
#define ICLAB_NUMERIC_MATRIX_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

/* ---- Distance from a multiple of the identity, and form in other coordinates ---- */

/* Returns tr(M) / d: the multiple of the identity nearest to M [d, d]. */
double icl_matrix_multiple(const double *matrix, size_t d);

/* Returns Dist(M, I) = min over a of ||M - a I||_F / ||M||_F of Ahn et al. (arXiv 2306.00297, section 4.3): from 0 for
 * a multiple of the identity to 1 for a matrix without trace. Returns 0 if M = 0. */
double icl_matrix_distance(const double *matrix, size_t d);

/* Computes out = R^T M R, all [d, d]: the bilinear form M in the coordinates g of x = R g. R = NULL is the identity.
 * out differs from the others. */
void icl_matrix_in_basis(const double *root, const double *matrix, size_t d, double *out);

/* ---- Singular values, and the alignment of a matrix with a subspace ---- */

/* Finds the smallest and largest singular value of a square block [size, size] of a matrix whose rows lie `stride`
 * apart: roots of the extreme eigenvalues of A^T A, so values below 1e-8 of the largest one are lost in rounding.
 * ICL_ERROR_INPUT if it is not finite. */
icl_status icl_singular_extremes(const double *block, size_t size, size_t stride, double *smallest, double *largest,
                                 icl_error *error);

/* Writes all singular values of a matrix [rows, columns] into values [min(rows, columns)], descending, with the
 * accuracy of the above. ICL_ERROR_INPUT if it is not finite. */
icl_status icl_singular_values(const double *matrix, size_t rows, size_t columns, double *values, icl_error *error);

/* Returns exp(H(p)), p_i = values_i / sum of the values, H the entropy: the effective rank of Roy and Vetterli 2007,
 * from 1 to the count if all are equal. 0 if all are 0. */
double icl_entropy_rank(const double *values, size_t count);

/* Measures how well M [d, d] keeps to k of d directions: rho(M, B) = ||B'^T M B'||_2 / sigma_min(B^T M B), where B is
 * the first k columns of an orthogonal matrix [d, d] and B' the others (Collins et al. 2024, arXiv 2402.11639, section
 * 4). It is 0 if M = B A B^T, 1 if M = I, infinite if M is blind to a direction of B, so that B^T M B is singular. */
icl_status icl_subspace_alignment(const double *M, const double *rotation, size_t d, size_t k, double *rho,
                                  icl_error *error);

/* ---- Inverses ---- */

/*
 * Newton's iteration for the inverse of a matrix, X <- X (2 I - A X) (Schulz 1933; a hyperpower method of order 2): the
 * residual R = I - A X becomes R^2 with every step.
 */

/* Sets X_0 = A^T / (||A||_1 ||A||_inf) for A [d][d] (Ben-Israel and Cohen 1966): the product of the norms is at least
 * ||A||_2^2, so that no eigenvalue of A X_0 is above 1, and X tends to the inverse, or to the pseudoinverse if there is
 * none. X_0 = 0 if A = 0. */
void icl_newton_inverse_start(const double *matrix, size_t d, double *inverse);

/* Makes one step of X. work holds 2 d^2 doubles. */
void icl_newton_inverse_step(const double *matrix, size_t d, double *inverse, double *work);

/* Computes I - A X into residual [d][d]. */
void icl_newton_inverse_residual(const double *matrix, const double *inverse, size_t d, double *residual);

/* ---- Symmetric matrices ---- */

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
