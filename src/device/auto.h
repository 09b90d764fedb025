/*
 * Which of several devices is the fastest: each is measured once, and the answer is remembered for as long as
 * everything that names the devices stays the same. The contest knows neither devices nor clocks: its caller measures,
 * with the short step below.
 */
#ifndef ICLAB_DEVICE_AUTO_H
#define ICLAB_DEVICE_AUTO_H

#include <stddef.h>

#include "iclab/backend.h"

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

#endif
