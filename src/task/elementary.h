/*
 * Inside the task room: elementary functions and polynomials from +, -, *, / alone, for tables that must have the same
 * bits on every machine; libm's functions differ from machine to machine in their last bits.
 */
#ifndef ICLAB_TASK_ELEMENTARY_H
#define ICLAB_TASK_ELEMENTARY_H

#include "iclab/ops.h"

#define ICL_LN_2         0.69314718055994530942
#define ICL_HALF_LN_2_PI 0.91893853320467274178 /* log(2 pi) / 2 */

double icl_exponential(double x);
double icl_logarithm(double x); /* x > 0 */
double icl_log_gamma(double a); /* a > 0 */

/* Where a polynomial of ICL_CHI_TERMS terms on [-1, 1] is interpolated: the Chebyshev points, descending. */
extern const double icl_chebyshev_points[ICL_CHI_TERMS];

/* The polynomial in t, |t| <= 1/2, that has these values at t = icl_chebyshev_points / 2: coefficients of 1, t, t^2, …,
 * floats held in doubles. */
void icl_chebyshev_powers(const double values[ICL_CHI_TERMS], double powers[ICL_CHI_TERMS]);

#endif
