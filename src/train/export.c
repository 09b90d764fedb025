/* Exports models: the named parameters, with a description of the model that they belong to. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/number.h"
#include "train/trainer.h"

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

static void write_shape(const icl_task_shape *shape, shape_texts texts, icl_metadata entries[SHAPE_ENTRIES]) {
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

icl_status icl_shape_metadata_read(const icl_safetensors *file, const char *path, bool *found, icl_task_shape *shape,
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

/* ---- Models ---- */

/* For names such as "model.parameterization". */
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
static icl_status describe(const icl_training_problem *problem, description *created, icl_error *error) {
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
    write_shape(icl_task_get_shape(problem->task), created->shape, created->entries + created->count);
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
    ICL_TRY(describe(&trainer->problem, &about, error));
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
