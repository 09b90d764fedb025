/* Models for others: the named parameters, and with them what they are the parameters of. */
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/recipe_store.h"
#include "core/safetensors.h"
#include "iclab/text.h"
#include "train/shape_metadata.h"
#include "train/trainer.h"

/* "model.parameterization" and the like. */
#define NAME_CAPACITY 64

/* What a file has beside the recipe's keys: the kind of file, which layout of it, the families where a program brought
 * them, and the shape of the task. A change to names or shapes of tensors is a new layout. */
#define OWN_ENTRIES (4 + ICL_SHAPE_ENTRIES)

typedef struct description {
    icl_metadata *entries;
    char (*names)[NAME_CAPACITY];
    icl_shape_texts shape;
    size_t count;
} description;

static bool is_of_the_model(const icl_recipe_key *key) {
    return strcmp(key->section, "model") == 0 ||
           (strcmp(key->section, "task") == 0 && (strcmp(key->name, "d") == 0 || strcmp(key->name, "n") == 0));
}

/* The recipe says nothing of a program's own model or task. */
static icl_status describe(const icl_trainer *trainer, description *made, icl_error *error) {
    const icl_recipe *recipe = trainer->recipe;
    const icl_trainer_parts *parts = &trainer->parts;
    size_t keys;
    const icl_recipe_key *table = icl_recipe_keys(recipe, &keys);

    ICL_CHECK(icl_allocate(OWN_ENTRIES + keys, sizeof *made->entries, "metadata", &made->entries, error));
    ICL_CHECK(icl_allocate(keys, sizeof *made->names, "metadata", &made->names, error));
    made->entries[made->count++] = (icl_metadata){"format", "iclab"};
    made->entries[made->count++] = (icl_metadata){"layout", "1"};
    if (parts->model)
        made->entries[made->count++] = (icl_metadata){"model.family", parts->model->name};
    if (parts->task)
        made->entries[made->count++] = (icl_metadata){"task.family", parts->task->name};
    icl_shape_metadata_write(icl_task_get_shape(trainer->task), &made->shape, made->entries + made->count);
    made->count += ICL_SHAPE_ENTRIES;
    for (size_t i = 0; i < keys; i++) {
        const bool is_own = strcmp(table[i].section, "model") == 0 ? parts->model != NULL : parts->task != NULL;
        if (is_own || !is_of_the_model(&table[i])) /* keys of other families too: readers know layout 1 with them */
            continue;
        snprintf(made->names[i], NAME_CAPACITY, "%s.%s", table[i].section, table[i].name);
        made->entries[made->count++] =
            (icl_metadata){made->names[i], icl_recipe_value(recipe, table[i].section, table[i].name)};
    }
    return ICL_OK;
}

icl_status icl_trainer_export(icl_trainer *trainer, const char *path, icl_error *error) {
    const size_t count = icl_model_parameter_count(trainer->model);
    description about = {0};
    icl_named_tensor *tensors = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(icl_model_size(trainer->model), sizeof *values, "exported parameters", &values, error));
    ICL_TRY(icl_allocate(count, sizeof *tensors, "exported parameters", &tensors, error));
    ICL_TRY(describe(trainer, &about, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    for (size_t i = 0; i < count; i++) {
        const icl_parameter_info *info = icl_model_parameter(trainer->model, i);
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

icl_status icl_trainer_write_recipe(const icl_trainer *trainer, char **text, icl_error *error) {
    const icl_trainer_parts *parts = &trainer->parts;
    icl_recipe_own own[2];
    icl_text whole = {0};
    char *recipe = NULL;
    size_t count = 0;
    icl_status status = ICL_OK;

    if (parts->task)
        own[count++] = (icl_recipe_own){"task", parts->task->name, parts->task->keys};
    if (parts->model)
        own[count++] = (icl_recipe_own){"model", parts->model->name, NULL};
    ICL_TRY(icl_recipe_write_own(trainer->recipe, own, count, &recipe, error));
    for (size_t i = 0; i < count; i++)
        ICL_TRY(
            icl_text_print(&whole, error, "%s%s %s", i == 0 ? ICL_OWN_PARTS : " and ", own[i].section, own[i].family));
    ICL_TRY(icl_text_print(&whole, error, "%s%s", count > 0 ? "\n\n" : "", recipe));
    ICL_TRY(icl_duplicate(whole.bytes, text, error));
done:
    icl_text_release(&whole);
    icl_free(&recipe);
    return status;
}
