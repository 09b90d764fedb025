/*
 * The posterior mean over a pool of M functions, dMMSE of Raventos and others 2023 (arXiv 2306.15063), section 2:
 *
 *     sum_m p_m f_m(x_k),   p_m in proportion to prod_(i < k) p(y_i | f_m(x_i)),
 *
 * with normal noise exp(-sum_(i < k) (y_i - f_m(x_i))^2 / (2 sigma^2)). Without noise p is uniform over those that fit
 * the pairs best. Of classes it is the logit of sum_m p_m P(y = 1 | f_m(x_k)), cut to +-40.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "task/function_classes/predictors.h"

/* Doubles of a table of all functions: 1 GiB. */
#define MOST_DOUBLES ((uint64_t)1 << 27)

/* What is left of sigma^2 without noise: errors that rounding makes are far smaller, and others larger. */
static const double LEAST_VARIANCE = 1e-9;

static const double LARGEST_LOGIT = 40;

static icl_status share(const icl_function_classes *is, void **shared, icl_error *error) {
    const size_t size = icl_function_size(&is->law);
    double *table = NULL;

    if (is->pool > MOST_DOUBLES / size)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "dmmse: task.pool = %llu functions of %zu numbers, expected at most %llu numbers in all",
                        (unsigned long long)is->pool, size, (unsigned long long)MOST_DOUBLES);
    ICL_CHECK(icl_allocate((size_t)is->pool, size * sizeof *table, "pool of functions", &table, error));
    for (size_t m = 0; m < is->pool; m++)
        icl_function_of_pool(is, m, table + m * size);
    *shared = table;
    return ICL_OK;
}

static size_t count_work(size_t dimension, size_t count, const icl_function_classes *is) {
    (void)dimension;
    (void)count;
    return 2 * (size_t)is->pool;
}

/* log(p / (1 - p)) of p = sum / total. */
static double logit(double sum, double total) {
    return fmax(-LARGEST_LOGIT, fmin(log(sum) - log(total - sum), LARGEST_LOGIT));
}

static void predict(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    const icl_function_classes *is = points->is;
    const size_t pool = (size_t)is->pool, size = icl_function_size(&is->law);
    const double sigma = fmax(points->sigma, sqrt(LEAST_VARIANCE * icl_function_mean_square(&is->law)));
    const double *functions = shared;
    const bool are_classes = icl_labels_are_classes(&is->labels);
    double *logs = work, *values = work + pool;

    (void)number;
    memset(logs, 0, pool * sizeof *logs);
    for (size_t k = 0; k < points->count; k++) {
        const double y = k + 1 < points->count ? icl_points_y(points, k) : 0;
        double most = -(double)INFINITY, sum = 0, total = 0;
        for (size_t m = 0; m < pool; m++)
            most = fmax(most, logs[m]);
        for (size_t m = 0; m < pool; m++) {
            const double p = exp(logs[m] - most);
            values[m] = icl_function_value(&is->law, functions + m * size, icl_points_x(points, k));
            sum += p * (are_classes ? icl_label_chance(&is->labels, values[m]) : values[m]);
            total += p;
            logs[m] += icl_label_density(&is->labels, y, values[m], sigma);
        }
        outputs[k] = are_classes ? logit(sum, total) : sum / total;
    }
}

const icl_points_predictor icl_points_posterior = {
    .predict = predict, .count_work = count_work, .share = share, .gives_logits = true};
