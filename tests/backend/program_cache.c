/*
 * Programs kept on disk are loaded if they are whole and right, else compiled again, and never prevent a device from
 * opening.
 *
 * `program_cache DEVICE keys` checks what distinguishes programs, `program_cache DEVICE` all the rest. It starts itself
 * with other arguments, for several processes at once.
 */
#include <sys/wait.h>

#include "../core/scratch.h"
#include "backend/opencl/program.h"
#include "core/allocate.h"
#include "core/cache.h"
#include "iclab/file.h"
#include "tap.h"

#define MAX_ENTRIES 16

/* The log's messages while a device was open. */
typedef struct log_record {
    int warnings;
    char last[256];
} log_record;

static void record(void *user, icl_log_level level, const char *message) {
    log_record *log = user;
    if (level <= ICL_LOG_WARNING) {
        log->warnings++;
        snprintf(log->last, sizeof log->last, "%.255s", message);
    }
}

typedef struct outcome {
    icl_status status;
    size_t loaded; /* programs from disk */
    float sum;
    log_record log;
} outcome;

static icl_status work(icl_backend *backend, float *sum, icl_error *error) {
    const icl_random_params normal = {.key = {.seed = 5}, .distribution = ICL_NORMAL};
    icl_tensor a = {0}, total = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 2, (const size_t[]){300, 7}, &a, error));
    ICL_TRY(icl_tensor_create(backend, 2, (const size_t[]){1, 1}, &total, error));
    ICL_TRY(icl_random_fill(backend, &normal, a, error));
    ICL_TRY(icl_reduce(backend, ICL_SUM_OF_SQUARES, 3, total, a, error));
    ICL_TRY(icl_tensor_read(total, sum, error));
done:
    icl_tensor_release(&a);
    icl_tensor_release(&total);
    return status;
}

/* Opens the device, whose self-test compiles or loads programs, and computes something. */
static outcome live(const char *spec) {
    outcome seen = {0};
    icl_backend *backend = NULL;
    icl_error error = {0};
    const icl_backend_params params = {.spec = spec, .log = {record, &seen.log, ICL_LOG_WARNING}};

    seen.status = icl_backend_open(&params, &backend, &error);
    if (seen.status == ICL_OK)
        seen.status = work(backend, &seen.sum, &error);
    if (seen.status != ICL_OK)
        tap_note("%s", error.message);
    else
        seen.loaded = icl_opencl_of(backend)->programs->cache.loaded;
    icl_backend_close(&backend);
    if (seen.log.warnings > 0)
        tap_note("%d warnings, the last: %s", seen.log.warnings, seen.log.last);
    return seen;
}

/* ---- The folder's entries ---- */

typedef struct entries {
    size_t count;
    char names[MAX_ENTRIES][64];
} entries;

static entries list(const scratch_folder *scratch) {
    entries all = {0};
    DIR *listing = opendir(scratch->folder);
    const struct dirent *entry;
    while (listing && (entry = readdir(listing)) != NULL && all.count < MAX_ENTRIES)
        if (entry->d_name[0] != '.')
            snprintf(all.names[all.count++], sizeof all.names[0], "%.63s", entry->d_name);
    if (listing)
        closedir(listing);
    return all;
}

typedef struct file {
    char *data;
    size_t size;
} file;

static file read_entry(scratch_folder *scratch, const char *name) {
    file entry = {0};
    if (icl_file_read(scratch_path(scratch, name), 0, &entry.data, &entry.size, NULL) != ICL_OK)
        tap_note("%s cannot be read", name);
    return entry;
}

static size_t key_size_of(const file *entry) {
    uint64_t size;
    memcpy(&size, entry->data + 24, sizeof size);
    return (size_t)size;
}

/* ---- Checks ---- */

/* Every entry was damaged in the same way; the device must open with the same result and leave whole entries. */
static void check_recovery(tap_run *tap, const char *spec, const outcome *right, const char *damage) {
    const outcome seen = live(spec), next = live(spec);
    tap_ok(tap, seen.status == ICL_OK && seen.loaded == 0 && seen.sum == right->sum && seen.log.warnings == 1,
           "%s: noticed, said once, and compiled from source", damage);
    tap_ok(tap, next.loaded == right->loaded && next.sum == right->sum && next.log.warnings == 0, "%s: replaced",
           damage);
}

