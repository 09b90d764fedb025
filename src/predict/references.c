#include "predict/references.h"

#include <math.h>
#include <string.h>

#include "baseline/spectrum.h"
#include "core/allocate.h"

/* Penalties of ridge, as shares of the number of rows: 10^FIRST_DECADE … 10^LAST_DECADE. */
enum { FIRST_DECADE = -4, LAST_DECADE = 3, PER_DECADE = 8, PENALTIES = (LAST_DECADE - FIRST_DECADE) * PER_DECADE + 1 };

const char *icl_reference_name(icl_reference reference) {
    static const char *const names[ICL_REFERENCES] = {"mean", "ols", "ridge", "adarr"};
    return names[reference];
}

icl_status icl_references_create(size_t features, icl_references *references, icl_error *error) {
    memset(references, 0, sizeof *references);
    ICL_CHECK(
        icl_allocate(ICL_REFERENCES * features, sizeof(double), "reference predictors", &references->filters, error));
    ICL_CHECK(icl_allocate(features, sizeof(double), "row", &references->row, error));
    return icl_allocate(features, sizeof(double), "row", &references->rotated, error);
}

void icl_references_release(icl_references *references) {
    icl_free(&references->filters);
    icl_free(&references->row);
    icl_free(&references->rotated);
}

static double penalty_of(size_t index, size_t rows) {
    return (double)rows * pow(10, FIRST_DECADE + (double)index / PER_DECADE);
}

/* Squares of one row's residual of least squares, and of its leave-one-out residuals of ridge at every penalty s:
 *     (y - yhat) / (1 - h),   h = 1/m + sum_k u_k^2 / (lambda_k + s),
 * exact for a linear smoother whose standardization is kept (Allen 1974; Hastie, Tibshirani, Friedman, "The elements of
 * statistical learning", 2nd edition, equation 7.52). */
static void add_residuals(const icl_standardization *z, const double *rotated, double label, double *least_squares,
                          double left_out[PENALTIES]) {
    double prediction = 0;

    for (size_t k = 0; k < z->features; k++)
        if (z->eigenvalues[k] > 0)
            prediction += rotated[k] * z->products[k] / z->eigenvalues[k];
    *least_squares += (label - prediction) * (label - prediction);
    for (size_t i = 0; i < PENALTIES; i++) {
        const double penalty = penalty_of(i, z->rows);
        double leverage = 1 / (double)z->rows, residual = label;
        for (size_t k = 0; k < z->features; k++) {
            leverage += rotated[k] * rotated[k] / (z->eigenvalues[k] + penalty);
            residual -= rotated[k] * z->products[k] / (z->eigenvalues[k] + penalty);
        }
        residual /= fmax(1 - leverage, 1e-12);
        left_out[i] += residual * residual;
    }
}

/* In the model's coordinates the eigenvalues are input^2 lambda_k, or, whitened, input^2 m each; labels are `label`
 * times standardized ones, and so is their noise. */
static void fill_adaptive(const icl_references *references, const icl_standardization *z, const icl_model_scale *scale,
                          double *filter) {
    const double estimate = scale->label * scale->label * references->residual_variance;
    const double noise = isnan(estimate) ? scale->prior_noise : estimate;
    const double penalty = noise / (scale->input * scale->input), m = (double)z->rows;

    icl_ridge_filter(z->eigenvalues, z->features, penalty, filter);
    for (size_t k = 0; scale->whitened && k < z->features; k++)
        filter[k] = z->eigenvalues[k] > 0 ? m / (z->eigenvalues[k] * (m + penalty)) : 0;
}

void icl_references_fit(icl_references *references, const icl_standardization *z, const icl_model_scale *scale,
                        const icl_table_rows *rows) {
    const size_t p = z->features, freedom = z->rows > z->rank + 1 ? z->rows - z->rank - 1 : 0;
    double left_out[PENALTIES] = {0}, least_squares = 0;
    size_t best = 0;

    for (size_t i = 0; i < rows->count; i++) {
        const double *row = rows->table->values + rows->indices[i] * rows->table->columns;
        icl_standardize(z, row, references->row);
        icl_standardization_rotate(z, references->row, references->rotated);
        add_residuals(z, references->rotated, icl_standardize_target(z, row[p]), &least_squares, left_out);
    }
    for (size_t i = 1; i < PENALTIES; i++)
        if (left_out[i] < left_out[best])
            best = i;
    references->ridge_penalty = penalty_of(best, z->rows);
    references->residual_variance = freedom > 0 ? least_squares / (double)freedom : (double)NAN;
    memset(references->filters, 0, p * sizeof(double));
    icl_ridge_filter(z->eigenvalues, z->features, 0, references->filters + ICL_REFERENCE_OLS * p);
    icl_ridge_filter(z->eigenvalues, z->features, references->ridge_penalty,
                     references->filters + ICL_REFERENCE_RIDGE * p);
    fill_adaptive(references, z, scale, references->filters + ICL_REFERENCE_ADARR * p);
}

void icl_references_predict(const icl_references *references, const icl_standardization *z, const double *features,
                            double predictions[ICL_REFERENCES]) {
    const size_t p = z->features;

    icl_standardize(z, features, references->row);
    icl_standardization_rotate(z, references->row, references->rotated);
    for (size_t i = 0; i < ICL_REFERENCES; i++) {
        const double *filter = references->filters + i * p;
        double sum = 0;
        for (size_t k = 0; k < p; k++)
            sum += filter[k] * z->products[k] * references->rotated[k];
        predictions[i] = z->means[p] + z->deviations[p] * sum;
    }
}
