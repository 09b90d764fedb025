/* Recipes as tests write them: overrides in one string. */
#ifndef ICLAB_TESTS_RECIPES_H
#define ICLAB_TESTS_RECIPES_H

#include <string.h>

#include "iclab/recipe.h"
#include "tap.h"

/* Makes the default recipe with overrides "task.d=5 task.noise=choice:1,3 …", which are separated by blanks and have
 * none. `section`, "model." or "", is put before each. The caller destroys *recipe, also after a failure. */
static inline icl_status make_recipe(const char *section, const char *overrides, icl_recipe **recipe,
                                     icl_error *error) {
    char text[2048], override[256];
    icl_status status = icl_recipe_create_complete(recipe, error);

    snprintf(text, sizeof text, "%s", overrides);
    for (char *rest = text, *at = strtok_r(text, " ", &rest); at && status == ICL_OK; at = strtok_r(NULL, " ", &rest)) {
        snprintf(override, sizeof override, "%s%s", section, at);
        status = icl_recipe_override(*recipe, override, error);
    }
    return status;
}

#endif
