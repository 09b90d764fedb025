/* Trained models: a run folder's parameters, ready to predict. */
#ifndef ICLAB_LAB_TRAINED_H
#define ICLAB_LAB_TRAINED_H

#include "core/status.h"
#include "iclab/train.h"

/* A trainer that holds the run's model, for predictions: it cannot go on with the training. `recipe` is the run's, perhaps with another
 * [task] or [eval]. ICL_ERROR_INPUT as icl_run_read_model has it. */
icl_status icl_trained_load(icl_backend *backend, const char *folder, const icl_recipe *recipe,
                            icl_trainer **trainer, icl_error *error);

#endif
