/*
 * The mean, least squares, ridge, nearest neighbours, and a series' value before. Their leave-one-out residuals r_i
 * choose a penalty and a number of neighbours, and are their intervals: prediction -+ q, where q is the ceil(share (m +
 * 1))-th smallest |r_i| of m, the largest if there is none (the jackknife; Barber, Candes, Ramdas, Tibshirani,
 * "Predictive inference with the jackknife+", Annals of Statistics 49, 2021, section 1).
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/threads.h"
#include "numeric/statistics.h"
#include "predict/method.h"
#include "predict/predict.h"

/* ---- Intervals ---- */

typedef struct interval_margins {
    double of_50, of_80;
} interval_margins;

/* Turns residuals [count], count > 0, into margins. Sorts their magnitudes. */
static interval_margins margins_of(double *residuals, size_t count) {
    for (size_t i = 0; i < count; i++)
        residuals[i] = fabs(residuals[i]);
    icl_sort_ascending(residuals, count);
    return (interval_margins){icl_conformal_quantile(residuals, count, 1, .5),
                              icl_conformal_quantile(residuals, count, 1, .8)};
}

static icl_forecast forecast_of(double mean, const interval_margins *margins) {
    return (icl_forecast){mean, mean - margins->of_80, mean + margins->of_80, mean - margins->of_50,
                          mean + margins->of_50};
}

static void destroy(void **fitted) {
    icl_free(fitted);
}

/* ---- The mean ---- */

/* The mean of standardized labels is 0. */
typedef struct mean_fit {
    interval_margins margins;
} mean_fit;

static icl_status fit_mean(const icl_lesson *lesson, void **fitted, icl_error *error) {
    const double rows = (double)lesson->rows;
    double *residuals = NULL;
    mean_fit *fit = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(1, sizeof *fit, "mean", &fit, error));
    *fitted = fit;
    ICL_TRY(icl_allocate(lesson->rows, sizeof *residuals, "residuals", &residuals, error));
    /* Without row i the mean of the others is -y_i / (m - 1). */
    for (size_t i = 0; i < lesson->rows; i++)
        residuals[i] = lesson->rows > 1 ? lesson->labels[i] * rows / (rows - 1) : 0;
    fit->margins = margins_of(residuals, lesson->rows);
done:
    icl_free(&residuals);
    return status;
}

static icl_status predict_mean(const void *fitted, size_t count, const double *inputs, icl_forecast *forecasts,
                               icl_error *error) {
    const mean_fit *fit = fitted;

    (void)inputs;
    (void)error;
    for (size_t i = 0; i < count; i++)
        forecasts[i] = forecast_of(0, &fit->margins);
    return ICL_OK;
}

const icl_method_functions icl_mean_method = {"mean", true, fit_mean, predict_mean, destroy};

/* ---- Least squares and ridge ---- */

typedef struct line_fit {
    interval_margins margins;
    size_t features;
    double weights[]; /* [features] */
} line_fit;

/* Returns the index of the penalty of the least leave-one-out error. `rotated` is scratch [features]. */
static size_t choose_penalty(const icl_lesson *lesson, double *rotated) {
    const icl_standardization *z = lesson->standardization;
    double squares[ICL_RIDGE_PENALTIES] = {0};
    size_t best = 0;

    for (size_t i = 0; i < lesson->rows; i++) {
        icl_rotate_row(z, lesson->inputs + i * lesson->features, rotated);
        for (size_t k = 0; k < ICL_RIDGE_PENALTIES; k++) {
            const double residual =
                icl_left_out_residual(z, rotated, lesson->labels[i], icl_ridge_penalty(k, lesson->rows));
            squares[k] += residual * residual;
        }
    }
    for (size_t k = 1; k < ICL_RIDGE_PENALTIES; k++)
        if (squares[k] < squares[best])
            best = k;
    return best;
}

/* Fits a line with the penalty given, or if that is below 0 with the one chosen. */
static icl_status fit_line(const icl_lesson *lesson, double penalty, void **fitted, icl_error *error) {
    const icl_standardization *z = lesson->standardization;
    const size_t p = lesson->features;
    double *rotated = NULL, *residuals = NULL;
    line_fit *fit = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(1, sizeof *fit + p * sizeof *fit->weights, "line", &fit, error));
    *fitted = fit;
    ICL_TRY(icl_allocate(p, sizeof *rotated, "row", &rotated, error));
    ICL_TRY(icl_allocate(lesson->rows, sizeof *residuals, "residuals", &residuals, error));
    if (penalty < 0)
        penalty = icl_ridge_penalty(choose_penalty(lesson, rotated), lesson->rows);
    for (size_t i = 0; i < lesson->rows; i++) {
        icl_rotate_row(z, lesson->inputs + i * p, rotated);
        residuals[i] = icl_left_out_residual(z, rotated, lesson->labels[i], penalty);
    }
    fit->margins = margins_of(residuals, lesson->rows);
    fit->features = p;
    for (size_t k = 0; k < p; k++)
        for (size_t j = 0; z->eigenvalues[k] + penalty > 0 && j < p; j++)
            fit->weights[j] += z->products[k] / (z->eigenvalues[k] + penalty) * z->eigenvectors[k * p + j];
