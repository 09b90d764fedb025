#define _GNU_SOURCE /* vasprintf; NOLINT(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */
/* Memory, texts, files, the clock and ops of the backend. The names __wrap_NAME and __real_NAME are the linker's. */
#include "plant.h"

#include <cJSON.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend/call.h"
#include "core/hash.h"
#include "iclab/tensor.h"
#include "iclab/text.h"

/* Members are atomic, because every thread may allocate memory. */
static struct {
    atomic_int kind; /* FAULT_KINDS: none */
    atomic_uint_fast64_t nth, calls;
    atomic_bool lasting, by_path, disk_full, dawdling;
    _Atomic(const char *) struck;
    atomic_long memory, files, objects;
    atomic_uint interruptions;
} plant = {.kind = FAULT_KINDS};

enum { MOST_PATHS = 1 << 15, PATIENCE = 120 /* seconds for a child */ };

/* The paths by which calls have failed, for work on one thread. */
static struct {
    uint64_t seen[MOST_PATHS]; /* indexed by their last bits; 0: none */
    uint64_t searched;         /* calls up to this number begin no other path */
} paths;

/* The state of fault_branch. */
static struct {
    bool is_on;
    fault_branches count;
} branching;

static void *json_allocate(size_t size) {
    const bool fails = fault_strikes(FAULT_ALLOCATION, "cJSON's malloc");
    void *memory = fails ? NULL : malloc(size);
    errno = fails ? ENOMEM : errno; /* as malloc sets it */
    atomic_fetch_add(&plant.memory, memory != NULL);
    return memory;
}

void __real_free(void *memory);

static void json_free(void *memory) {
    atomic_fetch_sub(&plant.memory, memory != NULL);
    __real_free(memory);
}

void fault_arm(fault_kind kind, uint64_t nth, bool lasting) {
    cJSON_InitHooks(&(cJSON_Hooks){json_allocate, json_free});
    plant.kind = (int)kind;
    plant.nth = nth;
    plant.calls = 0;
    plant.lasting = lasting;
    plant.by_path = false;
    plant.disk_full = false;
    plant.struck = NULL;
}

void fault_arm_path(fault_kind kind, bool lasting) {
    fault_arm(kind, 0, lasting);
    plant.by_path = true;
}

void fault_forget_paths(void) {
    memset(&paths, 0, sizeof paths);
}

void fault_disarm(void) {
    plant.kind = FAULT_KINDS;
    branching.is_on = false;
    plant.disk_full = false;
}

const char *fault_struck(void) {
    return plant.struck;
}

bool fault_may_end_with(fault_kind kind, icl_status status) {
    switch (kind) {
    case FAULT_ALLOCATION:
        return status == ICL_ERROR_MEMORY;
    case FAULT_FILE:
        return status == ICL_ERROR_IO;
    case FAULT_OP:
        return status == ICL_ERROR_DEVICE;
    default:
        return status == ICL_ERROR_DEVICE || status == ICL_ERROR_MEMORY;
    }
}

void fault_dawdle(bool on) {
    plant.dawdling = on;
}

fault_holdings fault_held(void) {
    return (fault_holdings){plant.memory, plant.files, plant.objects};
}

void fault_hold_object(long change) {
    atomic_fetch_add(&plant.objects, change);
}

enum { NEAR = 12, FAR = 48 };

/* Returns a hash of the functions that lead here, of at most `most` of them. */
static uint64_t path_here(int most) {
    void *callers[FAR];
    const int depth = backtrace(callers, most);

    return icl_hash(callers, (size_t)depth * sizeof *callers);
}

/* Notes the path; false if it was seen before. */
static bool is_new_path(uint64_t path) {
    for (size_t i = 0; i < MOST_PATHS; i++) {
        uint64_t *const slot = &paths.seen[(path + i) % MOST_PATHS];
        if (*slot == path)
            return false;
        if (*slot == 0) {
            *slot = path;
            return true;
        }
    }
    return false;
}

/* ---- Branches ---- */

void fault_branch(fault_kind kind) {
    fault_arm(kind, 0, false);
    fault_forget_paths();
    memset(&branching, 0, sizeof branching);
    branching.is_on = true;
}

fault_branches fault_branched(void) {
    return branching.count;
}

/* True in the child. */
static bool branch_off(const char *call) {
    int code = 0;

    if (!is_new_path(path_here(FAR)))
        return false;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        branching.is_on = false;
        plant.kind = FAULT_KINDS;
        plant.struck = call;
        alarm(PATIENCE);
        return true;
    }
    branching.count.forked++;
    branching.count.bad += child < 0 || waitpid(child, &code, 0) != child || code != 0;
    return false;
}

