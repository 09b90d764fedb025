/* Sequence models made from overrides of the default recipe, on a backend. */
#ifndef ICLAB_TESTS_MODEL_SEQUENCE_FIXTURE_H
#define ICLAB_TESTS_MODEL_SEQUENCE_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/iclab.h"
#include "iclab/status.h"
#include "recipes.h"

enum { MOST_NUMBERS = 8192 };

/* B sequences of a small task: p coordinates or V symbols at T positions, q outputs at the last `scored`. */
typedef struct setting {
    const char *overrides; /* "mixer=delta heads=2", without "model." */
    icl_task_shape shape;
    size_t batch;
} setting;

typedef struct fixture {
    icl_backend *backend;
    icl_model *model;
    icl_tape *tape;
    icl_tensor parameters, gradient, inputs;
    size_t outputs; /* B S q */
} fixture;

static const icl_task_shape small_shape = {
    .positions = 6, .inputs = 3, .outputs = 2, .first_scored = 2, .scored = 4, .loss = ICL_LOSS_SQUARED_ERROR};

/* A small model's sizes, which the overrides may change. */
static const char *const small_sizes = "family=sequence layers=2 width=6 heads=2 ";

static inline icl_status make_model(const setting *config, icl_model **model, icl_error *error) {
    icl_recipe *recipe = NULL;
    char overrides[2048];

    snprintf(overrides, sizeof overrides, "%s%s", small_sizes, config->overrides);
    icl_status status = make_recipe("model.", overrides, &recipe, error);
    if (status == ICL_OK)
        status = icl_model_create(recipe, config->shape, model, error);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Checks that the model is refused by one line that has the expected words. */
static inline void check_refusal(tap_run *tap, const setting *config, const char *expected) {
    icl_model *model = NULL;
    icl_error error = {0};
    const icl_status status = make_model(config, &model, &error);

    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, expected) && !strchr(error.message, '\n'), "%s: %s",
           config->overrides, error.message);
    icl_model_destroy(&model);
}

/* Returns the small task; with symbols if the overrides begin with "symbols "; with one scored position if the readout
 * is pooled. */
static inline setting setting_of(const char *overrides, size_t batch) {
    setting is = {overrides, small_shape, batch};
    if (strstr(overrides, "pooled"))
        is.shape.scored = 1;
    if (strncmp(overrides, "symbols ", 8) == 0) {
        is.overrides = overrides + 8;
        is.shape.symbols = 5;
        is.shape.outputs = strstr(overrides, "tied_embedding") ? 5 : is.shape.outputs;
        is.shape.inputs = 0;
    }
    return is;
}

/* As above, with 37 positions that are all scored: a whole chunk of the kernels and a part of one. */
static inline setting long_setting(const char *overrides, size_t batch) {
    setting is = setting_of(overrides, batch);
    is.shape.positions = 37;
    is.shape.first_scored = 0;
    is.shape.scored = is.shape.scored == 1 ? 1 : 37;
    return is;
}

static inline float noise(uint32_t stream, size_t index) {
    return icl_normal_from_word(icl_random_word((icl_random_key){.seed = 7, .stream = stream}, index));
}

/* Writes initial parameters, moved a little, so that none is exactly 0 or 1. */
static inline void write_parameters(fixture *f) {
    const size_t size = icl_model_size(f->model);
    float *values = NULL;

    tap_need(icl_allocate(size, sizeof *values, "parameters", &values, tap_error()));
    icl_model_initialize(f->model, 3, values);
    for (size_t i = 0; i < size; i++)
        values[i] += 0.2F * noise(1, i);
    tap_need(icl_tensor_write(f->parameters, values, tap_error()));
    icl_free(&values);
}

static inline float input_at(const setting *config, size_t index) {
    if (config->shape.symbols > 0)
        return (float)(icl_random_word((icl_random_key){.seed = 9}, index) % config->shape.symbols);
    return noise(2, index);
}

static inline void write_inputs(fixture *f, const setting *config) {
    const size_t count = icl_tensor_count(&f->inputs);
    float *values = NULL;

    tap_need(icl_allocate(count, sizeof *values, "inputs", &values, tap_error()));
    for (size_t i = 0; i < count; i++)
        values[i] = input_at(config, i);
    tap_need(icl_tensor_write(f->inputs, values, tap_error()));
    icl_free(&values);
}

