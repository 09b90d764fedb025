#include "run/cell.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "run/files.h"
#include "run/recipe_keys.h"
#include "train/objective.h"

icl_status icl_cell_find(const char *folder, const icl_recipe *recipe, bool *found, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *held = NULL;
    char *path = NULL, *held_text = NULL, *wanted_text = NULL;
    size_t keys;
    const icl_recipe_key *table = icl_recipe_keys(recipe, &keys);

    *found = false;
    ICL_TRY(icl_path_join(folder, ICL_RUN_RECIPE, &path, error));
    if (!icl_path_exists(path))
        goto done;
    ICL_TRY(icl_recipe_create(table, keys, &held, error));
    ICL_TRY(icl_recipe_load(held, path, error));
    ICL_TRY(icl_recipe_reset_unused(held, error));
    ICL_TRY(icl_recipe_write(held, &held_text, error));
    ICL_TRY(icl_recipe_write(recipe, &wanted_text, error));
    *found = true;
    if (strcmp(held_text, wanted_text) != 0)
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: holds a run of another recipe: expected another folder, or the same settings and "
                          "version as when it was made",
                          path);
    else
        status = icl_run_files_check(folder, NULL, error);
done:
    icl_recipe_destroy(&held);
    icl_free(&path);
    icl_free(&held_text);
    icl_free(&wanted_text);
    return status;
}

/* Reads the state first, because files come and go while another process trains there. */
icl_status icl_cell_is_finished(const char *folder, const icl_recipe *recipe, bool *finished, icl_error *error) {
    char *state = NULL;

    ICL_CHECK(icl_run_read_state(folder, &state, error));
    *finished = strcmp(state, "finished") == 0 || strcmp(state, "diverged") == 0;
    icl_free(&state);
    return *finished ? icl_cell_find(folder, recipe, finished, error) : ICL_OK;
}

/* ---- What a run started from ---- */

/* Writes the hash of the given initial parameters as text, because no recipe can record them. */
static icl_status origin_of(const icl_cell_params *params, const icl_trainer *trainer, char text[32], char **path,
                            icl_error *error) {
    const size_t size = icl_model_size(icl_trainer_model(trainer));

    snprintf(text, 32, "%016" PRIx64 "\n", icl_hash(params->initial, size * sizeof *params->initial));
    return icl_path_join(params->session.folder, ICL_RUN_ORIGIN, path, error);
}

/* Is called before the recipe is written, because the recipe makes the folder a run. */
static icl_status write_origin(const icl_cell_params *params, const icl_trainer *trainer, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL, text[32];

    ICL_TRY(icl_folder_create(params->session.folder, error));
    ICL_TRY(origin_of(params, trainer, text, &path, error));
    ICL_TRY(icl_run_file_write(params->session.folder, ICL_RUN_ORIGIN, text, error));
done:
    icl_free(&path);
    return status;
}

static icl_status check_origin(const icl_cell_params *params, const icl_trainer *trainer, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL, *held = NULL, wanted[32];
    size_t size;

    ICL_TRY(origin_of(params, trainer, wanted, &path, error));
    if (icl_path_exists(path))
        ICL_TRY(icl_file_read(path, 0, &held, &size, error));
    if (!held || strcmp(held, wanted) != 0)
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: holds a run that started from other parameters: expected another folder, or this "
                          "folder removed",
                          params->session.folder);
done:
    icl_free(&path);
    icl_free(&held);
    return status;
}

/* ---- Training ---- */

/* The times that the record of a run has and the trainer does not know. */
typedef struct run_times {
    double start, first_step, end;
} run_times;

static icl_status write_facts(const icl_cell_params *params, const icl_trainer *trainer, const run_times *times,
                              const char *state, icl_error *error) {
    const icl_session_params *session = &params->session;
    icl_run_facts facts = icl_run_facts_collect(session->backend, session->recipe, trainer);

    facts.recipe_name = params->recipe_name;
    facts.command_line = params->command_line;
    facts.startup_seconds = times->first_step - times->start;
    facts.training_seconds = times->end - times->first_step;
    facts.status = state;
    return icl_run_write_facts(session->folder, &facts, error);
}

/* Sets *finished to whether the run was completed and written: a run that was killed at its last checkpoint still lacks
 * its model. Fails for a run that diverged, because it would diverge again. */
