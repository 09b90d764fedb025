#include "papers/algorithms/algorithms.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/descent_optimum.h"
#include "numeric/statistics.h"

/* ---- Linear algorithms ---- */

static double *lengths_of(const icl_algorithms *all, size_t k, size_t row) {
    return all->lengths + (k * all->count + row) * ICL_ALGORITHM_MOST_STEPS;
}

static icl_status find_lengths(icl_algorithms *all, size_t k, double noise_variance, icl_error *error) {
    for (size_t row = 0; row < all->count; row++) {
        const icl_descent_problem problem = {
            .dimension = all->dimension, .context = k, .steps = all->rows[row].steps, .noise_variance = noise_variance};
        double *lengths = lengths_of(all, k, row);
        if (problem.steps > 0)
            ICL_CHECK(icl_descent_optimum(&problem, lengths, NULL, error));
        for (size_t t = 0; t < problem.steps; t++)
            lengths[t] /= (double)k;
    }
    return ICL_OK;
}

icl_status icl_algorithms_create(const icl_algorithm *rows, size_t count, size_t dimension, size_t pairs,
                                 double noise_variance, icl_algorithms *all, icl_error *error) {
    *all = (icl_algorithms){.rows = rows, .count = count, .dimension = dimension, .pairs = pairs};
    ICL_CHECK(icl_allocate(pairs + 1, sizeof *all->spectra, "spectra", &all->spectra, error));
    ICL_CHECK(icl_allocate((pairs + 1) * count, ICL_ALGORITHM_MOST_STEPS * sizeof *all->lengths, "step lengths",
                           &all->lengths, error));
    ICL_CHECK(icl_allocate(pairs + 1, (dimension + 1) * sizeof *all->tokens, "pairs", &all->tokens, error));
    ICL_CHECK(icl_allocate(dimension, sizeof *all->filter, "a filter", &all->filter, error));
    for (size_t k = 1; k <= pairs; k++) {
        ICL_CHECK(icl_spectrum_create(dimension, k, NULL, &all->spectra[k], error));
        ICL_CHECK(find_lengths(all, k, noise_variance, error));
    }
    return ICL_OK;
}

void icl_algorithms_release(icl_algorithms *all) {
    for (size_t k = 0; k <= all->pairs && all->spectra; k++)
        icl_spectrum_destroy(&all->spectra[k]);
    icl_free(&all->spectra);
    icl_free(&all->lengths);
    icl_free(&all->tokens);
    icl_free(&all->filter);
}

/* (1 - prod_t (1 - a_t lambda)) / lambda: where lambda is 0, products are, too. */
static void fill_filter(const icl_algorithms *all, size_t k, size_t row) {
    const double *eigenvalues = all->spectra[k].eigenvalues, *lengths = lengths_of(all, k, row);

    if (all->rows[row].steps == 0)
        icl_ridge_filter(eigenvalues, all->dimension, all->rows[row].penalty, all->filter);
    for (size_t i = 0; i < all->dimension && all->rows[row].steps > 0; i++) {
        double left = 1;
        for (size_t t = 0; t < all->rows[row].steps; t++)
            left *= 1 - lengths[t] * eigenvalues[i];
        all->filter[i] = eigenvalues[i] > 0 ? (1 - left) / eigenvalues[i] : 0;
    }
}

void icl_algorithms_weights(icl_algorithms *all, size_t k, const float *inputs, const float *labels, size_t stride,
                            double *weights) {
    const size_t d = all->dimension;

    memset(all->tokens, 0, (k + 1) * (d + 1) * sizeof *all->tokens);
    for (size_t i = 0; i < k; i++) {
        memcpy(all->tokens + i * (d + 1), inputs + i * stride, d * sizeof *inputs);
        all->tokens[i * (d + 1) + d] = labels[i * stride];
    }
    icl_spectrum_compute(&all->spectra[k], all->tokens);
    for (size_t row = 0; row < all->count; row++) {
        fill_filter(all, k, row);
        icl_spectrum_weights(&all->spectra[k], all->filter, weights + row * d);
    }
}

/* ---- Distances ---- */

icl_status icl_predicted_distance(const icl_predicted *all, const icl_term *terms, size_t count, size_t first,
                                  size_t last, double unit, icl_measured *distance, icl_error *error) {
    double *sums = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(all->sequences, sizeof *sums, "distances", &sums, error));
    for (size_t i = 0; i < all->sequences; i++) {
        for (size_t k = first; k <= last; k++) {
            const double *values = all->values + (i * all->positions + k) * all->count;
            for (size_t t = 0; t < count; t++) {
                const double between = values[terms[t].a] - values[terms[t].b];
                sums[i] += terms[t].factor * between * between;
            }
        }
        sums[i] /= unit * (double)(last - first + 1);
    }
    *distance = (icl_measured){icl_mean(sums, all->sequences), icl_standard_error(sums, all->sequences)};
done:
    icl_free(&sums);
    return status;
}

/* ---- Implied weights ---- */

icl_implied icl_implied_weights(icl_spectrum *probes, const float *tokens, double *weights) {
    const double count = (double)probes->context;

    icl_spectrum_compute(probes, tokens);
    icl_ridge_filter(probes->eigenvalues, probes->dimension, 0, probes->vector);
    icl_spectrum_weights(probes, probes->vector, weights);
    return (icl_implied){.square = probes->label_square / count,
                         .residual = probes->residual / count,
                         .unexplained = probes->context > probes->dimension
                                            ? probes->residual / (count - (double)probes->dimension)
                                            : (double)NAN};
}
