/*
 * Parts of the reproduction of Akyurek, Schuurmans, Andreas, Ma, Zhou 2022, "What learning algorithm is in-context
 * learning?" (arXiv 2211.15661): linear algorithms, distances between predictions, implied weights.
 *
 * After k pairs (x_i, y_i) an algorithm predicts <w, x> for a query x, with
 *
 *     T gradient steps   w_(t+1) = w_t + a_t / k X^T (y - X w_t) from 0, with the best lengths for d, k and the noise
 *     ridge              w = (X^T X + penalty I)^-1 X^T y; without a penalty least squares, the w of least norm
 *
 * Its distance from another at position k is the mean of (A - B)^2 over prompts and queries, the paper's squared
 * prediction distance. For x ~ N(0, I) it equals that of their weights, |w_A - w_B|^2, if both are linear.
 */
#ifndef ICLAB_PAPERS_ALGORITHMS_ALGORITHMS_H
#define ICLAB_PAPERS_ALGORITHMS_ALGORITHMS_H

#include <stddef.h>

#include "baseline/spectrum.h"
#include "iclab/status.h"
#include "papers/study.h"

enum { ICL_ALGORITHM_MOST_STEPS = 2 };

typedef struct icl_algorithm {
    const char *name;
    size_t steps; /* steps of gradient descent; 0: ridge */
    double penalty;
} icl_algorithm;

/* Several algorithms, prepared for 1 to `pairs` pairs. */
typedef struct icl_algorithms {
    const icl_algorithm *rows; /* [count], borrowed */
    size_t count, dimension, pairs;
    icl_spectrum *spectra; /* [pairs + 1], spectra after k pairs */
    double *lengths;       /* [pairs + 1][count][ICL_ALGORITHM_MOST_STEPS], a_t / k */
    float *tokens;         /* [pairs + 1][d + 1] */
    double *filter;        /* [d] */
} icl_algorithms;

/* Prepares algorithms, with the step lengths that are best for this noise_variance. Release with
 * icl_algorithms_release, also after a failure. */
icl_status icl_algorithms_create(const icl_algorithm *rows, size_t count, size_t dimension, size_t pairs,
                                 double noise_variance, icl_algorithms *all, icl_error *error);
void icl_algorithms_release(icl_algorithms *all);

/* Computes the algorithms' weights [count][d] after k >= 1 pairs: inputs x_i [d], in rows `stride` floats apart, and
 * labels as far apart. */
void icl_algorithms_weights(icl_algorithms *all, size_t k, const float *inputs, const float *labels, size_t stride,
                            double *weights);

/* ---- Distances ---- */

/* Predictions of several predictors, and the targets among them, for the same sequences. */
typedef struct icl_predicted {
    size_t sequences, positions, count;
    double *values; /* [sequences][positions][count] */
} icl_predicted;

/* A distance, times a factor. */
typedef struct icl_term {
    double factor;
    size_t a, b;
} icl_term;

/* Computes a sum of distances over `unit`; each is the mean of (A - B)^2 over the sequences and over positions first to
 * last. */
icl_status icl_predicted_distance(const icl_predicted *all, const icl_term *terms, size_t count, size_t first,
                                  size_t last, double unit, icl_number *distance, icl_error *error);

/* ---- Implied weights ---- */

/* The best linear fit to an algorithm's predictions for many queries after the same pairs. */
typedef struct icl_implied {
    double square;      /* mean square of the predictions */
    double residual;    /* mean square of the residuals of the best linear function */
    double unexplained; /* its estimate for other queries: over queries less d; NaN without such */
} icl_implied;

/* Finds the weights [d] of the linear function nearest to predictions f_j for queries x_j. `probes`, made for that many
 * pairs, sees them as tokens [count + 1][d + 1], rows (x_j, f_j) except the last one. */
icl_implied icl_implied_weights(icl_spectrum *probes, const float *tokens, double *weights);

/* ---- A trained model beside algorithms on the same prompts, by the number of labelled pairs ---- */

/* The columns of icl_predicted: three fixed ones, and then the algorithms, at most ICL_MOST_ALGORITHMS. */
enum {
    ICL_COLUMN_MODEL = 0,
    ICL_COLUMN_TARGET,
    ICL_COLUMN_NEIGHBOURS,
    ICL_COLUMN_ALGORITHMS,
    ICL_MOST_ALGORITHMS = 16
};

/* The weights that a predictor implies, as means over prompts; squares are over d. */
typedef struct icl_implied_at {
    icl_number distances[ICL_MOST_ALGORITHMS]; /* |w - w_A|^2, in the order of the algorithms' rows */
    icl_number residual;                       /* mean square of the residual of the predictor's own linear function */
    double linear;                             /* share of its mean square that a linear function explains */
} icl_implied_at;

/* Implied weights after k pairs: of the model, of the nearest neighbours, and the distance between two algorithms, the
 * first and the last. */
typedef struct icl_weights_at {
    icl_implied_at model, neighbours;
    icl_number between;
} icl_weights_at;

#endif
