/*
 * A layer between the OpenCL loader and PoCL that answers as another driver would: Apple's, one with an embedded
 * profile, or one that lies.
 *
 * The loader takes layers from OPENCL_LAYERS. The variable ICLAB_TEST_DRIVER says what this layer changes, and is read
 * anew at each call. It holds words KEY=VALUE, separated by semicolons, with the keys of `answers` below and these:
 *     fail-build=N         the Nth program that is built from now on fails; so does every later one
 *     build-options=TEXT   TEXT is appended to every program's options
 *     replace=OLD>NEW      NEW replaces OLD everywhere in the text of every program
 *     crash=WHERE, leave=WHERE, hang=WHERE
 *                          the process aborts, exits, or waits for ever: at "list", when the platform's properties are
 *                          queried, or at "open", when a context is created
 *     of=N                 crash, leave and hang at "open" happen only for device N
 *     fail-info=N          queries of device N fail
 *     without-fma=1        the compiler knows no fused multiply-add: a kernel that calls fma() does not compile
 *     kernel=NAME          the kernel that group and fail-launch are about; NAME* is every kernel whose name begins so;
 *                          without this key, every kernel
 *     group=N              the most work-items of a group that the kernel accepts after its build
 *     fail-launch=N        the Nth launch of the kernel fails, counted since this word was set; so does every later one
 * The layer enforces the limits that it claims: buffers beyond `allocation`, groups beyond `work-group` or `group`, and
 * kernels whose local memory is beyond `local-memory` get the error that a driver would give. Other platforms than PoCL
 * are left unchanged.
 */
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_layer.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define VARIABLE      "ICLAB_TEST_DRIVER"
#define CAPACITY      1024
#define VISIBLE       __attribute__((visibility("default")))
#define ONLY_PLATFORM "Portable Computing Language"

static cl_icd_dispatch target, changed; /* static, because the loader passes layers no pointer */

/* ---- What is asked for ---- */

/* Copies the value of a key; false if it is absent. */
static bool find_value(const char *key, char value[CAPACITY]) {
    const char *word = getenv(VARIABLE);
    const size_t length = strlen(key);

    while (word && *word) {
        const size_t size = strcspn(word, ";");
        if (size > length && strncmp(word, key, length) == 0 && word[length] == '=') {
            snprintf(value, CAPACITY, "%.*s", (int)(size - length - 1), word + length + 1);
            return true;
        }
        word += size + (word[size] == ';');
    }
    return false;
}

static bool find_number(const char *key, cl_ulong *number) {
    char value[CAPACITY];
    if (!find_value(key, value))
        return false;
    *number = strtoull(value, NULL, 0);
    return true;
}

/* Says whether at least N calls of this kind have come, N being the key's value. The count starts anew when the
 * variable changes. */
static bool has_come(const char *key, cl_ulong *count, char since[CAPACITY]) {
    const char *wanted = getenv(VARIABLE);
    cl_ulong number;

    if (!wanted || !find_number(key, &number))
        return false;
    if (strncmp(since, wanted, CAPACITY - 1) != 0) {
        snprintf(since, CAPACITY, "%s", wanted);
        *count = 0;
    }
    return ++*count >= number;
}

/* ---- Drivers that take the process with them ---- */

/* Says whether `device` is device `number` of its platform. */
static bool has_number(cl_device_id device, cl_ulong number) {
    cl_platform_id platform = NULL;
    cl_device_id devices[8] = {NULL};
    cl_uint count = 0;

    target.clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL);
    target.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 8, devices, &count);
    return number < count && number < 8 && devices[number] == device;
}

static bool is_meant(cl_device_id device) {
    cl_ulong number;
    return !find_number("of", &number) || has_number(device, number);
}

/* Crashes, exits or hangs if the variable asks for it at this place. `device` is NULL if no particular device is
 * used. */
static void misbehave(const char *where, cl_device_id device) {
    char place[CAPACITY];

    if (device && !is_meant(device))
        return;
    if (find_value("crash", place) && strcmp(place, where) == 0)
        abort();
    if (find_value("leave", place) && strcmp(place, where) == 0)
        _exit(3);
    while (find_value("hang", place) && strcmp(place, where) == 0)
        pause();
}

/* ---- Platform and device ---- */

static bool is_planted_platform(cl_platform_id platform) {
    char name[CAPACITY] = "";
    return target.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL) == CL_SUCCESS &&
           strcmp(name, ONLY_PLATFORM) == 0;
}

static bool is_planted(cl_device_id device) {
    cl_platform_id platform = NULL;
    return target.clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL) == CL_SUCCESS &&
           is_planted_platform(platform);
}

