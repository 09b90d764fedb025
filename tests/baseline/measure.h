/*
 * The adjusted loss of predictors, and how well it agrees with an expected value, for tasks whose inputs and weights
 * are white.
 *
 * Our value is the mean of 1/2 sum_k (f_k - f'_k)^2 a_k^2, half the squared distance to the oracle's prediction with
 * its expectation over the query taken exactly. Expected values come from simulations of 200,000 sequences that took
 * the mean of 1/2 (||w_hat - w||^2 - ||w_oracle - w||^2): the same expectation with a larger deviation, which is
 * measured here as well. A value agrees if it is within 3 standard errors: ours, theirs and the rounding of the noted
 * value together.
 */
#ifndef ICLAB_TESTS_MEASURE_H
#define ICLAB_TESTS_MEASURE_H

#include "baseline/estimator.h"
#include "core/threads.h"
#include "sequences.h"

enum { MEASURE_BATCH = 4096, MEASURE_PREDICTORS = 8, MEASURE_DIMENSION = 16, THEIR_SEQUENCES = 200000 };

/* Values of one sequence, or means over sequences. The first predictor is the oracle; its distance is instead its
 * expected squared error given the context and sigma: sum_k sigma^2 / (lambda_k + sigma^2). */
typedef struct outcome {
    double distance[MEASURE_PREDICTORS];   /* 1/2 ||w_hat - w_oracle||^2 */
    double difference[MEASURE_PREDICTORS]; /* 1/2 (||w_hat - w||^2 - ||w_oracle - w||^2) */
    double full[MEASURE_PREDICTORS];       /* ||w_hat - w||^2 */
    double expected[MEASURE_PREDICTORS];   /* E[distance | X, sigma], for filters of the eigenvalues only */
} outcome;

typedef struct loss_means {
    sample_mean distance[MEASURE_PREDICTORS], difference[MEASURE_PREDICTORS], full[MEASURE_PREDICTORS],
        expected[MEASURE_PREDICTORS], excess[MEASURE_PREDICTORS]; /* excess: of expected over predictor 1's */
} loss_means;

typedef struct measurement {
    const icl_predictors *predictors;
    const sequences *all;
    icl_spectrum *spectra; /* one per thread */
    outcome *outcomes;
} measurement;

/* V^T w */
static inline void rotate_weights(const icl_spectrum *spectrum, const float *weights, double *rotated) {
    const size_t d = spectrum->dimension;
    for (size_t k = 0; k < d; k++) {
        rotated[k] = 0;
        for (size_t j = 0; j < d; j++)
            rotated[k] += spectrum->eigenvectors[k * d + j] * (double)weights[j];
    }
}

static inline void measure_sequence(void *context, size_t index, size_t thread) {
    const measurement *run = context;
    icl_spectrum *spectrum = &run->spectra[thread];
    const size_t d = run->all->d, n = run->all->n;
    const double sigma = (double)run->all->noise[index];
    outcome *out = &run->outcomes[index];
    double filters[MEASURE_PREDICTORS][MEASURE_DIMENSION], weights[MEASURE_DIMENSION];

    icl_spectrum_compute(spectrum, run->all->tokens + index * (n + 1) * (d + 1));
    rotate_weights(spectrum, run->all->weights + index * d, weights);
    memset(out, 0, sizeof *out);
    for (size_t p = 0; p < icl_predictors_count(run->predictors); p++) {
        icl_predictors_filter(run->predictors, p, spectrum, sigma, filters[p]);
        for (size_t k = 0; k < d; k++) {
            const double a = spectrum->products[k], apart = (filters[p][k] - filters[0][k]) * a;
            const double off = filters[p][k] * a - weights[k], oracle_off = filters[0][k] * a - weights[k];
            out->distance[p] += 0.5 * apart * apart;
            out->difference[p] += 0.5 * (off * off - oracle_off * oracle_off);
            out->full[p] += off * off;
            /* Var(a_k | X, sigma) = lambda_k^2 + sigma^2 lambda_k */
            out->expected[p] += 0.5 * (filters[p][k] - filters[0][k]) * (filters[p][k] - filters[0][k]) *
                                spectrum->eigenvalues[k] * (spectrum->eigenvalues[k] + sigma * sigma);
        }
    }
    for (size_t k = 0; k < d; k++)
        out->distance[0] += sigma * sigma / (spectrum->eigenvalues[k] + sigma * sigma);
}