done:
    icl_free(&rotated);
    icl_free(&residuals);
    return status;
}

static icl_status fit_ols(const icl_lesson *lesson, void **fitted, icl_error *error) {
    return fit_line(lesson, 0, fitted, error);
}

static icl_status fit_ridge(const icl_lesson *lesson, void **fitted, icl_error *error) {
    return fit_line(lesson, -1, fitted, error);
}

static icl_status predict_line(const void *fitted, size_t count, const double *inputs, icl_forecast *forecasts,
                               icl_error *error) {
    const line_fit *fit = fitted;

    (void)error;
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (size_t k = 0; k < fit->features; k++)
            sum += fit->weights[k] * inputs[i * fit->features + k];
        forecasts[i] = forecast_of(sum, &fit->margins);
    }
    return ICL_OK;
}

const icl_method_functions icl_ols_method = {"ols", true, fit_ols, predict_line, destroy};
const icl_method_functions icl_ridge_method = {"ridge", true, fit_ridge, predict_line, destroy};

/* ---- A series' value before ---- */

/* The value is a feature. The standardized forecast of a target, which is the value in the target's units, is shift +
 * scale times the standardized feature. Nothing is learned, so residuals are errors. */
typedef struct value_fit {
    interval_margins margins;
    size_t features, column;
    double shift, scale;
} value_fit;

static icl_status fit_value(const icl_lesson *lesson, size_t column, void **fitted, icl_error *error) {
    const icl_standardization *z = lesson->standardization;
    const size_t p = lesson->features;
    double *residuals = NULL;
    value_fit *fit = NULL;
    icl_status status;

    ICL_TRY(icl_allocate(1, sizeof *fit, "value before", &fit, error));
    *fitted = fit;
    ICL_TRY(icl_allocate(lesson->rows, sizeof *residuals, "residuals", &residuals, error));
    fit->features = p;
    fit->column = column;
    fit->shift = icl_standardize_target(z, z->means[column]);
    fit->scale = z->deviations[p] > 0 ? z->deviations[column] / z->deviations[p] : 0;
    for (size_t i = 0; i < lesson->rows; i++)
        residuals[i] = lesson->labels[i] - fit->shift - fit->scale * lesson->inputs[i * p + column];
    fit->margins = margins_of(residuals, lesson->rows);
done:
    icl_free(&residuals);
    return status;
}

static icl_status fit_last_value(const icl_lesson *lesson, void **fitted, icl_error *error) {
    return fit_value(lesson, 0, fitted, error);
}

static icl_status fit_last_season(const icl_lesson *lesson, void **fitted, icl_error *error) {
    return fit_value(lesson, icl_season_feature(&lesson->series), fitted, error);
}

static icl_status predict_value(const void *fitted, size_t count, const double *inputs, icl_forecast *forecasts,
                                icl_error *error) {
    const value_fit *fit = fitted;

    (void)error;
    for (size_t i = 0; i < count; i++)
        forecasts[i] = forecast_of(fit->shift + fit->scale * inputs[i * fit->features + fit->column], &fit->margins);
    return ICL_OK;
}

const icl_method_functions icl_last_value_method = {"last_value", true, fit_last_value, predict_value, destroy};
const icl_method_functions icl_last_season_method = {"last_season", true, fit_last_season, predict_value, destroy};

/* ---- Neighbours ---- */

/* The most neighbours. */
enum { MOST_NEIGHBOURS = 30 };

typedef struct neighbours_fit {
    interval_margins margins;
    const icl_lesson *lesson;
    size_t neighbours; /* k */
} neighbours_fit;

/* The nearest rows so far, in the order of their distances; of equal ones the earlier row first. */
typedef struct nearest_rows {
    size_t count;
    double distances[MOST_NEIGHBOURS], labels[MOST_NEIGHBOURS];
} nearest_rows;

