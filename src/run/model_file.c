#include "iclab/model_file.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/safetensors.h"
#include "iclab/number.h"
#include "iclab/recipe.h"
#include "run/evaluation.h"
#include "run/recipe_keys.h"
#include "train/settings.h"
#include "train/trainer.h"

/* ---- Tensors ---- */

/* "[11, 11]" */
static const char *write_shape(int rank, const size_t *shape, char text[128]) {
    size_t used = 0;

    for (int axis = 0; axis < rank && used < 96; axis++)
        used += (size_t)snprintf(text + used, 128 - used, "%s%zu", axis > 0 ? ", " : "[", shape[axis]);
    snprintf(text + used, 128 - used, rank > 0 ? "]" : "[]");
    return text;
}

static icl_status refuse_shape(const char *path, const icl_named_tensor *tensor, const icl_parameter_info *info,
                               icl_error *error) {
    const bool has_positions = strcmp(info->name, "positions.table") == 0 && tensor->shape[0] != info->shape[0];
    char found[128], expected[128];

    return icl_fail(error, ICL_ERROR_INPUT, "%s: tensor %s is of shape %s: expected %s, as the recipe has it%s", path,
                    info->name, write_shape(tensor->rank, tensor->shape, found),
                    write_shape(info->rank, info->shape, expected),
                    has_positions ? "; a model of model.positions=none takes sequences of any length" : "");
}

static icl_status read_parameter(const char *path, const icl_safetensors *file, const icl_parameter_info *info,
                                 float *values, icl_error *error) {
    const icl_named_tensor *tensor = icl_safetensors_find(file, info->name);
    char expected[128];

    if (!tensor)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no tensor %s: expected one of shape %s, as the recipe has it",
                        path, info->name, write_shape(info->rank, info->shape, expected));
    if (tensor->rank != info->rank || memcmp(tensor->shape, info->shape, (size_t)info->rank * sizeof *info->shape) != 0)
        return refuse_shape(path, tensor, info, error);
    for (size_t i = 0; i < info->count; i++) {
        const float value = tensor->type == ICL_ELEMENT_F64 ? (float)((const double *)tensor->data)[i]
                                                            : ((const float *)tensor->data)[i];
        if (!isfinite(value))
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s: tensor %s holds NaN, infinity or a number beyond floats: expected finite numbers",
                            path, info->name);
        values[info->offset + i] = value;
    }
    return ICL_OK;
}

static icl_status read_tensors(const char *path, const icl_safetensors *file, const icl_model *model, float *values,
                               icl_error *error) {
    const size_t count = icl_model_parameter_count(model);
    icl_status status = ICL_OK;

    for (size_t i = 0; i < count; i++)
        ICL_TRY(read_parameter(path, file, icl_model_parameter(model, i), values, error));
    if (icl_safetensors_count(file) != count)
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: holds %zu tensors: expected the %zu of the recipe's model", path,
                          icl_safetensors_count(file), count);
done:
    return status;
}

/* ---- The shape of a task in the metadata ---- */

/* The number of sizes in a shape, and of entries for all its members, of which the loss is the last. */
#define SHAPE_SIZES   6
#define SHAPE_ENTRIES (SHAPE_SIZES + 1)

/* The sizes as text; the entries point into it. */
typedef char shape_texts[SHAPE_SIZES][24];

static const char *const size_keys[SHAPE_SIZES] = {"shape.positions", "shape.inputs",       "shape.symbols",
                                                   "shape.outputs",   "shape.first_scored", "shape.scored"};
static const char loss_key[] = "shape.loss";

/* Lists the sizes in the order of the keys. */
static void list_sizes(icl_task_shape *shape, size_t *sizes[SHAPE_SIZES]) {
    size_t *const all[SHAPE_SIZES] = {&shape->positions, &shape->inputs,       &shape->symbols,
                                      &shape->outputs,   &shape->first_scored, &shape->scored};
    memcpy(sizes, all, sizeof all);
}

