/* Tasks from recipe overrides, for the tests of tasks and reference predictors. */
#ifndef ICLAB_TESTS_MAKE_TASK_H
#define ICLAB_TESTS_MAKE_TASK_H

#include <string.h>

#include "iclab/recipe.h"
#include "iclab/task.h"
#include "tap.h"

#define MOST_OVERRIDES 8

/* "task.d=5 task.noise=choice:1,3 …": overrides without blanks, separated by them, over the default recipe. */
static inline icl_status make_task(const char *overrides, icl_task **task, icl_error *error) {
    icl_recipe *recipe = NULL;
    char text[512];
    icl_status status = icl_recipe_create_complete(&recipe, error);

    *task = NULL;
    snprintf(text, sizeof text, "%s", overrides);
    for (char *rest = text, *at = strtok_r(text, " ", &rest); at && status == ICL_OK; at = strtok_r(NULL, " ", &rest))
        status = icl_recipe_override(recipe, at, error);
    if (status == ICL_OK)
        status = icl_task_create(recipe, task, error);
    icl_recipe_destroy(&recipe);
    return status;
}

#endif
