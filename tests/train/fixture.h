/* Trainers made from overrides of the default recipe. */
#ifndef ICLAB_TESTS_TRAIN_FIXTURE_H
#define ICLAB_TESTS_TRAIN_FIXTURE_H

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "core/allocate.h"
#include "iclab/iclab.h"
#include "iclab/status.h"
#include "tap.h"

#define MAX_PARAMETERS 2048

/* Makes a trainer of overrides "section.key=value"; the list ends with NULL. */
static inline icl_status make_trainer(icl_backend *backend, const char *const *overrides, icl_trainer **trainer,
                                      icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    for (; *overrides; overrides++)
        ICL_TRY(icl_recipe_override(recipe, *overrides, error));
    ICL_TRY(icl_trainer_create(backend, recipe, trainer, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

#endif
