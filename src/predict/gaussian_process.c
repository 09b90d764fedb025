/*
 * A Gaussian process: standardized labels y ~ N(0, s^2 C), C_ij = exp(-|x_i - x_j|^2 / (2 l^2)) + g [i = j].
 *
 * Length l and noise g maximise the marginal likelihood, in which s^2 = y^T C^-1 y / m has its own maximum:
 *     log p = -m/2 log(y^T C^-1 y / m) - 1/2 log |C| + constant,
 * by a grid, and from its best point by steps in the logarithms that halve. Of more than SEARCHED rows so many, evenly
 * spread, decide, because each point costs m^3 / 3 operations. A query has mean c^T C^-1 y and variance
 * s^2 (1 + g - c^T C^-1 c), c_i = exp(-|x - x_i|^2 / (2 l^2)) (Rasmussen and Williams, "Gaussian processes for machine
 * learning", 2006, equations 2.25, 2.26 and 5.8).
 */
#include <float.h>
#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/threads.h"
#include "predict/method.h"

/* The most rows that length and noise are chosen by, and queries whose variances are solved for at once. */
enum { SEARCHED = 250, BLOCK = 64 };

/* Quantiles .75 and .9 of the standard normal distribution. */
#define NORMAL_75 0.6744897501960817
#define NORMAL_90 1.2815515655446004

/* log10 of the length over the square root of the number of features, and log10 of the noise. */
typedef struct process_logarithms {
    double length, noise;
} process_logarithms;

/* The grid, the first step away from it, half of its spacing, and the last, below which the likelihood is flat. */
static const double grid_lengths[] = {-1, -0.6, -0.2, 0.2, 0.6, 1}, grid_noises[] = {-4, -3, -2, -1, 0};
static const process_logarithms least = {-2, -7}, most = {2, 2};
static const double first_step = 0.2, last_step = 0.05;

typedef struct process_fit {
    const icl_lesson *lesson;
    double rate, noise, variance; /* 1 / (2 l^2), g, s^2 */
    double *squares;              /* [m][m], |x_i - x_j|^2 */
    double *factor;               /* [m][m], the lower triangle L of C = L L^T by columns */
    double *solved;               /* [m], C^-1 y */
} process_fit;

/* ---- The likelihood ---- */

static void fill_squares(void *context, size_t index, size_t thread) {
    const process_fit *fit = context;
    const size_t m = fit->lesson->rows, p = fit->lesson->features;
    const double *row = fit->lesson->inputs + index * p;

    (void)thread;
    for (size_t i = 0; i < m; i++) {
        const double *other = fit->lesson->inputs + i * p;
        double sum = 0;
        for (size_t k = 0; k < p; k++)
            sum += (row[k] - other[k]) * (row[k] - other[k]);
        fit->squares[index * m + i] = sum;
    }
}

static void fill_column(void *context, size_t index, size_t thread) {
    const process_fit *fit = context;
    const size_t m = fit->lesson->rows;

    (void)thread;
    for (size_t i = index; i < m; i++)
        fit->factor[index * m + i] = exp(-fit->rate * fit->squares[index * m + i]);
    fit->factor[index * m + index] += fit->noise;
}

/* Factors and solves at this point. Returns the logarithm of the likelihood; -infinity if C is singular in rounding. */
static double evaluate(process_fit *fit, process_logarithms at) {
    const int m = (int)fit->lesson->rows;
    double square = 0, determinant = 0;

    fit->rate = 0.5 / ((double)fit->lesson->features * pow(10, 2 * at.length));
    fit->noise = pow(10, at.noise);
    icl_parallel_for((size_t)m, icl_parallel_threads(), fill_column, fit);
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', m, fit->factor, m) != 0)
        return -HUGE_VAL;
    memcpy(fit->solved, fit->lesson->labels, fit->lesson->rows * sizeof *fit->solved);
    LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'L', m, 1, fit->factor, m, fit->solved, m);
    for (size_t i = 0; i < (size_t)m; i++) {
        square += fit->lesson->labels[i] * fit->solved[i];
        determinant += 2 * log(fit->factor[i * (size_t)m + i]);
    }
    fit->variance = fmax(square / m, DBL_MIN); /* labels may be all 0 */
    return -0.5 * (m * log(fit->variance) + determinant);
}

static process_logarithms search_grid(process_fit *fit, double *likelihood) {
    process_logarithms best = {grid_lengths[0], grid_noises[0]};

    *likelihood = -HUGE_VAL;
    for (size_t i = 0; i < sizeof grid_lengths / sizeof *grid_lengths; i++)
        for (size_t k = 0; k < sizeof grid_noises / sizeof *grid_noises; k++) {
            const process_logarithms at = {grid_lengths[i], grid_noises[k]};
            const double found = evaluate(fit, at);
            if (found > *likelihood) {
                *likelihood = found;
                best = at;
            }
        }
    return best;
}

/* Moves to a neighbour at this step as long as one is more likely. */
static process_logarithms climb(process_fit *fit, process_logarithms best, double step, double *likelihood) {
    bool has_moved = true;

    while (has_moved) {
        const process_logarithms from = best;
        has_moved = false;
        for (int way = 0; way < 4; way++) {
            const double length = from.length + (way == 0 ? step : way == 1 ? -step : 0);
            const double noise = from.noise + (way == 2 ? step : way == 3 ? -step : 0);
            const process_logarithms at = {fmin(fmax(length, least.length), most.length),
                                           fmin(fmax(noise, least.noise), most.noise)};
            const double found = evaluate(fit, at);
            if (found > *likelihood) {
                *likelihood = found;
                best = at;
                has_moved = true;
            }
        }
    }
    return best;
}

/* ---- The method ---- */

