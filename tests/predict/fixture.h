/* Creates a run folder of a small, untrained model, and predicts with it, for the tests of predict. */
#ifndef ICLAB_TESTS_PREDICT_FIXTURE_H
#define ICLAB_TESTS_PREDICT_FIXTURE_H

#include "iclab/file.h"
#include "iclab/predict.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/train.h"
#include "recipes.h"
#include "tap.h"

#include "../core/scratch.h"
#include "core/allocate.h"
#include "regressions.h"

enum { DIMENSION = 4, CONTEXT = 8 };

static inline icl_status make_run(icl_backend *backend, const char *scale, const char *folder, icl_recipe **recipe,
                                  icl_error *error) {
    icl_trainer *trainer = NULL;
    char *path = NULL;
    icl_status status;

    ICL_TRY(make_recipe("",
                        "task.d=4 task.n=8 task.noise=uniform:3 model.parameterization=diag "
                        "model.layers=2 train.batch=1",
                        recipe, error));
    ICL_TRY(icl_recipe_override(*recipe, scale, error));
    ICL_TRY(icl_run_create(folder, *recipe, error));
    ICL_TRY(icl_trainer_create(backend, *recipe, &trainer, error));
    ICL_TRY(icl_path_join(folder, ICL_RUN_MODEL, &path, error));
    ICL_TRY(icl_trainer_export(trainer, path, error));
done:
    icl_trainer_destroy(&trainer);
    icl_free(&path);
    return status;
}

static inline icl_predict_outcome *predict_or_exit(const icl_predict_params *params) {
    icl_predict_outcome *outcome = NULL;
    icl_error error = {0};

    if (icl_predict(params, &outcome, &error) != ICL_OK) {
        printf("Bail out! %s\n", error.message);
        exit(1);
    }
    return outcome;
}

#endif
