/* Small samples of measured numbers: medians, slopes, tails. */
#ifndef ICLAB_NUMERIC_STATISTICS_H
#define ICLAB_NUMERIC_STATISTICS_H

#include <stddef.h>

/* Sums are taken in the order of the values, and NaN counts as the largest number. */

void icl_sort_ascending(double *values, size_t count);

/* icl_median returns the median, for an even number of values the mean of the middle two; icl_lower_median the lower of
 * these. Both sort the values, and return NaN for none. */
double icl_median(double *values, size_t count);
double icl_lower_median(double *values, size_t count);

/* Returns the mean without the largest `share` of the values, 0 <= share < 1. Sorts the values. */
double icl_trimmed_mean(double *values, size_t count, double share);

/* Returns the ceil(share (m + 1))-th smallest of m numbers, the largest if there is none: at most this is the next one,
 * exchangeable with them, with that probability (a conformal quantile). `ascending` [copies * m], m > 0, has as many
 * versions of each of the m. */
double icl_conformal_quantile(const double *ascending, size_t m, size_t copies, double share);

/* A location, its standard error, and the interval of two standard errors about it. */
typedef struct icl_location {
    double value, standard_error, low, high;
} icl_location;

/* Returns the median. Its interval is that of the order statistics at n / 2 -+ sqrt(n), which holds the population's
 * median in 95 % of all samples whatever its distribution; the standard error is a quarter of its width. Sorts the
 * values. */
icl_location icl_locate_median(double *values, size_t count);

/* Returns the mean without the `share` of the values at either end, 0 <= share < 0.5, with the standard error of Tukey
 * and McLaughlin (1963): that of the values with each end pulled in to the last one kept. Sorts the values. */
icl_location icl_locate_middle_mean(double *values, size_t count, double share);

/* Returns the mean with its standard error. */
icl_location icl_locate_mean(const double *values, size_t count);

/* icl_mean returns the mean, icl_standard_error its standard error: 0 for a single value, and for values that are all
 * equal. */
double icl_mean(const double *values, size_t count);
double icl_standard_error(const double *values, size_t count);

/* As above, but from the sum of the values and that of their squares. Rounding adds up to about 1e-8 of the mean. */
double icl_standard_error_of_sums(double sum, double square, size_t count);

/* Returns the slope of the least-squares line through (x_i, y_i). *standard_error, unless NULL, receives the slope's,
 * for independent errors of y. */
double icl_slope(const double *x, const double *y, size_t count, double *standard_error);

/* Returns the tail index alpha of P(X > x) ~ x^-alpha by Hill's estimator (1975) from the `largest` largest of the
 * values, all above 0 and largest < count: 1 / alpha = mean of log(X_(i) / X_(largest + 1)). Its standard error is
 * alpha / sqrt(largest). Light tails give large indices. Sorts the values. */
double icl_tail_index(double *values, size_t count, size_t largest);

#endif
