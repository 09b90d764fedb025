/*
 * Opens the device that a spec means, and lists all devices.
 *
 * If a spec means several devices, a short step of each is measured, because what drivers say of their devices does not
 * compare them: Intel counts execution units, NVIDIA multiprocessors, and an integrated GPU may be slower than the
 * processor beside it.
 *
 * A driver that crashes or waits for ever takes down the process that loads it, so OpenCL drivers can be tried in a
 * child process. It is a fork, see core/subprocess.h: this process must not have used OpenCL or OpenMP before.
 */
#include "device/device.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend/contract.h"
#include "conformance/case.h"
#include "core/allocate.h"
#include "core/cache.h"
#include "core/subprocess.h"
#include "iclab/backend.h"
#include "iclab/nearest.h"
#include "iclab/status.h"

/* ---- The self-test ---- */

/*
 * The self-test of OpenCL devices compares known answers with results that take the same way as users' work: the same
 * op functions, kernels and pool. Drivers have shipped with compilers that give wrong numbers and no error; such a
 * device is refused.
 *
 * The answers are those of a few cases of the conformance suite, with a tolerance in place of their bounds: a device
 * whose exponential is a little worse than OpenCL demands is still of use, while a wrong formula or a miscompiled
 * kernel is off by more than a thousandth. A case that is exact has no tolerance.
 */

/* About a thousand roundings of numbers near 1. */
#define NEAR 1e-4

/* OpenCL 1.2 (5.6.4.2) exempts relaxed functions from every promise of section 7.4, so no bound follows from it:
 * Intel's exp on CPUs is off by 3e-4. */
#define RELAXED 10

/* Finds the first case of the op whose name begins with `name`. */
typedef struct known_answer {
    icl_tested which;
    icl_op op;
    const char *name;
    double tolerance;
    size_t way; /* of the op's, from 1; 0: all */
} known_answer;

enum { FUSED = 1, BY_PRODUCTS }; /* ways of softmax attention */

static const known_answer answers[] = {
    {ICL_TESTED_ON_OPENING, ICL_OP_matmul, "matmul (33x257)(33x7)(7x257) plain integers", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_matmul, "matmul beta (7x5)(7x33)(33x5) plain integers", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_matmul_strict, "matmul_strict (7x5)(7x33)(33x5) plain random", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_attention_forward, "softmax forward causal (2x6x7x5)", NEAR, FUSED},
    {ICL_TESTED_ON_OPENING, ICL_OP_attention_backward, "softmax backward causal (2x6x7x3)", NEAR, FUSED},
    {ICL_TESTED_ON_OPENING, ICL_OP_reduce, "sum_of_squares (33x1)(33x255) plain integers", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_random_fill, "random uniform from 2^34 - 5 (257)", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_random_fill, "random normal from 2^34 - 5 (257)", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_spherical, "spherical radius (130x5)", 0},
    {ICL_TESTED_ON_OPENING, ICL_OP_update_step, "update adam (65)(65)(65)(3)(65)", NEAR},
    {ICL_TESTED_ON_OPENING, ICL_OP_update_step, "update adam (65)(65)(65)(3)(1)", NEAR},
    {ICL_TESTED_LINEAR_TRANSFORMER, ICL_OP_linear_transformer_gradient,
     "linear_transformer_gradient full (depth 3 of 3, heads 1, tokens in gram space) (5)", NEAR},
    /* The row of noise has a chi-distributed element, too, if there are more pairs than coordinates. */
    {ICL_TESTED_GRAM, ICL_OP_gram_sample, "gram_sample short (9x5x5)", 0},
    {ICL_TESTED_GRAM, ICL_OP_gram_sample, "gram_sample long (9x5x5)", 0},
    {ICL_TESTED_SMALL, ICL_OP_matmul, "matmul beta (3x67)(3x5)(5x67) plain integers", 0},
    {ICL_TESTED_SMALL, ICL_OP_normalize, "normalize layer in place (5x33)", NEAR},
    {ICL_TESTED_SMALL, ICL_OP_binary, "add (257)", NEAR},
    /* There are cases of many and of few tokens, because the form may depend on their number, and cases with decays so
     * strong that the backward pass computes the states forward again, and weak enough that it runs them back. */
    {ICL_TESTED_RECURRENCE, ICL_OP_recurrence_forward, "recurrence forward delta scalar strong (1x2x37x2)", NEAR},
    {ICL_TESTED_RECURRENCE, ICL_OP_recurrence_forward, "recurrence forward delta scalar strong (1x1x2x2)", NEAR},
    {ICL_TESTED_RECURRENCE_GRADIENT, ICL_OP_recurrence_backward, "recurrence backward delta scalar strong (1x2x37x4)",
     NEAR},
    {ICL_TESTED_RECURRENCE_GRADIENT, ICL_OP_recurrence_backward,
     "recurrence backward delta scalar read apart (1x2x33x8)", NEAR},
    {ICL_TESTED_ATTENTION_PRODUCTS, ICL_OP_attention_forward, "softmax forward causal (2x6x7x5)", NEAR, BY_PRODUCTS},
    {ICL_TESTED_ATTENTION_PRODUCTS, ICL_OP_attention_backward, "softmax backward causal (2x6x7x3)", NEAR, BY_PRODUCTS},
    {ICL_TESTED_CLBLAST, ICL_OP_matmul, "matmul (33x257)(33x7)(7x257) plain integers", 0},
    {ICL_TESTED_CLBLAST, ICL_OP_matmul, "matmul beta (7x5)(7x33)(33x5) plain integers", 0},
};

