/* Models in safetensors files, as icl_trainer_export writes them, read back. */
#ifndef ICLAB_LAB_MODEL_FILE_H
#define ICLAB_LAB_MODEL_FILE_H

#include "core/status.h"
#include "iclab/model.h"

/* Reads the named parameters into the model's flat vector (icl_model_size floats). ICL_ERROR_INPUT if the file does not hold exactly this
 * model's tensors, all finite: the message names the tensor, the shape it has and the one expected. */
icl_status icl_model_file_read(const char *path, const icl_model *model, float *values, icl_error *error);

/*
 * Makes any model file the start of `model`, which the recipe describes, whose values hold its own start.
 *
 * The same layout is taken as it is. A full linear transformer also takes every other parameterization (as the matrices that its
 * parameters stand for: exact, but for the rounding of the sums of diag+lowrank) and fewer layers, as icl_model_embed has it; layers
 * between then change nothing. A file without metadata must hold this very model's tensors. ICL_ERROR_INPUT says which key or tensor
 * is another than the recipe's.
 */
icl_status icl_model_file_start(const char *path, const icl_recipe *recipe, const icl_model *model,
                                float *values, icl_error *error);

#endif
