/*
 * How close a map between two sets of activations is to a linear one (Razzhigaev and others 2024, "Your Transformer is
 * Secretly Linear", arXiv 2405.12250), for X and Y [n][d] of the same n tokens, such as the residual stream behind two
 * consecutive layers.
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
    double score;        /* from X to Y; NaN where all rows of Y are the same */
    double update_score; /* from X to Y - X; NaN where its rows differ by less than a 10^-6 of those of Y: rounding */
    size_t rank;         /* of X~; directions below a 10^-6 of the largest one are rounding of floats, and left out */
} icl_linearity;

/* X and Y [tokens][width], row-major. ICL_ERROR_INPUT for fewer than 2 tokens, for no width and for numbers that are
 * not finite. */
icl_status icl_linearity_measure(size_t tokens, size_t width, const float *x, const float *y, icl_linearity *linearity,
                                 icl_error *error);

/* The share of the variance of rows X [tokens][width] along its first principal direction, sigma_1^2 / sum_i sigma_i^2
 * of singular values of the centred matrix: from 1 / width, where all directions are alike, to 1; NaN where all rows
 * are the same. Refusals as above. */
icl_status icl_anisotropy(size_t tokens, size_t width, const float *x, double *anisotropy, icl_error *error);

#endif
