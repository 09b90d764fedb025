/* Makes the run of a model of tables that was never trained. */
#ifndef ICLAB_TESTS_TABLE_RUN_H
#define ICLAB_TESTS_TABLE_RUN_H

#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/train.h"
#include "recipes.h"

static inline icl_status make_table_run(icl_backend *backend, const char *overrides, const char *folder,
                                        icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    char *path = NULL;
    icl_status status;

    ICL_TRY(make_recipe("", overrides, &recipe, error));
    ICL_TRY(icl_run_create(folder, recipe, error));
    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(icl_path_join(folder, ICL_RUN_MODEL, &path, error));
    ICL_TRY(icl_trainer_export(trainer, path, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    icl_free(&path);
    return status;
}

#endif
