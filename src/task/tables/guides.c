/*
 * What a model sees of a table: features and labels centred and scaled by the labelled rows, and guides, simple
 * regressions on these whose predictions stand beside the features.
 *
 * For a labelled row a guide leaves the row's own label out, by the formulas that need no second fit: with the hat
 * matrix H of a ridge regression the error is r_i / (1 - H_ii), and with the matrix K of a Gaussian process it is
 * (K^-1 y)_i / (K^-1)_ii, with variance 1 / (K^-1)_ii (Rasmussen and Williams 2006, section 5.4.2). So a model sees for
 * each guide how well it would have predicted the labels. What a guide may choose, penalty, length or noise, it chooses
 * by the least sum of squares of these errors; d features vary among the labelled rows.
 *
 *     ridge        penalties 0.1, 1, 10, 100; H has 1 / n more for the mean
 *     neighbours   the mean label of the nearest 5 rows
 *     smooth       kernel (1 + |x - x'|^2 / (4 l^2))^-2, l^2 = d (1/4, 1, 4), noise 0.03 or 0.3
 *     rough        kernel (1 + |x - x'|_1 / l)^-1, l = d (1/2, 2, 8), noise 0.03 or 0.3, whose functions have steps
 *
 * The kernels are mixtures over lengths of exp(-|x - x'|^2 / (2 s^2)), the rational quadratic one, and of
 * exp(-|x - x'|_1 / s), to which a forest of random cuts leads (Lakshminarayanan, Roy, Teh 2014); they need no
 * exponentials, of which there would be most of the work.
 *
 * A guide's standard deviation is the root of the mean square of its errors, for a Gaussian process the one of the row
 * times a factor that makes the errors over theirs have mean square 1.
 */
#include <math.h>
#include <string.h>

#include "task/tables/tables.h"

enum { NEAREST = 5, PENALTIES = 4, LENGTHS = 3, NOISES = 2 };

#define MOST_SHOWN      8.0
#define LEAST_DEVIATION 0.005

static const double penalties[PENALTIES] = {0.1, 1, 10, 100}, noises[NOISES] = {0.03, 0.3};
static const double smooth_lengths[LENGTHS] = {0.25, 1, 4}, rough_lengths[LENGTHS] = {0.5, 2, 8};

/* ---- Matrices ---- */

void icl_table_factor(size_t n, double *a, double *column) {
    for (size_t k = 0; k < n; k++) {
        const double pivot = sqrt(fmax(a[k * n + k], 1e-12));
        a[k * n + k] = pivot;
        for (size_t i = k + 1; i < n; i++)
            column[i] = a[i * n + k] /= pivot;
        for (size_t i = k + 1; i < n; i++) {
            const double factor = column[i];
            double *row = a + i * n;
            for (size_t j = k + 1; j <= i; j++)
                row[j] -= factor * column[j];
        }
    }
}

/* Writes the inverse of L [n][n], lower triangular with zeros above: row i is (e_i - sum_(k < i) L_ik row_k) / L_ii. */
static void invert(size_t n, const double *root, double *inverse) {
    for (size_t i = 0; i < n; i++) {
        double *row = inverse + i * n;
        memset(row, 0, n * sizeof *row);
        for (size_t k = 0; k < i; k++)
            for (size_t j = 0; j <= k; j++)
                row[j] -= root[i * n + k] * inverse[k * n + j];
        for (size_t j = 0; j < i; j++)
            row[j] /= root[i * n + i];
        row[i] = 1 / root[i * n + i];
    }
}

/* ---- The workspace ---- */

/* A table as it is shown, c labelled rows of T, and what guides compute. */
typedef struct workspace {
    size_t rows, labelled, features; /* T, c, d */
    double *z, *y;                   /* [T][d], [c] */
    double *distances[2];            /* [T][c], of squares and of absolute values */
    double *matrix, *inverse;        /* [c or d] squared */
    double *vector, *column;         /* [the larger of c and d] */
    double *errors, *deviations;     /* [c], of left-out labels */
    double *predictions, *spreads;   /* [T], of the guide */
} workspace;

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

