/* The sensitivity of a prediction to the query's input, d prediction / d x_query. */
#ifndef ICLAB_PROBE_SENSITIVITY_H
#define ICLAB_PROBE_SENSITIVITY_H

#include "iclab/model.h"
#include "iclab/status.h"

/*
 * A linear transformer's prediction is linear in the query's input (Vladymyrov et al. 2024, arXiv 2402.14180, theorem
 * 4.1), so its sensitivity is an implied weight vector, the predictions for the d unit vectors as queries: sensitivity
 * [count][d] with prediction = <sensitivity, x_query>, for tokens [count][n + 1][d + 1] whose queries are not read.
 *
 * values: the model's parameters. ICL_ERROR_INPUT for models without ops of their own (ICL_MODEL_FUSED), whose
 * predictions need not be linear.
 */
icl_status icl_sensitivity(icl_backend *backend, const icl_model *model, size_t d, size_t n, const float *values,
                           size_t count, const float *tokens, double *sensitivity, icl_error *error);

/* How alike the sensitivities of two predictors are, over `count` sequences. */
typedef struct icl_alignment {
    double predictions;     /* root of the mean squared difference of predictions */
    double cosine;          /* mean of the cosine between sensitivities */
    double sensitivities;   /* mean of the distance between them */
    double mean_prediction; /* root of the mean square of the first one's predictions */
} icl_alignment;

/* first, second [count][d]; tokens as above, whose queries are read. A sensitivity of 0 is at cosine
 * 0 to every other. */
icl_alignment icl_align(size_t d, size_t n, size_t count, const float *tokens, const double *first,
                        const double *second);

#endif