static icl_status is_finished(const char *folder, const icl_trainer *trainer, bool ends_early, bool *finished,
                              icl_error *error) {
    const icl_train_progress progress = icl_trainer_progress(trainer);
    icl_status status = ICL_OK;
    char *state = NULL;

    ICL_TRY(icl_run_read_state(folder, &state, error));
    if (strcmp(state, "diverged") == 0)
        ICL_TRY(icl_fail(error, ICL_ERROR_DIVERGED, "%s: holds a run that diverged", folder));
    *finished = (progress.step >= progress.total_steps || ends_early) && strcmp(state, "finished") == 0;
done:
    icl_free(&state);
    return status;
}

/* Reads a polished model from its file, because the checkpoint does not hold it. */
static icl_status take_model(const char *folder, icl_trainer *trainer, icl_error *error) {
    const icl_model *model = icl_trainer_model(trainer);
    icl_status status = ICL_OK;
    float *values = NULL;

    if (!icl_polish_is_wanted(trainer))
        return ICL_OK;
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_run_read_model(folder, model, values, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
done:
    icl_free(&values);
    return status;
}

/* Claims or makes no folder before a recipe that cannot be trained is refused. Does not claim a finished run either:
 * any number of processes may load it. */
static icl_status prepare(icl_session_params *session, icl_run_claim **held, icl_trainer **trainer, icl_error *error) {
    bool finished;

    ICL_CHECK(icl_cell_find(session->folder, session->recipe, &session->resume, error));
    ICL_CHECK(icl_cell_is_finished(session->folder, session->recipe, &finished, error));
    if (session->resume && !finished)
        ICL_CHECK(icl_run_claim_take(session->folder, held, error));
    ICL_CHECK(icl_session_prepare(session, trainer, error));
    if (session->resume)
        return ICL_OK;
    ICL_CHECK(icl_run_claim_take(session->folder, held, error));
    ICL_CHECK(icl_cell_find(session->folder, session->recipe, &session->resume, error));
    if (!session->resume)
        return ICL_OK;
    icl_trainer_destroy(trainer); /* meanwhile another process began the run and left it */
    return icl_session_prepare(session, trainer, error);
}

static icl_status train(const icl_cell_params *params, icl_trainer **trainer, icl_error *error) {
    icl_session_params session = params->session;
    run_times times = {.start = icl_clock_seconds()};
    icl_run_claim *held = NULL;
    bool finished = false;
    icl_status status = ICL_OK;

    ICL_TRY(prepare(&session, &held, trainer, error));
    session.has_start = params->initial != NULL;
    if (params->initial && icl_trainer_progress(*trainer).step == 0)
        ICL_TRY(icl_trainer_set_parameters(*trainer, params->initial, error));
    if (params->initial)
        ICL_TRY((session.resume ? check_origin : write_origin)(params, *trainer, error));
    if (!session.resume)
        ICL_TRY(icl_run_create(session.folder, session.recipe, error));
    ICL_TRY(is_finished(session.folder, *trainer, icl_session_may_end_early(session.recipe), &finished, error));
    if (finished) {
        status = take_model(session.folder, *trainer, error);
        goto done;
    }
    if (params->begin)
        params->begin(params->user, session.folder, icl_trainer_progress(*trainer).step,
                      icl_trainer_progress(*trainer).total_steps);
    times.first_step = times.end = icl_clock_seconds();
    status = icl_session_train(&session, *trainer, error);
    times.end = icl_clock_seconds();
    if (status == ICL_OK)
        status = write_facts(params, *trainer, &times, "finished", error);
    else if (status == ICL_ERROR_INTERRUPTED || status == ICL_ERROR_DIVERGED)
        (void)write_facts(params, *trainer, &times, status == ICL_ERROR_INTERRUPTED ? "interrupted" : "diverged", NULL);
done:
    icl_run_claim_release(&held);
    return status;
}

icl_status icl_cell_train(const icl_cell_params *params, icl_trainer **trainer, icl_error *error) {
    icl_status status = ICL_OK;
    icl_trainer *created = NULL;

    ICL_TRY(train(params, &created, error));
    ICL_TRY(icl_trainer_round_parameters(created, error));
    *trainer = created;
    created = NULL;
done:
    icl_trainer_destroy(&created);
    return status;
}
