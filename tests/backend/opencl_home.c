/* Why a platform has no device: PoCL reports nothing if it finds no place for the programs that it compiles; iclab then
 * names the home folder that cannot be written, and otherwise does not suspect it. The linker plants a platform without
 * devices. */
#include <stdlib.h>

#include "backend/opencl/device.h"
#include "core/allocate.h"
#include "tap.h"

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
cl_int __wrap_clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *count);
cl_int __wrap_clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, void *value, size_t *size);
cl_int __wrap_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices,
                             cl_uint *count);

cl_int __wrap_clGetPlatformIDs(cl_uint room, cl_platform_id *platforms, cl_uint *count) {
    if (room > 0)
        platforms[0] = NULL; /* none of the calls below uses it */
    if (count)
        *count = 1;
    return CL_SUCCESS;
}

cl_int __wrap_clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, void *value,
                                size_t *size) {
    (void)platform;
    (void)what;
    (void)size;
    if (room > 0)
        memset(value, 0, 1);
    return CL_SUCCESS;
}

cl_int __wrap_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *devices,
                             cl_uint *count) {
    (void)platform;
    (void)type;
    (void)room;
    (void)devices;
    if (count)
        *count = 0;
    return CL_DEVICE_NOT_FOUND;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static char warning[512];

static void listen(void *user, icl_log_level level, const char *message) {
    (void)user;
    if (level == ICL_LOG_WARNING)
        snprintf(warning, sizeof warning, "%s", message);
}

static void set(const char *name, const char *value) {
    if (value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

static const struct {
    const char *pocl, *xdg, *home; /* NULL: not set */
    const char *warning;           /* how it begins; "": there is none */
} cases[] = {
    {NULL, NULL, "/proc/nowhere", "OpenCL has no device, and the home /proc/nowhere cannot be written"},
    {NULL, NULL, NULL, "OpenCL has no device, and the home folder cannot be written"},
    {NULL, NULL, ".", ""},
    {"/proc/nowhere", NULL, "/proc/nowhere", ""},
    {NULL, "/proc/nowhere", "/proc/nowhere", ""},
};

int main(void) {
    const icl_log log = {listen, NULL, ICL_LOG_WARNING};
    tap_run tap = {0};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        icl_opencl_device *devices = NULL;
        size_t count = 1;
        icl_error error = {0};

        set("POCL_CACHE_DIR", cases[i].pocl);
        set("XDG_CACHE_HOME", cases[i].xdg);
        set("HOME", cases[i].home);
        warning[0] = '\0';
        tap_status(&tap, icl_opencl_list(&log, &devices, &count, &error), &error, "a platform without devices");
        tap_ok(&tap,
               count == 0 && strncmp(warning, cases[i].warning, strlen(cases[i].warning)) == 0 &&
                   (cases[i].warning[0] != '\0') == (warning[0] != '\0'),
               "home %s: \"%.60s\"", cases[i].home ? cases[i].home : "unknown", warning);
        icl_free(&devices);
    }
    return tap_done(&tap);
}
