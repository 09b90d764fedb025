/*
 * Least squares, ridge regression and the lasso at every position, from the running sums S = X^T X and b = X^T y.
 *
 * With the eigenvectors v of S: w = sum_v (v . b) / (lambda_v + penalty) v; without a penalty over those with
 * lambda_v > 0, which is the solution of least norm. The lasso by cyclic coordinate descent (Friedman, Hastie,
 * Tibshirani 2010, section 2.1), each position from the solution of the one before:
 *
 *     w_j <- soft(b_j / k - sum_(i != j) S_ji w_i / k, A) / (S_jj / k),   soft(u, A) = sign(u) max(0, |u| - A)
 */
#include <math.h>
#include <string.h>

#include "numeric/eigen.h"
#include "task/function_classes/predictors.h"

/* Below this share of the largest an eigenvalue is rounding: sums of k squares are exact to k 2^-53. */
static const double SMALLEST_SHARE = 1e-12;

/* Of the lasso: sweeps at most, and the largest move of a weight, as a share of the largest weight, that ends them. */
enum { MOST_SWEEPS = 1000 };
static const double LEAST_MOVE = 1e-6;

/* All [d] or [d][d]. */
typedef struct sums {
    size_t dimension;
    double *squares, *products; /* S, b */
    double *weights, *x;
    double *matrix, *vectors, *eigenvalues, *scratch; /* of the eigen-decomposition */
} sums;

static size_t count_work(size_t dimension, size_t count, const icl_function_classes *is) {
    (void)count;
    (void)is;
    return 3 * dimension * dimension + 7 * dimension;
}

static sums start(const icl_points *points, double *work) {
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

static double dot(const double *a, const double *b, size_t d) {
    double sum = 0;
    for (size_t i = 0; i < d; i++)
        sum += a[i] * b[i];
    return sum;
}

/* NaN where the iteration does not converge, as on numbers that are not finite. */
static void solve(sums *s, double penalty) {
    const size_t d = s->dimension;

    memcpy(s->matrix, s->squares, d * d * sizeof *s->matrix);
    const bool solved = icl_symmetric_eigen(d, s->matrix, s->eigenvalues, s->vectors, s->scratch);
    for (size_t j = 0; j < d; j++)
        s->weights[j] = solved ? 0 : (double)NAN;
    for (size_t r = 0; r < d && solved; r++) {
        const double *v = s->vectors + r * d, lambda = fmax(0, s->eigenvalues[r]);
        const bool is_kept = penalty > 0 || lambda > SMALLEST_SHARE * s->eigenvalues[d - 1];
        const double share = is_kept ? dot(v, s->products, d) / (lambda + penalty) : 0;
        for (size_t j = 0; j < d; j++)
            s->weights[j] += share * v[j];
    }
}

static void regress(const icl_points *points, double penalty, bool is_squared, double *work, double *outputs) {
    sums s = start(points, work);

    for (size_t k = 0; k < points->count; k++) {
        read_x(points, k, is_squared, s.x);
        if (k > 0)
            solve(&s, penalty);
        outputs[k] = k > 0 ? dot(s.weights, s.x, s.dimension) : 0;
        if (k + 1 < points->count)
            add_pair(&s, icl_points_y(points, k));
    }
}

/* number 1: with the penalty; 0: without. */
static void predict_ridge(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    const double scale = points->is->law.scale,
                 variance = icl_noise_law_variance(&points->is->labels.noise, points->sigma);
    (void)shared;
    regress(points, number > 0 ? variance / (scale * scale) : 0, false, work, outputs);
}

static void predict_squares(const icl_points *points, double number, const void *shared, double *work,
                            double *outputs) {
    (void)number;
    (void)shared;
    regress(points, 0, true, work, outputs);
}

const icl_points_predictor icl_points_ridge = {.predict = predict_ridge, .count_work = count_work};
const icl_points_predictor icl_points_squares = {.predict = predict_squares, .count_work = count_work};

/* ---- The lasso ---- */

/* One round over the weights; returns the largest move as a share of the largest weight. */
static double sweep(sums *s, double count, double penalty) {
    const size_t d = s->dimension;
    double move = 0, largest = 0;

    for (size_t j = 0; j < d; j++) {
        const double *row = s->squares + j * d, own = row[j];
        const double rest = s->products[j] - dot(row, s->weights, d) + own * s->weights[j];
        const double kept = fmax(0, fabs(rest) - penalty * count);
        const double weight = own > 0 ? copysign(kept, rest) / own : 0;
        move = fmax(move, fabs(weight - s->weights[j]));
        largest = fmax(largest, fabs(weight));
        s->weights[j] = weight;
    }
    return largest > 0 ? move / largest : move;
}

static void predict_lasso(const icl_points *points, double number, const void *shared, double *work, double *outputs) {
    sums s = start(points, work);

    (void)shared;
    for (size_t k = 0; k < points->count; k++) {
        read_x(points, k, false, s.x);
        for (int sweeps = 0; k > 0 && sweeps < MOST_SWEEPS; sweeps++)
            if (!(sweep(&s, (double)k, number) > LEAST_MOVE))
                break;
        outputs[k] = k > 0 ? dot(s.weights, s.x, s.dimension) : 0;
        if (k + 1 < points->count)
            add_pair(&s, icl_points_y(points, k));
    }
}

const icl_points_predictor icl_points_lasso = {.predict = predict_lasso, .count_work = count_work};
