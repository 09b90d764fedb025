/*
 * One sequence in the eigenbasis of its sample covariance.
 *
 * With X [n][d] the context inputs, y the labels and X^T X = V diag(lambda) V^T, every ridge-like predictor
 * of <w, x_t> is
 *     sum_k f_k a_k q_k,   a = V^T X^T y,   q = V^T x_t
 * with a filter f that depends on the data through the eigenvalues: 1 / (lambda + s2) for ridge with noise variance
 * s2, polynomials for gradient descent. The decomposition is shared, a predictor costs O(d) more.
 */
#ifndef ICLAB_BASELINE_SPECTRUM_H
#define ICLAB_BASELINE_SPECTRUM_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"
#include "iclab/task.h"

typedef struct icl_spectrum {
    size_t dimension, context; /* d, n */
    const double *root;        /* [d][d], C: inputs are taken as C^T x; NULL: as they are. Borrowed */
    bool finite;               /* the data were; otherwise nothing below is meant */
    size_t rank;               /* eigenvalues above rounding */
    double *eigenvalues;       /* [d], ascending; exactly 0 where below 8 max(n, d) epsilon times the largest */
    double *products;          /* [d], a; exactly 0 where the eigenvalue is */
    double *query;             /* [d], q */
    double residual;           /* min_w ||y - X w||^2 */
    double label_square;       /* ||y||^2 */

    double *inputs;       /* [n + 1][d], C^T x; the query last */
    double *eigenvectors; /* [d][d], row k is eigenvector k */
    double *covariance;   /* [d][d], X^T X until it is decomposed */
    double *vector;       /* [d] */
    double *work;         /* [3][d] */
} icl_spectrum;

/* Memory for sequences of one shape. Release with icl_spectrum_destroy, also after a failure. */
icl_status icl_spectrum_create(size_t dimension, size_t context, const double *root, icl_spectrum *spectrum,
                               icl_error *error);
void icl_spectrum_destroy(icl_spectrum *spectrum);

/* Decomposes tokens [n + 1][d + 1], rows (x_i, y_i), the query last. Data that are not finite, or too large to square,
 * leave finite = false. Several spectra may be computed at the same time. */
void icl_spectrum_compute(icl_spectrum *spectrum, const float *tokens);

/* ||y - X w_OLS||^2 / (n - rank); where n = rank leaves no residual to estimate from, `otherwise`. */
double icl_spectrum_residual_variance(const icl_spectrum *spectrum, double otherwise);

/* sum_k f_k a_k q_k; NaN where the data are not finite. */
double icl_spectrum_predict(const icl_spectrum *spectrum, const double *filter);

/* The weights [d] whose product with the query's input is that, C sum_k f_k a_k v_k; NaN where the
 * data are not finite. */
void icl_spectrum_weights(const icl_spectrum *spectrum, const double *filter, double *weights);

/* filter_k = 1 / (lambda_k + penalty) for `count` eigenvalues; 0 in the directions that the data say nothing about. */
void icl_ridge_filter(const double *eigenvalues, size_t count, double penalty, double *filter);

/* ---- Many sequences: private memory of each thread that decomposes them ---- */

/* Whose eigenbasis an estimator's filter acts in. They are one when w ~ N(0, I). */
typedef enum icl_basis {
    ICL_PRIOR_BASIS = 0, /* inputs C^T x, for which the weights are N(0, I): Bayesian ridge */
    ICL_INPUT_BASIS,     /* the inputs as they are: what gradient descent sees */
    ICL_BASIS_COUNT
} icl_basis;

typedef struct icl_workspace {
    icl_spectrum spectra[ICL_BASIS_COUNT]; /* the input basis only where it is wanted and differs */
    double *filter;                        /* [d] */
    float *tokens;                         /* [n + 1][d + 1], where labels do not stand beside their inputs */
} icl_workspace;

typedef struct icl_workspaces {
    const icl_task_prior *prior;
    size_t threads;
    bool both_bases;
    icl_workspace *workspaces; /* [threads] */
} icl_workspaces;

/* One workspace for each thread. The prior is borrowed. Release with icl_workspaces_destroy, also
 * after a failure. */
icl_status icl_workspaces_create(const icl_task_prior *prior, bool both_bases, size_t threads, icl_workspaces *all,
                                 icl_error *error);
void icl_workspaces_destroy(icl_workspaces *all);

/* Decomposes the pairs before position n, the prior's context, of inputs [T][d + 1], and that position's input as the
 * query, in the bases that the workspaces are for. */
void icl_workspace_load(const icl_workspaces *all, icl_workspace *workspace, const float *inputs);

#endif
