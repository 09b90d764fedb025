/* Models made from overrides of the default recipe, with parameters and tokens on a device. */
#ifndef ICLAB_TESTS_MODEL_FIXTURE_H
#define ICLAB_TESTS_MODEL_FIXTURE_H

#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/iclab.h"
#include "iclab/status.h"
#include "recipes.h"

static const char *const parameterizations[] = {"full", "diag", "gd++", "sparse", "sparse-b"};
enum { FULL, DIAG, GDPP, SPARSE, SPARSE_B, PARAMETERIZATIONS };

/* The target of every prediction. */
#define TARGET 0.7

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
} model_fixture;

/* ---- Models ---- */

/* Makes a model by overrides of the section model: "layers=2 heads=1". */
static inline icl_status make_model(const char *overrides, icl_task_shape shape, icl_model **model, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = make_recipe("model.", overrides, &recipe, error);

    if (status == ICL_OK)
        status = icl_model_create(recipe, shape, model, error);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Checks that the model is refused by one line that has the expected words. */
static inline void check_refusal(tap_run *tap, const char *overrides, icl_task_shape shape, const char *expected) {
    icl_model *model = NULL;
    icl_error error = {0};
    const icl_status status = make_model(overrides, shape, &model, &error);

    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, expected) && !strchr(error.message, '\n'), "%s: %s",
           overrides, error.message);
    icl_model_destroy(&model);
}

/* Makes a linear transformer with this initialization. */
static inline icl_model *make_linear(const setting *config, const char *initialization, const char *init_std) {
    icl_model *model = NULL;
    char overrides[256];

    snprintf(overrides, sizeof overrides,
             "parameterization=%s scale=%s heads=%zu layers=%zu initialization=%s init_std=%s",
             parameterizations[config->parameterization], config->mean ? "mean" : "raw", config->heads, config->layers,
             initialization, init_std);
    tap_need(make_model(overrides, icl_regression_shape(config->dimension, config->context), &model, tap_error()));
    return model;
}

/* ---- On a device ---- */

/* Creates the tape and tensors that a prediction needs, with the sizes of the setting. The fixture takes ownership of
 * the model. */
static inline void fixture_create(model_fixture *f, icl_backend *backend, const setting *config, icl_model *model) {
    const size_t tokens[] = {config->batch, config->context + 1, config->dimension + 1}, size = icl_model_size(model);

    *f = (model_fixture){.is = *config, .backend = backend, .model = model};
    tap_need(icl_tape_create(backend, &f->tape, tap_error()));
    tap_need(icl_tensor_create(backend, 1, &size, &f->parameters, tap_error()));
    tap_need(icl_tensor_create(backend, 1, &size, &f->gradient, tap_error()));
    tap_need(icl_tensor_create(backend, 3, tokens, &f->tokens, tap_error()));
}

static inline void fixture_open(model_fixture *f, icl_backend *backend, const setting *config) {
    fixture_create(f, backend, config, make_linear(config, "normal", "0.3"));
}

static inline void fixture_close(model_fixture *f) {
    icl_tape_destroy(&f->tape);
    icl_tensor_release(&f->parameters);
    icl_tensor_release(&f->gradient);
    icl_tensor_release(&f->tokens);
    icl_model_destroy(&f->model);
}

static inline void fixture_write(model_fixture *f, const float *parameters, const float *tokens) {
    tap_need(icl_tensor_write(f->parameters, parameters, tap_error()));
    tap_need(icl_tensor_write(f->tokens, tokens, tap_error()));
}

/* Records the prediction on a fresh tape. */
static inline icl_variable fixture_predict(model_fixture *f, size_t depth) {
    icl_tape_reset(f->tape);
    return icl_model_record(f->model, f->tape, f->parameters, f->gradient, f->tokens, depth);
}

static inline void fixture_read(model_fixture *f, size_t depth, double *predictions) {
    const icl_variable out = fixture_predict(f, depth);
    tap_need(icl_tape_status(f->tape, tap_error()));
    tap_need(icl_tensor_read_double(icl_tape_value(f->tape, out), predictions, tap_error()));
}