static icl_status check_case(icl_backend *backend, const icl_case *c, icl_error *error) {
    const char *device = backend->capabilities.name, *op = icl_op_infos[c->op].name;
    icl_case_result result = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_case_run(c, backend, &result, error));
    if (!result.guards_intact)
        status = icl_fail(error, ICL_ERROR_DEVICE, "self-test of %s: %s of %.*s wrote outside its outputs", device, op,
                          (int)c->title_length, c->name);
    else if (!icl_case_passed(&result))
        status = icl_fail(error, ICL_ERROR_DEVICE, "self-test of %s: %s: %s of %.*s is %.9g, expected %.9g", device, op,
                          result.worst_name, (int)c->title_length, c->name, result.outputs[result.worst], result.truth);
done:
    icl_case_result_clear(&result);
    return status;
}

/* Runs the case in one way of its op, or in each that the backend has. */
static icl_status check_ways(icl_backend *backend, const icl_case *c, size_t only, icl_error *error) {
    const icl_choice_functions *choices = backend->functions->choices;
    const char *const *names;
    const size_t ways = only ? only : choices ? choices->ways(backend, c->op, &c->params, &names) : 0;
    icl_status status = ICL_OK;

    if (ways == 0)
        return check_case(backend, c, error);
    for (size_t way = only ? only - 1 : 0; way < ways && status == ICL_OK; way++) {
        choices->choose_way(backend, c->op, way);
        status = check_case(backend, c, error);
    }
    choices->choose_way(backend, c->op, ICL_ANY_WAY);
    return status;
}

/* Compares answers of an OpenCL device with exact ones; see icl_self_test. */
static icl_status self_test(icl_backend *backend, icl_tested which, icl_error *error) {
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        icl_case c;
        if (answers[i].which != which)
            continue;
        ICL_CHECK(icl_case_find(answers[i].op, answers[i].name, &c, error));
        c.runs_once = true;
        c.tolerance = (backend->capabilities.fast_math ? RELAXED : 1) * answers[i].tolerance;
        ICL_CHECK(check_ways(backend, &c, answers[i].way, error));
    }
    return ICL_OK;
}

#define OPENCL_LEFT_OUT                                                                                                \
    "no OpenCL device is used; OCL_ICD_VENDORS=DIR, a folder with the .icd files of the other drivers, leaves a "      \
    "driver out"

