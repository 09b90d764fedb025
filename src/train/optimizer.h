/* The optimizer of a training run: what the recipe says of it. */
#ifndef ICLAB_TRAIN_OPTIMIZER_H
#define ICLAB_TRAIN_OPTIMIZER_H

#include "iclab/ops.h"
#include "iclab/recipe.h"

/* train.optimizer, what cuts a gradient, and what each optimizer reads. */
extern const icl_recipe_group icl_optimizer_keys;

/* Everything but the learning rates and Adam's step, which follow from the step. */
icl_status icl_optimizer_read(const icl_recipe *recipe, icl_update_params *params, icl_error *error);

#endif
