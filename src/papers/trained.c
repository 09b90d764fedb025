#include "papers/trained.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/run.h"

typedef char folder_name[ICL_TRAINED_NAME + 32];

static void name_folder(const icl_trained_cell *cell, folder_name folder) {
    snprintf(folder, sizeof(folder_name), "runs/%s-seed%" PRIu32, cell->name, cell->seed);
}

static icl_status describe(const icl_reproducing *run, const icl_trained_cell *cell, icl_recipe **recipe,
                           icl_error *error) {
    ICL_CHECK(icl_reproduce_recipe(cell->recipe, recipe, error));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.seed=%" PRIu32, cell->seed));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "eval.seed=%" PRIu32, run->params->seed));
    if (cell->steps > 0)
        ICL_CHECK(icl_reproduce_override(*recipe, error, "train.steps=%zu", cell->steps));
    for (size_t i = 0; i < ICL_TRAINED_LISTS; i++)
        if (cell->overrides[i])
            ICL_CHECK(icl_reproduce_override_all(*recipe, cell->overrides[i], error));
    return ICL_OK;
}

icl_status icl_trained_make(icl_reproducing *run, const icl_trained_cell *cell, icl_trained *made, icl_error *error) {
    folder_name folder;

    name_folder(cell, folder);
    ICL_CHECK(describe(run, cell, &made->recipe, error));
    return icl_reproduce_train(run, folder, made->recipe, &made->trainer, error);
}

void icl_trained_release(icl_trained *trained) {
    icl_trainer_destroy(&trained->trainer);
    icl_recipe_destroy(&trained->recipe);
}

icl_status icl_trained_go_to(const icl_reproducing *run, const icl_trained_cell *cell, icl_trained *trained,
                             uint64_t step, icl_error *error) {
    const icl_model *model = icl_trainer_model(trained->trainer);
    folder_name folder;
    char *path = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    name_folder(cell, folder);
    ICL_TRY(icl_path_join(run->params->folder, folder, &path, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_run_read_snapshot(path, step, model, values, error));
    ICL_TRY(icl_trainer_set_parameters(trained->trainer, values, error));
done:
    icl_free(&values);
    icl_free(&path);
    return status;
}
