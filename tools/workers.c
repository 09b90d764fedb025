#include "workers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/subprocess.h"
#include "iclab/host.h"
#include "iclab/number.h"
#include "run/sweep/sweep.h"
#include "terminal.h"

icl_backend_params worker_device(const device_options *device) {
    return (icl_backend_params){.gemm = (icl_gemm)device->gemm,
                                .fast_math = device->fast_math,
                                .precision = (icl_precision)device->precision,
                                .trial_seconds = DRIVER_TRIAL_SECONDS};
}

static const char *asked_specs(const device_options *device) {
    const char *variable = getenv("ICLAB_DEVICE");

    if (device->spec)
        return device->spec;
    return variable && variable[0] != '\0' ? variable : "auto";
}

typedef struct finding {
    const icl_backend_params *params;
    icl_status status;
    icl_device_kind kind;
    char spec[ICL_NAME_CAPACITY];
    icl_error error;
} finding;

static void find_device(icl_subprocess *child, void *context) {
    finding *found = context;
    icl_backend *backend = NULL;

    found->status = icl_backend_open(found->params, &backend, &found->error);
    if (found->status == ICL_OK) {
        const icl_capabilities *device = icl_backend_capabilities(backend);
        found->kind = device->kind;
        snprintf(found->spec, sizeof found->spec, "%s", device->spec);
    }
    icl_backend_close(&backend);
    icl_subprocess_send(child, found);
}

static void take_finding(void *context, const void *message) {
    memcpy(context, message, sizeof(finding));
}

/* Finds what "auto" or any other spec means here, in a short-lived process: the device's own spec and kind. */
static icl_status resolve_device(const icl_backend_params *params, char spec[ICL_NAME_CAPACITY], icl_device_kind *kind,
                                 icl_error *error) {
    finding found = {.params = params};
    icl_subprocess_outcome outcome;
    const icl_subprocess_params child = {.title = "the choice of a device",
                                         .size = sizeof found,
                                         .work = find_device,
                                         .hear = take_finding,
                                         .context = &found};

    ICL_CHECK(icl_subprocess_run(&child, &outcome, error));
    if (outcome.end != ICL_SUBPROCESS_DONE)
        return icl_fail(error, ICL_ERROR_DEVICE, "%s: the process that opened it %s",
                        params->spec ? params->spec : "auto", outcome.words);
    if (found.status != ICL_OK)
        return icl_fail(error, found.status, "%s", found.error.message);
    snprintf(spec, ICL_NAME_CAPACITY, "%s", found.spec);
    *kind = found.kind;
    return ICL_OK;
}

/* Reads the specs asked for, separated by commas, and resolves "auto". */
static icl_status read_specs(const worker_wishes *wishes, char (*specs)[ICL_NAME_CAPACITY], size_t *count,
                             icl_error *error) {
    const icl_backend_params params = worker_device(wishes->device);
    icl_device_kind kind;

    *count = 0;
    for (const char *at = asked_specs(wishes->device);;) {
        const size_t length = strcspn(at, ",");
        if (length == 0 || length >= ICL_NAME_CAPACITY || *count == MOST_WORKERS)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: --device %s: expected specs of devices separated by commas",
                            wishes->command, asked_specs(wishes->device));
        snprintf(specs[*count], ICL_NAME_CAPACITY, "%.*s", (int)length, at);
        if (strcmp(specs[*count], "auto") == 0)
            ICL_CHECK(resolve_device(&params, specs[*count], &kind, error));
        (*count)++;
        if (at[length] == '\0')
            break;
        at += length + 1;
    }
    return ICL_OK;
}

/* Returns the number of workers: one for each device; if the host is the only device, one for each core, or for each
 * piece of work if these are fewer, because for models of this size many trainings on one thread each are faster than
 * one after another on all. A rank is itself a worker. */
static size_t workers_wanted(const worker_wishes *wishes, size_t devices, bool divisible) {
    const size_t left = wishes->left, cores = icl_threads_available();

    if (wishes->ranks->count > 1)
        return 1;
    if (wishes->workers->given)
        return (size_t)wishes->workers->value;
    if (devices > 1 || !divisible)
        return devices;
    return left == 0 ? 1 : left < cores ? left : cores;
}

icl_status worker_plan_make(const worker_wishes *wishes, worker_plan *plan, icl_error *error) {
    const icl_ranks *ranks = wishes->ranks;
    char(*asked)[ICL_NAME_CAPACITY] = NULL;
    icl_status status = ICL_OK;
    size_t count = 0, sharing = 0;

    ICL_TRY(icl_allocate(MOST_WORKERS, sizeof *asked, "specs of devices", &asked, error));
    ICL_TRY(read_specs(wishes, asked, &count, error));
    assert(count > 0);
    plan->count = workers_wanted(wishes, count, icl_host_spec_is_divisible(asked[0]));
    ICL_TRY(icl_allocate(plan->count, sizeof *plan->specs, "specs of workers", &plan->specs, error));
    for (size_t i = 0; i < plan->count; i++) {
        snprintf(plan->specs[i], ICL_NAME_CAPACITY, "%s", asked[(i + ranks->local_index) % count]);
        sharing += icl_host_spec_is_divisible(plan->specs[i]);
    }
    for (size_t i = 0; i < plan->count; i++)
        if (icl_host_spec_is_divisible(plan->specs[i]))
            icl_host_spec_take_threads(plan->specs[i], icl_threads_available() / (sharing * ranks->local_count),
                                       plan->specs[i], ICL_NAME_CAPACITY);
done:
    icl_free(&asked);
    return status;
}

void worker_plan_release(worker_plan *plan) {
    icl_free(&plan->specs);
}

icl_status check_workers(const char *command, const option_count *workers, icl_error *error) {
    if (workers->given && (workers->value == 0 || workers->value > MOST_WORKERS))
        return icl_fail(error, ICL_ERROR_INPUT, "%s: --workers %" PRIu64 ": expected 1 to %d", command, workers->value,
                        MOST_WORKERS);
    return ICL_OK;
}

/* ---- Ranks ---- */

/* Hydra (MPICH, Intel MPI) and Slurm's PMI set the first name, Open MPI the second; PMIx launchers set a rank, and
 * Slurm sets the number of tasks. */
size_t ranks_launched(void) {
    static const char *const names[] = {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE"};
    const char *tasks = getenv("PMIX_RANK") ? getenv("SLURM_NTASKS") : NULL;
    uint64_t count;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *text = getenv(names[i]);
        if (text && icl_parse_count(text, strlen(text), &count))
            return (size_t)count;
    }
    return tasks && icl_parse_count(tasks, strlen(tasks), &count) ? (size_t)count : 0;
}

int end_shared_work(icl_ranks *ranks, icl_status status, const icl_error *error, int code) {
    const bool is_first = icl_ranks_is_first(ranks);

    if (status == ICL_ERROR_INTERRUPTED) {
        if (is_first)
            fprintf(stderr, "iclab: %s; the same command goes on from here\n", error->message);
        code = 128 + (int)stop_signal;
    } else if (status != ICL_OK) {
        code = is_first ? report_failure(status, error) : exit_code_of(status);
    }
    ranks_leave(ranks);
    return code;
}
