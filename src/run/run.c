#include "iclab/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/allocate.h"
#include "core/file.h"
#include "core/json_parse.h"
#include "iclab/file.h"
#include "iclab/json.h"
#include "iclab/model_file.h"
#include "run/files.h"
#include "train/trainer.h"

/* ---- The recipe ---- */

#define MOST_RECIPE_BYTES ((size_t)1 << 20)

icl_status icl_run_write_recipe(const char *folder, const icl_recipe *recipe, icl_error *error) {
    icl_status status = ICL_OK;
    char *text = NULL;

    ICL_TRY(icl_recipe_write(recipe, &text, error));
    ICL_TRY(icl_run_file_write(folder, ICL_RUN_RECIPE, text, error));
done:
    icl_free(&text);
    return status;
}

icl_status icl_run_create(const char *folder, const icl_recipe *recipe, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    ICL_TRY(icl_path_join(folder, ICL_RUN_RECIPE, &path, error));
    if (icl_path_exists(path)) {
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: already holds a run: expected another folder, or the run resumed", folder);
        goto done;
    }
    ICL_TRY(icl_folder_create(folder, error));
    ICL_TRY(icl_run_write_recipe(folder, recipe, error));
done:
    icl_free(&path);
    return status;
}

/* Refuses a text that was cut: every writer ends it with a line feed. */
static icl_status check_text(const char *folder, const char *path, const char *text, size_t size, icl_error *error) {
    const size_t mark = strlen(ICL_OWN_PARTS);

    if (strncmp(text, ICL_OWN_PARTS, mark) == 0)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "%s: %.*s: expected that program, which alone can evaluate it or go on with it", folder,
                        (int)strcspn(text + 2, "\n"), text + 2);
    if (size == 0 || text[size - 1] != '\n' || strlen(text) != size)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: does not end with a line feed: expected the whole of the recipe",
                        path);
    return ICL_OK;
}

icl_status icl_run_read_recipe(const char *folder, icl_recipe *recipe, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL, *text = NULL;
    size_t size;

    ICL_TRY(icl_path_join(folder, ICL_RUN_RECIPE, &path, error));
    if (!icl_path_exists(path)) {
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: not a run: expected a folder that iclab train wrote, with a " ICL_RUN_RECIPE " in it",
                          folder);
        goto done;
    }
    ICL_TRY(icl_run_files_check(folder, NULL, error));
    ICL_TRY(icl_file_read(path, MOST_RECIPE_BYTES, &text, &size, error));
    ICL_TRY(check_text(folder, path, text, size, error));
    ICL_TRY(icl_recipe_parse(recipe, text, path, error));
    ICL_TRY(icl_recipe_reset_unused(recipe, error)); /* older runs hold every key */
done:
    icl_free(&text);
    icl_free(&path);
    return status;
}

/* ---- run.json ---- */

icl_run_facts icl_run_facts_collect(const icl_backend *backend, const icl_recipe *recipe, const icl_trainer *trainer) {
    const icl_train_progress progress = icl_trainer_progress(trainer);
    return (icl_run_facts){
        .device = icl_backend_capabilities(backend),
        .backend = backend,
        .seed = (uint32_t)icl_train_keys_read(recipe).seed,
        .steps = progress.step,
        .skipped_steps = progress.skipped_steps,
        .dropped_sequences = progress.dropped_sequences,
        .start = progress.start,
        .basins = icl_trainer_basins(trainer),
        .polished = icl_trainer_polished(trainer),
        .text = icl_task_get_text(icl_trainer_task(trainer)),
    };
}

/* Adds name, size and hash of the text, and whether it is UTF-8: what generated text is to be. */
static void add_text(icl_json *json, const icl_task_text *text) {
    char hash[17];

    if (!text)
        return;
    snprintf(hash, sizeof hash, "%016" PRIx64, text->hash);
    icl_json_text(json, "text_file", text->file);
    icl_json_count(json, "text_bytes", text->bytes);
    icl_json_text(json, "text_hash", hash);
    icl_json_flag(json, "text_is_utf8", text->is_utf8);
}

