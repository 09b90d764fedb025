#include "predict/standardization.h"

#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/eigen.h"

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