static void write_shape_metadata(const icl_task_shape *shape, shape_texts texts, icl_metadata entries[SHAPE_ENTRIES]) {
    icl_task_shape copy = *shape;
    size_t *sizes[SHAPE_SIZES];

    list_sizes(&copy, sizes);
    for (size_t i = 0; i < SHAPE_SIZES; i++) {
        snprintf(texts[i], sizeof texts[i], "%zu", *sizes[i]);
        entries[i] = (icl_metadata){size_keys[i], texts[i]};
    }
    entries[SHAPE_SIZES] = (icl_metadata){loss_key, icl_loss_name(shape->loss)};
}

static icl_status read_loss(const icl_safetensors *file, const char *path, icl_loss_kind *loss, icl_error *error) {
    const char *text = icl_safetensors_metadata(file, loss_key);
    int kind = 0;

    while (text && kind < ICL_LOSS_COUNT && strcmp(text, icl_loss_name((icl_loss_kind)kind)) != 0)
        kind++;
    *loss = (icl_loss_kind)kind;
    if (text && kind < ICL_LOSS_COUNT)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT, "%s: %s = %s in the metadata: expected a loss, such as %s", path, loss_key,
                    text ? text : "(none)", icl_loss_name(ICL_LOSS_SQUARED_ERROR));
}

/* Reads the shape of a model's task from the metadata of its file: entries "shape.positions" = "21" and so on, as text.
 * *found: the file has such entries; then icl_task_shape_check accepts *shape. ICL_ERROR_INPUT names the file and the
 * entry. */
static icl_status read_shape_metadata(const icl_safetensors *file, const char *path, bool *found, icl_task_shape *shape,
                                      icl_error *error) {
    icl_task_shape made = {0};
    size_t *sizes[SHAPE_SIZES];

    *found = icl_safetensors_metadata(file, size_keys[0]) != NULL;
    if (!*found)
        return ICL_OK;
    list_sizes(&made, sizes);
    for (size_t i = 0; i < SHAPE_SIZES; i++) {
        const char *text = icl_safetensors_metadata(file, size_keys[i]);
        uint64_t size = 0;
        if (!text || !icl_parse_count(text, strlen(text), &size) || size > UINT32_MAX)
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s: %s = %s in the metadata: expected a whole number of at most %" PRIu32, path,
                            size_keys[i], text ? text : "(none)", UINT32_MAX);
        *sizes[i] = (size_t)size;
    }
    ICL_CHECK(read_loss(file, path, &made.loss, error));
    ICL_CHECK(icl_task_shape_check(&made, path, error));
    *shape = made;
    return ICL_OK;
}

/* ---- Writing ---- */

/* Names such as "model.parameterization" fit in. */
#define NAME_CAPACITY 64

/* The entries of a file beside the recipe's keys: the kind of file, its layout, the families that a program brought,
 * and the shape of the task. Any change to names or shapes of tensors is a new layout. */
#define OWN_ENTRIES (4 + SHAPE_ENTRIES)

typedef struct description {
    icl_metadata *entries;
    char (*names)[NAME_CAPACITY];
    shape_texts shape;
    size_t count;
} description;

static bool is_of_the_model(const icl_recipe_key *key) {
    return strcmp(key->section, "model") == 0 ||
           (strcmp(key->section, "task") == 0 && (strcmp(key->name, "d") == 0 || strcmp(key->name, "n") == 0));
}

/* Makes the metadata. Keys of the recipe are left out if the program has a model or task of its own, which they do not
 * describe. */
static icl_status make_metadata(const icl_training_problem *problem, description *created, icl_error *error) {
    const icl_recipe *recipe = problem->recipe;
    const icl_trainer_parts *parts = &problem->parts;
    size_t keys;
    const icl_recipe_key *table = icl_recipe_keys(recipe, &keys);

    ICL_CHECK(icl_allocate(OWN_ENTRIES + keys, sizeof *created->entries, "metadata", &created->entries, error));
    ICL_CHECK(icl_allocate(keys, sizeof *created->names, "metadata", &created->names, error));
    created->entries[created->count++] = (icl_metadata){"format", "iclab"};
    created->entries[created->count++] = (icl_metadata){"layout", "1"};
    if (parts->model)
        created->entries[created->count++] = (icl_metadata){"model.family", parts->model->name};
    if (parts->task)
        created->entries[created->count++] = (icl_metadata){"task.family", parts->task->name};
    write_shape_metadata(icl_task_get_shape(problem->task), created->shape, created->entries + created->count);
    created->count += SHAPE_ENTRIES;
    for (size_t i = 0; i < keys; i++) {
        const bool is_own = strcmp(table[i].section, "model") == 0 ? parts->model != NULL : parts->task != NULL;
        if (is_own || !is_of_the_model(&table[i])) /* other families' keys, too: readers of layout 1 expect them */
            continue;
        snprintf(created->names[i], NAME_CAPACITY, "%s.%s", table[i].section, table[i].name);
        created->entries[created->count++] =
            (icl_metadata){created->names[i], icl_recipe_value(recipe, table[i].section, table[i].name)};
    }
    return ICL_OK;
}

