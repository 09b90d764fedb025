/* The names of OpenCL's errors, and the table of choices that only times decide with the variable that overrides it. */
#include <stdlib.h>
#include <string.h>

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

/* ---- Choices ---- */

static const struct {
    const char *text; /* part of the name of the device or platform; "": any */
    icl_opencl_choice choice;
    size_t least; /* the row applies from this size on */
    unsigned value;
} rows[] = {
    /* A straight-line program takes seconds to compile, which pays for training and not for a few launches. */
    {"", ICL_CHOICE_LINEAR, 8, ICL_LINEAR_STRAIGHT},
    {"", ICL_CHOICE_LINEAR, 0, ICL_LINEAR_STEPS},
    /* A single chunk saves no barrier, and its products are extra work. */
    {"", ICL_CHOICE_RECURRENCE, 17, ICL_WALK_BY_CHUNKS},
    {"", ICL_CHOICE_RECURRENCE, 0, ICL_WALK_BY_TOKENS},
    /* CLBlast's strength is large square products. */
    {"", ICL_CHOICE_GEMM, 128, ICL_GEMM_CLBLAST},
    {"", ICL_CHOICE_GEMM, 0, ICL_GEMM_NATIVE},
    {"", ICL_CHOICE_CLBLAST, 0, ICL_CLBLAST_DEFAULT},
    /* Wide tiles pay off once there are as many of them as a large GPU has units. */
    {"", ICL_CHOICE_TILES, 128, ICL_TILES_WIDE},
    {"", ICL_CHOICE_TILES, 0, ICL_TILES_NARROW},
    /* This many keep the queue of each unit full. */
    {"", ICL_CHOICE_TEAMS, 0, 32},
    /* The compiler of Mesa's llvmpipe crashes on a kernel that chooses among buffers. */
    {"llvmpipe", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_OFF},
    {"", ICL_CHOICE_COLLECT, 0, ICL_COLLECT_ON},
};

unsigned icl_choice_by_table(icl_opencl_choice choice, size_t size, const char *device, const char *platform) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].choice == choice && size >= rows[i].least &&
            (strstr(device, rows[i].text) || strstr(platform, rows[i].text)))
            return rows[i].value;
    return ICL_BY_TABLE; /* not reached: the last row of every choice fits all devices and sizes */
}

/* ---- The variable ---- */

#define MOST_TEAMS 256

/* The names of a choice's values, from 1 on; without names the values are the numbers up to MOST_TEAMS. */
static const struct {
    const char *name, *values[2], *expected;
} words[ICL_CHOICE_COUNT] = {
    [ICL_CHOICE_LINEAR] = {"linear", {"steps", "straight"}, "steps or straight"},
    [ICL_CHOICE_RECURRENCE] = {"recurrence", {"tokens", "chunks"}, "tokens or chunks"},
    [ICL_CHOICE_GEMM] = {"gemm",
                         {[ICL_GEMM_CLBLAST - 1] = "clblast", [ICL_GEMM_NATIVE - 1] = "native"},
                         "native or clblast"},
    [ICL_CHOICE_CLBLAST] = {"clblast", {"default", "a100"}, "default or a100"},
    [ICL_CHOICE_TILES] = {"tiles", {"narrow", "wide"}, "narrow or wide"},
    [ICL_CHOICE_TEAMS] = {"teams", {NULL}, "a whole number from 1 to 256"},
    [ICL_CHOICE_COLLECT] = {"collect", {"on", "off"}, "on or off"},
};

static bool is_text(const char *bytes, size_t length, const char *text) {
    return strlen(text) == length && memcmp(bytes, text, length) == 0;
}

/* Returns the value of that name, or 0 if there is none. */
static unsigned value_of(icl_opencl_choice choice, const char *bytes, size_t length) {
    unsigned number = 0;

    if (words[choice].values[0]) {
        for (unsigned i = 0; i < 2; i++)
            if (is_text(bytes, length, words[choice].values[i]))
                return i + 1;
        return 0;
    }
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] < '0' || bytes[i] > '9' || number > MOST_TEAMS)
            return 0;
        number = 10 * number + (unsigned)(bytes[i] - '0');
    }
    return number <= MOST_TEAMS ? number : 0;
}

icl_status icl_choices_read(const char *text, unsigned *chosen, icl_error *error) {
    for (;;) {
        const size_t length = strcspn(text, ","), name = strcspn(text, "=,");
        const size_t before = name < length ? name + 1 : length; /* the value */
        size_t choice = 0;

        while (choice < ICL_CHOICE_COUNT && !is_text(text, name, words[choice].name))
            choice++;
        if (choice == ICL_CHOICE_COUNT)
            return icl_fail(error, ICL_ERROR_INPUT,
                            ICL_CHOICES_VARIABLE ": '%.*s': expected linear, recurrence, gemm, clblast, tiles, teams "
                                                 "or collect, and = and a value",
                            (int)length, text);
        chosen[choice] = value_of((icl_opencl_choice)choice, text + before, length - before);
        if (chosen[choice] == 0)
            return icl_fail(error, ICL_ERROR_INPUT, ICL_CHOICES_VARIABLE ": '%.*s': expected %s= and %s", (int)length,
                            text, words[choice].name, words[choice].expected);
        if (!text[length])
            return ICL_OK;
        text += length + 1;
    }
}
