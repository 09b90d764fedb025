/* Batches of task.family = function-classes on the host, and moments, for the tests of that family. */
#ifndef ICLAB_TESTS_FUNCTION_CLASSES_H
#define ICLAB_TESTS_FUNCTION_CLASSES_H

#include "same_bits.h"
#include "statistic.h"

#define FAMILY "task.family=function-classes task.d=4 task.n=6 "

enum { BATCH = 21, SEQUENCES = 2048, D = 4, N = 6, POINTS = N + 1, TOKEN = D + 1, BOUND = 5 };

typedef struct drawn {
    size_t count;
    float *inputs, *targets, *coefficients, *levels, *weights;
} drawn;

static inline icl_status read_tensor(icl_tensor tensor, float **values, icl_error *error) {
    if (!tensor.buffer)
        return ICL_OK;
    ICL_CHECK(icl_allocate(icl_tensor_count(&tensor), sizeof(float), "values", values, error));
    return icl_tensor_read(tensor, *values, error);
}

static inline void release(drawn *all) {
    icl_free(&all->inputs);
    icl_free(&all->targets);
    icl_free(&all->coefficients);
    icl_free(&all->levels);
    icl_free(&all->weights);
}

static inline icl_status draw_for(const char *overrides, icl_task_purpose purpose, uint32_t seed, uint64_t step,
                                  icl_backend *backend, drawn *all, icl_error *error) {
    icl_task *task = NULL;
    icl_batch batch = {0};
    char text[256];
    icl_status status = ICL_OK;

    release(all);
    all->count = purpose == ICL_FOR_EVALUATION ? SEQUENCES : BATCH;
    snprintf(text, sizeof text, FAMILY "%s", overrides);
    ICL_TRY(make_task(text, &task, error));
    ICL_TRY(icl_batch_create(task, backend, purpose, all->count, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, purpose, seed, step, &batch, error));
    ICL_TRY(read_tensor(batch.inputs, &all->inputs, error));
    ICL_TRY(read_tensor(batch.targets, &all->targets, error));
    ICL_TRY(read_tensor(icl_batch_side(&batch, ICL_SIDE_COEFFICIENTS), &all->coefficients, error));
    ICL_TRY(read_tensor(icl_batch_side(&batch, ICL_SIDE_NOISE), &all->levels, error));
    ICL_TRY(read_tensor(batch.weights, &all->weights, error));
done:
    icl_batch_release(&batch);
    icl_task_destroy(&task);
    return status;
}

static inline icl_status draw(const char *overrides, icl_backend *backend, drawn *all, icl_error *error) {
    return draw_for(overrides, ICL_FOR_EVALUATION, SEED, 3, backend, all, error);
}

static inline const float *token(const drawn *all, size_t sequence, size_t i) {
    return all->inputs + (sequence * POINTS + i) * TOKEN;
}

static inline float target(const drawn *all, size_t sequence, size_t i) {
    return all->targets[sequence * POINTS + i];
}

static inline double dot(const float *a, const float *b) {
    double sum = 0;
    for (size_t j = 0; j < D; j++)
        sum += (double)a[j] * (double)b[j];
    return sum;
}

static inline bool same_input(const float *a, const float *b) {
    return memcmp(a, b, D * sizeof *a) == 0;
}

/* Runs the checks on the cpu. Returns the process's exit code. */
static inline int test_on_cpu(icl_status (*const *checks)(tap_run *tap, icl_backend *backend, icl_error *error),
                              size_t count) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");

    for (size_t i = 0; i < count && backend; i++)
        tap_status(&tap, checks[i](&tap, backend, &error), &error, "sampling runs");
    icl_backend_close(&backend);
    return tap_done(&tap);
}

#endif
