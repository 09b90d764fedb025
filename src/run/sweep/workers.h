/* Worker processes on one machine, each with a device of its own; of sweeps and of reproductions. */
#ifndef ICLAB_RUN_SWEEP_WORKERS_H
#define ICLAB_RUN_SWEEP_WORKERS_H

#include <signal.h>
#include <stddef.h>

#include "iclab/backend.h"
#include "iclab/status.h"

typedef struct icl_workers {
    icl_backend_params device;                  /* but for spec */
    size_t count;                               /* processes */
    const char (*specs)[ICL_NAME_CAPACITY];     /* [count]: each worker's device */
    const volatile sig_atomic_t *stop;          /* passed on to the workers; may be NULL */
    void (*fail)(void *user, const char *text); /* why a worker gives up, one line; may be NULL */
    void *user;                                 /* handed to fail */
    /* What each of them does with its device. parent: the process that it must not outlive; 0: it runs in this one. */
    icl_status (*work)(const void *context, icl_backend *backend, long parent, icl_error *error);
    const void *context;
} icl_workers;

/* Runs `work` in `count` processes; with one in this process. The process must have no device open and no threads. The
 * first worker's failure becomes the call's, after the others have finished what they can. ICL_ERROR_INTERRUPTED when
 * one was stopped. */
icl_status icl_workers_run(const icl_workers *workers, icl_error *error);

#endif
