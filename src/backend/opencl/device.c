/* The names of OpenCL's errors. */
#include "backend/opencl/device.h"
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
