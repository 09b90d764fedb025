/*
 * Work in a child process, whose crash or endless wait costs the answer and nothing else. It sends messages, each of
 * the same size, through a pipe.
 *
 * The process is a fork: of this process's threads it has the caller's alone. So a library that keeps threads, as
 * OpenCL drivers and OpenMP do, must not have been used here before. In a process that ignores SIGCHLD every end counts
 * as an exit: the system does not say how its children ended.
 */
#ifndef ICLAB_CORE_SUBPROCESS_H
#define ICLAB_CORE_SUBPROCESS_H

#include <stddef.h>

#include "iclab/status.h"

typedef struct icl_subprocess icl_subprocess;

typedef struct icl_subprocess_params {
    const char *title; /* of errors: what the process does, such as "the trial of drivers" */
    size_t size;       /* bytes of a message */
    double seconds;    /* without a message, after which the process is killed; 0: no limit */
    void (*work)(icl_subprocess *child, void *context); /* in the child process, which ends with it */
    void (*hear)(void *context, const void *message);   /* here, for each message in turn */
    void *context;
} icl_subprocess_params;

typedef enum icl_subprocess_end {
    ICL_SUBPROCESS_DONE = 0,  /* work returned */
    ICL_SUBPROCESS_EXITED,    /* something in it called exit */
    ICL_SUBPROCESS_SIGNALLED, /* a signal ended it */
    ICL_SUBPROCESS_SILENT,    /* it was killed for its silence */
} icl_subprocess_end;

/* How it ended, and in words that follow the process's name: "was ended by signal 11 (Segmentation fault)". */
typedef struct icl_subprocess_outcome {
    icl_subprocess_end end;
    char words[128];
} icl_subprocess_outcome;

/* Runs the work to its end, whatever that is. ICL_ERROR_IO where no process can be started, ICL_ERROR_INTERRUPTED when
 * SIGINT, SIGTERM or SIGHUP ended it: they have their usual effect there. */
icl_status icl_subprocess_run(const icl_subprocess_params *params, icl_subprocess_outcome *outcome, icl_error *error);

/* Sends one message, from the child process. */
void icl_subprocess_send(icl_subprocess *child, const void *message);

#endif
