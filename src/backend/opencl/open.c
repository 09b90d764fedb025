/* The backend that joins all floors: its table of functions, and how a device is opened. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"
#include "backend/opencl/launch.h"
#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/queue.h"
#include "backend/opencl/small.h"
#include "core/allocate.h"

/* ---- Memory, and transfers between host and device, which wait ---- */

static icl_status buffer_create(icl_backend *backend, icl_buffer *buffer, icl_error *error) {
    icl_block *block = NULL;
    size_t bytes;

    if (!icl_multiply_sizes(buffer->elements, sizeof(cl_float), &bytes))
        return icl_fail(error, ICL_ERROR_MEMORY, "device memory: %zu elements overflow the address space",
                        buffer->elements);
    ICL_CHECK(icl_pool_take(icl_opencl_of(backend), bytes, &block, error));
    buffer->handle = block;
    return ICL_OK;
}

static void buffer_destroy(icl_backend *backend, icl_buffer *buffer) {
    icl_pool_give(icl_opencl_of(backend), buffer->handle);
    buffer->handle = NULL;
}

static cl_mem memory_of_buffer(const icl_buffer *buffer) {
    return ((icl_block *)buffer->handle)->memory;
}

static icl_status buffer_read(icl_backend *backend, const icl_buffer *buffer, size_t offset, size_t count,
                              void *elements, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    icl_status status = ICL_OK;
    ICL_TRY(icl_queue_flush(opencl, error));
    ICL_CL_TRY(opencl, "clEnqueueReadBuffer",
               clEnqueueReadBuffer(opencl->queue->handle, memory_of_buffer(buffer), CL_TRUE, offset * sizeof(cl_float),
                                   count * sizeof(cl_float), elements, 0, NULL, NULL));
done:
    return status;
}

static icl_status buffer_write(icl_backend *backend, icl_buffer *buffer, size_t offset, size_t count,
                               const void *elements, icl_error *error) {
    return icl_queue_write(icl_opencl_of(backend), memory_of_buffer(buffer), offset * sizeof(cl_float),
                           count * sizeof(cl_float), elements, error);
}

static icl_status buffer_map(icl_backend *backend, icl_buffer *buffer, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    cl_int code;
    ICL_CHECK(icl_queue_flush(opencl, error));
    void *mapped =
        clEnqueueMapBuffer(opencl->queue->handle, memory_of_buffer(buffer), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                           buffer->elements * sizeof(cl_float), 0, NULL, NULL, &code);
    if (code != CL_SUCCESS)
        return icl_cl_fail(opencl, code, "clEnqueueMapBuffer", error);
    buffer->mapped = mapped;
    return ICL_OK;
}

static icl_status buffer_unmap(icl_backend *backend, icl_buffer *buffer, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    icl_status status = ICL_OK;
    ICL_TRY(icl_queue_flush(opencl, error));
    ICL_CL_TRY(opencl, "clEnqueueUnmapMemObject",
               clEnqueueUnmapMemObject(opencl->queue->handle, memory_of_buffer(buffer), buffer->mapped, 0, NULL, NULL));
done:
    buffer->mapped = NULL;
    return status;
}

static icl_status synchronize(icl_backend *backend, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    icl_status status = ICL_OK;
    ICL_TRY(icl_queue_flush(opencl, error));
    ICL_CL_TRY(opencl, "clFinish", clFinish(opencl->queue->handle));
    ICL_TRY(icl_profile_collect(opencl, error));
done:
    return status;
}

/* ---- What the device could do at best: cl/peak.cl ---- */

static icl_status multiply_add(icl_opencl *opencl, cl_uint rounds, const icl_tensor *out, double *amount,
                               icl_error *error) {
    const size_t group = opencl->local_size, room = out->shape[0] / opencl->lanes / group * group;
    const size_t items = opencl->max_items < room ? opencl->max_items : room;
    const cl_float f = 0.75F, g = 0.5F;
    cl_mem memory = icl_memory_of(out);

    *amount = 24.0 * (double)opencl->lanes * (double)rounds * (double)items;
    return ICL_LAUNCH_ITEMS(opencl, ICL_KERNEL_peak_multiply_add, items, error, ICL_MEMORY_ARGUMENT(memory),
                            ICL_ARGUMENT(rounds), ICL_ARGUMENT(f), ICL_ARGUMENT(g));
}

