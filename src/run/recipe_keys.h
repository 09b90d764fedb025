/* The keys that this room reads: of train and of eval what a session reads, and of eval what an evaluation reads. */
#ifndef ICLAB_RUN_RECIPE_KEYS_H
#define ICLAB_RUN_RECIPE_KEYS_H

#include <stdbool.h>

#include "iclab/recipe.h"

extern const icl_recipe_group icl_session_keys, icl_session_evaluation_keys, icl_evaluation_keys;

/* Whether evaluations may end a run before its last step: train.stop_at, train.stop_after. */
bool icl_session_may_end_early(const icl_recipe *recipe);

#endif
