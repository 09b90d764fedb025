/*
 * The window of an attention that reads labels (src/model/softmax.c): its loss without the randomness of label noise,
 * the best window of a fixed shape, and the window of a trained model.
 *
 * A prediction is sum_i beta_i y_i, with y_i = f(x_i) + sigma eps_i and weights beta that see no label.
 * The mean over the noise is
 *     E (sum_i beta_i y_i - f(x_q))^2 = (sum_i beta_i f(x_i) - f(x_q))^2 + E[sigma^2] sum_i beta_i^2,
 * so a set holds the noiseless labels of its sequences, and losses carry no error from noise.
 */
#ifndef ICLAB_PROBE_WINDOW_H
#define ICLAB_PROBE_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/status.h"
#include "iclab/task.h"

/* Sequences of a task on the host. */
typedef struct icl_window_set {
    size_t count, context, dimension;          /* n, d */
    double mean_square_noise;                  /* E[sigma^2] of the task; the sequences have no noise */
    float *tokens;                             /* [count][n + 1][d + 1], noiseless labels */
    float *targets;                            /* [count] */
    double *scores;                            /* [count][n], scratch */
    double *losses, *spreads, *reach, *others; /* [count], scratch */
} icl_window_set;

/* Draws sequences of the recipe's [task] without its noise, for the purpose: a window is found on some sequences
 * (ICL_FOR_FITTING) and judged on others. Two recipes that differ only in the noise get the same sequences. Release it
 * in any case. */
icl_status icl_window_draw(icl_backend *backend, const icl_recipe *recipe, icl_task_purpose purpose, uint32_t seed,
                           size_t count, icl_window_set *set, icl_error *error);
void icl_window_release(icl_window_set *set);

/* The effect of a window, means over a set. */
typedef struct icl_window_quality {
    double loss, standard_error; /* of the squared error, noise averaged out */
    double neighbours;           /* 1 / mean sum_i beta_i^2: the number of labels that are averaged over */
    double reach;                /* root of the mean of sum_i beta_i ||x_i - x_q||^2: the window's radius */
} icl_window_quality;

/* Measures the window of scores x_i^T M x_q, M [d][d]. Softmax: beta = softmax of the scores; else beta = scores / n,
 * whose reach means nothing (NaN). The result has the same bits for any number of threads. */
icl_window_quality icl_window_measure(const icl_window_set *set, const double *M, bool softmax);

/* The loss of one window over that of another on the same sequences. The standard error contains only what the two do
 * not share: it is that of the mean of loss - ratio * other loss, over the other's mean. */
typedef struct icl_window_ratio {
    double ratio, standard_error;
    icl_window_quality of, to;
} icl_window_ratio;

icl_window_ratio icl_window_compare(const icl_window_set *set, const double *M, bool softmax, const double *other,
                                    bool other_softmax);

/* Returns the w > 0 with the least loss among softmax windows M = w S of one shape S [d][d], NULL for the identity.
 * Searches a grid from .01 to 655, then by golden section in log w around its best, down to half a per cent, with the
 * same sequences for each w. One number describes a window because all optimal M are w I if inputs have no preferred
 * direction (arXiv 2402.11639). */
double icl_window_search(const icl_window_set *set, const double *shape);

#endif
