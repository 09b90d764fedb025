#include "papers/landscape/landscape.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/allocate.h"
#include "core/print.h"
#include "iclab/file.h"
#include "iclab/run.h"

const char *const icl_landscape_optimizers[ICL_LANDSCAPE_OPTIMIZERS] = {"adam", "sgd"};

const icl_landscape_setting icl_landscape_settings[ICL_LANDSCAPE_SETTINGS] = {
    {"S1", "normal inputs, n = 20", "normal", 20, {.02, .02}, 1},
    {"S2", "normal inputs, n = 5", "normal", 5, {.005, .01}, 1},
    {"S3", "heavy-tailed inputs, n = 20", "gamma:0.1,10", 20, {.02, .02}, 1},
    {"sphere", "inputs on the unit sphere, n = 20", "sphere", 20, {.1, 5}, .1},
};

void icl_landscape_name(const icl_landscape_cell *cell, char name[ICL_LANDSCAPE_NAME]) {
    const double usual = icl_landscape_settings[cell->setting].rates[cell->optimizer];
    char rate[24] = "";

    if (cell->rate > 0 && cell->rate != usual)
        icl_print(rate, sizeof rate, "-rate%.3g", cell->rate);
    snprintf(name, ICL_LANDSCAPE_NAME, "%s-%s-L%zu%s%s-steps%zu-seed%" PRIu32,
             icl_landscape_settings[cell->setting].name, icl_landscape_optimizers[cell->optimizer], cell->layers, rate,
             cell->softmax ? "-softmax" : "", cell->steps, cell->seed);
}

icl_status icl_landscape_recipe(const icl_landscape_cell *cell, bool keeps_models, icl_recipe **recipe,
                                icl_error *error) {
    const icl_landscape_setting *setting = &icl_landscape_settings[cell->setting];
    icl_recipe *made = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_reproduce_recipe("landscape", &made, error));
    ICL_TRY(icl_reproduce_override(made, error, "task.n=%zu", setting->context));
    ICL_TRY(icl_reproduce_override(made, error, "task.inputs=%s", setting->inputs));
    ICL_TRY(icl_reproduce_override(made, error, "model.layers=%zu", cell->layers));
    ICL_TRY(icl_reproduce_override(made, error, "model.scale=%s", cell->softmax ? "softmax" : "mean"));
    ICL_TRY(icl_reproduce_override(made, error, "train.optimizer=%s", icl_landscape_optimizers[cell->optimizer]));
    ICL_TRY(icl_recipe_reset_unused(made, error)); /* what the recipe sets for the other optimizer */
    ICL_TRY(icl_reproduce_override(made, error, "train.learning_rate=%.9g",
                                   cell->rate > 0 ? cell->rate : setting->rates[cell->optimizer]));
    ICL_TRY(icl_reproduce_override(made, error, "train.clip=%.9g", setting->clip));
    ICL_TRY(icl_reproduce_override(made, error, "train.steps=%zu", cell->steps));
    ICL_TRY(icl_reproduce_override(made, error, "train.seed=%" PRIu32, cell->seed));
    ICL_TRY(icl_reproduce_override(made, error, "train.snapshot_every=%d", keeps_models ? ICL_LANDSCAPE_EVERY : 0));
    *recipe = made;
    made = NULL;
done:
    icl_recipe_destroy(&made);
    return status;
}

static void folder_of(const icl_landscape_cell *cell, char folder[ICL_LANDSCAPE_NAME + 8]) {
    char name[ICL_LANDSCAPE_NAME];

    icl_landscape_name(cell, name);
    snprintf(folder, ICL_LANDSCAPE_NAME + 8, "runs/%s", name);
}

icl_status icl_landscape_train(icl_reproducing *run, const icl_landscape_cell *cell, icl_error *error) {
    char folder[ICL_LANDSCAPE_NAME + 8];
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    folder_of(cell, folder);
    ICL_TRY(icl_landscape_recipe(cell, true, &recipe, error));
    ICL_TRY(icl_reproduce_train(run, folder, recipe, &trainer, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status icl_landscape_model_at(const icl_reproducing *run, const icl_landscape_cell *cell, const icl_model *model,
                                  uint64_t step, double *values, icl_error *error) {
    const size_t size = icl_model_size(model);
    char folder[ICL_LANDSCAPE_NAME + 8], *path = NULL;
    float *held = NULL;
    icl_status status = ICL_OK;

    folder_of(cell, folder);
    ICL_TRY(icl_path_join(run->params->folder, folder, &path, error));
    ICL_TRY(icl_allocate(size, sizeof *held, "parameters", &held, error));
    ICL_TRY(icl_run_read_snapshot(path, step, model, held, error));
    for (size_t i = 0; i < size; i++)
        values[i] = (double)held[i];
done:
    icl_free(&held);
    icl_free(&path);
    return status;
}

/* ---- Views ---- */

icl_status icl_landscape_view_open(const icl_reproducing *run, const icl_landscape_cell *cell, size_t sequences,
                                   icl_landscape_view *view, icl_error *error) {
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    *view = (icl_landscape_view){0};
    ICL_TRY(icl_landscape_recipe(cell, false, &recipe, error));
    ICL_TRY(icl_task_create(recipe, &view->task, error));
    ICL_TRY(icl_model_create(recipe, *icl_task_get_shape(view->task), &view->model, error));
    const icl_objective_params of = {
        .task = view->task, .model = view->model, .purpose = ICL_FOR_EVALUATION, .sequences = sequences};
    ICL_TRY(icl_objective_create(&of, &view->objective, error));
    ICL_TRY(icl_objective_draw(view->objective, run->params->seed, 0, error));
    view->size = icl_model_size(view->model);
    ICL_TRY(icl_allocate(view->size, sizeof *view->at, "parameters", &view->at, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status icl_landscape_view_initial(icl_landscape_view *view, uint32_t seed, icl_error *error) {
    float *initial = NULL;

    ICL_CHECK(icl_allocate(view->size, sizeof *initial, "parameters", &initial, error));
    icl_model_initialize(view->model, seed, initial);
    for (size_t i = 0; i < view->size; i++)
        view->at[i] = (double)initial[i];
    icl_free(&initial);
    return ICL_OK;
}

void icl_landscape_view_close(icl_landscape_view *view) {
    icl_objective_destroy(&view->objective);
    icl_model_destroy(&view->model);
    icl_task_destroy(&view->task);
    icl_free(&view->at);
}
