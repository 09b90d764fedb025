/*
 * K steps of gradient descent in context with the steps of Chebyshev's polynomials, the best for a spectrum that fills
 * an interval. At a position with the sums C = sum_i y_i x_i^T and H = sum_i x_i x_i^T over the pairs before it
 *
 *     W_0 = 0,  W_k = W_(k-1) + a_k (C - W_(k-1) H),  the prediction W_K s
 *
 * is C u_K of  r_0 = s, u_0 = 0,  u_k = u_(k-1) + a_k r_(k-1),  r_k = r_(k-1) - a_k H r_(k-1), as polynomials in H
 * commute. The interval is the same at all positions, as the weights of a layer are, although H grows with them. Long
 * observations leave the interval, where the polynomial grows steeply: a few sequences carry the mean of many steps, as
 * its standard error says.
 */
#include <math.h>
#include <string.h>

#include "core/allocate.h"
#include "numeric/statistics.h"
#include "papers/mesa/mesa.h"
#include "task/dynamical_system.h"
#include "task/streams.h"

enum { FIT_SEQUENCES = 256 };

/* ---- Predictions ---- */

/* out += factor M x. */
static void add_product(double *out, double factor, const double *matrix, const double *x, size_t n) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            out[i] += factor * matrix[i * n + j] * x[j];
}

static double step_of(const icl_mesa_descent *is, size_t k) {
    const double angle = acos(-1.0) * (2 * (double)k - 1) / (2 * (double)is->steps);
    return 1 / (.5 * (is->largest + is->least) + .5 * (is->largest - is->least) * cos(angle));
}

static void predict(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const icl_mesa_descent *is = settings;
    const size_t n = task->shape.outputs;
    double *cross = work, *gram = cross + n * n, *before = gram + n * n, *now = before + n;
    double *sum = now + n, *rest = sum + n, *moved = rest + n;

    (void)number;
    memset(work, 0, (2 * n * n + 5 * n) * sizeof *work);
    for (size_t t = 0; t < task->shape.positions; t++) {
        const float *seen = icl_dynamical_observation(task, inputs, t);
        for (size_t i = 0; i < n; i++) {
            now[i] = rest[i] = (double)seen[i];
            sum[i] = outputs[t * n + i] = 0;
        }
        for (size_t i = 0; i < n && t > 0; i++)
            for (size_t j = 0; j < n; j++) {
                cross[i * n + j] += now[i] * before[j];
                gram[i * n + j] += before[i] * before[j];
            }
        for (size_t k = 1; k <= is->steps; k++) {
            memcpy(moved, rest, n * sizeof *moved);
            for (size_t i = 0; i < n; i++)
                sum[i] += step_of(is, k) * rest[i];
            add_product(moved, -step_of(is, k), gram, rest, n);
            memcpy(rest, moved, n * sizeof *rest);
        }
        add_product(outputs + t * n, 1, cross, sum, n);
        memcpy(before, now, n * sizeof *now);
    }
}

/* ---- Losses ---- */

/* Sequences, and room for predictions of them. */
typedef struct sample {
    const icl_task *task;
    size_t count;
    icl_dynamical_sequences drawn;
    double *outputs, *losses; /* [count][T][n], [count] */
} sample;

static icl_status draw(const icl_task *task, icl_task_purpose purpose, uint32_t seed, size_t count, sample *is,
                       icl_error *error) {
    const icl_random_key key = {seed, icl_stream_for(purpose, ICL_DYNAMICAL_STREAMS), 0};
    const size_t each = task->shape.positions * task->shape.outputs;

    is->task = task;
    is->count = count;
    ICL_CHECK(icl_allocate(count * task->shape.positions, task->shape.inputs * sizeof(float), "sequences",
                           &is->drawn.inputs, error));
    ICL_CHECK(icl_allocate(count, each * sizeof(float), "sequences", &is->drawn.targets, error));
    ICL_CHECK(icl_allocate(count, each * sizeof(double), "predictions", &is->outputs, error));
    ICL_CHECK(icl_allocate(count, sizeof(double), "losses", &is->losses, error));
    return icl_dynamical_draw(task, key, count, &is->drawn, error);
}

static void release(sample *is) {
    icl_free(&is->drawn.inputs);
    icl_free(&is->drawn.targets);
    icl_free(&is->outputs);
    icl_free(&is->losses);
}

static icl_status measure(const sample *of, const icl_mesa_descent *is, double *mean, double *standard_error,
                          icl_error *error) {
    const icl_task_shape *shape = &of->task->shape;
    const size_t each = shape->positions * shape->outputs, n = shape->outputs;

    ICL_CHECK(icl_dynamical_predict_all(of->task, predict, is, 2 * n * n + 5 * n, of->count, of->drawn.inputs,
                                        of->outputs, error));
    for (size_t i = 0; i < of->count; i++) {
        of->losses[i] = 0;
        for (size_t k = i * each; k < (i + 1) * each; k++) {
            const double miss = of->outputs[k] - (double)of->drawn.targets[k];
            of->losses[i] += .5 * miss * miss / (double)shape->positions;
        }
    }
    *mean = icl_mean(of->losses, of->count);
    if (standard_error)
        *standard_error = icl_standard_error(of->losses, of->count);
    return ICL_OK;
}

/* Compares with both ends of the interval moved by a factor, and halves the factor's logarithm where none is better. */
static icl_status fit(icl_reproducing *run, const sample *of, icl_mesa_descent *is, icl_error *error) {
    double best;

    ICL_CHECK(measure(of, is, &best, NULL, error));
    for (double factor = 2; factor > 1.05;) {
        icl_mesa_descent found = *is;
        for (int way = 0; way < 4; way++) {
            icl_mesa_descent other = *is;
            double loss;
            *(way < 2 ? &other.least : &other.largest) *= way % 2 == 0 ? factor : 1 / factor;
            if (other.least > other.largest)
                continue;
            ICL_CHECK(icl_reproduce_poll(run, error));
            ICL_CHECK(measure(of, &other, &loss, NULL, error));
            if (loss < best) {
                best = loss;
                found = other;
            }
        }
        if (found.least == is->least && found.largest == is->largest)
            factor = sqrt(factor);
        *is = found;
    }
    return ICL_OK;
}

icl_status icl_mesa_descend(icl_reproducing *run, size_t steps, size_t sequences, icl_mesa_descent *descent,
                            double *half_loss, double *standard_error, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_task *task = NULL;
    sample fitting = {0}, fresh = {0};
    icl_status status = ICL_OK;

    *descent = (icl_mesa_descent){.steps = steps, .least = 50, .largest = 200};
    ICL_TRY(icl_reproduce_recipe("mesa", &recipe, error));
    ICL_TRY(icl_task_create(recipe, &task, error));
    ICL_TRY(draw(task, ICL_FOR_FITTING, run->params->seed, FIT_SEQUENCES, &fitting, error));
    ICL_TRY(draw(task, ICL_FOR_EVALUATION, run->params->seed, sequences, &fresh, error));
    ICL_TRY(fit(run, &fitting, descent, error));
    ICL_TRY(measure(&fresh, descent, half_loss, standard_error, error));
done:
    release(&fitting);
    release(&fresh);
    icl_task_destroy(&task);
    icl_recipe_destroy(&recipe);
    return status;
}
