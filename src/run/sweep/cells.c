/* A sweep: its file, which of its cells are finished, and how to finish the others together with other workers. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/json_parse.h"
#include "core/print.h"
#include "iclab/evaluate.h"
#include "iclab/file.h"
#include "iclab/json.h"
#include "iclab/number.h"
#include "iclab/recipe.h"
#include "iclab/result.h"
#include "iclab/run.h"
#include "run/cell.h"
#include "run/files.h"
#include "run/metrics.h"
#include "run/recipe_keys.h"
#include "run/sweep/grid.h"
#include "run/sweep/sweep.h"
#include "run/sweep/work.h"
#include "train/settings.h"

/* ---- The file of a sweep ---- */

/* Reads the file as a recipe of another table of keys: [sweep] recipe, and every recipe key in [set] and in [grid]. */
static icl_status read_file(const char *path, const icl_families *families, icl_grid_keys *keys, icl_recipe **file,
                            icl_error *error) {
    icl_recipe *known = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_with(families, &known, error));
    ICL_TRY(icl_grid_keys_add(keys, &(icl_recipe_key){"sweep", "recipe", ICL_KEY_TEXT, "", 0, 0, NULL, ""}, error));
    ICL_TRY(icl_grid_keys_add_recipe(keys, known, "set", error));
    ICL_TRY(icl_grid_keys_add_recipe(keys, known, "grid", error));
    ICL_TRY(icl_recipe_create(keys->rows, keys->count, file, error));
    ICL_TRY(icl_recipe_load(*file, path, error));
done:
    icl_recipe_destroy(&known);
    return status;
}

icl_status icl_sweep_load(const char *path, const icl_families *families, icl_sweep **sweep, icl_error *error) {
    static const char *const set[] = {"set", NULL}, *const grid[] = {"grid", NULL};
    icl_status status = ICL_OK;
    icl_grid_keys keys = {0};
    icl_recipe *file = NULL, *base = NULL;

    ICL_TRY(read_file(path, families, &keys, &file, error));
    const char *name = icl_recipe_text(file, "sweep", "recipe");
    if (name[0] == '\0')
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT,
                         "%s: no sweep.recipe: expected recipe = NAME, the recipe to sweep, in a section "
                         "[sweep]",
                         path));
    ICL_TRY(icl_grid_load_recipe(path, name, families, &base, error));
    ICL_TRY(icl_grid_set(file, "set", base, error));
    status = icl_grid_read(&(icl_grid_source){path, file, grid, set, base, name}, sweep, error);
done:
    icl_recipe_destroy(&base);
    icl_recipe_destroy(&file);
    icl_grid_keys_release(&keys);
    return status;
}

/* ---- Its cells ---- */

/* Writes the path of a cell: folder/NAME. */
static icl_status cell_path(const icl_sweep *sweep, const char *folder, size_t cell, char **path, icl_error *error) {
    icl_status status = ICL_OK;
    char *name = NULL;

    ICL_TRY(icl_sweep_cell_name(sweep, cell, &name, error));
    ICL_TRY(icl_path_join(folder, name, path, error));
done:
    icl_free(&name);
    return status;
}

/* ---- Results ---- */

static double number_of(const cJSON *object, const char *name) {
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(entry) ? entry->valuedouble : (double)NAN;
}

static uint64_t count_of(const cJSON *object, const char *name) {
    return icl_count_in(number_of(object, name));
}

/* Reads the result in a cell's own folder. An unreadable result counts as none, so that the cell is evaluated again. */
static icl_status read_result(const char *cell_folder, icl_sweep_result *result, icl_error *error) {
    const cJSON *summary, *score;
    cJSON *object = NULL;
    icl_status status = ICL_OK;

    *result = (icl_sweep_result){0};
    ICL_TRY(icl_record_read(cell_folder, ICL_RESULT_FILE, &object, error));
    if (!cJSON_IsObject(object))
        goto done;
    /* Older versions wrote everything into the object itself. */
    summary = cJSON_GetObjectItemCaseSensitive(object, "summary");
    score = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(object, ICL_RESULT_ROWS), 0);
    summary = summary ? summary : object;
    score = score ? score : summary;
    if (!cJSON_IsNumber(cJSON_GetObjectItemCaseSensitive(summary, "steps")))
        goto done; /* not a cell's result */
    const bool is_loss = cJSON_HasObjectItem(score, "loss");
    *result = (icl_sweep_result){
        .finished = true,
        .diverged = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(summary, "diverged")),
        .steps = count_of(summary, "steps"),
        .skipped_steps = count_of(summary, "skipped_steps"),
        .final_loss = number_of(summary, "final_loss"),
        .mse = number_of(score, is_loss ? "loss" : "mse"),
        .se = number_of(score, "se"),
        .accuracy = number_of(score, "accuracy"),
        .adjusted = number_of(score, "adjusted"),
        .adjusted_se = number_of(score, "adjusted_se"),
        .seconds = number_of(summary, "seconds"),
        .is_loss = is_loss,
    };
done:
    cJSON_Delete(object);
    return status;
}

