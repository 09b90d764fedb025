#include "baseline/estimator.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "core/threads.h"

#define PIECE ((size_t)128)

/* The sum of squares with its normal equations: distance, J^T r (p), J^T J (p x p, lower triangle). */
typedef struct normal_equations {
    double distance;
    double gradient[ICL_MAX_COEFFICIENTS];
    double matrix[ICL_MAX_COEFFICIENTS * ICL_MAX_COEFFICIENTS];
} normal_equations;

typedef struct evaluation {
    const icl_filter_fit *fit;
    const icl_fit_set *set;
    const double *coefficients;
    normal_equations *pieces;
} evaluation;

static void add_residual(normal_equations *sums, size_t count, double residual, const double *derivatives) {
    sums->distance += residual * residual;
    for (size_t i = 0; i < count; i++) {
        sums->gradient[i] += derivatives[i] * residual;
        for (size_t j = 0; j <= i; j++)
            sums->matrix[i * count + j] += derivatives[i] * derivatives[j];
    }
}

static void sum_piece(void *context, size_t piece, size_t thread) {
    const evaluation *result = context;
    const icl_fit_set *set = result->set;
    const size_t d = set->dimension, count = result->fit->coefficient_count, start = piece * PIECE;
    const size_t end = start + PIECE < result->fit->sequences ? start + PIECE : result->fit->sequences;
    normal_equations *sums = &result->pieces[piece];
    double derivatives[ICL_MAX_COEFFICIENTS], total[ICL_MAX_COEFFICIENTS];

    (void)thread;
    memset(sums, 0, sizeof *sums);
    for (size_t s = start; s < end; s++) {
        double sum = 0;
        memset(total, 0, count * sizeof *total);
        for (size_t k = s * d; k < (s + 1) * d; k++) {
            const double value =
                result->fit->model(result->fit->shape, result->coefficients, set->eigenvalues[k], derivatives);
            const double residual = set->factors[k] * value - set->targets[k];
            for (size_t i = 0; i < count; i++)
                derivatives[i] *= set->factors[k];
            if (!set->summed) {
                add_residual(sums, count, residual, derivatives);
            } else {
                sum += residual;
                for (size_t i = 0; i < count; i++)
                    total[i] += derivatives[i];
            }
        }
        if (set->summed)
            add_residual(sums, count, sum, total);
    }
}

static void evaluate(evaluation *result, const double *coefficients, normal_equations *sums) {
    const size_t count = result->fit->coefficient_count, pieces = (result->fit->sequences + PIECE - 1) / PIECE;

    result->coefficients = coefficients;
    icl_parallel_for(pieces, result->set->threads, sum_piece, result);
    memset(sums, 0, sizeof *sums);
    for (size_t piece = 0; piece < pieces; piece++) {
        const normal_equations *part = &result->pieces[piece];
        sums->distance += part->distance;
        for (size_t i = 0; i < count; i++)
            sums->gradient[i] += part->gradient[i];
        for (size_t i = 0; i < count * count; i++)
            sums->matrix[i] += part->matrix[i];
    }
}

/* step = -(J^T J + damping diag(J^T J))^-1 J^T r; false if the matrix is not positive definite. */
static bool solve_step(const normal_equations *sums, size_t count, double damping, double *step) {
    double matrix[ICL_MAX_COEFFICIENTS * ICL_MAX_COEFFICIENTS];

    memcpy(matrix, sums->matrix, count * count * sizeof(double));
    for (size_t i = 0; i < count; i++) {
        matrix[i * count + i] += damping * sums->matrix[i * count + i] + 1e-300;
        step[i] = -sums->gradient[i];
    }
    /* A lower triangle in row-major order is an upper one in column-major order. */
    if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (int)count, matrix, (int)count) != 0)
        return false;
    return LAPACKE_dpotrs_work(LAPACK_COL_MAJOR, 'U', (int)count, 1, matrix, (int)count, step, (int)count) == 0;
}

static void descend(evaluation *result, double *coefficients, normal_equations *sums) {
    const size_t count = result->fit->coefficient_count;
    double damping = 1e-2, step[ICL_MAX_COEFFICIENTS], trial[ICL_MAX_COEFFICIENTS];
    normal_equations trial_sums;

    evaluate(result, coefficients, sums);
    for (size_t i = 0; i < result->fit->iterations && damping < 1e12 && isfinite(sums->distance); i++) {
        double gain;
        if (!solve_step(sums, count, damping, step)) {
            damping *= 10;
            continue;
        }
        for (size_t k = 0; k < count; k++)
            trial[k] = coefficients[k] + step[k];
        evaluate(result, trial, &trial_sums);
        gain = sums->distance - trial_sums.distance;
        if (!(gain >= 0)) {
            damping *= 5;
            continue;
        }
        memcpy(coefficients, trial, count * sizeof(double));
        memcpy(sums, &trial_sums, sizeof *sums);
        damping = fmax(damping / 5, 1e-12);
        if (gain <= 1e-10 * sums->distance)
            break;
    }
}

icl_status icl_filter_minimize(const icl_filter_fit *fit, const icl_fit_set *set, double *coefficients,
                               double *distance, icl_error *error) {
    evaluation all = {.fit = fit, .set = set};
    normal_equations sums;
    icl_status status;

    ICL_TRY(icl_allocate((fit->sequences + PIECE - 1) / PIECE, sizeof(normal_equations), "normal equations",
                         &all.pieces, error));
    descend(&all, coefficients, &sums);
    *distance = isfinite(sums.distance) ? sums.distance / (double)fit->sequences : HUGE_VAL;
done:
    icl_free(&all.pieces);
    return status;
}

double icl_fit_set_mean_eigenvalue(const icl_fit_set *set) {
    double sum = 0;
    size_t count = 0;

    for (size_t k = 0; k < set->count * set->dimension; k++) {
        sum += set->eigenvalues[k];
        count += set->eigenvalues[k] > 0;
    }
    return count > 0 ? sum / (double)count : 1;
}