/* ---- What a child process says ---- */

/* What the child process reports. */
typedef struct news {
    enum { NEWS_LOG, NEWS_AT, NEWS_DEVICE, NEWS_END } what;
    icl_log_level level;           /* of a line of the log */
    icl_status status;             /* at the end */
    char text[ICL_ERROR_CAPACITY]; /* the line; the device at trial; at the end the choice, or the error */
    icl_device device;             /* as its trial found it, or as it was listed before its trial */
} news;

static void say_log(void *user, icl_log_level level, const char *message) {
    news line = {.what = NEWS_LOG, .level = level};

    snprintf(line.text, sizeof line.text, "%s", message);
    icl_subprocess_send(user, &line);
}

static void say_end(icl_subprocess *child, icl_status status, const char *choice, const icl_error *error) {
    news end = {.what = NEWS_END, .status = status};

    snprintf(end.text, sizeof end.text, "%s", status == ICL_OK ? choice : error->message);
    icl_subprocess_send(child, &end);
}

/* Reports from the child process what it is working on, such as "opencl:0.0 (its name)". Does nothing if `trial` is
 * NULL. */
static void trial_at(icl_subprocess *trial, const char *device) {
    news line = {.what = NEWS_AT};

    if (!trial)
        return;
    snprintf(line.text, sizeof line.text, "%s", device);
    icl_subprocess_send(trial, &line);
}

/* ---- Candidates ---- */

#define IDENTITY_CAPACITY (4 * ICL_NAME_CAPACITY + 64)

/* A device, or the host if `device` is NULL. */
typedef struct candidate {
    const icl_opencl_device *device;
    char name[2 * ICL_NAME_CAPACITY + 4], identity[IDENTITY_CAPACITY];
    icl_backend *backend; /* while it is open */
} candidate;

typedef struct candidates {
    const icl_backend_params *params;
    icl_subprocess *trial; /* NULL: not in a child process */
    candidate *list;
    size_t count;
} candidates;

static void describe(const icl_capabilities *device, const icl_backend_params *params, candidate *c) {
    snprintf(c->identity, sizeof c->identity,
             "%s | %s | %s | %s | %zu units of %zu, gemm %d, fast math %d, precision %d", device->spec, device->name,
             device->platform, device->driver, device->compute_units, device->vector_width, (int)params->gemm,
             (int)params->fast_math, (int)params->precision);
    if (c->device)
        snprintf(c->name, sizeof c->name, "%s (%s)", device->spec, device->name);
    else
        snprintf(c->name, sizeof c->name, "%s", device->spec);
}

static icl_status open_candidate(const candidates *choices, candidate *c, icl_error *error) {
    if (c->backend)
        return ICL_OK;
    trial_at(choices->trial, c->name);
    return c->device ? icl_opencl_open(choices->params, c->device, self_test, &c->backend, error)
                     : icl_cpu_open(choices->params, &(icl_host_spec){0}, &c->backend, error);
}

/* As above, and the error names the device. */
static icl_status open_or_refuse(const candidates *choices, candidate *c, icl_error *error) {
    icl_error why = {0};
    const icl_status status = open_candidate(choices, c, &why);

    return status == ICL_OK ? ICL_OK : icl_fail(error, status, "%s refused: %s", c->name, why.message);
}

/* Logs why the last device was refused, if one was, because another one is tried now: the last error is the caller's to
 * report. */
static void log_refused(const candidates *choices, icl_error *refused) {
    if (refused->message[0])
        icl_log_write(&choices->params->log, ICL_LOG_WARNING, "%s", refused->message);
    refused->message[0] = '\0';
}

static icl_status measure(void *context, size_t i, double *seconds, icl_error *error) {
    const candidates *choices = context;
    icl_status status = ICL_OK;

    ICL_TRY(open_candidate(choices, &choices->list[i], error));
    ICL_TRY(icl_time_short_step(choices->list[i].backend, seconds, error));
done:
    if (status != ICL_OK)
        icl_backend_close(&choices->list[i].backend);
    return status;
}

