/* What a model predicts for a few sequences, and the gradient, by its ops or on the tape. */
#ifndef ICLAB_TESTS_MODEL_OUTCOME_H
#define ICLAB_TESTS_MODEL_OUTCOME_H

#include "fixture.h"

enum { LAYERS = 3, D = 3, N = 5, BATCH = 7, MOST = 512 };

typedef struct outcome {
    size_t size;
    double predictions[BATCH], gradient[MOST];
} outcome;

static inline icl_status on_tape(icl_backend *backend, const icl_model *model, const icl_model_tensors *with,
                                 icl_error *error) {
    icl_variable variables[MOST];
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(backend, &tape, error));
    ICL_TRY(icl_fill(backend, with->gradient, 0.0, error));
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const icl_tensor value = icl_tensor_slice(with->parameters, 0, info->offset, info->count);
        const icl_tensor gradient = icl_tensor_slice(with->gradient, 0, info->offset, info->count);
        variables[i] = icl_tape_parameter(tape, icl_tensor_reshape(value, info->rank, info->shape),
                                          icl_tensor_reshape(gradient, info->rank, info->shape));
    }
    const icl_variable prediction = icl_model_predict(model, tape, variables, icl_tape_constant(tape, with->tokens));
    const icl_variable target =
        icl_tape_constant(tape, icl_tensor_reshape(with->targets, 3, (const size_t[]){BATCH, 1, 1}));
    const icl_variable miss = icl_tape_binary(tape, ICL_SUBTRACT, prediction, target);
    ICL_TRY(icl_tape_backward(
        tape, icl_tape_scale(tape, 1.0 / BATCH, icl_tape_reduce(tape, ICL_SUM_OF_SQUARES, 7, miss)), error));
    ICL_TRY(icl_copy(backend, with->predictions,
                     icl_tensor_reshape(icl_tape_value(tape, prediction), 1, (const size_t[]){BATCH}), error));
done:
    icl_tape_destroy(&tape);
    return status;
}

static inline icl_status create_tensors(icl_backend *backend, size_t size, icl_model_tensors *with, icl_error *error) {
    const size_t batch = BATCH, tokens[] = {BATCH, N + 1, D + 1};
    icl_tensor *const of_sequences[] = {&with->predictions, &with->losses, &with->targets, &with->norms};
    icl_tensor *const of_model[] = {&with->parameters, &with->gradient};
    icl_status status = ICL_OK;

    for (int i = 0; i < 4; i++)
        ICL_TRY(icl_tensor_create(backend, 1, &batch, of_sequences[i], error));
    for (int i = 0; i < 2; i++)
        ICL_TRY(icl_tensor_create(backend, 1, &size, of_model[i], error));
    ICL_TRY(icl_tensor_create(backend, 3, tokens, &with->tokens, error));
done:
    return status;
}

/* With parameters `values`: predictions and gradient by the ops for whole models, where the predictions are those
 * without gradient; or both on the tape. */
static inline icl_status run_outcome(icl_backend *backend, const icl_model *model, const float *values, bool fused,
                                     outcome *out, icl_error *error) {
    const setting is = {.dimension = D, .context = N, .batch = BATCH};
    float tokens[BATCH * (N + 1) * (D + 1)];
    icl_model_tensors with = {.tokens = {0}};
    icl_status status = ICL_OK;

    out->size = icl_model_size(model);
    fill_tokens(tokens, &is);
    ICL_TRY(create_tensors(backend, out->size, &with, error));
    ICL_TRY(icl_tensor_write(with.parameters, values, error));
    ICL_TRY(icl_tensor_write(with.tokens, tokens, error));
    ICL_TRY(icl_fill(backend, with.targets, 0.7, error));
    ICL_TRY(fused ? icl_model_gradient_fused(model, backend, LAYERS, &with, error)
                  : on_tape(backend, model, &with, error));
    ICL_TRY(icl_tensor_read_double(with.gradient, out->gradient, error));
    if (fused)
        ICL_TRY(icl_model_predict_fused(model, backend, LAYERS, &with, error));
    ICL_TRY(icl_tensor_read_double(with.predictions, out->predictions, error));
done:
    for (size_t i = 0; i < 7; i++)
        icl_tensor_release((icl_tensor *[]){&with.tokens, &with.parameters, &with.predictions, &with.losses,
                                            &with.targets, &with.gradient, &with.norms}[i]);
    return status;
}

#endif