size_t icl_table_show_work(size_t rows, size_t labelled, size_t features) {
    const size_t side = larger(labelled, features);
    return rows * features + 2 * rows * labelled + 2 * side * side + 2 * side + 3 * labelled + 2 * rows;
}

static workspace divide(const icl_table_shown *table, double *work) {
    const size_t side = larger(table->labelled, table->features);
    workspace w = {.rows = table->rows, .labelled = table->labelled, .features = table->features, .z = work};

    w.y = w.z + w.rows * w.features;
    w.errors = w.y + w.labelled;
    w.deviations = w.errors + w.labelled;
    w.predictions = w.deviations + w.labelled;
    w.spreads = w.predictions + w.rows;
    w.vector = w.spreads + w.rows;
    w.column = w.vector + side;
    w.distances[0] = w.column + side;
    w.distances[1] = w.distances[0] + w.rows * w.labelled;
    w.matrix = w.distances[1] + w.rows * w.labelled;
    w.inverse = w.matrix + side * side;
    return w;
}

/* ---- Centres and scales ---- */

/* Sets centre and scale of the known among `count` values, a step apart. */
static void measure(size_t count, size_t step, const double *values, double *centre, double *scale) {
    double sum = 0, square = 0, known = 0;

    for (size_t i = 0; i < count; i++) {
        const bool is_known = !isnan(values[i * step]);
        sum += is_known ? values[i * step] : 0;
        known += is_known;
    }
    *centre = known > 0 ? sum / known : 0;
    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i * step]))
            square += (values[i * step] - *centre) * (values[i * step] - *centre);
    *scale = known > 0 ? sqrt(square / known) : 0;
    if (*scale <= 1e-9 * fabs(*centre))
        *scale = 0;
}

static void standardize(const icl_table_shown *table, icl_table_scale *scale, workspace *w) {
    const size_t d = table->features;

    for (size_t j = 0; j < d; j++) {
        measure(table->labelled, d, table->x + j, &scale->centres[j], &scale->scales[j]);
        for (size_t i = 0; i < table->rows; i++) {
            const double x = table->x[i * d + j];
            const bool is_shown = !isnan(x) && scale->scales[j] > 0;
            const double z = is_shown ? (x - scale->centres[j]) / scale->scales[j] : 0;
            w->z[i * d + j] = fmin(fmax(z, -MOST_SHOWN), MOST_SHOWN);
        }
    }
    measure(table->labelled, 1, table->targets, &scale->target_centre, &scale->target_scale);
    for (size_t i = 0; i < table->labelled; i++)
        w->y[i] = scale->target_scale > 0 ? (table->targets[i] - scale->target_centre) / scale->target_scale : 0;
}

static void measure_distances(workspace *w) {
    const size_t d = w->features, c = w->labelled;

    for (size_t i = 0; i < w->rows; i++)
        for (size_t k = 0; k < c; k++) {
            double square = 0, absolute = 0;
            for (size_t j = 0; j < d; j++) {
                const double step = w->z[i * d + j] - w->z[k * d + j];
                square += step * step;
                absolute += fabs(step);
            }
            w->distances[0][i * c + k] = square;
            w->distances[1][i * c + k] = absolute;
        }
}

/* ---- Ridge regression ---- */

