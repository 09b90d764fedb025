/*
 * Checkpoints, as safetensors.
 *
 * A checkpoint holds the parameters, the optimizer's states and the threshold of train.sequence_clip in the
 * device's own element type, and as metadata the step, the recipe and how many steps went wrong. Nothing else
 * is needed: data, learning rate and depth are functions of the step.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "core/safetensors.h"
#include "train/trainer.h"

#define STEP_KEY   "iclab.step"
#define RECIPE_KEY "iclab.recipe"

enum { MOST_VECTORS = 4, MISHAPS = 3 };

static const char *const vector_names[MOST_VECTORS] = {"parameters", "first_moment", "second_moment",
                                                       "sequence_threshold"};
static const char *const mishap_keys[MISHAPS] = {"iclab.skipped_steps", "iclab.dropped_sequences",
                                                 "iclab.skipped_in_a_row"};

static uint64_t *mishap_of(icl_mishaps *mishaps, int index) {
    uint64_t *const counts[MISHAPS] = {&mishaps->skipped_steps, &mishaps->dropped_sequences,
                                       &mishaps->skipped_in_a_row};
    return counts[index];
}

/* The threshold is there only with train.sequence_clip. */
static int vector_count(const icl_trainer *trainer) {
    return trainer->threshold.buffer ? MOST_VECTORS : MOST_VECTORS - 1;
}

static icl_tensor vector_of(const icl_trainer *trainer, int index) {
    if (index == MOST_VECTORS - 1)
        return trainer->threshold;
    return index == 0 ? trainer->parameters : trainer->states[index - 1];
}

static icl_element_type element_type(const icl_trainer *trainer) {
    return icl_backend_capabilities(trainer->backend)->element_size == sizeof(double) ? ICL_ELEMENT_F64
                                                                                      : ICL_ELEMENT_F32;
}

/* ---- Saving ---- */

static icl_status read_vector(icl_tensor vector, icl_element_type type, void **values, icl_error *error) {
    const size_t count = icl_tensor_count(&vector);
    const size_t size = type == ICL_ELEMENT_F64 ? sizeof(double) : sizeof(float);
    const icl_status status = icl_allocate(count, size, "checkpoint", values, error);

    if (status != ICL_OK)
        return status;
    return type == ICL_ELEMENT_F64 ? icl_tensor_read_double(vector, *values, error)
                                   : icl_tensor_read(vector, *values, error);
}

icl_status icl_trainer_save(icl_trainer *trainer, const char *path, icl_error *error) {
    const icl_element_type type = element_type(trainer);
    icl_named_tensor tensors[MOST_VECTORS] = {{0}};
    icl_metadata metadata[2 + MISHAPS];
    void *values[MOST_VECTORS] = {NULL};
    const int vectors = vector_count(trainer);
    char *recipe = NULL, step[32], mishaps[MISHAPS][32];
    icl_status status = ICL_OK;

    if (trainer->diverged)
        return icl_fail(error, ICL_ERROR_DIVERGED,
                        "%s: not written, because training diverged at step %" PRIu64, path, trainer->step);
    for (int i = 0; i < vectors; i++) {
        const icl_tensor vector = vector_of(trainer, i);
        ICL_TRY(read_vector(vector, type, &values[i], error));
        tensors[i] = (icl_named_tensor){.name = vector_names[i], .type = type, .rank = 1, .data = values[i]};
        tensors[i].shape[0] = vector.shape[0];
    }
    ICL_TRY(icl_recipe_write(trainer->recipe, &recipe, error));
    snprintf(step, sizeof step, "%" PRIu64, trainer->step);
    metadata[0] = (icl_metadata){STEP_KEY, step};
    metadata[1] = (icl_metadata){RECIPE_KEY, recipe};
    for (int i = 0; i < MISHAPS; i++) {
        snprintf(mishaps[i], sizeof mishaps[i], "%" PRIu64, *mishap_of(&trainer->mishaps, i));
        metadata[2 + i] = (icl_metadata){mishap_keys[i], mishaps[i]};
    }
    ICL_TRY(icl_safetensors_write(path, tensors, (size_t)vectors, metadata, 2 + MISHAPS, error));
done:
    for (int i = 0; i < vectors; i++)
        icl_free(&values[i]);
    icl_free(&recipe);
    return status;
}

/* ---- Restoring ---- */

/* Keys that may differ between the run that saved and the run that goes on: they decide when it stops and
 * what it reports. */
static bool may_differ(const char *line, size_t length) {
    static const char *const keys[] = {"steps", "checkpoint_every", "metrics_every", "snapshot_every"};
    const size_t name = strcspn(line, " =");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (name <= length && name == strlen(keys[i]) && strncmp(line, keys[i], name) == 0)
            return true;
    return false;
}

static bool decides_training(const char *header) {
    return strncmp(header, "[task]", 6) == 0 || strncmp(header, "[model]", 7) == 0 ||
           strncmp(header, "[train]", 7) == 0;
}

