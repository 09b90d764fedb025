/* A model made from overrides of the default recipe, with parameters and tokens on a device. */
#ifndef ICLAB_TESTS_MODEL_FIXTURE_H
#define ICLAB_TESTS_MODEL_FIXTURE_H

#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/iclab.h"
#include "iclab/recipe.h"
#include "iclab/status.h"
#include "tap.h"

static const char *const parameterizations[] = {"full", "diag", "gd++", "sparse", "sparse-b"};
enum { FULL, DIAG, GDPP, SPARSE, SPARSE_B, PARAMETERIZATIONS };

typedef struct setting {
    int parameterization;
    bool mean;
    size_t heads, layers, dimension, context, batch;
} setting;

typedef struct model_fixture {
    setting is;
    icl_backend *backend;
    icl_model *model;
    icl_tape *tape;
    icl_tensor parameters, gradient, tokens;
    icl_variable *variables;
} model_fixture;

static inline icl_status make_recipe(const char *const *overrides, size_t count, icl_recipe **recipe,
                                     icl_error *error) {
    icl_status status = icl_recipe_create_complete(recipe, error);
    for (size_t i = 0; status == ICL_OK && i < count; i++)
        status = icl_recipe_override(*recipe, overrides[i], error);
    return status;
}

static inline icl_status make_model(const setting *is, const char *initialization, const char *init_std,
                                    icl_model **model, icl_error *error) {
    char text[6][64];
    const char *overrides[6];
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    snprintf(text[0], sizeof text[0], "model.parameterization=%s", parameterizations[is->parameterization]);
    snprintf(text[1], sizeof text[1], "model.scale=%s", is->mean ? "mean" : "raw");
    snprintf(text[2], sizeof text[2], "model.heads=%zu", is->heads);
    snprintf(text[3], sizeof text[3], "model.layers=%zu", is->layers);
    snprintf(text[4], sizeof text[4], "model.initialization=%s", initialization);
    snprintf(text[5], sizeof text[5], "model.init_std=%s", init_std);
    for (int i = 0; i < 6; i++)
        overrides[i] = text[i];
    ICL_TRY(make_recipe(overrides, 6, &recipe, error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(is->dimension, is->context), model, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* What a prediction needs beside the model. */
static inline icl_status fixture_tensors(model_fixture *f, icl_error *error) {
    const setting *is = &f->is;
    const size_t tokens[] = {is->batch, is->context + 1, is->dimension + 1};
    const size_t size = icl_model_size(f->model);
    icl_backend *backend = f->backend;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(backend, &f->tape, error));
    ICL_TRY(icl_tensor_create(backend, 1, &size, &f->parameters, error));
    ICL_TRY(icl_tensor_create(backend, 1, &size, &f->gradient, error));
    ICL_TRY(icl_tensor_create(backend, 3, tokens, &f->tokens, error));
    ICL_TRY(icl_allocate(icl_model_parameter_count(f->model), sizeof *f->variables, "variables", &f->variables, error));
done:
    return status;
}

static inline icl_status fixture_open(model_fixture *f, icl_backend *backend, const setting *is, icl_error *error) {
    icl_status status = ICL_OK;

    *f = (model_fixture){.is = *is, .backend = backend};
    ICL_TRY(make_model(is, "normal", "0.3", &f->model, error));
    ICL_TRY(fixture_tensors(f, error));
done:
    return status;
}

static inline void fixture_close(model_fixture *f) {
    icl_tape_destroy(&f->tape);
    icl_tensor_release(&f->parameters);
    icl_tensor_release(&f->gradient);
    icl_tensor_release(&f->tokens);
    icl_model_destroy(&f->model);
    icl_free(&f->variables);
}

/* Records the prediction on a fresh tape. */
static inline icl_variable fixture_predict(model_fixture *f, size_t depth) {
    icl_tape_reset(f->tape);
    for (size_t i = 0; i < icl_model_parameter_count(f->model); i++) {
        const icl_parameter_info *info = icl_model_parameter(f->model, i);
        const icl_tensor value = icl_tensor_slice(f->parameters, 0, info->offset, info->count);
        const icl_tensor gradient = icl_tensor_slice(f->gradient, 0, info->offset, info->count);
        f->variables[i] = icl_tape_parameter(f->tape, icl_tensor_reshape(value, info->rank, info->shape),
                                             icl_tensor_reshape(gradient, info->rank, info->shape));
    }
    return icl_model_predict_at_depth(f->model, f->tape, f->variables, icl_tape_constant(f->tape, f->tokens), depth);
}

static inline icl_status fixture_read(model_fixture *f, size_t depth, double *predictions, icl_error *error) {
    const icl_variable out = fixture_predict(f, depth);
    const icl_status status = icl_tape_status(f->tape, error);
    return status == ICL_OK ? icl_tensor_read_double(icl_tape_value(f->tape, out), predictions, error) : status;
}

/* Standard normal numbers, the same on every machine. */
static inline void fill_normal(float *values, size_t count, uint32_t stream, float scale) {
    for (size_t i = 0; i < count; i++)
        values[i] = scale * icl_normal_from_word(icl_random_word((icl_random_key){.seed = 5, .stream = stream}, i));
}

/* Parameters small enough that layers stay of order 1: products of two vectors' entries, or of matrices. */
static inline void fill_parameters(const icl_model *model, const setting *is, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const float scale = info->rank == 1 ? 0.7F : 0.3F;
        fill_normal(values + info->offset, info->count, 100 + (uint32_t)i, is->mean ? scale : 0.5F * scale);
    }
}

/* Tokens (x_i, y_i) with normal x, y and y = 0 in the query. */
static inline void fill_tokens(float *tokens, const setting *is) {
    const size_t width = is->dimension + 1, length = is->context + 1;
    fill_normal(tokens, is->batch * length * width, 11, 1.0F);
    for (size_t b = 0; b < is->batch; b++)
        tokens[(b * length + is->context) * width + is->dimension] = 0.0F;
}

#endif
