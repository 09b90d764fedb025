/* Defines the shape on which a task and a model agree, the table of model families, and the functions that work for
 * all of them. */
#include "model/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "iclab/random.h"
#include "iclab/shape.h"
#include "iclab/status.h"

/* ---- Shapes ---- */

icl_task_shape icl_regression_shape(size_t dimension, size_t context) {
    return (icl_task_shape){
        .positions = context + 1, .inputs = dimension + 1, .outputs = 1, .first_scored = context, .scored = 1};
}

bool icl_task_shape_equal(const icl_task_shape *a, const icl_task_shape *b) {
    return a->positions == b->positions && a->inputs == b->inputs && a->symbols == b->symbols &&
           a->outputs == b->outputs && a->first_scored == b->first_scored && a->scored == b->scored &&
           a->loss == b->loss;
}

const char *icl_task_shape_text(const icl_task_shape *shape, char text[ICL_TASK_SHAPE_TEXT]) {
    const bool symbols = shape->symbols > 0;
    snprintf(text, ICL_TASK_SHAPE_TEXT, "%zu positions of %s%zu %s, %zu output%s at %zu position%s from %zu on by %s",
             shape->positions, symbols ? "one of " : "", symbols ? shape->symbols : shape->inputs,
             symbols ? "symbols" : "coordinates", shape->outputs, shape->outputs == 1 ? "" : "s", shape->scored,
             shape->scored == 1 ? "" : "s", shape->first_scored, icl_loss_name(shape->loss));
    return text;
}

icl_status icl_task_shape_check(const icl_task_shape *shape, const char *whose, icl_error *error) {
    char text[ICL_TASK_SHAPE_TEXT];

    if (shape->positions > 0 && (shape->inputs > 0) != (shape->symbols > 0) && shape->outputs > 0 &&
        shape->scored > 0 && shape->first_scored < shape->positions &&
        shape->scored <= shape->positions - shape->first_scored && shape->loss < ICL_LOSS_COUNT)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: a shape of %s, expected coordinates or symbols, at least 1 position and 1 output, and "
                    "scored positions within the sequence",
                    whose, icl_task_shape_text(shape, text));
}

/* ---- Families ---- */

#define COUNT(word, family) AT_##family,
enum { ICL_MODEL_FAMILIES(COUNT) };

#define CHOOSE(word, family) {word, AT_##family, family##_keys, &family},
static const icl_choice family_words[] = {ICL_MODEL_FAMILIES(CHOOSE){0}};

static const icl_choice initializations[] = {
    {"normal", ICL_INITIALIZE_NORMAL}, {"descent", ICL_INITIALIZE_DESCENT}, {0}};

#define KEY(field)      ICL_KEY("model", icl_model_settings, field)
#define KEY_NAME(field) ICL_KEY_NAME("model", icl_model_settings, field)

static const icl_recipe_key keys[] = {
    {KEY(family), "linear", .choices = family_words, .help = "architecture"},
    {KEY(layers), "4", 1, 1024, .help = "attention layers L"},
};
const icl_recipe_group icl_model_keys = ICL_RECIPE_GROUP(keys);

static const icl_recipe_key heads_keys[] = {
    {KEY(heads), "1", 1, 1024, .help = "attention heads in a layer"},
};
const icl_recipe_group icl_heads_keys = ICL_RECIPE_GROUP(heads_keys);

static const icl_recipe_key start_keys[] = {
    {KEY(initialization), "descent", .choices = initializations,
     .help = "parameters at random, or near what takes a few steps of gradient descent"},
    {KEY(init_std), "0.002", 0, 100, .help = "standard deviation of the random part"},
};
const icl_recipe_group icl_start_keys = ICL_RECIPE_GROUP(start_keys);

icl_model_settings icl_model_read(const icl_recipe *recipe) {
    icl_model_settings settings;

    icl_recipe_read(recipe, &icl_model_keys, &settings);
    icl_recipe_read(recipe, &icl_heads_keys, &settings);
    icl_recipe_read(recipe, &icl_start_keys, &settings);
    return settings;
}

icl_status icl_model_create_with(const icl_model_family *family, const icl_recipe *recipe, icl_task_shape shape,
                                 icl_model **model, icl_error *error) {
    icl_model *created = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_task_shape_check(&shape, "model", error));
    ICL_TRY(icl_allocate(1, sizeof *created, "model", &created, error));
    created->family = family;
    created->shape = shape;
    created->layers = 1;
    created->loops = 1;
    ICL_TRY(family->create(recipe, created, error));
    *model = created;
    created = NULL;
done:
    icl_model_destroy(&created);
    return status;
}

icl_status icl_model_create(const icl_recipe *recipe, icl_task_shape shape, icl_model **model, icl_error *error) {
    const icl_status status = icl_recipe_check(recipe, "model", error);

    if (status != ICL_OK)
        return status;
    return icl_model_create_with(icl_recipe_object(recipe, KEY_NAME(family), NULL), recipe, shape, model, error);
}

