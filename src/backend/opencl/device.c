/* The OpenCL devices of this machine, and the names of OpenCL's errors. */
#include "backend/opencl/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/allocate.h"
#include "iclab/backend.h"

/* ---- Errors ---- */

typedef struct error_name {
    int code;
    const char *name;
} error_name;

/* The codes of cl.h of OpenCL 1.2, the loader's -1001, and CLBlast's own codes (clblast_c.h): one numbering for all. */
#define NAMED(code)                                                                                                    \
    { code, #code }
static const error_name error_names[] = {
    NAMED(CL_SUCCESS),
    NAMED(CL_DEVICE_NOT_FOUND),
    NAMED(CL_DEVICE_NOT_AVAILABLE),
    NAMED(CL_COMPILER_NOT_AVAILABLE),
    NAMED(CL_MEM_OBJECT_ALLOCATION_FAILURE),
    NAMED(CL_OUT_OF_RESOURCES),
    NAMED(CL_OUT_OF_HOST_MEMORY),
    NAMED(CL_PROFILING_INFO_NOT_AVAILABLE),
    NAMED(CL_MEM_COPY_OVERLAP),
    NAMED(CL_IMAGE_FORMAT_MISMATCH),
    NAMED(CL_IMAGE_FORMAT_NOT_SUPPORTED),
    NAMED(CL_BUILD_PROGRAM_FAILURE),
    NAMED(CL_MAP_FAILURE),
    NAMED(CL_MISALIGNED_SUB_BUFFER_OFFSET),
    NAMED(CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST),
    NAMED(CL_COMPILE_PROGRAM_FAILURE),
    NAMED(CL_LINKER_NOT_AVAILABLE),
    NAMED(CL_LINK_PROGRAM_FAILURE),
    NAMED(CL_DEVICE_PARTITION_FAILED),
    NAMED(CL_KERNEL_ARG_INFO_NOT_AVAILABLE),
    NAMED(CL_INVALID_VALUE),
    NAMED(CL_INVALID_DEVICE_TYPE),
    NAMED(CL_INVALID_PLATFORM),
    NAMED(CL_INVALID_DEVICE),
    NAMED(CL_INVALID_CONTEXT),
    NAMED(CL_INVALID_QUEUE_PROPERTIES),
    NAMED(CL_INVALID_COMMAND_QUEUE),
    NAMED(CL_INVALID_HOST_PTR),
    NAMED(CL_INVALID_MEM_OBJECT),
    NAMED(CL_INVALID_BINARY),
    NAMED(CL_INVALID_BUILD_OPTIONS),
    NAMED(CL_INVALID_PROGRAM),
    NAMED(CL_INVALID_PROGRAM_EXECUTABLE),
    NAMED(CL_INVALID_KERNEL_NAME),
    NAMED(CL_INVALID_KERNEL_DEFINITION),
    NAMED(CL_INVALID_KERNEL),
    NAMED(CL_INVALID_ARG_INDEX),
    NAMED(CL_INVALID_ARG_VALUE),
    NAMED(CL_INVALID_ARG_SIZE),
    NAMED(CL_INVALID_KERNEL_ARGS),
    NAMED(CL_INVALID_WORK_DIMENSION),
    NAMED(CL_INVALID_WORK_GROUP_SIZE),
    NAMED(CL_INVALID_WORK_ITEM_SIZE),
    NAMED(CL_INVALID_GLOBAL_OFFSET),
    NAMED(CL_INVALID_EVENT_WAIT_LIST),
    NAMED(CL_INVALID_EVENT),
    NAMED(CL_INVALID_OPERATION),
    NAMED(CL_INVALID_BUFFER_SIZE),
    NAMED(CL_INVALID_GLOBAL_WORK_SIZE),
    NAMED(CL_INVALID_PROPERTY),
    NAMED(CL_INVALID_COMPILER_OPTIONS),
    NAMED(CL_INVALID_LINKER_OPTIONS),
    NAMED(CL_INVALID_DEVICE_PARTITION_COUNT),
    {-1001, "CL_PLATFORM_NOT_FOUND_KHR"},
    {-1007, "CLBlastInsufficientMemoryY"},
    {-1008, "CLBlastInsufficientMemoryX"},
    {-1009, "CLBlastInsufficientMemoryC"},
    {-1010, "CLBlastInsufficientMemoryB"},
    {-1011, "CLBlastInsufficientMemoryA"},
    {-1014, "CLBlastInvalidLeadDimC"},
    {-1015, "CLBlastInvalidLeadDimB"},
    {-1016, "CLBlastInvalidLeadDimA"},
    {-1017, "CLBlastInvalidDimension"},
    {-1020, "CLBlastInvalidMatrixC"},
    {-1021, "CLBlastInvalidMatrixB"},
    {-1022, "CLBlastInvalidMatrixA"},
    {-1024, "CLBlastNotImplemented"},
    {-2039, "CLBlastUnexpectedError"},
    {-2040, "CLBlastUnknownError"},
    {-2041, "CLBlastDatabaseError"},
    {-2044, "CLBlastNoDoublePrecision"},
    {-2045, "CLBlastNoHalfPrecision"},
    {-2046, "CLBlastInvalidLocalMemUsage"},
    {-2047, "CLBlastMissingOverrideParameter"},
    {-2048, "CLBlastInvalidOverrideKernel"},
    {-2049, "CLBlastInvalidBatchCount"},
    {-2050, "CLBlastInsufficientMemoryTemp"},
};
#undef NAMED

const char *icl_cl_error_name(int code) {
    for (size_t i = 0; i < sizeof error_names / sizeof *error_names; i++)
        if (error_names[i].code == code)
            return error_names[i].name;
    return "unknown OpenCL error";
}

icl_status icl_cl_fail(const icl_opencl *opencl, int code, const char *call, icl_error *error) {
    const bool memory =
        code == CL_MEM_OBJECT_ALLOCATION_FAILURE || code == CL_OUT_OF_HOST_MEMORY || code == CL_INVALID_BUFFER_SIZE;
    const char *device = opencl ? opencl->backend->capabilities.name : "no device opened yet";
    return icl_fail(error, memory ? ICL_ERROR_MEMORY : ICL_ERROR_DEVICE, "%s: %s (%d) on %s", call,
                    icl_cl_error_name(code), code, device);
}

/* ---- The devices of this machine ---- */

#define NO_PLATFORM (-1001) /* CL_PLATFORM_NOT_FOUND_KHR: the loader found no driver */

/* ---- What one device is ---- */

static icl_status device_text(cl_device_id device, cl_device_info what, char text[ICL_NAME_CAPACITY],
                              icl_error *error) {
    char whole[1024] = "";
    const cl_int code = clGetDeviceInfo(device, what, sizeof whole - 1, whole, NULL);
    if (code != CL_SUCCESS)
        return icl_cl_fail(NULL, code, "clGetDeviceInfo", error);
    const char *start = whole + strspn(whole, " ");
    snprintf(text, ICL_NAME_CAPACITY, "%.*s", ICL_NAME_CAPACITY - 1, start);
    return ICL_OK;
}

/* One property of fixed size, and where to write it. */
typedef struct property {
    cl_device_info what;
    size_t size;
    void *value;
} property;

static icl_status device_properties(cl_device_id device, const property *properties, size_t count, icl_error *error) {
    for (size_t i = 0; i < count; i++) {
        const cl_int code = clGetDeviceInfo(device, properties[i].what, properties[i].size, properties[i].value, NULL);
        if (code != CL_SUCCESS)
            return icl_cl_fail(NULL, code, "clGetDeviceInfo", error);
    }
    return ICL_OK;
}

static icl_status platform_text(cl_platform_id platform, char text[ICL_NAME_CAPACITY], icl_error *error) {
    char name[256] = "", version[256] = "";
    cl_int code = clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
    if (code == CL_SUCCESS)
        code = clGetPlatformInfo(platform, CL_PLATFORM_VERSION, sizeof version, version, NULL);
    if (code != CL_SUCCESS)
        return icl_cl_fail(NULL, code, "clGetPlatformInfo", error);
    snprintf(text, ICL_NAME_CAPACITY, "%.60s %.60s", name, version);
    return ICL_OK;
}

/* Fills everything but spec. */
static icl_status describe(cl_platform_id platform, cl_device_id device, icl_capabilities *capabilities,
                           icl_error *error) {
    cl_device_type type = 0;
    cl_uint units = 0, vector_width = 0;
    cl_ulong local_bytes = 0, global_bytes = 0, max_bytes = 0;
    cl_device_fp_config fp64 = 0;
    cl_bool unified = CL_FALSE;
    size_t group = 0;

    ICL_CHECK(device_text(device, CL_DEVICE_NAME, capabilities->name, error));
    ICL_CHECK(device_text(device, CL_DRIVER_VERSION, capabilities->driver, error));
    ICL_CHECK(platform_text(platform, capabilities->platform, error));
    const property properties[] = {
        {CL_DEVICE_TYPE, sizeof type, &type},
        {CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units},
        {CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group},
        {CL_DEVICE_PREFERRED_VECTOR_WIDTH_FLOAT, sizeof vector_width, &vector_width},
        {CL_DEVICE_LOCAL_MEM_SIZE, sizeof local_bytes, &local_bytes},
        {CL_DEVICE_GLOBAL_MEM_SIZE, sizeof global_bytes, &global_bytes},
        {CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof max_bytes, &max_bytes},
        {CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified},
    };
    ICL_CHECK(device_properties(device, properties, sizeof properties / sizeof *properties, error));
    /* The property is absent if the driver has no doubles at all. */
    if (clGetDeviceInfo(device, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof fp64, &fp64, NULL) != CL_SUCCESS)
        fp64 = 0;

    capabilities->kind = type & CL_DEVICE_TYPE_GPU   ? ICL_DEVICE_GPU
                         : type & CL_DEVICE_TYPE_CPU ? ICL_DEVICE_CPU
                                                     : ICL_DEVICE_ACCELERATOR;
    capabilities->element_size = sizeof(cl_float);
    capabilities->compute_units = units;
    capabilities->max_work_group = group;
    capabilities->vector_width = vector_width;
    capabilities->local_memory = (size_t)local_bytes;
    capabilities->global_memory = global_bytes < SIZE_MAX ? (size_t)global_bytes : SIZE_MAX;
    capabilities->max_allocation = (size_t)max_bytes;
    if (capabilities->max_allocation > ICL_OPENCL_MAX_ELEMENTS * sizeof(cl_float))
        capabilities->max_allocation = ICL_OPENCL_MAX_ELEMENTS * sizeof(cl_float);
    capabilities->has_fp64 = fp64 != 0;
    capabilities->unified_memory = unified == CL_TRUE;
    return ICL_OK;
}

/* ---- The list ---- */

typedef struct device_list {
    icl_opencl_device *devices;
    size_t count;
} device_list;

/* Lists the platform's devices; *count = 0 and NULL if it has none. */
static icl_status platform_devices(cl_platform_id platform, cl_device_id **devices, cl_uint *count, icl_error *error) {
    cl_int code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, NULL, count);

    *devices = NULL;
    if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && *count == 0)) {
        *count = 0;
        return ICL_OK;
    }
    if (code != CL_SUCCESS)
        return icl_cl_fail(NULL, code, "clGetDeviceIDs", error);
    ICL_CHECK(icl_allocate(*count, sizeof(cl_device_id), "list of OpenCL devices", devices, error));
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, *count, *devices, NULL);
    if (code != CL_SUCCESS) {
        icl_free(devices);
        return icl_cl_fail(NULL, code, "clGetDeviceIDs", error);
    }
    return ICL_OK;
}

