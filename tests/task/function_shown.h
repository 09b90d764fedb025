/* Sequences of task.family = function-classes and what a reference predictor makes of them. */
#ifndef ICLAB_TESTS_FUNCTION_SHOWN_H
#define ICLAB_TESTS_FUNCTION_SHOWN_H

#include <math.h>

#include "core/allocate.h"
#include "make_task.h"
#include "statistic.h"
#include "task/function_classes/family.h"

/* Inputs of a sequence at most; standard errors. */
enum { MOST = 20, SEED = 11, BOUND = 5 };

typedef struct shown {
    icl_backend *backend;
    icl_task *task;
    icl_batch batch;
    float *inputs, *targets, *levels;
    double *outputs;
    size_t count, d, points;
} shown;

static inline icl_status read_tensor(icl_tensor tensor, float **values, icl_error *error) {
    ICL_CHECK(icl_allocate(icl_tensor_count(&tensor), sizeof(float), "values", values, error));
    return icl_tensor_read(tensor, *values, error);
}

static inline icl_status shown_open(shown *all, size_t count, const char *overrides, icl_error *error) {
    char text[256];
    icl_status status = ICL_OK;

    *all = (shown){.count = count};
    snprintf(text, sizeof text, "task.family=function-classes %s", overrides);
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &all->backend, error));
    ICL_TRY(make_task(text, &all->task, error));
    all->points = all->task->shape.positions;
    all->d = all->task->shape.inputs - 1;
    ICL_TRY(icl_batch_create(all->task, all->backend, ICL_FOR_EVALUATION, count, &all->batch, error));
    ICL_TRY(icl_task_sample(all->task, all->backend, ICL_FOR_EVALUATION, SEED, 0, &all->batch, error));
    ICL_TRY(read_tensor(all->batch.inputs, &all->inputs, error));
    ICL_TRY(read_tensor(all->batch.targets, &all->targets, error));
    ICL_TRY(read_tensor(icl_batch_side(&all->batch, ICL_SIDE_NOISE), &all->levels, error));
    ICL_TRY(icl_allocate(count * all->points, sizeof *all->outputs, "outputs", &all->outputs, error));
done:
    return status;
}

static inline void shown_close(shown *all) {
    icl_free(&all->inputs);
    icl_free(&all->targets);
    icl_free(&all->levels);
    icl_free(&all->outputs);
    icl_batch_release(&all->batch);
    icl_task_destroy(&all->task);
    icl_backend_close(&all->backend);
}

static inline icl_status run(shown *all, const char *name, icl_error *error) {
    const icl_reference_predictor *at = all->task->family->references(all->task);
    const icl_shown_sequences sequences = {all->task, all->count, all->inputs, &all->batch};

    while (at->name && strcmp(at->name, name) != 0)
        at++;
    if (!at->name)
        return icl_fail(error, ICL_ERROR_INPUT, "no predictor %s", name);
    return at->predict(at, &sequences, all->outputs, error);
}

static inline const float *x_of(const shown *all, size_t s, size_t i) {
    return all->inputs + (s * all->points + i) * (all->d + 1);
}

static inline double y_of(const shown *all, size_t s, size_t i) {
    return (double)x_of(all, s, i + 1)[all->d];
}

static inline double output(const shown *all, size_t s, size_t k) {
    return all->outputs[s * all->points + k];
}

static inline statistic loss_at(const shown *all, size_t k) {
    statistic seen = {0};
    for (size_t s = 0; s < all->count; s++) {
        const double miss = output(all, s, k) - (double)all->targets[s * all->points + k];
        add(&seen, miss * miss);
    }
    return seen;
}

/* The largest distance of outputs from what is expected after so many pairs, and every `stride` pairs more. */
static inline double largest_miss(const shown *all, size_t pairs, size_t stride,
                                  double (*expect)(const shown *all, size_t s, size_t k, double number),
                                  double number) {
    double worst = 0;
    for (size_t s = 0; s < all->count; s++)
        for (size_t k = pairs; k < all->points; k += stride)
            worst = fmax(worst, fabs(output(all, s, k) - expect(all, s, k, number)));
    return worst;
}

static inline double dot(const float *a, const float *b, size_t d) {
    double sum = 0;
    for (size_t j = 0; j < d; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

/* Runs the checks. Returns the process's exit code. */
static inline int test_predictors(icl_status (*const *checks)(tap_run *tap, icl_error *error), size_t count) {
    tap_run tap = {0};
    icl_error error = {0};

    for (size_t i = 0; i < count; i++)
        tap_status(&tap, checks[i](&tap, &error), &error, "reference predictors run");
    return tap_done(&tap);
}

#endif
