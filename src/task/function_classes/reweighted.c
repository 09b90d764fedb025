/*
 * Regression at every position that knows the law of the noise, heavy tails and outliers included: a mode of the
 * posterior of linear functions, by expectation and maximisation (Dempster, Laird, Rubin 1980, "Iteratively reweighted
 * least squares for linear regression when errors are normal/independent distributed"). From the w of ridge on,
 *
 *     w <- (I / c^2 + sum_(i < k) q_i x_i x_i^T)^-1 sum_(i < k) q_i t_i x_i,   c = task.output_scale,
 *
 * where q_i and t_i are what icl_noise_law_weigh says of the label at <w, x_i>. Each round raises the posterior. There
 * can be several modes, of which ridge leads to one.
 */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "task/function_classes/predictors.h"

/* Rounds at most; the largest move of a weight, as a share of c, that ends them. */
enum { MOST_ROUNDS = 200 };
static const double LEAST_MOVE = 1e-9;

/* What stands for sigma where a sequence has no noise, as a share of c. */
static const double LEAST_SIGMA = 1e-4;

static size_t count_work(size_t dimension, size_t count, const icl_function_classes *is) {
    (void)is;
    return dimension * (dimension + 2) + 2 * count;
}

/* All [d], but the matrix [d][d] and what stands for the pairs, [k]. */
typedef struct fit {
    const icl_points *points;
    double *weights, *right, *matrix, *precisions, *labels;
} fit;

static double value_at(const fit *of, size_t i) {
    const float *x = icl_points_x(of->points, i);
    double sum = 0;
    for (size_t j = 0; j < of->points->dimension; j++)
        sum += of->weights[j] * (double)x[j];
    return sum;
}

/* The weights for these precisions and labels of the first k pairs; returns the largest move of one, NaN where there
 * are none. */
static double regress(const fit *of, size_t k) {
    const size_t d = of->points->dimension;
    const double scale = of->points->is->law.scale;
    double move = 0;

    memset(of->right, 0, d * sizeof *of->right);
    memset(of->matrix, 0, d * d * sizeof *of->matrix);
    for (size_t i = 0; i < k; i++) {
        const float *x = icl_points_x(of->points, i);
        for (size_t j = 0; j < d; j++) {
            const double part = of->precisions[i] * (double)x[j];
            of->right[j] += part * of->labels[i];
            for (size_t l = j; l < d; l++)
                of->matrix[j * d + l] += part * (double)x[l];
        }
    }
    for (size_t j = 0; j < d; j++)
        of->matrix[j * d + j] += 1 / (scale * scale);
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'L', (int)d, 1, of->matrix, (int)d, of->right, (int)d) != 0)
        return (double)NAN;
    for (size_t j = 0; j < d; j++)
        move = fmax(move, fabs(of->right[j] - of->weights[j]));
    memcpy(of->weights, of->right, d * sizeof *of->weights);
    return move;
}

static void search(const fit *of, size_t k) {
    const icl_points *points = of->points;
    const icl_noise_law *law = &points->is->labels.noise;

    for (size_t i = 0; i < k; i++) {
        of->precisions[i] = 1 / icl_noise_law_variance(law, points->sigma);
        of->labels[i] = icl_points_y(points, i);
    }
    double move = regress(of, k);
    for (int round = 0; round < MOST_ROUNDS && move > LEAST_MOVE * points->is->law.scale; round++) {
        for (size_t i = 0; i < k; i++)
            icl_noise_law_weigh(law, icl_points_y(points, i), value_at(of, i), points->sigma, &of->precisions[i],
                                &of->labels[i]);
        move = regress(of, k);
    }
}

static void predict(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    const size_t d = points->dimension;
    icl_points own = *points;
    const fit of = {&own, work, work + d, work + 2 * d, work + d * (d + 2), work + d * (d + 2) + points->count};

    (void)number;
    (void)shared;
    own.sigma = fmax(points->sigma, LEAST_SIGMA * points->is->law.scale);
    memset(of.weights, 0, d * sizeof *of.weights);
    for (size_t k = 0; k < points->count; k++) {
        if (k > 0)
            search(&of, k);
        outputs[k] = value_at(&of, k);
    }
}

const icl_points_predictor icl_points_reweighted = {.predict = predict, .count_work = count_work};