static icl_status triad(icl_opencl *opencl, cl_uint rounds, const icl_tensor *operands, double *amount,
                        icl_error *error) {
    const cl_uint count = (cl_uint)(operands[0].shape[0] / opencl->lanes);
    cl_mem a = icl_memory_of(&operands[0]), b = icl_memory_of(&operands[1]), c = icl_memory_of(&operands[2]);
    const cl_float s = 0.5F;

    *amount = 3.0 * sizeof(cl_float) * (double)opencl->lanes * (double)count * (double)rounds;
    return ICL_LAUNCH(opencl, ICL_KERNEL_peak_triad, count, error, ICL_MEMORY_ARGUMENT(a), ICL_MEMORY_ARGUMENT(b),
                      ICL_MEMORY_ARGUMENT(c), ICL_ARGUMENT(s), ICL_ARGUMENT(count), ICL_ARGUMENT(rounds));
}

/* Measures a peak. A device has one instruction set and always uses all of its units, so no other peak is measured. */
static icl_status measure_peak(icl_backend *backend, const icl_peak_params *params, const icl_tensor *operands,
                               double *amount, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const cl_uint rounds = params->rounds < UINT32_MAX ? (cl_uint)params->rounds : UINT32_MAX;

    *amount = 0;
    if (params->isa != ICL_PEAK_WIDEST || params->threads > 0)
        return ICL_OK;
    return params->kind == ICL_PEAK_MULTIPLY_ADD ? multiply_add(opencl, rounds, operands, amount, error)
                                                 : triad(opencl, rounds, operands, amount, error);
}

/* ---- The backend ---- */

/* A device with the states of all floors, in one allocation. */
typedef struct states {
    icl_opencl opencl; /* comes first: the backend's pointer to it frees all of them */
    icl_queue queue;
    icl_programs programs;
    icl_pool pool;
    icl_launcher launcher;
    icl_small small;
    icl_clblast clblast;
    icl_linear linear;
} states;

static icl_status create_states(icl_opencl **opencl, icl_error *error) {
    states *parts = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *parts, "OpenCL backend", &parts, error));
    parts->opencl = (icl_opencl){.queue = &parts->queue,
                                 .programs = &parts->programs,
                                 .pool = &parts->pool,
                                 .launcher = &parts->launcher,
                                 .small = &parts->small,
                                 .clblast = &parts->clblast,
                                 .linear = &parts->linear};
    *opencl = &parts->opencl;
    return ICL_OK;
}

static void close_backend(icl_backend *backend) {
    icl_opencl *opencl = icl_opencl_of(backend);

    if (opencl->queue->handle)
        clFinish(opencl->queue->handle);
    icl_queue_release(opencl);
    icl_opencl_release_programs(opencl);
    icl_linear_programs_forget(opencl);
    icl_pool_trim(opencl);
    if (opencl->queue->handle)
        clReleaseCommandQueue(opencl->queue->handle);
    if (opencl->context) {
        if (opencl->clblast->state == ICL_CLBLAST_SERVES)
            icl_clblast_forget(); /* its cached programs hold the context */
        clReleaseContext(opencl->context);
    }
    icl_program_cache_close(opencl);
    icl_free(&backend->state);
}

static const icl_backend_functions functions = {
    .close = close_backend,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_read = buffer_read,
    .buffer_write = buffer_write,
    .buffer_map = buffer_map,
    .buffer_unmap = buffer_unmap,
    .sync = synchronize,
    .trim = icl_opencl_trim,
    .peak = measure_peak,
    .choices = &icl_opencl_choices,
    .ops =
        {
#define ICL_OPENCL_OP(name, ...) [ICL_OP_##name] = icl_opencl_##name,
            ICL_EVERY_OP(ICL_OPENCL_OP)
#undef ICL_OPENCL_OP
        },
};

/* ---- What a device must offer before anything runs on it ---- */

/* Each refusal is one line: the device, what was found, and what is needed. */

/* The most local memory that a kernel of the GPU family declares, rounded up. OpenCL 1.2 promises twice as much in a
 * full profile. */
#define LEAST_LOCAL_MEMORY ((size_t)16 << 10)

static icl_status refuse(const icl_opencl *opencl, const char *found, const char *needed, icl_error *error) {
    return icl_fail(error, ICL_ERROR_DEVICE, "%s %s, but iclab needs %s", opencl->backend->capabilities.name, found,
                    needed);
}

