/*
 * Second derivatives of a loss, by central differences of its gradient in double precision:
 *     H v = (g(x + h v) - g(x - h v)) / 2h + O(h^2 |g'''|) + O(eps |g| / h),
 * with a step h |v| of 1e-5 times the size of a parameter, so that both errors lie near 1e-9 of the result for losses
 * that are polynomials of a few degrees, as those of linear transformers are.
 */
#ifndef ICLAB_PROBE_CURVATURE_H
#define ICLAB_PROBE_CURVATURE_H

#include "train/objective.h"

/* product [N] = H v at the parameters `at` [N]; v is not zero. Takes two gradients. */
icl_status icl_hessian_vector(icl_objective *objective, const double *at, const double *vector, double *product,
                              icl_error *error);

/* hessian [N][N], from 2 N gradients; made symmetric, which averages the errors of its halves. */
icl_status icl_hessian(icl_objective *objective, const double *at, double *hessian, icl_error *error);

/* v^T H v / v^T v and |H v| / |v|: the smoothness along a direction (Ahn et al. 2023, arXiv 2310.01082, section 3), and
 * its upper bound. */
typedef struct icl_smoothness {
    double directional, local;
} icl_smoothness;

icl_status icl_smoothness_along(icl_objective *objective, const double *at, const double *direction,
                                icl_smoothness *smoothness, icl_error *error);

/* The ratio of the steepest direction to the median one, which a few flat directions cannot inflate. Medians are the
 * lower of the middle two, as in the authors' library: half of the diagonal of a fresh sparse-b model is far smaller
 * than the other half. */
typedef struct icl_robust_condition {
    double diagonal;    /* max |H_ii| / median |H_ii|, as in the authors' code */
    double eigenvalues; /* max |lambda| / median |lambda|, as the paper defines it */
} icl_robust_condition;

/* Computes it from hessian [N][N]. ICL_ERROR_DIVERGED if that is not finite. */
icl_status icl_robust_condition_of(const double *hessian, size_t size, icl_robust_condition *condition,
                                   icl_error *error);

#endif
