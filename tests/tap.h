/* The test harness: TAP (testanything.org) on stdout, diagnostics as comments, exit 1 when a check failed. */
#ifndef ICLAB_TESTS_TAP_H
#define ICLAB_TESTS_TAP_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iclab/backend.h"

typedef struct tap_run {
    int count, failed;
} tap_run;

/* Reports one check. The format names it; use tap_note before or after to print what was seen. Returns `passed`. */
ICL_PRINTF(3, 4) static inline bool tap_ok(tap_run *tap, bool passed, const char *format, ...) {
    va_list arguments;
    tap->count++;
    tap->failed += !passed;
    printf("%sok %d - ", passed ? "" : "not ", tap->count);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
    return passed;
}

ICL_PRINTF(1, 2) static inline void tap_note(const char *format, ...) {
    va_list arguments;
    printf("# ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
    fflush(stdout);
}

/* Checks that a status is ICL_OK; prints the error's message if it is not. */
static inline bool tap_status(tap_run *tap, icl_status status, const icl_error *error, const char *what) {
    if (status != ICL_OK)
        tap_note("%s: %s", icl_status_name(status), error->message);
    return tap_ok(tap, status == ICL_OK, "%s", what);
}

/* Returns the error for calls that the rest of a test depends on. */
static inline icl_error *tap_error(void) {
    static icl_error error;
    return &error;
}

/* Ends the test with the message in tap_error() if such a call failed. */
static inline void tap_need(icl_status status) {
    if (status == ICL_OK)
        return;
    printf("Bail out! %s: %s\n", icl_status_name(status), tap_error()->message);
    exit(EXIT_FAILURE);
}

/* Reports a check that could not run here, with the reason. */
static inline void tap_skip(tap_run *tap, const char *what, const char *reason) {
    tap->count++;
    printf("ok %d - %s # SKIP %s\n", tap->count, what, reason);
    fflush(stdout);
}

/* Prints the plan and returns the process's exit code. */
static inline int tap_done(const tap_run *tap) {
    printf("1..%d\n", tap->count);
    if (tap->failed)
        tap_note("%d of %d checks failed", tap->failed, tap->count);
    return tap->failed != 0;
}

static inline void tap_log(void *user, icl_log_level level, const char *message) {
    (void)user;
    (void)level;
    tap_note("%s", message);
}

/* Returns the device that a test is to use. ICLAB_TEST_OPENCL sends the tests that ask for an OpenCL device to another
 * driver than the one they are registered with; the test setups rusticl and oclgrind set it. */
static inline const char *tap_device_spec(const char *spec) {
    const char *other = getenv("ICLAB_TEST_OPENCL");
    return strncmp(spec, "opencl", 6) == 0 && other && *other ? other : spec;
}

/* Opens the device that a test was given, or reports SKIP (the device is not on this machine) and returns NULL. A
 * device that is here but does not open fails the test. */
static inline icl_backend *tap_open_device_at(tap_run *tap, const char *spec, icl_precision precision) {
    icl_backend *backend = NULL;
    icl_device *devices = NULL;
    size_t count = 0;
    bool any_opencl = false;
    icl_error error = {0};
    const icl_log log = {tap_log, NULL, ICL_LOG_WARNING};

    spec = tap_device_spec(spec);
    if (icl_backend_open(&(icl_backend_params){.spec = spec, .precision = precision, .log = log}, &backend, &error) ==
        ICL_OK) {
        const icl_capabilities *device = icl_backend_capabilities(backend);
        tap_note("device %s: %s, %s", device->spec, device->name, device->platform);
        return backend;
    }
    if (strncmp(spec, "opencl", 6) == 0 && icl_devices_list(NULL, &devices, &count, NULL) == ICL_OK) {
        for (size_t i = 0; i < count; i++)
            any_opencl = any_opencl || devices[i].capabilities.kind != ICL_DEVICE_HOST;
        icl_devices_free(&devices);
        if (!any_opencl) {
            tap_skip(tap, spec, "no OpenCL device on this machine");
            return NULL;
        }
    }
    tap_note("%s", error.message);
    tap_ok(tap, false, "open %s", spec);
    return NULL;
}

static inline icl_backend *tap_open_device(tap_run *tap, const char *spec) {
    return tap_open_device_at(tap, spec, ICL_PRECISION_FULL);
}

/* Opens the device that a test was given, and `ref` to compare with: the same handle if the device itself computes in
 * double precision. Returns false after a failure or a SKIP, with nothing open. */
static inline bool tap_open_device_and_ref(tap_run *tap, const char *spec, icl_backend **device, icl_backend **ref) {
    icl_error error = {0};

    *device = tap_open_device(tap, spec);
    *ref = *device;
    if (!*device)
        return false;
    if (icl_backend_capabilities(*device)->element_size == sizeof(double) ||
        tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = "ref"}, ref, &error), &error, "open ref"))
        return true;
    icl_backend_close(device);
    return false;
}

static inline void tap_close_device_and_ref(icl_backend **device, icl_backend **ref) {
    if (*ref != *device)
        icl_backend_close(ref);
    *ref = NULL;
    icl_backend_close(device);
}

#endif
