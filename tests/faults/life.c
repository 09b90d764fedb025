/* Every file call, every OpenCL call and every allocation that a small run makes fails once, and then once with all
 * that follow; of the allocations that the same functions lead to, only one does. Beyond what every case demands, a run
 * leaves no half-written file, and once the fault is gone it goes on to the very bits of the undisturbed run. */
#include <cJSON.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../core/scratch.h"
#include "attempts.h"
#include "core/allocate.h"
#include "core/safetensors.h"
#include "faults.h"
#include "iclab/file.h"
#include "iclab/iclab.h"
#include "iclab/run.h"
#include "iclab/session.h"

/* ---- A run as the command lives it ---- */

/* The files of a run folder by which two lives are compared, byte by byte. */
enum { LIFE_RECIPE = 0, LIFE_METRICS, LIFE_MODEL, LIFE_CHECKPOINT, LIFE_FILES };

/* The files that training leaves; freed with life_release. */
typedef struct life_result {
    char *files[LIFE_FILES];
    size_t sizes[LIFE_FILES];
} life_result;

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

/* Trains. A folder that holds a run is resumed, as by `iclab train --resume`; otherwise a run is begun. */
static icl_status life_train(icl_backend *backend, const char *folder, icl_error *error) {
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

/* Evaluates the trained model, as `iclab eval` would. *table is freed with icl_free. */
static icl_status life_evaluate(icl_backend *backend, const char *folder, char **table, icl_error *error) {
    icl_status status = ICL_OK;
    icl_recipe *recipe = NULL;

    ICL_TRY(read_recipe(folder, true, &recipe, error));
    ICL_TRY(evaluate(backend, folder, recipe, table, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* ---- What it leaves ---- */

/* Reads the files of the folder after training has finished. */
static icl_status life_read(const char *folder, life_result *result, icl_error *error) {
    icl_status status = ICL_OK;
    char path[512];

    for (int i = 0; i < LIFE_FILES; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, file_names[i]);
        ICL_TRY(icl_file_read(path, 0, &result->files[i], &result->sizes[i], error));
    }
done:
    return status;
}

static void life_release(life_result *result) {
    for (int i = 0; i < LIFE_FILES; i++)
        icl_free(&result->files[i]);
}

/* Returns the name of the first file that differs between two finished lives, or NULL. */
static const char *life_difference(const life_result *left, const life_result *right) {
    for (int i = 0; i < LIFE_FILES; i++)
        if (left->sizes[i] != right->sizes[i] || memcmp(left->files[i], right->files[i], left->sizes[i]) != 0)
            return file_names[i];
    return NULL;
}

/* Says whether a file is complete, by the rules of its kind. */
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

/* Says whether every file in the folder is complete; if not, `complaint` names one that is not, in one line. */
static bool life_folder_is_sound(const char *folder, char *complaint, size_t size) {
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

/* ---- Attempts ---- */

/* The part of a life that an attempt lives. The first three open and close a backend of their own; the others use the
 * backend that stays open over all attempts and must survive every fault. */
typedef enum part { OPEN = 0, OPEN_AND_TRAIN, OPEN_AND_EVALUATE, TRAIN, EVALUATE } part;

typedef struct experiment {
    const char *spec, *folder, *trained; /* folders: for attempts, and of the undisturbed run */
    icl_backend *backend;                /* for the last two parts, and to go on after a fault */
    part part;
    bool lasting;
    /* The folder of the program cache, or NULL. With it, the library has a way around every fault except lasting ones
     * of memory. */
    const char *cache;
    bool cold; /* the cache is emptied before each attempt */
    const life_result *expected;
    const char *expected_table; /* of the undisturbed evaluation */
    char *table;                /* of an attempt */
    size_t bytes_live;          /* of the backend, before an attempt */
    long objects;               /* of OpenCL, before it */
} experiment;

static bool keeps_backend(const experiment *trial) {
    return trial->part == TRAIN || trial->part == EVALUATE;
}

static bool trains(const experiment *trial) {
    return trial->part == TRAIN || trial->part == OPEN_AND_TRAIN;
}

static bool evaluates(const experiment *trial) {
    return trial->part == EVALUATE || trial->part == OPEN_AND_EVALUATE;
}

/* Says whether the library may pass over the failure of a call, because another way leads to the same result. */
static bool may_survive(const char *call, bool lasting) {
    static const char *const always[] = {
        "open to read", /* of a folder, to flush it */
        "fsync of a folder", "close after reading",   "close after writing", "mkdir",           "clFinish",
        "clReleaseContext",  "clReleaseCommandQueue", "clReleaseProgram",    "clReleaseKernel", "clReleaseMemObject",
        "clGetPlatformInfo", "clGetDeviceInfo",       "clGetDeviceIDs"};
    static const char *const once[] = {"posix_memalign", "clCreateBuffer"}; /* tried again without the pool */

    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcmp(call, always[i]) == 0)
            return true;
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        if (strcmp(call, once[i]) == 0)
            return !lasting;
    return false;
}

/* Trains to the end without faults, and compares. Returns what is wrong, or NULL. */
static const char *recover(const experiment *trial) {
    life_result seen = {{0}};
    icl_error error = {0};
    const char *trouble = NULL;
    static char text[sizeof error.message + 64];

    if (life_train(trial->backend, trial->folder, &error) != ICL_OK ||
        life_read(trial->folder, &seen, &error) != ICL_OK) {
        snprintf(text, sizeof text, "cannot be resumed: %s", error.message);
        trouble = text;
    } else {
        const char *difference = life_difference(trial->expected, &seen);
        if (difference) {
            snprintf(text, sizeof text, "after resuming, %s differs", difference);
            trouble = text;
        }
    }
    life_release(&seen);
    return trouble;
}

static icl_status live(void *context, icl_error *error) {
    experiment *trial = context;
    icl_backend *own = NULL;
    icl_status status = ICL_OK;

    if (trains(trial))
        scratch_remove(trial->folder);
    if (trial->cold)
        scratch_remove(trial->cache);
    trial->bytes_live = icl_backend_get_statistics(trial->backend).bytes_live;
    trial->objects = fault_held().objects;
    if (!keeps_backend(trial))
        status = icl_backend_open(&(icl_backend_params){.spec = trial->spec}, &own, error);
    icl_backend *backend = own ? own : trial->backend;
    if (status == ICL_OK && trains(trial))
        status = life_train(backend, trial->folder, error);
    if (status == ICL_OK && evaluates(trial))
        status = life_evaluate(backend, trial->trained, &trial->table, error);
    icl_backend_close(&own);
    return status;
}

static bool as_expected(const void *context) {
    const experiment *trial = context;
    return !evaluates(trial) || strcmp(trial->table, trial->expected_table) == 0;
}

static void clear(void *context) {
    icl_free(&((experiment *)context)->table);
}

static const char *find_trouble(void *context, const char *struck, icl_status status) {
    static char complaint[512];
    const experiment *trial = context;

    if (status == ICL_OK && !trial->cache && !may_survive(struck, trial->lasting))
        return "not reported";
    if (icl_backend_get_statistics(trial->backend).bytes_live != trial->bytes_live)
        return "device memory is left in use";
    if (!keeps_backend(trial) && fault_held().objects != trial->objects)
        return "OpenCL objects are leaked";
    if (!trains(trial))
        return NULL;
    return life_folder_is_sound(trial->folder, complaint, sizeof complaint) ? recover(trial) : complaint;
}

/* ---- Experiments ---- */

static void run_both(tap_run *tap, experiment trial, fault_kind kind, part which, const char *what) {
    fault_work work = {.attempt = live,
                       .as_expected = as_expected,
                       .clear = clear,
                       .find_trouble = find_trouble,
                       .context = &trial,
                       .what = what,
                       .each_path = kind == FAULT_ALLOCATION,
                       .has_way_around = trial.cache != NULL};

    trial.part = which;
    work.keeps_memory = keeps_backend(&trial);
    for (int lasting = 0; lasting < 2; lasting++) {
        trial.lasting = lasting;
        /* After a lasting fault of OpenCL nothing more is called, whichever call failed first, so a part of them is
         * enough. */
        work.stride = lasting && kind >= FAULT_OPENCL_SETUP ? 11 : 1;
        fault_check(tap, &work, kind, lasting);
    }
}

/* Transfers that are interrupted and done piece by piece are no fault at all. */
static void run_dawdling(tap_run *tap, const experiment *trial) {
    scratch_remove(trial->folder);
    fault_dawdle(true);
    const char *trouble = recover(trial);
    fault_dawdle(false);
    tap_ok(tap, !trouble, "interrupted and partial reads and writes change nothing%s%s", trouble ? ": " : "",
           trouble ? trouble : "");
}

/* Tests opening with a cache of programs: a fault of the cache is no error. */
static void run_cache(tap_run *tap, experiment trial) {
    char folder[] = "faults-XXXXXX";

    tap_ok(tap, mkdtemp(folder) != NULL, "a folder for the cache");
    setenv("ICLAB_CACHE_DIR", folder, 1);
    setenv("ICLAB_PROGRAM_CACHE", "always", 1);
    trial.cache = folder;
    for (int cold = 1; cold >= 0; cold--) {
        trial.cold = cold;
        run_both(tap, trial, FAULT_FILE, OPEN, cold ? "an empty cache" : "a full cache");
        run_both(tap, trial, FAULT_ALLOCATION, OPEN, cold ? "an empty cache" : "a full cache");
        run_both(tap, trial, FAULT_OPENCL_SETUP, OPEN, cold ? "an empty cache" : "a full cache");
    }
    scratch_remove(folder);
}

static void run_kind(tap_run *tap, const experiment *trial, const char *kind) {
    if (strcmp(kind, "memory") == 0) {
        const bool host = icl_backend_capabilities(trial->backend)->kind == ICL_DEVICE_HOST;
        run_both(tap, *trial, FAULT_ALLOCATION, OPEN, "opening");
        run_both(tap, *trial, FAULT_ALLOCATION, host ? OPEN_AND_TRAIN : TRAIN, "training");
        run_both(tap, *trial, FAULT_ALLOCATION, host ? OPEN_AND_EVALUATE : EVALUATE, "evaluation");
    } else if (strcmp(kind, "files") == 0) {
        run_dawdling(tap, trial);
        run_both(tap, *trial, FAULT_FILE, TRAIN, "training");
        run_both(tap, *trial, FAULT_FILE, EVALUATE, "evaluation");
    } else if (strcmp(kind, "cache") == 0) {
        run_cache(tap, *trial);
    } else {
        run_both(tap, *trial, FAULT_OPENCL_SETUP, OPEN_AND_TRAIN, "opening and training");
        run_both(tap, *trial, FAULT_OPENCL_WORK, OPEN, "the self-test");
        run_both(tap, *trial, FAULT_OPENCL_WORK, TRAIN, "training");
        run_both(tap, *trial, FAULT_OPENCL_WORK, EVALUATE, "evaluation");
    }
}

void fault_lives(tap_run *tap, const char *spec, const char *kind) {
    char folder[] = "faults-XXXXXX", trained[] = "faults-XXXXXX";
    icl_error error = {0};
    life_result expected = {{0}};
    char *table = NULL;

    if (strcmp(kind, "cache") == 0)
        fault_spare_texts(); /* they fail when "memory" is run */
    const fault_holdings before = fault_held();
    icl_backend *backend = tap_open_device(tap, spec);
    if (!backend)
        return;
    if (tap_ok(tap, mkdtemp(folder) && mkdtemp(trained), "folders for the runs") &&
        tap_status(tap, life_train(backend, trained, &error), &error, "an undisturbed run") &&
        tap_status(tap, life_read(trained, &expected, &error), &error, "its files") &&
        tap_status(tap, life_evaluate(backend, trained, &table, &error), &error, "its evaluation")) {
        const experiment trial = {.spec = tap_device_spec(spec),
                                  .folder = folder,
                                  .trained = trained,
                                  .backend = backend,
                                  .expected = &expected,
                                  .expected_table = table};
        run_kind(tap, &trial, kind);
    }
    scratch_remove(folder);
    scratch_remove(trained);
    life_release(&expected);
    icl_free(&table);
    icl_backend_close(&backend);
    const fault_holdings after = fault_held();
    tap_ok(tap, after.memory == before.memory && after.files == before.files && after.objects == before.objects,
           "nothing is held at the end: %ld blocks of memory, %ld files, %ld OpenCL objects",
           after.memory - before.memory, after.files - before.files, after.objects - before.objects);
}