icl_status icl_sweep_read_result(const icl_sweep *sweep, const char *folder, size_t cell, icl_sweep_result *result,
                                 icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    ICL_TRY(cell_path(sweep, folder, cell, &path, error));
    ICL_TRY(read_result(path, result, error));
done:
    icl_free(&path);
    return status;
}

/* ---- What there is ---- */

/* Checks that the cell can be trained: makes its trainer and destroys it. */
static icl_status check_recipe(icl_backend *backend, const char *name, const icl_recipe *recipe, icl_error *error) {
    const icl_session_params session = {.backend = backend, .recipe = recipe};
    icl_trainer *trainer = NULL;
    icl_error reason = {0};
    icl_status status = icl_session_prepare(&session, &trainer, &reason);

    if (status != ICL_OK)
        status = icl_fail(error, status, "%s (cell %s)", reason.message, name);
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status survey_cell(const icl_sweep *sweep, const char *folder, size_t cell, icl_backend *backend,
                              size_t *finished, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;
    icl_sweep_result result;
    char *path = NULL;
    bool found;

    ICL_TRY(cell_path(sweep, folder, cell, &path, error));
    ICL_TRY(icl_sweep_cell_recipe(sweep, cell, &recipe, error));
    ICL_TRY(icl_cell_find(path, recipe, &found, error));
    ICL_TRY(read_result(path, &result, error));
    *finished += result.finished;
    if (backend && !result.finished)
        ICL_TRY(check_recipe(backend, icl_path_name(path), recipe, error));
done:
    icl_recipe_destroy(&recipe);
    icl_free(&path);
    return status;
}

icl_status icl_sweep_survey(const icl_sweep *sweep, const char *folder, bool check_all, size_t *finished,
                            icl_error *error) {
    icl_status status = ICL_OK;
    icl_backend *backend = NULL;

    *finished = 0;
    if (check_all)
        ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    for (size_t cell = 0; cell < icl_sweep_cells(sweep); cell++)
        ICL_TRY(survey_cell(sweep, folder, cell, backend, finished, error));
done:
    icl_backend_close(&backend);
    return status;
}

/* ---- One cell ---- */

static void say(const icl_sweep_work_params *params, const char *format, ...) ICL_PRINTF(2, 3);

static void say(const icl_sweep_work_params *params, const char *format, ...) {
    char text[512];
    va_list arguments;

    if (!params->say)
        return;
    va_start(arguments, format);
    icl_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    params->say(params->user, text);
}

static void say_begin(void *user, const char *folder, uint64_t step, uint64_t total_steps) {
    const icl_sweep_work_params *params = user;
    const char *device = icl_backend_capabilities(params->backend)->spec;

    if (step > 0)
        say(params, "%s: going on from step %" PRIu64 " of %" PRIu64 " on %s", icl_path_name(folder), step, total_steps,
            device);
    else
        say(params, "%s: training %" PRIu64 " steps on %s", icl_path_name(folder), total_steps, device);
}

/* Evaluates only the model's row of the table. */
static icl_status evaluate(const icl_sweep_work_params *params, const icl_recipe *recipe, icl_trainer *trainer,
                           icl_result *kept, icl_sweep_result *result, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *alone = NULL;
    icl_evaluation *evaluation = NULL;
    char *row = NULL;

    ICL_TRY(icl_recipe_clone(recipe, &alone, error));
    ICL_TRY(icl_recipe_set_text(alone, ICL_EVAL_KEY(predictors), "", error));
    ICL_TRY(icl_evaluate(params->backend, trainer, alone, &evaluation, error));
    ICL_TRY(icl_score_json(&evaluation->scores[0], &row, error));
    ICL_TRY(icl_result_add(kept, ICL_RESULT_ROWS, row, error));
    result->mse = evaluation->scores[0].mse;
    result->se = evaluation->scores[0].se;
    result->adjusted = evaluation->scores[0].adjusted;
    result->adjusted_se = evaluation->scores[0].adjusted_se;
done:
    icl_text_free(&row);
    icl_evaluation_destroy(&evaluation);
    icl_recipe_destroy(&alone);
    return status;
}

static icl_status write_summary(const icl_sweep_result *result, const icl_trainer *trainer, char **summary,
                                icl_error *error) {
    icl_json json = {0};

    icl_json_flag(&json, "diverged", result->diverged);
    icl_json_count(&json, "steps", result->steps);
    icl_json_count(&json, "skipped_steps", result->skipped_steps);
    icl_json_number(&json, "final_loss", result->final_loss);
    icl_json_number(&json, "seconds", result->seconds);
    if (trainer) {
        const icl_polish_result polished = icl_trainer_polished(trainer);
        icl_polish_add_json(&polished, &json);
    }
    return icl_json_finish(&json, false, summary, error);
}

static void say_end(const icl_sweep_work_params *params, const char *cell_folder, const icl_sweep_result *result) {
    if (result->diverged)
        say(params, "%s: diverged", icl_path_name(cell_folder));
    else
        say(params, "%s: finished, loss %.4g, error %.4g, in %.3g s", icl_path_name(cell_folder), result->final_loss,
            result->mse, result->seconds);
}

/* Writes the result last, because it marks the cell as finished. */
static icl_status finish_cell(const icl_sweep_work_params *params, const char *cell_folder, const icl_recipe *recipe,
                              icl_trainer *trainer, icl_error *error) {
    const double nan = (double)NAN;
    const uint64_t seed = icl_train_keys_read(recipe).seed;
    const icl_result_facts facts = {.command = "sweep",
                                    .command_line = params->command_line,
                                    .recipe_name = icl_sweep_recipe_name(params->sweep),
                                    .backend = params->backend,
                                    .seed = &seed};
    icl_sweep_result result = {
        .diverged = !trainer, .final_loss = nan, .mse = nan, .se = nan, .adjusted = nan, .adjusted_se = nan};
    icl_result *kept = NULL;
    char *summary = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_result_create(&kept, error));
    if (trainer) {
        result.steps = icl_trainer_progress(trainer).step;
        result.skipped_steps = icl_trainer_progress(trainer).skipped_steps;
        ICL_TRY(icl_metrics_final_loss(cell_folder, &result.final_loss, error));
        ICL_TRY(evaluate(params, recipe, trainer, kept, &result, error));
        result.diverged = !isfinite(result.mse);
    }
    ICL_TRY(icl_run_read_number(cell_folder, "training_seconds", &result.seconds, error));
    ICL_TRY(write_summary(&result, trainer, &summary, error));
    ICL_TRY(icl_result_write(kept, cell_folder, &facts, summary, error));
    say_end(params, cell_folder, &result);
done:
    icl_text_free(&summary);
    icl_result_destroy(&kept);
    return status;
}