static icl_status append_device(device_list *list, const icl_opencl_device *device, icl_error *error) {
    icl_opencl_device *longer = NULL;
    const icl_status status = icl_allocate(list->count + 1, sizeof *longer, "list of devices", &longer, error);
    if (status != ICL_OK)
        return status;
    if (list->count > 0)
        memcpy(longer, list->devices, list->count * sizeof *longer);
    longer[list->count++] = *device;
    icl_free(&list->devices);
    list->devices = longer;
    return ICL_OK;
}

/* Appends a platform's devices. A device or platform that fails is logged and skipped; only a lack of memory stops the
 * search. */
static icl_status append_platform(const icl_log *log, cl_platform_id platform, cl_uint index, device_list *list,
                                  icl_error *error) {
    icl_status status = ICL_OK;
    icl_error why = {0};
    cl_device_id *ids = NULL;
    cl_uint count = 0;

    status = platform_devices(platform, &ids, &count, &why);
    if (status == ICL_ERROR_MEMORY)
        return icl_fail(error, status, "%s", why.message);
    if (status != ICL_OK) {
        icl_log_write(log, ICL_LOG_WARNING, "OpenCL platform %u is skipped: %s", index, why.message);
        return ICL_OK;
    }
    if (count == 0)
        icl_log_write(log, ICL_LOG_DEBUG, "OpenCL platform %u has no device", index);
    for (cl_uint i = 0; ids && i < count; i++) {
        icl_opencl_device device = {.handle = ids[i]};
        if (describe(platform, ids[i], &device.capabilities, &why) != ICL_OK) {
            icl_log_write(log, ICL_LOG_WARNING, "OpenCL device %u.%u is skipped: %s", index, i, why.message);
            continue;
        }
        snprintf(device.capabilities.spec, sizeof device.capabilities.spec, "opencl:%u.%u", index, i);
        ICL_TRY(append_device(list, &device, error));
    }
done:
    icl_free(&ids);
    return status;
}

