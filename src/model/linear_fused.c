/* Linear transformers by the backend's ops for the whole model, instead of on the tape. */
#include "model/linear_transformer.h"

static icl_linear_transformer_params params_of(const icl_model *model, size_t depth) {
    const icl_linear_transformer_state *state = model->state;
    return (icl_linear_transformer_params){
        .form = state->form,
        .layers = model->layers,
        .depth = depth,
        .heads = state->heads,
        .factor = state->is_mean ? 1.0 / (double)model->context : 1.0,
        .space = state->space,
    };
}

icl_status icl_linear_predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                    const icl_model_tensors *with, icl_error *error) {
    const icl_linear_transformer_params params = params_of(model, depth);
    return icl_linear_transformer_predict(backend, &params, with->predictions, with->parameters, with->tokens,
                                          with->gram, with->query, error);
}

icl_status icl_linear_gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                     const icl_model_tensors *with, icl_error *error) {
    const icl_linear_transformer_params params = params_of(model, depth);
    return icl_linear_transformer_gradient(backend, &params, with->predictions, with->gradient, with->norms,
                                           with->parameters, with->tokens, with->gram, with->query,
                                           with->targets, with->threshold, error);
}