static void insert(nearest_rows *nearest, size_t most, double distance, double label) {
    size_t place = nearest->count;

    if (place == most && !(distance < nearest->distances[most - 1]))
        return;
    if (place == most)
        place--;
    for (; place > 0 && distance < nearest->distances[place - 1]; place--) {
        nearest->distances[place] = nearest->distances[place - 1];
        nearest->labels[place] = nearest->labels[place - 1];
    }
    nearest->distances[place] = distance;
    nearest->labels[place] = label;
    nearest->count += nearest->count < most;
}

/* Finds the rows nearest to an input, without row number `left_out`. */
static void find_nearest(const icl_lesson *lesson, const double *input, size_t left_out, size_t most,
                         nearest_rows *nearest) {
    nearest->count = 0;
    for (size_t i = 0; i < lesson->rows; i++) {
        const double *row = lesson->inputs + i * lesson->features;
        double distance = 0;
        for (size_t k = 0; k < lesson->features; k++)
            distance += (row[k] - input[k]) * (row[k] - input[k]);
        if (i != left_out)
            insert(nearest, most, distance, lesson->labels[i]);
    }
}

typedef struct leaving_out {
    const icl_lesson *lesson;
    double *residuals; /* [rows][MOST_NEIGHBOURS], by row and number of neighbours less 1 */
} leaving_out;

static void leave_out(void *context, size_t index, size_t thread) {
    const leaving_out *work = context;
    nearest_rows nearest;
    double sum = 0;

    (void)thread;
    find_nearest(work->lesson, work->lesson->inputs + index * work->lesson->features, index, MOST_NEIGHBOURS, &nearest);
    for (size_t k = 0; k < nearest.count; k++) {
        sum += nearest.labels[k];
        work->residuals[index * MOST_NEIGHBOURS + k] = work->lesson->labels[index] - sum / (double)(k + 1);
    }
}

/* Returns the number of neighbours, up to `most`, of the least leave-one-out error. */
static size_t choose_neighbours(const double *residuals, size_t rows, size_t most) {
    double least = HUGE_VAL;
    size_t best = 1;

    for (size_t k = 1; k <= most; k++) {
        double squares = 0;
        for (size_t i = 0; i < rows; i++)
            squares += residuals[i * MOST_NEIGHBOURS + k - 1] * residuals[i * MOST_NEIGHBOURS + k - 1];
        best = squares < least ? k : best;
        least = fmin(squares, least);
    }
    return best;
}

static icl_status fit_neighbours(const icl_lesson *lesson, void **fitted, icl_error *error) {
    const size_t rows = lesson->rows, most = rows > MOST_NEIGHBOURS ? MOST_NEIGHBOURS : rows - 1;
    neighbours_fit *fit = NULL;
    leaving_out work = {.lesson = lesson};
    icl_status status;

    ICL_TRY(icl_allocate(1, sizeof *fit, "neighbours", &fit, error));
    *fitted = fit;
    ICL_TRY(icl_allocate(rows, MOST_NEIGHBOURS * sizeof *work.residuals, "residuals", &work.residuals, error));
    icl_parallel_for(rows, icl_parallel_threads(), leave_out, &work);
    fit->lesson = lesson;
    fit->neighbours = choose_neighbours(work.residuals, rows, most);
    for (size_t i = 0; i < rows; i++)
        work.residuals[i] = work.residuals[i * MOST_NEIGHBOURS + fit->neighbours - 1];
    fit->margins = margins_of(work.residuals, rows);
done:
    icl_free(&work.residuals);
    return status;
}

typedef struct asking {
    const neighbours_fit *fit;
    const double *inputs;
    icl_forecast *forecasts;
} asking;

static void ask(void *context, size_t index, size_t thread) {
    const asking *work = context;
    const neighbours_fit *fit = work->fit;
    nearest_rows nearest;
    double sum = 0;

    (void)thread;
    find_nearest(fit->lesson, work->inputs + index * fit->lesson->features, SIZE_MAX, fit->neighbours, &nearest);
    for (size_t k = 0; k < nearest.count; k++)
        sum += nearest.labels[k];
    work->forecasts[index] = forecast_of(sum / (double)nearest.count, &fit->margins);
}

static icl_status predict_neighbours(const void *fitted, size_t count, const double *inputs, icl_forecast *forecasts,
                                     icl_error *error) {
    asking work = {fitted, inputs, forecasts};

    (void)error;
    icl_parallel_for(count, icl_parallel_threads(), ask, &work);
    return ICL_OK;
}

const icl_method_functions icl_neighbours_method = {"neighbours", false, fit_neighbours, predict_neighbours, destroy};
