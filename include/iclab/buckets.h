/*
 * Distributions of a number as shares of buckets: what models of task.family = tables answer, as logits.
 *
 * K buckets share the line: their K - 1 borders are the quantiles k / K of 0.6 times Student's law of two degrees of
 * freedom, b_k = 0.6 (2 u - 1) / sqrt(2 u (1 - u)), u = k / K. Within a bucket the number is uniform; beyond the first
 * and the last border it is half-normal, with the width of the bucket beside it as standard deviation.
 */
#ifndef ICLAB_BUCKETS_H
#define ICLAB_BUCKETS_H

#include <stddef.h>

#include "iclab/export.h"

ICL_C_BEGIN

/* The range of K. */
#define ICL_LEAST_BUCKETS 4
#define ICL_MOST_BUCKETS  4096

/* Returns border k, from 1 to K - 1. */
ICL_API double icl_bucket_border(size_t buckets, size_t k);

/* Returns the bucket of a value, from 0; of a border, the one above it. */
ICL_API size_t icl_bucket_of(size_t buckets, double value);

/* Returns the mean of a distribution over the buckets; shares [K] sum to 1. */
ICL_API double icl_bucket_mean(size_t buckets, const double *shares);

/* Returns the value below which the number lies with this probability, 0 < p < 1. */
ICL_API double icl_bucket_quantile(size_t buckets, const double *shares, double p);

/* Writes the shares [K] of N(mean, deviation^2), deviation > 0. */
ICL_API void icl_bucket_normal(size_t buckets, double mean, double deviation, double *shares);

ICL_C_END

#endif
