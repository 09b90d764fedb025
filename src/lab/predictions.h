/* Prompts with a model's predictions, in a file for other programs. */
#ifndef ICLAB_LAB_PREDICTIONS_H
#define ICLAB_LAB_PREDICTIONS_H

#include "core/status.h"
#include "iclab/train.h"

/*
 * Writes the sequences that icl_evaluate draws for this recipe (eval.sequences = B of them, eval.seed) with the predictions of the trainer's
 * model as safetensors, F32:
 *
 *     tokens [B, n + 1, d + 1]     (x_i, y_i), last the query (x, 0)
 *     targets [B]                  noiseless
 *     noise [B]                    sigma of each sequence
 *     predictions [B]              rounded to floats on ref too
 */
icl_status icl_predictions_write(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                                 const char *path, icl_error *error);

#endif
