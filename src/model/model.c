/* The table of model families, and what all of them share. */
#include "model/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/random.h"

/* In the order of the words of model.family. */
static const icl_model_family *const families[] = {&icl_linear_transformer, &icl_softmax_attention};

icl_status icl_model_create(const icl_recipe *recipe, size_t dimension, size_t context, icl_model **model,
                            icl_error *error) {
    const size_t family = icl_recipe_word(recipe, "model", "family");
    icl_model *made = NULL;
    icl_status status = ICL_OK;

    if (family >= sizeof families / sizeof families[0])
        return icl_recipe_reject(recipe, "model", "family", error, "a family that this build has");
    if (dimension == 0 || context == 0)
        return icl_fail(error, ICL_ERROR_INPUT, "model: d = %zu and n = %zu, expected at least 1 of each",
                        dimension, context);
    ICL_TRY(icl_allocate(1, sizeof *made, "model", &made, error));
    made->family = families[family];
    made->dimension = dimension;
    made->context = context;
    ICL_TRY(made->family->create(recipe, made, error));
    *model = made;
    made = NULL;
done:
    icl_model_destroy(&made);
    return status;
}

void icl_model_destroy(icl_model **model) {
    if (!*model)
        return;
    (*model)->family->destroy(*model);
    icl_free(&(*model)->parameters);
    icl_free(model);
}

static icl_status reserve(icl_model *model, icl_error *error) {
    const size_t larger = model->parameter_capacity == 0 ? 16 : 2 * model->parameter_capacity;
    icl_parameter_info *parameters = NULL;
    icl_status status;

    if (model->parameter_count < model->parameter_capacity)
        return ICL_OK;
    status = icl_allocate(larger, sizeof *parameters, "names of parameters", &parameters, error);
    if (status != ICL_OK)
        return status;
    if (model->parameter_count > 0)
        memcpy(parameters, model->parameters, model->parameter_count * sizeof *parameters);
    icl_free(&model->parameters);
    model->parameters = parameters;
    model->parameter_capacity = larger;
    return ICL_OK;
}

icl_status icl_model_add_parameter(icl_model *model, int rank, const size_t *shape, icl_error *error,
                                   const char *format, ...) {
    icl_parameter_info info = {.rank = rank, .offset = model->size, .count = 1};
    icl_status status = reserve(model, error);
    va_list arguments;

    if (status != ICL_OK)
        return status;
    va_start(arguments, format);
    vsnprintf(info.name, sizeof info.name, format, arguments);
    va_end(arguments);
    for (int i = 0; i < rank; i++) {
        info.shape[i] = shape[i];
        if (!icl_multiply_sizes(info.count, shape[i], &info.count) || info.count > SIZE_MAX - model->size)
            return icl_fail(error, ICL_ERROR_MEMORY, "model: the sizes of %s overflow the address space",
                            info.name);
    }
    model->size += info.count;
    model->parameters[model->parameter_count++] = info;
    return ICL_OK;
}

size_t icl_model_size(const icl_model *model) {
    return model->size;
}

size_t icl_model_layers(const icl_model *model) {
    return model->layers;
}

size_t icl_model_parameter_count(const icl_model *model) {
    return model->parameter_count;
}

const icl_parameter_info *icl_model_parameter(const icl_model *model, size_t index) {
    return &model->parameters[index];
}

float icl_model_noise(uint32_t seed, size_t index) {
    return icl_normal_from_word(
        icl_random_word((icl_random_key){.seed = seed, .stream = ICL_MODEL_STREAM}, index));
}

void icl_model_initialize(const icl_model *model, uint32_t seed, float *values) {
    model->family->initialize(model, seed, values);
}

void icl_model_initialize_inserted(const icl_model *model, size_t layer, uint32_t seed, float *values) {
    model->family->initialize_inserted(model, layer, seed, values);
}

icl_variable icl_model_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                               icl_variable tokens) {
    return model->family->predict(model, tape, parameters, tokens, model->layers);
}

icl_variable icl_model_predict_at_depth(const icl_model *model, icl_tape *tape,
                                        const icl_variable *parameters, icl_variable tokens, size_t depth) {
    return model->family->predict(model, tape, parameters, tokens, depth);
}

bool icl_model_is_fused(const icl_model *model) {
    return model->family->gradient_fused && !model->composed;
}

icl_status icl_model_predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                   const icl_model_tensors *with, icl_error *error) {
    return model->family->predict_fused(model, backend, depth, with, error);
}

icl_status icl_model_gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                    const icl_model_tensors *with, icl_error *error) {
    return model->family->gradient_fused(model, backend, depth, with, error);
}
