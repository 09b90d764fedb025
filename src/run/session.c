#include "iclab/session.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "baseline/predictors.h"
#include "core/allocate.h"
#include "core/recipe_keys.h"
#include "core/recipe_store.h"
#include "iclab/csv.h"
#include "iclab/file.h"
#include "iclab/host.h"
#include "iclab/model_file.h"
#include "iclab/run.h"
#include "iclab/task_family.h"
#include "iclab/text.h"
#include "run/evaluation.h"
#include "run/files.h"
#include "run/metrics.h"
#include "run/recipe_keys.h"
#include "train/multistart.h"
#include "train/objective.h"
#include "train/settings.h"
#include "train/trainer.h"

/* Steps are queued for about this long before the session checks the clock, the stop flag and the losses. */
#define SECONDS_A_CHUNK 0.2
#define MAX_CHUNK       4096

typedef struct session_settings {
    const char *init;
    uint64_t metrics_every, checkpoint_every, snapshot_every, stop_after;
    double stop_at;
} session_settings;

typedef struct session {
    const icl_session_params *params;
    icl_trainer *trainer;
    icl_evaluator *evaluator; /* NULL when eval.every is 0 */
    icl_csv *metrics;
    char *checkpoint, *model, *metrics_path;
    session_settings settings;
    icl_evaluation_settings evaluation;
    uint64_t checkpoint_step; /* step of the last checkpoint on disk */
    size_t chunk;
    bool is_first;    /* the first rank: it has the folder, the others only train */
    bool has_stopped; /* on request */
    bool is_done;     /* because of train.stop_at or train.stop_after */
    double clock;     /* time of a start's last report, or of the beginning */
    icl_evaluated evaluated;
    icl_session_progress progress;
} session;

#define KEY(field) ICL_KEY("train", session_settings, field)

static const icl_recipe_key keys[] = {
    {KEY(init), "", .help = "model.safetensors to start from, instead of model.initialization; empty: none"},
    {KEY(metrics_every), "1", 1, ICL_MAX_STEPS, .help = "steps between rows of metrics.csv"},
    {KEY(checkpoint_every), "1000", 0, ICL_MAX_STEPS, .help = "steps between checkpoints; 0: at the end alone"},
    {KEY(snapshot_every), "0", 0, ICL_MAX_STEPS,
     .help = "steps between copies of the model that are kept, from step 0 on; 0: none"},
    {KEY(stop_at), "0", 0, 1e30, .help = "ends the run at an evaluation (eval.every) of at most this; 0: no such end"},
    {KEY(stop_after), "0", 0, ICL_MAX_STEPS,
     .help = "ends the run after more evaluations than this without a new least one; 0: no such end"},
};
const icl_recipe_group icl_session_keys = ICL_RECIPE_GROUP(keys);

static const icl_recipe_key evaluation_keys[] = {
    {ICL_KEY("eval", icl_evaluation_settings, every), "1000", 0, ICL_MAX_STEPS,
     .help = "steps between evaluations during training; 0: none"},
    {ICL_KEY("eval", icl_evaluation_settings, every_sequences), "8192", 2, 1e8,
     .help = "sequences of such an evaluation, always the same"},
};
const icl_recipe_group icl_session_evaluation_keys = ICL_RECIPE_GROUP(evaluation_keys);

static session_settings read_settings(const icl_recipe *recipe) {
    session_settings settings;

    icl_recipe_read(recipe, &icl_session_keys, &settings);
    return settings;
}

/* ---- Setting up ---- */

