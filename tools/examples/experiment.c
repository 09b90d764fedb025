#include "experiment.h"

#include <stdio.h>

static icl_status make_recipe(const char *const *settings, size_t count, icl_recipe **recipe, icl_error *error) {
    icl_status status = icl_recipe_create_complete(recipe, error);

    for (size_t i = 0; status == ICL_OK && i < count; i++)
        status = icl_recipe_override(*recipe, settings[i], error);
    return status;
}

/* Trains in two halves with a checkpoint between them: the second trainer goes on where the first one stopped. */
static icl_status train(icl_backend *backend, const icl_trainer_parts *parts, const icl_recipe *recipe,
                        const char *checkpoint, icl_trainer **trainer, icl_error *error) {
    const size_t steps = (size_t)icl_recipe_count(recipe, "train", "steps");

    ICL_CHECK(icl_trainer_create_with(backend, parts, recipe, trainer, error));
    ICL_CHECK(icl_trainer_run(*trainer, steps / 2, error));
    ICL_CHECK(icl_trainer_save(*trainer, checkpoint, error));
    icl_trainer_destroy(trainer);
    ICL_CHECK(icl_trainer_create_with(backend, parts, recipe, trainer, error));
    ICL_CHECK(icl_trainer_restore(*trainer, checkpoint, error));
    printf("resumed at step %zu\n", (size_t)icl_trainer_progress(*trainer).step);
    ICL_CHECK(icl_trainer_run(*trainer, steps, error));
    printf("step %zu: loss %g\n", (size_t)icl_trainer_progress(*trainer).step, icl_trainer_progress(*trainer).loss);
    return ICL_OK;
}

static icl_status evaluate(icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe, bool *is_better,
                           icl_error *error) {
    icl_evaluation *evaluation = NULL;
    char *table = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, error));
    ICL_TRY(icl_evaluation_table(evaluation, &table, error));
    fputs(table, stdout);
    *is_better = evaluation->scores[0].mse < evaluation->scores[evaluation->count - 1].mse;
done:
    icl_text_free(&table);
    icl_evaluation_destroy(&evaluation);
    return status;
}

static icl_status compare(icl_backend *device, icl_backend *against, const icl_trainer_parts *parts,
                          const icl_recipe *recipe, bool *agree, icl_error *error) {
    icl_training_summary summary;
    icl_backend *reference = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "ref"}, &reference, error));
    ICL_TRY(icl_compare_training(
        &(icl_training_params){device, against, reference, .recipe = recipe, .parts = parts, .steps = 10}, &summary,
        error));
    *agree = summary.failed == 0 && summary.mistrusted == 0;
    printf("largest difference of a gradient from double precision: %.1e on %s, %.1e on %s\n",
           summary.device[ICL_TRAINING_FORCED].gradient.value, icl_backend_capabilities(device)->spec,
           summary.against[ICL_TRAINING_FORCED].gradient.value, icl_backend_capabilities(against)->spec);
done:
    icl_backend_close(&reference);
    return status;
}

int experiment(const char *name, const icl_trainer_parts *parts, const char *const *settings, size_t count,
               int argument_count, char **arguments) {
    char checkpoint[256];
    icl_backend *device = NULL, *against = NULL;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_error error = {0};
    bool is_better = false, agree = false;
    icl_status status = ICL_OK;

    snprintf(checkpoint, sizeof checkpoint, "%s.checkpoint", name);
    ICL_TRY(make_recipe(settings, count, &recipe, &error));
    ICL_TRY(
        icl_backend_open(&(icl_backend_params){.spec = argument_count > 1 ? arguments[1] : "cpu"}, &device, &error));
    ICL_TRY(
        icl_backend_open(&(icl_backend_params){.spec = argument_count > 2 ? arguments[2] : "ref"}, &against, &error));
    ICL_TRY(train(device, parts, recipe, checkpoint, &trainer, &error));
    ICL_TRY(evaluate(device, trainer, recipe, &is_better, &error));
    ICL_TRY(compare(device, against, parts, recipe, &agree, &error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    icl_backend_close(&against);
    icl_backend_close(&device);
    if (status != ICL_OK)
        fprintf(stderr, "%s: %s: %s\n", name, icl_status_name(status), error.message);
    return is_better && agree ? 0 : 1;
}