void icl_model_destroy(icl_model **model) {
    if (!*model)
        return;
    if ((*model)->family->destroy)
        (*model)->family->destroy(*model);
    icl_free(&(*model)->parameters);
    icl_free(model);
}

icl_status icl_model_refuse(const icl_model *model, const char *expected, icl_error *error) {
    char text[ICL_TASK_SHAPE_TEXT];
    return icl_fail(error, ICL_ERROR_INPUT, "model.family = %s answers %s; the task has %s", model->family->name,
                    expected, icl_task_shape_text(&model->shape, text));
}

icl_status icl_model_read_pairs(icl_model *model, icl_error *error) {
    const icl_task_shape *shape = &model->shape;
    icl_task_shape expected;
    char text[ICL_TASK_SHAPE_TEXT];

    model->dimension = shape->inputs > 1 ? shape->inputs - 1 : 1;
    model->context = shape->positions > 1 ? shape->positions - 1 : 1;
    expected = icl_regression_shape(model->dimension, model->context);
    return icl_task_shape_equal(shape, &expected)
               ? ICL_OK
               : icl_model_refuse(model, icl_task_shape_text(&expected, text), error);
}

icl_status icl_model_add_parameter(icl_model *model, int rank, const size_t *shape, icl_error *error,
                                   const char *format, ...) {
    icl_parameter_info info = {.rank = rank, .offset = model->size, .count = 1};
    va_list arguments;

    ICL_CHECK(icl_grow(&model->parameters, model->parameter_count, &model->parameter_capacity, sizeof info,
                       "names of parameters", error));
    va_start(arguments, format);
    vsnprintf(info.name, sizeof info.name, format, arguments);
    va_end(arguments);
    for (int i = 0; i < rank; i++) {
        info.shape[i] = shape[i];
        if (!icl_multiply_sizes(info.count, shape[i], &info.count) || info.count > SIZE_MAX - model->size)
            return icl_fail(error, ICL_ERROR_MEMORY, "model: the sizes of %s overflow the address space", info.name);
    }
    model->size += info.count;
    model->parameters[model->parameter_count++] = info;
    return ICL_OK;
}

void icl_model_mark_without_decay(icl_model *model) {
    if (model->parameter_count > 0)
        model->parameters[model->parameter_count - 1].without_decay = true;
}

void icl_model_mark_hidden_matrix(icl_model *model) {
    if (model->parameter_count > 0 && model->parameters[model->parameter_count - 1].rank == 2)
        model->parameters[model->parameter_count - 1].is_hidden_matrix = true;
}

size_t icl_model_size(const icl_model *model) {
    return model->size;
}

size_t icl_model_layers(const icl_model *model) {
    return model->layers;
}

size_t icl_model_loops(const icl_model *model) {
    return model->loops;
}

size_t icl_model_parameter_count(const icl_model *model) {
    return model->parameter_count;
}

const icl_parameter_info *icl_model_parameter(const icl_model *model, size_t index) {
    return &model->parameters[index];
}

float icl_model_noise(uint32_t seed, size_t index) {
    return icl_normal_from_word(icl_random_word((icl_random_key){.seed = seed, .stream = ICL_MODEL_STREAM}, index));
}

void icl_model_initialize(const icl_model *model, uint32_t seed, float *values) {
    model->family->initialize(model, seed, values);
}

void icl_model_initialize_inserted(const icl_model *model, size_t layer, uint32_t seed, float *values) {
    if (model->family->initialize_inserted)
        model->family->initialize_inserted(model, layer, seed, values);
}

/* Fails the tape unless outputs are [B, S, q]: others would be read at the wrong places. */
static void check_outputs(const icl_model *model, icl_tape *tape, icl_variable outputs, size_t sequences) {
    const icl_tensor seen = icl_tape_value(tape, outputs);
    const size_t expected[] = {sequences, model->shape.scored, model->shape.outputs};
    icl_error error = {0};

    if (icl_tape_status(tape, NULL) != ICL_OK || (seen.rank == 3 && memcmp(seen.shape, expected, sizeof expected) == 0))
        return;
    icl_fail(&error, ICL_ERROR_INPUT,
             "model.family = %s gave outputs [%zu, %zu, %zu] (rank %d), expected [%zu, %zu, %zu]: numbers "
             "for each "
             "scored position of each sequence",
             model->family->name, seen.shape[0], seen.shape[1], seen.shape[2], seen.rank, expected[0], expected[1],
             expected[2]);
    icl_tape_fail(tape, &error);
}

static icl_status check_depth(const icl_model *model, size_t depth, icl_error *error) {
    if (depth >= 1 && depth <= model->layers)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "model.family = %s: a depth of %zu layers: expected 1 to %zu",
                    model->family->name, depth, model->layers);
}