icl_status icl_trainer_export(icl_trainer *trainer, const char *path, icl_error *error) {
    const icl_model *model = trainer->problem.model;
    const size_t count = icl_model_parameter_count(model);
    description about = {0};
    icl_named_tensor *tensors = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "exported parameters", &values, error));
    ICL_TRY(icl_allocate(count, sizeof *tensors, "exported parameters", &tensors, error));
    ICL_TRY(make_metadata(&trainer->problem, &about, error));
    ICL_TRY(icl_tensor_read(icl_trainer_evaluated(trainer), values, error));
    for (size_t i = 0; i < count; i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        tensors[i] = (icl_named_tensor){
            .name = info->name, .type = ICL_ELEMENT_F32, .rank = info->rank, .data = values + info->offset};
        memcpy(tensors[i].shape, info->shape, sizeof info->shape);
    }
    ICL_TRY(icl_safetensors_write(path, tensors, count, about.entries, about.count, error));
done:
    icl_free(&about.entries);
    icl_free(&about.names);
    icl_free(&tensors);
    icl_free(&values);
    return status;
}

/* ---- Metadata of the model ---- */

static const char *find_metadata(const icl_safetensors *file, const char *section, const char *key) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s", section, key);
    return icl_safetensors_metadata(file, name);
}

static icl_status read_extent(const icl_safetensors *file, const char *path, const char *key, size_t *extent,
                              icl_error *error) {
    const char *text = find_metadata(file, "task", key);
    uint64_t value = 0;

    if (!text || !icl_parse_count(text, strlen(text), &value) || value == 0 || value > UINT32_MAX)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: task.%s = %s in the metadata: expected a whole number, 1 or more",
                        path, key, text ? text : "(none)");
    *extent = (size_t)value;
    return ICL_OK;
}

/* Reads the shape of the model's task; for files of older versions, which have none, it is that of regression. Sets
 * *known to whether the file has either. */
static icl_status read_shape(const icl_safetensors *file, const char *path, bool *known, icl_task_shape *shape,
                             icl_error *error) {
    size_t d = 0, n = 0;
    icl_status status = ICL_OK;

    ICL_TRY(read_shape_metadata(file, path, known, shape, error));
    if (*known || !find_metadata(file, "task", "d"))
        return ICL_OK;
    ICL_TRY(read_extent(file, path, "d", &d, error));
    ICL_TRY(read_extent(file, path, "n", &n, error));
    *shape = icl_regression_shape(d, n);
    *known = true;
done:
    return status;
}

/* Checks that inputs and outputs at a position are those that the model was trained for. The number of positions, and
 * which of them are scored, concern only its family, which refuses what it cannot answer. */
static icl_status check_shape(const icl_safetensors *file, const char *path, const icl_task_shape *expected,
                              icl_error *error) {
    char found[ICL_TASK_SHAPE_TEXT], wanted[ICL_TASK_SHAPE_TEXT];
    icl_task_shape shape = {0};
    bool known = false;
    icl_status status = ICL_OK;

    ICL_TRY(read_shape(file, path, &known, &shape, error));
    if (known && (shape.inputs != expected->inputs || shape.symbols != expected->symbols ||
                  shape.outputs != expected->outputs || shape.loss != expected->loss))
        status = icl_fail(error, ICL_ERROR_INPUT, "%s: is a model for %s: expected one for %s", path,
                          icl_task_shape_text(&shape, found), icl_task_shape_text(expected, wanted));
done:
    return status;
}