static icl_status device_text(const icl_opencl *opencl, cl_device_info what, char *text, size_t capacity,
                              icl_error *error) {
    icl_status status = ICL_OK;

    memset(text, 0, capacity);
    ICL_CL_TRY(opencl, "clGetDeviceInfo", clGetDeviceInfo(opencl->device, what, capacity - 1, text, NULL));
done:
    return status;
}

static icl_status require_flags(const icl_opencl *opencl, icl_error *error) {
    static const struct {
        cl_device_info what;
        const char *found, *needed;
    } flags[] = {
        {CL_DEVICE_AVAILABLE, "says that it is not available", "CL_DEVICE_AVAILABLE"},
        {CL_DEVICE_COMPILER_AVAILABLE, "has no compiler for kernels", "CL_DEVICE_COMPILER_AVAILABLE"},
        {CL_DEVICE_ENDIAN_LITTLE, "is big-endian", "CL_DEVICE_ENDIAN_LITTLE"},
    };
    icl_status status = ICL_OK;

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        cl_bool is_set = CL_FALSE;
        ICL_CL_TRY(opencl, "clGetDeviceInfo",
                   clGetDeviceInfo(opencl->device, flags[i].what, sizeof is_set, &is_set, NULL));
        if (!is_set)
            return refuse(opencl, flags[i].found, flags[i].needed, error);
    }
done:
    return status;
}

/* Returns whether the text begins with "1.2" or a later version. */
static bool is_recent(const char *text) {
    char *end = NULL;
    const unsigned long major = strtoul(text, &end, 10);

    if (end == text || *end != '.' || end[1] < '0' || end[1] > '9')
        return false;
    return major > 1 || (major == 1 && strtoul(end + 1, NULL, 10) >= 2);
}

/* By the standard the texts are "OpenCL 1.2 ..." and "OpenCL C 1.2 ...". */
static icl_status require_version(const icl_opencl *opencl, cl_device_info what, const char *prefix, icl_error *error) {
    char text[512], found[160], needed[64];
    const size_t length = strlen(prefix);

    ICL_CHECK(device_text(opencl, what, text, sizeof text, error));
    if (strncmp(text, prefix, length) == 0 && is_recent(text + length))
        return ICL_OK;
    snprintf(found, sizeof found, "gives \"%.80s\" as its version", text);
    snprintf(needed, sizeof needed, "\"%s1.2\" or later", prefix);
    return refuse(opencl, found, needed, error);
}

/* The bounds of ops follow from the accuracy that a full profile promises. An embedded profile may round differently,
 * and has no infinities. */
static icl_status require_full_profile(const icl_opencl *opencl, bool accept, icl_error *error) {
    icl_status status = ICL_OK;
    char profile[64], found[128];

    ICL_TRY(device_text(opencl, CL_DEVICE_PROFILE, profile, sizeof profile, error));
    if (strcmp(profile, "FULL_PROFILE") == 0)
        return ICL_OK;
    snprintf(found, sizeof found, "has the profile \"%s\", whose arithmetic is less exact", profile);
    status = refuse(opencl, found, "FULL_PROFILE", error);
    if (!accept)
        return status;
    icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s %s than the error bounds suppose; opened nevertheless",
                  opencl->backend->capabilities.name, found);
    return ICL_OK;
done:
    return status;
}

static icl_status require_sizes(const icl_opencl *opencl, icl_error *error) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    const struct {
        const char *what;
        size_t found, needed;
    } sizes[] = {
        {"compute units", device->compute_units, 1},
        {"bytes of memory", device->global_memory, 1},
        {"bytes in the largest buffer", device->max_allocation, 1},
        {"work-items in a group", device->max_work_group, opencl->local_size},
        {"bytes of local memory", device->local_memory, opencl->lanes == 1 ? LEAST_LOCAL_MEMORY : 0},
    };
    char found[96], needed[64];

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].found < sizes[i].needed) {
            snprintf(found, sizeof found, "has %zu %s", sizes[i].found, sizes[i].what);
            snprintf(needed, sizeof needed, "at least %zu", sizes[i].needed);
            return refuse(opencl, found, needed, error);
        }
    return ICL_OK;
}

static icl_status require(const icl_opencl *opencl, bool accept_less_exact, icl_error *error) {
    ICL_CHECK(require_flags(opencl, error));
    ICL_CHECK(require_version(opencl, CL_DEVICE_VERSION, "OpenCL ", error));
    ICL_CHECK(require_version(opencl, CL_DEVICE_OPENCL_C_VERSION, "OpenCL C ", error));
    ICL_CHECK(require_sizes(opencl, error));
    return require_full_profile(opencl, accept_less_exact, error);
}

