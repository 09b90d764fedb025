/*
 * Compiled programs on disk, for drivers that do not keep them themselves.
 *
 * The key is everything that a driver's compiler sees: the whole source with its includes resolved, the options, and
 * what names device and driver, versions included. The cache only ever saves time: whatever goes wrong with it is a
 * line in the log, and the source serves.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program.h"
#include "core/allocate.h"
#include "core/cache.h"

static const icl_cache_limits limits = {.bytes = UINT64_C(256) << 20, .seconds = 90 * UINT64_C(86400)};

#define INFO_CAPACITY 512

/* The drawback is told once; what is worth no warning goes to the debug log. */
static void complain(icl_opencl *opencl, const icl_error *why) {
    icl_program_cache *cache = &opencl->programs->cache;
    icl_log_write(&opencl->backend->log, cache->complained ? ICL_LOG_DEBUG : ICL_LOG_WARNING,
                  "program cache: %s; compiling from source", why->message);
    cache->complained = true;
}

/*
 * PoCL keeps programs by itself, down to each work-group size, and compiles every kernel once more to give a binary;
 * Oclgrind names lines of the source, and so needs the source. ICLAB_PROGRAM_CACHE=always turns this cache on
 * nevertheless, for tests.
 */
static bool is_wanted(const icl_opencl *opencl) {
    const char *when = getenv("ICLAB_PROGRAM_CACHE"), *platform = opencl->backend->capabilities.platform;
    return (!strstr(platform, "Portable Computing Language") && !strstr(platform, "Oclgrind")) ||
           (when && strcmp(when, "always") == 0);
}

static const cl_device_info device_infos[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION,
                                              CL_DEVICE_OPENCL_C_VERSION};
/* Apple's devices and drivers have had the same versions for years: only the platform's says which system it is. */
static const cl_platform_info platform_infos[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION};

enum {
    DEVICE_INFOS = sizeof device_infos / sizeof *device_infos,
    PLATFORM_INFOS = sizeof platform_infos / sizeof *platform_infos,
    INFOS = DEVICE_INFOS + PLATFORM_INFOS
};

/* texts: INFOS * INFO_CAPACITY bytes, all 0. */
static icl_status read_infos(const icl_opencl *opencl, char *texts, icl_error *error) {
    icl_status status = ICL_OK;
    cl_platform_id platform = NULL;
    size_t used = 0;

    ICL_CL_TRY(opencl, "clGetDeviceInfo",
               clGetDeviceInfo(opencl->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL));
    for (int i = 0; i < INFOS; i++) {
        if (i < DEVICE_INFOS)
            ICL_CL_TRY(opencl, "clGetDeviceInfo",
                       clGetDeviceInfo(opencl->device, device_infos[i], INFO_CAPACITY - 1, texts + used, NULL));
        else
            ICL_CL_TRY(
                opencl, "clGetPlatformInfo",
                clGetPlatformInfo(platform, platform_infos[i - DEVICE_INFOS], INFO_CAPACITY - 1, texts + used, NULL));
        used += strlen(texts + used);
        texts[used++] = '\n';
    }
done:
    return status;
}

void icl_program_cache_open(icl_opencl *opencl) {
    icl_program_cache *cache = &opencl->programs->cache;
    icl_status status = ICL_OK;
    icl_error why = {0};

    if (!is_wanted(opencl))
        return;
    ICL_TRY(icl_cache_folder(&cache->folder, &why));
    if (!cache->folder)
        return;
    ICL_TRY(icl_allocate(INFOS, INFO_CAPACITY, "names of device and platform", &cache->device, &why));
    ICL_TRY(read_infos(opencl, cache->device, &why));
    ICL_TRY(icl_cache_prepare(cache->folder, limits, &why));
done:
    if (status != ICL_OK) {
        complain(opencl, &why);
        icl_program_cache_close(opencl);
    }
}

void icl_program_cache_close(icl_opencl *opencl) {
    icl_free(&opencl->programs->cache.folder);
    icl_free(&opencl->programs->cache.device);
}

