/* The matrices that the parameters of a linear transformer stand for, and the conversion of a model into a full one. */
#include <string.h>

#include "core/allocate.h"
#include "model/linear_transformer.h"

size_t icl_linear_own_layers(const icl_model *model) {
    return ((const icl_linear_transformer_state *)model->state)->is_tied ? 1 : model->layers;
}

size_t icl_linear_trained_parts(const icl_linear_pair *pair) {
    size_t count = 0;
    for (int part = 0; part < ICL_LINEAR_PARTS; part++)
        count += pair->parts[part].name != NULL;
    return count;
}

/* Returns the parameter that a part of a head is made from; NULL if that part is not trained. */
static const icl_parameter_info *find_parameter(const icl_model *model, size_t layer, size_t head, int part) {
    const icl_linear_transformer_state *state = model->state;
    const size_t trained = icl_linear_trained_parts(state->pair);
    const size_t own = state->is_tied ? 0 : layer;
    size_t index = (own * state->heads + head) * trained;

    if (!state->pair->parts[part].name)
        return NULL;
    for (int before = 0; before < part; before++)
        index += state->pair->parts[before].name != NULL;
    return &model->parameters[index];
}

/* Sets matrix to diag(p) + sum of u_k v_k^T. */
static void fill_low_rank(const float *parameter, size_t rank, size_t width, float *matrix) {
    const float *left = parameter + width, *right = left + rank * width;

    for (size_t i = 0; i < width; i++)
        for (size_t j = 0; j < width; j++) {
            double sum = i == j ? (double)parameter[i] : 0;
            for (size_t k = 0; k < rank; k++)
                sum += (double)left[k * width + i] * (double)right[k * width + j];
            matrix[i * width + j] = (float)sum;
        }
}

/* Writes the D x D matrix of a part. parameter is NULL if the part has none. */
static void fill_matrix(icl_linear_part_kind kind, const float *parameter, size_t rank, size_t d, float *matrix) {
    const size_t width = d + 1;

    memset(matrix, 0, width * width * sizeof *matrix);
    if (kind == ICL_PART_LABEL_ONE)
        matrix[width * width - 1] = 1;
    if (!parameter)
        return;
    switch (kind) {
    case ICL_PART_MATRIX:
        memcpy(matrix, parameter, width * width * sizeof *matrix);
        break;
    case ICL_PART_DIAGONAL:
    case ICL_PART_INPUT_DIAGONAL:
        for (size_t i = 0; i < d; i++)
            matrix[i * width + i] = parameter[0];
        matrix[width * width - 1] = kind == ICL_PART_DIAGONAL ? parameter[1] : 0;
        break;
    case ICL_PART_INPUT_BLOCK:
    case ICL_PART_INPUT_BLOCK_LABEL_ONE:
        for (size_t i = 0; i < d; i++)
            memcpy(matrix + i * width, parameter + i * d, d * sizeof *matrix);
        matrix[width * width - 1] = kind == ICL_PART_INPUT_BLOCK_LABEL_ONE ? 1 : 0;
        break;
    case ICL_PART_LABEL_ONE:
        break;
    case ICL_PART_DIAGONAL_LOW_RANK:
        fill_low_rank(parameter, rank, width, matrix);
        break;
    }
}

static icl_status check_family(const icl_model *model, icl_error *error) {
    if (model->family == &icl_linear_transformer)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "model.family = %s: expected linear: no other has P and Q",
                    model->family->name);
}

icl_status icl_model_dense(const icl_model *model, const float *values, size_t layer, size_t head, icl_model_part part,
                           float *matrix, icl_error *error) {
    const icl_linear_transformer_state *state = model->state;

    ICL_CHECK(check_family(model, error));
    if (layer >= model->layers || head >= state->heads)
        return icl_fail(error, ICL_ERROR_INPUT, "layer %zu, head %zu: expected them below %zu and %zu", layer, head,
                        model->layers, state->heads);
    const icl_parameter_info *info = find_parameter(model, layer, head, (int)part);
    fill_matrix(state->pair->parts[part].kind, info ? values + info->offset : NULL, state->rank, model->dimension,
                matrix);
    return ICL_OK;
}

size_t icl_model_heads(const icl_model *model) {
    const icl_linear_transformer_state *state = model->state;
    return model->family == &icl_linear_transformer ? state->heads : 1;
}

double icl_model_attention_factor(const icl_model *model) {
    const icl_linear_transformer_state *state = model->state;
    return model->family == &icl_linear_transformer && state->is_mean ? 1.0 / (double)model->context : 1.0;
}

icl_status icl_model_embed(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                           icl_error *error) {
    const icl_linear_transformer_state *state = to->state;
    icl_status status = ICL_OK;

    ICL_TRY(check_family(from, error));
    ICL_TRY(check_family(to, error));
    if (state->parameterization != ICL_LINEAR_FULL || state->rank > 0 || state->is_tied || from->layers > to->layers ||
        icl_model_heads(from) != state->heads || from->dimension != to->dimension) {
        status =
            icl_fail(error, ICL_ERROR_INPUT,
                     "a model of %zu layers, %zu heads and %zu inputs cannot become the other: expected a "
                     "full one, not tied, of as many heads and inputs and no fewer layers (%zu, %zu, %zu)",
                     from->layers, icl_model_heads(from), from->dimension, to->layers, state->heads, to->dimension);
        goto done;
    }
    for (size_t layer = 0; layer < from->layers; layer++) {
        const size_t place = layer + 1 < from->layers ? layer : to->layers - 1;
        for (size_t head = 0; head < state->heads; head++)
            for (int part = 0; part < ICL_LINEAR_PARTS; part++)
                ICL_TRY(icl_model_dense(from, from_values, layer, head, (icl_model_part)part,
                                        to_values + find_parameter(to, place, head, part)->offset, error));
    }
done:
    return status;
}