icl_variable icl_model_predict_at_depth(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                                        icl_variable inputs, size_t depth) {
    icl_error error = {0};

    if (check_depth(model, depth, &error) != ICL_OK) {
        icl_tape_fail(tape, &error);
        return (icl_variable){-1};
    }
    const icl_variable outputs = model->family->predict(model, tape, parameters, inputs, depth);
    check_outputs(model, tape, outputs, icl_tape_value(tape, inputs).shape[0]);
    return outputs;
}

icl_variable icl_model_predict(const icl_model *model, icl_tape *tape, const icl_variable *parameters,
                               icl_variable inputs) {
    return icl_model_predict_at_depth(model, tape, parameters, inputs, model->layers);
}

static icl_tensor parameter_view(icl_tensor flat, const icl_parameter_info *info) {
    return icl_tensor_reshape(icl_tensor_slice(flat, 0, info->offset, info->count), info->rank, info->shape);
}

icl_status icl_model_put_parameters(const icl_model *model, icl_tape *tape, icl_tensor parameters, icl_tensor gradient,
                                    icl_variable **variables, icl_error *error) {
    ICL_CHECK(icl_allocate(model->parameter_count, sizeof **variables, "variables of parameters", variables, error));
    for (size_t i = 0; i < model->parameter_count; i++) {
        const icl_parameter_info *info = &model->parameters[i];
        const icl_tensor value = parameter_view(parameters, info);
        (*variables)[i] = gradient.buffer ? icl_tape_parameter(tape, value, parameter_view(gradient, info))
                                          : icl_tape_constant(tape, value);
    }
    return ICL_OK;
}

icl_variable icl_model_record(const icl_model *model, icl_tape *tape, icl_tensor parameters, icl_tensor gradient,
                              icl_tensor inputs, size_t depth) {
    icl_variable *variables = NULL, predictions = {-1};
    icl_error error = {0};

    if (icl_model_put_parameters(model, tape, parameters, gradient, &variables, &error) != ICL_OK)
        icl_tape_fail(tape, &error);
    else
        predictions = icl_model_predict_at_depth(model, tape, variables, icl_tape_constant(tape, inputs), depth);
    icl_free(&variables);
    return predictions;
}

void icl_model_record_loops(const icl_model *model, icl_tape *tape, icl_tensor parameters, icl_tensor gradient,
                            icl_tensor inputs, icl_loop_window window, icl_variable *outputs) {
    icl_variable *variables = NULL;
    icl_error error = {0};

    for (size_t i = 0; i < window.count; i++)
        outputs[i] = (icl_variable){-1};
    if (!icl_model_can(model, ICL_MODEL_LOOPS) || window.count == 0 || window.count > window.loops) {
        icl_fail(
            &error, ICL_ERROR_INPUT,
            "model.family = %s: outputs of the last %zu of %zu loops, expected a model with loops, and from 1 to all "
            "of them",
            model->family->name, window.count, window.loops);
        icl_tape_fail(tape, &error);
    } else if (icl_model_put_parameters(model, tape, parameters, gradient, &variables, &error) != ICL_OK) {
        icl_tape_fail(tape, &error);
    } else {
        model->family->predict_loops(model, tape, variables, icl_tape_constant(tape, inputs), window, outputs);
        for (size_t i = 0; i < window.count; i++)
            check_outputs(model, tape, outputs[i], inputs.shape[0]);
    }
    icl_free(&variables);
}

bool icl_model_can(const icl_model *model, icl_model_ability ability) {
    return (model->abilities & ability) != 0;
}

icl_status icl_model_predict_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                   const icl_model_tensors *tensors, icl_error *error) {
    ICL_CHECK(check_depth(model, depth, error));
    return model->family->predict_fused(model, backend, depth, tensors, error);
}

icl_status icl_model_gradient_fused(const icl_model *model, icl_backend *backend, size_t depth,
                                    const icl_model_tensors *tensors, icl_error *error) {
    ICL_CHECK(check_depth(model, depth, error));
    return model->family->gradient_fused(model, backend, depth, tensors, error);
}

icl_status icl_matrix_of_model(const icl_model *model, const float *values, const char *name, size_t rows,
                               size_t columns, double *matrix, icl_error *error) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (strcmp(info->name, name) != 0)
            continue;
        if (info->rank != 2 || info->shape[0] != rows || info->shape[1] != columns)
            return icl_fail(error, ICL_ERROR_INPUT, "%s is no %zu x %zu matrix in this model", name, rows, columns);
        for (size_t k = 0; k < info->count; k++)
            matrix[k] = (double)values[info->offset + k];
        return ICL_OK;
    }
    return icl_fail(error, ICL_ERROR_INPUT, "%s: not among the model's parameters", name);
}
