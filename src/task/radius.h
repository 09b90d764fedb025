/* Inside the task room: radii of heavy-tailed inputs, made from normal numbers. */
#ifndef ICLAB_TASK_RADIUS_H
#define ICLAB_TASK_RADIUS_H

#include "iclab/ops.h"

/* Shapes of a gamma distribution for which the table is as exact as it says. */
#define ICL_SMALLEST_SHAPE 0.05
#define ICL_LARGEST_SHAPE  10000.0

/*
 * The table that icl_spherical reads for radii r with r^2 ~ Gamma(shape, scale): L(z) = log2 of the root of the gamma
 * distribution's quantile at Phi(z). coefficients [ICL_CHI_PIECES][ICL_CHI_TERMS] receives floats held in doubles.
 * Evaluated in float for |z| < 6.5, |error| < 3e-7 * max(8, |L(z)|), so r is right to 5e-6 where it is not cut: below
 * 2^-62 (never but with a shape below .25) it stays 2^-62. The same bits on every machine.
 */
void icl_radius_table(double shape, double scale, double *coefficients);

#endif