static void today(char date[16]) {
    const time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || strftime(date, 16, "%Y-%m-%d", &parts) == 0)
        snprintf(date, 16, "an unknown day");
}

/* Opens the fastest candidate and closes the others. */
static icl_status open_fastest(const char *title, candidates *choices, icl_backend **backend, icl_error *error) {
    icl_contestant *contestants = NULL;
    char *folder = NULL, date[16];
    size_t fastest = 0;
    bool remembered = false;
    icl_error refused = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_allocate(choices->count, sizeof *contestants, "candidates", &contestants, error));
    for (size_t i = 0; i < choices->count; i++)
        contestants[i] = (icl_contestant){choices->list[i].name, choices->list[i].identity};
    if (icl_cache_folder(&folder, NULL) != ICL_OK)
        folder = NULL;
    today(date);
    const icl_contest contest = {.title = title,
                                 .contestants = contestants,
                                 .count = choices->count,
                                 .measure = measure,
                                 .context = choices,
                                 .folder = folder,
                                 .today = date,
                                 .log = choices->params->log};
    ICL_TRY(icl_contest_run(&contest, false, &fastest, &remembered, error));
    if (remembered && open_or_refuse(choices, &choices->list[fastest], &refused) != ICL_OK) {
        log_refused(choices, &refused);
        ICL_TRY(icl_contest_run(&contest, true, &fastest, NULL, error));
    }
    ICL_TRY(open_or_refuse(choices, &choices->list[fastest], error));
    *backend = choices->list[fastest].backend;
    choices->list[fastest].backend = NULL;
done:
    for (size_t i = 0; i < choices->count; i++)
        icl_backend_close(&choices->list[i].backend);
    icl_free(&contestants);
    icl_free(&folder);
    return status;
}

/* ---- Devices of OpenCL, and the fastest of all ---- */

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

/* Returns whether "opencl:WANTED" means this device: its indices, or part of its platform, driver or name. */
static bool matches(const icl_capabilities *device, const char *wanted) {
    const char *indices = strchr(device->spec, ':');
    if (wanted[strspn(wanted, "0123456789.")] == '\0' && *wanted)
        return indices && strcmp(indices + 1, wanted) == 0;
    return contains_ignoring_case(device->platform, wanted) || contains_ignoring_case(device->name, wanted);
}

static bool is_fast_kind(icl_device_kind kind) {
    return kind == ICL_DEVICE_GPU || kind == ICL_DEVICE_ACCELERATOR;
}

static void add(candidates *choices, const icl_opencl_device *device) {
    candidate *c = &choices->list[choices->count++];
    c->device = device;
    describe(&device->capabilities, choices->params, c);
}

/* Opens the only candidate, or the fastest. */
static icl_status open_candidates(const char *title, candidates *choices, icl_backend **backend, icl_error *error) {
    icl_status status;

    if (choices->count > 1)
        return open_fastest(title, choices, backend, error);
    status = open_or_refuse(choices, &choices->list[0], error);
    *backend = choices->list[0].backend;
    return status;
}

/* Opens a device of one kind that matches. *backend stays NULL, with ICL_OK, if none matches. CPUs of several drivers
 * are the same processor, so the first one that opens is taken. *refused says why the last one was not. */
static icl_status open_kind(candidates *choices, const icl_opencl_device *devices, size_t count, const char *wanted,
                            icl_device_kind kind, icl_backend **backend, icl_error *refused) {
    icl_status status = ICL_OK;

    choices->count = 0;
    for (size_t i = 0; i < count && !*backend; i++) {
        if (devices[i].capabilities.kind != kind || !matches(&devices[i].capabilities, wanted))
            continue;
        log_refused(choices, refused);
        if (!is_fast_kind(kind)) {
            choices->count = 0;
            memset(choices->list, 0, sizeof *choices->list);
        }
        add(choices, &devices[i]);
        if (!is_fast_kind(kind))
            status = open_candidates("opencl", choices, backend, refused);
    }
    return is_fast_kind(kind) && choices->count > 0 ? open_candidates("opencl", choices, backend, refused) : status;
}

