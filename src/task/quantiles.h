/* Internals of the task room: tables of quantiles, and elementary functions with the same bits on every machine. */
#ifndef ICLAB_TASK_QUANTILES_H
#define ICLAB_TASK_QUANTILES_H

#include "iclab/ops.h"

/* ---- Elementary functions ---- */

double icl_exponential(double x);
double icl_logarithm(double x); /* x > 0 */

/* ---- Tables ---- */

/*
 * Writes the table that icl_gram_sample reads, for n = context pairs: row i < rows, rows <= n, is T_{n-i}, where T_k(z)
 * is the quantile function of the chi distribution with k degrees of freedom at Phi(z), so that T_k of a standard
 * normal has that distribution. coefficients [rows][ICL_CHI_PIECES][ICL_CHI_TERMS] receives floats held in doubles.
 * Evaluated in float, |error| < 2e-7 * max(1, T_k(z)) for |z| < 7. Made with only +, -, *, / and sqrt, so that it has
 * the same bits on every machine; the cost does not depend on n.
 */
void icl_chi_table(size_t context, size_t rows, double *coefficients);

/* The range of shapes of a gamma distribution for which the table is as exact as it says. */
#define ICL_SMALLEST_SHAPE 0.05
#define ICL_LARGEST_SHAPE  10000.0

/*
 * Writes the table that icl_spherical reads for radii r with r^2 ~ Gamma(shape, scale): L(z) = log2 of the root of the
 * gamma distribution's quantile at Phi(z). coefficients [ICL_CHI_PIECES][ICL_CHI_TERMS] receives floats held in
 * doubles. Evaluated in float for |z| < 6.5, |error| < 3e-7 * max(8, |L(z)|), so r is right to 5e-6, unless it is below
 * 2^-62 (only with a shape below .25): then it is 2^-62. The bits are the same on every machine.
 */
void icl_radius_table(double shape, double scale, double *coefficients);

#endif
