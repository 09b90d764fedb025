/* Inside the task room: how much label noise a sequence has. */
#ifndef ICLAB_TASK_NOISE_H
#define ICLAB_TASK_NOISE_H

#include "iclab/recipe.h"
#include "iclab/task.h"

extern const icl_recipe_group icl_noise_keys;

/* Reads task.noise (fixed:S, uniform:SMAX or choice:S1,S2,…) into the prior's noise members. Levels are rounded to
 * float, because that is what the devices draw. */
icl_status icl_noise_read(const icl_recipe *recipe, icl_task_prior *prior, icl_error *error);

/* The same distribution for icl_random_fill; the key is left to the caller. */
icl_random_params icl_noise_distribution(const icl_task_prior *prior);

#endif