/* Writes one line that lists what "opencl:WANTED" could have meant. */
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

/* Opens "opencl:WANTED": of the devices that match, a GPU before an accelerator before a CPU, and the fastest of
 * several GPUs or accelerators. */
static icl_status open_opencl(const icl_backend_params *params, const char *wanted, icl_backend **backend,
                              icl_error *error) {
    static const icl_device_kind kinds[] = {ICL_DEVICE_GPU, ICL_DEVICE_ACCELERATOR, ICL_DEVICE_CPU};
    icl_opencl_device *devices = NULL;
    candidates all = {.params = params};
    size_t count = 0;
    bool matched = false;
    icl_error refused = {0};
    icl_status status = ICL_OK, last = ICL_OK;

    ICL_TRY(icl_opencl_list(&params->log, &devices, &count, error));
    ICL_TRY(icl_allocate(count + 1, sizeof *all.list, "candidates", &all.list, error));
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds && !*backend; kind++) {
        const icl_status tried = open_kind(&all, devices, count, wanted, kinds[kind], backend, &refused);
        memset(all.list, 0, (count + 1) * sizeof *all.list);
        matched = matched || all.count > 0;
        last = tried != ICL_OK ? tried : last;
    }
    if (!*backend)
        status = matched ? icl_fail(error, last, "%s", refused.message) : no_such_device(params, error);
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
    status = i < count ? icl_opencl_open(params, &devices[i], self_test, backend, error)
                       : icl_fail(error, ICL_ERROR_DEVICE, "device %s is no longer there", spec);
done:
    free(devices);
    return status;
}

/* Opens "auto": the fastest of the host and of the GPUs and accelerators that open. If there are none of these, it is
 * the host, at once. In a child process, `trial` is told which device is opened next; otherwise it is NULL. */
