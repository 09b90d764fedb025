/*
 * Reference predictors of dynamical systems, from s_1 … s_t alone. With x_i = s_(i-1) and y_i = s_i, i = 2 … t, the
 * pairs that a position has seen, and C_t = sum_i y_i x_i^T:
 *
 *     zero            0
 *     gd              a C_t s_t: one step of gradient descent from W = 0 on (1/2) sum_i ||y_i - W x_i||^2
 *     gd-mean         a C_t s_t / (t - 1): the same for the mean over the pairs
 *     ridge:LAMBDA    W_t s_t, W_t = C_t (sum_i x_i x_i^T + LAMBDA I)^-1
 *
 * von Oswald and others 2023 (arXiv 2309.05858), section 3; 2212.07677 has the step. a is the one number of least
 * squared error, the same at all positions. The ridge solution is carried on by R = (sum_i x_i x_i^T + LAMBDA I)^-1:
 *
 *     R <- R - R x x^T R / (1 + x^T R x),   W <- W + (y - W x) (R x)^T with the new R
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/parallel.h"
#include "task/dynamical_system.h"
#include "task/streams.h"

/* Where steps are fitted: one number needs few. */
enum { FIT_SEQUENCES = 512, FIT_SEED = 1 };

/* ---- Sequences side by side ---- */

typedef struct prediction {
    const icl_task *task;
    icl_dynamical_predict *predict;
    const void *settings;
    size_t work;
    const float *inputs;
    double *works, *outputs;
} prediction;

static void predict_one(void *context, size_t index, size_t thread) {
    const prediction *all = context;
    const icl_task_shape *shape = &all->task->shape;

    all->predict(all->task, all->settings, index, all->inputs + index * shape->positions * shape->inputs,
                 all->works + thread * all->work, all->outputs + index * shape->positions * shape->outputs);
}

icl_status icl_dynamical_predict_all(const icl_task *task, icl_dynamical_predict *predict, const void *settings,
                                     size_t work, size_t count, const float *inputs, double *outputs,
                                     icl_error *error) {
    const size_t threads = icl_parallel_threads();
    prediction all = {task, predict, settings, work, inputs, NULL, outputs};

    ICL_CHECK(icl_allocate(threads, (work + 1) * sizeof(double), "predictors", &all.works, error));
    icl_parallel_for(count, threads, predict_one, &all);
    icl_free(&all.works);
    return ICL_OK;
}

static size_t width_of(const icl_task *task) {
    return task->shape.outputs;
}

/* matrix += factor u v^T. */
static void add_outer(double *matrix, size_t n, double factor, const double *u, const double *v) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            matrix[i * n + j] += factor * u[i] * v[j];
}

static void multiply(const double *matrix, size_t n, const double *vector, double *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = 0;
        for (size_t j = 0; j < n; j++)
            out[i] += matrix[i * n + j] * vector[j];
    }
}

static void read_observation(const icl_task *task, const float *inputs, size_t t, double *observation) {
    const float *from = icl_dynamical_observation(task, inputs, t);
    for (size_t i = 0; i < width_of(task); i++)
        observation[i] = (double)from[i];
}

/* ---- Gradient descent ---- */

typedef struct descent {
    bool mean;
    double step;
} descent;

static void descend(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const descent *is = settings;
    const size_t n = width_of(task);
    double *cross = work, *before = cross + n * n, *now = before + n;

    (void)number;
    memset(cross, 0, n * n * sizeof *cross);
    for (size_t t = 0; t < task->shape.positions; t++) {
        double *out = outputs + t * n;
        read_observation(task, inputs, t, now);
        if (t > 0)
            add_outer(cross, n, 1, now, before);
        multiply(cross, n, now, out);
        for (size_t i = 0; i < n; i++)
            out[i] *= is->mean && t > 0 ? is->step / (double)t : is->step;
        memcpy(before, now, n * sizeof *now);
    }
}

static icl_status run_descent(const icl_task *task, const descent *is, size_t count, const float *inputs,
                              double *outputs, icl_error *error) {
    const size_t n = width_of(task);
    return icl_dynamical_predict_all(task, descend, is, n * n + 2 * n, count, inputs, outputs, error);
}

