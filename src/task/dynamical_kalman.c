/*
 * The Kalman filter of a dynamical system whose W and C are known: E[s_(t+1) | s_1 … s_t], of all predictions the one
 * of least squared error. From h = 0, P = I, for each s_t (Kalman 1960):
 *
 *     observe   for each number i of s_t, c its row of C:  v = P c,  g = v / (c . v + r^2),
 *               h <- h + g (s_ti - c . h),  P <- P - g v^T
 *     advance   h <- W h,  P <- W P W^T + p^2 I;  the prediction is C h
 *
 * One number after another, as the noise of each is its own. A state that is seen fully has C = I and r = 0: then the
 * prediction is W s_t.
 */
#include <string.h>

#include "core/allocate.h"
#include "task/dynamical_system.h"

/* Of all sequences at hand. */
typedef struct known_system {
    float *transition;  /* [count][n_h][n_h] */
    float *observation; /* [count][n_s][n_h]; NULL: C = I */
} known_system;

typedef struct filter {
    double *state, *next, *row, *gain; /* [n_h] */
    double *covariance, *half;         /* [n_h, n_h] */
} filter;

static filter filter_in(double *work, size_t h) {
    return (filter){.state = work,
                    .next = work + h,
                    .row = work + 2 * h,
                    .gain = work + 3 * h,
                    .covariance = work + 4 * h,
                    .half = work + 4 * h + h * h};
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* A row of C; NULL: of the identity. */
static void read_row(const float *observation, size_t row, size_t h, double *to) {
    for (size_t j = 0; j < h; j++)
        to[j] = observation ? (double)observation[row * h + j] : row == j;
}

static void observe(const filter *is, size_t h, double seen, double noise) {
    double variance, miss;

    for (size_t i = 0; i < h; i++)
        is->gain[i] = dot(is->covariance + i * h, is->row, h);
    variance = dot(is->row, is->gain, h) + noise * noise;
    if (!(variance > 0)) /* it was known before */
        return;
    miss = (seen - dot(is->row, is->state, h)) / variance;
    for (size_t i = 0; i < h; i++) {
        is->state[i] += is->gain[i] * miss;
        for (size_t j = 0; j < h; j++)
            is->covariance[i * h + j] -= is->gain[i] * is->gain[j] / variance;
    }
}

static void advance(const filter *is, size_t h, const float *transition, double noise) {
    for (size_t i = 0; i < h; i++) {
        is->next[i] = 0;
        for (size_t k = 0; k < h; k++)
            is->next[i] += (double)transition[i * h + k] * is->state[k];
        for (size_t j = 0; j < h; j++) {
            double sum = 0;
            for (size_t k = 0; k < h; k++)
                sum += (double)transition[i * h + k] * is->covariance[k * h + j];
            is->half[i * h + j] = sum;
        }
    }
    memcpy(is->state, is->next, h * sizeof *is->state);
    for (size_t i = 0; i < h; i++)
        for (size_t j = 0; j < h; j++) {
            double sum = i == j ? noise * noise : 0;
            for (size_t k = 0; k < h; k++)
                sum += is->half[i * h + k] * (double)transition[j * h + k];
            is->covariance[i * h + j] = sum;
        }
}

static void predict(const icl_task *task, const void *settings, size_t number, const float *inputs, double *work,
                    double *outputs) {
    const known_system *all = settings;
    const icl_dynamics *system = task->state;
    const size_t h = system->hidden, s = system->observed;
    const float *observation = all->observation ? all->observation + number * s * h : NULL;
    const double noise = all->observation ? system->observation_noise : 0;
    const filter is = filter_in(work, h);

    memset(work, 0, (4 * h + 2 * h * h) * sizeof *work);
    for (size_t i = 0; i < h; i++)
        is.covariance[i * h + i] = 1;
    for (size_t t = 0; t < task->shape.positions; t++) {
        const float *seen = icl_dynamical_observation(task, inputs, t);
        for (size_t i = 0; i < s; i++) {
            read_row(observation, i, h, is.row);
            observe(&is, h, (double)seen[i], noise);
        }
        advance(&is, h, all->transition + number * h * h, system->process_noise);
        for (size_t i = 0; i < s; i++) {
            read_row(observation, i, h, is.row);
            outputs[t * s + i] = dot(is.row, is.state, h);
        }
    }
}

static icl_status read_side(const icl_batch *batch, const char *name, float **values, icl_error *error) {
    const icl_tensor side = icl_batch_side(batch, name);

    if (!side.buffer)
        return ICL_OK;
    ICL_CHECK(icl_allocate(icl_tensor_count(&side), sizeof **values, name, values, error));
    return icl_tensor_read(side, *values, error);
}

icl_status icl_dynamical_filter(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                double *outputs, icl_error *error) {
    const icl_dynamics *is = shown->task->state;
    const size_t h = is->hidden;
    known_system known = {0};
    icl_status status = ICL_OK;

    ICL_TRY(read_side(shown->batch, ICL_SIDE_TRANSITION, &known.transition, error));
    ICL_TRY(read_side(shown->batch, ICL_SIDE_OBSERVATION, &known.observation, error));
    if (!known.transition)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "%s: the batch lacks the side tensor %s, as those for training do",
                         predictor->name, ICL_SIDE_TRANSITION));
    ICL_TRY(icl_dynamical_predict_all(shown->task, predict, &known, 4 * h + 2 * h * h, shown->count, shown->inputs,
                                      outputs, error));
done:
    icl_free(&known.transition);
    icl_free(&known.observation);
    return status;
}
