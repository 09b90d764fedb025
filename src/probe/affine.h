/*
 * Affine maps between activations by least squares: what a linear probe decodes, and the best linear stand-in for a
 * layer.
 *
 * With the centred rows X~ [n][p] and Y~ [n][q], and X~^T X~ = V diag(lambda) V^T,
 *
 *     A = sum over lambda_k > 0 of v_k v_k^T X~^T Y~ / lambda_k,   y(x) = (mean of Y) + (x - mean of X) A
 *
 * has the least sum of squared residuals of all affine maps and, among those, the least norm. Directions with less than
 * 10^-12 of the largest eigenvalue are rounding of floats and are left out. A map fits n rows better than others: an
 * honest score is that of rows which were not fitted.
 */
#ifndef ICLAB_PROBE_AFFINE_H
#define ICLAB_PROBE_AFFINE_H

#include <stddef.h>

#include "iclab/status.h"

/* Fits a map of rows x [rows][inputs] to rows y [rows][outputs], all row-major. map [inputs + 1][outputs] receives A
 * and, as its last row, what is added to x A. ICL_ERROR_INPUT for no rows, for no inputs or outputs, and for numbers
 * that are not finite. */
icl_status icl_affine_fit(size_t rows, size_t inputs, size_t outputs, const float *x, const float *y, double *map,
                          icl_error *error);

/* Computes y [outputs] = x A + b of one row x [inputs]. */
void icl_affine_apply(const double *map, size_t inputs, size_t outputs, const float *x, double *y);

#endif