/* Sets the parameters to those of the file that train.init names, if it names one. */
static icl_status start_from_file(icl_trainer *trainer, const icl_recipe *recipe, icl_error *error) {
    const char *path = read_settings(recipe).init;
    const icl_model *model = icl_trainer_model(trainer);
    float *values = NULL;
    icl_status status = ICL_OK;

    if (path[0] == '\0')
        return ICL_OK;
    if (icl_train_keys_read(recipe).growth > 0)
        return icl_recipe_reject(recipe, ICL_TRAIN_KEY(growth), error,
                                 "0 beside train.init: a model that is there has all its layers");
    ICL_TRY(icl_allocate(icl_model_size(model), sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    ICL_TRY(icl_model_file_start(path, recipe, model, values, error));
    ICL_TRY(icl_trainer_set_parameters(trainer, values, error));
done:
    icl_free(&values);
    return status;
}

bool icl_session_may_end_early(const icl_recipe *recipe) {
    const session_settings settings = read_settings(recipe);
    return settings.stop_at > 0 || settings.stop_after > 0;
}

/* Has the device take the choices with which it was opened; or those that the run records, if it goes on with a device
 * of the same name, so that its bits stay as they are. */
static icl_status take_choices(const icl_session_params *params, icl_error *error) {
    const char *name = icl_backend_capabilities(params->backend)->name;
    icl_status status = ICL_OK;
    cJSON *facts = NULL;

    ICL_TRY(icl_backend_take_choices(params->backend, NULL, error));
    if (!params->resume || !icl_ranks_is_first(params->ranks))
        goto done;
    ICL_TRY(icl_record_read(params->folder, ICL_RUN_FACTS, &facts, error));
    const cJSON *device = cJSON_GetObjectItemCaseSensitive(facts, "device_name");
    const cJSON *choices = cJSON_GetObjectItemCaseSensitive(facts, "choices");
    if (cJSON_IsString(device) && strcmp(device->valuestring, name) == 0)
        ICL_TRY(icl_backend_take_choices(params->backend, cJSON_IsString(choices) ? choices->valuestring : "", error));
done:
    cJSON_Delete(facts);
    return status;
}

icl_status icl_session_prepare(const icl_session_params *params, icl_trainer **trainer, icl_error *error) {
    icl_status status = ICL_OK;
    icl_trainer *created = NULL;
    char *checkpoint = NULL, *model = NULL;
    bool restored = false;

    if (icl_session_may_end_early(params->recipe) && icl_evaluation_read(params->recipe).every == 0)
        ICL_TRY(icl_recipe_reject(params->recipe, ICL_EVAL_KEY(every), error,
                                  "at least 1 beside train.stop_at or train.stop_after, which go by evaluations"));
    ICL_TRY(take_choices(params, error));
    ICL_TRY(icl_trainer_create(params->backend, params->recipe, &created, error));
    ICL_TRY(icl_evaluation_check(created, params->recipe, error));
    ICL_TRY(icl_trainer_set_ranks(created, params->ranks, error));
    if (params->resume && icl_ranks_is_first(params->ranks)) {
        ICL_TRY(icl_path_join(params->folder, ICL_RUN_CHECKPOINT, &checkpoint, error));
        ICL_TRY(icl_path_join(params->folder, ICL_RUN_MODEL, &model, error));
        if (icl_path_exists(checkpoint)) {
            ICL_TRY(icl_trainer_restore(created, checkpoint, error));
            restored = true;
        } else if (icl_path_exists(model)) {
            status = icl_fail(error, ICL_ERROR_INPUT, "%s: missing: expected the checkpoint of a run", checkpoint);
            goto done;
        } /* otherwise it stopped before its first checkpoint, and begins again */
    }
    if (!restored && icl_ranks_is_first(params->ranks))
        ICL_TRY(start_from_file(created, params->recipe, error));
    *trainer = created;
    created = NULL;
done:
    icl_free(&checkpoint);
    icl_free(&model);
    icl_trainer_destroy(&created);
    return status;
}

static icl_status make_paths(session *run, icl_error *error) {
    const char *folder = run->params->folder;
    icl_status status = ICL_OK;
    char *checkpoint_folder = NULL, *snapshots = NULL;

    ICL_TRY(icl_path_join(folder, "checkpoint", &checkpoint_folder, error));
    ICL_TRY(icl_folder_create(checkpoint_folder, error));
    ICL_TRY(icl_path_join(folder, ICL_RUN_CHECKPOINT, &run->checkpoint, error));
    ICL_TRY(icl_path_join(folder, ICL_RUN_MODEL, &run->model, error));
    ICL_TRY(icl_path_join(folder, ICL_RUN_METRICS, &run->metrics_path, error));
    if (run->settings.snapshot_every > 0) {
        ICL_TRY(icl_path_join(folder, ICL_RUN_SNAPSHOTS, &snapshots, error));
        ICL_TRY(icl_folder_create(snapshots, error));
    }
done:
    icl_free(&checkpoint_folder);
    icl_free(&snapshots);
    return status;
}

static bool is_due(uint64_t step, uint64_t every) {
    return every > 0 && step % every == 0;
}

static uint64_t next_due(uint64_t step, uint64_t every, uint64_t otherwise) {
    const uint64_t due = every > 0 ? step - step % every + every : otherwise;
    return due < otherwise ? due : otherwise;
}

/* Saves the model as it is after this step, if the recipe asks for that. */
static icl_status take_snapshot(const session *run, icl_error *error) {
    const uint64_t step = icl_trainer_progress(run->trainer).step;
    icl_status status = ICL_OK;
    char *path = NULL;

    if (!is_due(step, run->settings.snapshot_every))
        return ICL_OK;
    ICL_TRY(icl_run_snapshot_path(run->params->folder, step, &path, error));
    ICL_TRY(icl_trainer_export(run->trainer, path, error));
done:
    icl_free(&path);
    return status;
}

static void read_intervals(session *run) {
    const icl_recipe *recipe = run->params->recipe;

    run->settings = read_settings(recipe);
    run->evaluation = icl_evaluation_read(recipe);
    run->evaluated = icl_evaluated_none;
    run->chunk = 1;
    run->progress.evaluation = (double)NAN;
    run->progress.adjusted = icl_task_get_prior(icl_trainer_task(run->trainer)) != NULL;
    run->checkpoint_step = icl_trainer_progress(run->trainer).step;
}

/* Decides from the evaluations so far whether the run is done. */
static void judge_end(session *run) {
    run->is_done = (run->settings.stop_at > 0 && run->evaluated.least <= run->settings.stop_at) ||
                   (run->settings.stop_after > 0 && run->evaluated.since_least > run->settings.stop_after);
}

/* Reads the evaluations in the folder's table when a run is resumed. */
static icl_status recall_evaluations(session *run, icl_error *error) {
    icl_metrics metrics;
    const icl_status status = icl_metrics_read(run->params->folder, &metrics, error);

    if (status == ICL_OK) {
        run->evaluated = metrics.all;
        judge_end(run);
    }
    icl_metrics_release(&metrics);
    return status;
}

static icl_status resume_metrics(session *run, uint64_t step, icl_error *error) {
    ICL_CHECK(icl_csv_resume(run->metrics_path, ICL_METRICS_HEADER, step, &run->metrics, error));
    return run->settings.stop_at > 0 || run->settings.stop_after > 0 ? recall_evaluations(run, error) : ICL_OK;
}

/* Writes the recipe for a run folder, freed with icl_free; it names a task and model of the program's own. */
static icl_status write_recipe(const icl_trainer *trainer, char **text, icl_error *error) {
    const icl_trainer_parts *parts = &trainer->problem.parts;
    icl_recipe_own own[2];
    icl_text whole = {0};
    char *recipe = NULL;
    size_t count = 0;
    icl_status status = ICL_OK;

    if (parts->task)
        own[count++] = (icl_recipe_own){"task", parts->task->name, parts->task->keys};
    if (parts->model)
        own[count++] = (icl_recipe_own){"model", parts->model->name, parts->model->keys};
    ICL_TRY(icl_recipe_write_own(trainer->problem.recipe, own, count, &recipe, error));
    for (size_t i = 0; i < count; i++)
        ICL_TRY(
            icl_text_print(&whole, error, "%s%s %s", i == 0 ? ICL_OWN_PARTS : " and ", own[i].section, own[i].family));
    ICL_TRY(icl_text_print(&whole, error, "%s%s", count > 0 ? "\n\n" : "", recipe));
    ICL_TRY(icl_duplicate(whole.bytes, text, error));
done:
    icl_text_release(&whole);
    icl_free(&recipe);
    return status;
}

/* Writes the recipe again if the trainer has its own task or model, which the program's recipe does not name. */
static icl_status record_parts(const session *run, icl_error *error) {
    const icl_trainer_parts parts = icl_trainer_get_parts(run->trainer);
    icl_status status = ICL_OK;
    char *text = NULL;

    if (!parts.task && !parts.model)
        return ICL_OK;
    ICL_TRY(write_recipe(run->trainer, &text, error));
    ICL_TRY(icl_run_file_write(run->params->folder, ICL_RUN_RECIPE, text, error));
done:
    icl_free(&text);
    return status;
}

static icl_status open_folder(session *run, icl_error *error) {
    const uint64_t step = icl_trainer_progress(run->trainer).step;

    if (run->params->resume && icl_path_exists(run->metrics_path))
        ICL_CHECK(resume_metrics(run, step, error));
    else
        ICL_CHECK(icl_csv_create(run->metrics_path, ICL_METRICS_HEADER, &run->metrics, error));
    /* A run that is killed before its first checkpoint, or diverges, can return to its beginning. */
    if (!icl_path_exists(run->checkpoint) || !run->params->resume)
        ICL_CHECK(icl_trainer_save(run->trainer, run->checkpoint, error));
    if (step == 0)
        ICL_CHECK(take_snapshot(run, error));
    return ICL_OK;
}

/* Lists what belongs to the checkpoint, and the snapshots since the last one. */
static icl_status list_files(const session *run, icl_run_files *files, uint64_t from, icl_error *error) {
    const uint64_t every = run->settings.snapshot_every, step = icl_trainer_progress(run->trainer).step;
    char name[64];

    ICL_CHECK(icl_run_files_update(files, ICL_RUN_METRICS, error));
    ICL_CHECK(icl_run_files_update(files, ICL_RUN_CHECKPOINT, error));
    ICL_CHECK(icl_run_files_update(files, ICL_RUN_MODEL, error));
    for (uint64_t at = from; every > 0 && at <= step; at += every) {
        snprintf(name, sizeof name, "%s/%" PRIu64 ".safetensors", ICL_RUN_SNAPSHOTS, at);
        ICL_CHECK(icl_run_files_update(files, name, error));
    }
    return icl_run_files_write(files, error);
}

/* Opens the folder and lists its files. Forgets the table's entry, because the table may be cut to the checkpoint's
 * step. */
static icl_status open_listed(session *run, icl_error *error) {
    const uint64_t step = icl_trainer_progress(run->trainer).step;
    icl_run_files *files = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make_paths(run, error));
    ICL_TRY(record_parts(run, error));
    ICL_TRY(icl_run_files_open(run->params->folder, &files, error));
    icl_run_files_forget(files, ICL_RUN_METRICS);
    ICL_TRY(open_folder(run, error));
    ICL_TRY(list_files(run, files, step, error));
done:
    icl_run_files_close(&files);
    return status;
}

static void close_session(session *run) {
    icl_evaluator_destroy(&run->evaluator);
    icl_csv_destroy(&run->metrics);
    icl_free(&run->checkpoint);
    icl_free(&run->model);
    icl_free(&run->metrics_path);
}

/* ---- Steps ---- */

/* Writes the table's rows before the checkpoint, so that the table is never behind the checkpoint from which a resumed
 * run starts. */
static icl_status save(session *run, icl_error *error) {
    icl_run_files *files = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_run_files_open(run->params->folder, &files, error));
    ICL_TRY(icl_csv_flush(run->metrics, error));
    ICL_TRY(icl_trainer_save(run->trainer, run->checkpoint, error));
    ICL_TRY(icl_trainer_export(run->trainer, run->model, error));
    ICL_TRY(list_files(run, files, next_due(run->checkpoint_step, run->settings.snapshot_every, UINT64_MAX), error));
    run->checkpoint_step = icl_trainer_progress(run->trainer).step;
done:
    icl_run_files_close(&files);
    return status;
}

