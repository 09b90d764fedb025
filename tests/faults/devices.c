/* Allocations of the process that lists the devices fail, one after the other, also when the first of two devices is
 * already there. The child process that tries the devices is spared. */
#include <pthread.h>

#include "attempts.h"
#include "core/allocate.h"
#include "device/device.h"
#include "faults.h"

#define SECONDS 120.

typedef struct listing {
    icl_device *devices;
    size_t count, expected;
} listing;

static icl_status list(void *context, icl_error *error) {
    listing *l = context;

    l->devices = NULL;
    l->count = 0;
    return icl_trial_list(NULL, SECONDS, &l->devices, &l->count, error);
}

static bool are_expected(const void *context) {
    const listing *l = context;
    return l->count == l->expected;
}

static void clear(void *context) {
    listing *l = context;
    icl_free(&l->devices);
}

/* A list of devices is complete, or there is none: each allocation before the first device is opened fails in turn. */
static void check_whole_list(tap_run *tap) {
    icl_device *devices = NULL;
    size_t whole = 0, count = 0;
    unsigned reported = 0, cut = 0;
    icl_status status = ICL_ERROR_MEMORY;
    icl_error error = {0};

    if (!tap_status(tap, icl_devices_list(NULL, &devices, &whole, &error), &error, "devices"))
        return;
    icl_devices_free(&devices);
    for (uint64_t nth = 1; status == ICL_ERROR_MEMORY; nth++) {
        fault_arm(FAULT_ALLOCATION, nth, false);
        status = icl_devices_list(NULL, &devices, &count, &error);
        fault_disarm();
        reported += status == ICL_ERROR_MEMORY;
        cut += status == ICL_OK && count != whole;
        icl_devices_free(&devices);
    }
    tap_ok(tap, status == ICL_OK && reported > 0 && cut == 0, "%u faults reported before a list of all %zu devices",
           reported, whole);
}

void fault_devices(tap_run *tap) {
    listing l = {0};
    icl_error error = {0};
    const fault_work work = {.attempt = list, .as_expected = are_expected, .clear = clear, .context = &l};

    setenv("POCL_DEVICES", "basic basic", 1);
    unsetenv("RUSTICL_ENABLE"); /* another driver's devices would take their time at each trial */
    pthread_atfork(NULL, NULL, fault_disarm);
    tap_status(tap, list(&l, &error), &error, "the list");
    l.expected = l.count;
    clear(&l);
    if (l.expected < 2)
        tap_skip(tap, "two devices", "no OpenCL driver has two here");
    else
        fault_check(tap, &work, FAULT_ALLOCATION, false);
    check_whole_list(tap);
}
