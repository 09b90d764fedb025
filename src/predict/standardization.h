/*
 * Rows of a table as a model is shown them: centred and scaled by these rows alone, and taken
 * apart into principal components.
 *
 * With z_k = (x_k - mean_k) / deviation_k over m rows, y likewise, Z^T Z = V diag(lambda) V^T: the rotated row is V^T
 * z, and sqrt(m / lambda_k) times its k-th coordinate has mean square 1 over the rows, uncorrelated
 * with the others ("whitened").
 */
#ifndef ICLAB_PREDICT_STANDARDIZATION_H
#define ICLAB_PREDICT_STANDARDIZATION_H

#include "iclab/predict.h"

/* Some rows of a table whose last column is the target. Borrowed. */
typedef struct icl_table_rows {
    const icl_table *table;
    const size_t *indices; /* [count], which rows */
    size_t count;
} icl_table_rows;

/* Memory for rows of `features` features. Release with icl_standardization_release, also after a failure. */
icl_status icl_standardization_create(size_t features, icl_standardization *standardization, icl_error *error);
void icl_standardization_release(icl_standardization *standardization);

/* Fits means, deviations and components to at least 1 row without missing targets. Sums run in the rows' order.
 * ICL_ERROR_INPUT if the eigenvalues do not converge. */
icl_status icl_standardization_fit(icl_standardization *standardization, const icl_table_rows *rows, icl_error *error);

/* Features [p] of any row, standardized; a feature that was constant becomes 0. */
void icl_standardize(const icl_standardization *standardization, const double *features, double *standardized);

/* V^T of a standardized row [p]. */
void icl_standardization_rotate(const icl_standardization *standardization, const double *standardized,
                                double *rotated);

/* A target in the table's units, standardized; 0 where it was constant. */
double icl_standardize_target(const icl_standardization *standardization, double target);

#endif
