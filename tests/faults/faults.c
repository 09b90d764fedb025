/*
 * Every file call, every OpenCL call and, of those that the same functions lead to one, every allocation that a small
 * run makes fails once, and then once with all that follow. Each time the run must end with an error of one line or,
 * where the library has a way around, with the result of the run that nothing befell; hold nothing afterwards; leave no
 * half-written file; and go on, once the fault is gone, to the very bits of the undisturbed run.
 *
 * faults DEVICE memory|files|opencl|cache
 */
#include "core/allocate.h"
#include "life.h"
#include "plant.h"
#include "tap.h"

#define MAX_CALLS     64 /* different ones */
#define MAX_TRACED    40000
#define MAX_COMPLAINT 10

typedef struct call_count {
    const char *call;
    uint64_t reported, survived;
} call_count;

typedef struct tally {
    call_count calls[MAX_CALLS];
    uint64_t injected, bad;
} tally;

/* Which part of a life an attempt lives. The first three get a backend of their own, which they open and close; the
 * others take the one that lives from attempt to attempt and must outlive every fault. */
typedef enum part { OPEN = 0, OPEN_AND_TRAIN, OPEN_AND_EVALUATE, TRAIN, EVALUATE } part;

typedef struct experiment {
    const char *spec, *folder, *trained; /* folders: for attempts, and of the undisturbed run */
    icl_backend *backend;                /* for the last parts, and to go on after a fault */
    fault_kind kind;
    part part;
    bool lasting;
    uint64_t stride; /* every call, or one in so many; not of allocations */
    /* The folder of the program cache, or NULL. With it, the library has a way around every fault but lasting ones of
     * memory. */
    const char *cache;
    bool cold; /* the cache is emptied before each attempt */
    const life_result *expected;
    const char *table; /* of the undisturbed evaluation */
    tally *counts;
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

/* ---- Counting ---- */

static call_count *count_of(tally *counts, const char *call) {
    size_t i = 0;
    while (i < MAX_CALLS - 1 && counts->calls[i].call && strcmp(counts->calls[i].call, call) != 0)
        i++;
    counts->calls[i].call = call;
    return &counts->calls[i];
}

static void complain(tally *counts, uint64_t nth, const char *call, const char *what) {
    if (counts->bad++ < MAX_COMPLAINT)
        tap_note("fault %llu, %s: %s", (unsigned long long)nth, call, what);
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

/* ---- One attempt ---- */

/* One line, except for a compiler's log, which has lines of its own. */
static bool is_clean(const icl_error *error, icl_status status) {
    return error->status == status && error->message[0] != '\0' &&
           (!strchr(error->message, '\n') || strstr(error->message, "build log:"));
}

/* What is held before an attempt, and the tensors of a backend that lives on. */
typedef struct holdings {
    fault_holdings process;
    size_t bytes_live;
} holdings;

static holdings held_before(const experiment *trial) {
    return (holdings){fault_held(), icl_backend_get_statistics(trial->backend).bytes_live};
}

static const char *leak_since(const experiment *trial, const holdings *held) {
    const fault_holdings now = fault_held(), *before = &held->process;
    if (now.files != before->files)
        return "a file is left open";
    if (icl_backend_get_statistics(trial->backend).bytes_live != held->bytes_live)
        return "device memory is left in use";
    /* A backend that lives on keeps blocks and programs that the attempt made it get; what it holds is
     * checked when it is closed. */
    if (!keeps_backend(trial) && now.memory != before->memory)
        return "memory is leaked";
    if (!keeps_backend(trial) && now.objects != before->objects)
        return "OpenCL objects are leaked";
    return NULL;
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

static icl_status live(const experiment *trial, icl_backend **own, char **table, icl_error *error) {
    icl_status status = ICL_OK;
    if (!keeps_backend(trial))
        status = icl_backend_open(&(icl_backend_params){.spec = trial->spec}, own, error);
    icl_backend *backend = *own ? *own : trial->backend;
    if (status == ICL_OK && trains(trial))
        status = life_train(backend, trial->folder, error);
    if (status == ICL_OK && evaluates(trial))
        status = life_evaluate(backend, trial->trained, table, error);
    return status;
}

/* What is wrong with the state after an attempt, or NULL. */
static const char *judge(const experiment *trial, icl_status status, const icl_error *error, const char *struck,
                         const holdings *before) {
    static char complaint[512];
    const char *leak = leak_since(trial, before);

    if (status != ICL_OK && !is_clean(error, status)) {
        snprintf(complaint, sizeof complaint, "not one line: \"%.400s\"", error->message);
        return complaint;
    }
    if (status != ICL_OK && !fault_may_end_with(trial->kind, status)) {
        snprintf(complaint, sizeof complaint, "another error than its own: %.400s", error->message);
        return complaint;
    }
    if (status == ICL_OK && !trial->cache && !may_survive(struck, trial->lasting))
        return "not reported";
    if (leak)
        return leak;
    if (trains(trial) && !life_folder_is_sound(trial->folder, complaint, sizeof complaint))
        return complaint;
    return NULL;
}

static void clear_before(const experiment *trial) {
    if (trains(trial))
        life_forget(trial->folder);
    if (trial->cold)
        life_empty(trial->cache);
}

/* False when the life ended before the Nth call. */
static bool attempt(const experiment *trial, uint64_t nth) {
    const holdings before = held_before(trial);
    icl_backend *own = NULL;
    char *table = NULL;
    icl_error error = {0};

    clear_before(trial);
    fault_arm(trial->kind, nth, trial->lasting);
    const icl_status status = live(trial, &own, &table, &error);
    icl_backend_close(&own);
    const char *struck = fault_struck();
    fault_disarm();
    const bool table_differs = status == ICL_OK && evaluates(trial) && strcmp(table, trial->table) != 0;
    icl_free(&table);
    if (!struck)
        return false;

    call_count *count = count_of(trial->counts, struck);
    count->reported += status != ICL_OK;
    count->survived += status == ICL_OK;
    trial->counts->injected++;
    const char *trouble = judge(trial, status, &error, struck, &before);
    if (!trouble && table_differs)
        trouble = "passed over, but the evaluation differs";
    if (!trouble && trains(trial))
        trouble = recover(trial);
    if (trouble)
        complain(trial->counts, nth, struck, trouble);
    return true;
}

/* Which calls fail: the first of each path that leads to one, 0 behind the last. NULL: all do. Static storage. */
static const uint32_t *choose_calls(tap_run *tap, const experiment *trial) {
    static uint64_t paths[MAX_TRACED];
    static uint32_t chosen[MAX_TRACED + 1];
    icl_backend *own = NULL;
    char *table = NULL;

    if (trial->kind != FAULT_ALLOCATION)
        return NULL;
    memset(paths, 0, sizeof paths);
    clear_before(trial);
    fault_trace(trial->kind, paths, MAX_TRACED);
    (void)live(trial, &own, &table, NULL);
    icl_backend_close(&own);
    icl_free(&table);
    fault_disarm();
    if (paths[MAX_TRACED - 1] != 0)
        tap_ok(tap, false, "more than %d allocations: those behind are not tried", MAX_TRACED);
    fault_choose(paths, MAX_TRACED, chosen);
    return chosen;
}

/* ---- Experiments ---- */

static void run_experiment(tap_run *tap, const experiment *trial, const char *what) {
    tally counts = {0};
    experiment counted = *trial;
    uint64_t reported = 0;
    const uint32_t *chosen = choose_calls(tap, trial);

    counted.counts = &counts;
    for (uint64_t i = 0; !chosen || chosen[i] != 0; i++)
        if (!attempt(&counted, chosen ? chosen[i] : 1 + i * trial->stride))
            break;
    for (size_t i = 0; i < MAX_CALLS && counts.calls[i].call; i++) {
        const call_count *count = &counts.calls[i];
        reported += count->reported;
        tap_note("%s: %llu faults reported, %llu survived", count->call, (unsigned long long)count->reported,
                 (unsigned long long)count->survived);
    }
    tap_ok(tap, counts.injected > 0 && (reported > 0 || trial->cache) && counts.bad == 0,
           "%s, %s: %llu faults injected, %llu reported as errors, %llu with the result of no fault, %llu bad", what,
           trial->lasting ? "lasting" : "once", (unsigned long long)counts.injected, (unsigned long long)reported,
           (unsigned long long)(counts.injected - reported), (unsigned long long)counts.bad);
}

static void run_both(tap_run *tap, experiment trial, fault_kind kind, part which, const char *what) {
    trial.kind = kind;
    trial.part = which;
    for (int lasting = 0; lasting < 2; lasting++) {
        trial.lasting = lasting;
        /* After a lasting fault of OpenCL nothing more is called, whichever call it began with. */
        trial.stride = lasting && kind >= FAULT_OPENCL_SETUP ? 11 : 1;
        run_experiment(tap, &trial, what);
    }
}

/* Transfers that are interrupted and get done bit by bit are no fault at all. */
static void run_dawdling(tap_run *tap, const experiment *trial) {
    life_forget(trial->folder);
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
        run_both(tap, trial, FAULT_FILE, OPEN, cold ? "files, an empty cache" : "files, a full cache");
        run_both(tap, trial, FAULT_ALLOCATION, OPEN, cold ? "memory, an empty cache" : "memory, a full cache");
        run_both(tap, trial, FAULT_OPENCL_SETUP, OPEN, cold ? "OpenCL, an empty cache" : "OpenCL, a full cache");
    }
    life_empty(folder);
    (void)remove(folder);
}

static void run_kind(tap_run *tap, const experiment *trial, const char *kind) {
    if (strcmp(kind, "memory") == 0) {
        const bool host = icl_backend_capabilities(trial->backend)->kind == ICL_DEVICE_HOST;
        run_both(tap, *trial, FAULT_ALLOCATION, OPEN, "memory, opening");
        run_both(tap, *trial, FAULT_ALLOCATION, host ? OPEN_AND_TRAIN : TRAIN, "memory, training");
        run_both(tap, *trial, FAULT_ALLOCATION, host ? OPEN_AND_EVALUATE : EVALUATE, "memory, evaluation");
    } else if (strcmp(kind, "files") == 0) {
        run_dawdling(tap, trial);
        run_both(tap, *trial, FAULT_FILE, TRAIN, "files, training");
        run_both(tap, *trial, FAULT_FILE, EVALUATE, "files, evaluation");
    } else if (strcmp(kind, "cache") == 0) {
        run_cache(tap, *trial);
    } else {
        run_both(tap, *trial, FAULT_OPENCL_SETUP, OPEN_AND_TRAIN, "OpenCL's objects");
        run_both(tap, *trial, FAULT_OPENCL_WORK, OPEN, "OpenCL at work in the self-test");
        run_both(tap, *trial, FAULT_OPENCL_WORK, TRAIN, "OpenCL at work, training");
        run_both(tap, *trial, FAULT_OPENCL_WORK, EVALUATE, "OpenCL at work, evaluation");
    }
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "cpu", *kind = argc > 2 ? argv[2] : "files";
    char folder[] = "faults-XXXXXX", trained[] = "faults-XXXXXX";
    tap_run tap = {0};
    icl_error error = {0};
    life_result expected = {{0}};
    char *table = NULL;

    fault_arm(FAULT_KINDS, 0, false);
    if (strcmp(kind, "cache") == 0)
        fault_spare_texts(); /* they fail in the run of memory */
    const fault_holdings before = fault_held();
    icl_backend *backend = tap_open_device(&tap, spec);
    if (!backend)
        return tap_done(&tap);
    if (tap_ok(&tap, mkdtemp(folder) && mkdtemp(trained), "folders for the runs") &&
        tap_status(&tap, life_train(backend, trained, &error), &error, "an undisturbed run") &&
        tap_status(&tap, life_read(trained, &expected, &error), &error, "its files") &&
        tap_status(&tap, life_evaluate(backend, trained, &table, &error), &error, "its evaluation")) {
        const experiment trial = {.spec = tap_device_spec(spec),
                                  .folder = folder,
                                  .trained = trained,
                                  .backend = backend,
                                  .expected = &expected,
                                  .table = table};
        run_kind(&tap, &trial, kind);
    }
    life_forget(folder);
    life_forget(trained);
    life_release(&expected);
    icl_free(&table);
    icl_backend_close(&backend);
    const fault_holdings after = fault_held();
    tap_ok(&tap, after.memory == before.memory && after.files == before.files && after.objects == before.objects,
           "nothing is held at the end: %ld blocks of memory, %ld files, %ld OpenCL objects",
           after.memory - before.memory, after.files - before.files, after.objects - before.objects);
    return tap_done(&tap);
}
