#include "life.h"

#include <cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/safetensors.h"
#include "iclab/file.h"
#include "iclab/iclab.h"
#include "iclab/run.h"
#include "iclab/session.h"

static const char recipe_text[] = "[task]\nd = 3\nn = 5\nnoise = choice:1,2\n"
                                  "[model]\nlayers = 2\nparameterization = full\n"
                                  "[train]\nbatch = 16\nsteps = 6\nwarmup = 2\nseed = 7\ncheckpoint_every = 3\n"
                                  "[eval]\nsequences = 8\nevery = 6\nevery_sequences = 16\nfit_sequences = 32\n"
                                  "predictors = oracle,bayes,ols,tunedrr,gd:1\n";

static const char *const file_names[LIFE_FILES] = {ICL_RUN_RECIPE, ICL_RUN_METRICS, ICL_RUN_MODEL, ICL_RUN_CHECKPOINT};

#define METRICS_FIRST "step,"

/* ---- Training ---- */

static icl_status write_facts(const char *folder, const icl_session_params *session, icl_trainer *trainer,
                              const char *state, icl_error *error) {
    icl_run_facts facts = icl_run_facts_collect(session->backend, session->recipe, trainer);

    facts.recipe_name = "faults";
    facts.status = state;
    return icl_run_write_facts(folder, &facts, error);
}

static icl_status train(icl_backend *backend, const char *folder, const icl_recipe *recipe, bool resume,
                        icl_error *error) {
    const icl_session_params session = {.backend = backend, .recipe = recipe, .folder = folder, .resume = resume};
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_session_prepare(&session, &trainer, error));
    ICL_TRY(resume ? icl_run_write_recipe(folder, recipe, error) : icl_run_create(folder, recipe, error));
    ICL_TRY(write_facts(folder, &session, trainer, "running", error));
    ICL_TRY(icl_session_train(&session, trainer, error));
    ICL_TRY(write_facts(folder, &session, trainer, "finished", error));
done:
    icl_trainer_destroy(&trainer);
    return status;
}

/* ---- Evaluation ---- */

static icl_status add_json(const icl_evaluation *evaluation, icl_error *error) {
    icl_status status = ICL_OK;
    char *line = NULL;

    for (size_t i = 0; i < evaluation->count; i++) {
        ICL_TRY(icl_score_json(&evaluation->scores[i], &line, error));
        icl_free(&line);
    }
done:
    return status;
}

static icl_status evaluate(icl_backend *backend, const char *folder, const icl_recipe *recipe, char **table,
                           icl_error *error) {
    icl_status status = ICL_OK;
    icl_trainer *trainer = NULL;
    icl_evaluation *evaluation = NULL;
    float *values = NULL;

    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(icl_allocate(icl_model_size(icl_trainer_model(trainer)), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_run_read_model(folder, icl_trainer_model(trainer), values, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, error));
    ICL_TRY(add_json(evaluation, error));
    ICL_TRY(icl_evaluation_table(evaluation, table, error));
done:
    icl_evaluation_destroy(&evaluation);
    icl_free(&values);
    icl_trainer_destroy(&trainer);
    return status;
}

static icl_status read_recipe(const char *folder, bool resume, icl_recipe **recipe, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(recipe, error));
    ICL_TRY(resume ? icl_run_read_recipe(folder, *recipe, error)
                   : icl_recipe_parse(*recipe, recipe_text, "faults", error));
done:
    return status;
}

icl_status life_train(icl_backend *backend, const char *folder, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;
    char path[512];

    snprintf(path, sizeof path, "%s/%s", folder, ICL_RUN_RECIPE);
    const bool resume = icl_path_exists(path);
    ICL_TRY(read_recipe(folder, resume, &recipe, error));
    ICL_TRY(train(backend, folder, recipe, resume, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

icl_status life_evaluate(icl_backend *backend, const char *folder, char **table, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;

    ICL_TRY(read_recipe(folder, true, &recipe, error));
    ICL_TRY(evaluate(backend, folder, recipe, table, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- What it leaves ---- */

icl_status life_read(const char *folder, life_result *result, icl_error *error) {
    icl_status status = ICL_OK;
    char path[512];

    for (int i = 0; i < LIFE_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, file_names[i]);
        ICL_TRY(icl_file_read(path, 0, &result->files[i], &result->sizes[i], error));
    }
done:
    return status;
}

void life_release(life_result *result) {
    for (int i = 0; i < LIFE_FILES; i++)
        icl_free(&result->files[i]);
}

const char *life_difference(const life_result *left, const life_result *right) {
    for (int i = 0; i < LIFE_FILES; i++)
        if (left->sizes[i] != right->sizes[i] || memcmp(left->files[i], right->files[i], left->sizes[i]) != 0)
            return file_names[i];
    return NULL;
}

/* Complete, for each kind of file. A checkpoint also names its step. */
static bool is_complete(const char *path, const char *name, icl_error *error) {
    char *text = NULL;
    size_t size = 0;
    bool complete = false;

    if (strstr(name, ".safetensors")) {
        icl_safetensors *file = NULL;
        complete = icl_safetensors_read(path, &file, error) == ICL_OK && icl_safetensors_count(file) > 0;
        icl_safetensors_destroy(&file);
        return complete;
    }
    if (icl_file_read(path, 0, &text, &size, error) != ICL_OK)
        return false;
    if (strcmp(name, ICL_RUN_RECIPE) == 0) {
        icl_recipe *recipe = NULL;
        complete = size > 0 && text[size - 1] == '\n' && icl_recipe_create_complete(&recipe, error) == ICL_OK &&
                   icl_recipe_load(recipe, path, error) == ICL_OK && strstr(text, "[eval]");
        icl_recipe_destroy(&recipe);
    } else if (strcmp(name, ICL_RUN_FACTS) == 0) {
        cJSON *facts = cJSON_Parse(text);
        complete = cJSON_HasObjectItem(facts, "status") && text[size - 1] == '\n';
        cJSON_Delete(facts);
    } else if (strcmp(name, ICL_RUN_FILES) == 0) {
        complete = size > 0 && text[size - 1] == '\n';
    } else if (strcmp(name, ICL_RUN_METRICS) == 0) {
        complete = strncmp(text, METRICS_FIRST, strlen(METRICS_FIRST)) == 0 && text[size - 1] == '\n';
    }
    icl_free(&text);
    return complete;
}

bool life_folder_is_sound(const char *folder, char *complaint, size_t size) {
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    bool sound = true;

    while (sound && listing && (entry = readdir(listing)) != NULL) {
        const char *name = entry->d_name;
        char path[1024];
        icl_error error = {0};
        if (name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (strcmp(name, "checkpoint") == 0) {
            sound = life_folder_is_sound(path, complaint, size);
        } else if (!is_complete(path, name, &error)) {
            snprintf(complaint, size, "%.100s is left half-written: %.300s", name, error.message);
            sound = false;
        }
    }
    if (listing)
        closedir(listing);
    return sound;
}
