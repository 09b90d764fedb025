/* The shape of a model's task in the metadata of its file: "shape.positions" = "21" and so on, as text. */
#ifndef ICLAB_TRAIN_SHAPE_METADATA_H
#define ICLAB_TRAIN_SHAPE_METADATA_H

#include <stdbool.h>

#include "core/safetensors.h"
#include "iclab/shape.h"

/* Sizes of a shape, and the entries of all its members: the loss is the last. */
#define ICL_SHAPE_SIZES   6
#define ICL_SHAPE_ENTRIES (ICL_SHAPE_SIZES + 1)

/* The sizes as text, which the entries point to. */
typedef struct icl_shape_texts {
    char sizes[ICL_SHAPE_SIZES][24];
} icl_shape_texts;

void icl_shape_metadata_write(const icl_task_shape *shape, icl_shape_texts *texts,
                              icl_metadata entries[ICL_SHAPE_ENTRIES]);

/* *found: whether the file has such entries; then *shape is one that icl_task_shape_check accepts. ICL_ERROR_INPUT
 * names the file and the entry. */
icl_status icl_shape_metadata_read(const icl_safetensors *file, const char *path, bool *found, icl_task_shape *shape,
                                   icl_error *error);

#endif
