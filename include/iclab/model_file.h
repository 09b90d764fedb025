/* Models in safetensors files, as icl_trainer_export writes them, read back. */
#ifndef ICLAB_MODEL_FILE_H
#define ICLAB_MODEL_FILE_H

#include "iclab/status.h"
#include "iclab/train.h"

ICL_C_BEGIN

/* Reads the named parameters into the model's flat vector (icl_model_size floats). ICL_ERROR_INPUT, naming both shapes,
 * if the file is for tasks of other inputs, symbols, outputs or another loss (numbers of positions may differ); or,
 * naming the tensor, its shape and the expected one, if the file does not hold exactly this model's tensors, all
 * finite. */
ICL_API icl_status icl_model_file_read(const char *path, const icl_model *model, float *values, icl_error *error);

/* Reads the recipe of the model that a file holds: task.d, task.n and the [model] section as its metadata says,
 * defaults for all other keys, including the [task] section of a program's own task; destroyed with icl_recipe_destroy.
 * ICL_ERROR_INPUT for a file without this metadata, or with a model of a program's own family. */
ICL_API icl_status icl_model_file_recipe(const char *path, icl_recipe **recipe, icl_error *error);

/* Creates a trainer that holds the file's model, for icl_trainer_predict and icl_evaluate: it cannot continue the
 * training. `recipe` is the file's (icl_model_file_recipe), perhaps with another [task] or [eval]. ICL_ERROR_INPUT
 * as for icl_model_file_read. */
ICL_API icl_status icl_model_file_load(icl_backend *backend, const char *path, const icl_recipe *recipe,
                                       icl_trainer **trainer, icl_error *error);

/* As above, with a program's own task or model, as icl_trainer_create_with takes them. `recipe` is the program's. */
ICL_API icl_status icl_model_file_load_with(icl_backend *backend, const icl_trainer_parts *parts, const char *path,
                                            const icl_recipe *recipe, icl_trainer **trainer, icl_error *error);

/*
 * Makes any model file the start of `model`, which the recipe describes; on entry the values hold the model's own
 * start.
 *
 * A file of the same layout is taken as it is. A full linear transformer also takes every other parameterization (as
 * the matrices that its parameters stand for: exact, but for the rounding of the sums of diag+lowrank) and fewer
 * layers, as in icl_model_embed; the layers between them then change nothing. A file without metadata, or of a
 * program's own family, must hold this very model's tensors. ICL_ERROR_INPUT names the shape, key or tensor that
 * differs from the recipe's.
 */
ICL_API icl_status icl_model_file_start(const char *path, const icl_recipe *recipe, const icl_model *model,
                                        float *values, icl_error *error);

/*
 * Writes the sequences that icl_evaluate draws for this recipe (eval.sequences = B of them, eval.seed) with the
 * predictions of the trainer's model as safetensors, F32:
 *
 *     tokens [B, n + 1, d + 1]     (x_i, y_i), last the query (x, 0)
 *     targets [B]                  noiseless
 *     noise [B]                    sigma of each sequence
 *     predictions [B]              rounded to floats on ref too
 */
ICL_API icl_status icl_predictions_write(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                                         const char *path, icl_error *error);

ICL_C_END

#endif