/* Writes the rows up to a divergence, if the disk takes them. */
static void keep_rows(session *run) {
    icl_run_files *files = NULL;

    if (icl_run_files_open(run->params->folder, &files, NULL) == ICL_OK) {
        (void)icl_csv_flush(run->metrics, NULL);
        (void)icl_run_files_update(files, ICL_RUN_METRICS, NULL);
        (void)icl_run_files_write(files, NULL);
    }
    icl_run_files_close(&files);
}

/* Saves the model after its last stage, which the checkpoint does not hold. */
static icl_status save_model(const session *run, icl_error *error) {
    icl_run_files *files = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_run_files_open(run->params->folder, &files, error));
    ICL_TRY(icl_trainer_export(run->trainer, run->model, error));
    ICL_TRY(icl_run_files_update(files, ICL_RUN_MODEL, error));
    ICL_TRY(icl_run_files_write(files, error));
done:
    icl_run_files_close(&files);
    return status;
}

/* Adds rows for the steps since step `before`. The last of them has the evaluation, if there was one. */
static icl_status add_rows(session *run, uint64_t before, double evaluation, icl_error *error) {
    size_t count;
    const float *losses = icl_trainer_losses(run->trainer, &count);
    const float *norms = icl_trainer_gradient_norms(run->trainer, &count);
    const icl_session_follower *follower = run->params->follower;

    for (size_t i = 0; i < count; i++) {
        const uint64_t step = before + i + 1;
        const double evaluated = i + 1 == count ? evaluation : (double)NAN;
        const double values[] = {(double)losses[i], (double)norms[i], icl_trainer_rate_at(run->trainer, step - 1),
                                 evaluated};
        if (!is_due(step, run->settings.metrics_every) && isnan(evaluated))
            continue;
        ICL_CHECK(icl_csv_row(run->metrics, step, values, sizeof values / sizeof *values, error));
        if (follower)
            follower->row(follower->user, &(icl_session_row){step, values[0], values[1], values[2], values[3]});
    }
    if (follower)
        follower->flush(follower->user);
    return ICL_OK;
}

