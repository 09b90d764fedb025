/*
 * A contest times the ways of an op on a device once for each class of sizes, and keeps the faster one as a choice,
 * which every backend takes that is opened on this device. Times decide nothing else: the bits of a training follow
 * from the device, the seed and the choices, which its run records.
 */
#ifndef ICLAB_DEVICE_SIZE_CONTEST_H
#define ICLAB_DEVICE_SIZE_CONTEST_H

#include "backend/contract.h"
#include "iclab/backend.h"
#include "iclab/text.h"

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
