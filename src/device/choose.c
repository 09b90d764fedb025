/*
 * Which device: a short step of each candidate is measured, because what drivers say of their devices does not compare
 * them. Intel counts execution units, NVIDIA multiprocessors, and an integrated GPU may be slower
 * than the processor beside it.
 */
#include "device/choose.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/contract.h"
#include "core/allocate.h"
#include "core/cache.h"
#include "device/contest.h"
#include "device/short_step.h"
#include "device/trial.h"
#include "iclab/status.h"

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

/* ---- Candidates ---- */

#define IDENTITY_CAPACITY (4 * ICL_NAME_CAPACITY + 64)

/* A device, or the host, which has no `device`. */
typedef struct candidate {
    const icl_opencl_device *device;
    char name[2 * ICL_NAME_CAPACITY + 4], identity[IDENTITY_CAPACITY];
    icl_backend *backend; /* while it is open */
} candidate;

typedef struct candidates {
    const icl_backend_params *params;
    icl_apart *trial; /* NULL: not in a process apart */
    candidate *list;
    size_t count;
} candidates;

static void describe(const icl_capabilities *device, const icl_backend_params *params, candidate *c) {
    snprintf(c->identity, sizeof c->identity, "%s | %s | %s | %s | %zu units of %zu, gemm %d, fast math %d",
             device->spec, device->name, device->platform, device->driver, device->compute_units, device->vector_width,
             (int)params->gemm, (int)params->fast_math);
    if (c->device)
        snprintf(c->name, sizeof c->name, "%s (%s)", device->spec, device->name);
    else
        snprintf(c->name, sizeof c->name, "%s", device->spec);
}

static icl_status open_candidate(const candidates *all, candidate *c, icl_error *error) {
    if (c->backend)
        return ICL_OK;
    icl_trial_at(all->trial, c->name);
    return c->device ? icl_opencl_open(all->params, c->device, &c->backend, error)
                     : icl_cpu_open(all->params, &(icl_host_spec){0}, &c->backend, error);
}

/* The same where no other one is left to take its place; the log and the error name the device. */
static icl_status open_or_refuse(const candidates *all, candidate *c, icl_error *error) {
    icl_error why = {0};
    const icl_status status = open_candidate(all, c, &why);

    if (status == ICL_OK)
        return ICL_OK;
    icl_log_write(&all->params->log, ICL_LOG_WARNING, "%s refused: %s", c->name, why.message);
    return icl_fail(error, status, "%s refused: %s", c->name, why.message);
}

static icl_status measure(void *context, size_t i, double *seconds, icl_error *error) {
    const candidates *all = context;
    icl_status status = ICL_OK;

    ICL_TRY(open_candidate(all, &all->list[i], error));
    ICL_TRY(icl_time_short_step(all->list[i].backend, seconds, error));
done:
    if (status != ICL_OK)
        icl_backend_close(&all->list[i].backend);
    return status;
}

static void today(char date[16]) {
    const time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || strftime(date, 16, "%Y-%m-%d", &parts) == 0)
        snprintf(date, 16, "an unknown day");
}

/* Opens the fastest, and closes the others. */
static icl_status open_fastest(const char *title, candidates *all, icl_backend **backend, icl_error *error) {
    icl_contestant *contestants = NULL;
    char *folder = NULL, date[16];
    size_t fastest = 0;
    bool remembered = false;
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(all->count, sizeof *contestants, "candidates", &contestants, error));
    for (size_t i = 0; i < all->count; i++)
        contestants[i] = (icl_contestant){all->list[i].name, all->list[i].identity};
    if (icl_cache_folder(&folder, NULL) != ICL_OK)
        folder = NULL;
    today(date);
    const icl_contest contest = {.title = title,
                                 .contestants = contestants,
                                 .count = all->count,
                                 .measure = measure,
                                 .context = all,
                                 .folder = folder,
                                 .today = date,
                                 .log = all->params->log};
    ICL_TRY(icl_contest_run(&contest, false, &fastest, &remembered, error));
    if (remembered && open_or_refuse(all, &all->list[fastest], NULL) != ICL_OK)
        ICL_TRY(icl_contest_run(&contest, true, &fastest, NULL, error));
    ICL_TRY(open_or_refuse(all, &all->list[fastest], error));
    *backend = all->list[fastest].backend;
    all->list[fastest].backend = NULL;
done:
    for (size_t i = 0; i < all->count; i++)
        icl_backend_close(&all->list[i].backend);
    icl_free(&contestants);
    icl_free(&folder);
    return status;
}

/* ---- Specs ---- */

static bool is_fast_kind(icl_device_kind kind) {
    return kind == ICL_DEVICE_GPU || kind == ICL_DEVICE_ACCELERATOR;
}

