/* Moments of what is drawn, against what is expected. */
#ifndef ICLAB_TESTS_STATISTIC_H
#define ICLAB_TESTS_STATISTIC_H

#include <math.h>

/* Sums of a statistic, one value for each sequence, and its distance from what is expected in standard errors. */
typedef struct statistic {
    double sum, squares, count;
} statistic;

static inline void add(statistic *to, double value) {
    to->sum += value;
    to->squares += value * value;
    to->count++;
}

static inline double deviation(const statistic *of, double truth) {
    const double mean = of->sum / of->count, variance = of->squares / of->count - mean * mean;
    return fabs(mean - truth) / sqrt(variance / of->count + 1e-300);
}

#endif
