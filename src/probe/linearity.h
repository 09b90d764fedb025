/*
 * The closeness of a map between two sets of activations to a linear one (Razzhigaev and others 2024, "Your Transformer
 * is Secretly Linear", arXiv 2405.12250), for X and Y [n][d] of the same n tokens, such as the residual stream after
 * two consecutive layers.
 *
 * With X~ = (X - mean of its rows) / its Frobenius norm, and Y~ likewise, the linearity score is
 *
 *     1 - min over A of ||X~ A - Y~||_F^2,
 *
 * the share of Y's variance that a linear map of X explains: from 0 to 1, and 1 for every affine map. It is invariant
 * to shifts and scales of both, to orthogonal maps of Y and to regular maps of X. Numbers Y without any relation to X
 * score r / (n - 1) on average, r the rank of X~: use many more tokens than dimensions. Normal ones do so with variance
 * 2 r (n - 1 - r) / ((n - 1)^2 (d (n - 1) + 2)), since the score then has the beta law of parameters r d / 2 and
 * (n - 1 - r) d / 2.
 *
 * Residual connections bring it close to 1 alone. The second form scores what the layer adds, Y - X in place of Y. Both
 * have the same least residual, as (A + I) is as free as A:
 *
 *     (1 - second score) ||Y - X||_F^2 = (1 - score) ||Y||_F^2, norms of the centred matrices,
 *
 * so that the second is the lower one wherever a layer adds less than what it gives out.
 */
#ifndef ICLAB_PROBE_LINEARITY_H
#define ICLAB_PROBE_LINEARITY_H

#include <stddef.h>

#include "iclab/status.h"

typedef struct icl_linearity {
    double score;        /* from X to Y; NaN if all rows of Y are equal */
    double update_score; /* from X to Y - X; NaN if its rows differ by less than 10^-6 of Y's, which is rounding */
    size_t rank;         /* of X~, without directions below 10^-6 of the largest one, which are rounding of floats */
} icl_linearity;

/* Measures X and Y [tokens][width], row-major. ICL_ERROR_INPUT for fewer than 2 tokens, for a width of 0 and for
 * numbers that are not finite. */
icl_status icl_linearity_measure(size_t tokens, size_t width, const float *x, const float *y, icl_linearity *linearity,
                                 icl_error *error);

/* Computes the share of the variance of rows X [tokens][width] along its first principal direction, sigma_1^2 / sum_i
 * sigma_i^2 of singular values of the centred matrix: from 1 / width, if all directions are alike, to 1; NaN if all
 * rows are equal. Errors as above. */
icl_status icl_anisotropy(size_t tokens, size_t width, const float *x, double *anisotropy, icl_error *error);

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

/* Fits a map of rows x [rows][inputs] to rows y [rows][outputs], all row-major. map [inputs + 1][outputs] receives A
 * and, as its last row, what is added to x A. ICL_ERROR_INPUT for no rows, for no inputs or outputs, and for numbers
 * that are not finite. */
icl_status icl_affine_fit(size_t rows, size_t inputs, size_t outputs, const float *x, const float *y, double *map,
                          icl_error *error);

/* Computes y [outputs] = x A + b of one row x [inputs]. */
void icl_affine_apply(const double *map, size_t inputs, size_t outputs, const float *x, double *y);

#endif
