/* The laboratory: recipes by name over the full table of keys. */
#ifndef ICLAB_LAB_H
#define ICLAB_LAB_H

#include "iclab/recipe.h"

/* A recipe that holds the default of every key of [task], [model], [train] and [eval]. */
ICL_API icl_status icl_lab_recipe_create(icl_recipe **recipe, icl_error *error);

/* The table of those keys, for listings: static storage, *count rows. */
ICL_API const icl_recipe_key *icl_lab_recipe_keys(size_t *count);

/* Finds a recipe: a path as it stands; else NAME.ini in the folder that the environment variable ICLAB_RECIPES names; else NAME.ini
 * among the installed recipes; else tools/recipes/NAME.ini. *path is freed with icl_text_free. ICL_ERROR_INPUT names the nearest recipe there is. */
ICL_API icl_status icl_lab_recipe_find(const char *name, char **path, icl_error *error);

/* Frees a text that the library returned, and sets *text to NULL. */
ICL_API void icl_text_free(char **text);

#endif
