/* Declarations for files that define keys of recipes. */
#ifndef ICLAB_CORE_RECIPE_KEYS_H
#define ICLAB_CORE_RECIPE_KEYS_H

#include "iclab/recipe.h"

/* Ranges wide enough for any experiment; whether it fits on a device is checked when memory is allocated. */
#define ICL_MAX_EXTENT 1048576.0
#define ICL_MAX_STEPS  1e12
#define ICL_MAX_SEED   4294967295.0

/* The initializer of a group of all rows of an array. */
#define ICL_RECIPE_GROUP(array)                                                                                        \
    { array, sizeof(array) / sizeof *(array), NULL }

/* Returns the words that the table has for a key, ended by a NULL word. */
const icl_choice *icl_recipe_choices(const icl_recipe *recipe, const char *section, const char *name);

/* Returns what a word of a key stands for (icl_choice.object); `word` NULL: its present value. NULL if the key lists no
 * such word. */
const void *icl_recipe_object(const icl_recipe *recipe, const char *section, const char *name, const char *word);

/* Returns the default that a key's value differs from; NULL if the value is the default. */
const char *icl_recipe_left_default(const icl_recipe *recipe, const char *section, const char *name);

#endif