/* Reports in one line what happened and what is left of the run. */
static icl_status explain_divergence(const session *run, icl_error *error) {
    if (error) {
        const size_t used = strlen(error->message);
        snprintf(error->message + used, sizeof error->message - used, "; %s keeps step %" PRIu64, run->checkpoint,
                 run->checkpoint_step);
    }
    return ICL_ERROR_DIVERGED;
}

/* Updates the progress after `steps` more steps, with `left` before the end of the training. */
static void report(session *run, const icl_train_progress *trained, uint64_t steps, uint64_t left, double seconds) {
    icl_session_progress *progress = &run->progress;
    const double rate = seconds > 0 ? (double)steps / seconds : 0;

    progress->loss = trained->loss;
    progress->learning_rate = trained->learning_rate;
    progress->skipped_steps = trained->skipped_steps;
    progress->dropped_sequences = trained->dropped_sequences;
    /* The rate is smoothed, so that the time left does not jump. */
    progress->steps_per_second = progress->steps_per_second > 0 ? 0.8 * progress->steps_per_second + 0.2 * rate : rate;
    progress->seconds_left = progress->steps_per_second > 0 ? (double)left / progress->steps_per_second : 0;
    if (run->params->report)
        run->params->report(run->params->user, progress);
}

static void report_training(session *run, uint64_t before, double seconds) {
    const icl_train_progress trained = icl_trainer_progress(run->trainer);

    run->progress.start = run->progress.starts = 0;
    run->progress.step = trained.step;
    run->progress.total_steps = trained.total_steps;
    report(run, &trained, trained.step - before, trained.total_steps - trained.step, seconds);
}

