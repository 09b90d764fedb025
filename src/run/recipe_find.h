/* Recipes by their names alone: a file of such a name in the current folder is not looked at. */
#ifndef ICLAB_RUN_RECIPE_FIND_H
#define ICLAB_RUN_RECIPE_FIND_H

#include "iclab/status.h"

/* NAME.ini where icl_recipe_locate looks for names. *path is freed with icl_free. ICL_ERROR_INPUT names the nearest
 * recipe there is. */
icl_status icl_recipe_find_by_name(const char *name, char **path, icl_error *error);

#endif
