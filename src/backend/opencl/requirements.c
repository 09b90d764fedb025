/* What a device must offer before anything runs on it. Each refusal is one line: the device, what was
 * found, and what is needed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/device.h"

/* Most local memory that a kernel of the GPU family declares, rounded up. OpenCL 1.2 promises twice as much
 * in a full profile. */
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

/* "1.2" or more, with anything behind it. */
static bool is_recent(const char *text) {
    char *end = NULL;
    const unsigned long major = strtoul(text, &end, 10);

    if (end == text || *end != '.' || end[1] < '0' || end[1] > '9')
        return false;
    return major > 1 || (major == 1 && strtoul(end + 1, NULL, 10) >= 2);
}

/* The texts are "OpenCL 1.2 ..." and "OpenCL C 1.2 ..." by the standard. */
static icl_status require_version(const icl_opencl *opencl, cl_device_info what, const char *prefix, icl_error *error) {
    char text[512], found[160], needed[64];
    const size_t length = strlen(prefix);

    ICL_CHECK(device_text(opencl, what, text, sizeof text, error));
    if (strncmp(text, prefix, length) == 0 && is_recent(text + length))
        return ICL_OK;
    snprintf(found, sizeof found, "gives \"%.80s\" as its version", text);
    snprintf(needed, sizeof needed, "\"%s1.2\" or later", prefix);
    return refuse(opencl, found, needed, error);
    return ICL_OK;
}

/* The bounds of ops follow from the accuracy that a full profile promises. An embedded one may round differently, and
 * has no infinities. */
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

icl_status icl_opencl_require(const icl_opencl *opencl, bool accept_less_exact, icl_error *error) {
    ICL_CHECK(require_flags(opencl, error));
    ICL_CHECK(require_version(opencl, CL_DEVICE_VERSION, "OpenCL ", error));
    ICL_CHECK(require_version(opencl, CL_DEVICE_OPENCL_C_VERSION, "OpenCL C ", error));
    ICL_CHECK(require_sizes(opencl, error));
    return require_full_profile(opencl, accept_less_exact, error);
}
