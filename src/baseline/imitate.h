/* Reference predictors that come as close as they can to another predictor: which classical algorithm a model is, and
 * with which constants. */
#ifndef ICLAB_BASELINE_IMITATE_H
#define ICLAB_BASELINE_IMITATE_H

#include "iclab/baseline.h"

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

/* As icl_predictors_create, but fitted constants minimise the mean squared distance to these predictions
 * instead of the oracle's. */
icl_status icl_predictors_imitate(const icl_task *task, const char *names, const icl_imitation *of,
                                  icl_predictors **predictors, icl_error *error);

/* The predictors are linear in the query's input: their implied weight vectors, weights [count][number of
 * predictors][d] with prediction = <weights, x_query>, for tokens and sigma as icl_predictors_run takes them, whose
 * queries are not read. */
icl_status icl_predictors_weights(const icl_predictors *predictors, size_t count, const float *tokens,
                                  const float *sigma, double *weights, icl_error *error);

#endif