/* Says whether the call of this number is the first of a new path. */
static bool begins_path(uint64_t number) {
    if (number <= paths.searched)
        return false;
    paths.searched = number;
    return is_new_path(path_here(NEAR));
}

bool fault_strikes(fault_kind kind, const char *call) {
    if (plant.kind != (int)kind)
        return false;
    if (branching.is_on)
        return branch_off(call);
    const uint64_t number = atomic_fetch_add(&plant.calls, 1) + 1;
    if (plant.struck)
        return plant.lasting;
    if (plant.by_path ? !begins_path(number) : number != plant.nth)
        return false;
    plant.struck = call;
    return true;
}

static int fail_with(int number) {
    errno = number;
    return -1;
}

/* ---- Memory ---- */

int __real_posix_memalign(void **memory, size_t alignment, size_t size);
int __wrap_posix_memalign(void **memory, size_t alignment, size_t size);
void __wrap_free(void *memory);
FILE *__real_open_memstream(char **memory, size_t *size);
FILE *__wrap_open_memstream(char **memory, size_t *size);

int __wrap_posix_memalign(void **memory, size_t alignment, size_t size) {
    const int code =
        fault_strikes(FAULT_ALLOCATION, "posix_memalign") ? ENOMEM : __real_posix_memalign(memory, alignment, size);
    atomic_fetch_add(&plant.memory, code == 0);
    return code;
}

void __wrap_free(void *memory) {
    atomic_fetch_sub(&plant.memory, memory != NULL);
    __real_free(memory);
}

/* The stream's buffer appears with the first flush, and the caller frees it. */
FILE *__wrap_open_memstream(char **memory, size_t *size) {
    FILE *stream = NULL;
    if (fault_strikes(FAULT_ALLOCATION, "open_memstream"))
        errno = ENOMEM;
    else
        stream = __real_open_memstream(memory, size);
    atomic_fetch_add(&plant.memory, stream != NULL);
    return stream;
}

/* ---- Files ---- */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_pipe(int ends[2]);
int __wrap_pipe(int ends[2]);
int __real_close(int file);
int __wrap_close(int file);
ssize_t __real_read(int file, void *data, size_t size);
ssize_t __wrap_read(int file, void *data, size_t size);
ssize_t __real_write(int file, const void *data, size_t size);
ssize_t __wrap_write(int file, const void *data, size_t size);
off_t __real_lseek64(int file, off_t offset, int whence);
off_t __wrap_lseek64(int file, off_t offset, int whence);
int __wrap_fsync(int file);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);

