/* Sequence models made from overrides of the default recipe, on a backend. */
#ifndef ICLAB_TESTS_MODEL_SEQUENCE_FIXTURE_H
#define ICLAB_TESTS_MODEL_SEQUENCE_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/iclab.h"
#include "iclab/status.h"
#include "tap.h"

enum { MOST_OVERRIDES = 24, MOST_NUMBERS = 8192 };

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

/* A small model's sizes, before the overrides. */
static const char *const small_sizes = "family=sequence layers=2 width=6 heads=2 ";

static inline icl_status read_overrides(icl_recipe *recipe, const char *list, icl_error *error) {
    char text[2048], assignment[128];
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "%s%s", small_sizes, list);
    for (char *word = text; status == ICL_OK && *word;) {
        const size_t length = strcspn(word, " ");
        snprintf(assignment, sizeof assignment, "model.%.*s", (int)length, word);
        if (length > 0)
            status = icl_recipe_override(recipe, assignment, error);
        word += length;
        word += strspn(word, " ");
    }
    return status;
}

static inline icl_status make_model(const setting *is, icl_model **model, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(read_overrides(recipe, is->overrides, error));
    ICL_TRY(icl_model_create(recipe, is->shape, model, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static inline float noise(uint32_t stream, size_t index) {
    return icl_normal_from_word(icl_random_word((icl_random_key){.seed = 7, .stream = stream}, index));
}

/* What initialization gives, moved a little, so that nothing is at 0 or 1. */
static inline icl_status write_parameters(fixture *f, icl_error *error) {
    const size_t size = icl_model_size(f->model);
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *values, "parameters", &values, error));
    icl_model_initialize(f->model, 3, values);
    for (size_t i = 0; i < size; i++)
        values[i] += 0.2F * noise(1, i);
    ICL_TRY(icl_tensor_write(f->parameters, values, error));
done:
    icl_free(&values);
    return status;
}

static inline float input_at(const setting *is, size_t index) {
    if (is->shape.symbols > 0)
        return (float)(icl_random_word((icl_random_key){.seed = 9}, index) % is->shape.symbols);
    return noise(2, index);
}

static inline icl_status write_inputs(fixture *f, const setting *is, icl_error *error) {
    const size_t count = icl_tensor_count(&f->inputs);
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(count, sizeof *values, "inputs", &values, error));
    for (size_t i = 0; i < count; i++)
        values[i] = input_at(is, i);
    ICL_TRY(icl_tensor_write(f->inputs, values, error));
done:
    icl_free(&values);
    return status;
}

static inline icl_status fixture_open(fixture *f, icl_backend *backend, const setting *is, icl_error *error) {
    const size_t inputs[] = {is->batch, is->shape.positions, is->shape.inputs};
    icl_status status = ICL_OK;
    size_t size;

    *f = (fixture){.backend = backend, .outputs = is->batch * is->shape.scored * is->shape.outputs};
    ICL_TRY(make_model(is, &f->model, error));
    size = icl_model_size(f->model);
    ICL_TRY(icl_tape_create(backend, &f->tape, error));
    ICL_TRY(icl_tensor_create(backend, 1, &size, &f->parameters, error));
    ICL_TRY(icl_tensor_create(backend, 1, &size, &f->gradient, error));
    ICL_TRY(icl_tensor_create(backend, is->shape.symbols > 0 ? 2 : 3, inputs, &f->inputs, error));
    ICL_TRY(write_parameters(f, error));
    ICL_TRY(write_inputs(f, is, error));
done:
    return status;
}

static inline void fixture_close(fixture *f) {
    icl_tape_destroy(&f->tape);
    icl_tensor_release(&f->parameters);
    icl_tensor_release(&f->gradient);
    icl_tensor_release(&f->inputs);
    icl_model_destroy(&f->model);
}

/* Outputs [B, S, q] on a fresh tape. */
static inline icl_variable record(fixture *f) {
    icl_tape_reset(f->tape);
    return icl_model_record(f->model, f->tape, f->parameters, f->gradient, f->inputs, icl_model_layers(f->model));
}

static inline icl_status read_outputs(fixture *f, double *outputs, icl_error *error) {
    const icl_variable out = record(f);
    ICL_CHECK(icl_tape_status(f->tape, error));
    return icl_tensor_read_double(icl_tape_value(f->tape, out), outputs, error);
}

/* Outputs of a setting. */
static inline icl_status outputs_of(icl_backend *backend, const setting *is, double *outputs, icl_error *error) {
    fixture f;
    icl_status status = ICL_OK;

    ICL_TRY(fixture_open(&f, backend, is, error));
    ICL_TRY(read_outputs(&f, outputs, error));
done:
    fixture_close(&f);
    return status;
}

/* Largest difference; infinite where either is NaN. */
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
