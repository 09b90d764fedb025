/* Declarations that the files of this room share with each other, with the command and with tests. */
#ifndef ICLAB_DEVICE_DEVICE_H
#define ICLAB_DEVICE_DEVICE_H

#include <stddef.h>

#include "backend/contract.h"
#include "iclab/backend.h"
#include "iclab/text.h"

/* ---- Opening and listing (device.c) ---- */

/* Opens the OpenCL device of exactly this spec. */
icl_status icl_open_exactly(const icl_backend_params *params, const char *spec, icl_backend **backend,
                            icl_error *error);

/* Chooses in a child process the device that "auto" takes, and logs the choice. *device is "cpu" if a driver ended that
 * process, which is logged as well. */
icl_status icl_trial_choose(const icl_backend_params *params, char device[ICL_NAME_CAPACITY], icl_error *error);

/* Lists every OpenCL device with the verdict of its self-test. If a device ends the child process, another process
 * tries the devices that are left. *devices is freed with icl_free. */
icl_status icl_trial_list(const icl_log *log, double seconds, icl_device **devices, size_t *count, icl_error *error);

/* ---- The fastest of several devices (auto.c) ---- */

/*
 * A contest finds the fastest of several devices: each is measured once, and the answer is remembered for as long as
 * everything that names the devices stays the same. The contest knows neither devices nor clocks: its caller measures,
 * with the short step below.
 */

typedef struct icl_contestant {
    const char *name;     /* for the log */
    const char *identity; /* the device with its driver and versions; if any of these differs, it is another device */
} icl_contestant;

typedef struct icl_contest {
    const char *title;                 /* begins the log's lines: "auto" */
    const icl_contestant *contestants; /* the last one is chosen if the others fail */
    size_t count;                      /* > 0 */
    /* Sets *seconds to the time of a short step of contestant i. A contestant that fails is left out. */
    icl_status (*measure)(void *context, size_t i, double *seconds, icl_error *error);
    void *context;
    const char *folder; /* holds the remembered answers, see core/cache.h; NULL: nothing is remembered */
    const char *today;  /* the date that the log will give for this answer */
    icl_log log;
} icl_contest;

/*
 * Sets *fastest, the first of those that are equally fast, and logs why. It logs contestants that fail and leaves
 * them out; if all others fail, it does not measure the last one. It remembers the answer if none failed. *remembered,
 * unless NULL, says whether *fastest was remembered; with `anew` it never is. Returns the error of the last contestant
 * if all failed.
 */
icl_status icl_contest_run(const icl_contest *contest, bool anew, size_t *fastest, bool *remembered, icl_error *error);

/* Composes the key under which an answer is remembered, in new memory. */
icl_status icl_contest_key(const icl_contestant *contestants, size_t count, char **key, icl_error *error);

/* Measures the seconds of a short training step on the device, the best of a few after one that compiles and warms up.
 * It takes half a second in all if nothing has to be compiled. The counters stay as they are. */
icl_status icl_time_short_step(icl_backend *backend, double *seconds, icl_error *error);

/* ---- The faster way of an op, by classes of sizes (size_contest.c) ---- */

/*
 * A contest times the ways of an op on a device once for each class of sizes, and keeps the faster one as a choice,
 * which every backend takes that is opened on this device. Times decide nothing else: the bits of a training follow
 * from the device, the seed and the choices, which its run records.
 */

/* The times of one class. */
typedef struct icl_contest_row {
    char choice[32];            /* its name */
    char ways[2][32];           /* the device's own way first */
    icl_sizes sizes;            /* that stand for the class */
    double seconds[2], variant; /* of the ways, and of the second with the variant; 0: not measured */
    char variant_name[32];      /* "" if there is none */
    bool is_second;             /* the second way was chosen */
} icl_contest_row;

/* Receives the row of a class that was timed; NULL: the contest goes on. */
typedef void icl_contest_listener(void *user, const icl_contest_row *row);

/*
 * Times the ways of an OpenCL device in a child process, as icl_devices_list_apart tries devices and under its
 * conditions, and keeps the choices. The second way of a class is chosen where it takes less than .9 of the first one's
 * time. `tell` receives the classes in order; a device without choices has none. ICL_ERROR_DEVICE if the device fails,
 * or ends the process.
 */
icl_status icl_contest_sizes(const char *spec, double trial_seconds, icl_contest_listener *tell, void *user,
                             icl_error *error);

/* Times the ways of an open device, which then has the choices; writes their words. */
icl_status icl_contest_run_sizes(icl_backend *backend, icl_contest_listener *tell, void *user, icl_text *words,
                                 icl_error *error);

#endif
