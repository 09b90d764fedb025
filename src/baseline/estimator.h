/* Internal to the baseline room: what an estimator provides, and the sequences that its constants are fitted on. */
#ifndef ICLAB_BASELINE_ESTIMATOR_H
#define ICLAB_BASELINE_ESTIMATOR_H

#include <stddef.h>

#include "baseline/predictors.h"
#include "baseline/spectrum.h"
#include "iclab/status.h"

/*
 * Sequences for fitting, in one basis. A filter f is fitted to the oracle's prediction in mean square.
 *
 * In the prior's basis w ~ N(0, I), so given X and sigma the a_k are independent with mean 0 and variance lambda_k^2 +
 * sigma^2 lambda_k, and independent of the least-squares residual. Filters depend on nothing else, so the expectation
 * over w, the label noise and the query needs no sampling: the distance is
 *     sum_s sum_k (factors_sk f_k - targets_sk)^2,   factors = sqrt((lambda^2 + sigma^2 lambda) v^T M v),
 *                                                    targets = factors / (lambda + sigma^2),
 * with M the query's covariance in this basis and v the eigenvectors.
 *
 * In the input basis, if it differs, the oracle is not a filter, and the query is the one that was drawn (summed):
 *     sum_s (sum_k (factors_sk f_k - targets_sk))^2,   factors = a q,   sum_k targets_sk = the oracle's prediction.
 * This form is also used, in either basis, if the target is another predictor than the oracle.
 */
typedef struct icl_fit_set {
    size_t count, dimension;
    size_t threads; /* that fitting takes */
    bool summed;
    double *eigenvalues;     /* [count][d], 0 where dropped */
    double *factors;         /* [count][d] */
    double *targets;         /* [count][d] */
    double *noise;           /* [count], the residual variance estimate */
    icl_descent_start start; /* for the search for a descent's constants; borrowed */
} icl_fit_set;

/* Returns the mean of the eigenvalues above 0; 1 if there are none. */
double icl_fit_set_mean_eigenvalue(const icl_fit_set *set);

#define ICL_MAX_DESCENT_STEPS 16

/* One estimator: a file (or a part of one) and a row in the table of predictors.c. */
typedef struct icl_estimator {
    const char *name;
    bool has_steps; /* written name:K, 1 <= K <= ICL_MAX_DESCENT_STEPS */
    icl_basis basis;

    /* The size in bytes of its constants, a struct without pointers, zeroed before create. */
    size_t state_size;
    void (*create)(const icl_task_prior *prior, size_t steps, void *state);

    /* Fits the constants. NULL: nothing is fitted. */
    icl_status (*fit)(void *state, const icl_fit_set *set, icl_error *error);

    /* Computes the filter [d] for one finite sequence. sigma is the true noise; only the oracle may use it. */
    void (*filter)(const void *state, const icl_spectrum *spectrum, double sigma, double *filter);

    /* Prints the fitted constants. NULL: it has none. */
    void (*describe)(const void *state, char *text, size_t capacity);
} icl_estimator;

extern const icl_estimator icl_oracle, icl_bayes, icl_least_squares, icl_constant_ridge, icl_adaptive_ridge,
    icl_tuned_ridge, icl_fitted_ridge, icl_gradient_descent, icl_gradient_descent_plus, icl_preconditioned_descent,
    icl_preconditioned_descent_plus;

/* Computes the filter of one predictor, for a sequence that is already decomposed in its estimator's basis; index
 * counts the predictors of the first scored position, then those of the next. */
void icl_predictors_filter(const icl_predictors *predictors, size_t index, const icl_spectrum *spectrum, double sigma,
                           double *filter);

/* ---- Fitting the coefficients of a spectral filter by the Levenberg-Marquardt method (filter_fit.c) ---- */

#define ICL_MAX_COEFFICIENTS (2 * ICL_MAX_DESCENT_STEPS)

/* Returns the filter's value at one eigenvalue and, unless gradient is NULL, writes its derivatives by the
 * coefficients. `shape` belongs to the caller. */
typedef double icl_filter_model(const void *shape, const double *coefficients, double eigenvalue, double *gradient);

typedef struct icl_filter_fit {
    icl_filter_model *model;
    const void *shape;
    size_t coefficient_count; /* 1 … ICL_MAX_COEFFICIENTS */
    size_t sequences;         /* the number of the set's first sequences that are used */
    size_t iterations;        /* at most */
} icl_filter_fit;

/*
 * Lowers the distance of icl_fit_set, a sum of squares, from the given coefficients to the nearest minimum (Marquardt
 * 1963): (J^T J + mu diag(J^T J)) step = -J^T r, where mu falls after a step that helped and rises after one that did
 * not. *distance receives the mean over the sequences, or infinity if even the start gives no finite value. Sums are
 * taken in fixed pieces: the result does not depend on the number of threads.
 */
icl_status icl_filter_minimize(const icl_filter_fit *fit, const icl_fit_set *set, double *coefficients,
                               double *distance, icl_error *error);

/* ---- The mean spectrum of a Wishart matrix, exactly (descent_optimum.c) ---- */

/* Moments are known up to this power. */
#define ICL_WISHART_MOST_POWER 17

/* Computes moments[k] = E tr (S - I)^k for k = 0 .. most <= ICL_WISHART_MOST_POWER, where S = X^T X / n and X [n][d]
 * has independent entries N(0, 1). Each has a relative error of the order of rounding, for any d and n >= 1. */
icl_status icl_wishart_moments(size_t d, size_t n, size_t most, double *moments, icl_error *error);

/* The measure of a rule: that of the mean eigenvalues s of S, whose mass is d; or that times s. */
typedef enum icl_wishart_measure { ICL_WISHART_SPECTRUM = 0, ICL_WISHART_WEIGHTED } icl_wishart_measure;

/* Computes Gauss's rule of `count` nodes, ascending and above 0: sum_i weights[i] p(nodes[i]) = E tr p(S), or E tr S
 * p(S), for every polynomial p of degree 2 count - 1 or less. ICL_ERROR_INPUT if double precision does not tell so many
 * nodes apart, or if they need moments above ICL_WISHART_MOST_POWER. */
icl_status icl_wishart_rule(icl_wishart_measure measure, size_t d, size_t n, size_t count, double *nodes,
                            double *weights, icl_error *error);

#endif
