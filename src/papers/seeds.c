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

icl_status icl_reproduce_train_seed(icl_reproducing *run, const icl_seeded_cell *cell, icl_seeded *made,
                                    icl_error *error) {
    folder_name folder;

    name_folder(cell, folder);
    ICL_CHECK(icl_reproduce_recipe(cell->recipe, &made->recipe, error));
    ICL_CHECK(icl_reproduce_override(made->recipe, error, "train.seed=%" PRIu32, cell->seed));
    ICL_CHECK(icl_reproduce_override(made->recipe, error, "eval.seed=%" PRIu32, run->params->seed));
    if (cell->sequences > 0)
        ICL_CHECK(icl_reproduce_override(made->recipe, error, "eval.sequences=%zu", cell->sequences));
    if (cell->steps > 0)
        ICL_CHECK(icl_reproduce_override(made->recipe, error, "train.steps=%zu", cell->steps));
    for (size_t i = 0; i < ICL_SEEDED_OVERRIDES; i++)
        if (cell->overrides[i])
            ICL_CHECK(icl_reproduce_override_all(made->recipe, cell->overrides[i], error));
    if (cell->steps == 0)
        return icl_trainer_create(run->params->backend, made->recipe, &made->trainer, error);
    if (cell->is_needed)
        return icl_reproduce_train_needed(run, folder, made->recipe, &made->trainer, error);
    return icl_reproduce_train_from(run, folder, made->recipe, cell->initial, &made->trainer, error);
}

void icl_seeded_release(icl_seeded *made) {
    icl_trainer_destroy(&made->trainer);
    icl_recipe_destroy(&made->recipe);
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
    icl_seeded made = {NULL};
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_train_seed(run, cell, &made, error));
    ICL_TRY(icl_evaluate(run->params->backend, made.trainer, made.recipe, evaluation, error));
done:
    icl_seeded_release(&made);
    return status;
}

/* As NULL where it diverged. */
static icl_status evaluate_rate(icl_reproducing *run, const icl_seeded_cell *cell, const char *learning_rate,
                                icl_evaluation **evaluation, icl_error *error) {
    char name[ICL_SEEDED_NAME], rate[64];
    icl_seeded_cell own = *cell;
    icl_status status;
    size_t lists = 0;

    snprintf(name, sizeof name, "%s-%s", cell->name, learning_rate);
    snprintf(rate, sizeof rate, "train.learning_rate=%s", learning_rate);
    own.name = name;
    while (lists + 1 < ICL_SEEDED_OVERRIDES && own.overrides[lists])
        lists++;
    own.overrides[lists] = rate;
    status = icl_reproduce_evaluate_seed(run, &own, evaluation, error);
    return status == ICL_ERROR_DIVERGED ? ICL_OK : icl_reproduce_next(run, status);
}

icl_status icl_reproduce_evaluate_best_rate(icl_reproducing *run, const icl_seeded_cell *cell, size_t rates,
                                            const char *const *learning_rates, icl_evaluation **evaluation,
                                            icl_error *error) {
    for (size_t i = 0; i < rates && learning_rates[i]; i++) {
        icl_evaluation *seen = NULL;
        ICL_CHECK(evaluate_rate(run, cell, learning_rates[i], &seen, error));
        if (!*evaluation || (seen && seen->scores[0].accuracy > (*evaluation)->scores[0].accuracy)) {
            icl_evaluation *worse = *evaluation;
            *evaluation = seen;
            seen = worse;
        }
        icl_evaluation_destroy(&seen);
    }
    return ICL_OK;
}