static void check_damage(tap_run *tap, const char *spec, scratch_folder *scratch, const outcome *right) {
    static const struct {
        const char *name;
        double place; /* 0: start of the header, 1: of the key, 2: of the binary, 3: after its end */
    } regions[] = {{"magic", 0}, {"device's name", 1}, {"binary's middle", 2.5}, {"truncation", 3}};
    const entries all = list(scratch);

    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++) {
        for (size_t j = 0; j < all.count; j++) {
            file entry = read_entry(scratch, all.names[j]);
            const size_t starts[] = {0, 40, 40 + key_size_of(&entry), entry.size};
            const int region = (int)regions[i].place;
            if (region < 3) {
                const double length = (double)(starts[region + 1] - starts[region]);
                char *byte = entry.data + starts[region] + (size_t)((regions[i].place - region) * length);
                *byte = (char)(*byte ^ 0x20);
            }
            scratch_write(scratch, all.names[j], entry.data, region < 3 ? entry.size : entry.size / 3);
            icl_free(&entry.data);
        }
        check_recovery(tap, spec, right, regions[i].name);
    }
}

/* Tests whole entries that hold no program: the driver gets a binary that is not its own. */
static void check_foreign_binary(tap_run *tap, const char *spec, scratch_folder *scratch, const outcome *right) {
    const entries all = list(scratch);
    for (size_t i = 0; i < all.count; i++) {
        file entry = read_entry(scratch, all.names[i]);
        (void)icl_cache_store(scratch->folder, entry.data + 40, key_size_of(&entry), "no binary", 9, NULL);
        icl_free(&entry.data);
    }
    const outcome seen = live(spec), next = live(spec);
    tap_ok(tap, seen.status == ICL_OK && seen.loaded == 0 && seen.sum == right->sum,
           "what the driver refuses is compiled from source");
    tap_ok(tap, next.loaded == right->loaded && next.sum == right->sum, "and replaced");
}

/* Gives every name the same content, as if all hashes collided. */
static void give_all_the_largest(scratch_folder *scratch) {
    const entries all = list(scratch);
    file largest = {0};
    for (size_t i = 0; i < all.count; i++) {
        file entry = read_entry(scratch, all.names[i]);
        if (entry.size > largest.size) {
            const file smaller = largest;
            largest = entry;
            entry = smaller;
        }
        icl_free(&entry.data);
    }
    for (size_t i = 0; i < all.count; i++)
        scratch_write(scratch, all.names[i], largest.data, largest.size);
    icl_free(&largest.data);
}

/* Builds a small program. Returns the number of programs loaded from disk so far; 1000 if it does not build. */
static size_t build(icl_backend *backend, const char *text, const char *options) {
    icl_opencl *opencl = icl_opencl_of(backend);
    cl_program program = NULL;
    icl_error error = {0};
    if (icl_opencl_build(opencl, "probe", text, strlen(text), options, &program, &error) != ICL_OK) {
        tap_note("%s", error.message);
        return 1000;
    }
    clReleaseProgram(program);
    return opencl->programs->cache.loaded;
}

/* The key begins with the names of device, driver and platform, line by line. */
static void check_device_key(tap_run *tap, const icl_opencl *opencl) {
    static const cl_device_info of_device[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION,
                                               CL_DEVICE_OPENCL_C_VERSION};
    static const cl_platform_info of_platform[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION};
    cl_platform_id platform = NULL;
    char expected[4096] = "";
    size_t used = 0;

    (void)clGetDeviceInfo(opencl->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL);
    for (size_t i = 0; i < 7; i++) {
        char text[512] = "";
        if (i < 5)
            (void)clGetDeviceInfo(opencl->device, of_device[i], sizeof text, text, NULL);
        else
            (void)clGetPlatformInfo(platform, of_platform[i - 5], sizeof text, text, NULL);
        used += (size_t)snprintf(expected + used, sizeof expected - used, "%s\n", text);
    }
    tap_ok(tap, opencl->programs->cache.device && strcmp(opencl->programs->cache.device, expected) == 0,
           "names and versions of device, driver and platform are part of every key");
}

