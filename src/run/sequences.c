#include "run/sequences.h"

#include "baseline/fit_set.h"
#include "core/allocate.h"

#define MAX_CHUNK 2048

icl_status icl_sequences_create(icl_backend *backend, const icl_task *task, uint32_t seed, icl_sequences *sequences,
                                icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(task);
    const size_t chunk = icl_task_piece(task, MAX_CHUNK), answers = shape->scored * shape->outputs;
    icl_batch *batch = &sequences->batch;
    icl_status status = ICL_OK;

    *sequences = (icl_sequences){.backend = backend, .task = task, .seed = seed, .chunk = chunk};
    ICL_TRY(icl_batch_create(task, backend, ICL_FOR_EVALUATION, chunk, batch, error));
    ICL_TRY(
        icl_allocate(icl_tensor_count(&batch->inputs), sizeof(float), "evaluation inputs", &sequences->inputs, error));
    ICL_TRY(icl_allocate(chunk, sizeof(float), "evaluation noise", &sequences->noise, error));
    ICL_TRY(icl_allocate(icl_tensor_count(&batch->targets), sizeof(float), "evaluation targets", &sequences->targets,
                         error));
    if (batch->weights.buffer)
        ICL_TRY(icl_allocate(chunk * shape->scored, sizeof(float), "evaluation weights", &sequences->weights, error));
    ICL_TRY(icl_allocate(chunk, answers * sizeof(float), "evaluation predictions", &sequences->model, error));
    return ICL_OK;
done:
    icl_sequences_release(sequences);
    return status;
}

double icl_sequences_bytes(const icl_sequences *sequences) {
    const icl_task_shape *shape = icl_task_get_shape(sequences->task);
    const icl_batch *batch = &sequences->batch;
    const size_t positions = sequences->chunk * shape->scored;
    const size_t numbers = icl_tensor_count(&batch->inputs) + sequences->chunk + icl_tensor_count(&batch->targets) +
                           (sequences->weights ? positions : 0) + positions * shape->outputs;

    return (double)numbers * sizeof(float);
}

void icl_sequences_release(icl_sequences *sequences) {
    icl_batch_release(&sequences->batch);
    icl_free(&sequences->inputs);
    icl_free(&sequences->noise);
    icl_free(&sequences->targets);
    icl_free(&sequences->weights);
    icl_free(&sequences->model);
}

icl_status icl_sequences_sample(icl_sequences *sequences, uint64_t chunk, icl_error *error) {
    return icl_task_sample(sequences->task, sequences->backend, ICL_FOR_EVALUATION, sequences->seed, chunk,
                           &sequences->batch, error);
}

icl_status icl_sequences_predict(icl_sequences *sequences, icl_trainer *trainer, icl_error *error) {
    return sequences->decodes ? icl_trainer_decode(trainer, &sequences->batch, sequences->model, error)
                              : icl_trainer_predict(trainer, &sequences->batch, sequences->model, error);
}

icl_status icl_sequences_refer(icl_sequences *sequences, const icl_predictors *predictors, size_t count,
                               double *predictions, icl_error *error) {
    const icl_batch *batch = &sequences->batch;

    ICL_CHECK(icl_tensor_read(batch->inputs, sequences->inputs, error));
    ICL_CHECK(icl_batch_noise(batch, icl_task_get_prior(sequences->task), sequences->noise, error));
    ICL_CHECK(icl_tensor_read(batch->targets, sequences->targets, error));
    if (batch->weights.buffer)
        ICL_CHECK(icl_tensor_read(batch->weights, sequences->weights, error));
    if (predictors)
        ICL_CHECK(icl_predictors_run(predictors, count, sequences->inputs, sequences->noise, predictions, error));
    return ICL_OK;
}
