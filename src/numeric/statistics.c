#include "numeric/statistics.h"

#include <math.h>
#include <stdlib.h>

/* Compares for qsort. NaN counts as largest: it sorts last. */
static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return isnan(x) || isnan(y) ? !!isnan(x) - !!isnan(y) : (x > y) - (x < y);
}

void icl_sort_ascending(double *values, size_t count) {
    qsort(values, count, sizeof *values, ascending);
}

double icl_median(double *values, size_t count) {
    if (count == 0)
        return (double)NAN;
    icl_sort_ascending(values, count);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double icl_lower_median(double *values, size_t count) {
    if (count == 0)
        return (double)NAN;
    icl_sort_ascending(values, count);
    return values[(count - 1) / 2];
}

double icl_trimmed_mean(double *values, size_t count, double share) {
    icl_sort_ascending(values, count);
    return icl_mean(values, count - (size_t)(share * (double)count));
}

double icl_mean(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i];
    return sum / (double)count;
}

double icl_standard_error(const double *values, size_t count) {
    const double base = count > 0 ? values[0] : 0; /* so that equal values have an error of exactly 0 */
    double mean = 0, square = 0;

    for (size_t i = 0; i < count; i++)
        mean += (values[i] - base) / (double)count;
    for (size_t i = 0; i < count; i++)
        square += (values[i] - base - mean) * (values[i] - base - mean);
    return count > 1 ? sqrt(square / (double)(count - 1) / (double)count) : 0;
}

double icl_standard_error_of_sums(double sum, double square, size_t count) {
    const double size = (double)count, variance = square / size - sum / size * (sum / size);

    return count > 1 && variance > 0 ? sqrt(variance / (size - 1)) : 0;
}

static icl_location two_errors_about(double value, double standard_error) {
    return (icl_location){value, standard_error, value - 2 * standard_error, value + 2 * standard_error};
}

icl_location icl_locate_mean(const double *values, size_t count) {
    return two_errors_about(icl_mean(values, count), icl_standard_error(values, count));
}

double icl_conformal_quantile(const double *ascending, size_t m, size_t copies, double share) {
    const double rank = fmin(ceil(share * (double)(m + 1)), (double)m);
    return ascending[copies * (size_t)rank - 1];
}

icl_location icl_locate_median(double *values, size_t count) {
    const double median = icl_median(values, count), reach = sqrt((double)count), middle = (double)count / 2;
    double low, high;

    if (count == 0)
        return two_errors_about(median, (double)NAN);
    low = values[middle > reach ? (size_t)(middle - reach) : 0];
    high = values[middle + reach < (double)count ? (size_t)(middle + reach) : count - 1];
    return (icl_location){median, (high - low) / 4, low, high};
}

icl_location icl_locate_middle_mean(double *values, size_t count, double share) {
    const size_t cut = (size_t)(share * (double)count), kept = count - 2 * cut;
    double mean, winsorized, square = 0;

    icl_sort_ascending(values, count);
    mean = icl_mean(values + cut, kept);
    winsorized = ((double)kept * mean + (double)cut * (values[cut] + values[count - 1 - cut])) / (double)count;
    for (size_t i = 0; i < count; i++) {
        const double pulled = values[i < cut ? cut : i + cut >= count ? count - 1 - cut : i];
        square += (pulled - winsorized) * (pulled - winsorized);
    }
    square = count > 1 ? square / (double)(count - 1) / (double)count : 0;
    return two_errors_about(mean, sqrt(square) / (1 - 2 * (double)cut / (double)count));
}

double icl_slope(const double *x, const double *y, size_t count, double *standard_error) {
    const double x_mean = icl_mean(x, count), y_mean = icl_mean(y, count);
    double xx = 0, xy = 0, residual = 0;

    for (size_t i = 0; i < count; i++) {
        xx += (x[i] - x_mean) * (x[i] - x_mean);
        xy += (x[i] - x_mean) * (y[i] - y_mean);
    }
    for (size_t i = 0; i < count; i++) {
        const double miss = y[i] - y_mean - xy / xx * (x[i] - x_mean);
        residual += miss * miss;
    }
    if (standard_error)
        *standard_error = count > 2 ? sqrt(residual / (double)(count - 2) / xx) : 0;
    return xy / xx;
}

double icl_tail_index(double *values, size_t count, size_t largest) {
    double sum = 0;

    icl_sort_ascending(values, count);
    for (size_t i = 0; i < largest; i++)
        sum += log(values[count - 1 - i] / values[count - 1 - largest]);
    return (double)largest / sum;
}
