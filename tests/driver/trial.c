/* A driver that crashes, exits or waits for ever costs its device, or OpenCL if it happens while devices are listed,
 * but never the process that asked. The driver is PoCL with two devices, as tests/driver/layer.c shows it. This process
 * must not have used OpenCL before a trial, so the check that uses it comes last. */
#include <stdlib.h>

#include "../core/scratch.h"
#include "device/device.h"
#include "tap.h"

#define VARIABLE "ICLAB_TEST_DRIVER"
#define GPU      "name=Planted GPU;type=4;"

enum { SECONDS = 600, FEW_SECONDS = 8 }; /* an idle machine opens a device in 10 s, later in 1 s */

/* The last warning, and the line that says which device was chosen. */
typedef struct heard {
    char warning[1024], chose[1024];
    size_t warnings;
} heard;

static void record(void *user, icl_log_level level, const char *message) {
    heard *h = user;

    if (level == ICL_LOG_WARNING) {
        snprintf(h->warning, sizeof h->warning, "%.1023s", message);
        h->warnings++;
    }
    if (strstr(message, ": chose "))
        snprintf(h->chose, sizeof h->chose, "%.1023s", message);
}

/* ---- Listing ---- */

typedef struct found {
    icl_device *devices;
    size_t count;
    heard heard;
} found;

static void list_as(tap_run *tap, const char *driver, double seconds, found *f) {
    const icl_log log = {record, &f->heard, ICL_LOG_INFO};
    icl_error error = {0};

    icl_devices_free(&f->devices);
    f->heard = (heard){0};
    setenv(VARIABLE, driver, 1);
    tap_status(tap, icl_devices_list_apart(&log, seconds, &f->devices, &f->count, &error), &error, driver);
}

static bool host_is_first(const found *f) {
    return f->count >= 2 && strcmp(f->devices[0].capabilities.spec, "cpu") == 0 && f->devices[0].usable &&
           strcmp(f->devices[1].capabilities.spec, "ref") == 0 && f->devices[1].usable;
}

/* Returns planted device i; NULL unless there are two of them. */
static const icl_device *planted(const found *f, size_t i) {
    const icl_device *devices[2] = {NULL};
    size_t count = 0;

    for (size_t k = 2; k < f->count; k++)
        if (strcmp(f->devices[k].capabilities.name, "Planted GPU") == 0 && ++count <= 2)
            devices[count - 1] = &f->devices[k];
    return count == 2 ? devices[i] : NULL;
}

static const char *verdict(const found *f, size_t i) {
    return planted(f, i) ? planted(f, i)->verdict : "none";
}

/* Says whether planted device i is in its place, and usable or, if `refused` is not NULL, refused with these words. */
static bool is_device(const found *f, size_t i, const char *refused) {
    const icl_device *device = planted(f, i);
    char place[32];

    snprintf(place, sizeof place, ".%zu", i);
    return host_is_first(f) && device && strstr(device->capabilities.spec, place) &&
           device->capabilities.kind == ICL_DEVICE_GPU &&
           (refused ? !device->usable && strcmp(device->verdict, refused) == 0
                    : device->usable && strcmp(device->verdict, "self-test passed") == 0);
}

static void check_lists(tap_run *tap, found *f) {
    static const char crashed[] = "the process that tried it was ended by signal 6 (Aborted)";

    tap_ok(tap, is_device(f, 0, NULL) && is_device(f, 1, NULL) && !f->heard.warning[0], "two good devices: %s",
           f->heard.warning);
    list_as(tap, GPU "crash=open;of=0", SECONDS, f);
    tap_ok(tap, is_device(f, 0, crashed) && is_device(f, 1, NULL), "a crash of the first costs the first: %s, %s",
           verdict(f, 0), verdict(f, 1));
    list_as(tap, GPU "crash=open;of=1", SECONDS, f);
    tap_ok(tap, is_device(f, 0, NULL) && is_device(f, 1, crashed), "a crash of the second the second: %s",
           verdict(f, 1));
    list_as(tap, GPU "leave=open", SECONDS, f);
    tap_ok(tap,
           is_device(f, 0, "the process that tried it exited with code 3") &&
               is_device(f, 1, "the process that tried it exited with code 3"),
           "a driver that exits: %s", verdict(f, 1));
    list_as(tap, GPU "hang=open", FEW_SECONDS, f);
    tap_ok(tap,
           is_device(f, 0, "the process that tried it said nothing for 8 seconds") &&
               is_device(f, 1, "the process that tried it said nothing for 8 seconds"),
           "one that waits for ever: %s", verdict(f, 0));
}

static void check_listing(tap_run *tap, found *f) {
    list_as(tap, GPU "crash=list", SECONDS, f);
    tap_ok(tap,
           host_is_first(f) && f->count == 2 &&
               strstr(f->heard.warning, "listed the OpenCL devices was ended by "
                                        "signal 6 (Aborted)") &&
               strstr(f->heard.warning, "OCL_ICD_VENDORS"),
           "a crash while devices are listed leaves the host: %s", f->heard.warning);
    list_as(tap, GPU "hang=list", 2, f);
    tap_ok(tap,
           host_is_first(f) && f->count == 2 &&
               strstr(f->heard.warning, "listed the OpenCL devices said nothing for 2"),
           "a wait likewise: %s", f->heard.warning);
}

