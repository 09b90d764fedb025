/*
 * The algorithms that linear attention is compared with, in double on the host: K steps of gradient descent on the
 * squared error over a context, and of GD++ (von Oswald et al. 2022, "Transformers learn in-context by gradient
 * descent", arXiv 2212.07677); and the sensitivities of predictors, by which they are compared.
 */
#ifndef ICLAB_PROBE_DESCENT_H
#define ICLAB_PROBE_DESCENT_H

#include <stddef.h>

#include "iclab/model.h"
#include "iclab/status.h"

/*
 * Step l changes all tokens and the query at once, with the sums over the context from before it:
 *     y <- y - rates_l <sum_j y_j x_j, x>,     x <- x - inputs_l (sum_j x_j x_j^T) x,
 * and the prediction is minus the query's y after the last step. Sums are raw: no 1 / n.
 */
typedef struct icl_descent {
    size_t steps;
    const double *rates;  /* [steps] */
    const double *inputs; /* [steps] of GD++; NULL: plain gradient descent */
} icl_descent;

/* Computes weights [count][d] such that prediction = <weights, x_query>, for tokens [count][n + 1][d + 1], whose
 * queries are not read: the prediction is linear in the query's input. scratch holds icl_descent_scratch numbers. */
void icl_descent_weights(const icl_descent *descent, size_t d, size_t n, size_t count, const float *tokens,
                         double *scratch, double *weights);

/* Returns the size of the scratch of icl_descent_weights. */
size_t icl_descent_scratch(size_t d, size_t n);

/* ---- Sensitivities of predictions to the input of the query, d prediction / d x_query ---- */

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

/* The similarity of the sensitivities of two predictors, over `count` sequences. */
typedef struct icl_alignment {
    double predictions;     /* root of the mean squared difference of predictions */
    double cosine;          /* mean of the cosine between sensitivities */
    double sensitivities;   /* mean of the distance between them */
    double mean_prediction; /* root of the mean square of the first predictor's predictions */
} icl_alignment;

/* first, second [count][d]; tokens as above, with queries that are read. A sensitivity of 0 has cosine 0 to every
 * other. */
icl_alignment icl_align(size_t d, size_t n, size_t count, const float *tokens, const double *first,
                        const double *second);

#endif