/* Compares two texts of icl_recipe_write over one table of keys, whose lines correspond one to one. */
static icl_status compare_texts(const char *saved, const char *own, const char *path, icl_error *error) {
    char section[32] = "";
    bool matters = false;

    while (*saved && *own) {
        const size_t saved_length = strcspn(saved, "\n"), own_length = strcspn(own, "\n");
        if (*own == '[') {
            matters = decides_training(own);
            snprintf(section, sizeof section, "%.*s", (int)own_length, own);
        } else if (matters && *own != ';' && !may_differ(own, own_length) &&
                   (saved_length != own_length || strncmp(saved, own, own_length) != 0)) {
            return icl_fail(error, ICL_ERROR_INPUT, "%s: saved with %s %.*s, expected %.*s as in the recipe",
                            path, section, (int)saved_length, saved, (int)own_length, own);
        }
        saved += saved_length + (saved[saved_length] == '\n');
        own += own_length + (own[own_length] == '\n');
    }
    return ICL_OK;
}

/* The saved text is read over our table first, so that its layout is of no matter. */
static icl_status compare_recipe(const icl_trainer *trainer, const char *saved_text, const char *path,
                                 icl_error *error) {
    icl_recipe *saved = NULL;
    char *saved_again = NULL, *own = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(trainer->recipe, &saved, error));
    ICL_TRY(icl_recipe_parse(saved, saved_text, path, error));
    ICL_TRY(icl_recipe_write(saved, &saved_again, error));
    ICL_TRY(icl_recipe_write(trainer->recipe, &own, error));
    ICL_TRY(compare_texts(saved_again, own, path, error));
done:
    icl_recipe_destroy(&saved);
    icl_free(&saved_again);
    icl_free(&own);
    return status;
}

/* Keys are told without "iclab.". */
static icl_status read_count(const icl_safetensors *file, const char *key, const char *path, uint64_t *count,
                             icl_error *error) {
    const char *text = icl_safetensors_metadata(file, key), *name = strchr(key, '.') + 1;
    char *end = NULL;

    if (!text || text[0] < '0' || text[0] > '9' || strlen(text) > 18)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: no %s in the metadata, expected a checkpoint of iclab",
                        path, name);
    *count = strtoull(text, &end, 10);
    if (*end != '\0')
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s is no whole number in the metadata", path, name);
    return ICL_OK;
}

/* Checkpoints of versions that did not skip steps do not count them. */
static icl_status read_mishaps(const icl_safetensors *file, const char *path, icl_mishaps *mishaps,
                               icl_error *error) {
    icl_status status = ICL_OK;

    for (int i = 0; i < MISHAPS; i++)
        if (icl_safetensors_metadata(file, mishap_keys[i]))
            ICL_TRY(read_count(file, mishap_keys[i], path, mishap_of(mishaps, i), error));
done:
    return status;
}

static icl_status find_vector(const icl_trainer *trainer, const icl_safetensors *file, int index,
                              const char *path, const icl_named_tensor **found, icl_error *error) {
    const size_t size = vector_of(trainer, index).shape[0];
    const icl_named_tensor *tensor = icl_safetensors_find(file, vector_names[index]);

    if (!tensor || tensor->rank != 1 || tensor->shape[0] != size)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: expected %s of %zu elements", path, vector_names[index],
                        size);
    if (tensor->type != element_type(trainer))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: holds %s, but device %s computes in %s", path,
                        tensor->type == ICL_ELEMENT_F64 ? "doubles" : "floats",
                        icl_backend_capabilities(trainer->backend)->spec,
                        element_type(trainer) == ICL_ELEMENT_F64 ? "doubles" : "floats");
    *found = tensor;
    return ICL_OK;
}

icl_status icl_trainer_restore(icl_trainer *trainer, const char *path, icl_error *error) {
    icl_safetensors *file = NULL;
    const icl_named_tensor *tensors[MOST_VECTORS] = {NULL};
    const int vectors = vector_count(trainer);
    icl_mishaps mishaps = {0};
    const char *recipe;
    uint64_t step = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_safetensors_read(path, &file, error));
    ICL_TRY(read_count(file, STEP_KEY, path, &step, error));
    ICL_TRY(read_mishaps(file, path, &mishaps, error));
    recipe = icl_safetensors_metadata(file, RECIPE_KEY);
    if (!recipe)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                         "%s: no recipe in the metadata, expected a checkpoint of iclab", path));
    ICL_TRY(compare_recipe(trainer, recipe, path, error));
    for (int i = 0; i < vectors; i++)
        ICL_TRY(find_vector(trainer, file, i, path, &tensors[i], error));
    for (int i = 0; i < vectors; i++) {
        assert(tensors[i]);
        ICL_TRY(tensors[i]->type == ICL_ELEMENT_F64
                    ? icl_tensor_write_double(vector_of(trainer, i), tensors[i]->data, error)
                    : icl_tensor_write(vector_of(trainer, i), tensors[i]->data, error));
    }
    trainer->diverged = false;
    trainer->mishaps = mishaps;
    icl_trainer_set_step(trainer, step);
done:
    icl_safetensors_destroy(&file);
    return status;
}