/* Evaluates the model. The sequences are made when they are first needed, so that a run starts training at once. */
static icl_status evaluate(session *run, double *evaluation, icl_error *error) {
    const icl_session_measure *measure = run->params->measure;

    if (measure)
        return measure->of(measure->user, run->trainer, evaluation, error);
    if (!run->evaluator)
        ICL_CHECK(icl_evaluator_create(run->params->backend, icl_trainer_task(run->trainer),
                                       run->evaluation.every_sequences, (uint32_t)run->evaluation.seed, &run->evaluator,
                                       error));
    return icl_evaluator_loss(run->evaluator, run->trainer, evaluation, error);
}

/* Only rank 0 evaluates after steps, and writes rows and files. */
static icl_status follow_up(session *run, uint64_t before, uint64_t step, double seconds, icl_error *error) {
    double evaluation = (double)NAN;

    run->progress.evaluated = is_due(step, run->evaluation.every);
    if (run->progress.evaluated) {
        ICL_CHECK(evaluate(run, &evaluation, error));
        run->progress.evaluation = evaluation;
        icl_evaluated_add(&run->evaluated, evaluation);
        judge_end(run);
    }
    ICL_CHECK(add_rows(run, before, evaluation, error));
    ICL_CHECK(take_snapshot(run, error));
    if (is_due(step, run->settings.checkpoint_every))
        ICL_CHECK(save(run, error));
    report_training(run, before, seconds);
    return ICL_OK;
}

/* Keeps all ranks at one pace: rank 0's clock and stop flag decide how many steps come next. */
static icl_status keep_pace(session *run, size_t steps, double seconds, icl_error *error) {
    struct {
        double seconds;
        uint64_t stop, done;
    } first = {seconds, run->params->stop && *run->params->stop, run->is_done};
    const icl_status status = icl_ranks_share(run->params->ranks, &first, sizeof first, error);

    run->has_stopped = first.stop;
    run->is_done = first.done;
    if (first.seconds < SECONDS_A_CHUNK / 2 && steps == run->chunk && run->chunk < MAX_CHUNK)
        run->chunk *= 2;
    else if (first.seconds > SECONDS_A_CHUNK && run->chunk > 1)
        run->chunk /= 2;
    return status;
}

