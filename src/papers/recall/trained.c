#include "papers/recall/trained.h"

#include <inttypes.h>
#include <stdio.h>

static icl_status describe(const icl_reproducing *run, const icl_recall_cell *cell, icl_recipe **recipe,
                           icl_error *error) {
    icl_recipe *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe(cell->recipe, &made, error));
    ICL_TRY(icl_reproduce_override_all(made, cell->task, error));
    ICL_TRY(icl_reproduce_override_all(made, cell->model, error));
    if (cell->key_width > 0)
        ICL_TRY(icl_reproduce_override(made, error, "model.key_width=%zu", cell->key_width));
    ICL_TRY(icl_reproduce_override(made, error, "train.steps=%zu", cell->steps));
    ICL_TRY(icl_reproduce_override(made, error, "train.seed=%" PRIu32, cell->seed));
    ICL_TRY(icl_reproduce_override(made, error, "eval.seed=%" PRIu32, run->params->seed));
    ICL_TRY(icl_reproduce_override(made, error, "eval.sequences=%zu", cell->sequences));
    ICL_TRY(icl_reproduce_override(made, error, "eval.every=0"));
    *recipe = made;
    made = NULL;
done:
    icl_recipe_destroy(&made);
    return status;
}

icl_status icl_recall_train(icl_reproducing *run, const icl_recall_cell *cell, icl_recipe **recipe,
                            icl_trainer **trainer, icl_error *error) {
    char folder[128];

    snprintf(folder, sizeof folder, "runs/%s-seed%" PRIu32, cell->name, cell->seed);
    ICL_CHECK(describe(run, cell, recipe, error));
    return icl_reproduce_train(run, folder, *recipe, trainer, error);
}