static double mean_square(const double *values, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += values[i] * values[i];
    return sum / (double)count;
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Fits coefficients w->vector [d], and errors of left-out labels, of which it returns the mean square. */
static double fit_ridge(workspace *w, double penalty) {
    const size_t d = w->features, c = w->labelled;
    double *a = w->matrix;

    memset(a, 0, d * d * sizeof *a);
    memset(w->vector, 0, d * sizeof *w->vector);
    for (size_t i = 0; i < c; i++)
        for (size_t j = 0; j < d; j++) {
            w->vector[j] += w->z[i * d + j] * w->y[i];
            for (size_t k = 0; k <= j; k++)
                a[j * d + k] += w->z[i * d + j] * w->z[i * d + k];
        }
    for (size_t j = 0; j < d; j++)
        a[j * d + j] += penalty;
    icl_table_factor(d, a, w->column);
    invert(d, a, w->inverse);
    for (size_t j = 0; j < d; j++) /* L^-1 Z^T y, then L^-T of it */
        w->column[j] = dot(w->inverse + j * d, w->vector, d);
    for (size_t j = 0; j < d; j++) {
        w->vector[j] = 0;
        for (size_t k = j; k < d; k++)
            w->vector[j] += w->inverse[k * d + j] * w->column[k];
    }
    for (size_t i = 0; i < c; i++) {
        double hat = 1 / (double)c;
        for (size_t j = 0; j < d; j++) {
            const double share = dot(w->inverse + j * d, w->z + i * d, j + 1);
            hat += share * share;
        }
        w->errors[i] = (w->y[i] - dot(w->z + i * d, w->vector, d)) / fmax(1 - hat, 1e-3);
    }
    return mean_square(w->errors, c);
}

static void guide_by_ridge(workspace *w) {
    size_t best = 0;
    double least = HUGE_VAL;

    for (size_t k = 0; k < PENALTIES; k++) {
        const double loss = fit_ridge(w, penalties[k]);
        if (loss < least) {
            least = loss;
            best = k;
        }
    }
    const double spread = sqrt(fit_ridge(w, penalties[best]));
    for (size_t i = 0; i < w->rows; i++) {
        const bool is_known = i < w->labelled;
        w->predictions[i] = is_known ? w->y[i] - w->errors[i] : dot(w->z + i * w->features, w->vector, w->features);
        w->spreads[i] = spread;
    }
}

/* ---- Neighbours ---- */

/* Returns the mean label of the nearest rows to row i, without its own; the first of equal distances. */
static double mean_of_nearest(const workspace *w, size_t i) {
    const double *distance = w->distances[0] + i * w->labelled;
    size_t nearest[NEAREST], count = 0;
    double sum = 0;

    for (size_t k = 0; k < w->labelled; k++) {
        size_t place = count;
        if (k == i)
            continue;
        while (place > 0 && distance[k] < distance[nearest[place - 1]])
            place--;
        if (place == NEAREST)
            continue;
        count += count < NEAREST;
        for (size_t other = count - 1; other > place; other--)
            nearest[other] = nearest[other - 1];
        nearest[place] = k;
    }
    for (size_t k = 0; k < count; k++)
        sum += w->y[nearest[k]];
    return count > 0 ? sum / (double)count : 0;
}

static void guide_by_neighbours(workspace *w) {
    for (size_t i = 0; i < w->rows; i++) {
        w->predictions[i] = mean_of_nearest(w, i);
        if (i < w->labelled)
            w->errors[i] = w->y[i] - w->predictions[i];
    }
    const double spread = sqrt(mean_square(w->errors, w->labelled));
    for (size_t i = 0; i < w->rows; i++)
        w->spreads[i] = spread;
}

/* ---- Gaussian processes ---- */

typedef struct process {
    const double *distances; /* [T][c] */
    double rate, noise;
    bool squared; /* the kernel is (1 + rate distance)^-1, or the square of this */
} process;

static double kernel_of(const process *law, double distance) {
    const double root = 1 / (1 + law->rate * distance);
    return law->squared ? root * root : root;
}

/* Fits w->inverse = L^-1 and w->vector = K^-1 y [c], and the errors of left-out labels with their deviations. Returns
 * the mean square of the errors. */
static double fit_process(workspace *w, const process *law) {
    const size_t c = w->labelled;

    for (size_t i = 0; i < c; i++) {
        for (size_t k = 0; k < i; k++)
            w->matrix[i * c + k] = kernel_of(law, law->distances[i * c + k]);
        w->matrix[i * c + i] = 1 + law->noise;
    }
    icl_table_factor(c, w->matrix, w->column);
    invert(c, w->matrix, w->inverse);
    memset(w->vector, 0, c * sizeof *w->vector);
    memset(w->deviations, 0, c * sizeof *w->deviations);
    for (size_t k = 0; k < c; k++) {
        const double *row = w->inverse + k * c, half = dot(row, w->y, k + 1);
        for (size_t i = 0; i <= k; i++) {
            w->vector[i] += row[i] * half;
            w->deviations[i] += row[i] * row[i];
        }
    }
    for (size_t i = 0; i < c; i++) {
        w->errors[i] = w->vector[i] / w->deviations[i];
        w->deviations[i] = sqrt(1 / w->deviations[i]);
    }
    return mean_square(w->errors, c);
}

/* Predicts rows without a label by the process that was fitted last; `factor` multiplies its deviations. */
static void predict_process(workspace *w, const process *law, double factor) {
    const size_t c = w->labelled;
    double *kernel = w->column;

    for (size_t i = c; i < w->rows; i++) {
        double variance = 1 + law->noise;
        for (size_t k = 0; k < c; k++)
            kernel[k] = kernel_of(law, law->distances[i * c + k]);
        for (size_t k = 0; k < c; k++) {
            const double share = dot(w->inverse + k * c, kernel, k + 1);
            variance -= share * share;
        }
        w->predictions[i] = dot(kernel, w->vector, c);
        w->spreads[i] = factor * sqrt(fmax(variance, law->noise));
    }
}

static void guide_by_process(workspace *w, bool squared, const double *rates) {
    const double *distances = w->distances[squared ? 0 : 1];
    process best = {0};
    double least = HUGE_VAL, sum = 0;

    for (size_t k = 0; k < LENGTHS * NOISES; k++) {
        const process law = {distances, rates[k / NOISES], noises[k % NOISES], squared};
        const double loss = fit_process(w, &law);
        if (loss < least) {
            least = loss;
            best = law;
        }
    }
    fit_process(w, &best);
    for (size_t i = 0; i < w->labelled; i++)
        sum += w->errors[i] * w->errors[i] / (w->deviations[i] * w->deviations[i]);
    const double factor = sqrt(sum / (double)w->labelled);
    for (size_t i = 0; i < w->labelled; i++) {
        w->predictions[i] = w->y[i] - w->errors[i];
        w->spreads[i] = factor * w->deviations[i];
    }
    predict_process(w, &best, factor);
}

/* ---- The inputs ---- */

/* Computes a guide; d features have a scale. */
static void guide(icl_table_guide kind, double d, workspace *w) {
    double rates[LENGTHS];

    for (size_t k = 0; k < LENGTHS; k++)
        rates[k] = kind == ICL_GUIDE_SMOOTH ? 1 / (4 * d * smooth_lengths[k]) : 1 / (d * rough_lengths[k]);
    if (kind == ICL_GUIDE_RIDGE)
        guide_by_ridge(w);
    else if (kind == ICL_GUIDE_NEIGHBOURS)
        guide_by_neighbours(w);
    else
        guide_by_process(w, kind == ICL_GUIDE_SMOOTH, rates);
}

void icl_table_show(icl_table_view view, const icl_table_shown *table, icl_table_scale *scale, double *work,
                    float *inputs) {
    const size_t p = icl_table_inputs(view), d = table->features;
    workspace w = divide(table, work);
    size_t varying = 0;

    standardize(table, scale, &w);
    for (size_t j = 0; j < d; j++)
        varying += scale->scales[j] > 0;
    for (size_t i = 0; i < table->rows; i++) {
        float *row = inputs + i * p;
        memset(row, 0, p * sizeof *row);
        for (size_t j = 0; j < d; j++)
            row[table->places[j]] = (float)w.z[i * d + j];
        if (i < table->labelled) {
            row[p - 2] = (float)w.y[i];
            row[p - 1] = 1;
        }
    }
    if (!view.guides)
        return;
    measure_distances(&w);
    for (size_t k = 0; k < ICL_GUIDES; k++) {
        guide((icl_table_guide)k, fmax((double)varying, 1), &w);
        for (size_t i = 0; i < table->rows; i++) {
            float *shown = inputs + i * p + view.columns + 2 * k;
            shown[0] = (float)fmin(fmax(w.predictions[i], -MOST_SHOWN), MOST_SHOWN);
            shown[1] = (float)fmin(fmax(w.spreads[i], LEAST_DEVIATION), MOST_SHOWN);
        }
    }
}