static icl_status work_on(icl_sweep_work_params *params, size_t cell, const char *cell_folder, icl_work_stop *stop,
                          icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;

    ICL_TRY(icl_sweep_cell_recipe(params->sweep, cell, &recipe, error));
    const icl_cell_params with = {
        .session = {.backend = params->backend,
                    .recipe = recipe,
                    .folder = cell_folder,
                    .stop = &stop->stop,
                    .report = icl_work_look,
                    .user = stop},
        .recipe_name = icl_sweep_recipe_name(params->sweep),
        .command_line = params->command_line,
        .begin = say_begin,
        .user = params,
    };
    status = icl_cell_train(&with, &trainer, error);
    if (status == ICL_OK || status == ICL_ERROR_DIVERGED)
        status = finish_cell(params, cell_folder, recipe, trainer, error);
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- All of them ---- */

static icl_status look(void *context, size_t cell, icl_item_state *state, icl_error *error) {
    const icl_sweep_work_params *params = context;
    icl_sweep_result result;

    ICL_CHECK(icl_sweep_read_result(params->sweep, params->folder, cell, &result, error));
    *state = result.finished ? ICL_ITEM_FINISHED : ICL_ITEM_OPEN;
    return ICL_OK;
}

static icl_status claim(void *context, size_t cell, icl_lock **lock, icl_error *error) {
    const icl_sweep_work_params *params = context;
    char *name = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_sweep_cell_name(params->sweep, cell, &name, error));
    ICL_TRY(icl_lock_claim(params->folder, name, lock, error));
done:
    icl_free(&name);
    return status;
}

static icl_status finish(void *context, size_t cell, icl_work_stop *stop, icl_error *error) {
    icl_sweep_work_params *params = context;
    icl_sweep_result result;
    char *path = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(cell_path(params->sweep, params->folder, cell, &path, error));
    ICL_TRY(work_on(params, cell, path, stop, error));
    if (params->finish) {
        ICL_TRY(read_result(path, &result, error));
        ICL_TRY(params->finish(params->user, params->backend, cell, path, &result, error));
    }
done:
    icl_free(&path);
    return status;
}

icl_status icl_sweep_work(const icl_sweep_work_params *params, icl_error *error) {
    icl_sweep_work_params own = *params;
    const icl_work_list list = {.count = icl_sweep_cells(params->sweep),
                                .noun = "cells",
                                .look = look,
                                .claim = claim,
                                .work = finish,
                                .context = &own,
                                .stop = params->stop,
                                .parent = params->parent,
                                .say = params->say,
                                .user = params->user};

    return icl_work_finish(&list, error);
}

static icl_status work_on_sweep(const void *context, icl_backend *backend, long parent, icl_error *error) {
    icl_sweep_work_params work_in_process = *(const icl_sweep_work_params *)context;

    work_in_process.backend = backend;
    work_in_process.parent = parent;
    return icl_sweep_work(&work_in_process, error);
}

icl_status icl_sweep_run_workers(const icl_sweep_workers_params *params, icl_error *error) {
    return icl_workers_run(&(icl_workers){.device = params->device,
                                          .count = params->count,
                                          .specs = (const char(*)[ICL_NAME_CAPACITY])params->specs,
                                          .stop = params->work.stop,
                                          .fail = params->fail,
                                          .user = params->work.user,
                                          .work = work_on_sweep,
                                          .context = &params->work},
                           error);
}
