/* Fitting the coefficients of a spectral filter by the Levenberg-Marquardt method. */
#ifndef ICLAB_BASELINE_FILTER_FIT_H
#define ICLAB_BASELINE_FILTER_FIT_H

#include "baseline/estimator.h"

#define ICL_MAX_COEFFICIENTS (2 * ICL_MAX_DESCENT_STEPS)

/* The filter's value at one eigenvalue and, unless gradient is NULL, its derivatives by the coefficients. `shape` is
 * the caller's own. */
typedef double icl_filter_model(const void *shape, const double *coefficients, double eigenvalue, double *gradient);

typedef struct icl_filter_fit {
    icl_filter_model *model;
    const void *shape;
    size_t coefficient_count; /* 1 … ICL_MAX_COEFFICIENTS */
    size_t sequences;         /* of the set, the first so many */
    size_t iterations;        /* at most */
} icl_filter_fit;

/*
 * Lowers the distance of icl_fit_set, a sum of squares, from the given coefficients to the nearest minimum (Marquardt
 * 1963): (J^T J + mu diag(J^T J)) step = -J^T r, mu smaller after a step that helped and larger after one that did
 * not. *distance receives the mean over the sequences; infinity when the start itself gives no finite value. Sums run
 * in fixed pieces: the result does not depend on the number of threads.
 */
icl_status icl_filter_minimize(const icl_filter_fit *fit, const icl_fit_set *set, double *coefficients,
                               double *distance, icl_error *error);

#endif