static icl_status open_auto(const icl_backend_params *params, icl_subprocess *trial, icl_backend **backend,
                            icl_error *error) {
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

/* ---- Choosing in a child process ---- */

typedef struct choice {
    const icl_backend_params *params;
    char at[ICL_ERROR_CAPACITY]; /* the device at trial; empty: they are being listed */
    news end;
} choice;

static void choose_in_child(icl_subprocess *child, void *context) {
    const choice *c = context;
    icl_backend_params params = *c->params;
    icl_backend *backend = NULL;
    icl_error error = {0};
    char spec[ICL_NAME_CAPACITY] = "";

    params.log = (icl_log){say_log, child, c->params->log.level};
    const icl_status status = open_auto(&params, child, &backend, &error);
    if (status == ICL_OK)
        snprintf(spec, sizeof spec, "%s", icl_backend_capabilities(backend)->spec);
    icl_backend_close(&backend);
    say_end(child, status, spec, &error);
}

static void hear_choice(void *context, const void *message) {
    const news *n = message;
    choice *c = context;

    if (n->what == NEWS_LOG)
        icl_log_write(&c->params->log, n->level, "%s", n->text);
    else if (n->what == NEWS_AT)
        snprintf(c->at, sizeof c->at, "%s", n->text);
    else
        c->end = *n;
}

icl_status icl_trial_choose(const icl_backend_params *params, char device[ICL_NAME_CAPACITY], icl_error *error) {
    choice c = {.params = params};
    icl_subprocess_outcome outcome;
    const icl_subprocess_params child = {.title = "the trial of OpenCL drivers",
                                         .size = sizeof(news),
                                         .seconds = params->trial_seconds,
                                         .work = choose_in_child,
                                         .hear = hear_choice,
                                         .context = &c};

    ICL_CHECK(icl_subprocess_run(&child, &outcome, error));
    if (outcome.end == ICL_SUBPROCESS_DONE && c.end.status != ICL_OK)
        return icl_fail(error, c.end.status, "%s", c.end.text);
    snprintf(device, ICL_NAME_CAPACITY, "%.*s", ICL_NAME_CAPACITY - 1,
             outcome.end == ICL_SUBPROCESS_DONE ? c.end.text : "cpu");
    if (outcome.end != ICL_SUBPROCESS_DONE && c.at[0])
        icl_log_write(&params->log, ICL_LOG_WARNING,
                      "auto: chose cpu, because the process that tried %s %s; iclab devices tries every device", c.at,
                      outcome.words);
    else if (outcome.end != ICL_SUBPROCESS_DONE)
        icl_log_write(&params->log, ICL_LOG_WARNING,
                      "auto: chose cpu, because the process that listed the OpenCL devices %s: " OPENCL_LEFT_OUT,
                      outcome.words);
    return ICL_OK;
}

/* ---- Opening ---- */

static icl_status reject_spec(const char *spec, icl_error *error) {
    static const char *const names[] = {"auto", "cpu", "ref", "opencl"};
    char stem[32];
    const char *nearest;

    snprintf(stem, sizeof stem, "%.*s", (int)strcspn(spec, ":"), spec);
    nearest = icl_nearest(stem, names, sizeof names / sizeof *names);
    return icl_fail(error, ICL_ERROR_INPUT,
                    "device \"%s\": expected auto, cpu, cpu:threads=N, cpu:isa=SET (base, avx2, avx512 or amx), "
                    "ref, opencl, opencl:P.D or opencl:TEXT; the nearest is %s",
                    spec, nearest);
}

/* Opens "auto" after a trial in a child process. A device that opened there and does not open here gives way to the
 * host. */
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
        return params->trial_seconds > 0 ? open_tried(params, backend, error) : open_auto(params, NULL, backend, error);
    if (icl_host_spec_read(params->spec, "cpu", &host))
        return icl_cpu_open(params, &host, backend, error);
    if (icl_host_spec_read(params->spec, "ref", &host))
        return icl_ref_open(params, &host, backend, error);
    if (strcmp(params->spec, "opencl") == 0)
        return open_opencl(params, "", backend, error);
    if (strncmp(params->spec, "opencl:", 7) == 0 && params->spec[7])
        return open_opencl(params, params->spec + 7, backend, error);
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
    if ((unsigned)params.precision > ICL_PRECISION_BF16)
        return icl_fail(error, ICL_ERROR_INPUT, "backend: unknown precision %d", (int)params.precision);
    status = open_by_spec(&params, backend, error);
    if (*backend) {
        (*backend)->capabilities.gemm = params.gemm;
        (*backend)->capabilities.fast_math = params.fast_math;
        icl_backend_forget_peak(*backend); /* the work of its tests and of a short step is not counted */
    }
    return status;
}

/* ---- Testing for the list ---- */

/* Notes the outcome of opening a device and of testing it, and closes it. */
static void note(icl_device *device, icl_status status, const char *passed, const icl_error *error,
                 icl_backend **backend) {
    device->usable = status == ICL_OK;
    if (*backend)
        device->capabilities = (*backend)->capabilities;
    /* Only the first line is kept: a compiler's log may follow it. */
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

/* Opens an OpenCL device for its self-test and notes the outcome. */
static void test_device(const icl_opencl_device *opencl, icl_device *device) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    icl_status status = icl_opencl_open(&(icl_backend_params){0}, opencl, self_test, &backend, &error);

    if (status == ICL_OK)
        status = icl_opencl_test(backend, &error);
    device->capabilities = opencl->capabilities;
    note(device, status, "self-test passed", &error, &backend);
}

/* ---- Listing from a child process ---- */

typedef struct device_list {
    const icl_log *log;
    icl_device *devices;
    size_t count;
    icl_device at; /* the device that the child process is testing, if is_at is set */
    bool is_at;
    icl_status status;
    icl_error *error;
} device_list;

static void say_device(icl_subprocess *child, const icl_device *device, bool tried) {
    const news line = {.what = tried ? NEWS_DEVICE : NEWS_AT, .device = *device};
    icl_subprocess_send(child, &line);
}