icl_status icl_dynamical_step(const icl_task *task, bool mean, double *step, icl_error *error) {
    const icl_task_shape *shape = &task->shape;
    const icl_random_key key = {FIT_SEED, icl_stream_for(ICL_FOR_FITTING, ICL_DYNAMICAL_STREAMS), 0};
    const size_t outputs = FIT_SEQUENCES * shape->positions * shape->outputs;
    icl_dynamical_sequences drawn = {0};
    double *predicted = NULL, product = 0, square = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(FIT_SEQUENCES * shape->positions, shape->inputs * sizeof *drawn.inputs, "sequences",
                         &drawn.inputs, error));
    ICL_TRY(icl_allocate(outputs, sizeof *drawn.targets, "sequences", &drawn.targets, error));
    ICL_TRY(icl_allocate(outputs, sizeof *predicted, "predictions", &predicted, error));
    ICL_TRY(icl_dynamical_draw(task, key, FIT_SEQUENCES, &drawn, error));
    ICL_TRY(run_descent(task, &(descent){mean, 1}, FIT_SEQUENCES, drawn.inputs, predicted, error));
    for (size_t i = 0; i < outputs; i++) {
        product += predicted[i] * (double)drawn.targets[i];
        square += predicted[i] * predicted[i];
    }
    *step = square > 0 ? product / square : 0;
done:
    icl_free(&drawn.inputs);
    icl_free(&drawn.targets);
    icl_free(&predicted);
    return status;
}

static double fit_bytes(const icl_reference_predictor *predictor, const icl_task *task) {
    const icl_task_shape *shape = &task->shape;
    const size_t position = shape->inputs * sizeof(float) + shape->outputs * (sizeof(float) + sizeof(double));

    (void)predictor;
    return (double)FIT_SEQUENCES * (double)(shape->positions * position);
}

static const bool of_sum = false, of_mean = true;

static icl_status predict_by_descent(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                     double *outputs, icl_error *error) {
    descent is = {.mean = *(const bool *)predictor->settings};

    ICL_CHECK(icl_dynamical_step(shown->task, is.mean, &is.step, error));
    return run_descent(shown->task, &is, shown->count, shown->inputs, outputs, error);
}

/* ---- Ridge regression ---- */

static void regress(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const double lambda = *(const double *)settings;
    const size_t n = width_of(task);
    double *solution = work, *inverse = solution + n * n, *before = inverse + n * n, *now = before + n;
    double *gain = now + n, *miss = gain + n;

    (void)number;
    memset(solution, 0, 2 * n * n * sizeof *solution);
    for (size_t i = 0; i < n; i++)
        inverse[i * n + i] = 1 / lambda;
    for (size_t t = 0; t < task->shape.positions; t++) {
        double product = 1;
        read_observation(task, inputs, t, now);
        multiply(inverse, n, before, gain);
        for (size_t i = 0; i < n && t > 0; i++)
            product += before[i] * gain[i];
        if (t > 0) {
            add_outer(inverse, n, -1 / product, gain, gain);
            multiply(solution, n, before, miss);
            for (size_t i = 0; i < n; i++)
                miss[i] = now[i] - miss[i];
            add_outer(solution, n, 1 / product, miss, gain); /* the new R x is the old one over 1 + x^T R x */
        }
        multiply(solution, n, now, outputs + t * n);
        memcpy(before, now, n * sizeof *now);
    }
}

static icl_status predict_by_ridge(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                   double *outputs, icl_error *error) {
    const size_t n = width_of(shown->task);
    return icl_dynamical_predict_all(shown->task, regress, predictor->settings, 2 * n * n + 4 * n, shown->count,
                                     shown->inputs, outputs, error);
}

static const double lambdas[] = {.001, .1, 1, 10};

/* ---- The tables ---- */

#define FROM_OBSERVATIONS                                                                                              \
    {"zero", NULL, icl_task_predict_zero}, {"gd", &of_sum, predict_by_descent, NULL, fit_bytes},                       \
        {"gd-mean", &of_mean, predict_by_descent, NULL, fit_bytes}, {"ridge:0.001", &lambdas[0], predict_by_ridge},    \
        {"ridge:0.1", &lambdas[1], predict_by_ridge}, {"ridge:1", &lambdas[2], predict_by_ridge}, {                    \
        "ridge:10", &lambdas[3], predict_by_ridge                                                                      \
    }

static const icl_reference_predictor from_observations[] = {FROM_OBSERVATIONS, {0}};
static const icl_reference_predictor of_states[] = {FROM_OBSERVATIONS, {"floor", NULL, icl_dynamical_filter}, {0}};
static const icl_reference_predictor of_observations[] = {
    FROM_OBSERVATIONS, {"kalman", NULL, icl_dynamical_filter}, {0}};

const icl_reference_predictor *icl_dynamical_references(const icl_task *task) {
    const icl_dynamics *is = task->state;

    if (is->clip > 0 || is->observation == ICL_OBSERVED_NONLINEARLY)
        return from_observations;
    return is->observation == ICL_OBSERVED_FULLY ? of_states : of_observations;
}
