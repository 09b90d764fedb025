/* Tests that every recipe key has its effect: two values of a key change all that the key is about, and nothing else.
 * Tiny runs of each value are compared part by part. A key without a row here fails. */
#include "effects.h"

#include <math.h>
#include <unistd.h>

#include "core/allocate.h"
#include "core/hash.h"
#include "iclab/evaluate.h"
#include "iclab/file.h"
#include "iclab/recipe.h"
#include "iclab/run.h"
#include "iclab/session.h"
#include "tap.h"

#include "../core/scratch.h"

/* Replaces the C library's: hundreds of small runs need not wait for a disk. */
int fsync(int file) {
    (void)file;
    return 0;
}

/* ---- What a run left, part by part ---- */

static const char parts[] = "DVMTERSC";

enum { PARTS = sizeof parts - 1, MOST_STEPS = 16 };

typedef struct fingerprint {
    uint64_t parts[PARTS];
} fingerprint;

static void add(fingerprint *to, char part, const void *bytes, size_t size) {
    uint64_t *at = &to->parts[strchr(parts, part) - parts];
    *at = *at * UINT64_C(1099511628211) + icl_hash(bytes, size);
}

static icl_status add_tensor(fingerprint *to, char part, icl_tensor tensor, icl_error *error) {
    const size_t count = tensor.buffer ? icl_tensor_count(&tensor) : 0;
    float *values = NULL;
    icl_status status = ICL_OK;

    if (count == 0)
        return ICL_OK;
    ICL_TRY(icl_allocate(count, sizeof *values, "a tensor", &values, error));
    ICL_TRY(icl_tensor_read(tensor, values, error));
    add(to, part, values, count * sizeof *values);
done:
    icl_free(&values);
    return status;
}

/* Adds all that a batch shows, with its shape. */
static icl_status add_batch(fingerprint *to, char part, icl_backend *backend, const icl_task *task,
                            icl_task_purpose purpose, size_t size, uint64_t seed, icl_error *error) {
    icl_batch batch = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(icl_batch_create(task, backend, purpose, size, &batch, error));
    ICL_TRY(icl_task_sample(task, backend, purpose, (uint32_t)seed, 0, &batch, error));
    add(to, part, batch.targets.shape, sizeof batch.targets.shape);
    ICL_TRY(add_tensor(to, part, batch.inputs, error));
    ICL_TRY(add_tensor(to, part, batch.targets, error));
    ICL_TRY(add_tensor(to, part, batch.weights, error));
    for (size_t i = 0; i < batch.side_count; i++)
        ICL_TRY(add_tensor(to, part, batch.sides[i].tensor, error));
done:
    icl_batch_release(&batch);
    return status;
}

static icl_status add_parameters(fingerprint *to, char part, icl_trainer *trainer, icl_error *error) {
    const size_t size = icl_model_size(icl_trainer_model(trainer));
    float *values = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(size, sizeof *values, "parameters", &values, error));
    ICL_TRY(icl_trainer_get_parameters(trainer, values, error));
    add(to, part, values, size * sizeof *values);
done:
    icl_free(&values);
    return status;
}

static icl_status add_file(fingerprint *to, char part, const char *folder, const char *name, icl_error *error) {
    char *path = NULL, *text = NULL;
    size_t size = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_path_join(folder, name, &path, error));
    if (icl_path_exists(path))
        ICL_TRY(icl_file_read(path, 0, &text, &size, error));
    add(to, part, text ? text : "", size);
done:
    icl_free(&path);
    icl_free(&text);
    return status;
}

static icl_status add_evaluation(fingerprint *to, icl_backend *backend, icl_trainer *trainer, const icl_recipe *recipe,
                                 icl_error *error) {
    icl_evaluation *evaluation = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_evaluate(backend, trainer, recipe, &evaluation, error));
    for (size_t i = 0; i < evaluation->count; i++) {
        const icl_score *score = &evaluation->scores[i];
        const double numbers[] = {score->mse, score->se, score->accuracy};
        add(to, i == 0 ? 'E' : 'R', score->predictor, strlen(score->predictor));
        add(to, i == 0 ? 'E' : 'R', numbers, sizeof numbers);
    }
done:
    icl_evaluation_destroy(&evaluation);
    return status;
}

/* ---- One run ---- */

/* The settings of every row; the row's own follow them and override them. */
#define EVERY                                                                                                          \
    "train.steps=4 train.batch=8 train.warmup=0 train.polish=off train.starts=1 eval.sequences=16 "                    \
    "eval.fit_sequences=16 eval.every=0 eval.every_sequences=8 model.layers=1 "