icl_status icl_model_file_read(const char *path, const icl_model *model, float *values, icl_error *error) {
    icl_safetensors *file = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_read(path, &file, error));
    ICL_TRY(check_shape(file, path, &model->shape, error));
    ICL_TRY(read_tensors(path, file, model, values, error));
done:
    icl_safetensors_destroy(&file);
    return status;
}

/* Makes the recipe of the model that the metadata describes, over the keys of the recipe `like`. Keys that older
 * versions did not know have their defaults. */
static icl_status describe(const icl_safetensors *file, const char *path, const icl_recipe *like, icl_recipe **recipe,
                           icl_error *error) {
    const bool is_own_task = !find_metadata(file, "task", "d") && find_metadata(file, "shape", "inputs");
    size_t d = 0, n = 0, keys;
    const icl_recipe_key *table = icl_recipe_keys(like, &keys);
    icl_recipe *created = NULL;
    icl_error refused = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create(table, keys, &created, error));
    if (!is_own_task) {
        ICL_TRY(read_extent(file, path, "d", &d, error));
        ICL_TRY(read_extent(file, path, "n", &n, error));
    }
    for (size_t i = 0; i < keys && status == ICL_OK; i++) {
        const icl_recipe_key *key = &table[i];
        const char *value = find_metadata(file, key->section, key->name);
        const bool is_extent =
            strcmp(key->section, "task") == 0 && (strcmp(key->name, "d") == 0 || strcmp(key->name, "n") == 0);
        if ((strcmp(key->section, "model") != 0 && !is_extent) || !value)
            continue;
        status = icl_recipe_set_text(created, key->section, key->name, value, &refused);
    }
    if (status == ICL_OK)
        status = icl_recipe_reset_unused(created, &refused);
    if (status != ICL_OK)
        ICL_TRY(icl_fail(error, status, "%s: its metadata: %s", path, refused.message));
    *recipe = created;
    created = NULL;
done:
    icl_recipe_destroy(&created);
    return status;
}

static icl_status create_described(const icl_safetensors *file, const char *path, const icl_recipe *like,
                                   icl_model **model, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_task_shape shape = {0};
    bool known = false;
    icl_error refused = {0};
    icl_status status = ICL_OK;

    ICL_TRY(describe(file, path, like, &recipe, error));
    ICL_TRY(read_shape(file, path, &known, &shape, error)); /* always known here, or describe would have failed */
    status = icl_model_create(recipe, shape, model, &refused);
    if (status != ICL_OK)
        ICL_TRY(icl_fail(error, status, "%s: its metadata: %s", path, refused.message));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status icl_model_file_recipe(const char *path, icl_recipe **recipe, icl_error *error) {
    icl_safetensors *file = NULL;
    icl_recipe *known = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_read(path, &file, error));
    ICL_TRY(icl_recipe_create_complete(&known, error));
    ICL_TRY(describe(file, path, known, recipe, error));
done:
    icl_recipe_destroy(&known);
    icl_safetensors_destroy(&file);
    return status;
}

icl_status icl_model_file_load(icl_backend *backend, const char *path, const icl_recipe *recipe, icl_trainer **trainer,
                               icl_error *error) {
    return icl_model_file_load_with(backend, NULL, path, recipe, trainer, error);
}

