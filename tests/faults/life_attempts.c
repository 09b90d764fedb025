/*
 * Every file call, every OpenCL call and, of those that the same functions lead to one, every allocation that a small
 * run makes fails once, and then once with all that follow. Beyond what every case demands, a run leaves no file that
 * is half-written, and goes on, once the fault is gone, to the very bits of the undisturbed run.
 */
#include "../core/scratch.h"
#include "attempts.h"
#include "core/allocate.h"
#include "faults.h"
#include "life.h"

/* Which part of a life an attempt lives. The first three get a backend of their own, which they open and close; the
 * others take the one that lives from attempt to attempt and must outlive every fault. */
typedef enum part { OPEN = 0, OPEN_AND_TRAIN, OPEN_AND_EVALUATE, TRAIN, EVALUATE } part;

typedef struct experiment {
    const char *spec, *folder, *trained; /* folders: for attempts, and of the undisturbed run */
    icl_backend *backend;                /* for the last parts, and to go on after a fault */
    part part;
    bool lasting;
    /* The folder of the program cache, or NULL. With it, the library has a way around every fault but lasting ones of
     * memory. */
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

/* Calls whose failure the library may pass over, because another way leads to the same result. */
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

/* Trains without faults to the end, and compares. */
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
        /* After a lasting fault of OpenCL nothing more is called, whichever call it began with. */
        work.stride = lasting && kind >= FAULT_OPENCL_SETUP ? 11 : 1;
        fault_check(tap, &work, kind, lasting);
    }
}

/* Transfers that are interrupted and get done bit by bit are no fault at all. */
static void run_dawdling(tap_run *tap, const experiment *trial) {
    scratch_remove(trial->folder);
    fault_dawdle(true);
    const char *trouble = recover(trial);
    fault_dawdle(false);
    tap_ok(tap, !trouble, "interrupted and partial reads and writes change nothing%s%s", trouble ? ": " : "",
           trouble ? trouble : "");
}

/* Opening with a cache of programs: what befalls the cache is no error. */
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
        fault_spare_texts(); /* they fail in the run of memory */
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
