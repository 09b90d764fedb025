#include "papers/architecture/architecture.h"

#include <inttypes.h>
#include <stdio.h>

icl_status icl_architecture_train(icl_reproducing *run, const icl_architecture_cell *cell, icl_recipe **recipe,
                                  icl_trainer **trainer, icl_error *error) {
    char folder[ICL_ARCHITECTURE_NAME + 32];

    snprintf(folder, sizeof folder, "runs/%s-seed%" PRIu32, cell->name, cell->seed);
    ICL_CHECK(icl_reproduce_recipe(cell->recipe, recipe, error));
    ICL_CHECK(icl_reproduce_override_all(*recipe, cell->overrides, error));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.seed=%" PRIu32, cell->seed));
    ICL_CHECK(icl_reproduce_override(*recipe, error, "eval.seed=%" PRIu32, run->params->seed));
    if (cell->steps == 0)
        return icl_trainer_create(run->params->backend, *recipe, trainer, error);
    ICL_CHECK(icl_reproduce_override(*recipe, error, "train.steps=%zu", cell->steps));
    return icl_reproduce_train_from(run, folder, *recipe, cell->initial, trainer, error);
}
