/* Opening a device: context, queue, kernel family, self-test. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/clblast.h"
#include "backend/opencl/linear_transformer/linear_transformer.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/queue.h"
#include "backend/opencl/small.h"
#include "core/allocate.h"

/* A device with the states of all floors, in one allocation. */
typedef struct states {
    icl_opencl opencl; /* first: the backend's pointer to it frees all of them */
    icl_queue queue;
    icl_programs programs;
    icl_pool pool;
    icl_launcher launcher;
    icl_small small;
    icl_clblast clblast;
    icl_linear linear;
} states;

static icl_status create_states(icl_opencl **opencl, icl_error *error) {
    states *all = NULL;

    ICL_CHECK(icl_allocate(1, sizeof *all, "OpenCL backend", &all, error));
    all->opencl = (icl_opencl){.queue = &all->queue,
                               .programs = &all->programs,
                               .pool = &all->pool,
                               .launcher = &all->launcher,
                               .small = &all->small,
                               .clblast = &all->clblast,
                               .linear = &all->linear};
    *opencl = &all->opencl;
    return ICL_OK;
}

static void close_backend(icl_backend *backend) {
    icl_opencl *opencl = icl_opencl_of(backend);

    if (opencl->queue->handle)
        clFinish(opencl->queue->handle);
    icl_profile_drop(opencl);
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
    .buffer_create = icl_opencl_buffer_create,
    .buffer_destroy = icl_opencl_buffer_destroy,
    .buffer_read = icl_opencl_buffer_read,
    .buffer_write = icl_opencl_buffer_write,
    .buffer_map = icl_opencl_buffer_map,
    .buffer_unmap = icl_opencl_buffer_unmap,
    .sync = icl_opencl_sync,
    .trim = icl_opencl_trim,
    .peak = icl_opencl_peak,
    .ways = icl_recurrence_ways,
    .choose_way = icl_recurrence_choose_way,
    .ops =
        {
#define ICL_OPENCL_OP(name, outputs, inputs) [ICL_OP_##name] = icl_opencl_##name,
            ICL_EVERY_OP(ICL_OPENCL_OP)
#undef ICL_OPENCL_OP
        },
};

static bool is_llvmpipe(const icl_opencl *opencl) {
    return strstr(opencl->backend->capabilities.name, "llvmpipe") != NULL;
}

/*
 * How kernels are cut for this device (cl/common.h). CPUs get vectors of their width and a few work-items that loop;
 * GPUs one element for each work-item, and at most so many that each unit's queue stays full.
 * ICLAB_OPENCL_KERNELS=cpu|gpu overrides the choice: it runs the GPU kernels on a CPU driver, which is how they are
 * tested without a GPU.
 *
 * Mesa's llvmpipe is a CPU that gets the kernels of GPUs: it leaves every loop of a work-item, without a word, once its
 * loops have taken 65,535 turns in all (LP_MAX_TGSI_LOOP_ITERATIONS, a guard against endless shaders; a kernel that
 * counts to 70,000 shows it). The few long work-items of CPUs pass that bound with 34 coordinates or 4,096 keys; a
 * GPU's many short ones do not.
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
        opencl->max_items = 64 * (size_t)icl_opencl_choose(opencl, ICL_CHOICE_TEAMS, 0) * device->compute_units;
    }
}

/* NVIDIA's compiler takes as many registers as a kernel finds use for, unless it is told how many let half
 * of the waves run. */
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

static icl_status read_choices(icl_opencl *opencl, icl_error *error) {
    const char *text = getenv(ICL_CHOICES_VARIABLE);

    if (!text || !*text)
        return ICL_OK;
    ICL_CHECK(icl_choices_read(text, opencl->chosen, error));
    icl_log_write(&opencl->backend->log, ICL_LOG_INFO, "choices: %s (" ICL_CHOICES_VARIABLE ")", text);
    return ICL_OK;
}

/* Whether a GPU has fused multiply-adds in hardware. Most compilers do not say so by FP_FAST_FMAF. */
static bool has_fma(const icl_opencl *opencl) {
    cl_device_fp_config config = 0;
    return opencl->backend->capabilities.kind == ICL_DEVICE_GPU &&
           clGetDeviceInfo(opencl->device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL) == CL_SUCCESS &&
           config & CL_FP_FMA;
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

/* Tests our own kernels, without lists of small operations and CLBlast. */
static icl_status test_native(icl_opencl *opencl, icl_error *error) {
    const icl_clblast_state state = opencl->clblast->state;

    opencl->small->is_off = true;
    opencl->clblast->state = ICL_CLBLAST_REFUSED;
    ICL_CHECK(icl_opencl_test_program(opencl, ICL_TESTED_ON_OPENING, error));
    opencl->clblast->state = state;
    return ICL_OK;
}

icl_status icl_opencl_open(const icl_backend_params *params, const icl_opencl_device *device, icl_self_test *self_test,
                           icl_backend **opened, icl_error *error) {
    icl_status status = ICL_OK;
    icl_backend *backend = NULL;
    icl_opencl *opencl = NULL;

    *opened = NULL;
    ICL_TRY(icl_allocate(1, sizeof *backend, "backend", &backend, error));
    ICL_TRY(create_states(&opencl, error));
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
    opencl->clblast->operations = ICL_CLBLAST_OPERATIONS;
    opencl->programs->self_test = self_test;
    opencl->pool->is_simulator = strstr(device->capabilities.platform, "Oclgrind") != NULL;
    ICL_TRY(read_choices(opencl, error));
    choose_family(opencl);
    opencl->programs->register_option = register_option(opencl);
    opencl->fast_math = params->fast_math;
    opencl->accepts_failed = params->accept_failed_self_test;
    icl_opencl_set_options(opencl, has_fma(opencl));
    ICL_TRY(icl_opencl_read_launch(opencl, error));
    ICL_TRY(icl_opencl_require(opencl, params->accept_failed_self_test, error));
    ICL_TRY(create_queue(opencl, error));
    icl_program_cache_open(opencl);
    ICL_TRY(test_native(opencl, error));
    opencl->small->is_off = icl_opencl_choose(opencl, ICL_CHOICE_COLLECT, 0) == ICL_COLLECT_OFF;
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
