/* Predictions position by position, as a program that sees a sequence grow would ask for them. */
#include "iclab/decode.h"

#include "train/trainer.h"

/* Position t of a batch [B, T, …], as [B, …]: a view. */
static icl_tensor at_position(icl_tensor tensor, size_t t) {
    icl_tensor view = icl_tensor_slice(tensor, 1, t, 1);

    view.rank = tensor.rank - 1;
    for (int axis = 1; axis < view.rank; axis++) {
        view.shape[axis] = tensor.shape[axis + 1];
        view.stride[axis] = tensor.stride[axis + 1];
    }
    return view;
}

icl_status icl_trainer_decode(icl_trainer *trainer, const icl_batch *batch, float *outputs, icl_error *error) {
    const icl_task_shape *shape = icl_task_get_shape(trainer->task);
    icl_decoder *decoder = NULL;
    icl_tensor answers = {0}, unscored = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_trainer_check_batch(trainer, batch, "icl_trainer_decode", error));
    ICL_TRY(icl_decoder_create(trainer->model, trainer->backend, trainer->parameters, batch->size, &decoder, error));
    ICL_TRY(icl_tensor_create(trainer->backend, 3, (size_t[]){batch->size, shape->scored, shape->outputs}, &answers,
                              error));
    ICL_TRY(icl_tensor_create(trainer->backend, 2, (size_t[]){batch->size, shape->outputs}, &unscored, error));
    for (size_t t = 0; t < shape->first_scored + shape->scored; t++)
        ICL_TRY(icl_decoder_step(decoder, at_position(batch->inputs, t),
                                 t < shape->first_scored ? unscored : at_position(answers, t - shape->first_scored),
                                 error));
    ICL_TRY(icl_tensor_read(answers, outputs, error));
done:
    icl_decoder_destroy(&decoder);
    icl_tensor_release(&answers);
    icl_tensor_release(&unscored);
    return status;
}
