/* Runs linear transformers with the backend's ops for the whole model, instead of on the tape. */
#include "iclab/status.h"
#include "model/linear_transformer.h"

static icl_linear_transformer_params params_of(const icl_model *model, size_t depth) {
    const icl_linear_transformer_state *state = model->state;
    return (icl_linear_transformer_params){
        .parameterization = state->parameterization,
        .layers = state->is_tied ? depth : model->layers,
        .depth = depth,
        .heads = state->heads,
        .factor = state->is_mean ? 1.0 / (double)model->context : 1.0,
        .space = state->space,
    };
}

/* Creates `depth` copies of a tied model's one layer, because the ops want parameters for every layer. */
static icl_status repeat_parameters(const icl_model *model, icl_backend *backend, size_t depth, icl_tensor parameters,
                                    icl_tensor *repeated, icl_error *error) {
    const size_t rows[] = {depth, model->size}, row[] = {1, model->size}, all = depth * model->size;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 1, &all, repeated, error));
    ICL_TRY(icl_copy(backend, icl_tensor_reshape(*repeated, 2, rows),
                     icl_tensor_broadcast(icl_tensor_reshape(parameters, 2, row), 0, depth), error));
done:
    return status;
}

/* ---- The matrices of diag+lowrank ---- */

/* Views of a vector of parameters (or of their gradient) [M, 1 + 2r, D], M = 2 layers * heads matrices; their dense
 * form is [M, D, D]. */
typedef struct low_rank {
    size_t matrices, rank, width;
    icl_tensor diagonal, left, right; /* [M, 1, D], [M, r, D], [M, r, D] */
} low_rank;

static low_rank view_low_rank(const icl_model *model, icl_tensor vector) {
    const icl_linear_transformer_state *state = model->state;
    const size_t rank = state->rank, width = model->dimension + 1;
    const size_t shape[] = {model->layers * state->heads * ICL_LINEAR_PARTS, 1 + 2 * rank, width};
    const icl_tensor all = icl_tensor_reshape(vector, 3, shape);

    return (low_rank){shape[0],
                      rank,
                      width,
                      icl_tensor_slice(all, 1, 0, 1),
                      icl_tensor_slice(all, 1, 1, rank),
                      icl_tensor_slice(all, 1, 1 + rank, rank)};
}

/* Returns the diagonals of matrices [M, D, D] as [M, D], a view. */
static icl_tensor diagonals_of(icl_tensor dense) {
    icl_tensor view = dense;

    view.rank = 2;
    view.stride[1] += dense.stride[2];
    return view;
}

/* Returns [M, 1, D] as [M, D], a view. */
static icl_tensor first_row(icl_tensor rows) {
    icl_tensor view = rows;

    view.rank = 2;
    view.shape[1] = rows.shape[2];
    view.stride[1] = rows.stride[2];
    return view;
}

/* Creates *dense [N], the parameters of the full model: diag(p) + U^T V for each matrix. */
static icl_status make_dense(const icl_model *model, icl_backend *backend, icl_tensor parameters, icl_tensor *dense,
                             icl_error *error) {
    const low_rank parts = view_low_rank(model, parameters);
    const size_t shape[] = {parts.matrices, parts.width, parts.width};
    const size_t all = shape[0] * shape[1] * shape[2];
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 1, &all, dense, error));
    const icl_tensor matrices = icl_tensor_reshape(*dense, 3, shape), diagonals = diagonals_of(matrices);
    ICL_TRY(icl_matmul(backend, matrices, 1.0, icl_tensor_swap_axes(parts.left, 1, 2), parts.right, 0.0, error));
    ICL_TRY(icl_binary(backend, ICL_ADD, diagonals, diagonals, first_row(parts.diagonal), error));
done:
    return status;
}

/* ---- The ops ---- */

/* Creates the parameters that the ops take, to be released by the caller. Creates none if they are the model's own. */
static icl_status make_parameters(const icl_model *model, icl_backend *backend, size_t depth, icl_tensor parameters,
                                  icl_tensor *tensor, icl_error *error) {
    const icl_linear_transformer_state *state = model->state;

    if (state->is_tied)
        return repeat_parameters(model, backend, depth, parameters, tensor, error);
    if (state->rank > 0)
        return make_dense(model, backend, parameters, tensor, error);
    return ICL_OK;
}

