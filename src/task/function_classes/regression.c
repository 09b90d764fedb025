/*
 * Least squares, ridge regression and the lasso at every position, from the running sums S = X^T X and b = X^T y.
 *
 * With the eigenvectors v of S: w = sum_v (v . b) / (lambda_v + penalty) v; without a penalty the sum is over those
 * with lambda_v > 0, which gives the solution of least norm. The lasso is solved by cyclic coordinate descent
 * (Friedman, Hastie, Tibshirani 2010, section 2.1), which begins at the solution of the position before:
 *
 *     w_j <- soft(b_j / k - sum_(i != j) S_ji w_i / k, A) / (S_jj / k),   soft(u, A) = sign(u) max(0, |u| - A)
 */
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/recipe_keys.h"
#include "numeric/matrix.h"
#include "task/function_classes/predictors.h"

/* ---- Least squares, ridge and lasso ---- */

/* An eigenvalue below this share of the largest one is rounding: sums of k squares are exact to k 2^-53. */
static const double SMALLEST_SHARE = 1e-12;

/* The lasso ends after MOST_SWEEPS sweeps, or if no weight moves by more than LEAST_MOVE of the largest weight. */
enum { MOST_SWEEPS = 1000 };
static const double LEAST_MOVE = 1e-6;

/* All [d] or [d][d]. */
typedef struct sums {
    size_t dimension;
    double *squares, *products; /* S, b */
    double *weights, *x;
    double *matrix, *vectors, *eigenvalues, *scratch; /* of the eigen-decomposition */
} sums;

static size_t count_sums(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)count;
    (void)state;
    return 3 * dimension * dimension + 7 * dimension;
}

static sums start_sums(const icl_points *points, double *work) {
    const size_t d = points->dimension;
    double *vectors = work + 3 * d * d;

    memset(work, 0, (3 * d * d + 7 * d) * sizeof *work);
    return (sums){d,
                  work,
                  vectors,
                  vectors + d,
                  vectors + 2 * d,
                  work + d * d,
                  work + 2 * d * d,
                  vectors + 3 * d,
                  vectors + 4 * d};
}

static void read_x(const icl_points *points, size_t k, bool is_squared, double *x) {
    for (size_t j = 0; j < points->dimension; j++) {
        const double value = (double)icl_points_x(points, k)[j];
        x[j] = is_squared ? value * value : value;
    }
}

static void add_pair(sums *s, double y) {
    for (size_t i = 0; i < s->dimension; i++) {
        s->products[i] += y * s->x[i];
        for (size_t j = 0; j < s->dimension; j++)
            s->squares[i * s->dimension + j] += s->x[i] * s->x[j];
    }
}

/* Solves for the weights; they are NaN if the iteration does not converge, as on numbers that are not finite. */
static void solve_sums(sums *s, double penalty) {
    const size_t d = s->dimension;

    memcpy(s->matrix, s->squares, d * d * sizeof *s->matrix);
    const bool solved = icl_symmetric_eigen(d, s->matrix, s->eigenvalues, s->vectors, s->scratch);
    for (size_t j = 0; j < d; j++)
        s->weights[j] = solved ? 0 : (double)NAN;
    for (size_t r = 0; r < d && solved; r++) {
        const double *v = s->vectors + r * d, lambda = fmax(0, s->eigenvalues[r]);
        const bool is_kept = penalty > 0 || lambda > SMALLEST_SHARE * s->eigenvalues[d - 1];
        const double share = is_kept ? icl_dot(v, s->products, d) / (lambda + penalty) : 0;
        for (size_t j = 0; j < d; j++)
            s->weights[j] += share * v[j];
    }
}

static void regress_sums(const icl_points *points, double penalty, bool is_squared, double *work, double *outputs) {
    sums s = start_sums(points, work);

    for (size_t k = 0; k < points->count; k++) {
        read_x(points, k, is_squared, s.x);
        if (k > 0)
            solve_sums(&s, penalty);
        outputs[k] = k > 0 ? icl_dot(s.weights, s.x, s.dimension) : 0;
        if (k + 1 < points->count)
            add_pair(&s, icl_points_y(points, k));
    }
}

