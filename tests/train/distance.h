/* How far a trained model is from the oracle. */
#ifndef ICLAB_TESTS_TRAIN_DISTANCE_H
#define ICLAB_TESTS_TRAIN_DISTANCE_H

#include "fixture.h"

enum { DISTANCE_BATCH = 2000 };

/* Mean of half the squared distance to the oracle, and its standard error. */
static inline icl_status distance_to_oracle(icl_backend *backend, icl_trainer *trainer, size_t sequences, double *mean,
                                            double *standard_error, icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const size_t width = icl_task_dimension(task) + 1, length = icl_task_context(task) + 1;
    float *tokens = NULL;
    static float noise[DISTANCE_BATCH], seen[DISTANCE_BATCH];
    static double oracle[DISTANCE_BATCH];
    icl_predictors *predictors = NULL;
    icl_batch batch = {{0}};
    double sum = 0.0, square = 0.0;
    const size_t rounded = sequences - sequences % DISTANCE_BATCH;
    const double count = (double)rounded;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(DISTANCE_BATCH * length * width, sizeof *tokens, "tokens", &tokens, error));
    ICL_TRY(icl_predictors_create(task, NULL, "oracle", 2, 1, &predictors, error));
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, DISTANCE_BATCH, &batch, error));
    for (uint64_t step = 0; step < sequences / DISTANCE_BATCH; step++) {
        ICL_TRY(icl_task_sample(task, backend, ICL_FOR_EVALUATION, 1, step, &batch, error));
        ICL_TRY(icl_trainer_predict(trainer, &batch, seen, error));
        ICL_TRY(icl_tensor_read(batch.inputs, tokens, error));
        ICL_TRY(icl_tensor_read(icl_batch_side(&batch, ICL_SIDE_NOISE), noise, error));
        ICL_TRY(icl_predictors_run(predictors, DISTANCE_BATCH, tokens, noise, oracle, error));
        for (int b = 0; b < DISTANCE_BATCH; b++) {
            const double half = 0.5 * pow((double)seen[b] - oracle[b], 2);
            sum += half;
            square += half * half;
        }
    }
    *mean = sum / count;
    *standard_error = sqrt((square / count - *mean * *mean) / count);
done:
    icl_batch_release(&batch);
    icl_predictors_destroy(&predictors);
    icl_free(&tokens);
    return status;
}

#endif
