/* Reference predictors for other rooms, beyond iclab/baseline.h: those that imitate, weights, and memory. */
#ifndef ICLAB_BASELINE_PREDICTORS_H
#define ICLAB_BASELINE_PREDICTORS_H

#include "iclab/baseline.h"

/* ---- Predictors that come as close as they can to another one: which classical algorithm a model is, and with which
 * constants ---- */

/* A descent that the imitated one may be near. The search for the constants of a descent with as many steps begins
 * there, too. */
typedef struct icl_descent_start {
    size_t steps;                 /* 0: none */
    const double *rates, *inputs; /* [steps], of gd and gd++, for sums that are not divided by n */
} icl_descent_start;

/* The predictions to imitate: [count], for tokens [count][n + 1][d + 1]. */
typedef struct icl_imitation {
    size_t count;
    const float *tokens;
    const double *predictions;
    icl_descent_start plain, preconditioned; /* for gd and gd++, and for pgd and pgd++ */
} icl_imitation;

/* As icl_predictors_create, but fitted constants minimise the mean squared distance to these predictions instead of the
 * oracle's. The backend's threads fit and run the predictors; all threads do if it is NULL or not a host's. */
icl_status icl_predictors_imitate(const icl_task *task, const icl_backend *backend, const char *names,
                                  const icl_imitation *imitated, icl_predictors **predictors, icl_error *error);

/* Computes the weight vectors that the predictors imply, being linear in the query's input: weights [count][number of
 * predictors][d] with prediction = <weights, x_query>. tokens and sigma are as in icl_predictors_run; queries are not
 * read. */
icl_status icl_predictors_weights(const icl_predictors *predictors, size_t count, const float *tokens,
                                  const float *sigma, double *weights, icl_error *error);

/* ---- Memory ---- */

/* Return the most bytes that icl_predictors_create takes on the host, with both bases and a piece of the sequences,
 * which the backend holds, too; and the bytes that running takes. */
double icl_predictors_fit_bytes(const icl_task *task, const icl_backend *backend, size_t fit_sequences);
double icl_predictors_run_bytes(const icl_task *task, const icl_backend *backend);

#endif