/* ---- Opening ---- */

static bool is_llvmpipe(const icl_opencl *opencl) {
    return strstr(opencl->backend->capabilities.name, "llvmpipe") != NULL;
}

/*
 * Chooses how kernels are cut for this device (cl/common.h). CPUs get vectors of their width and a few work-items that
 * loop; GPUs get one element for each work-item, and at most so many work-items that each unit's queue stays full.
 * ICLAB_OPENCL_KERNELS=cpu|gpu overrides the choice: it runs the GPU kernels on a CPU driver, which is how they are
 * tested without a GPU.
 *
 * Mesa's llvmpipe is a CPU that gets the kernels of GPUs: it silently leaves every loop of a work-item once its loops
 * have taken 65,535 turns in all (LP_MAX_TGSI_LOOP_ITERATIONS, a guard against endless shaders; a kernel that counts to
 * 70,000 shows it). The few long work-items of CPUs exceed that bound with 34 coordinates or 4,096 keys; a GPU's many
 * short ones do not.
 */
static void choose_family(icl_opencl *opencl) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    const char *wanted = getenv("ICLAB_OPENCL_KERNELS");
    bool lanes = device->kind == ICL_DEVICE_CPU && !is_llvmpipe(opencl);

    if (wanted && (strcmp(wanted, "cpu") == 0 || strcmp(wanted, "gpu") == 0))
        lanes = strcmp(wanted, "cpu") == 0;
    if (lanes) {
        opencl->lanes = device->vector_width >= 16 ? 16 : device->vector_width >= 8 ? 8 : 4;
        opencl->local_size = 1;
        opencl->max_items = 4 * device->compute_units;
    } else {
        opencl->lanes = 1;
        opencl->local_size = 64;
    }
}

/* Returns the compiler option that limits registers, or NULL. NVIDIA's compiler takes as many registers as a kernel
 * finds use for, unless it is told how many let half of the waves run. */
static const char *register_option(const icl_opencl *opencl) {
    enum { CAPABILITY_MAJOR = 0x4000, CAPABILITY_MINOR = 0x4001 }; /* of cl_nv_device_attribute_query */
    char extensions[4096] = "";
    cl_uint major = 0, minor = 0;

    if (clGetDeviceInfo(opencl->device, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, NULL) != CL_SUCCESS ||
        !strstr(extensions, "cl_nv_compiler_options"))
        return NULL;
    if (clGetDeviceInfo(opencl->device, CAPABILITY_MAJOR, sizeof major, &major, NULL) != CL_SUCCESS ||
        clGetDeviceInfo(opencl->device, CAPABILITY_MINOR, sizeof minor, &minor, NULL) != CL_SUCCESS)
        major = minor = 0;
    return icl_opencl_register_option(major, minor);
}

/* Returns whether a GPU has fused multiply-adds in hardware. Most compilers do not say so by FP_FAST_FMAF. */
static bool has_fma(const icl_opencl *opencl) {
    cl_device_fp_config config = 0;
    return opencl->backend->capabilities.kind == ICL_DEVICE_GPU &&
           clGetDeviceInfo(opencl->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL) == CL_SUCCESS &&
           config & CL_FP_FMA;
}

/* Reads ICLAB_OPENCL_LAUNCH; a malformed value is an error. */
static icl_status read_launch(icl_opencl *opencl, icl_error *error) {
    static const char prefix[] = "random:";
    const char *text = getenv("ICLAB_OPENCL_LAUNCH");
    icl_random_launch *random = &opencl->launcher->random;
    char *end = NULL;

    if (!text || !*text)
        return ICL_OK;
    const char *seed = strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : "";
    if (*seed < '0' || *seed > '9' || (random->seed = (uint32_t)strtoul(seed, &end, 10), *end))
        return icl_fail(error, ICL_ERROR_INPUT, "ICLAB_OPENCL_LAUNCH=%s: expected random:SEED, a whole number", text);
    random->on = opencl->lanes == 1;
    return ICL_OK;
}

