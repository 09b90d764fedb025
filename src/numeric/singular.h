/* Singular values of learned matrices, and the alignment of a matrix with a subspace. Row-major, in double. */
#ifndef ICLAB_NUMERIC_SINGULAR_H
#define ICLAB_NUMERIC_SINGULAR_H

#include <stddef.h>

#include "iclab/status.h"

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

#endif