/* Predicts by ridge regression if number is 1, by least squares if it is 0. */
static void predict_ridge(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    const double scale = points->state->law.scale,
                 variance = icl_noise_law_variance(&points->state->labels.noise, points->sigma);
    (void)shared;
    regress_sums(points, number > 0 ? variance / (scale * scale) : 0, false, work, outputs);
}

static void predict_squares(const icl_points *points, double number, const void *shared, double *work,
                            double *outputs) {
    (void)number;
    (void)shared;
    regress_sums(points, 0, true, work, outputs);
}

const icl_points_predictor icl_points_ridge = {.predict = predict_ridge, .count_work = count_sums};
const icl_points_predictor icl_points_squares = {.predict = predict_squares, .count_work = count_sums};

/* ---- The lasso ---- */

/* Moves each weight once; returns the largest move as a share of the largest weight. */
static double sweep(sums *s, double count, double penalty) {
    const size_t d = s->dimension;
    double move = 0, largest = 0;

    for (size_t j = 0; j < d; j++) {
        const double *row = s->squares + j * d, own = row[j];
        const double rest = s->products[j] - icl_dot(row, s->weights, d) + own * s->weights[j];
        const double kept = fmax(0, fabs(rest) - penalty * count);
        const double weight = own > 0 ? copysign(kept, rest) / own : 0;
        move = fmax(move, fabs(weight - s->weights[j]));
        largest = fmax(largest, fabs(weight));
        s->weights[j] = weight;
    }
    return largest > 0 ? move / largest : move;
}

static void predict_lasso(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    sums s = start_sums(points, work);

    (void)shared;
    for (size_t k = 0; k < points->count; k++) {
        read_x(points, k, false, s.x);
        for (int sweeps = 0; k > 0 && sweeps < MOST_SWEEPS; sweeps++)
            if (!(sweep(&s, (double)k, number) > LEAST_MOVE))
                break;
        outputs[k] = k > 0 ? icl_dot(s.weights, s.x, s.dimension) : 0;
        if (k + 1 < points->count)
            add_pair(&s, icl_points_y(points, k));
    }
}

const icl_points_predictor icl_points_lasso = {.predict = predict_lasso, .count_work = count_sums};

/* ---- Known noise ---- */

/*
 * Regression at every position that knows the law of the noise, heavy tails and outliers included: a mode of the
 * posterior of linear functions, by expectation and maximisation (Dempster, Laird, Rubin 1980, "Iteratively reweighted
 * least squares for linear regression when errors are normal/independent distributed"). Beginning at the w of ridge,
 *
 *     w <- (I / c^2 + sum_(i < k) q_i x_i x_i^T)^-1 sum_(i < k) q_i t_i x_i,   c = task.output_scale,
 *
 * where icl_noise_law_weigh gives q_i and t_i of the label y_i at <w, x_i>. Each round raises the posterior. There can
 * be several modes, of which ridge leads to one.
 */

/* The search ends after MOST_ROUNDS rounds, or if no weight moves by more than LEAST_ROUND of c. */
enum { MOST_ROUNDS = 200 };
static const double LEAST_ROUND = 1e-9;

/* The sigma of a sequence without noise, as a share of c. */
static const double LEAST_SIGMA = 1e-4;

static size_t count_reweighted(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)state;
    return dimension * (dimension + 2) + 2 * count;
}

/* <w, x_i> */
static double value_at(const icl_points *points, const double *w, size_t i) {
    const float *x = icl_points_x(points, i);
    double sum = 0;
    for (size_t j = 0; j < points->dimension; j++)
        sum += w[j] * (double)x[j];
    return sum;
}

/* All [d], except the matrix [d][d] and the pairs' precisions and labels, [k]. */
typedef struct weighted_fit {
    const icl_points *points;
    double *weights, *right, *matrix, *precisions, *labels;
} weighted_fit;

/* Solves for the weights, given precisions and labels of the first k pairs; returns the largest move of one, NaN if
 * there is no solution. */
