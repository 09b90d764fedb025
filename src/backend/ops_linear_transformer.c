/* The public ops of whole linear transformers: validation, then dispatch. */
#include <math.h>
#include <stdint.h>

#include "backend/dispatch.h"
#include "backend/linear_transformer.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* The extents that the sequences imply, and how they were given. */
typedef struct sequences {
    size_t batch, context, tokens; /* tokens: D */
    bool is_gram;
} sequences;

static icl_status check_params(const char *op, const icl_linear_transformer_params *params, icl_error *error) {
    if ((unsigned)params->parameterization >= ICL_PARAMETERIZATION_COUNT)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown parameterization %d", op, (int)params->parameterization);
    if ((unsigned)params->space > ICL_SPACE_TOKENS)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: unknown space %d", op, (int)params->space);
    if (params->layers == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no layers, expected at least 1", op);
    if (params->depth > params->layers)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: depth %zu of %zu layers, expected at most all", op, params->depth,
                        params->layers);
    if (!isfinite(params->factor))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: factor %g, expected a finite number", op, params->factor);
    return ICL_OK;
}

static icl_status check_sequences(icl_backend *backend, const char *op, const icl_tensor *tokens,
                                  const icl_tensor *gram, const icl_tensor *query, sequences *is, icl_error *error) {
    *is = (sequences){.is_gram = gram->buffer != NULL};
    if ((tokens->buffer != NULL) == is->is_gram || is->is_gram != (query->buffer != NULL))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected either tokens, or gram and query", op);
    if (is->is_gram) {
        ICL_CHECK(icl_check_input(backend, op, "gram", gram, error));
        ICL_CHECK(icl_check_input(backend, op, "query", query, error));
        is->batch = query->rank == 2 ? query->shape[0] : 0;
        is->tokens = query->rank == 2 ? query->shape[1] : 0;
        ICL_CHECK(icl_check_shape(op, "query", query, 2, (const size_t[]){is->batch, is->tokens}, error));
        ICL_CHECK(icl_check_shape(op, "gram", gram, 3, (const size_t[]){is->batch, is->tokens, is->tokens}, error));
    } else {
        ICL_CHECK(icl_check_input(backend, op, "tokens", tokens, error));
        if (tokens->rank != 3 || tokens->shape[1] == 0)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: tokens have rank %d, expected [B, n + 1, D]", op,
                            tokens->rank);
        is->batch = tokens->shape[0];
        is->context = tokens->shape[1] - 1;
        is->tokens = tokens->shape[2];
    }
    if (is->tokens < 2)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: tokens of %zu coordinates, expected at least 2", op, is->tokens);
    return ICL_OK;
}

/* Parameters [N]; fills in what params leave open. */
static icl_status check_parameters(icl_backend *backend, const char *op, const sequences *is,
                                   icl_linear_transformer_params *params, const icl_tensor *parameters,
                                   icl_error *error) {
    size_t square, per_layer, all;

    params->heads = params->heads > 0 ? params->heads : 1;
    params->depth = params->depth > 0 ? params->depth : params->layers;
    if (!icl_multiply_sizes(is->tokens, is->tokens, &square) || square > SIZE_MAX / 2 ||
        !icl_multiply_sizes(2 * square, params->heads, &per_layer) ||
        !icl_multiply_sizes(per_layer, params->layers, &all))
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %zu layers of %zu heads for tokens of %zu coordinates overflow the address space", op,
                        params->layers, params->heads, is->tokens);
    const size_t size = icl_linear_transformer_size(params, is->tokens - 1);
    ICL_CHECK(icl_check_input(backend, op, "parameters", parameters, error));
    ICL_CHECK(icl_check_shape(op, "parameters", parameters, 1, &size, error));
    if (is->is_gram)
        params->space = ICL_SPACE_GRAM;
    else if (params->space == ICL_SPACE_AUTO)
        params->space = icl_linear_choose_space(params, is->tokens - 1, is->context);
    return ICL_OK;
}

/* One of the vectors: an output or input of this length. */
static icl_status check_vector(icl_backend *backend, const char *op, const char *role, const icl_tensor *vector,
                               bool is_output, size_t length, icl_error *error) {
    if (is_output)
        ICL_CHECK(icl_check_output(backend, op, role, vector, error));
    else
        ICL_CHECK(icl_check_input(backend, op, role, vector, error));
    return icl_check_shape(op, role, vector, 1, &length, error);
}

/* No output overlaps another operand. */
static icl_status check_overlaps(const char *op, const icl_tensor *operands, int outputs, int count, icl_error *error) {
    for (int out = 0; out < outputs; out++)
        for (int other = out + 1; other < count; other++)
            ICL_CHECK(icl_check_overlap(op, &operands[out], &operands[other], false, error));
    return ICL_OK;
}

icl_status icl_linear_transformer_predict(icl_backend *backend, const icl_linear_transformer_params *params,
                                          icl_tensor predictions, icl_tensor parameters, icl_tensor tokens,
                                          icl_tensor gram, icl_tensor query, icl_error *error) {
    static const char op[] = "linear_transformer_predict";
    const icl_tensor operands[] = {predictions, parameters, tokens, gram, query};
    icl_linear_transformer_params filled = *params;
    sequences is;

    ICL_CHECK(check_params(op, params, error));
    ICL_CHECK(check_sequences(backend, op, &tokens, &gram, &query, &is, error));
    ICL_CHECK(check_parameters(backend, op, &is, &filled, &parameters, error));
    ICL_CHECK(check_vector(backend, op, "predictions", &predictions, true, is.batch, error));
    ICL_CHECK(check_overlaps(op, operands, 1, 5, error));
    if (is.batch > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_linear_transformer_predict, &filled, operands, error));
    return ICL_OK;
}

icl_status icl_linear_transformer_gradient(icl_backend *backend, const icl_linear_transformer_params *params,
                                           icl_tensor losses, icl_tensor gradient, icl_tensor norms,
                                           icl_tensor parameters, icl_tensor tokens, icl_tensor gram, icl_tensor query,
                                           icl_tensor targets, icl_tensor threshold, icl_error *error) {
    static const char op[] = "linear_transformer_gradient";
    const icl_tensor operands[] = {losses, gradient, norms, parameters, tokens, gram, query, targets, threshold};
    icl_linear_transformer_params filled = *params;
    sequences is;

    ICL_CHECK(check_params(op, params, error));
    ICL_CHECK(check_sequences(backend, op, &tokens, &gram, &query, &is, error));
    ICL_CHECK(check_parameters(backend, op, &is, &filled, &parameters, error));
    ICL_CHECK(check_vector(backend, op, "losses", &losses, true, is.batch, error));
    ICL_CHECK(check_vector(backend, op, "gradient", &gradient, true, parameters.shape[0], error));
    if (norms.buffer || threshold.buffer)
        ICL_CHECK(check_vector(backend, op, "norms", &norms, true, is.batch, error));
    ICL_CHECK(check_vector(backend, op, "targets", &targets, false, is.batch, error));
    if (threshold.buffer)
        ICL_CHECK(check_vector(backend, op, "threshold", &threshold, false, 1, error));
    ICL_CHECK(check_overlaps(op, operands, 3, 9, error));
    if (is.batch > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_linear_transformer_gradient, &filled, operands, error));
    else
        ICL_CHECK(icl_fill(backend, gradient, 0.0, error));
    return ICL_OK;
}
