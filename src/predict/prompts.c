#include "predict/predict.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "iclab/run.h"
#include "iclab/status.h"
#include "model/linear_transformer.h"

/* Queries of a chunk at most, and elements of its tokens: 16 MiB of floats. */
#define MAX_CHUNK    ((size_t)256)
#define MAX_ELEMENTS ((size_t)1 << 22)

static void release_context(icl_prompter *prompter) {
    icl_batch_release(&prompter->batch);
    icl_trainer_destroy(&prompter->trainer);
    icl_free(&prompter->shown);
    icl_free(&prompter->tokens);
    icl_free(&prompter->predictions);
    prompter->context = 0;
}

void icl_prompter_release(icl_prompter *prompter) {
    release_context(prompter);
}

/* Learned positions are a table with a row for each place of the training's sequences. */
static icl_status check_length(const icl_prompter *prompter, size_t count, icl_error *error) {
    const icl_recipe *recipe = prompter->recipe;

    if (count == prompter->trained_context || !icl_recipe_is_used(recipe, "model", "positions") ||
        strcmp(icl_recipe_value(recipe, "model", "positions"), "learned") != 0)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "%s: a context of %zu rows for model.positions = learned: expected %zu, the n of training; a model "
                    "of model.positions=none takes any number",
                    prompter->folder, count, prompter->trained_context);
}

/* Makes the model and the memory for prompts of `count` rows. */
static icl_status prepare_context(icl_prompter *prompter, size_t count, icl_error *error) {
    const size_t width = prompter->dimension + 1, elements = (count + 1) * width;
    const size_t most = prompter->most_queries < MAX_CHUNK ? prompter->most_queries : MAX_CHUNK;
    const size_t fitting = MAX_ELEMENTS / elements, chunk = fitting < most ? fitting : most;
    icl_recipe *recipe = NULL;
    char assignment[64];
    icl_status status;

    ICL_CHECK(check_length(prompter, count, error));
    release_context(prompter);
    ICL_TRY(icl_recipe_clone(prompter->recipe, &recipe, error));
    snprintf(assignment, sizeof assignment, "task.n=%zu", count);
    ICL_TRY(icl_recipe_override(recipe, assignment, error));
    ICL_TRY(icl_trained_load(prompter->backend, prompter->folder, recipe, &prompter->trainer, error));
    prompter->chunk = chunk > 0 ? chunk : 1;
    ICL_TRY(icl_batch_create(icl_trainer_task(prompter->trainer), prompter->backend, ICL_FOR_EVALUATION,
                             prompter->chunk, &prompter->batch, error));
    ICL_TRY(icl_allocate(count * width, sizeof(float), "context", &prompter->shown, error));
    ICL_TRY(icl_allocate(prompter->chunk, elements * sizeof(float), "prompts", &prompter->tokens, error));
    ICL_TRY(icl_allocate(prompter->chunk, sizeof(float), "predictions", &prompter->predictions, error));
    prompter->scale = prompter->takes_any_length ? 1 : sqrt((double)prompter->trained_context / (double)count);
    prompter->context = count;
done:
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status icl_prompter_create(icl_backend *backend, const char *folder, const icl_recipe *recipe, size_t most_queries,
                               icl_prompter *prompter, icl_error *error) {
    const bool is_raw =
        icl_recipe_is_used(recipe, "model", "scale") && icl_recipe_choice(recipe, "model", "scale") == ICL_SCALE_RAW;

    memset(prompter, 0, sizeof *prompter);
    prompter->backend = backend;
    prompter->folder = folder;
    prompter->recipe = recipe;
    prompter->most_queries = most_queries;
    prompter->dimension = (size_t)icl_recipe_count(recipe, "task", "d");
    prompter->trained_context = (size_t)icl_recipe_count(recipe, "task", "n");
    prompter->takes_any_length = !is_raw;
    ICL_CHECK(prepare_context(prompter, prompter->trained_context, error));
    if (icl_prompter_prior(prompter)->nonlinear)
        return icl_recipe_reject(recipe, "task", "family", error,
                                 "linear-regression: predictions are for models of noisy linear targets");
    return ICL_OK;
}

const icl_task_prior *icl_prompter_prior(const icl_prompter *prompter) {
    return icl_task_get_prior(icl_trainer_task(prompter->trainer));
}

icl_status icl_prompter_show(icl_prompter *prompter, size_t count, const double *inputs, const double *labels,
                             icl_error *error) {
    const size_t d = prompter->dimension;

    if (count != prompter->context)
        ICL_CHECK(prepare_context(prompter, count, error));
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < d; k++)
            prompter->shown[i * (d + 1) + k] = (float)(prompter->scale * inputs[i * d + k]);
        prompter->shown[i * (d + 1) + d] = (float)(prompter->scale * labels[i]);
    }
    for (size_t i = 0; i < prompter->chunk; i++)
        memcpy(prompter->tokens + i * (count + 1) * (d + 1), prompter->shown, count * (d + 1) * sizeof(float));
    return ICL_OK;
}

icl_status icl_prompter_predict(icl_prompter *prompter, size_t count, const double *queries, double *predictions,
                                icl_error *error) {
    const size_t d = prompter->dimension, elements = (prompter->context + 1) * (d + 1);

    for (size_t first = 0; first < count; first += prompter->chunk) {
        const size_t left = count - first, some = left < prompter->chunk ? left : prompter->chunk;
        /* What stands in the places behind the last query is predicted as well, and not looked at. */
        for (size_t i = 0; i < some; i++)
            for (size_t k = 0; k < d; k++)
                prompter->tokens[(i + 1) * elements - (d + 1) + k] =
                    (float)(prompter->scale * queries[(first + i) * d + k]);
        ICL_CHECK(icl_tensor_write(prompter->batch.inputs, prompter->tokens, error));
        ICL_CHECK(icl_trainer_predict(prompter->trainer, &prompter->batch, prompter->predictions, error));
        for (size_t i = 0; i < some; i++)
            predictions[first + i] = (double)prompter->predictions[i] / prompter->scale;
    }
    return ICL_OK;
}