static inline void fixture_open(fixture *f, icl_backend *backend, const setting *config) {
    const size_t inputs[] = {config->batch, config->shape.positions, config->shape.inputs};
    size_t size;

    *f = (fixture){.backend = backend, .outputs = config->batch * config->shape.scored * config->shape.outputs};
    tap_need(make_model(config, &f->model, tap_error()));
    size = icl_model_size(f->model);
    tap_need(icl_tape_create(backend, &f->tape, tap_error()));
    tap_need(icl_tensor_create(backend, 1, &size, &f->parameters, tap_error()));
    tap_need(icl_tensor_create(backend, 1, &size, &f->gradient, tap_error()));
    tap_need(icl_tensor_create(backend, config->shape.symbols > 0 ? 2 : 3, inputs, &f->inputs, tap_error()));
    write_parameters(f);
    write_inputs(f, config);
}

static inline void fixture_close(fixture *f) {
    icl_tape_destroy(&f->tape);
    icl_tensor_release(&f->parameters);
    icl_tensor_release(&f->gradient);
    icl_tensor_release(&f->inputs);
    icl_model_destroy(&f->model);
}

/* The numbers of model.dropout. */
static const icl_dropout_numbers fixture_dropout = {.key = {.seed = 5, .stream = 4, .step = 3}};

/* Records the outputs [B, S, q] on a fresh tape. */
static inline icl_variable record(fixture *f) {
    icl_tape_reset(f->tape);
    icl_tape_set_dropout(f->tape, fixture_dropout);
    return icl_model_record(f->model, f->tape, f->parameters, f->gradient, f->inputs, icl_model_layers(f->model));
}

static inline void read_outputs(fixture *f, double *outputs) {
    const icl_variable out = record(f);
    tap_need(icl_tape_status(f->tape, tap_error()));
    tap_need(icl_tensor_read_double(icl_tape_value(f->tape, out), outputs, tap_error()));
}

/* Computes the outputs of a setting. */
static inline void outputs_of(icl_backend *backend, const setting *config, double *outputs) {
    fixture f;

    fixture_open(&f, backend, config);
    read_outputs(&f, outputs);
    fixture_close(&f);
}

/* Returns random targets [B, S, q], to be released by the caller. */
static inline icl_tensor make_targets(const fixture *f, const setting *config) {
    icl_tensor targets = {0};
    double values[64];

    tap_need(icl_tensor_create(f->backend, 3, (size_t[]){config->batch, config->shape.scored, config->shape.outputs},
                               &targets, tap_error()));
    for (size_t i = 0; i < f->outputs; i++)
        values[i] = (double)noise(5, i);
    tap_need(icl_tensor_write_double(targets, values, tap_error()));
    return targets;
}

/* Records the mean of (output - target)^2. */
static inline icl_variable loss_of(const fixture *f, icl_variable outputs, icl_tensor targets) {
    const icl_variable miss = icl_tape_binary(f->tape, ICL_SUBTRACT, outputs, icl_tape_constant(f->tape, targets));
    return icl_tape_reduce(f->tape, ICL_MEAN, 7, icl_tape_unary(f->tape, ICL_SQUARE, miss));
}

/* Records a loss on a fresh tape. */
typedef icl_variable record_loss(fixture *f, icl_tensor targets, const void *how);

/* Computes the gradient of the loss by central differences. */
static inline void differentiate(fixture *f, record_loss *record_this, icl_tensor targets, const void *how,
                                 double *gradient) {
    const double h = 1e-5;
    static double point[MOST_NUMBERS];
    double loss[2];

    tap_need(icl_tensor_read_double(f->parameters, point, tap_error()));
    for (size_t i = 0; i < icl_model_size(f->model); i++) {
        const double value = point[i];
        for (int side = 0; side < 2; side++) {
            point[i] = value + (side ? h : -h);
            tap_need(icl_tensor_write_double(f->parameters, point, tap_error()));
            const icl_variable seen = record_this(f, targets, how);
            tap_need(icl_tape_status(f->tape, tap_error()));
            tap_need(icl_tensor_read_double(icl_tape_value(f->tape, seen), &loss[side], tap_error()));
        }
        point[i] = value;
        gradient[i] = (loss[1] - loss[0]) / (2 * h);
    }
}

/* Returns the largest difference; infinity if either is NaN. */
static inline double distance(const double *a, const double *b, size_t count) {
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = isnan(a[i]) || isnan(b[i]) ? HUGE_VAL : fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

static inline double largest_of(const double *a, size_t count) {
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(a[i]));
    return largest;
}

#endif
