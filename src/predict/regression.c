/* Regressions on the rows of a table: standardization, imputation, and the reference predictors. */
#include "predict/predict.h"

#include <math.h>
#include <string.h>

#include "baseline/spectrum.h"
#include "core/allocate.h"
#include "numeric/eigen.h"
#include "numeric/statistics.h"

/* ---- Standardization ---- */

/* A column whose deviation is below this share of its largest magnitude is constant but for rounding. */
#define CONSTANT_SHARE 1e-12

/* A component whose variance is at most this share of the largest: columns that differ by 1e-4 of their spread, as by
 * the rounding of one measure in two units. A new row that is rounded otherwise would be thrown far along it. */
#define DEPENDENT_SHARE 1e-8

icl_status icl_standardization_create(size_t features, icl_standardization *standardization, icl_error *error) {
    const size_t p = features;
    icl_standardization *made = standardization;

    memset(made, 0, sizeof *made);
    made->features = p;
    ICL_CHECK(icl_allocate(p + 1, sizeof(double), "means", &made->means, error));
    ICL_CHECK(icl_allocate(p + 1, sizeof(double), "deviations", &made->deviations, error));
    ICL_CHECK(icl_allocate(p, sizeof(double), "eigenvalues", &made->eigenvalues, error));
    ICL_CHECK(icl_allocate(p * p, sizeof(double), "principal components", &made->eigenvectors, error));
    ICL_CHECK(icl_allocate(p, sizeof(double), "label products", &made->products, error));
    ICL_CHECK(icl_allocate(p * p, sizeof(double), "sample covariance", &made->matrix, error));
    return icl_allocate(3 * p + 1, sizeof(double), "eigenvalue workspace", &made->work, error);
}

void icl_standardization_release(icl_standardization *standardization) {
    icl_free(&standardization->means);
    icl_free(&standardization->deviations);
    icl_free(&standardization->eigenvalues);
    icl_free(&standardization->eigenvectors);
    icl_free(&standardization->products);
    icl_free(&standardization->matrix);
    icl_free(&standardization->work);
}

static const double *row_of(const icl_table_rows *rows, size_t i) {
    return rows->table->values + rows->indices[i] * rows->table->columns;
}

/* Mean and deviation of one column. The mean is corrected by the mean of what is left, so that a large
 * offset costs no digits. */
static void measure_column(const icl_table_rows *rows, size_t column, double *mean, double *deviation) {
    const double count = (double)rows->count;
    double sum = 0, rest = 0, square = 0, largest = 0;

    for (size_t i = 0; i < rows->count; i++) {
        sum += row_of(rows, i)[column] / count;
        largest = fmax(largest, fabs(row_of(rows, i)[column]));
    }
    for (size_t i = 0; i < rows->count; i++)
        rest += row_of(rows, i)[column] - sum;
    *mean = sum + rest / count;
    for (size_t i = 0; i < rows->count; i++)
        square += (row_of(rows, i)[column] - *mean) * (row_of(rows, i)[column] - *mean);
    *deviation = sqrt(square / count);
    if (*deviation <= CONSTANT_SHARE * largest)
        *deviation = 0;
}

/* Z^T Z into matrix, Z^T y into `label_products`. */
static void accumulate(icl_standardization *made, const icl_table_rows *rows, double *label_products) {
    const size_t p = made->features;
    double *row = made->work;

    memset(made->matrix, 0, p * p * sizeof(double));
    memset(label_products, 0, p * sizeof(double));
    for (size_t i = 0; i < rows->count; i++) {
        const double label = icl_standardize_target(made, row_of(rows, i)[p]);
        icl_standardize(made, row_of(rows, i), row);
        for (size_t j = 0; j < p; j++) {
            for (size_t k = 0; k < p; k++)
                made->matrix[j * p + k] += row[j] * row[k];
            label_products[j] += row[j] * label;
        }
    }
}