static void add(candidates *all, const icl_opencl_device *device) {
    candidate *c = &all->list[all->count++];
    c->device = device;
    describe(&device->capabilities, all->params, c);
}

/* The only one, or the fastest. */
static icl_status open_candidates(const char *title, candidates *all, icl_backend **backend, icl_error *error) {
    icl_status status;

    if (all->count > 1)
        return open_fastest(title, all, backend, error);
    status = open_or_refuse(all, &all->list[0], error);
    *backend = all->list[0].backend;
    return status;
}

/* Opens a device of one kind that matches. *backend stays NULL, with ICL_OK, when none matches. CPUs of several drivers
 * are the same processor: the first one that opens. */
static icl_status open_kind(candidates *all, const icl_opencl_device *devices, size_t count, const char *wanted,
                            icl_device_kind kind, icl_backend **backend, icl_error *error) {
    icl_status status = ICL_OK;

    all->count = 0;
    for (size_t i = 0; i < count && !*backend; i++) {
        if (devices[i].capabilities.kind != kind || !matches(&devices[i].capabilities, wanted))
            continue;
        if (!is_fast_kind(kind)) {
            all->count = 0;
            memset(all->list, 0, sizeof *all->list);
        }
        add(all, &devices[i]);
        if (!is_fast_kind(kind))
            status = open_candidates("opencl", all, backend, error);
    }
    return is_fast_kind(kind) && all->count > 0 ? open_candidates("opencl", all, backend, error) : status;
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
        return icl_fail(error, ICL_ERROR_DEVICE, "device %s: no OpenCL device on this machine; \"cpu\" always works",
                        params->spec);
    return icl_fail(error, ICL_ERROR_DEVICE, "device %s: no such device; this machine has cpu, ref, %s", params->spec,
                    known);
}

icl_status icl_open_opencl(const icl_backend_params *params, const char *wanted, icl_backend **backend,
                           icl_error *error) {
    static const icl_device_kind kinds[] = {ICL_DEVICE_GPU, ICL_DEVICE_ACCELERATOR, ICL_DEVICE_CPU};
    icl_opencl_device *devices = NULL;
    candidates all = {.params = params};
    size_t count = 0;
    bool matched = false;
    icl_status status = ICL_OK, last = ICL_OK;

    ICL_TRY(icl_opencl_list(&params->log, &devices, &count, error));
    ICL_TRY(icl_allocate(count + 1, sizeof *all.list, "candidates", &all.list, error));
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds && !*backend; kind++) {
        const icl_status tried = open_kind(&all, devices, count, wanted, kinds[kind], backend, error);
        memset(all.list, 0, (count + 1) * sizeof *all.list);
        matched = matched || all.count > 0;
        last = tried != ICL_OK ? tried : last;
    }
    if (!*backend)
        status = matched ? last : no_such_device(params, error);
done:
    icl_free(&all.list);
    free(devices);
    return status;
}

icl_status icl_open_exactly(const icl_backend_params *params, const char *spec, icl_backend **backend,
                            icl_error *error) {
    icl_opencl_device *devices = NULL;
    size_t count = 0, i = 0;
    icl_status status = ICL_OK;

    ICL_TRY(icl_opencl_list(NULL, &devices, &count, error));
    while (i < count && strcmp(devices[i].capabilities.spec, spec) != 0)
        i++;
    status = i < count ? icl_opencl_open(params, &devices[i], backend, error)
                       : icl_fail(error, ICL_ERROR_DEVICE, "device %s is no longer there", spec);
done:
    free(devices);
    return status;
}

icl_status icl_open_auto(const icl_backend_params *params, icl_apart *trial, icl_backend **backend, icl_error *error) {
    icl_opencl_device *devices = NULL;
    candidates all = {.params = params, .trial = trial};
    size_t count = 0;
    icl_status status = ICL_OK;

    if (icl_opencl_list(&params->log, &devices, &count, NULL) != ICL_OK)
        count = 0;
    ICL_TRY(icl_allocate(count + 1, sizeof *all.list, "candidates", &all.list, error));
    for (size_t i = 0; i < count; i++)
        if (is_fast_kind(devices[i].capabilities.kind))
            add(&all, &devices[i]);
    candidate *host = &all.list[all.count++];
    snprintf(host->name, sizeof host->name, "cpu");
    ICL_TRY(open_candidate(&all, host, error));
    if (all.count == 1) {
        icl_log_write(&params->log, ICL_LOG_INFO, "auto: chose cpu, because there is no OpenCL GPU");
        *backend = host->backend;
        host->backend = NULL;
    } else {
        describe(&host->backend->capabilities, params, host);
        ICL_TRY(open_fastest("auto", &all, backend, error));
    }
done:
    icl_free(&all.list);
    free(devices);
    return status;
}
