/* What the model is compared with: the mean, least squares and ridge regressions on all the rows that
 * the model may learn from. */
#ifndef ICLAB_PREDICT_REFERENCES_H
#define ICLAB_PREDICT_REFERENCES_H

#include "iclab/predict.h"
#include "predict/standardization.h"

/* "mean", … */
const char *icl_reference_name(icl_reference reference);

/* What the model's coordinates are, for adarr: w ~ N(0, I) is its prior in these. */
typedef struct icl_model_scale {
    bool whitened;
    double input;       /* coordinates are standardized ones times this */
    double label;       /* labels are standardized ones times this */
    double prior_noise; /* E[sigma^2] of labels: where no residual is left to estimate it from */
} icl_model_scale;

typedef struct icl_references {
    /* [ICL_REFERENCES][p]: predictions are sum_k f_k a_k u_k, a the products, u the rotated row. */
    double *filters;
    double *row, *rotated;    /* [p] */
    double ridge_penalty;     /* added to the eigenvalues of Z^T Z */
    double residual_variance; /* of standardized labels; NaN where no residual is left */
} icl_references;

/* Memory for `features` features. Release with icl_references_release, also after a failure. */
icl_status icl_references_create(size_t features, icl_references *references, icl_error *error);
void icl_references_release(icl_references *references);

/* Fits them to the rows that `standardization` was fitted to. */
void icl_references_fit(icl_references *references, const icl_standardization *standardization,
                        const icl_model_scale *scale, const icl_table_rows *rows);

/* Predictions of all references for one row of features [p], in the target's units. */
void icl_references_predict(const icl_references *references, const icl_standardization *standardization,
                            const double *features, double predictions[ICL_REFERENCES]);

#endif
