/* The error of a memory of dimension d that stores n random unit keys with one-hot values: half of the squared error of
 * a value, averaged over the keys. Closed forms, and the errors for given keys. */
#ifndef ICLAB_PAPERS_RECALL_MEMORY_H
#define ICLAB_PAPERS_RECALL_MEMORY_H

#include <stddef.h>

#include "iclab/status.h"

/* Returns the error of the sum rule, S = sum v k^T: (n - 1) / (2 d). */
double icl_recall_error_sum(size_t d, size_t n);

/* Return the error of the delta rule with a write strength of 1, once over the keys: the expectation at any d > 1, and
 * its limit for d and n to infinity with r = n / d. onepass.c has the derivation. */
double icl_recall_error_delta(size_t d, size_t n);
double icl_recall_error_delta_limit(double r);

/* Returns the error of least squares: max(0, 1 - d / n) / 2. */
double icl_recall_error_least_squares(size_t d, size_t n);

/* Computes, for given keys [n][d] of length 1, the error after `passes` passes of the delta rule. */
icl_status icl_recall_error_passes(size_t d, size_t n, const double *keys, size_t passes, double *half_error,
                                   icl_error *error);

/* Computes, for such keys, the error of least squares with a ridge above 0. */
icl_status icl_recall_error_ridge(size_t d, size_t n, const double *keys, double ridge, double *half_error,
                                  icl_error *error);

#endif