static icl_status create_queue(icl_opencl *opencl, icl_error *error) {
    const cl_command_queue_properties properties = opencl->queue->profile.on ? CL_QUEUE_PROFILING_ENABLE : 0;
    cl_int code;

    opencl->context = clCreateContext(NULL, 1, &opencl->device, NULL, NULL, &code);
    if (code != CL_SUCCESS) {
        opencl->context = NULL;
        return icl_cl_fail(opencl, code, "clCreateContext", error);
    }
    opencl->queue->handle = clCreateCommandQueue(opencl->context, opencl->device, properties, &code);
    if (code != CL_SUCCESS) {
        opencl->queue->handle = NULL;
        return icl_cl_fail(opencl, code, "clCreateCommandQueue", error);
    }
    return ICL_OK;
}

/* Tests our own kernels, without lists of small operations and without CLBlast. */
static icl_status test_native(icl_opencl *opencl, icl_error *error) {
    const icl_clblast_state state = opencl->clblast->state;

    opencl->small->is_off = true;
    opencl->clblast->state = ICL_CLBLAST_REFUSED;
    ICL_CHECK(icl_opencl_test_program(opencl, ICL_TESTED_ON_OPENING, error));
    opencl->clblast->state = state;
    return ICL_OK;
}

#define MOST_SCORES ((size_t)1 << 26)

/* Sets what the parameters and the device say, before anything is asked of the driver. */
static void set_params(icl_backend *backend, icl_opencl *opencl, const icl_backend_params *params,
                       const icl_opencl_device *device) {
    backend->functions = &functions;
    backend->state = opencl;
    backend->capabilities = device->capabilities;
    backend->capabilities.fast_math = params->fast_math;
    backend->log = params->log;
    opencl->backend = backend;
    opencl->device = device->handle;
    opencl->clblast->wanted = params->gemm;
    opencl->queue->profile.on = params->profile;
    opencl->pool->memory_limit = params->memory_limit ? params->memory_limit : device->capabilities.global_memory;
    opencl->launcher->seconds = ICL_LAUNCH_SECONDS;
    opencl->most_scores = device->capabilities.max_allocation / (4 * sizeof(float));
    if (opencl->most_scores > MOST_SCORES)
        opencl->most_scores = MOST_SCORES;
    opencl->clblast->operations = ICL_CLBLAST_OPERATIONS;
    opencl->pool->is_simulator = strstr(device->capabilities.platform, "Oclgrind") != NULL;
    opencl->fast_math = params->fast_math;
    opencl->accepts_failed = params->accept_failed_self_test;
}

icl_status icl_opencl_open(const icl_backend_params *params, const icl_opencl_device *device, icl_self_test *self_test,
                           icl_backend **opened, icl_error *error) {
    icl_status status = ICL_OK;
    icl_backend *backend = NULL;
    icl_opencl *opencl = NULL;

    *opened = NULL;
    if (params->precision != ICL_PRECISION_FULL)
        return icl_fail(
            error, ICL_ERROR_INPUT, "%s: OpenCL devices lack precision %s: expected cpu or ref, or precision %s",
            device->capabilities.spec, icl_precision_name(params->precision), icl_precision_name(ICL_PRECISION_FULL));
    ICL_TRY(icl_allocate(1, sizeof *backend, "backend", &backend, error));
    ICL_TRY(create_states(&opencl, error));
    set_params(backend, opencl, params, device);
    opencl->programs->self_test = self_test;
    choose_family(opencl);
    ICL_TRY(icl_opencl_choices.take(backend, NULL, error));
    opencl->programs->register_option = register_option(opencl);
    icl_opencl_set_options(opencl, has_fma(opencl));
    ICL_TRY(read_launch(opencl, error));
    ICL_TRY(require(opencl, params->accept_failed_self_test, error));
    ICL_TRY(create_queue(opencl, error));
    icl_program_cache_open(opencl);
    ICL_TRY(test_native(opencl, error));
    ICL_TRY(icl_opencl_choices.take(backend, NULL, error)); /* with lists of small operations */
    ICL_TRY(icl_clblast_choose(opencl, error));
    *opened = backend;
    backend = NULL;
done:
    if (backend) {
        if (backend->state)
            close_backend(backend);
        icl_free(&backend);
    }
    return status;
}

icl_status icl_opencl_test(icl_backend *backend, icl_error *error) {
    for (int which = 0; which < ICL_TESTED_CLBLAST; which++)
        ICL_CHECK(icl_opencl_test_program(icl_opencl_of(backend), (icl_tested)which, error));
    return ICL_OK;
}
