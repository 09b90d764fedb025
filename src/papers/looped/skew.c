#include "papers/looped/skew.h"

#include <math.h>

#include "papers/wishart_sample.h"

typedef struct steps {
    size_t count;
    double length;
} steps;

/* icl_spectral_function */
static double curvature_of(const void *user, size_t d, const double *s) {
    const steps *of = user;
    double sum = 0;

    for (size_t p = 0; p < d; p++)
        for (size_t q = 0; q < d; q++) {
            const double r_p = 1 - of->length * s[p], r_q = 1 - of->length * s[q];
            double h = 0, g = 0;
            if (p == q)
                continue;
            for (size_t m = 0; m < of->count; m++)
                h = h * r_q + pow(r_p, (double)m);
            for (size_t m = 0; m + 1 < of->count; m++)
                g += (double)(of->count - 1 - m) * pow(r_p, (double)(of->count - 2 - m)) * pow(r_q, (double)m);
            sum += s[p] * s[p] * h * h - 2 * s[p] * s[q] * pow(r_p, (double)of->count) * g;
        }
    return sum / (double)(d * (d - 1));
}

icl_status icl_looped_skew_curvature(const icl_descent_problem *problem, double a, uint32_t seed, size_t count,
                                     double *curvature, double *standard_error, icl_error *error) {
    const steps of = {problem->steps, a};

    return icl_wishart_mean(problem->dimension, problem->context, seed, count, curvature_of, &of, curvature,
                            standard_error, error);
}
