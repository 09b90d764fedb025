/* Linear transformers by the backend's ops for the whole model, instead of on the tape. */
#include "core/status.h"
#include "model/linear_transformer.h"

static icl_linear_transformer_params params_of(const icl_model *model, size_t depth) {
    const icl_linear_transformer_state *state = model->state;
    return (icl_linear_transformer_params){
        .form = state->form,
        .layers = state->is_tied ? depth : model->layers,
        .depth = depth,
        .heads = state->heads,
        .factor = state->is_mean ? 1.0 / (double)model->context : 1.0,
        .space = state->space,
    };
}

/* What the ops take of a tied model: its one layer's parameters once for each layer. */
static icl_status repeat_parameters(const icl_model *model, icl_backend *backend, size_t depth,
                                    icl_tensor parameters, icl_tensor *repeated, icl_error *error) {
    const size_t rows[] = {depth, model->size}, row[] = {1, model->size}, all = depth * model->size;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 1, &all, repeated, error));
    ICL_TRY(icl_copy(backend, icl_tensor_reshape(*repeated, 2, rows),
                     icl_tensor_broadcast(icl_tensor_reshape(parameters, 2, row), 0, depth), error));
done:
    return status;
}

icl_status icl_linear_predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                    const icl_model_tensors *with, icl_error *error) {
    const icl_linear_transformer_params params = params_of(model, depth);
    const bool is_tied = ((const icl_linear_transformer_state *)model->state)->is_tied;
    icl_tensor repeated = {0};
    icl_status status = ICL_OK;

    if (is_tied)
        ICL_TRY(repeat_parameters(model, backend, depth, with->parameters, &repeated, error));
    ICL_TRY(icl_linear_transformer_predict(backend, &params, with->predictions,
                                           is_tied ? repeated : with->parameters, with->tokens, with->gram,
                                           with->query, error));
done:
    icl_tensor_release(&repeated);
    return status;
}

static icl_status gradient(const icl_model *model, icl_backend *backend, size_t depth,
                           const icl_model_tensors *with, icl_tensor parameters, icl_tensor out,
                           icl_error *error) {
    const icl_linear_transformer_params params = params_of(model, depth);
    return icl_linear_transformer_gradient(backend, &params, with->predictions, out, with->norms, parameters,
                                           with->tokens, with->gram, with->query, with->targets,
                                           with->threshold, error);
}

/* d loss / d parameters is the sum over the layers that share them. Norms are those of all layers' gradients side by side: the
 * trainer cuts no sequence by them. */
static icl_status gradient_of_tied(const icl_model *model, icl_backend *backend, size_t depth,
                                   const icl_model_tensors *with, icl_error *error) {
    const size_t rows[] = {depth, model->size}, row[] = {1, model->size}, all = depth * model->size;
    icl_tensor repeated = {0}, of_layers = {0};
    icl_status status = ICL_OK;

    ICL_TRY(repeat_parameters(model, backend, depth, with->parameters, &repeated, error));
    ICL_TRY(icl_tensor_create(backend, 1, &all, &of_layers, error));
    ICL_TRY(gradient(model, backend, depth, with, repeated, of_layers, error));
    ICL_TRY(icl_reduce(backend, ICL_SUM, 1, icl_tensor_reshape(with->gradient, 2, row),
                       icl_tensor_reshape(of_layers, 2, rows), error));
done:
    icl_tensor_release(&repeated);
    icl_tensor_release(&of_layers);
    return status;
}

icl_status icl_linear_gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                     const icl_model_tensors *with, icl_error *error) {
    if (((const icl_linear_transformer_state *)model->state)->is_tied)
        return gradient_of_tied(model, backend, depth, with, error);
    return gradient(model, backend, depth, with, with->parameters, with->gradient, error);
}
