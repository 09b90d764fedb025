/*
 * Reference predictors, in double precision on the host.
 *
 * Each sees a context and a query exactly as a model does, and predicts the query's label. They share one
 * eigen-decomposition of the sample covariance, so that every ridge-like predictor costs O(d) more.
 *
 * If a task has several scored positions, each predictor answers at every one of them, with the pairs before that
 * position as its context: constants are fitted for each position separately, which takes as many times as long. Before
 * the first pair all predict 0, the prior's mean.
 */
#ifndef ICLAB_BASELINE_H
#define ICLAB_BASELINE_H

#include "iclab/task.h"

ICL_C_BEGIN

/* Reference predictors for one task. */
typedef struct icl_predictors icl_predictors;

/*
 * Builds the predictors named in a comma-separated list for a task:
 *   oracle     posterior mean that knows sigma (ridge with sigma^2): the reference of every adjusted loss
 *   bayes      posterior mean under the task's prior over sigma: the floor for every predictor that is not told sigma
 *   ols        least squares (of minimum norm when n < d)
 *   constrr    ridge with the constant E[sigma^2]
 *   adarr      ridge with the residual variance estimate ||y - X w_OLS||^2 / (n - d); constrr if n <= d, which leaves
 *              no residual
 *   tunedrr    adarr's estimate times a factor and cut at a maximum, both fitted
 *   gd:K       K gradient steps, one fitted step size each, K <= 16
 *   gd++:K     K GD++ steps (von Oswald et al. 2022), two fitted coefficients each, the last step one
 *   ridge      ridge with a fitted constant
 *   pgd:K      K gradient steps preconditioned with the covariance of w, one fitted step size each
 *   pgd++:K    K such GD++ steps
 * Ridge and preconditioning use the prior's coordinates: the penalty comes from w's own covariance. gd and gd++ see the
 * inputs as they are, and equal pgd and pgd++ if w ~ N(0, I).
 *
 * Fitted constants minimise the mean squared distance to the oracle over `fit_sequences` sequences drawn for
 * ICL_FOR_FITTING. gd++ amplifies large eigenvalues: from K = 3 on, with little noise, rare sequences decide its mean,
 * and a fit on fewer than some 100,000 sequences can fail badly on fresh ones.
 *
 * All of this is for targets that are linear in x with Gaussian weights: ICL_ERROR_INPUT for a task without a prior
 * (icl_task_get_prior).
 *
 * The backend draws those sequences, which have the same bits on every backend; NULL: a host backend is opened for
 * this. Predictors are fitted and run by the threads of a host backend, otherwise by all threads of the machine.
 *
 * The task and the backend may go before the predictors. ICL_ERROR_INPUT names an unknown predictor and the nearest
 * known.
 */
ICL_API icl_status icl_predictors_create(const icl_task *task, icl_backend *backend, const char *names,
                                         size_t fit_sequences, uint32_t seed, icl_predictors **predictors,
                                         icl_error *error);
ICL_API void icl_predictors_destroy(icl_predictors **predictors);

/* Return the number of predictors, and their names as they were asked for, in that order. */
ICL_API size_t icl_predictors_count(const icl_predictors *predictors);
ICL_API const char *icl_predictors_name(const icl_predictors *predictors, size_t index);

/* Returns the fitted constants of a predictor as text ("factor 1.45, cap 9.3"), at the last scored position; empty if
 * it has none. */
ICL_API const char *icl_predictors_constants(const icl_predictors *predictors, size_t index);

/* Writes predictions for `count` sequences on the host: inputs [count][T][d + 1], sigma [count] (only the oracle uses
 * it); predictions [count][S][number of predictors]. The same bits for any number of threads. A predictor gives NaN if
 * what it sees of a sequence is not finite. */
ICL_API icl_status icl_predictors_run(const icl_predictors *predictors, size_t count, const float *inputs,
                                      const float *sigma, double *predictions, icl_error *error);

ICL_C_END

#endif