icl_status icl_run_write_facts(const char *folder, const icl_run_facts *facts, icl_error *error) {
    icl_status status = ICL_OK;
    icl_json json = {0};
    char *text = NULL, *choices = NULL;

    if (facts->backend)
        ICL_TRY(icl_backend_choices(facts->backend, &choices, error));
    icl_provenance_add_program(&json);
    icl_json_text(&json, "recipe", facts->recipe_name);
    icl_json_count(&json, "seed", facts->seed);
    icl_provenance_add_device(&json, facts->device);
    if (choices && *choices)
        icl_json_text(&json, "choices", choices);
    icl_json_count(&json, "ranks", facts->ranks > 0 ? facts->ranks : 1);
    icl_json_text(&json, "command_line", facts->command_line ? facts->command_line : "");
    icl_json_count(&json, "steps", facts->steps);
    icl_json_count(&json, "skipped_steps", facts->skipped_steps);
    icl_json_count(&json, "dropped_sequences", facts->dropped_sequences);
    if (facts->start > 0)
        icl_json_count(&json, "start", facts->start);
    icl_basins_add_json(&facts->basins, &json);
    icl_polish_add_json(&facts->polished, &json);
    if (facts->step_memory > 0)
        icl_json_number(&json, "step_memory_bytes", facts->step_memory);
    if (facts->memory > 0)
        icl_json_number(&json, "memory_bytes", facts->memory);
    add_text(&json, facts->text);
    icl_json_number(&json, "startup_seconds", fmax(0, facts->startup_seconds));
    icl_json_number(&json, "training_seconds", fmax(0, facts->training_seconds));
    icl_json_text(&json, "status", facts->status);
    ICL_TRY(icl_json_finish(&json, true, &text, error));
    ICL_TRY(icl_run_file_write(folder, ICL_RUN_FACTS, text, error));
done:
    icl_free(&choices);
    icl_free(&text);
    return status;
}

static icl_status read_text(const char *folder, const char *name, const char *otherwise, char **text,
                            icl_error *error) {
    icl_status status = ICL_OK;
    const cJSON *entry;
    cJSON *facts = NULL;

    ICL_TRY(icl_record_read(folder, ICL_RUN_FACTS, &facts, error));
    entry = cJSON_GetObjectItemCaseSensitive(facts, name);
    ICL_TRY(icl_duplicate(cJSON_IsString(entry) ? entry->valuestring : otherwise, text, error));
done:
    cJSON_Delete(facts);
    return status;
}

icl_status icl_run_read_recipe_name(const char *folder, char **name, icl_error *error) {
    return read_text(folder, "recipe", ICL_RUN_RECIPE, name, error);
}

icl_status icl_run_read_state(const char *folder, char **state, icl_error *error) {
    return read_text(folder, "status", "", state, error);
}

icl_status icl_run_read_number(const char *folder, const char *name, double *number, icl_error *error) {
    icl_status status = ICL_OK;
    const cJSON *entry;
    cJSON *facts = NULL;

    ICL_TRY(icl_record_read(folder, ICL_RUN_FACTS, &facts, error));
    entry = cJSON_GetObjectItemCaseSensitive(facts, name);
    *number = cJSON_IsNumber(entry) ? entry->valuedouble : (double)NAN;
done:
    cJSON_Delete(facts);
    return status;
}

icl_status icl_run_read_flag(const char *folder, const char *name, bool *flag, icl_error *error) {
    cJSON *facts = NULL;

    ICL_CHECK(icl_record_read(folder, ICL_RUN_FACTS, &facts, error));
    *flag = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(facts, name));
    cJSON_Delete(facts);
    return ICL_OK;
}

static double number_of(const cJSON *facts, const char *name) {
    const cJSON *entry = cJSON_GetObjectItemCaseSensitive(facts, name);
    return cJSON_IsNumber(entry) ? entry->valuedouble : 0;
}

icl_status icl_run_compare_text(const char *folder, const icl_trainer *trainer, bool *same,
                                char difference[ICL_TEXT_DIFFERENCE], icl_error *error) {
    const icl_task_text *text = icl_task_get_text(icl_trainer_task(trainer));
    const cJSON *recorded;
    cJSON *facts = NULL;
    char hash[17];

    *same = true;
    if (!text)
        return ICL_OK;
    ICL_CHECK(icl_record_read(folder, ICL_RUN_FACTS, &facts, error));
    recorded = cJSON_GetObjectItemCaseSensitive(facts, "text_hash");
    snprintf(hash, sizeof hash, "%016" PRIx64, text->hash);
    if (cJSON_IsString(recorded))
        *same = strcmp(recorded->valuestring, hash) == 0 && icl_count_in(number_of(facts, "text_bytes")) == text->bytes;
    if (!*same)
        snprintf(difference, ICL_TEXT_DIFFERENCE,
                 "%.120s, %" PRIu64 " bytes of hash %s, is not the text that the run was trained on: %" PRIu64
                 " bytes of hash %.16s",
                 text->file, text->bytes, hash, icl_count_in(number_of(facts, "text_bytes")), recorded->valuestring);
    cJSON_Delete(facts);
    return ICL_OK;
}