/* Everything that the compiler sees is part of the key, and no entry is taken for another. */
static void check_keys(tap_run *tap, const char *spec, scratch_folder *scratch) {
    static const char text[] = "__kernel void probe(__global float *x) { x[0] = X; }\n",
                      other[] = "__kernel void probe(__global float *x) { x[0] =-X; }\n";
    log_record log = {0};
    icl_backend *backend = NULL;
    const icl_backend_params params = {.spec = spec, .log = {record, &log, ICL_LOG_WARNING}};

    if (icl_backend_open(&params, &backend, NULL) != ICL_OK) {
        tap_ok(tap, false, "open");
        return;
    }
    check_device_key(tap, icl_opencl_of(backend));
    const entries before = list(scratch);
    const size_t loaded = icl_opencl_of(backend)->programs->cache.loaded;
    tap_ok(tap,
           build(backend, text, "-DX=1") == loaded && build(backend, text, "-DX=2") == loaded &&
               build(backend, other, "-DX=1") == loaded && list(scratch).count == before.count + 3,
           "other options and another text make other entries");
    tap_ok(tap, build(backend, text, "-DX=1") == loaded + 1 && build(backend, other, "-DX=1") == loaded + 2,
           "which are found");
    give_all_the_largest(scratch);
    tap_ok(tap,
           build(backend, text, "-DX=1") == loaded + 2 && build(backend, text, "-DX=2") == loaded + 2 &&
               log.warnings == 1,
           "a whole entry of another key is noticed, and said once: %s", log.last);
    tap_ok(tap, build(backend, text, "-DX=1") == loaded + 3, "and replaced");
    icl_backend_close(&backend);
}

/* Returns the entry with this text in its key; without data if there is none. */
static file find_entry(scratch_folder *scratch, const char *text, size_t size) {
    const entries all = list(scratch);
    for (size_t i = 0; i < all.count; i++) {
        file entry = read_entry(scratch, all.names[i]);
        const size_t end = entry.size > 40 ? 40 + key_size_of(&entry) : 0;
        if (end >= size && end <= entry.size && memcmp(entry.data + end - size, text, size) == 0)
            return entry;
        icl_free(&entry.data);
    }
    return (file){0};
}

/* Replaces the program of the self-test's kernels by one that computes other random numbers. */
static bool plant_wrong_binary(scratch_folder *scratch, icl_backend *backend) {
    const icl_kernel_source *source = &icl_kernel_sources[0];
    icl_opencl *opencl = icl_opencl_of(backend);
    cl_program program = NULL;
    char *text = NULL, *factor;
    bool planted = false;

    if (icl_duplicate((const char *)source->data, &text, NULL) != ICL_OK)
        return false;
    while ((factor = strstr(text, "0xD2511F53u")) != NULL) /* Philox's constant */
        factor[strlen("0xD2511F5")] = '7';
    if (icl_opencl_build(opencl, "wrong", text, source->size, opencl->programs->options, &program, NULL) == ICL_OK) {
        file right = find_entry(scratch, (const char *)source->data, source->size);
        file wrong = find_entry(scratch, text, source->size);
        if (right.data && wrong.data) {
            const size_t from = 40 + key_size_of(&wrong);
            planted = icl_cache_store(scratch->folder, right.data + 40, key_size_of(&right), wrong.data + from,
                                      wrong.size - from, NULL) == ICL_OK;
        }
        icl_free(&right.data);
        icl_free(&wrong.data);
        clReleaseProgram(program);
    }
    icl_free(&text);
    return planted;
}

/* A wrong program on disk must not cause a device to be refused. */
static void check_wrong_binary(tap_run *tap, const char *spec, scratch_folder *scratch, const outcome *right) {
    icl_backend *backend = NULL;
    bool planted = false;

    if (icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, NULL) == ICL_OK)
        planted = plant_wrong_binary(scratch, backend);
    icl_backend_close(&backend);
    tap_ok(tap, planted, "a sound entry whose program computes wrongly");
    const outcome seen = live(spec), next = live(spec);
    tap_ok(tap, seen.status == ICL_OK && seen.sum == right->sum && strstr(seen.log.last, "again from source"),
           "the self-test notices, and passes on the source");
    tap_ok(tap, next.loaded == right->loaded && next.log.warnings == 0, "the entry is replaced");
}