icl_status icl_linear_predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                    const icl_model_tensors *tensors, icl_error *error) {
    const icl_linear_transformer_params params = params_of(model, depth);
    icl_tensor made = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_parameters(model, backend, depth, tensors->parameters, &made, error));
    ICL_TRY(icl_linear_transformer_predict(backend, &params, tensors->predictions,
                                           made.buffer ? made : tensors->parameters, tensors->tokens, tensors->gram,
                                           tensors->query, error));
done:
    icl_tensor_release(&made);
    return status;
}
static icl_status gradient(const icl_model *model, icl_backend *backend, size_t depth, const icl_model_tensors *tensors,
                           icl_tensor parameters, icl_tensor out, icl_error *error) {
    const icl_linear_transformer_params params = params_of(model, depth);
    return icl_linear_transformer_gradient(backend, &params, tensors->losses, out, tensors->norms, parameters,
                                           tensors->tokens, tensors->gram, tensors->query, tensors->targets,
                                           tensors->threshold, error);
}

/* Computes d loss / d parameters of a tied model, the sum over the layers that share them. The norms are those of all
 * layers' gradients side by side: the trainer cuts no sequence by them. */
static icl_status gradient_of_tied(const icl_model *model, icl_backend *backend, size_t depth,
                                   const icl_model_tensors *tensors, icl_error *error) {
    const size_t rows[] = {depth, model->size}, row[] = {1, model->size}, all = depth * model->size;
    icl_tensor repeated = {0}, of_layers = {0};
    icl_status status = ICL_OK;

    ICL_TRY(repeat_parameters(model, backend, depth, tensors->parameters, &repeated, error));
    ICL_TRY(icl_tensor_create(backend, 1, &all, &of_layers, error));
    ICL_TRY(gradient(model, backend, depth, tensors, repeated, of_layers, error));
    ICL_TRY(icl_reduce(backend, ICL_SUM, 1, icl_tensor_reshape(tensors->gradient, 2, row),
                       icl_tensor_reshape(of_layers, 2, rows), error));
done:
    icl_tensor_release(&repeated);
    icl_tensor_release(&of_layers);
    return status;
}

/* Computes the gradient of diag+lowrank. With g = d loss / d (diag(p) + U^T V), the gradient of p is the diagonal of
 * g, that of U is V g^T, and that of V is U g. The norms are those of g. */
static icl_status gradient_of_low_rank(const icl_model *model, icl_backend *backend, size_t depth,
                                       const icl_model_tensors *tensors, icl_error *error) {
    const low_rank parts = view_low_rank(model, tensors->parameters), out = view_low_rank(model, tensors->gradient);
    const size_t shape[] = {parts.matrices, parts.width, parts.width};
    const size_t all = shape[0] * shape[1] * shape[2];
    icl_tensor dense = {0}, of_dense = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make_dense(model, backend, tensors->parameters, &dense, error));
    ICL_TRY(icl_tensor_create(backend, 1, &all, &of_dense, error));
    ICL_TRY(gradient(model, backend, depth, tensors, dense, of_dense, error));
    const icl_tensor g = icl_tensor_reshape(of_dense, 3, shape);
    ICL_TRY(icl_copy(backend, first_row(out.diagonal), diagonals_of(g), error));
    ICL_TRY(icl_matmul(backend, out.left, 1.0, parts.right, icl_tensor_swap_axes(g, 1, 2), 0.0, error));
    ICL_TRY(icl_matmul(backend, out.right, 1.0, parts.left, g, 0.0, error));
done:
    icl_tensor_release(&dense);
    icl_tensor_release(&of_dense);
    return status;
}

icl_status icl_linear_gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                     const icl_model_tensors *tensors, icl_error *error) {
    const icl_linear_transformer_state *state = model->state;

    if (state->is_tied)
        return gradient_of_tied(model, backend, depth, tensors, error);
    if (state->rank > 0)
        return gradient_of_low_rank(model, backend, depth, tensors, error);
    return gradient(model, backend, depth, tensors, tensors->parameters, tensors->gradient, error);
}
