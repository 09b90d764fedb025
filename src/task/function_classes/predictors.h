/*
 * Reference predictors of function classes, by position: k pairs (x_i, y_i) and x_k give a prediction of f(x_k), for
 * every k from 0 to n. Before the first pair all but dmmse predict 0.
 *
 * For classes they give logits. A prediction m of a regression on labels -1 and 1 stands for P(y = 1) = (1 + m) / 2:
 * its logit is log((1 + m) / (1 - m)), with m cut to +-k / (k + 1).
 *
 *     zero            0
 *     averaging       <x_k, mean of y_i x_i>
 *     nearest:3       the mean label of the 3 inputs nearest to x_k; for classes their sum over 5, Laplace's rule
 *     least-squares   <x_k, w> with the w of least norm among those of least squared error
 *     ridge           <x_k, w>, w = (X^T X + (s / c)^2 I)^-1 X^T y, s^2 the variance of the noise at the sequence's own
 *                     sigma and c = task.output_scale; only if there is noise. The posterior mean of linear functions
 *                     with normal noise, and with other noise the best that is linear in y, if sigma is steady within a
 *                     sequence; else s^2 is the mean over the places, or over inputs of variance 1
 *     reweighted      for heavy tails or outliers: a mode of the posterior of linear functions, by the law of the noise
 *     bayes           the posterior mean if the classes are linear, sparse or quadratic and the noise is normal: no
 *                     predictor that is not told the level is better. For a mixture also bayes:CLASS, which takes all
 *                     functions to be of that class. (bayes.c)
 *     squares         least-squares on x_i^2 in place of x_i, for quadratic functions
 *     lasso:A         the w that minimises |y - X w|^2 / (2 k) + A |w|_1, for each A of task.lasso
 *     logistic:A      for classes: logistic regression with the penalty A |w|^2 / 2, for each A of task.logistic
 *     tree            a regression tree of depth task.depth, grown greedily; tree-signs: on the signs of x
 *     network         a two-layer network of task.hidden_units, trained on the pairs
 *     dmmse           the posterior mean over the functions of task.pool, by the law of the labels
 */
#ifndef ICLAB_TASK_FUNCTION_CLASSES_PREDICTORS_H
#define ICLAB_TASK_FUNCTION_CLASSES_PREDICTORS_H

#include <stddef.h>

#include "iclab/random.h"
#include "task/function_classes/family.h"

/* One sequence. */
typedef struct icl_points {
    const icl_function_classes *state;
    size_t dimension, count; /* d; n + 1 */
    icl_prompt_layout layout;
    const float *tokens; /* [T][p] */
    double sigma;
} icl_points;

static inline const float *icl_points_x(const icl_points *points, size_t i) {
    return points->tokens + i * points->layout.stride * points->layout.inputs;
}

/* Returns y_i, i < n. */
static inline double icl_points_y(const icl_points *points, size_t i) {
    return (double)icl_points_x(points, i)[points->layout.label];
}

/* A predictor, which writes outputs [n + 1]. `number` is its setting, `shared` the data that all sequences have in
 * common. */
typedef struct icl_points_predictor {
    void (*predict)(const icl_points *points, double number, const void *shared, double *work, double *outputs);
    size_t (*count_work)(size_t dimension, size_t count, const icl_function_classes *state); /* doubles; NULL: none */
    /* Creates the shared data, freed by icl_free; NULL if there are none. */
    icl_status (*share)(const icl_function_classes *state, void **shared, icl_error *error);
    bool gives_logits; /* for classes */
} icl_points_predictor;

extern const icl_points_predictor icl_points_zero, icl_points_averaging, icl_points_nearest, icl_points_ridge,
    icl_points_reweighted, icl_points_bayes, icl_points_squares, icl_points_lasso, icl_points_logistic, icl_points_tree,
    icl_points_network, icl_points_posterior;

/* The number of icl_points_bayes for all classes; any other number is one class. icl_bayes_exists returns whether the
 * predictor is defined, with few enough hypotheses to sum over. */
enum { ICL_BAYES_ALL = -1 };
bool icl_bayes_exists(const icl_function_classes *state, int only);

/* The keys of the predictors that have some. */
extern const icl_recipe_group icl_lasso_keys, icl_logistic_keys, icl_network_keys;

/* ---- Noise levels ---- */

/* Returns the number of levels of the law of sigma, for sequences of up to `labels` labels. */
size_t icl_noise_level_count(const icl_random_params *law, size_t labels);

/* Returns sigma of level i, and sets *share to its probability; over all i these sum to 1, to 1e-9. */
double icl_noise_level(const icl_random_params *law, size_t labels, size_t i, double *share);

#endif
