/* For the files that declare keys of recipes. */
#ifndef ICLAB_CORE_RECIPE_KEYS_H
#define ICLAB_CORE_RECIPE_KEYS_H

#include "iclab/recipe.h"

/* Wide enough for any experiment; what a device can hold is checked when memory is asked for. */
#define ICL_MAX_EXTENT 1048576.0
#define ICL_MAX_STEPS  1e12
#define ICL_MAX_SEED   4294967295.0

/* The initializer of a group of all rows of an array. */
#define ICL_RECIPE_GROUP(array)                                                                                        \
    { array, sizeof(array) / sizeof *(array), NULL }

/* The default that a key has left for another value; NULL where it is at its default. */
const char *icl_recipe_left_default(const icl_recipe *recipe, const char *section, const char *name);

#endif