/* Records the sum of (prediction - TARGET)^2 over the number of sequences. */
static inline icl_variable fixture_loss(model_fixture *f, size_t depth, icl_variable *prediction) {
    *prediction = fixture_predict(f, depth);
    const icl_variable target = icl_tape_filled(f->tape, 1, (const size_t[]){1}, TARGET);
    const icl_variable miss = icl_tape_binary(f->tape, ICL_SUBTRACT, *prediction, target);
    return icl_tape_scale(f->tape, 1.0 / (double)f->is.batch, icl_tape_reduce(f->tape, ICL_SUM_OF_SQUARES, 7, miss));
}

/* Computes predictions, and the gradient of the loss, by the tape. */
static inline void fixture_gradient(model_fixture *f, size_t depth, double *predictions, double *gradient) {
    icl_variable prediction;

    tap_need(icl_fill(f->backend, f->gradient, 0.0, tap_error()));
    const icl_variable loss = fixture_loss(f, depth, &prediction);
    tap_need(icl_tape_backward(f->tape, loss, tap_error()));
    tap_need(icl_tensor_read_double(icl_tape_value(f->tape, prediction), predictions, tap_error()));
    tap_need(icl_tensor_read_double(f->gradient, gradient, tap_error()));
}

/* Computes the gradient of the loss by central differences. */
static inline void fixture_differences(model_fixture *f, size_t depth, double *gradient) {
    const size_t size = icl_model_size(f->model);
    const double h = 1e-5;
    double *point = NULL, loss[2];
    icl_variable prediction;

    tap_need(icl_allocate(size, sizeof *point, "parameters", &point, tap_error()));
    tap_need(icl_tensor_read_double(f->parameters, point, tap_error()));
    for (size_t i = 0; i < size; i++) {
        const double value = point[i];
        for (int side = 0; side < 2; side++) {
            point[i] = value + (side ? h : -h);
            tap_need(icl_tensor_write_double(f->parameters, point, tap_error()));
            const icl_variable out = fixture_loss(f, depth, &prediction);
            tap_need(icl_tape_status(f->tape, tap_error()));
            tap_need(icl_tensor_read_double(icl_tape_value(f->tape, out), &loss[side], tap_error()));
        }
        point[i] = value;
        gradient[i] = (loss[1] - loss[0]) / (2.0 * h);
    }
    icl_free(&point);
}

/* ---- Numbers ---- */

/* Fills with standard normal numbers times `scale`, the same on every machine. */
static inline void fill_normal(float *values, size_t count, uint32_t stream, float scale) {
    for (size_t i = 0; i < count; i++)
        values[i] = scale * icl_normal_from_word(icl_random_word((icl_random_key){.seed = 5, .stream = stream}, i));
}

/* Fills parameters so small that layers stay of order 1: products of the entries of two vectors, or of matrices. */
static inline void fill_parameters(const icl_model *model, const setting *config, float *values) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        const float scale = info->rank == 1 ? 0.7F : 0.3F;
        fill_normal(values + info->offset, info->count, 100 + (uint32_t)i, config->mean ? scale : 0.5F * scale);
    }
}

/* Fills tokens (x_i, y_i) with normal x and y, and y = 0 in the query. */
static inline void fill_tokens(float *tokens, const setting *config) {
    const size_t width = config->dimension + 1, length = config->context + 1;
    fill_normal(tokens, config->batch * length * width, 11, 1.0F);
    for (size_t b = 0; b < config->batch; b++)
        tokens[(b * length + config->context) * width + config->dimension] = 0.0F;
}

/* Returns the largest difference, relative to the largest of the expected numbers and `least`; infinity if any is not
 * finite. */
static inline double distance(const double *seen, const double *expected, size_t count, double least) {
    double largest = least, worst = 0.0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
        worst = isfinite(seen[i]) && isfinite(expected[i]) ? fmax(worst, fabs(seen[i] - expected[i])) : HUGE_VAL;
    }
    return worst / largest;
}

#endif