static void destroy(void **fitted) {
    process_fit *fit = *fitted;

    if (fit) {
        icl_free(&fit->squares);
        icl_free(&fit->factor);
        icl_free(&fit->solved);
    }
    icl_free(fitted);
}

static icl_status allocate_process(const icl_lesson *lesson, process_fit *process, icl_error *error) {
    const size_t m = lesson->rows;

    process->lesson = lesson;
    ICL_CHECK(icl_allocate(m * m, sizeof(double), "distances", &process->squares, error));
    ICL_CHECK(icl_allocate(m * m, sizeof(double), "covariance", &process->factor, error));
    ICL_CHECK(icl_allocate(m, sizeof(double), "Gaussian process", &process->solved, error));
    icl_parallel_for(m, icl_parallel_threads(), fill_squares, process);
    return ICL_OK;
}

static process_logarithms search(process_fit *process) {
    double likelihood, step = first_step;
    process_logarithms best = search_grid(process, &likelihood);

    while (step >= last_step) {
        best = climb(process, best, step, &likelihood);
        step /= 2;
    }
    return best;
}

/* Searches with some of the rows. */
static icl_status search_part(const icl_lesson *lesson, process_logarithms *best, icl_error *error) {
    const size_t p = lesson->features;
    process_fit *part = NULL;
    double *inputs = NULL, *labels = NULL;
    icl_lesson few = *lesson;
    icl_status status;

    ICL_TRY(icl_allocate(SEARCHED, p * sizeof *inputs, "Gaussian process", &inputs, error));
    ICL_TRY(icl_allocate(SEARCHED, sizeof *labels, "Gaussian process", &labels, error));
    for (size_t i = 0; i < SEARCHED; i++) {
        const size_t row = i * lesson->rows / SEARCHED;
        memcpy(inputs + i * p, lesson->inputs + row * p, p * sizeof *inputs);
        labels[i] = lesson->labels[row];
    }
    few.rows = SEARCHED;
    few.inputs = inputs;
    few.labels = labels;
    ICL_TRY(icl_allocate(1, sizeof *part, "Gaussian process", &part, error));
    ICL_TRY(allocate_process(&few, part, error));
    *best = search(part);
done:
    destroy((void **)&part);
    icl_free(&inputs);
    icl_free(&labels);
    return status;
}

static icl_status fit(const icl_lesson *lesson, void **fitted, icl_error *error) {
    process_logarithms best;
    process_fit *process = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *process, "Gaussian process", &process, error));
    *fitted = process;
    ICL_CHECK(allocate_process(lesson, process, error));
    if (lesson->rows > SEARCHED)
        ICL_CHECK(search_part(lesson, &best, error));
    else
        best = search(process);
    evaluate(process, best);
    return ICL_OK;
}

typedef struct asking {
    const process_fit *fit;
    const double *inputs;
    size_t count;
    icl_forecast *forecasts;
    double *columns; /* [threads][BLOCK][m], c of each query */
} asking;

/* Fills the column c of one query. Returns its mean. */
static double fill_query(const process_fit *fit, const double *input, double *column) {
    const icl_lesson *lesson = fit->lesson;
    double mean = 0;

    for (size_t i = 0; i < lesson->rows; i++) {
        const double *row = lesson->inputs + i * lesson->features;
        double square = 0;
        for (size_t k = 0; k < lesson->features; k++)
            square += (row[k] - input[k]) * (row[k] - input[k]);
        column[i] = exp(-fit->rate * square);
        mean += column[i] * fit->solved[i];
    }
    return mean;
}

static icl_forecast forecast_of(const process_fit *fit, double mean, const double *whitened) {
    double explained = 0, deviation;

    for (size_t i = 0; i < fit->lesson->rows; i++)
        explained += whitened[i] * whitened[i];
    deviation = sqrt(fit->variance * fmax(1 + fit->noise - explained, fit->noise));
    return (icl_forecast){mean, mean - NORMAL_90 * deviation, mean + NORMAL_90 * deviation,
                          mean - NORMAL_75 * deviation, mean + NORMAL_75 * deviation};
}

/* Answers block number `index`. */
static void ask(void *context, size_t index, size_t thread) {
    const asking *work = context;
    const process_fit *fit = work->fit;
    const size_t m = fit->lesson->rows, first = index * BLOCK, left = work->count - first;
    const size_t some = left < BLOCK ? left : BLOCK;
    double *columns = work->columns + thread * BLOCK * m, means[BLOCK];

    for (size_t i = 0; i < some; i++)
        means[i] = fill_query(fit, work->inputs + (first + i) * fit->lesson->features, columns + i * m);
    /* The columns become L^-1 c, whose squares sum to c^T C^-1 c. */
    LAPACKE_dtrtrs_work(LAPACK_COL_MAJOR, 'L', 'N', 'N', (int)m, (int)some, fit->factor, (int)m, columns, (int)m);
    for (size_t i = 0; i < some; i++)
        work->forecasts[first + i] = forecast_of(fit, means[i], columns + i * m);
}

static icl_status predict(const void *fitted, size_t count, const double *inputs, icl_forecast *forecasts,
                          icl_error *error) {
    asking work = {.fit = fitted, .inputs = inputs, .count = count, .forecasts = forecasts};
    const size_t threads = icl_parallel_threads();

    ICL_CHECK(icl_allocate(threads * BLOCK, work.fit->lesson->rows * sizeof *work.columns, "covariances of queries",
                           &work.columns, error));
    icl_parallel_for((count + BLOCK - 1) / BLOCK, threads, ask, &work);
    icl_free(&work.columns);
    return ICL_OK;
}

const icl_method_functions icl_gaussian_process_method = {"gaussian_process", false, fit, predict, destroy};