/* Tries the devices that are not in the list yet. */
static void list_in_child(icl_subprocess *child, void *context) {
    const device_list *list = context;
    const icl_log log = {say_log, child, list->log ? list->log->level : ICL_LOG_ERROR};
    icl_opencl_device *found = NULL;
    icl_error error = {0};
    size_t count = 0;
    const icl_status status = icl_opencl_list(list->count == 0 ? &log : NULL, &found, &count, &error);

    for (size_t i = list->count; i < count; i++) {
        icl_device device = {.capabilities = found[i].capabilities};
        say_device(child, &device, false);
        test_device(&found[i], &device);
        say_device(child, &device, true);
    }
    free(found);
    say_end(child, status, "", &error);
}

static void append(device_list *list, const icl_device *device) {
    icl_device *longer = NULL;

    if (list->status != ICL_OK)
        return;
    list->status = icl_allocate(list->count + 1, sizeof *longer, "device list", &longer, list->error);
    if (list->status != ICL_OK)
        return;
    if (list->count > 0)
        memcpy(longer, list->devices, list->count * sizeof *longer);
    longer[list->count++] = *device;
    icl_free(&list->devices);
    list->devices = longer;
}

static void hear_device(void *context, const void *message) {
    const news *n = message;
    device_list *list = context;

    list->is_at = n->what == NEWS_AT || (n->what == NEWS_LOG && list->is_at);
    if (n->what == NEWS_LOG)
        icl_log_write(list->log, n->level, "%s", n->text);
    else if (n->what == NEWS_AT)
        list->at = n->device;
    else if (n->what == NEWS_DEVICE)
        append(list, &n->device);
    else if (n->status != ICL_OK && list->status == ICL_OK)
        list->status = icl_fail(list->error, n->status, "%s", n->text);
}

/* Starts a process for the devices that are left; sets *again if it ended during the trial of one. */
static icl_status try_rest(device_list *list, double seconds, bool *again, icl_error *error) {
    icl_subprocess_outcome outcome;
    const icl_subprocess_params child = {.title = "the trial of OpenCL devices",
                                         .size = sizeof(news),
                                         .seconds = seconds,
                                         .work = list_in_child,
                                         .hear = hear_device,
                                         .context = list};

    list->is_at = false;
    *again = false;
    ICL_CHECK(icl_subprocess_run(&child, &outcome, error));
    if (outcome.end != ICL_SUBPROCESS_DONE && list->is_at) {
        snprintf(list->at.verdict, sizeof list->at.verdict, "the process that tried it %s", outcome.words);
        append(list, &list->at);
        *again = list->status == ICL_OK;
    } else if (outcome.end != ICL_SUBPROCESS_DONE) {
        icl_log_write(list->log, ICL_LOG_WARNING, "the process that listed the OpenCL devices %s: " OPENCL_LEFT_OUT,
                      outcome.words);
    }
    return list->status;
}

icl_status icl_trial_list(const icl_log *log, double seconds, icl_device **devices, size_t *count, icl_error *error) {
    device_list list = {.log = log, .error = error};
    icl_status status = ICL_OK;
    bool again = true;

    while (again)
        ICL_TRY(try_rest(&list, seconds, &again, error));
    *devices = list.devices;
    *count = list.count;
    list.devices = NULL;
done:
    icl_free(&list.devices);
    return status;
}

/* ---- Listing ---- */

/* Tests all devices in this process, whatever a driver does. */
static icl_status test_here(const icl_log *log, icl_device **devices, size_t *count, icl_error *error) {
    icl_opencl_device *found = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_opencl_list(log, &found, count, error));
    ICL_TRY(icl_allocate(*count + 1, sizeof **devices, "device list", devices, error));
    for (size_t i = 0; i < *count; i++)
        test_device(&found[i], &(*devices)[i]);
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
    /* This comes first, while this process has used neither OpenCL nor the threads of the host. */
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
