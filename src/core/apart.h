/*
 * Work in a process apart, whose crash or endless wait costs the answer and nothing else. It sends messages, each of
 * the same size, through a pipe.
 *
 * The process is a fork: of this process's threads it has the caller's alone. So a library that keeps threads, as
 * OpenCL drivers and OpenMP do, must not have been used here before. In a process that ignores SIGCHLD every end counts
 * as an exit: the system does not say how its children ended.
 */
#ifndef ICLAB_CORE_APART_H
#define ICLAB_CORE_APART_H

#include <stddef.h>

#include "iclab/status.h"

typedef struct icl_apart icl_apart;

typedef struct icl_apart_params {
    const char *title; /* of errors: what the process does, such as "the trial of drivers" */
    size_t size;       /* bytes of a message */
    double seconds;    /* without a message, after which the process is killed; 0: no limit */
    void (*work)(icl_apart *apart, void *context);    /* in the process apart, which ends with it */
    void (*hear)(void *context, const void *message); /* here, for each message in turn */
    void *context;
} icl_apart_params;

typedef enum icl_apart_end {
    ICL_APART_DONE = 0,  /* work returned */
    ICL_APART_EXITED,    /* something in it called exit */
    ICL_APART_SIGNALLED, /* a signal ended it */
    ICL_APART_SILENT,    /* it was killed for its silence */
} icl_apart_end;

/* How it ended, and in words that follow the process's name: "was ended by signal 11 (Segmentation fault)". */
typedef struct icl_apart_outcome {
    icl_apart_end end;
    char words[128];
} icl_apart_outcome;

/* Runs the work to its end, whatever that is. ICL_ERROR_IO where no process can be started, ICL_ERROR_INTERRUPTED when
 * SIGINT, SIGTERM or SIGHUP ended it: they have their usual effect there. */
icl_status icl_apart_run(const icl_apart_params *params, icl_apart_outcome *outcome, icl_error *error);

/* Sends one message, from the process apart. */
void icl_apart_send(icl_apart *apart, const void *message);

#endif