/* Runs up to the next evaluation or checkpoint, or for a chunk. */
static icl_status advance(session *run, icl_error *error) {
    const uint64_t before = icl_trainer_progress(run->trainer).step;
    const uint64_t total = icl_trainer_progress(run->trainer).total_steps;
    const uint64_t due = next_due(
        before, run->evaluation.every,
        next_due(before, run->settings.checkpoint_every, next_due(before, run->settings.snapshot_every, total)));
    const size_t steps = due - before < run->chunk ? (size_t)(due - before) : run->chunk;
    const double start = icl_clock_seconds();
    double seconds;
    icl_status status = icl_trainer_run(run->trainer, steps, error);

    if (status == ICL_ERROR_DIVERGED && run->is_first) {
        (void)add_rows(run, before, (double)NAN, NULL);
        keep_rows(run);
        return explain_divergence(run, error);
    }
    if (status != ICL_OK)
        return status;
    seconds = icl_clock_seconds() - start;
    if (run->is_first)
        status = follow_up(run, before, before + steps, seconds, error);
    ICL_TRY(icl_ranks_agree(run->params->ranks, status, error));
    ICL_TRY(keep_pace(run, steps, seconds, error));
done:
    return status;
}

/* ---- Before the first step, and after the last ---- */

/* An icl_starts_watch.report: counts the steps of all starts together. */
static void report_start(void *user, size_t number, const icl_trainer *start) {
    session *run = user;
    const icl_train_progress trained = icl_trainer_progress(start);
    const uint64_t own = icl_trainer_progress(run->trainer).total_steps, first = number * trained.total_steps;
    const uint64_t before = run->progress.step > first ? run->progress.step : first; /* the start before may diverge */
    const double last = run->clock;

    run->clock = icl_clock_seconds();
    run->progress.start = number + 1;
    run->progress.starts = icl_starts_count(run->trainer);
    run->progress.step = first + trained.step;
    run->progress.total_steps = run->progress.starts * trained.total_steps;
    report(run, &trained, run->progress.step - before, run->progress.total_steps - run->progress.step + own,
           run->clock - last);
}

/* Only rank 0 tries starts; the others get its state. A folder without a checkpoint has no chosen start yet. */
static icl_status choose_start(session *run, icl_error *error) {
    const icl_session_params *params = run->params;
    const icl_starts_watch watch = {.stop = params->stop, .report = report_start, .user = run};
    icl_trainer *trainer = run->trainer;
    icl_status status = ICL_OK;
    char *checkpoint = NULL;

    if (params->has_start || icl_trainer_progress(trainer).step > 0 || icl_starts_count(trainer) <= 1)
        return ICL_OK;
    ICL_TRY(icl_path_join(params->folder, ICL_RUN_CHECKPOINT, &checkpoint, error));
    run->clock = icl_clock_seconds();
    if (!params->resume || !icl_path_exists(checkpoint))
        ICL_TRY(icl_trainer_choose_start(trainer, &watch, error));
done:
    icl_free(&checkpoint);
    return status;
}

/* Polishes the model. The checkpoint keeps the state from before, so that a longer run goes on from there, and one that
 * ends here arrives at the same polish again. Only rank 0 polishes; the others take its parameters. */
static icl_status finish(session *run, icl_error *error) {
    icl_polish_result result;
    icl_status status = ICL_OK;

    if (!icl_polish_is_wanted(run->trainer))
        return ICL_OK;
    if (run->is_first)
        status = icl_trainer_polish(run->trainer, run->params->stop, &result, error);
    if (run->is_first && status == ICL_OK)
        status = save_model(run, error);
    ICL_CHECK(icl_ranks_agree(run->params->ranks, status, error));
    return icl_trainer_follow_first(run->trainer, error);
}

/* Returns whether every step was skipped. */
static bool is_untrained(const icl_trainer *trainer) {
    const icl_train_progress progress = icl_trainer_progress(trainer);

    return progress.step > 0 && progress.skipped_steps == progress.step;
}

/* Has all ranks take the choices of the first one, so that a step does not depend on who computes it. A rank on another
 * kind of device keeps its own. */
static icl_status share_choices(const icl_session_params *params, icl_error *error) {
    char *words = NULL;
    icl_status status = ICL_OK;

    if (!params->ranks || params->ranks->count == 1)
        return ICL_OK;
    status = icl_backend_choices(params->backend, &words, error);
    ICL_TRY(icl_ranks_agree(params->ranks, status, error));
    ICL_TRY(icl_ranks_share_text(params->ranks, &words, error));
    if (!icl_ranks_is_first(params->ranks))
        (void)icl_backend_take_choices(params->backend, words, NULL);
done:
    icl_free(&words);
    return status;
}