static double reweigh(const weighted_fit *fit, size_t k) {
    const size_t d = fit->points->dimension;
    const double scale = fit->points->state->law.scale;
    double move = 0;

    memset(fit->right, 0, d * sizeof *fit->right);
    memset(fit->matrix, 0, d * d * sizeof *fit->matrix);
    for (size_t i = 0; i < k; i++) {
        const float *x = icl_points_x(fit->points, i);
        for (size_t j = 0; j < d; j++) {
            const double part = fit->precisions[i] * (double)x[j];
            fit->right[j] += part * fit->labels[i];
            for (size_t l = j; l < d; l++)
                fit->matrix[j * d + l] += part * (double)x[l];
        }
    }
    for (size_t j = 0; j < d; j++)
        fit->matrix[j * d + j] += 1 / (scale * scale);
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'L', (int)d, 1, fit->matrix, (int)d, fit->right, (int)d) != 0)
        return (double)NAN;
    for (size_t j = 0; j < d; j++)
        move = fmax(move, fabs(fit->right[j] - fit->weights[j]));
    memcpy(fit->weights, fit->right, d * sizeof *fit->weights);
    return move;
}

static void search_mode(const weighted_fit *fit, size_t k) {
    const icl_points *points = fit->points;
    const icl_noise_law *law = &points->state->labels.noise;

    for (size_t i = 0; i < k; i++) {
        fit->precisions[i] = 1 / icl_noise_law_variance(law, points->sigma);
        fit->labels[i] = icl_points_y(points, i);
    }
    double move = reweigh(fit, k);
    for (int round = 0; round < MOST_ROUNDS && move > LEAST_ROUND * points->state->law.scale; round++) {
        for (size_t i = 0; i < k; i++)
            icl_noise_law_weigh(law, icl_points_y(points, i), value_at(points, fit->weights, i), points->sigma,
                                &fit->precisions[i], &fit->labels[i]);
        move = reweigh(fit, k);
    }
}

static void predict_reweighted(const icl_points *points, double number, const void *shared, double *work,
                               double *outputs) {
    const size_t d = points->dimension;
    icl_points own = *points;
    const weighted_fit fit = {
        &own, work, work + d, work + 2 * d, work + d * (d + 2), work + d * (d + 2) + points->count};

    (void)number;
    (void)shared;
    own.sigma = fmax(points->sigma, LEAST_SIGMA * points->state->law.scale);
    memset(fit.weights, 0, d * sizeof *fit.weights);
    for (size_t k = 0; k < points->count; k++) {
        if (k > 0)
            search_mode(&fit, k);
        outputs[k] = value_at(points, fit.weights, k);
    }
}

const icl_points_predictor icl_points_reweighted = {.predict = predict_reweighted, .count_work = count_reweighted};

/* ---- Logistic regression ---- */

/*
 * Logistic regression at every position, for labels -1 and 1: the w that minimises
 *
 *     F(w) = sum_(i < k) log(1 + exp(-y_i <w, x_i>)) + A |w|^2 / 2
 *
 * by Newton's method, which begins at the w of the position before: steps H^-1 g, halved until F falls (Boyd and
 * Vandenberghe 2004, section 9.5.2). With task.label_law = logistic and A = 1 / task.output_scale^2, w is the most
 * probable one of linear functions.
 */

static const icl_recipe_key logistic_rows[] = {
    {"task", "logistic", ICL_KEY_TEXT, "1,0.1,0.01",
     .help = "penalties of the logistic regressions among the reference predictors"},
};
const icl_recipe_group icl_logistic_keys = ICL_RECIPE_GROUP(logistic_rows);

/* The search ends after MOST_STEPS steps, or if the squared Newton decrement is at most LEAST_DECREMENT of F. A step is
 * halved up to MOST_HALVES times, until F falls by LEAST_FALL of the decrement. */
enum { MOST_STEPS = 100, MOST_HALVES = 40 };
static const double LEAST_DECREMENT = 1e-18, LEAST_FALL = 1e-4;

/* All [d], except H [d][d]. */
typedef struct regression {
    const icl_points *points;
    double penalty;
    double *weights, *step, *trial, *gradient, *hessian;
} regression;

