/* Sequences on the host, decomposed, for tests of predictors. */
#ifndef ICLAB_TESTS_SEQUENCES_H
#define ICLAB_TESTS_SEQUENCES_H

#include <math.h>

#include "../task/frame.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* `count` sequences of a task in host memory. */
typedef struct sequences {
    size_t count, n, d;
    float *tokens;  /* [count][n + 1][d + 1] */
    float *targets; /* [count] */
    float *noise;   /* [count] */
    float *weights; /* [count][d] */
} sequences;

static inline void sequences_release(sequences *data) {
    icl_free(&data->tokens);
    icl_free(&data->targets);
    icl_free(&data->noise);
    icl_free(&data->weights);
}

static inline icl_status sequences_read(icl_tensor tensor, float **values, icl_error *error) {
    const icl_status status = icl_allocate(icl_tensor_count(&tensor), sizeof(float), "values", values, error);
    return status == ICL_OK ? icl_tensor_read(tensor, *values, error) : status;
}

/* Draws batch `step` for evaluation, on the cpu backend. */
static inline icl_status sequences_draw(const icl_task *task, size_t count, uint32_t seed, uint64_t step,
                                        sequences *data, icl_error *error) {
    icl_backend *backend = NULL;
    icl_batch batch = {0};
    icl_status status;

    *data = (sequences){.count = count, .n = icl_task_context(task), .d = icl_task_dimension(task)};
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, count, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, seed, step, &batch, error));
    ICL_TRY(sequences_read(batch.inputs, &data->tokens, error));
    ICL_TRY(sequences_read(batch.targets, &data->targets, error));
    ICL_TRY(sequences_read(icl_batch_side(&batch, ICL_SIDE_NOISE), &data->noise, error));
    ICL_TRY(sequences_read(icl_batch_side(&batch, ICL_SIDE_COEFFICIENTS), &data->weights, error));
done:
    icl_batch_release(&batch);
    icl_backend_close(&backend);
    return status;
}

/* A running mean and its standard error. */
typedef struct sample_mean {
    double sum, squares, count;
} sample_mean;

static inline void sample_mean_add(sample_mean *mean, double value) {
    mean->sum += value;
    mean->squares += value * value;
    mean->count++;
}

static inline double sample_mean_value(const sample_mean *mean) {
    return mean->sum / mean->count;
}

static inline double sample_mean_deviation(const sample_mean *mean) {
    const double value = sample_mean_value(mean), variance = mean->squares / mean->count - value * value;
    return sqrt(variance > 0 ? variance : 0);
}

static inline double sample_mean_error(const sample_mean *mean) {
    return sample_mean_deviation(mean) / sqrt(mean->count);
}

#endif