static inline icl_status measure(const icl_task *task, const icl_predictors *predictors, size_t count,
                                 loss_means *means, icl_error *error) {
    const size_t threads = icl_parallel_threads(), predictor_count = icl_predictors_count(predictors);
    measurement run = {.predictors = predictors};
    icl_status status;

    memset(means, 0, sizeof *means);
    ICL_TRY(icl_allocate(threads, sizeof *run.spectra, "spectra", &run.spectra, error));
    ICL_TRY(icl_allocate(MEASURE_BATCH, sizeof *run.outcomes, "outcomes", &run.outcomes, error));
    for (size_t i = 0; i < threads; i++)
        ICL_TRY(icl_spectrum_create(icl_task_dimension(task), icl_task_context(task), NULL, &run.spectra[i], error));
    for (size_t done = 0; done < count; done += MEASURE_BATCH) {
        sequences all = {0};
        status = sequences_draw(task, MEASURE_BATCH, 11, done / MEASURE_BATCH, &all, error);
        run.all = &all;
        if (status == ICL_OK)
            icl_parallel_for(MEASURE_BATCH, threads, measure_sequence, &run);
        sequences_release(&all);
        ICL_TRY(status);
        for (size_t s = 0; s < MEASURE_BATCH && done + s < count; s++)
            for (size_t p = 0; p < predictor_count; p++) {
                sample_mean_add(&means->distance[p], run.outcomes[s].distance[p]);
                sample_mean_add(&means->difference[p], run.outcomes[s].difference[p]);
                sample_mean_add(&means->full[p], run.outcomes[s].full[p]);
                sample_mean_add(&means->expected[p], run.outcomes[s].expected[p]);
                sample_mean_add(&means->excess[p], run.outcomes[s].expected[p] - run.outcomes[s].expected[1]);
            }
    }
done:
    for (size_t i = 0; run.spectra && i < threads; i++)
        icl_spectrum_destroy(&run.spectra[i]);
    icl_free(&run.spectra);
    icl_free(&run.outcomes);
    return status;
}

/* Draws the task, fits the predictors (the first is the oracle) and measures them. */
static inline bool measure_task(tap_run *tap, const char *overrides, const char *names, size_t fit_sequences,
                                size_t count, icl_task **task, icl_predictors **predictors, loss_means *means) {
    icl_error error = {0};

    *predictors = NULL;
    return tap_status(tap, make_task(overrides, task, &error), &error, overrides) &&
           tap_status(tap, icl_predictors_create(*task, NULL, names, fit_sequences, 1, predictors, &error), &error,
                      names) &&
           tap_status(tap, measure(*task, *predictors, count, means, &error), &error, "measure");
}

/* Checks our mean against noted bounds (equal bounds: a value) whose last digit is worth `unit`; their_deviation is
 * that of one of their sequences. */
static inline void check_bounds(tap_run *tap, const char *what, const sample_mean *ours, double their_deviation,
                                double low, double high, double unit) {
    const double mean = sample_mean_value(ours), our_error = sample_mean_error(ours);
    const double their_error = their_deviation / sqrt(THEIR_SEQUENCES), rounding = unit / sqrt(12);
    const double error = sqrt(our_error * our_error + their_error * their_error + rounding * rounding);

    tap_ok(tap, mean >= low - 3 * error && mean <= high + 3 * error,
           "%s: %.4g, expected %.4g to %.4g (from the upper %+.2f standard errors; ours %.2g, theirs %.2g)", what, mean,
           low, high, (mean - high) / error, our_error, their_error);
}

static inline void check_closed_form(tap_run *tap, const char *what, const sample_mean *ours, double expected) {
    const double mean = sample_mean_value(ours), error = sample_mean_error(ours);
    tap_ok(tap, fabs(mean - expected) <= 3 * error, "%s: full error %.4f, in closed form %.4f (%+.2f standard errors)",
           what, mean, expected, (mean - expected) / error);
}

#endif