/* Device, options and source, in new memory. */
static icl_status make_key(const icl_opencl *opencl, const char *text, size_t size, const char *options, char **key,
                           size_t *key_size, icl_error *error) {
    const char *const parts[] = {opencl->programs->cache.device, options, "\n", text};
    const size_t sizes[] = {strlen(parts[0]), strlen(options), 1, size};
    size_t used = 0;
    icl_status status;

    *key_size = sizes[0] + sizes[1] + sizes[2] + sizes[3];
    status = icl_allocate(*key_size, 1, "key of a program", key, error);
    for (size_t i = 0; i < 4 && status == ICL_OK; used += sizes[i++])
        memcpy(*key + used, parts[i], sizes[i]);
    return status;
}

/* Makes and builds a program from a binary of the driver's; NULL where the driver will not have it. */
static cl_program program_of(icl_opencl *opencl, const char *binary, size_t size, const char *options) {
    const unsigned char *bytes = (const unsigned char *)binary;
    cl_int code, accepted = CL_INVALID_BINARY;
    size_t kernels = 0;
    cl_program program =
        clCreateProgramWithBinary(opencl->context, 1, &opencl->device, &size, &bytes, &accepted, &code);

    if (code == CL_SUCCESS)
        code = accepted;
    if (code == CL_SUCCESS)
        code = clBuildProgram(program, 1, &opencl->device, options, NULL, NULL);
    if (code == CL_SUCCESS)
        code = clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof kernels, &kernels, NULL);
    if (code == CL_SUCCESS && kernels > 0)
        return program;
    if (program)
        clReleaseProgram(program);
    icl_log_write(&opencl->backend->log, ICL_LOG_DEBUG, "program cache: the driver refuses its own binary: %s (%d)",
                  icl_cl_error_name(code), code);
    return NULL;
}

cl_program icl_program_cache_load(icl_opencl *opencl, const char *text, size_t size, const char *options) {
    icl_status status = ICL_OK;
    icl_error why = {0};
    char *key = NULL, *binary = NULL;
    size_t key_size, binary_size;
    cl_program program = NULL;

    if (!opencl->programs->cache.folder || opencl->programs->cache.distrusted)
        return NULL;
    ICL_TRY(make_key(opencl, text, size, options, &key, &key_size, &why));
    ICL_TRY(icl_cache_load(opencl->programs->cache.folder, key, key_size, &binary, &binary_size, &why));
    if (binary)
        program = program_of(opencl, binary, binary_size, options);
    opencl->programs->cache.loaded += program != NULL;
done:
    if (status != ICL_OK)
        complain(opencl, &why);
    icl_free(&key);
    icl_free(&binary);
    return program;
}

/* The binary of a program's only device, in new memory. */
static icl_status binary_of(const icl_opencl *opencl, cl_program program, char **binary, size_t *size,
                            icl_error *error) {
    icl_status status = ICL_OK;

    ICL_CL_TRY(opencl, "clGetProgramInfo",
               clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *size, size, NULL));
    if (*size == 0) {
        status =
            icl_fail(error, ICL_ERROR_DEVICE, "%s gives no binary of a program", opencl->backend->capabilities.name);
        goto done;
    }
    ICL_TRY(icl_allocate(*size, 1, "binary of a program", binary, error));
    ICL_CL_TRY(opencl, "clGetProgramInfo",
               clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof *binary, binary, NULL));
done:
    return status;
}

void icl_program_cache_store(icl_opencl *opencl, const char *text, size_t size, const char *options,
                             cl_program program) {
    icl_status status = ICL_OK;
    icl_error why = {0};
    char *key = NULL, *binary = NULL;
    size_t key_size, binary_size = 0;

    if (!opencl->programs->cache.folder)
        return;
    ICL_TRY(make_key(opencl, text, size, options, &key, &key_size, &why));
    ICL_TRY(binary_of(opencl, program, &binary, &binary_size, &why));
    ICL_TRY(icl_cache_store(opencl->programs->cache.folder, key, key_size, binary, binary_size, &why));
done:
    if (status != ICL_OK)
        complain(opencl, &why);
    icl_free(&key);
    icl_free(&binary);
}
