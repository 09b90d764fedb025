/* Rows of a table as methods learn from them: missing features filled in, standardized, and in the coordinates of ridge
 * regressions. */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/status.h"
#include "numeric/matrix.h"
#include "numeric/statistics.h"
#include "predict/predict.h"

/* ---- Standardization ---- */

/* A column whose deviation is below this share of its largest magnitude counts as constant: the rest is rounding. */
#define CONSTANT_SHARE 1e-12

/* A component whose variance is at most this share of the largest is left out: its columns differ by 1e-4 of their
 * spread, as the rounding of one measure in two units does. A new row with other rounding would be thrown far along
 * it. */
#define DEPENDENT_SHARE 1e-8

icl_status icl_standardization_create(size_t features, icl_standardization *standardization, icl_error *error) {
    const size_t p = features;
    icl_standardization *fitted = standardization;

    memset(fitted, 0, sizeof *fitted);
    fitted->features = p;
    ICL_CHECK(icl_allocate(p + 1, sizeof(double), "means", &fitted->means, error));
    ICL_CHECK(icl_allocate(p + 1, sizeof(double), "deviations", &fitted->deviations, error));
    ICL_CHECK(icl_allocate(p, sizeof(double), "eigenvalues", &fitted->eigenvalues, error));
    ICL_CHECK(icl_allocate(p * p, sizeof(double), "principal components", &fitted->eigenvectors, error));
    ICL_CHECK(icl_allocate(p, sizeof(double), "label products", &fitted->products, error));
    ICL_CHECK(icl_allocate(p * p, sizeof(double), "sample covariance", &fitted->matrix, error));
    return icl_allocate(3 * p + 1, sizeof(double), "eigenvalue workspace", &fitted->work, error);
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

/* Computes mean and deviation of one column. The mean is corrected by the mean of the remainders, so that a large
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

void icl_standardize_row(const icl_standardization *standardization, const double *features, double *standardized) {
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

void icl_rotate_row(const icl_standardization *standardization, const double *standardized, double *rotated) {
    const size_t p = standardization->features;

    for (size_t k = 0; k < p; k++) {
        const double *vector = standardization->eigenvectors + k * p;
        rotated[k] = 0;
        for (size_t j = 0; j < p; j++)
            rotated[k] += vector[j] * standardized[j];
    }
}

/* Puts Z^T Z into matrix and Z^T y into `label_products`. */
static void accumulate(icl_standardization *fitted, const icl_table_rows *rows, double *label_products) {
    const size_t p = fitted->features;
    double *row = fitted->work;

    memset(fitted->matrix, 0, p * p * sizeof(double));
    memset(label_products, 0, p * sizeof(double));
    for (size_t i = 0; i < rows->count; i++) {
        const double label = icl_standardize_target(fitted, row_of(rows, i)[p]);
        icl_standardize_row(fitted, row_of(rows, i), row);
        for (size_t j = 0; j < p; j++) {
            for (size_t k = 0; k < p; k++)
                fitted->matrix[j * p + k] += row[j] * row[k];
            label_products[j] += row[j] * label;
        }
    }
}

icl_status icl_standardization_fit(icl_standardization *fitted, const icl_table_rows *rows, icl_error *error) {
    const size_t p = fitted->features;
    double *label_products = fitted->work + p;
    double limit;

    fitted->rows = rows->count;
    for (size_t k = 0; k <= p; k++)
        measure_column(rows, k, &fitted->means[k], &fitted->deviations[k]);
    accumulate(fitted, rows, label_products);
    memcpy(fitted->products, label_products, p * sizeof(double));
    if (!icl_symmetric_eigen(p, fitted->matrix, fitted->eigenvalues, fitted->eigenvectors, fitted->work))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: the eigenvalues of its covariance do not converge: expected "
                        "features of comparable magnitudes",
                        rows->table->name);
    memcpy(fitted->work, fitted->products, p * sizeof(double));
    icl_rotate_row(fitted, fitted->work, fitted->products);
    limit = DEPENDENT_SHARE * fitted->eigenvalues[p - 1];
    fitted->rank = 0;
    for (size_t k = 0; k < p; k++) {
        const bool is_kept = fitted->eigenvalues[k] > limit;
        fitted->rank += is_kept;
        fitted->eigenvalues[k] = is_kept ? fitted->eigenvalues[k] : 0;
        fitted->products[k] = is_kept ? fitted->products[k] : 0;
    }
    return ICL_OK;
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

icl_status icl_filled_tables_create(const icl_table *table, const icl_table *fresh, icl_impute rule, size_t features,
                                    size_t labelled, icl_filled_tables *filled, icl_error *error) {
    *filled = (icl_filled_tables){.rule = rule, .features = features};
    ICL_CHECK(icl_filled_table_create(table, features, rule, &filled->table, error));
    if (fresh)
        ICL_CHECK(icl_filled_table_create(fresh, features, rule, &filled->fresh, error));
    if (filled->table.hole_count + filled->fresh.hole_count == 0)
        return ICL_OK;
    ICL_CHECK(icl_allocate(labelled, sizeof *filled->work, "fills", &filled->work, error));
    return icl_allocate(features, sizeof *filled->fills, "fills", &filled->fills, error);
}

void icl_filled_tables_release(icl_filled_tables *filled) {
    icl_filled_table_release(&filled->table);
    icl_filled_table_release(&filled->fresh);
    icl_free(&filled->work);
}

void icl_filled_tables_fit(icl_filled_tables *filled, const size_t *indices, size_t count) {
    const icl_table_rows original = {filled->table.original, indices, count};

    if (!filled->fills)
        return;
    icl_imputation_fit(&original, filled->features, filled->rule, filled->work, filled->fills);
    icl_imputation_apply(&filled->table, filled->fills);
    icl_imputation_apply(&filled->fresh, filled->fills);
}

/* ---- Ridge, with one row left out ---- */

double icl_ridge_penalty(size_t index, size_t rows) {
    return (double)rows * pow(10, -4 + (double)index / 8);
}

double icl_left_out_residual(const icl_standardization *z, const double *rotated, double label, double penalty) {
    double leverage = 1 / (double)z->rows, residual = label;

    for (size_t k = 0; k < z->features; k++) {
        if (!(z->eigenvalues[k] + penalty > 0))
            continue;
        leverage += rotated[k] * rotated[k] / (z->eigenvalues[k] + penalty);
        residual -= rotated[k] * z->products[k] / (z->eigenvalues[k] + penalty);
    }
    return residual / fmax(1 - leverage, 1e-12);
}