/* Properties of a device that can be changed, and the size of the value; 0: text. */
static const struct {
    const char *key;
    cl_device_info what;
    size_t size;
} answers[] = {
    {"name", CL_DEVICE_NAME, 0},
    {"version", CL_DEVICE_VERSION, 0},
    {"driver", CL_DRIVER_VERSION, 0},
    {"c-version", CL_DEVICE_OPENCL_C_VERSION, 0},
    {"profile", CL_DEVICE_PROFILE, 0},
    {"type", CL_DEVICE_TYPE, sizeof(cl_device_type)},
    {"units", CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint)},
    {"vector", CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, sizeof(cl_uint)},
    {"work-group", CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t)},
    {"local-memory", CL_DEVICE_LOCAL_MEM_SIZE, sizeof(cl_ulong)},
    {"memory", CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong)},
    {"allocation", CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong)},
    {"float-abilities", CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_device_fp_config)},
    {"available", CL_DEVICE_AVAILABLE, sizeof(cl_bool)},
    {"compiler", CL_DEVICE_COMPILER_AVAILABLE, sizeof(cl_bool)},
    {"little-endian", CL_DEVICE_ENDIAN_LITTLE, sizeof(cl_bool)},
};

static cl_int answer(const void *value, size_t size, size_t room, void *to, size_t *needed) {
    if (needed)
        *needed = size;
    if (to && room < size)
        return CL_INVALID_VALUE;
    if (to)
        memcpy(to, value, size);
    return CL_SUCCESS;
}

static cl_int CL_API_CALL get_platform_info(cl_platform_id platform, cl_platform_info what, size_t room, void *to,
                                            size_t *needed) {
    const char *key = what == CL_PLATFORM_NAME ? "platform" : what == CL_PLATFORM_VERSION ? "platform-version" : "";
    char text[CAPACITY];

    if (is_planted_platform(platform))
        misbehave("list", NULL);
    if (*key && is_planted_platform(platform) && find_value(key, text))
        return answer(text, strlen(text) + 1, room, to, needed);
    return target.clGetPlatformInfo(platform, what, room, to, needed);
}

static cl_int CL_API_CALL get_device_info(cl_device_id device, cl_device_info what, size_t room, void *to,
                                          size_t *needed) {
    char text[CAPACITY];
    cl_ulong silent;

    if (is_planted(device) && find_number("fail-info", &silent) && has_number(device, silent))
        return CL_OUT_OF_RESOURCES;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
        if (answers[i].what == what && is_planted(device) && find_value(answers[i].key, text)) {
            const cl_ulong number = strtoull(text, NULL, 0); /* every PoCL is little-endian */
            return answers[i].size ? answer(&number, answers[i].size, room, to, needed)
                                   : answer(text, strlen(text) + 1, room, to, needed);
        }
    return target.clGetDeviceInfo(device, what, room, to, needed);
}

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *devices,
                                             void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                                             void *user, cl_int *code) {
    if (count == 1 && is_planted(devices[0]))
        misbehave("open", devices[0]);
    return target.clCreateContext(properties, count, devices, notify, user, code);
}

/* ---- Programs ---- */

/* Returns the text with each OLD replaced by NEW, in new memory; NULL if OLD is empty or memory is short. */
static char *replaced(const char *text, size_t length, const char *words) {
    const char *const end = text + length, *const new = strchr(words, '>') ? strchr(words, '>') + 1 : words;
    const size_t old_length = new > words ? (size_t)(new - words) - 1 : 0, new_length = strlen(new);
    char *const made = old_length > 0 ? malloc(length * (new_length + 1) + 1) : NULL;
    char *to = made;

    while (made && text < end) {
        const bool is_old = (size_t)(end - text) >= old_length && strncmp(text, words, old_length) == 0;
        memcpy(to, is_old ? new : text, is_old ? new_length : 1);
        to += is_old ? new_length : 1;
        text += is_old ? old_length : 1;
    }
    if (made)
        *to = '\0';
    return made;
}

static cl_program CL_API_CALL create_program(cl_context context, cl_uint count, const char **texts, const size_t *sizes,
                                             cl_int *code) {
    static const char without_fma[] = "#undef __FMA__\n#undef FP_FAST_FMAF\n#define fma no_fused_multiply_add\n";
    char words[CAPACITY], *changed_text = NULL;
    cl_ulong number;

    if (count != 1)
        return target.clCreateProgramWithSource(context, count, texts, sizes, code);
    const char *both[] = {find_number("without-fma", &number) ? without_fma : "", texts[0]};
    size_t lengths[] = {strlen(both[0]), sizes && sizes[0] ? sizes[0] : strlen(texts[0])};
    if (find_value("replace", words) && (changed_text = replaced(texts[0], lengths[1], words)) != NULL) {
        both[1] = changed_text;
        lengths[1] = strlen(changed_text);
    }
    cl_program program = target.clCreateProgramWithSource(context, 2, both, lengths, code);
    free(changed_text);
    return program;
}