static size_t count_logistic(size_t dimension, size_t count, const icl_function_classes *state) {
    (void)count;
    (void)state;
    return dimension * dimension + 4 * dimension;
}

/* Returns log(1 + exp(-t)). */
static double loss_of(double t) {
    return fmax(-t, 0) + log1p(exp(-fabs(t)));
}

/* Returns F at w, of the first k pairs. */
static double objective(const regression *fitted, const double *w, size_t k) {
    double sum = 0;
    for (size_t j = 0; j < fitted->points->dimension; j++)
        sum += .5 * fitted->penalty * w[j] * w[j];
    for (size_t i = 0; i < k; i++)
        sum += loss_of(icl_points_y(fitted->points, i) * value_at(fitted->points, w, i));
    return sum;
}

/* Computes g, and the upper half of H. */
static void differentiate(const regression *fitted, size_t k) {
    const size_t d = fitted->points->dimension;

    memset(fitted->hessian, 0, d * d * sizeof *fitted->hessian);
    for (size_t j = 0; j < d; j++) {
        fitted->gradient[j] = fitted->penalty * fitted->weights[j];
        fitted->hessian[j * d + j] = fitted->penalty;
    }
    for (size_t i = 0; i < k; i++) {
        const float *x = icl_points_x(fitted->points, i);
        const double y = icl_points_y(fitted->points, i), t = y * value_at(fitted->points, fitted->weights, i);
        const double wrong = 1 / (1 + exp(fmin(t, 700))), curvature = wrong * (1 - wrong);
        for (size_t j = 0; j < d; j++) {
            fitted->gradient[j] -= wrong * y * (double)x[j];
            for (size_t l = j; l < d; l++)
                fitted->hessian[j * d + l] += curvature * (double)x[j] * (double)x[l];
        }
    }
}

/* Solves H step = g; returns the squared Newton decrement, g^T step, NaN if H is not positive. */
static double step_newton(const regression *fitted) {
    const int d = (int)fitted->points->dimension;
    double sum = 0;

    memcpy(fitted->step, fitted->gradient, (size_t)d * sizeof *fitted->step);
    if (LAPACKE_dposv_work(LAPACK_COL_MAJOR, 'L', d, 1, fitted->hessian, d, fitted->step, d) != 0)
        return (double)NAN;
    for (int j = 0; j < d; j++)
        sum += fitted->gradient[j] * fitted->step[j];
    return sum;
}

static void fit_logistic(const regression *fitted, size_t k) {
    const size_t d = fitted->points->dimension;
    double value = objective(fitted, fitted->weights, k);

    for (int steps = 0; steps < MOST_STEPS; steps++) {
        double reached = value;
        differentiate(fitted, k);
        const double decrement = step_newton(fitted);
        if (!(decrement > LEAST_DECREMENT * value))
            return;
        for (int halves = 0; halves < MOST_HALVES; halves++) {
            const double share = ldexp(1, -halves);
            for (size_t j = 0; j < d; j++)
                fitted->trial[j] = fitted->weights[j] - share * fitted->step[j];
            reached = objective(fitted, fitted->trial, k);
            if (reached <= value - LEAST_FALL * share * decrement)
                break;
        }
        if (!(reached < value))
            return;
        memcpy(fitted->weights, fitted->trial, d * sizeof *fitted->weights);
        value = reached;
    }
}

static void predict_logistic(const icl_points *points, double number, const void *shared, double *work,
                             double *outputs) {
    const size_t d = points->dimension;
    const regression fitted = {points, number, work, work + d, work + 2 * d, work + 3 * d, work + 4 * d};

    (void)shared;
    memset(fitted.weights, 0, d * sizeof *fitted.weights);
    for (size_t k = 0; k < points->count; k++) {
        if (k > 0)
            fit_logistic(&fitted, k);
        outputs[k] = value_at(points, fitted.weights, k);
    }
}

const icl_points_predictor icl_points_logistic = {
    .predict = predict_logistic, .count_work = count_logistic, .gives_logits = true};