icl_status icl_model_file_load_with(icl_backend *backend, const icl_trainer_parts *parts, const char *path,
                                    const icl_recipe *recipe, icl_trainer **trainer, icl_error *error) {
    icl_status status = ICL_OK;
    icl_trainer *created = NULL;
    icl_recipe *whole = NULL;
    float *values = NULL;

    ICL_TRY(icl_recipe_clone(recipe, &whole, error));
    /* The model has all its layers now, whatever depth training began with, and it needs no training batch. */
    ICL_TRY(icl_recipe_set_count(whole, ICL_TRAIN_KEY(growth), 0, error));
    ICL_TRY(icl_recipe_set_count(whole, ICL_TRAIN_KEY(batch), 1, error));
    ICL_TRY(icl_recipe_set_count(whole, ICL_TRAIN_KEY(slices), 1, error));
    ICL_TRY(icl_trainer_create_with(backend, parts, whole, &created, error));
    ICL_TRY(icl_allocate(icl_model_size(icl_trainer_model(created)), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_model_file_read(path, icl_trainer_model(created), values, error));
    ICL_TRY(icl_trainer_set_parameters(created, values, error));
    *trainer = created;
    created = NULL;
done:
    icl_free(&values);
    icl_recipe_destroy(&whole);
    icl_trainer_destroy(&created);
    return status;
}

/* Refuses changes of these keys, and of the task's shape, which no conversion can make. */
static icl_status check_keys(const icl_safetensors *file, const char *path, const icl_recipe *recipe,
                             const icl_model *model, icl_error *error) {
    static const char *const names[] = {"family", "heads", "scale", "attention"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *found = find_metadata(file, "model", names[i]);
        const char *expected = i == 0 ? model->family->name : icl_recipe_value(recipe, "model", names[i]);
        if (found && icl_recipe_is_used(recipe, "model", names[i]) && strcmp(found, expected) != 0)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: is a model of model.%s = %s: expected %s as in the recipe",
                            path, names[i], found, expected);
    }
    return ICL_OK;
}

/* Returns whether the recipe cannot name the model's family. */
static bool is_own_family(const icl_recipe *recipe, const icl_model *model) {
    return !icl_recipe_object(recipe, "model", "family", model->family->name);
}

/* ---- Starting from it ---- */

static bool same_layout(const icl_model *a, const icl_model *b) {
    const size_t count = icl_model_parameter_count(a);

    if (count != icl_model_parameter_count(b) || icl_model_layers(a) != icl_model_layers(b))
        return false;
    for (size_t i = 0; i < count; i++) {
        const icl_parameter_info *info = icl_model_parameter(a, i), *other = icl_model_parameter(b, i);
        if (strcmp(info->name, other->name) != 0 || info->rank != other->rank ||
            memcmp(info->shape, other->shape, (size_t)info->rank * sizeof *info->shape) != 0)
            return false;
    }
    return true;
}

/* Makes P and Q of `from` those of the full model. Layers that `from` lacks start as ones that change nothing. */
static icl_status embed(const char *path, const icl_model *from, const float *from_values, const icl_recipe *recipe,
                        const icl_model *model, float *values, icl_error *error) {
    const uint32_t seed = (uint32_t)icl_train_keys_read(recipe).seed;
    icl_error refused = {0};
    icl_status status;

    status = icl_model_embed(from, from_values, model, values, &refused);
    if (status != ICL_OK)
        return icl_fail(error, status, "%s: %s", path, refused.message);
    for (size_t layer = icl_model_layers(from) - 1; layer + 1 < icl_model_layers(model); layer++)
        icl_model_initialize_inserted(model, layer, seed, values);
    for (size_t i = 0; i < icl_model_size(model); i++)
        if (!isfinite(values[i]))
            return icl_fail(error, ICL_ERROR_INPUT,
                            "%s: its parameters make matrices beyond the range of floats: expected finite ones", path);
    return ICL_OK;
}

icl_status icl_model_file_start(const char *path, const icl_recipe *recipe, const icl_model *model, float *values,
                                icl_error *error) {
    icl_safetensors *file = NULL;
    icl_model *from = NULL;
    float *from_values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_read(path, &file, error));
    ICL_TRY(check_shape(file, path, &model->shape, error));
    if (find_metadata(file, "model", "family"))
        ICL_TRY(check_keys(file, path, recipe, model, error));
    if (!find_metadata(file, "model", "family") || is_own_family(recipe, model)) {
        ICL_TRY(read_tensors(path, file, model, values, error));
        goto done;
    }
    ICL_TRY(create_described(file, path, recipe, &from, error));
    if (same_layout(from, model)) {
        ICL_TRY(read_tensors(path, file, model, values, error));
        goto done;
    }
    ICL_TRY(icl_allocate(icl_model_size(from), sizeof *from_values, "parameters", &from_values, error));
    ICL_TRY(read_tensors(path, file, from, from_values, error));
    ICL_TRY(embed(path, from, from_values, recipe, model, values, error));
done:
    icl_free(&from_values);
    icl_model_destroy(&from);
    icl_safetensors_destroy(&file);
    return status;
}

