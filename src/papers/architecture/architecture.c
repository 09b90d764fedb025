#include "papers/architecture/architecture.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

icl_status icl_architecture_copy(const icl_model *from, const float *from_values, const icl_model *to, float *to_values,
                                 icl_error *error) {
    for (size_t i = 0; i < icl_model_parameter_count(from); i++)
        for (size_t j = 0; j < icl_model_parameter_count(to); j++) {
            const icl_parameter_info *a = icl_model_parameter(from, i), *b = icl_model_parameter(to, j);
            if (strcmp(a->name, b->name) != 0)
                continue;
            if (a->rank != b->rank || memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) != 0)
                return icl_fail(error, ICL_ERROR_INPUT, "parameter %s: expected the same shape in both models",
                                a->name);
            memcpy(to_values + b->offset, from_values + a->offset, a->count * sizeof *to_values);
        }
    return ICL_OK;
}
