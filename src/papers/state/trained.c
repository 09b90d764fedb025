#include "papers/state/trained.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"

/* ---- Recipes ---- */

static icl_status describe(const icl_state_model *model, uint32_t seed, icl_recipe **recipe, icl_error *error) {
    icl_recipe *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe(model->recipe, &made, error));
    for (const char *next = model->overrides; *next;) {
        const size_t length = strcspn(next, " ");
        ICL_TRY(icl_reproduce_override(made, error, "%.*s", (int)length, next));
        next += length + (next[length] == ' ');
    }
    ICL_TRY(icl_reproduce_override(made, error, "train.seed=%" PRIu32, seed));
    ICL_TRY(icl_reproduce_override(made, error, "eval.seed=%" PRIu32, seed));
    *recipe = made;
    made = NULL;
done:
    icl_recipe_destroy(&made);
    return status;
}

/* ---- Evaluation ---- */

/* A trainer of the same model on longer words. */
static icl_status lengthen(icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe, size_t length,
                           size_t sequences, icl_recipe **longer, icl_trainer **trainer, icl_error *error) {
    float *parameters = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_clone(recipe, longer, error));
    ICL_TRY(icl_reproduce_override(*longer, error, "task.shortest=%zu", length));
    ICL_TRY(icl_reproduce_override(*longer, error, "task.longest=%zu", length));
    ICL_TRY(icl_reproduce_override(*longer, error, "task.labels=last"));
    ICL_TRY(icl_reproduce_override(*longer, error, "eval.sequences=%zu", sequences));
    ICL_TRY(icl_reproduce_override(*longer, error, "eval.predictors="));
    ICL_TRY(icl_trainer_create(run->params->backend, *longer, trainer, error));
    ICL_TRY(
        icl_allocate(icl_model_size(icl_trainer_model(trained)), sizeof *parameters, "parameters", &parameters, error));
    ICL_TRY(icl_trainer_get_parameters(trained, parameters, error));
    ICL_TRY(icl_trainer_set_parameters(*trainer, parameters, error));
done:
    icl_free(&parameters);
    return status;
}

static icl_status measure(icl_reproducing *run, icl_trainer *trained, const icl_recipe *recipe, size_t length,
                          size_t sequences, double *accuracy, icl_error *error) {
    icl_recipe *longer = NULL;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_poll(run, error));
    ICL_TRY(lengthen(run, trained, recipe, length, sequences, &longer, &trainer, error));
    ICL_TRY(icl_evaluate(run->params->backend, trainer, longer, &evaluation, error));
    *accuracy = evaluation->scores[0].accuracy;
done:
    icl_evaluation_destroy(&evaluation);
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&longer);
    return status;
}

/* ---- Training ---- */

static icl_status train_seed(icl_reproducing *run, const icl_state_model *model, const icl_state_extent *extent,
                             size_t number, icl_curves *curves, double accuracies[ICL_STATE_MOST_LENGTHS],
                             icl_error *error) {
    const uint32_t seed = run->params->seed + (uint32_t)number;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    char folder[128];
    icl_status status = ICL_OK;

    snprintf(folder, sizeof folder, "runs/%s-seed%" PRIu32, model->cell, seed);
    ICL_TRY(describe(model, seed, &recipe, error));
    ICL_TRY(icl_reproduce_train(run, folder, recipe, &trainer, error));
    for (size_t i = 0; i < ICL_STATE_MOST_LENGTHS && extent->lengths[i] > 0; i++) {
        ICL_TRY(measure(run, trainer, recipe, extent->lengths[i], extent->sequences, &accuracies[i], error));
        ICL_TRY(
            icl_curves_add(curves, model->label, ICL_SERIES_OURS, (double)extent->lengths[i], accuracies[i], error));
    }
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status icl_state_train(icl_reproducing *run, const icl_state_model *model, const icl_state_extent *extent,
                           icl_curves *curves, icl_state_accuracies *accuracies, icl_error *error) {
    for (size_t i = 0; i < extent->seeds; i++)
        ICL_CHECK(train_seed(run, model, extent, i, curves, accuracies->of[i], error));
    return ICL_OK;
}

size_t icl_state_count(const icl_state_extent *extent, const icl_state_accuracies *accuracies, size_t length,
                       double accuracy) {
    size_t count = 0;
    for (size_t i = 0; i < extent->seeds; i++)
        count += accuracies->of[i][length] >= accuracy;
    return count;
}

void icl_state_list(const icl_state_extent *extent, const icl_state_accuracies *accuracies, size_t length, char *text,
                    size_t capacity) {
    size_t used = (size_t)snprintf(text, capacity, "at %zu tokens by seed:", extent->lengths[length]);

    for (size_t i = 0; i < extent->seeds && used < capacity; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s %.4g", i > 0 ? "," : "", accuracies->of[i][length]);
}