/* ---- Predictions of a model as a file ---- */

enum { TOKENS = 0, TARGETS, NOISE, PREDICTIONS, VECTORS };

/* The whole file, on the host. */
typedef struct evaluation_prompts {
    size_t count, elements; /* sequences, and numbers in the tokens of one */
    float *values[VECTORS];
} evaluation_prompts;

static icl_status reserve_prompts(evaluation_prompts *prompts, icl_error *error) {
    size_t total;

    if (!icl_multiply_sizes(prompts->count, prompts->elements, &total))
        return icl_fail(error, ICL_ERROR_MEMORY, "eval.sequences: the tokens of %zu overflow the address space",
                        prompts->count);
    for (int i = 0; i < VECTORS; i++)
        ICL_CHECK(icl_allocate(i == TOKENS ? total : prompts->count, sizeof(float),
                               "prompts (fewer eval.sequences need less)", &prompts->values[i], error));
    return ICL_OK;
}

static icl_status fill_prompts(icl_sequences *sequences, icl_trainer *trainer, evaluation_prompts *prompts,
                               icl_error *error) {
    assert(prompts->values[TOKENS] && prompts->values[TARGETS] && prompts->values[NOISE] &&
           prompts->values[PREDICTIONS]);
    for (size_t first = 0; first < prompts->count; first += sequences->chunk) {
        const size_t left = prompts->count - first, count = left < sequences->chunk ? left : sequences->chunk;
        ICL_CHECK(icl_sequences_sample(sequences, first / sequences->chunk, error));
        ICL_CHECK(icl_sequences_predict(sequences, trainer, error));
        ICL_CHECK(icl_sequences_refer(sequences, NULL, count, NULL, error));
        memcpy(prompts->values[TOKENS] + first * prompts->elements, sequences->inputs,
               count * prompts->elements * sizeof(float));
        memcpy(prompts->values[TARGETS] + first, sequences->targets, count * sizeof(float));
        memcpy(prompts->values[NOISE] + first, sequences->noise, count * sizeof(float));
        memcpy(prompts->values[PREDICTIONS] + first, sequences->model, count * sizeof(float));
    }
    return ICL_OK;
}

/* Refuses other shapes, because the file has one target and one prediction a sequence. */
static icl_status require_regression(const icl_task_shape *shape, icl_error *error) {
    char text[ICL_TASK_SHAPE_TEXT];

    if (shape->scored == 1 && shape->outputs == 1 && shape->inputs > 0)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "predictions: the task has %s, expected coordinates and one output at one position",
                    icl_task_shape_text(shape, text));
}

icl_status icl_predictions_write(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe, const char *path,
                                 icl_error *error) {
    const icl_task *task = icl_trainer_task(trainer);
    const size_t rows = icl_task_context(task) + 1, columns = icl_task_dimension(task) + 1;
    icl_sequences sequences = {0};
    evaluation_prompts prompts = {.count = icl_evaluation_read(recipe).sequences, .elements = rows * columns};
    icl_status status = ICL_OK;

    ICL_TRY(require_regression(icl_task_get_shape(task), error));
    ICL_TRY(reserve_prompts(&prompts, error));
    ICL_TRY(icl_sequences_create(backend, task, (uint32_t)icl_evaluation_read(recipe).seed, &sequences, error));
    ICL_TRY(fill_prompts(&sequences, trainer, &prompts, error));
    const icl_named_tensor tensors[VECTORS] = {
        {.name = "tokens", .rank = 3, .shape = {prompts.count, rows, columns}, .data = prompts.values[TOKENS]},
        {.name = "targets", .rank = 1, .shape = {prompts.count}, .data = prompts.values[TARGETS]},
        {.name = "noise", .rank = 1, .shape = {prompts.count}, .data = prompts.values[NOISE]},
        {.name = "predictions", .rank = 1, .shape = {prompts.count}, .data = prompts.values[PREDICTIONS]},
    };
    ICL_TRY(icl_safetensors_write(path, tensors, VECTORS, NULL, 0, error));
done:
    icl_sequences_release(&sequences);
    for (int i = 0; i < VECTORS; i++)
        icl_free(&prompts.values[i]);
    return status;
}
