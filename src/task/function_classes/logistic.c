/*
 * Logistic regression at every position, for labels -1 and 1: the w that minimises
 *
 *     F(w) = sum_(i < k) log(1 + exp(-y_i <w, x_i>)) + A |w|^2 / 2
 *
 * by Newton's method, each position from the w of the one before: steps H^-1 g, halved until F falls (Boyd and
 * Vandenberghe 2004, section 9.5.2). Where task.label_law = logistic, A = 1 / task.output_scale^2 makes it the most
 * probable w of linear functions.
 */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "task/function_classes/predictors.h"

static const icl_recipe_key rows[] = {
    {"task", "logistic", ICL_KEY_TEXT, "1,0.1,0.01",
     .help = "penalties of the logistic regressions among the reference predictors"},
};
const icl_recipe_group icl_logistic_keys = ICL_RECIPE_GROUP(rows);

/* Steps at most; the Newton decrement squared, as a share of F, that ends them; of F's fall what a step must reach. */
enum { MOST_STEPS = 100, MOST_HALVES = 40 };
static const double LEAST_DECREMENT = 1e-18, LEAST_FALL = 1e-4;

/* All [d], but H [d][d]. */
typedef struct regression {
    const icl_points *points;
    double penalty;
    double *weights, *step, *trial, *gradient, *hessian;
} regression;

static size_t count_work(size_t dimension, size_t count, const icl_function_classes *is) {
    (void)count;
    (void)is;
    return dimension * dimension + 4 * dimension;
}

static double score(const icl_points *points, const double *w, size_t i) {
    const float *x = icl_points_x(points, i);
    double sum = 0;
    for (size_t j = 0; j < points->dimension; j++)
        sum += w[j] * (double)x[j];
    return sum;
}

/* log(1 + exp(-t)) */
static double loss_of(double t) {
    return fmax(-t, 0) + log1p(exp(-fabs(t)));
}

/* F at w, of the first k pairs. */
static double objective(const regression *of, const double *w, size_t k) {
    double sum = 0;
    for (size_t j = 0; j < of->points->dimension; j++)
        sum += .5 * of->penalty * w[j] * w[j];
    for (size_t i = 0; i < k; i++)
        sum += loss_of(icl_points_y(of->points, i) * score(of->points, w, i));
    return sum;
}

/* g, and the upper half of H. */
static void differentiate(const regression *of, size_t k) {
    const size_t d = of->points->dimension;

    memset(of->hessian, 0, d * d * sizeof *of->hessian);
    for (size_t j = 0; j < d; j++) {
        of->gradient[j] = of->penalty * of->weights[j];
        of->hessian[j * d + j] = of->penalty;
    }
    for (size_t i = 0; i < k; i++) {
        const float *x = icl_points_x(of->points, i);
        const double y = icl_points_y(of->points, i), t = y * score(of->points, of->weights, i);
        const double wrong = 1 / (1 + exp(fmin(t, 700))), curvature = wrong * (1 - wrong);
        for (size_t j = 0; j < d; j++) {
            of->gradient[j] -= wrong * y * (double)x[j];
            for (size_t l = j; l < d; l++)
                of->hessian[j * d + l] += curvature * (double)x[j] * (double)x[l];
        }
    }
}

/* Solves H step = g; returns the Newton decrement squared, g^T step, NaN where H is none. */
static double solve(const regression *of) {
    const int d = (int)of->points->dimension;
    double sum = 0;

    memcpy(of->step, of->gradient, (size_t)d * sizeof *of->step);
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'L', d, 1, of->hessian, d, of->step, d) != 0)
        return (double)NAN;
    for (int j = 0; j < d; j++)
        sum += of->gradient[j] * of->step[j];
    return sum;
}

static void fit(const regression *of, size_t k) {
    const size_t d = of->points->dimension;
    double value = objective(of, of->weights, k);

    for (int steps = 0; steps < MOST_STEPS; steps++) {
        double reached = value;
        differentiate(of, k);
        const double decrement = solve(of);
        if (!(decrement > LEAST_DECREMENT * value))
            return;
        for (int halves = 0; halves < MOST_HALVES; halves++) {
            const double share = ldexp(1, -halves);
            for (size_t j = 0; j < d; j++)
                of->trial[j] = of->weights[j] - share * of->step[j];
            reached = objective(of, of->trial, k);
            if (reached <= value - LEAST_FALL * share * decrement)
                break;
        }
        if (!(reached < value))
            return;
        memcpy(of->weights, of->trial, d * sizeof *of->weights);
        value = reached;
    }
}

static void predict(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    const size_t d = points->dimension;
    const regression of = {points, number, work, work + d, work + 2 * d, work + 3 * d, work + 4 * d};

    (void)shared;
    memset(of.weights, 0, d * sizeof *of.weights);
    for (size_t k = 0; k < points->count; k++) {
        if (k > 0)
            fit(&of, k);
        outputs[k] = score(points, of.weights, k);
    }
}

const icl_points_predictor icl_points_logistic = {.predict = predict, .count_work = count_work, .gives_logits = true};