/* A device whose properties cannot be read costs one warning, even if a second process lists the devices again. */
static void check_skipped(tap_run *tap, found *f) {
    static const char *const drivers[] = {GPU "fail-info=1", GPU "fail-info=1;crash=open;of=0"};

    for (size_t i = 0; i < 2; i++) {
        list_as(tap, drivers[i], SECONDS, f);
        tap_ok(tap, f->heard.warnings == 1 && strstr(f->heard.warning, ".1 is skipped: clGetDeviceInfo"),
               "%zu warning: %s", f->heard.warnings, f->heard.warning);
    }
}

static void check_limit(tap_run *tap) {
    icl_device *devices = NULL;
    icl_error error = {0};
    size_t count = 0;

    tap_ok(tap,
           icl_devices_list_apart(NULL, 0, &devices, &count, &error) == ICL_ERROR_INPUT && !devices &&
               strstr(error.message, "0 seconds"),
           "no limit is refused: %s", error.message);
}

/* ---- "auto" ---- */

/* Returns the spec of the device that "auto" opens. */
static const char *choose_as(tap_run *tap, const char *driver, double seconds, heard *h, char spec[ICL_NAME_CAPACITY]) {
    icl_backend *backend = NULL;
    icl_error error = {0};

    *h = (heard){0};
    spec[0] = '\0';
    setenv(VARIABLE, driver, 1);
    tap_status(tap,
               icl_backend_open(&(icl_backend_params){.log = {record, h, ICL_LOG_INFO}, .trial_seconds = seconds},
                                &backend, &error),
               &error, driver);
    if (backend)
        snprintf(spec, ICL_NAME_CAPACITY, "%s", icl_backend_capabilities(backend)->spec);
    icl_backend_close(&backend);
    return spec;
}

static void check_auto(tap_run *tap) {
    char spec[ICL_NAME_CAPACITY], again[ICL_NAME_CAPACITY];
    heard h;

    tap_ok(tap,
           strcmp(choose_as(tap, GPU "crash=open;of=1", SECONDS, &h, spec), "cpu") == 0 &&
               strstr(h.warning, "auto: chose cpu, because the process that tried opencl:") &&
               strstr(h.warning, ".1 (Planted GPU) was ended by signal 6"),
           "auto, a crash: %s", h.warning);
    tap_ok(tap,
           strcmp(choose_as(tap, GPU "hang=open", FEW_SECONDS, &h, spec), "cpu") == 0 &&
               strstr(h.warning, ".0 (Planted GPU) said nothing for 8 seconds"),
           "auto, a wait: %s", h.warning);
    tap_ok(tap,
           strcmp(choose_as(tap, GPU "crash=list", SECONDS, &h, spec), "cpu") == 0 &&
               strstr(h.warning, "listed the OpenCL devices was ended by signal 6") &&
               strstr(h.warning, "OCL_ICD_VENDORS"),
           "auto, a crash while devices are listed: %s", h.warning);
    tap_ok(tap,
           strcmp(choose_as(tap, "name=Planted CPU", SECONDS, &h, spec), "cpu") == 0 && !h.warning[0] &&
               strcmp(h.chose, "auto: chose cpu, because there is no OpenCL GPU") == 0,
           "auto, no GPU: %s", h.chose);
    choose_as(tap, GPU, SECONDS, &h, spec);
    tap_ok(tap, strstr(h.chose, "a short step took") && strstr(h.chose, "; remembered") && strstr(h.chose, spec),
           "auto, good devices: %s", h.chose);
    choose_as(tap, GPU, SECONDS, &h, again);
    tap_ok(tap, strstr(h.chose, "; measured on 20") && strcmp(spec, again) == 0, "again: %s", h.chose);
}

/* Tests the choice that "auto" makes, which is never PoCL's OpenCL here, since that is slower; and how it is opened. */
static void check_choice(tap_run *tap) {
    const icl_backend_params params = {.trial_seconds = SECONDS};
    char spec[ICL_NAME_CAPACITY] = "unset";
    icl_backend *backend = NULL;
    icl_error error = {0};

    setenv(VARIABLE, "name=Planted CPU", 1);
    tap_status(tap, icl_trial_choose(&params, spec, &error), &error, "a choice");
    tap_ok(tap, strcmp(spec, "cpu") == 0, "it is told: %s", spec);
    tap_ok(tap,
           icl_open_exactly(&params, "opencl:97.1", &backend, &error) == ICL_ERROR_DEVICE && !backend &&
               strstr(error.message, "opencl:97.1 is no longer there"),
           "a device that went away: %s", error.message);
    for (int platform = 0; platform < 8 && !backend; platform++) {
        snprintf(spec, sizeof spec, "opencl:%d.1", platform);
        (void)icl_open_exactly(&params, spec, &backend, NULL);
    }
    tap_ok(tap, backend && strcmp(icl_backend_capabilities(backend)->spec, spec) == 0, "the second device: %s", spec);
    icl_backend_close(&backend);
}

int main(void) {
    tap_run tap = {0};
    scratch_folder scratch;
    found f = {0};

    scratch_open(&scratch);
    setenv("ICLAB_CACHE_DIR", scratch.folder, 1);
    setenv("POCL_DEVICES", "basic basic", 1);
    unsetenv("RUSTICL_ENABLE"); /* another driver's devices would take their time at each trial */
    check_limit(&tap);
    list_as(&tap, GPU, SECONDS, &f);
    if (f.count == 2) {
        tap_skip(&tap, "drivers that crash", "no PoCL here");
    } else {
        check_lists(&tap, &f);
        check_listing(&tap, &f);
        check_skipped(&tap, &f);
        check_auto(&tap);
        check_choice(&tap);
    }
    icl_devices_free(&f.devices);
    scratch_close(&scratch);
    return tap_done(&tap);
}
