/*
 * Newton's iteration for the inverse of a matrix, X <- X (2 I - A X) (Schulz 1933; a hyperpower method of order 2): the
 * residual R = I - A X becomes R^2 with every step. Row-major, in double.
 */
#ifndef ICLAB_NUMERIC_NEWTON_INVERSE_H
#define ICLAB_NUMERIC_NEWTON_INVERSE_H

#include <stddef.h>

/* Sets X_0 = A^T / (||A||_1 ||A||_inf) for A [d][d] (Ben-Israel and Cohen 1966): the product of the norms is at least
 * ||A||_2^2, so that no eigenvalue of A X_0 is above 1, and X tends to the inverse, or to the pseudoinverse if there is
 * none. X_0 = 0 if A = 0. */
void icl_newton_inverse_start(const double *matrix, size_t d, double *inverse);

/* Makes one step of X. work holds 2 d^2 doubles. */
void icl_newton_inverse_step(const double *matrix, size_t d, double *inverse, double *work);

/* Computes I - A X into residual [d][d]. */
void icl_newton_inverse_residual(const double *matrix, const double *inverse, size_t d, double *residual);

#endif
