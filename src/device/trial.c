#include "device/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/allocate.h"
#include "device/choose.h"
#include "iclab/status.h"

#define OPENCL_LEFT_OUT                                                                                                \
    "no OpenCL device is used; OCL_ICD_VENDORS=DIR, a folder with the .icd files of the other drivers, leaves a "      \
    "driver out"

/* What the process apart says. */
typedef struct news {
    enum { NEWS_LOG, NEWS_AT, NEWS_DEVICE, NEWS_END } what;
    icl_log_level level;           /* of a line of the log */
    icl_status status;             /* at the end */
    char text[ICL_ERROR_CAPACITY]; /* the line; the device that is at trial; at the end the choice, or the error */
    icl_device device;             /* as its trial found it, or as it was listed before its trial */
} news;

/* ---- In the process apart ---- */

static void say_log(void *user, icl_log_level level, const char *message) {
    news line = {.what = NEWS_LOG, .level = level};

    snprintf(line.text, sizeof line.text, "%s", message);
    icl_apart_send(user, &line);
}

static void say_end(icl_apart *apart, icl_status status, const char *choice, const icl_error *error) {
    news end = {.what = NEWS_END, .status = status};

    snprintf(end.text, sizeof end.text, "%s", status == ICL_OK ? choice : error->message);
    icl_apart_send(apart, &end);
}

void icl_trial_at(icl_apart *trial, const char *device) {
    news line = {.what = NEWS_AT};

    if (!trial)
        return;
    snprintf(line.text, sizeof line.text, "%s", device);
    icl_apart_send(trial, &line);
}

/* ---- Choosing ---- */

typedef struct choice {
    const icl_backend_params *params;
    char at[ICL_ERROR_CAPACITY]; /* the device that is at trial; empty: they are being listed */
    news end;
} choice;

static void choose_apart(icl_apart *apart, void *context) {
    const choice *c = context;
    icl_backend_params params = *c->params;
    icl_backend *backend = NULL;
    icl_error error = {0};
    char spec[ICL_NAME_CAPACITY] = "";

    params.log = (icl_log){say_log, apart, c->params->log.level};
    const icl_status status = icl_open_auto(&params, apart, &backend, &error);
    if (status == ICL_OK)
        snprintf(spec, sizeof spec, "%s", icl_backend_capabilities(backend)->spec);
    icl_backend_close(&backend);
    say_end(apart, status, spec, &error);
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
    icl_apart_outcome outcome;
    const icl_apart_params apart = {.title = "the trial of OpenCL drivers",
                                    .size = sizeof(news),
                                    .seconds = params->trial_seconds,
                                    .work = choose_apart,
                                    .hear = hear_choice,
                                    .context = &c};

    ICL_CHECK(icl_apart_run(&apart, &outcome, error));
    if (outcome.end == ICL_APART_DONE && c.end.status != ICL_OK)
        return icl_fail(error, c.end.status, "%s", c.end.text);
    snprintf(device, ICL_NAME_CAPACITY, "%.*s", ICL_NAME_CAPACITY - 1,
             outcome.end == ICL_APART_DONE ? c.end.text : "cpu");
    if (outcome.end != ICL_APART_DONE && c.at[0])
        icl_log_write(&params->log, ICL_LOG_WARNING,
                      "auto: chose cpu, because the process that tried %s %s; iclab devices tries every device", c.at,
                      outcome.words);
    else if (outcome.end != ICL_APART_DONE)
        icl_log_write(&params->log, ICL_LOG_WARNING,
                      "auto: chose cpu, because the process that listed the OpenCL devices %s: " OPENCL_LEFT_OUT,
                      outcome.words);
    return ICL_OK;
}

/* ---- Listing ---- */

typedef struct device_list {
    const icl_log *log;
    icl_device *devices;
    size_t count;
    icl_device at; /* the device that is at trial, where is_at says so */
    bool is_at;
    icl_status status;
    icl_error *error;
} device_list;

static void say_device(icl_apart *apart, const icl_device *device, bool tried) {
    const news line = {.what = tried ? NEWS_DEVICE : NEWS_AT, .device = *device};
    icl_apart_send(apart, &line);
}

/* Tries the devices that are not in the list yet. */
static void list_apart(icl_apart *apart, void *context) {
    const device_list *list = context;
    const icl_log log = {say_log, apart, list->log ? list->log->level : ICL_LOG_ERROR};
    icl_opencl_device *found = NULL;
    icl_error error = {0};
    size_t count = 0;
    const icl_status status = icl_opencl_list(list->count == 0 ? &log : NULL, &found, &count, &error);

    for (size_t i = list->count; i < count; i++) {
        icl_device device = {.capabilities = found[i].capabilities};
        say_device(apart, &device, false);
        icl_device_test(&found[i], &device);
        say_device(apart, &device, true);
    }
    free(found);
    say_end(apart, status, "", &error);
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

/* Starts a process for the devices that are left; *again where it ended at the trial of one. */
static icl_status try_rest(device_list *list, double seconds, bool *again, icl_error *error) {
    icl_apart_outcome outcome;
    const icl_apart_params apart = {.title = "the trial of OpenCL devices",
                                    .size = sizeof(news),
                                    .seconds = seconds,
                                    .work = list_apart,
                                    .hear = hear_device,
                                    .context = list};

    list->is_at = false;
    *again = false;
    ICL_CHECK(icl_apart_run(&apart, &outcome, error));
    if (outcome.end != ICL_APART_DONE && list->is_at) {
        snprintf(list->at.verdict, sizeof list->at.verdict, "the process that tried it %s", outcome.words);
        append(list, &list->at);
        *again = list->status == ICL_OK;
    } else if (outcome.end != ICL_APART_DONE) {
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