static void check_folders(tap_run *tap, const char *spec, scratch_folder *scratch, const outcome *right) {
    char below[600];
    scratch_write(scratch, "file", "", 0);
    snprintf(below, sizeof below, "%s/below", scratch_path(scratch, "file"));
    setenv("ICLAB_CACHE_DIR", below, 1);
    const outcome denied = live(spec);
    tap_ok(tap, denied.status == ICL_OK && denied.sum == right->sum && denied.log.warnings == 1,
           "a folder that cannot be made is one line in the log");
    setenv("ICLAB_CACHE_DIR", "", 1);
    const outcome off = live(spec);
    tap_ok(tap, off.status == ICL_OK && off.sum == right->sum && off.loaded == 0 && off.log.warnings == 0,
           "no folder, no cache, no word");
    (void)remove(scratch_path(scratch, "file"));
    setenv("ICLAB_CACHE_DIR", scratch->folder, 1);
}

/* Starts another process with this program. Drivers do not survive a fork, so that none may be open in this process
 * yet. */
static pid_t start(const char *program, const char *spec, const char *role) {
    const pid_t child = fork();
    if (child == 0) {
        execl(program, program, spec, role, (char *)NULL);
        _exit(127);
    }
    return child;
}

static bool succeeds(pid_t child) {
    int end = -1;
    return waitpid(child, &end, 0) == child && WIFEXITED(end) && WEXITSTATUS(end) == 0;
}

static void check_processes(tap_run *tap, const char *program, const char *spec) {
    enum { CHILDREN = 3 };
    pid_t children[CHILDREN];
    for (int i = 0; i < CHILDREN; i++)
        children[i] = start(program, spec, "together");
    for (int i = 0; i < CHILDREN; i++)
        tap_ok(tap, succeeds(children[i]), "process %d of %d that open the device at once", i + 1, CHILDREN);
}

static int run_role(const char *spec, const char *role) {
    icl_device *devices = NULL;
    size_t count = 0;
    bool any = false;

    if (strcmp(role, "together") == 0) {
        const outcome seen = live(spec);
        return seen.status == ICL_OK && seen.log.warnings == 0 ? 0 : 1;
    }
    setenv("ICLAB_CACHE_DIR", "", 1);
    if (icl_devices_list(NULL, &devices, &count, NULL) != ICL_OK)
        return 1;
    for (size_t i = 0; i < count; i++)
        any = any || devices[i].capabilities.kind != ICL_DEVICE_HOST;
    icl_devices_free(&devices);
    return any ? 0 : 1;
}

static void check_cache(tap_run *tap, const char *spec, bool has_checks, scratch_folder *scratch) {
    const outcome first = live(spec);
    const entries all = list(scratch);
    tap_ok(tap, first.status == ICL_OK && first.loaded > 0 && first.loaded <= all.count,
           "%zu programs come from the %zu that the processes left", first.loaded, all.count);
    for (size_t i = 0; i < all.count; i++)
        (void)remove(scratch_path(scratch, all.names[i]));
    const outcome cold = live(spec), warm = live(spec);
    tap_ok(tap, cold.loaded == 0 && cold.log.warnings == 0, "without entries all are compiled");
    tap_ok(tap, warm.loaded == first.loaded && warm.log.warnings == 0, "and found the next time");
    tap_ok(tap, cold.sum == first.sum && warm.sum == first.sum, "with the same bits: %.9g", (double)warm.sum);
    check_damage(tap, spec, scratch, &warm);
    if (has_checks)
        check_foreign_binary(tap, spec, scratch, &warm);
    check_wrong_binary(tap, spec, scratch, &warm);
    check_folders(tap, spec, scratch, &warm);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    const char *spec = tap_device_spec(argc > 1 ? argv[1] : "opencl");
    scratch_folder scratch;
    const bool wants_keys = argc > 2 && strcmp(argv[2], "keys") == 0;

    if (argc > 2 && !wants_keys)
        return run_role(spec, argv[2]);
    scratch_open(&scratch);
    setenv("ICLAB_PROGRAM_CACHE", "always", 1);
    setenv("ICLAB_CACHE_DIR", scratch.folder, 1);
    if (!wants_keys && succeeds(start(argv[0], spec, "any device")))
        check_processes(&tap, argv[0], spec);
    icl_backend *backend = tap_open_device(&tap, spec); /* reports SKIP if there is none */
    if (backend) {
        /* rusticl ends the process if it is given an invalid binary; PoCL refuses it. */
        const bool has_checks = strstr(icl_backend_capabilities(backend)->platform, "Portable Computing") != NULL;
        icl_backend_close(&backend);
        if (wants_keys)
            check_keys(&tap, spec, &scratch);
        else
            check_cache(&tap, spec, has_checks, &scratch);
    }
    scratch_close(&scratch);
    return tap_done(&tap);
}
