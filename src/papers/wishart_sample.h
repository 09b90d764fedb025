/* What reproductions share: sample covariances of standard normal inputs, for expectations that have no closed form. */
#ifndef ICLAB_PAPERS_WISHART_SAMPLE_H
#define ICLAB_PAPERS_WISHART_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"

/* S = X^T X / n [d][d], X [n][d] with independent entries N(0, 1): a function of (seed, number).
 * row holds d doubles. */
void icl_wishart_sample(size_t d, size_t n, uint32_t seed, uint64_t number, double *row, double *matrix);

/* Of S's eigenvalues [d], ascending. */
typedef double icl_spectral_function(const void *user, size_t d, const double *eigenvalues);

/* The mean of the function over `count` samples, 2 or more, and its standard error. */
icl_status icl_wishart_mean(size_t d, size_t n, uint32_t seed, size_t count, icl_spectral_function *of,
                            const void *user, double *mean, double *standard_error, icl_error *error);

#endif
