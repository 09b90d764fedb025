/* Probes of learned matrices: their distance from a multiple of the identity, and their form in other coordinates.
 * Row-major, in double. */
#ifndef ICLAB_NUMERIC_MATRIX_H
#define ICLAB_NUMERIC_MATRIX_H

#include <stddef.h>

/* Returns tr(M) / d: the multiple of the identity nearest to M [d, d]. */
double icl_matrix_multiple(const double *matrix, size_t d);

/* Returns Dist(M, I) = min over a of ||M - a I||_F / ||M||_F of Ahn et al. (arXiv 2306.00297, section 4.3): from 0 for
 * a multiple of the identity to 1 for a matrix without trace. Returns 0 if M = 0. */
double icl_matrix_distance(const double *matrix, size_t d);

/* Computes out = R^T M R, all [d, d]: the bilinear form M in the coordinates g of x = R g. R = NULL is the identity.
 * out differs from the others. */
void icl_matrix_in_basis(const double *root, const double *matrix, size_t d, double *out);

#endif