/* PoCL keeps what it compiles below the home folder; without a place for it, it says that it has no devices. */
static void say_home(const icl_log *log) {
    const char *home = getenv("HOME");

    if (!getenv("POCL_CACHE_DIR") && !getenv("XDG_CACHE_HOME") && (!home || access(home, W_OK) != 0))
        icl_log_write(log, ICL_LOG_WARNING,
                      "OpenCL has no device, and the home %s cannot be written, where PoCL keeps what it compiles: "
                      "POCL_CACHE_DIR=DIR names another folder",
                      home ? home : "folder");
}

icl_status icl_opencl_list(const icl_log *log, icl_opencl_device **devices, size_t *count, icl_error *error) {
    icl_status status = ICL_OK;
    device_list list = {0};
    cl_platform_id *platforms = NULL;
    cl_uint platform_count = 0;

    *devices = NULL;
    *count = 0;
    errno = 0;
    const cl_int code = clGetPlatformIDs(0, NULL, &platform_count);
    if (code == NO_PLATFORM && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
        return icl_fail(error, errno == ENOMEM ? ICL_ERROR_MEMORY : ICL_ERROR_IO,
                        "the drivers of OpenCL cannot be opened: %s", strerror(errno));
    if (code == NO_PLATFORM || (code == CL_SUCCESS && platform_count == 0)) {
        icl_log_write(log, ICL_LOG_INFO, "no OpenCL driver is installed; the host backends serve");
        return ICL_OK;
    }
    if (code != CL_SUCCESS) {
        icl_log_write(log, ICL_LOG_WARNING, "OpenCL is not usable: clGetPlatformIDs: %s (%d)", icl_cl_error_name(code),
                      code);
        return ICL_OK;
    }
    ICL_TRY(icl_allocate(platform_count, sizeof(cl_platform_id), "list of OpenCL platforms", &platforms, error));
    ICL_CL_TRY(NULL, "clGetPlatformIDs", clGetPlatformIDs(platform_count, platforms, NULL));
    for (cl_uint i = 0; i < platform_count; i++)
        ICL_TRY(append_platform(log, platforms[i], i, &list, error));
    if (list.count == 0) {
        say_home(log);
        icl_log_write(log, ICL_LOG_INFO, "OpenCL: %u platforms, no usable device", platform_count);
    }
    *devices = list.devices;
    *count = list.count;
    list.devices = NULL;
done:
    icl_free(&list.devices);
    icl_free(&platforms);
    return status;
}
