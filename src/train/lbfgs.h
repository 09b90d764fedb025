/*
 * Limited-memory BFGS for smooth functions of few thousand numbers, in double on the host: a second optimizer, for
 * losses of one fixed batch (Nocedal and Wright, Numerical Optimization, 2nd edition, algorithms 7.4 and 7.5). What it
 * is given decides where gradients are computed.
 */
#ifndef ICLAB_TRAIN_LBFGS_H
#define ICLAB_TRAIN_LBFGS_H

#include <stdbool.h>
#include <stddef.h>

#include "iclab/status.h"

/* The function and its gradient [size] at `at` [size]. A value that is not finite counts as too high. */
typedef icl_status icl_lbfgs_function(void *user, const double *at, double *value, double *gradient, icl_error *error);

/* What sees the point, its value and the iterations so far after each of them, and may end it. */
typedef icl_status icl_lbfgs_observer(void *user, const double *at, double value, size_t iterations, bool *ends,
                                      icl_error *error);

typedef struct icl_lbfgs_params {
    size_t history;              /* pairs of steps and changes of the gradient that are kept; 0: 20 */
    size_t iterations;           /* at most */
    double tolerance;            /* ends where the gradient's norm is at most this */
    icl_lbfgs_observer *observe; /* with the function's user; NULL: none */
} icl_lbfgs_params;

typedef struct icl_lbfgs_result {
    size_t iterations, evaluations;
    double value, gradient_norm;
    bool has_converged; /* to the tolerance; else iterations ran out, or rounding left no lower value */
} icl_lbfgs_result;

/* Lowers the function from `at`, which receives the best point. Values never rise from iteration to iteration. Steps
 * meet the weak Wolfe conditions, found by bisection (Lewis and Overton 2013, algorithm 2.6). ICL_ERROR_INPUT where
 * the start has no finite value. */
icl_status icl_lbfgs_minimise(const icl_lbfgs_params *params, size_t size, icl_lbfgs_function *function, void *user,
                              double *at, icl_lbfgs_result *result, icl_error *error);

#endif
