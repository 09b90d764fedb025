/*
 * What a model of tables is compared with: normal laws, as shares of the buckets.
 *
 *     mean                                  N(0, 1): mean and variance of the labels
 *     ridge, neighbours, smooth, rough      predictions and deviations of the guides (guides.c)
 *     gaussian-process                      the law of the target given the labels, by the kernel, the noise and the
 *                                           mean that the table was drawn with: nothing can do better. Only if all
 *                                           tables are Gaussian processes; it is wrong for what warped, missing and
 *                                           tails change
 *
 * All but the last give one percent to all buckets alike, so that a target far out costs no more than log(100 K).
 */
#include <math.h>

#include "core/allocate.h"
#include "task/tables/tables.h"
#include "task/task.h"

#define COMMON_SHARE 0.01

/* A body computes with these: the guide, or the kernels of the tables. */
typedef struct known {
    int guide; /* -1: the mean */
    const float *kernels;
} known;

/* Writes log shares [K] of N(mean, deviation^2), a part of which is the same for all buckets. */
static void write_logits(size_t buckets, double mean, double deviation, double common, double *logits) {
    icl_bucket_normal(buckets, mean, deviation, logits);
    for (size_t k = 0; k < buckets; k++)
        logits[k] = log((1 - common) * logits[k] + common / (double)buckets);
}

static void answer_by_guide(const icl_task *task, const void *settings, size_t number, const float *inputs,
                            double *work, double *outputs) {
    const icl_task_shape *shape = &task->shape;
    const icl_tables *state = task->state;
    const int guide = ((const known *)settings)->guide;

    (void)number;
    (void)work;
    for (size_t s = 0; s < shape->scored; s++) {
        const float *row = inputs + (shape->first_scored + s) * shape->inputs + state->d + 2 * (size_t)(guide + 1) - 2;
        write_logits(shape->outputs, guide < 0 ? 0 : (double)row[0], guide < 0 ? 1 : (double)row[1], COMMON_SHARE,
                     outputs + s * shape->outputs);
    }
}

static double kernel_of(const icl_tables *state, const float *kernel, const float *a, const float *b) {
    double square = 0;
    for (size_t j = 0; j < state->d; j++) {
        const double step = (double)a[j] - (double)b[j];
        square += (double)kernel[j] * step * step;
    }
    return (double)kernel[state->d + 1] * exp(-0.5 * square);
}

static size_t labelled_of(const icl_task_shape *shape, const float *inputs) {
    size_t count = 0;
    while (count < shape->positions && inputs[count * shape->inputs + shape->inputs - 1] > 0)
        count++;
    return count;
}

/* Replaces b [n] by L^-1 b. */
static void solve_root(size_t n, const double *root, double *b) {
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            b[i] -= root[i * n + k] * b[k];
        b[i] /= root[i * n + i];
    }
}

static void answer_by_kernel(const icl_task *task, const void *settings, size_t number, const float *inputs,
                             double *work, double *outputs) {
    const icl_task_shape *shape = &task->shape;
    const icl_tables *state = task->state;
    const float *kernel = ((const known *)settings)->kernels + number * (state->d + 3);
    const size_t p = shape->inputs, n = labelled_of(shape, inputs);
    const double mean = (double)kernel[state->d], noise = (double)kernel[state->d + 2];
    double *root = work, *residual = root + n * n, *column = residual + n;

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k <= i; k++)
            root[i * n + k] = kernel_of(state, kernel, inputs + i * p, inputs + k * p) + (i == k ? noise : 0);
        residual[i] = (double)inputs[i * p + p - 2] - mean;
    }
    icl_table_factor(n, root, column);
    solve_root(n, root, residual);
    for (size_t s = 0; s < shape->scored; s++) {
        const float *row = inputs + (shape->first_scored + s) * p;
        double prediction = mean, variance = kernel_of(state, kernel, row, row) + noise;
        for (size_t i = 0; i < n; i++)
            column[i] = kernel_of(state, kernel, row, inputs + i * p);
        solve_root(n, root, column);
        for (size_t i = 0; i < n; i++) {
            prediction += column[i] * residual[i];
            variance -= column[i] * column[i];
        }
        write_logits(shape->outputs, prediction, sqrt(fmax(variance, 1e-12)), 0, outputs + s * shape->outputs);
    }
}

static icl_status predict_by_guide(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                   double *outputs, icl_error *error) {
    return icl_task_for_each(shown->task, answer_by_guide, predictor->settings, 0, shown->count, shown->inputs, outputs,
                             error);
}

static icl_status predict_by_kernel(const icl_reference_predictor *predictor, const icl_shown_sequences *shown,
                                    double *outputs, icl_error *error) {
    const icl_tables *state = shown->task->state;
    const icl_tensor side = icl_batch_side(shown->batch, ICL_SIDE_KERNEL);
    known all = {0};
    float *kernels = NULL;
    icl_status status;

    (void)predictor;
    ICL_TRY(icl_allocate(icl_tensor_count(&side), sizeof *kernels, "kernels", &kernels, error));
    ICL_TRY(icl_tensor_read(side, kernels, error));
    all.kernels = kernels;
    ICL_TRY(icl_task_for_each(shown->task, answer_by_kernel, &all, state->n * (state->n + 2), shown->count,
                              shown->inputs, outputs, error));
done:
    icl_free(&kernels);
    return status;
}

#define BY_GUIDE(word, number)                                                                                         \
    { .name = word, .settings = &(const known){number, NULL}, .predict = predict_by_guide }
#define MEAN BY_GUIDE("mean", -1)
#define GUIDES                                                                                                         \
    BY_GUIDE("ridge", ICL_GUIDE_RIDGE), BY_GUIDE("neighbours", ICL_GUIDE_NEIGHBOURS),                                  \
        BY_GUIDE("smooth", ICL_GUIDE_SMOOTH), BY_GUIDE("rough", ICL_GUIDE_ROUGH)
#define EXACT                                                                                                          \
    { .name = "gaussian-process", .predict = predict_by_kernel }

const icl_reference_predictor icl_table_predictors[2][2][ICL_TABLE_PREDICTORS + 1] = {
    {{MEAN}, {MEAN, EXACT}}, {{MEAN, GUIDES}, {MEAN, GUIDES, EXACT}}};
