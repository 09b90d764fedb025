/* The recipe keys that this room reads: those of [train] for sessions, those of [eval] for sessions and evaluations. */
#ifndef ICLAB_RUN_RECIPE_KEYS_H
#define ICLAB_RUN_RECIPE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/recipe.h"

/* The keys of [eval], by their names. */
typedef struct icl_evaluation_settings {
    uint64_t every, seed; /* every: 0 for none */
    size_t every_sequences, sequences, fit_sequences;
    const char *predictors; /* lives as long as the recipe's value */
    bool decode;
} icl_evaluation_settings;

icl_evaluation_settings icl_evaluation_read(const icl_recipe *recipe);

/* Section and name of a key, as arguments of a call. */
#define ICL_EVAL_KEY(field) ICL_KEY_NAME("eval", icl_evaluation_settings, field)

extern const icl_recipe_group icl_session_keys, icl_session_evaluation_keys, icl_evaluation_keys;

/* Returns whether evaluations may end a run before its last step: train.stop_at, train.stop_after. */
bool icl_session_may_end_early(const icl_recipe *recipe);

/* Finds NAME.ini where icl_recipe_locate looks for names; ignores a file of that name in the current folder. *path is
 * freed with icl_free. ICL_ERROR_INPUT names the nearest recipe. */
icl_status icl_recipe_find_by_name(const char *name, char **path, icl_error *error);

#endif