static cl_int CL_API_CALL build_program(cl_program program, cl_uint count, const cl_device_id *devices,
                                        const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                                        void *user) {
    static cl_ulong builds;
    static char since[CAPACITY];
    char more[CAPACITY], all[3 * CAPACITY];

    if (count > 0 && !is_planted(devices[0]))
        return target.clBuildProgram(program, count, devices, options, notify, user);
    if (has_come("fail-build", &builds, since))
        return CL_BUILD_PROGRAM_FAILURE;
    if (find_value("build-options", more)) {
        snprintf(all, sizeof all, "%.2000s %s", options ? options : "", more);
        options = all;
    }
    return target.clBuildProgram(program, count, devices, options, notify, user);
}

/* ---- Kernels ---- */

static bool is_chosen(cl_kernel kernel) {
    char name[CAPACITY] = "", wanted[CAPACITY];

    if (!find_value("kernel", wanted))
        return true;
    target.clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name - 1, name, NULL);
    const size_t length = strcspn(wanted, "*");
    return strncmp(name, wanted, length) == 0 && (wanted[length] == '*' || !name[length]);
}

/* Returns the most work-items of a group that the kernel takes; 0: what the driver says. */
static size_t group_limit(cl_kernel kernel) {
    cl_ulong device = 0, own = 0;
    find_number("work-group", &device);
    if (is_chosen(kernel) && find_number("group", &own))
        return (size_t)own;
    return (size_t)device;
}

static cl_int CL_API_CALL get_work_group_info(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                              size_t room, void *to, size_t *needed) {
    const size_t limit = what == CL_KERNEL_WORK_GROUP_SIZE && device && is_planted(device) ? group_limit(kernel) : 0;
    return limit > 0 ? answer(&limit, sizeof limit, room, to, needed)
                     : target.clGetKernelWorkGroupInfo(kernel, device, what, room, to, needed);
}

/* Returns what a driver with these limits answers to a launch. */
static cl_int judge_launch(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *local) {
    cl_device_id device = NULL;
    cl_ulong limit, used = 0;
    size_t group = 1;

    target.clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof(cl_device_id), &device, NULL);
    if (!is_planted(device))
        return CL_SUCCESS;
    for (cl_uint axis = 0; local && axis < rank; axis++)
        group *= local[axis];
    if (group_limit(kernel) > 0 && group > group_limit(kernel))
        return CL_INVALID_WORK_GROUP_SIZE;
    if (find_number("local-memory", &limit) &&
        target.clGetKernelWorkGroupInfo(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof used, &used, NULL) ==
            CL_SUCCESS &&
        used > limit)
        return CL_OUT_OF_RESOURCES;
    return CL_SUCCESS;
}

static cl_int CL_API_CALL enqueue_kernel(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset,
                                         const size_t *global, const size_t *local, cl_uint count,
                                         const cl_event *waits, cl_event *event) {
    static cl_ulong launches;
    static char since[CAPACITY];
    const cl_int code = judge_launch(queue, kernel, rank, local);

    if (code != CL_SUCCESS)
        return code;
    if (is_chosen(kernel) && has_come("fail-launch", &launches, since))
        return CL_OUT_OF_RESOURCES;
    return target.clEnqueueNDRangeKernel(queue, kernel, rank, offset, global, local, count, waits, event);
}

/* ---- Buffers ---- */

static cl_mem CL_API_CALL create_buffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
    cl_device_id device = NULL;
    cl_ulong limit;

    target.clGetContextInfo(context, CL_CONTEXT_DEVICES, sizeof(cl_device_id), &device, NULL);
    if (device && is_planted(device) && find_number("allocation", &limit) && size > limit) {
        if (code)
            *code = CL_INVALID_BUFFER_SIZE;
        return NULL;
    }
    return target.clCreateBuffer(context, flags, size, host, code);
}

/* ---- The loader's side ---- */

VISIBLE CL_API_ENTRY cl_int CL_API_CALL clGetLayerInfo(cl_layer_info what, size_t room, void *to, size_t *needed) {
    static const cl_layer_api_version version = CL_LAYER_API_VERSION_100;
    return what == CL_LAYER_API_VERSION ? answer(&version, sizeof version, room, to, needed) : CL_INVALID_VALUE;
}

VISIBLE CL_API_ENTRY cl_int CL_API_CALL clInitLayer(cl_uint count, const cl_icd_dispatch *below, cl_uint *own_count,
                                                    const cl_icd_dispatch **own) {
    const size_t slots = sizeof target / sizeof(void *);

    if (!below || !own || !own_count || count < slots)
        return CL_INVALID_VALUE;
    memcpy(&target, below, sizeof target);
    changed = target;
    changed.clGetPlatformInfo = get_platform_info;
    changed.clGetDeviceInfo = get_device_info;
    changed.clCreateContext = create_context;
    changed.clCreateProgramWithSource = create_program;
    changed.clBuildProgram = build_program;
    changed.clGetKernelWorkGroupInfo = get_work_group_info;
    changed.clEnqueueNDRangeKernel = enqueue_kernel;
    changed.clCreateBuffer = create_buffer;
    *own_count = (cl_uint)slots;
    *own = &changed;
    return CL_SUCCESS;
}
