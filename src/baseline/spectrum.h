/*
 * One sequence in the eigenbasis of its sample covariance.
 *
 * If X [n][d] are the context inputs, y the labels and X^T X = V diag(lambda) V^T, every ridge-like predictor of
 * <w, x_t> is
 *     sum_k f_k a_k q_k,   a = V^T X^T y,   q = V^T x_t
 * with a filter f that depends on the data through the eigenvalues: 1 / (lambda + s2) for ridge with noise variance
 * s2, polynomials for gradient descent. Predictors share the decomposition, so each costs only O(d) more.
 */
#ifndef ICLAB_BASELINE_SPECTRUM_H
#define ICLAB_BASELINE_SPECTRUM_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

typedef struct icl_spectrum {
    size_t dimension, context; /* d, n */
    const double *root;        /* [d][d], C: inputs become C^T x; NULL: they stay as they are. Borrowed */
    bool finite;               /* the data are; otherwise the members below are undefined */
    size_t rank;               /* number of eigenvalues above rounding */
    double *eigenvalues;       /* [d], ascending; exactly 0 if below 8 max(n, d) epsilon times the largest */
    double *products;          /* [d], a; exactly 0 if the eigenvalue is */
    double *query;             /* [d], q */
    double residual;           /* min_w ||y - X w||^2 */
    double label_square;       /* ||y||^2 */

    double *inputs;       /* [n + 1][d], C^T x; the query last */
    double *eigenvectors; /* [d][d], row k is eigenvector k */
    double *covariance;   /* [d][d], X^T X; overwritten by the decomposition */
    double *vector;       /* [d] */
    double *work;         /* [3][d] */
} icl_spectrum;

/* Allocates memory for sequences of one shape. Release with icl_spectrum_destroy, even after a failure. */
icl_status icl_spectrum_create(size_t dimension, size_t context, const double *root, icl_spectrum *spectrum,
                               icl_error *error);
void icl_spectrum_destroy(icl_spectrum *spectrum);

/* Decomposes tokens [n + 1][d + 1], rows (x_i, y_i), the query last. If the data are not finite, or too large to
 * square, finite is false. Several spectra may be computed at the same time. */
void icl_spectrum_compute(icl_spectrum *spectrum, const float *tokens);

/* Returns ||y - X w_OLS||^2 / (n - rank), or `otherwise` if n = rank, where no residual is left to estimate from. */
double icl_spectrum_residual_variance(const icl_spectrum *spectrum, double otherwise);

/* Returns sum_k f_k a_k q_k; NaN if the data are not finite. */
double icl_spectrum_predict(const icl_spectrum *spectrum, const double *filter);

/* Computes the weights [d] whose product with the query's input is the prediction, C sum_k f_k a_k v_k; NaN if the data
 * are not finite. */
void icl_spectrum_weights(const icl_spectrum *spectrum, const double *filter, double *weights);

/* Sets filter_k = 1 / (lambda_k + penalty) for `count` eigenvalues; 0 in directions that the data tell nothing
 * about. */
void icl_ridge_filter(const double *eigenvalues, size_t count, double penalty, double *filter);

/* The eigenbasis that an estimator's filter acts in. Both are the same if w ~ N(0, I). */
typedef enum icl_basis {
    ICL_PRIOR_BASIS = 0, /* inputs C^T x, for which the weights are N(0, I): Bayesian ridge */
    ICL_INPUT_BASIS,     /* the inputs as they are: what gradient descent sees */
    ICL_BASIS_COUNT
} icl_basis;

#endif
