#include "iclab/buckets.h"

#include <math.h>

#define STUDENT_SCALE 0.6

double icl_bucket_border(size_t buckets, size_t k) {
    const double u = (double)k / (double)buckets;
    return STUDENT_SCALE * (2 * u - 1) / sqrt(2 * u * (1 - u));
}

size_t icl_bucket_of(size_t buckets, double value) {
    size_t first = 0, end = buckets - 1; /* the borders up to number `first` are at most the value */

    while (first < end) {
        const size_t middle = first + (end - first + 1) / 2;
        if (icl_bucket_border(buckets, middle) <= value)
            first = middle;
        else
            end = middle - 1;
    }
    return first;
}

/* The standard deviation of the half-normal tails: the width of bucket 1. */
static double tail_deviation(size_t buckets) {
    return icl_bucket_border(buckets, 2) - icl_bucket_border(buckets, 1);
}

double icl_bucket_mean(size_t buckets, const double *shares) {
    static const double half_normal_mean = 0.79788456080286536; /* sqrt(2 / pi) */
    const double tail = half_normal_mean * tail_deviation(buckets);
    double sum = shares[0] * (icl_bucket_border(buckets, 1) - tail);

    for (size_t k = 1; k + 1 < buckets; k++)
        sum += shares[k] * 0.5 * (icl_bucket_border(buckets, k) + icl_bucket_border(buckets, k + 1));
    return sum + shares[buckets - 1] * (icl_bucket_border(buckets, buckets - 1) + tail);
}

/* Returns z > 0 with P(|N(0, 1)| > z) = p, by bisection. */
static double half_normal_quantile(double p) {
    double low = 0, high = 40;

    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        if (erfc(middle / sqrt(2.0)) > p)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

double icl_bucket_quantile(size_t buckets, const double *shares, double p) {
    double below = 0;
    size_t k = 0;

    while (k + 1 < buckets && below + shares[k] < p)
        below += shares[k++];
    const double within = shares[k] > 0 ? fmin(fmax((p - below) / shares[k], 0), 1) : 0.5;
    if (k == 0)
        return icl_bucket_border(buckets, 1) - tail_deviation(buckets) * half_normal_quantile(within);
    const double low = icl_bucket_border(buckets, k);
    if (k + 1 == buckets)
        return low + tail_deviation(buckets) * half_normal_quantile(1 - within);
    return low + within * (icl_bucket_border(buckets, k + 1) - low);
}

/* Returns P(low < N(0, 1) < high) without the loss of digits in a tail. */
static double normal_between(double low, double high) {
    const double root = sqrt(0.5);
    return low > 0 ? 0.5 * (erfc(low * root) - erfc(high * root)) : 0.5 * (erfc(-high * root) - erfc(-low * root));
}

void icl_bucket_normal(size_t buckets, double mean, double deviation, double *shares) {
    for (size_t k = 0; k < buckets; k++) {
        const double low = k == 0 ? -HUGE_VAL : (icl_bucket_border(buckets, k) - mean) / deviation;
        const double high = k + 1 == buckets ? HUGE_VAL : (icl_bucket_border(buckets, k + 1) - mean) / deviation;
        shares[k] = normal_between(low, high);
    }
}
