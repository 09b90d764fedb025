#include "papers/seeds.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/allocate.h"
#include "iclab/file.h"
#include "iclab/run.h"

typedef char folder_name[ICL_SEEDED_NAME + 32];

static void name_folder(const icl_seeded_cell *cell, folder_name folder) {
    snprintf(folder, sizeof(folder_name), "runs/%s-seed%" PRIu32, cell->name, cell->seed);
}

icl_status icl_reproduce_train_seed(icl_reproducing *run, const icl_seeded_cell *cell, icl_recipe **recipe,
                                    icl_trainer **trainer, icl_error *error) {
    folder_name folder;

    name_folder(cell, folder);
    ICL_CHECK(icl_reproduce_recipe(cell->recipe, recipe, error));
    ICL_CHECK(icl_reproduce_override_all(*recipe, cell->overrides, error));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.seed=%" PRIu32, cell->seed));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "eval.seed=%" PRIu32, run->params->seed));
    if (cell->sequences > 0)
        ICL_CHECK(icl_reproduce_override(*recipe, error, "eval.sequences=%zu", cell->sequences));
    if (cell->steps == 0)
        return icl_trainer_create(run->params->backend, *recipe, trainer, error);
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.steps=%zu", cell->steps));
    return icl_reproduce_train_from(run, folder, *recipe, cell->initial, trainer, error);
}

icl_status icl_reproduce_go_to_step(const icl_reproducing *run, const icl_seeded_cell *cell, uint64_t step,
                                    icl_trainer *trainer, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    folder_name folder;
    char *path = NULL;
    float *values = NULL;
    icl_status status = ICL_OK;

    name_folder(cell, folder);
    ICL_TRY(icl_path_join(run->params->folder, folder, &path, error));
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_run_read_snapshot(path, step, model, values, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
done:
    icl_free(&values);
    icl_free(&path);
    return status;
}

icl_status icl_reproduce_evaluate_seed(icl_reproducing *run, const icl_seeded_cell *cell, icl_evaluation **evaluation,
                                       icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_train_seed(run, cell, &recipe, &trainer, error));
    ICL_TRY(icl_evaluate(run->params->backend, trainer, recipe, evaluation, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}
