/* A trained model beside linear algorithms on the same prompts, by the number of labelled pairs. */
#ifndef ICLAB_PAPERS_ALGORITHMS_COMPARE_H
#define ICLAB_PAPERS_ALGORITHMS_COMPARE_H

#include "papers/algorithms/algorithms.h"
#include "papers/reproduce.h"

/* Columns of icl_predicted: three, and the algorithms, of which there are so many at most. */
enum {
    ICL_COLUMN_MODEL = 0,
    ICL_COLUMN_TARGET,
    ICL_COLUMN_NEIGHBOURS,
    ICL_COLUMN_ALGORITHMS,
    ICL_MOST_ALGORITHMS = 16
};

/* Predictions of a trainer's model, the targets, the mean label of the three nearest inputs and the algorithms for
 * x_0 ... x_n of so many sequences of the run's seed. values of *predicted is freed by the caller, also after a
 * failure. The task is that of separate tokens for inputs and labels. */
icl_status icl_algorithms_predict(const icl_reproducing *run, icl_trainer *trainer, icl_algorithms *algorithms,
                                  size_t sequences, icl_predicted *predicted, icl_error *error);

/* What the weights say that a predictor implies, means over prompts; squares are over d. */
typedef struct icl_implied_at {
    icl_measured distances[ICL_MOST_ALGORITHMS]; /* |w - w_A|^2, in the order of rows */
    icl_measured residual;                       /* mean square of what its own linear function leaves */
    double linear;                               /* share of its mean square that a linear function explains */
} icl_implied_at;

/* The same after k pairs: of the model and of the nearest neighbours, and of two algorithms, the first and the last. */
typedef struct icl_weights_at {
    icl_implied_at model, neighbours;
    icl_measured between;
} icl_weights_at;

/* The same for k = 1 ... n, to at [n + 1], from `probes` queries x ~ N(0, I) behind the pairs of each of `prompts`
 * prompts. ICL_ERROR_INPUT for less than 4 d queries, or more than a chunk of sequences. */
icl_status icl_algorithms_probe(const icl_reproducing *run, icl_trainer *trainer, icl_algorithms *algorithms,
                                size_t prompts, size_t probes, icl_weights_at *at, icl_error *error);

#endif