icl_status icl_standardization_fit(icl_standardization *made, const icl_table_rows *rows, icl_error *error) {
    const size_t p = made->features;
    double *label_products = made->work + p;
    double limit;

    made->rows = rows->count;
    for (size_t k = 0; k <= p; k++)
        measure_column(rows, k, &made->means[k], &made->deviations[k]);
    accumulate(made, rows, label_products);
    memcpy(made->products, label_products, p * sizeof(double));
    if (!icl_symmetric_eigen(p, made->matrix, made->eigenvalues, made->eigenvectors, made->work))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: the eigenvalues of its covariance do not converge: expected "
                        "features of comparable magnitudes",
                        rows->table->name);
    memcpy(made->work, made->products, p * sizeof(double));
    icl_standardization_rotate(made, made->work, made->products);
    limit = DEPENDENT_SHARE * made->eigenvalues[p - 1];
    made->rank = 0;
    for (size_t k = 0; k < p; k++) {
        const bool is_kept = made->eigenvalues[k] > limit;
        made->rank += is_kept;
        made->eigenvalues[k] = is_kept ? made->eigenvalues[k] : 0;
        made->products[k] = is_kept ? made->products[k] : 0;
    }
    return ICL_OK;
}

void icl_standardize(const icl_standardization *standardization, const double *features, double *standardized) {
    for (size_t k = 0; k < standardization->features; k++) {
        const double deviation = standardization->deviations[k];
        standardized[k] = deviation > 0 ? (features[k] - standardization->means[k]) / deviation : 0;
    }
}

double icl_standardize_target(const icl_standardization *standardization, double target) {
    const size_t p = standardization->features;
    const double deviation = standardization->deviations[p];
    return deviation > 0 ? (target - standardization->means[p]) / deviation : 0;
}

void icl_standardization_rotate(const icl_standardization *standardization, const double *standardized,
                                double *rotated) {
    const size_t p = standardization->features;

    for (size_t k = 0; k < p; k++) {
        const double *vector = standardization->eigenvectors + k * p;
        rotated[k] = 0;
        for (size_t j = 0; j < p; j++)
            rotated[k] += vector[j] * standardized[j];
    }
}

/* ---- Imputation ---- */

static icl_status refuse_hole(const icl_table *table, size_t row, size_t column, icl_error *error) {
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s:%zu: column %zu (%s): a missing value: expected a number; --impute median fills it in",
                    table->name, table->lines[row], table->numbers[column], table->names[column]);
}

icl_status icl_filled_table_create(const icl_table *table, size_t features, icl_impute rule, icl_filled_table *filled,
                                   icl_error *error) {
    size_t count = 0;

    *filled = (icl_filled_table){.original = table, .table = *table};
    for (size_t row = 0; row < table->rows; row++)
        for (size_t i = 0; i < features; i++)
            if (isnan(table->values[row * table->columns + i])) {
                if (rule == ICL_IMPUTE_NONE)
                    return refuse_hole(table, row, i, error);
                count++;
            }
    if (count == 0)
        return ICL_OK;
    ICL_CHECK(icl_allocate(count, sizeof *filled->holes, "missing values", &filled->holes, error));
    ICL_CHECK(
        icl_allocate(table->rows * table->columns, sizeof *filled->values, "filled table", &filled->values, error));
    memcpy(filled->values, table->values, table->rows * table->columns * sizeof *filled->values);
    filled->table.values = filled->values;
    for (size_t row = 0; row < table->rows; row++)
        for (size_t i = 0; i < features; i++)
            if (isnan(table->values[row * table->columns + i]))
                filled->holes[filled->hole_count++] = row * table->columns + i;
    return ICL_OK;
}

void icl_filled_table_release(icl_filled_table *filled) {
    icl_free(&filled->values);
    icl_free(&filled->holes);
}

void icl_imputation_fit(const icl_table_rows *rows, size_t features, icl_impute rule, double *work, double *fills) {
    for (size_t i = 0; i < features; i++) {
        size_t count = 0;
        for (size_t k = 0; k < rows->count; k++) {
            const double value = rows->table->values[rows->indices[k] * rows->table->columns + i];
            if (!isnan(value))
                work[count++] = value;
        }
        fills[i] = count == 0 ? 0 : rule == ICL_IMPUTE_MEDIAN ? icl_median(work, count) : icl_mean(work, count);
    }
}

void icl_imputation_apply(icl_filled_table *filled, const double *fills) {
    for (size_t i = 0; i < filled->hole_count; i++)
        filled->values[filled->holes[i]] = fills[filled->holes[i] % filled->table.columns];
}

/* ---- References ---- */

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