icl_status icl_session_train(const icl_session_params *params, icl_trainer *trainer, icl_error *error) {
    session run = {.params = params, .trainer = trainer, .is_first = icl_ranks_is_first(params->ranks)};
    const uint64_t total = icl_trainer_progress(trainer).total_steps;
    icl_status status;

    ICL_CHECK(share_choices(params, error));
    read_intervals(&run);
    status = run.is_first ? choose_start(&run, error) : ICL_OK;
    ICL_CHECK(icl_ranks_agree(params->ranks, status, error));
    ICL_CHECK(icl_trainer_follow_first(trainer, error));
    if (run.is_first)
        status = open_listed(&run, error);
    ICL_TRY(icl_ranks_agree(params->ranks, status, error));
    ICL_TRY(keep_pace(&run, 0, SECONDS_A_CHUNK, error));
    while (icl_trainer_progress(trainer).step < total && !run.has_stopped && !run.is_done)
        ICL_TRY(advance(&run, error));
    if (run.is_first)
        status = save(&run, error);
    ICL_TRY(icl_ranks_agree(params->ranks, status, error));
    if (icl_trainer_progress(trainer).step < total && !run.is_done)
        status = icl_fail(error, ICL_ERROR_INTERRUPTED, "stopped after step %" PRIu64 " of %" PRIu64,
                          icl_trainer_progress(trainer).step, total);
    else if (is_untrained(trainer))
        status = icl_fail(error, ICL_ERROR_DIVERGED,
                          "none of %" PRIu64 " steps was taken: no gradient was finite, from the start on; a smaller "
                          "start (model.init_std, model.initialization; of graphs model.value_std) or fewer "
                          "model.layers may help",
                          icl_trainer_progress(trainer).step);
    else
        status = finish(&run, error);
done:
    close_session(&run);
    return status;
}

/* ---- Memory: what a training and its evaluations hold at their fullest, before the first step ---- */

static const double MEBIBYTE = 1048576;

enum { FEW = 2 }; /* sequences to fit predictors on here, where only their bytes matter */

static double larger(double a, double b) {
    return a > b ? a : b;
}

/* Returns the bytes that icl_tally_create takes. */
static double bytes_of_tally(const icl_tally *tally, bool with_weights) {
    const size_t tables = 1 + icl_loss_has_accuracy(tally->shape.loss) + (tally->oracle > 0);
    const double row = (double)tally->shape.scored * (double)(tally->columns * tables + with_weights) + 1;

    return (double)tally->sequences * row * sizeof(double);
}

/* Returns the bytes that sequences take on the host. */
static double sequences_bytes(const icl_sequences *sequences) {
    const icl_task_shape *shape = icl_task_get_shape(sequences->task);
    const icl_batch *batch = &sequences->batch;
    const size_t positions = sequences->chunk * shape->scored;
    const size_t numbers = icl_tensor_count(&batch->inputs) + sequences->chunk + icl_tensor_count(&batch->targets) +
                           (sequences->weights ? positions : 0) + positions * shape->outputs;

    return (double)numbers * sizeof(float);
}

/* Returns the bytes on the host of an evaluation of `count` sequences. */
static double tally_bytes(const icl_sequences *sequences, size_t count, size_t columns, bool has_oracle) {
    const icl_tally tally = {
        .shape = *icl_task_get_shape(sequences->task), .sequences = count, .columns = columns, .oracle = has_oracle};

    return bytes_of_tally(&tally, sequences->weights != NULL) + sequences_bytes(sequences);
}

/* Returns the bytes on the host of a batch, if its task draws there; else 0. */
static double draw_bytes(const icl_task *task, const icl_batch *batch) {
    const size_t numbers =
        icl_tensor_count(&batch->inputs) + icl_tensor_count(&batch->targets) + icl_tensor_count(&batch->weights);

    return task->family->draw ? (double)numbers * sizeof(float) : 0;
}

/* Returns the largest number of bytes that a reference predictor's fit takes. */
static double fit_bytes(const icl_reference_set *beside, const icl_task *task) {
    double most = 0;

    for (size_t i = 0; i < beside->count; i++) {
        const icl_reference_predictor *predictor = beside->items[i].predictor;
        most = predictor && predictor->bytes ? larger(most, predictor->bytes(predictor, task)) : most;
    }
    return most;
}