icl_status icl_run_read_polish(const char *folder, icl_polish_result *polished, icl_error *error) {
    cJSON *facts = NULL;

    ICL_CHECK(icl_record_read(folder, ICL_RUN_FACTS, &facts, error));
    *polished = (icl_polish_result){
        .sequences = icl_count_in(number_of(facts, "polish_sequences")),
        .iterations = icl_count_in(number_of(facts, "polish_iterations")),
        .is_taken = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(facts, "polish_is_taken")),
        .loss = number_of(facts, "polish_loss"),
        .gain = number_of(facts, "polish_gain"),
        .gain_se = number_of(facts, "polish_gain_se"),
        .below = number_of(facts, "polish_below"),
        .gradient = number_of(facts, "polish_gradient"),
        .gradient_se = number_of(facts, "polish_gradient_se"),
    };
    cJSON_Delete(facts);
    return ICL_OK;
}

/* ---- The model ---- */

static icl_status find_model(const char *folder, char **path, icl_error *error) {
    icl_status status = icl_path_join(folder, ICL_RUN_MODEL, path, error);

    if (status == ICL_OK && !icl_path_exists(*path))
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: missing: expected a trained model; a run that is unfinished can be resumed", *path);
    return status;
}

icl_status icl_run_read_model(const char *folder, const icl_model *model, float *values, icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    ICL_TRY(find_model(folder, &path, error));
    ICL_TRY(icl_model_file_read(path, model, values, error));
done:
    icl_free(&path);
    return status;
}

icl_status icl_trained_load(icl_backend *backend, const char *folder, const icl_recipe *recipe, icl_trainer **trainer,
                            icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL;

    ICL_TRY(find_model(folder, &path, error));
    ICL_TRY(icl_model_file_load(backend, path, recipe, trainer, error));
done:
    icl_free(&path);
    return status;
}

icl_status icl_run_snapshot_path(const char *folder, uint64_t step, char **path, icl_error *error) {
    icl_status status = ICL_OK;
    char name[64];

    snprintf(name, sizeof name, "%s/%" PRIu64 ".safetensors", ICL_RUN_SNAPSHOTS, step);
    ICL_TRY(icl_path_join(folder, name, path, error));
done:
    return status;
}

icl_status icl_run_read_snapshot(const char *folder, uint64_t step, const icl_model *model, float *values,
                                 icl_error *error) {
    icl_status status = ICL_OK;
    char *path = NULL, name[64];

    ICL_TRY(icl_run_snapshot_path(folder, step, &path, error));
    snprintf(name, sizeof name, "%s/%" PRIu64 ".safetensors", ICL_RUN_SNAPSHOTS, step);
    ICL_TRY(icl_run_files_check(folder, name, error));
    if (icl_path_exists(path))
        status = icl_model_file_read(path, model, values, error);
    else
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: missing: expected a run whose train.snapshot_every divides %" PRIu64, path, step);
done:
    icl_free(&path);
    return status;
}

/* ---- Claims ---- */

/* The claim of the one training that may use a run folder. The folder's own lock is held as well, because somebody may
 * take the lock file for a leftover and remove it. */
struct icl_run_claim {
    icl_lock *folder, *file;
};

/* Locks the folder and the file; sets neither or only the folder's if somebody else holds them. */
static icl_status take_locks(const char *folder, const char *path, icl_run_claim *claim, icl_error *error) {
    icl_lock_release(&claim->folder);
    ICL_CHECK(icl_lock_folder(folder, &claim->folder, error));
    return claim->folder ? icl_lock_try(path, &claim->file, error) : ICL_OK;
}

/* A process that was killed while it started another one leaves its locks to that one, until that has become another
 * program. A claim that finds a lock tries again for a second. */
#define CLAIM_TRIES       20
#define CLAIM_NANOSECONDS 50000000

icl_status icl_run_claim_take(const char *folder, icl_run_claim **claim, icl_error *error) {
    icl_status status = ICL_OK;
    icl_run_claim *created = NULL;
    char *path = NULL;

    *claim = NULL;
    ICL_TRY(icl_allocate(1, sizeof *created, "claim of a run folder", &created, error));
    ICL_TRY(icl_folder_create(folder, error));
    ICL_TRY(icl_path_join(folder, ICL_RUN_LOCK, &path, error));
    ICL_TRY(take_locks(folder, path, created, error));
    for (int tries = 0; !created->file && tries < CLAIM_TRIES; tries++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = CLAIM_NANOSECONDS}, NULL);
        ICL_TRY(take_locks(folder, path, created, error));
    }
    if (!created->file) {
        status = icl_fail(error, ICL_ERROR_INPUT,
                          "%s: another process or thread trains there: expected another folder, or to wait for its end",
                          folder);
        goto done;
    }
    *claim = created;
    created = NULL;
done:
    icl_run_claim_release(&created);
    icl_free(&path);
    return status;
}

void icl_run_claim_release(icl_run_claim **claim) {
    if (*claim) {
        icl_lock_remove(&(*claim)->file);
        icl_lock_release(&(*claim)->folder);
    }
    icl_free(claim);
}
