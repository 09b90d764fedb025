/* Small samples of measured numbers: medians, slopes, tails. */
#ifndef ICLAB_NUMERIC_STATISTICS_H
#define ICLAB_NUMERIC_STATISTICS_H

#include <stddef.h>

/* Sums are taken in the order of the values, and NaN counts as the largest number. */

void icl_sort_ascending(double *values, size_t count);

/* The median, and of an even number of values the mean of the middle two; the lower of these. Both sort
 * the values. NaN for none. */
double icl_median(double *values, size_t count);
double icl_lower_median(double *values, size_t count);

/* The mean without the largest `share` of the values, 0 <= share < 1. Sorts the values. */
double icl_trimmed_mean(double *values, size_t count, double share);

/* Mean, and its standard error (0 for a single value). */
double icl_mean(const double *values, size_t count);
double icl_standard_error(const double *values, size_t count);

/* Slope of the least-squares line through (x_i, y_i). *standard_error, unless NULL, receives its
 * own, for independent errors of y. */
double icl_slope(const double *x, const double *y, size_t count, double *standard_error);

/* The tail index alpha of P(X > x) ~ x^-alpha by Hill's estimator (1975) from the `largest` largest of the values, all
 * above 0 and largest < count: 1 / alpha = mean of log(X_(i) / X_(largest + 1)). Its standard error is alpha /
 * sqrt(largest). Light tails give large indices. Sorts the values. */
double icl_tail_index(double *values, size_t count, size_t largest);

#endif
