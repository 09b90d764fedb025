/* What the model is compared with: the mean, least squares and ridge regressions on all the rows that the model may learn from. */
#ifndef ICLAB_LAB_PREDICT_REFERENCES_H
#define ICLAB_LAB_PREDICT_REFERENCES_H

#include "lab/predict/standardization.h"

/*
 *   mean     the mean of the targets
 *   ols      least squares with an intercept (of minimum norm among standardized features where they are collinear)
 *   ridge    ridge on the standardized features, intercept not penalized; the penalty with the least leave-one-out error, of
 *            m 10^-4 … m 10^3 in steps of 10^(1/8)
 *   adarr    ridge in the model's own coordinates with the residual variance estimate as its penalty (Vladymyrov et al. 2024, section
 *            5): RSS / (m - 1 - rank), where 1 is the intercept's
 */
typedef enum icl_reference {
    ICL_REFERENCE_MEAN = 0,
    ICL_REFERENCE_OLS,
    ICL_REFERENCE_RIDGE,
    ICL_REFERENCE_ADARR,
    ICL_REFERENCES
} icl_reference;

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
    double *
        filters; /* [ICL_REFERENCES][p]: predictions are sum_k f_k a_k u_k, a the products, u the rotated row */
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
