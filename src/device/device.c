/* Devices: listing them and opening one by its text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/contract.h"
#include "core/allocate.h"
#include "device/choose.h"
#include "device/trial.h"
#include "iclab/backend.h"
#include "iclab/nearest.h"
#include "iclab/status.h"

/* ---- Opening ---- */

static icl_status reject_spec(const char *spec, icl_error *error) {
    static const char *const names[] = {"auto", "cpu", "ref", "opencl"};
    char stem[32];
    const char *nearest;

    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(spec, ":"), spec);
    nearest = icl_nearest(stem, names, sizeof names / sizeof *names);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "device \"%s\": expected auto, cpu, cpu:threads=N, cpu:isa=SET (base, avx2 or avx512), "
                    "ref, opencl, opencl:P.D or opencl:TEXT; the nearest is %s",
                    spec, nearest);
}

/* "auto" after a trial apart. What opened there and does not here gives way to the host. */
static icl_status open_tried(const icl_backend_params *params, icl_backend **backend, icl_error *error) {
    char chosen[ICL_NAME_CAPACITY];
    icl_error why = {0};

    ICL_CHECK(icl_trial_choose(params, chosen, error));
    if (strncmp(chosen, "opencl:", 7) == 0 && icl_open_exactly(params, chosen, backend, &why) == ICL_OK)
        return ICL_OK;
    if (why.message[0])
        icl_log_write(&params->log, ICL_LOG_WARNING, "auto: chose cpu, because %s failed: %s", chosen, why.message);
    return icl_cpu_open(params, &(icl_host_spec){0}, backend, error);
}

static icl_status open_by_spec(const icl_backend_params *params, icl_backend **backend, icl_error *error) {
    icl_host_spec host;

    if (strcmp(params->spec, "auto") == 0)
        return params->trial_seconds > 0 ? open_tried(params, backend, error)
                                         : icl_open_auto(params, NULL, backend, error);
    if (icl_host_spec_read(params->spec, "cpu", &host))
        return icl_cpu_open(params, &host, backend, error);
    if (icl_host_spec_read(params->spec, "ref", &host))
        return icl_ref_open(params, &host, backend, error);
    if (strcmp(params->spec, "opencl") == 0)
        return icl_open_opencl(params, "", backend, error);
    if (strncmp(params->spec, "opencl:", 7) == 0 && params->spec[7])
        return icl_open_opencl(params, params->spec + 7, backend, error);
    return reject_spec(params->spec, error);
}

icl_status icl_backend_open(const icl_backend_params *given, icl_backend **backend, icl_error *error) {
    icl_backend_params params = given ? *given : (icl_backend_params){0};
    icl_status status;

    *backend = NULL;
    if (!params.spec || !*params.spec)
        params.spec = "auto";
    if ((unsigned)params.gemm > ICL_GEMM_NATIVE)
        return icl_fail(error, ICL_ERROR_INPUT, "backend: unknown gemm %d", (int)params.gemm);
    status = open_by_spec(&params, backend, error);
    if (*backend) {
        (*backend)->capabilities.gemm = params.gemm;
        (*backend)->capabilities.fast_math = params.fast_math;
        icl_backend_forget_peak(*backend); /* what its tests and a short step took does not count */
    }
    return status;
}

/* ---- Listing ---- */

/* Notes the outcome of opening a device and of its tests, and closes it. */
static void note(icl_device *device, icl_status status, const char *passed, const icl_error *error,
                 icl_backend **backend) {
    device->usable = status == ICL_OK;
    if (*backend)
        device->capabilities = (*backend)->capabilities;
    /* One line: a compiler's log may follow it. */
    snprintf(device->verdict, sizeof device->verdict, "%.*s", (int)strcspn(error->message, "\n"), error->message);
    if (status == ICL_OK)
        snprintf(device->verdict, sizeof device->verdict, "%s", passed);
    icl_backend_close(backend);
}

static void test_host(const char *spec, icl_device *device) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    const icl_status status = icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error);

    note(device, status, "always works", &error, &backend);
}

void icl_device_test(const icl_opencl_device *opencl, icl_device *device) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    icl_status status = icl_opencl_open(&(icl_backend_params){0}, opencl, &backend, &error);

    if (status == ICL_OK)
        status = icl_opencl_test(backend, &error);
    device->capabilities = opencl->capabilities;
    note(device, status, "self-test passed", &error, &backend);
}

/* Here, whatever a driver does. */
static icl_status test_here(const icl_log *log, icl_device **devices, size_t *count, icl_error *error) {
    icl_opencl_device *found = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_opencl_list(log, &found, count, error));
    ICL_TRY(icl_allocate(*count + 1, sizeof **devices, "device list", devices, error));
    for (size_t i = 0; i < *count; i++)
        icl_device_test(&found[i], &(*devices)[i]);
done:
    free(found);
    return status;
}

static icl_status list(const icl_log *log, double seconds, icl_device **devices, size_t *count, icl_error *error) {
    icl_device *all = NULL, *opencl = NULL;
    size_t opencl_count = 0;
    icl_status status = ICL_OK;

    *devices = NULL;
    *count = 0;
    /* First, while this process has used neither OpenCL nor the threads of the host. */
    ICL_TRY(seconds > 0 ? icl_trial_list(log, seconds, &opencl, &opencl_count, error)
                        : test_here(log, &opencl, &opencl_count, error));
    ICL_TRY(icl_allocate(2 + opencl_count, sizeof *all, "device list", &all, error));
    test_host("cpu", &all[0]);
    test_host("ref", &all[1]);
    if (opencl_count > 0)
        memcpy(all + 2, opencl, opencl_count * sizeof *all);
    *devices = all;
    *count = 2 + opencl_count;
done:
    icl_free(&opencl);
    return status;
}

icl_status icl_devices_list(const icl_log *log, icl_device **devices, size_t *count, icl_error *error) {
    return list(log, 0, devices, count, error);
}

icl_status icl_devices_list_apart(const icl_log *log, double seconds, icl_device **devices, size_t *count,
                                  icl_error *error) {
    if (!(seconds > 0))
        return icl_fail(error, ICL_ERROR_INPUT, "devices: a trial of %g seconds: expected more than 0", seconds);
    return list(log, seconds, devices, count, error);
}

void icl_devices_free(icl_device **devices) {
    icl_free(devices);
}