static bool is_written(int file) {
    return (fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY;
}

int __wrap_open64(const char *path, int flags, ...) {
    const bool writes = (flags & O_ACCMODE) != O_RDONLY;
    mode_t mode = 0;
    int file;

    if (flags & O_CREAT) {
        va_list arguments;
        va_start(arguments, flags);
        mode = (mode_t)va_arg(arguments, int);
        va_end(arguments);
    }
    if (fault_strikes(FAULT_FILE, writes ? "open to write" : "open to read"))
        return fail_with(EMFILE);
    file = __real_open64(path, flags, mode);
    atomic_fetch_add(&plant.files, file >= 0);
    return file;
}

int __wrap_pipe(int ends[2]) {
    if (fault_strikes(FAULT_FILE, "pipe"))
        return fail_with(EMFILE);
    const int result = __real_pipe(ends);
    atomic_fetch_add(&plant.files, result == 0 ? 2 : 0);
    return result;
}

/* A close that fails has closed the file, as on Linux. */
int __wrap_close(int file) {
    const bool fails = fault_strikes(FAULT_FILE, is_written(file) ? "close after writing" : "close after reading");
    const int result = __real_close(file);
    atomic_fetch_sub(&plant.files, result == 0);
    return fails ? fail_with(EIO) : result;
}

/* Interrupts every second call; the others get less than half done. */
static bool interrupted(size_t *size) {
    if (!plant.dawdling)
        return false;
    if (atomic_fetch_add(&plant.interruptions, 1) % 2 == 0)
        return true;
    *size = *size > 2 ? (*size - 1) / 2 : 1;
    return false;
}

ssize_t __wrap_read(int file, void *data, size_t size) {
    if (fault_strikes(FAULT_FILE, "read"))
        return fail_with(EIO);
    if (size > 0 && interrupted(&size))
        return fail_with(EINTR);
    return __real_read(file, data, size);
}

/* A disk that fills up takes a part of the data first, and refuses the rest. */
ssize_t __wrap_write(int file, const void *data, size_t size) {
    if (plant.disk_full) {
        plant.disk_full = false;
        return fail_with(ENOSPC);
    }
    if (fault_strikes(FAULT_FILE, "write")) {
        if (size < 2)
            return fail_with(ENOSPC);
        plant.disk_full = true;
        return __real_write(file, data, size / 2);
    }
    if (size > 0 && interrupted(&size))
        return fail_with(EINTR);
    return __real_write(file, data, size);
}

off_t __wrap_lseek64(int file, off_t offset, int whence) {
    return fault_strikes(FAULT_FILE, "lseek") ? fail_with(EIO) : __real_lseek64(file, offset, whence);
}

/* Nobody cuts the power during a test, so a call that succeeds does not wait for the disk. */
int __wrap_fsync(int file) {
    return fault_strikes(FAULT_FILE, is_written(file) ? "fsync" : "fsync of a folder") ? fail_with(EIO) : 0;
}

int __wrap_rename(const char *from, const char *to) {
    return fault_strikes(FAULT_FILE, "rename") ? fail_with(ENOSPC) : __real_rename(from, to);
}

int __wrap_mkdir(const char *path, mode_t mode) {
    return fault_strikes(FAULT_FILE, "mkdir") ? fail_with(ENOSPC) : __real_mkdir(path, mode);
}

/* ---- The clock ---- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
time_t __wrap_time(time_t *where);

/* The clock stands still, because a session cuts its work by the time that steps take, and attempts must make the same
 * calls. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    *time = (struct timespec){0};
    return 0;
}

time_t __wrap_time(time_t *where) {
    if (where)
        *where = 0;
    return 0;
}

/* ---- Texts ---- */

/* Appends and prints that find room allocate nothing, so a run would meet few failures: here each one is a call that
 * may fail. */
icl_status __real_icl_text_append(icl_text *text, const char *bytes, size_t length, icl_error *error);
icl_status __wrap_icl_text_append(icl_text *text, const char *bytes, size_t length, icl_error *error);
icl_status __wrap_icl_text_print(icl_text *text, icl_error *error, const char *format, ...) ICL_PRINTF(3, 4);

static bool spares_texts;

void fault_spare_texts(void) {
    spares_texts = true;
}

static bool text_strikes(const char *call) {
    return !spares_texts && fault_strikes(FAULT_ALLOCATION, call);
}

static icl_status fail_text(const char *call, icl_error *error) {
    return icl_fail(error, ICL_ERROR_MEMORY, "%s: planted", call);
}

icl_status __wrap_icl_text_append(icl_text *text, const char *bytes, size_t length, icl_error *error) {
    return text_strikes("icl_text_append") ? fail_text("icl_text_append", error)
                                           : __real_icl_text_append(text, bytes, length, error);
}

icl_status __wrap_icl_text_print(icl_text *text, icl_error *error, const char *format, ...) {
    char *printed = NULL;
    va_list arguments;

    if (text_strikes("icl_text_print"))
        return fail_text("icl_text_print", error);
    va_start(arguments, format);
    const int length = vasprintf(&printed, format, arguments);
    va_end(arguments);
    if (length < 0)
        return fail_text("vasprintf", error);
    const icl_status status = __real_icl_text_append(text, printed, (size_t)length, error);
    __real_free(printed);
    return status;
}

/* ---- Ops ---- */

#define OP_CALL(name, parameters, arguments)                                                                           \
    icl_status __real_##name parameters;                                                                               \
    icl_status __wrap_##name parameters;                                                                               \
    icl_status __wrap_##name parameters {                                                                              \
        return fault_strikes(FAULT_OP, #name) ? icl_fail(error, ICL_ERROR_DEVICE, "%s: planted", #name)                \
                                              : __real_##name arguments;                                               \
    }

OP_CALL(icl_dispatch,
        (icl_backend * backend, icl_op op, const void *params, const icl_tensor *operands, icl_error *error),
        (backend, op, params, operands, error))
OP_CALL(icl_tensor_write, (icl_tensor tensor, const float *values, icl_error *error), (tensor, values, error))
OP_CALL(icl_tensor_write_double, (icl_tensor tensor, const double *values, icl_error *error), (tensor, values, error))
OP_CALL(icl_tensor_read, (icl_tensor tensor, float *values, icl_error *error), (tensor, values, error))
OP_CALL(icl_tensor_read_double, (icl_tensor tensor, double *values, icl_error *error), (tensor, values, error))
