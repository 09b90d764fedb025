#include "train/shape_metadata.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "iclab/number.h"

static const char *const size_keys[ICL_SHAPE_SIZES] = {"shape.positions", "shape.inputs",       "shape.symbols",
                                                       "shape.outputs",   "shape.first_scored", "shape.scored"};
static const char loss_key[] = "shape.loss";

/* In the order of the keys. */
static void list_sizes(icl_task_shape *shape, size_t *sizes[ICL_SHAPE_SIZES]) {
    size_t *const all[ICL_SHAPE_SIZES] = {&shape->positions, &shape->inputs,       &shape->symbols,
                                          &shape->outputs,   &shape->first_scored, &shape->scored};
    memcpy(sizes, all, sizeof all);
}

void icl_shape_metadata_write(const icl_task_shape *shape, icl_shape_texts *texts,
                              icl_metadata entries[ICL_SHAPE_ENTRIES]) {
    icl_task_shape copy = *shape;
    size_t *sizes[ICL_SHAPE_SIZES];

    list_sizes(&copy, sizes);
    for (size_t i = 0; i < ICL_SHAPE_SIZES; i++) {
        snprintf(texts->sizes[i], sizeof texts->sizes[i], "%zu", *sizes[i]);
        entries[i] = (icl_metadata){size_keys[i], texts->sizes[i]};
    }
    entries[ICL_SHAPE_SIZES] = (icl_metadata){loss_key, icl_loss_name(shape->loss)};
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
    size_t *sizes[ICL_SHAPE_SIZES];

    *found = icl_safetensors_metadata(file, size_keys[0]) != NULL;
    if (!*found)
        return ICL_OK;
    list_sizes(&made, sizes);
    for (size_t i = 0; i < ICL_SHAPE_SIZES; i++) {
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
