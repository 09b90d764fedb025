/*
 * Runs work in a child process, so that a crash or an endless wait there costs only the result. The child sends
 * messages of one size through a pipe.
 *
 * The child is a fork and has only the calling thread. So a library that keeps threads, as OpenCL drivers and OpenMP
 * do, must not have been used in this process before. If this process ignores SIGCHLD, every end counts as an exit,
 * because the system does not report how children ended.
 */
#ifndef ICLAB_CORE_SUBPROCESS_H
#define ICLAB_CORE_SUBPROCESS_H

#include <stddef.h>

#include "iclab/status.h"

typedef struct icl_subprocess icl_subprocess;

typedef struct icl_subprocess_params {
    const char *title; /* what the process does, for errors: "the trial of drivers" */
    size_t size;       /* bytes of a message */
    double seconds;    /* the process is killed after this time without a message; 0: no limit */
    void (*work)(icl_subprocess *child, void *context); /* called in the child, which ends with it */
    void (*hear)(void *context, const void *message);   /* called in the parent for each message */
    void *context;
} icl_subprocess_params;

typedef enum icl_subprocess_end {
    ICL_SUBPROCESS_DONE = 0,  /* work returned */
    ICL_SUBPROCESS_EXITED,    /* the work, or a library, called exit */
    ICL_SUBPROCESS_SIGNALLED, /* a signal ended it */
    ICL_SUBPROCESS_SILENT,    /* killed because it was silent for too long */
} icl_subprocess_end;

/* How the process ended, and words for it that follow the process's name: "was ended by signal 11 (Segmentation
 * fault)". */
typedef struct icl_subprocess_outcome {
    icl_subprocess_end end;
    char words[128];
} icl_subprocess_outcome;

/* Runs the work until the process ends, in any way. ICL_ERROR_IO if no process can be started. ICL_ERROR_INTERRUPTED if
 * SIGINT, SIGTERM or SIGHUP ended the child, where these signals have their default effect. */
icl_status icl_subprocess_run(const icl_subprocess_params *params, icl_subprocess_outcome *outcome, icl_error *error);

/* Sends one message, from the child process. */
void icl_subprocess_send(icl_subprocess *child, const void *message);

#endif
