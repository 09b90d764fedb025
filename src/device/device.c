/* Devices: listing them and opening one by its text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/contract.h"
#include "core/allocate.h"
#include "device/choose.h"
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

static icl_status open_by_spec(const icl_backend_params *params, icl_backend **backend, icl_error *error) {
    icl_host_spec host;

    if (strcmp(params->spec, "auto") == 0)
        return icl_open_auto(params, backend, error);
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
    }
    return status;
}

/* ---- Listing ---- */

/* Opens the device for its self-test and notes the outcome. */
static void describe(icl_device *device, const icl_opencl_device *opencl, const char *host_spec) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    const icl_backend_params params = {.spec = host_spec};
    icl_status status =
        opencl ? icl_opencl_open(&params, opencl, &backend, &error) : icl_backend_open(&params, &backend, &error);

    if (opencl && status == ICL_OK)
        status = icl_opencl_test(backend, &error);

    device->usable = status == ICL_OK;
    if (backend)
        device->capabilities = backend->capabilities;
    else if (opencl)
        device->capabilities = opencl->capabilities;
    /* One line: a compiler's log may follow it. */
    snprintf(device->verdict, sizeof device->verdict, "%.*s", (int)strcspn(error.message, "\n"), error.message);
    if (status == ICL_OK)
        snprintf(device->verdict, sizeof device->verdict, "%s", opencl ? "self-test passed" : "always works");
    icl_backend_close(&backend);
}

icl_status icl_devices_list(const icl_log *log, icl_device **devices, size_t *count, icl_error *error) {
    icl_opencl_device *opencl = NULL;
    icl_device *list = NULL;
    size_t opencl_count = 0;
    icl_status status = ICL_OK;

    *devices = NULL;
    *count = 0;
    ICL_TRY(icl_opencl_list(log, &opencl, &opencl_count, error));
    ICL_TRY(icl_allocate(2 + opencl_count, sizeof *list, "device list", &list, error));
    describe(&list[0], NULL, "cpu");
    describe(&list[1], NULL, "ref");
    for (size_t i = 0; i < opencl_count; i++)
        describe(&list[2 + i], &opencl[i], NULL);
    *devices = list;
    *count = 2 + opencl_count;
done:
    free(opencl);
    return status;
}

void icl_devices_free(icl_device **devices) {
    icl_free(devices);
}
