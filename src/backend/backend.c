/* Devices: listing them, choosing one, opening and closing it. */
#include "iclab/backend.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/contract.h"
#include "core/allocate.h"
#include "core/nearest.h"
#include "core/status.h"

const char *icl_device_kind_name(icl_device_kind kind) {
    static const char *const names[] = {"host", "cpu", "gpu", "accelerator"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

const icl_capabilities *icl_backend_capabilities(const icl_backend *backend) {
    return &backend->capabilities;
}

icl_backend_statistics icl_backend_get_statistics(const icl_backend *backend) {
    return backend->statistics;
}

icl_status icl_backend_sync(icl_backend *backend, icl_error *error) {
    return backend->functions->sync(backend, error);
}

void icl_backend_close(icl_backend **backend) {
    if (*backend) {
        icl_backend_close(&(*backend)->host);
        (*backend)->functions->close(*backend);
        icl_free(backend);
    }
}

/* ---- Choosing an OpenCL device ---- */

static bool contains_ignoring_case(const char *text, const char *part) {
    for (; *text; text++) {
        size_t i = 0;
        while (part[i] && text[i] && tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
            i++;
        if (!part[i])
            return true;
    }
    return !*part;
}

/* Whether "opencl:WANTED" means this device: its indices, or part of its platform, driver or name. */
static bool matches(const icl_capabilities *device, const char *wanted) {
    const char *indices = strchr(device->spec, ':');
    if (wanted[strspn(wanted, "0123456789.")] == '\0' && *wanted)
        return indices && strcmp(indices + 1, wanted) == 0;
    return contains_ignoring_case(device->platform, wanted) || contains_ignoring_case(device->name, wanted);
}

/* Larger is better: GPUs before accelerators before CPUs, then by compute units. */
static size_t rank_of(const icl_capabilities *device) {
    const size_t by_kind = device->kind == ICL_DEVICE_GPU           ? 2
                           : device->kind == ICL_DEVICE_ACCELERATOR ? 1
                                                                    : 0;
    return (by_kind << 32) + device->compute_units;
}

static int best_first(const void *left, const void *right) {
    const icl_opencl_device *a = left, *b = right;
    const size_t rank_a = rank_of(&a->capabilities), rank_b = rank_of(&b->capabilities);
    return rank_a != rank_b ? (rank_a < rank_b ? 1 : -1) : strcmp(a->capabilities.spec, b->capabilities.spec);
}

/* Opens the best device that matches and passes its self-test; a device that fails is logged and the next one tried. *backend stays
 * NULL, with ICL_OK, when none matches. */
static icl_status open_best(const icl_backend_params *params, const char *wanted, bool gpu_only,
                            icl_backend **backend, icl_error *error) {
    icl_opencl_device *devices = NULL;
    size_t count = 0, tried = 0;
    icl_status status = icl_opencl_list(&params->log, &devices, &count, error);

    if (status != ICL_OK)
        return status;
    if (count > 0)
        qsort(devices, count, sizeof *devices, best_first);
    for (size_t i = 0; i < count && !*backend; i++) {
        const icl_capabilities *device = &devices[i].capabilities;
        icl_error why = {0};
        if (!matches(device, wanted) || (gpu_only && device->kind != ICL_DEVICE_GPU))
            continue;
        tried++;
        status = icl_opencl_open(params, &devices[i], backend, &why);
        if (status != ICL_OK) {
            icl_log_write(&params->log, ICL_LOG_WARNING, "%s (%s) refused: %s", device->spec, device->name,
                          why.message);
            icl_fail(error, status, "%s (%s) refused: %s", device->spec, device->name, why.message);
        }
    }
    free(devices);
    return *backend || tried == 0 ? ICL_OK : status;
}

/* One line that says what "opencl:WANTED" could have meant. */
static icl_status no_such_device(const icl_backend_params *params, icl_error *error) {
    icl_opencl_device *devices = NULL;
    char known[1024] = "";
    size_t count = 0, used = 0;

    if (icl_opencl_list(NULL, &devices, &count, NULL) != ICL_OK)
        count = 0;
    for (size_t i = 0; i < count && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s (%s)", i ? ", " : "",
                                 devices[i].capabilities.spec, devices[i].capabilities.name);
    free(devices);
    if (count == 0)
        return icl_fail(error, ICL_ERROR_DEVICE,
                        "device %s: no OpenCL device on this machine; \"cpu\" always works", params->spec);
    return icl_fail(error, ICL_ERROR_DEVICE, "device %s: no such device; here are: cpu, ref, %s",
                    params->spec, known);
}

static icl_status open_opencl(const icl_backend_params *params, const char *wanted, icl_backend **backend,
                              icl_error *error) {
    icl_status status = open_best(params, wanted, false, backend, error);
    if (status == ICL_OK && !*backend)
        status = no_such_device(params, error);
    return status;
}

static icl_status open_auto(const icl_backend_params *params, icl_backend **backend, icl_error *error) {
    icl_error why = {0};

    /* A GPU that is refused has been logged with its reason, and must not stop the CPU from being used. */
    if (open_best(params, "", true, backend, &why) == ICL_OK && *backend) {
        icl_log_write(&params->log, ICL_LOG_INFO,
                      "auto: chose %s (%s), the best GPU that passed its self-test",
                      (*backend)->capabilities.spec, (*backend)->capabilities.name);
        return ICL_OK;
    }
    icl_log_write(&params->log, ICL_LOG_INFO, "auto: chose cpu, because %s",
                  why.message[0] ? "no OpenCL GPU passed its self-test" : "there is no OpenCL GPU");
    return icl_cpu_open(params, &(icl_host_spec){0}, backend, error);
}

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

icl_status icl_backend_open(const icl_backend_params *given, icl_backend **backend, icl_error *error) {
    icl_backend_params params = given ? *given : (icl_backend_params){0};
    icl_host_spec host;

    *backend = NULL;
    if (!params.spec || !*params.spec)
        params.spec = "auto";
    if ((unsigned)params.gemm > ICL_GEMM_NATIVE)
        return icl_fail(error, ICL_ERROR_INPUT, "backend: unknown gemm %d", (int)params.gemm);
    if (strcmp(params.spec, "auto") == 0)
        return open_auto(&params, backend, error);
    if (icl_host_spec_read(params.spec, "cpu", &host))
        return icl_cpu_open(&params, &host, backend, error);
    if (icl_host_spec_read(params.spec, "ref", &host))
        return icl_ref_open(&params, &host, backend, error);
    if (strcmp(params.spec, "opencl") == 0)
        return open_opencl(&params, "", backend, error);
    if (strncmp(params.spec, "opencl:", 7) == 0 && params.spec[7])
        return open_opencl(&params, params.spec + 7, backend, error);
    return reject_spec(params.spec, error);
}

/* ---- Listing ---- */

/* Opens the device for its self-test and notes the outcome. */
static void describe(icl_device *device, const icl_opencl_device *opencl, const char *host_spec) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    const icl_backend_params params = {.spec = host_spec};
    icl_status status = opencl ? icl_opencl_open(&params, opencl, &backend, &error)
                               : icl_backend_open(&params, &backend, &error);

    if (opencl && status == ICL_OK)
        status = icl_opencl_test(backend, &error);

    device->usable = status == ICL_OK;
    if (backend)
        device->capabilities = backend->capabilities;
    else if (opencl)
        device->capabilities = opencl->capabilities;
    /* One line: a compiler's log may follow it. */
    snprintf(device->verdict, sizeof device->verdict, "%.*s", (int)strcspn(error.message, "\n"),
             error.message);
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