static double host_bytes(const icl_sequences *sequences, const icl_reference_set *beside, const icl_recipe *recipe) {
    const icl_evaluation_settings settings = icl_evaluation_read(recipe);
    const icl_task_shape *shape = icl_task_get_shape(sequences->task);
    const size_t positions = sequences->chunk * shape->scored;
    const size_t estimates = beside->regression ? icl_predictors_count(beside->regression) : 0;
    const bool has_oracle = beside->regression != NULL;
    const double fit =
        has_oracle ? icl_predictors_fit_bytes(sequences->task, sequences->backend, settings.fit_sequences) : 0;
    const size_t there = icl_sequences_available(sequences->task, settings.sequences);
    double table = tally_bytes(sequences, there, 1 + beside->count, has_oracle);

    table += has_oracle ? icl_predictors_run_bytes(sequences->task, sequences->backend) : 0;
    table += larger(draw_bytes(sequences->task, &sequences->batch), fit_bytes(beside, sequences->task));
    table += (double)positions * (double)(estimates + shape->outputs) * sizeof(double);
    if (settings.every == 0)
        return larger(fit, table);
    const double watch = tally_bytes(sequences, settings.every_sequences, 1 + has_oracle, has_oracle) +
                         (double)positions * (double)shape->outputs * sizeof(double);
    return larger(larger(fit, table), watch);
}

/* Draws and predicts one piece, as each evaluation does. A prediction takes fewer sequences at a time if the device has
 * no room for more; the bytes that it reserves then show that. */
static icl_status predict_piece(icl_trainer *trainer, const icl_recipe *recipe, icl_session_memory *memory,
                                icl_error *error) {
    icl_backend *backend = trainer->backend;
    icl_reference_set beside = {0};
    icl_sequences sequences = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_reference_set_create(trainer, recipe, FEW, 1, &beside, error));
    ICL_TRY(icl_backend_trim(backend, error));
    const double before = (double)icl_backend_get_statistics(backend).bytes_reserved;
    ICL_TRY(icl_sequences_create(backend, trainer->problem.task, 1, &sequences, error));
    sequences.decodes = icl_evaluation_read(recipe).decode;
    ICL_TRY(icl_sequences_sample(&sequences, 0, error));
    ICL_TRY(icl_sequences_predict(&sequences, trainer, error));
    memory->device = larger(0, (double)icl_backend_get_statistics(backend).bytes_reserved - before);
    memory->host = host_bytes(&sequences, &beside, recipe);
done:
    icl_sequences_release(&sequences);
    icl_reference_set_release(&beside);
    icl_backend_forget_peak(backend);
    return status;
}

double icl_session_memory_of(const icl_session_memory *memory) {
    return icl_step_memory_of(&memory->step, memory->step.slices) + memory->device + memory->host;
}

/* Returns the bytes that tensors may take, which a host device shares with everything else; 0 if unknown. */
static double room_for_tensors(const icl_capabilities *device) {
    return (double)(device->kind == ICL_DEVICE_HOST ? device->max_allocation : device->global_memory);
}

static icl_status check_host(const icl_capabilities *device, const icl_session_memory *memory, icl_error *error) {
    const double there = (double)device->global_memory, all = icl_session_memory_of(memory);

    if (device->kind != ICL_DEVICE_HOST || there == 0 || all <= there)
        return ICL_OK;
    return icl_fail(error, ICL_ERROR_INPUT,
                    "the training would hold %.0f MiB, %.0f of them beside its tensors, and %s has %.0f; expected "
                    "fewer eval.sequences, eval.every_sequences and eval.fit_sequences, or a shorter task",
                    all / MEBIBYTE, memory->host / MEBIBYTE, device->name, there / MEBIBYTE);
}

icl_status icl_session_measure_memory(icl_trainer *trainer, const icl_recipe *recipe, icl_session_memory *memory,
                                      icl_error *error) {
    const icl_capabilities *device = icl_backend_capabilities(trainer->backend);
    const double room = room_for_tensors(device);
    double polish = 0;

    *memory = (icl_session_memory){0};
    ICL_CHECK(icl_trainer_measure_memory(trainer, &memory->step, error));
    const double step = icl_step_memory_of(&memory->step, memory->step.slices);
    if (room > 0)
        ICL_CHECK(icl_step_memory_check(&memory->step, room, device->name, error));
    ICL_CHECK(predict_piece(trainer, recipe, memory, error));
    memory->device += icl_starts_count(trainer) > 1 ? step - memory->step.fixed : 0; /* a start has its own batch */
    if (room > 0 && memory->device > room - step)
        memory->device = room - step; /* the device then frees what a step no longer needs */
    ICL_CHECK(icl_polish_measure_memory(trainer, &polish, error));
    memory->host = larger(memory->host, draw_bytes(trainer->problem.task, &trainer->state.batch));
    memory->host = larger(memory->host, larger(icl_starts_bytes(trainer), polish));
    return check_host(device, memory, error);
}
