/* What other rooms need of reference predictors beside iclab/baseline.h: those that imitate, weights, and memory. */
#ifndef ICLAB_BASELINE_PREDICTORS_H
#define ICLAB_BASELINE_PREDICTORS_H

#include "iclab/baseline.h"

/* ---- Predictors that come as close as they can to another one: which classical algorithm a model is, and with which
 * constants ---- */

/* A descent that it may be near: where the search for the constants of as many steps begins, beside
 * what is tried anyway. */
typedef struct icl_descent_start {
    size_t steps;                 /* 0: none */
    const double *rates, *inputs; /* [steps], of gd and gd++, for sums without 1 / n */
} icl_descent_start;

/* What is to be imitated: its predictions [count] for tokens [count][n + 1][d + 1]. */
typedef struct icl_imitation {
    size_t count;
    const float *tokens;
    const double *predictions;
    icl_descent_start plain, preconditioned; /* for gd and gd++, and for pgd and pgd++ */
} icl_imitation;

/* As icl_predictors_create, but fitted constants minimise the mean squared distance to these predictions instead of the
 * oracle's. They are fitted and run by the threads of the backend, or where it is NULL or no host's, by all. */
icl_status icl_predictors_imitate(const icl_task *task, const icl_backend *backend, const char *names,
                                  const icl_imitation *imitated, icl_predictors **predictors, icl_error *error);

/* The predictors are linear in the query's input: their implied weight vectors, weights [count][number of
 * predictors][d] with prediction = <weights, x_query>, for tokens and sigma as icl_predictors_run takes them, whose
 * queries are not read. */
icl_status icl_predictors_weights(const icl_predictors *predictors, size_t count, const float *tokens,
                                  const float *sigma, double *weights, icl_error *error);

/* ---- What they are shown, and what they take ---- */

/* Sigma of each sequence of the batch: its side tensor noise, or the prior's one level; 0 without a prior (NULL).
 * ICL_ERROR_INPUT where neither says it. */
icl_status icl_batch_noise(const icl_batch *batch, const icl_task_prior *prior, float *noise, icl_error *error);

/* The bytes that icl_predictors_create takes on the host at its fullest, with both bases and a piece of the sequences,
 * which the backend holds, too; and those that running takes. */
double icl_predictors_fit_bytes(const icl_task *task, const icl_backend *backend, size_t fit_sequences);
double icl_predictors_run_bytes(const icl_task *task, const icl_backend *backend);

#endif