/* Applies "section.key=value", or "section.key=@name" for the file of that name in the folder. */
static icl_status apply(icl_recipe *recipe, const char *assignment, const char *folder, icl_error *error) {
    const char *mark = strstr(assignment, "=@");
    char text[640];

    if (!mark)
        return icl_recipe_override(recipe, assignment, error);
    snprintf(text, sizeof text, "%.*s=%s/%s", (int)(mark - assignment), assignment, folder, mark + 2);
    return icl_recipe_override(recipe, text, error);
}

static icl_status make_recipe(const effect *change, int value, const char *folder, icl_recipe **recipe,
                              icl_error *error) {
    char text[1024], assignment[640];
    icl_status status = ICL_OK;

    ICL_TRY(icl_recipe_create_complete(recipe, error));
    snprintf(text, sizeof text, EVERY "%s", change->base);
    for (char *rest = text, *at = strtok_r(text, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
        ICL_TRY(apply(*recipe, at, folder, error));
    snprintf(assignment, sizeof assignment, "%s=%s", change->key, change->values[value]);
    ICL_TRY(apply(*recipe, assignment, folder, error));
done:
    return status;
}

typedef struct watching {
    fingerprint *print;
    const char *folder;
} watching;

/* Notes the step that the checkpoint holds, but not its other bytes: they include the recipe, which always differs. */
static void watch_checkpoint(void *user, const icl_session_progress *progress) {
    const watching *w = user;
    char *path = NULL, *text = NULL;
    size_t size = 0;

    (void)progress;
    if (icl_path_join(w->folder, ICL_RUN_CHECKPOINT, &path, NULL) == ICL_OK && icl_path_exists(path) &&
        icl_file_read(path, 0, &text, &size, NULL) == ICL_OK)
        for (size_t i = 8; i + 16 < size; i++) /* the header follows its length */
            if (memcmp(text + i, "iclab.step\":\"", 13) == 0) {
                w->print->parts[PARTS - 1] |= UINT64_C(1) << strtoul(text + i + 13, NULL, 10) % 64;
                break;
            }
    icl_free(&path);
    icl_free(&text);
}

/* Adds batches of data, drawn by the recipe's seeds. */
static icl_status add_data(fingerprint *print, icl_backend *backend, const icl_task *task, const icl_recipe *recipe,
                           icl_error *error) {
    const size_t batch = (size_t)icl_recipe_count(recipe, "train", "batch");
    const size_t evaluated = (size_t)icl_recipe_count(recipe, "eval", "sequences");

    ICL_CHECK(add_batch(print, 'D', backend, task, ICL_FOR_TRAINING, batch, icl_recipe_count(recipe, "train", "seed"),
                        error));
    return add_batch(print, 'V', backend, task, ICL_FOR_EVALUATION, evaluated, icl_recipe_count(recipe, "eval", "seed"),
                     error);
}

/* Adds the last step and the files that the session left. */
static icl_status add_session(fingerprint *print, const icl_trainer *trainer, const char *folder, icl_error *error) {
    const uint64_t last = icl_trainer_progress(trainer).step;

    add(print, 'S', &last, sizeof last);
    ICL_CHECK(add_file(print, 'S', folder, ICL_RUN_METRICS, error));
    ICL_CHECK(add_file(print, 'S', folder, ICL_RUN_SNAPSHOTS "/0.safetensors", error));
    return add_file(print, 'S', folder, ICL_RUN_SNAPSHOTS "/4.safetensors", error);
}

static icl_status run(const effect *change, int value, icl_backend *backend, scratch_folder *scratch,
                      fingerprint *print, icl_error *error) {
    char folder[512];
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    snprintf(folder, sizeof folder, "%s", scratch_path(scratch, "run"));
    watching watched = {print, folder};
    ICL_TRY(make_recipe(change, value, scratch->folder, &recipe, error));
    const icl_session_params params = {
        .backend = backend, .recipe = recipe, .folder = folder, .report = watch_checkpoint, .user = &watched};
    ICL_TRY(icl_session_prepare(&params, &trainer, error));
    ICL_TRY(add_data(print, backend, icl_trainer_task(trainer), recipe, error));
    ICL_TRY(add_parameters(print, 'M', trainer, error));
    ICL_TRY(icl_run_create(folder, recipe, error));
    ICL_TRY(icl_session_train(&params, trainer, error));
    ICL_TRY(add_parameters(print, 'T', trainer, error));
    ICL_TRY(add_evaluation(print, backend, trainer, recipe, error));
    ICL_TRY(add_session(print, trainer, folder, error));
done:
    scratch_remove(scratch_path(scratch, "run"));
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- The rows ---- */

static void check_row(tap_run *tap, const effect *change, icl_backend *backend, scratch_folder *scratch) {
    fingerprint prints[2] = {{{0}}};
    char differs[PARTS + 1] = "";
    size_t count = 0;
    icl_error error = {0};

    for (int value = 0; value < 2; value++)
        if (run(change, value, backend, scratch, &prints[value], &error) != ICL_OK) {
            tap_ok(tap, false, "%s = %s: %s", change->key, change->values[value], error.message);
            return;
        }
    for (size_t i = 0; i < PARTS; i++)
        if (prints[0].parts[i] != prints[1].parts[i] && (parts[i] != 'R' || !strchr(differs, 'V')))
            differs[count++] = parts[i];
    differs[count] = '\0';
    tap_ok(tap, strcmp(differs, change->differs) == 0, "%s = %s or %s: %s differ%s%s", change->key, change->values[0],
           change->values[1], differs, strcmp(differs, change->differs) == 0 ? "" : ", expected ",
           strcmp(differs, change->differs) == 0 ? "" : change->differs);
}

/* Checks that each key has a row, and that each row's key exists. */
static void check_completeness(tap_run *tap) {
    const icl_recipe_key *key;
    size_t known = 0, seen = 0;

    for (size_t i = 0; (key = icl_recipe_known_key(i)) != NULL; i++) {
        size_t rows = 0;
        for (size_t row = 0; row < effect_count; row++)
            rows += strncmp(effects[row].key, key->section, strlen(key->section)) == 0 &&
                    effects[row].key[strlen(key->section)] == '.' &&
                    strcmp(effects[row].key + strlen(key->section) + 1, key->name) == 0;
        if (rows == 0)
            tap_ok(tap, false, "%s.%s has a row in tests/run/effects_rows.c", key->section, key->name);
        if (!key->help || strlen(key->help) < 4)
            tap_ok(tap, false, "%s.%s has a line of help", key->section, key->name);
        known += rows > 0;
        seen += rows;
    }
    tap_ok(tap, seen == effect_count, "%zu rows of %zu keys, none of a key that there is not", effect_count, known);
}

/* A model for train.init. */
static icl_status make_model_file(icl_backend *backend, scratch_folder *scratch, icl_error *error) {
    const effect other = {"train.seed", "task.d=3 task.n=4", {"5", ""}, ""};
    char path[512];
    icl_recipe *recipe = NULL;
    icl_trainer *trainer = NULL;
    icl_status status = ICL_OK;

    snprintf(path, sizeof path, "%s", scratch_path(scratch, "other.safetensors"));
    ICL_TRY(make_recipe(&other, 0, "", &recipe, error));
    ICL_TRY(icl_trainer_create(backend, recipe, &trainer, error));
    ICL_TRY(icl_trainer_export(trainer, path, error));
done:
    icl_trainer_destroy(&trainer);
    icl_recipe_destroy(&recipe);
    return status;
}

/* Two texts of 2,000 letters, and a chain of three symbols. */
static icl_status make_texts(scratch_folder *scratch, icl_error *error) {
    static const char chain[] = ".1 .2 .7\n.8 .1 .1\n0 .5 .5\n";
    char text[2000];

    for (int file = 0; file < 2; file++) {
        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (char)('a' + (i * i + i * (size_t)file) % 23);
        ICL_CHECK(icl_file_write(scratch_path(scratch, file == 0 ? "a.txt" : "b.txt"), text, sizeof text, error));
    }
    return icl_file_write(scratch_path(scratch, "chain.txt"), chain, sizeof chain - 1, error);
}

/* With --keys, only checks that every key has a row; with a part of a key's name, runs only the rows of such keys. */
int main(int argc, char **argv) {
    tap_run tap = {0};
    scratch_folder scratch;
    icl_error error = {0};

    check_completeness(&tap);
    if (argc > 1 && strcmp(argv[1], "--keys") == 0)
        return tap_done(&tap);
    icl_backend *backend = tap_open_device(&tap, "cpu:threads=1");
    if (!backend)
        return tap_done(&tap);
    scratch_open(&scratch);
    tap_status(&tap, make_model_file(backend, &scratch, &error), &error, "a model to start from");
    tap_status(&tap, make_texts(&scratch, &error), &error, "texts");
    for (size_t row = 0; row < effect_count; row++)
        if (argc < 2 || strstr(effects[row].key, argv[1]))
            check_row(&tap, &effects[row], backend, &scratch);
    scratch_close(&scratch);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
