/*
 * Work that several processes share: items of sweeps and of reproductions, each of which is done once.
 *
 * Nobody assigns items. A process takes the lock of an item in claims/, does the item, and goes on with the next; it
 * waits for items that others hold. Locks end with their process, so that the item of a dead worker is free at once.
 */
#ifndef ICLAB_RUN_SWEEP_WORK_H
#define ICLAB_RUN_SWEEP_WORK_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/file.h"
#include "iclab/backend.h"
#include "iclab/session.h"
#include "iclab/status.h"

/* ---- Lists of work ---- */

typedef enum icl_item_state {
    ICL_ITEM_OPEN = 0, /* it can be done now */
    ICL_ITEM_WAITING,  /* it starts from another item, which is not finished */
    ICL_ITEM_FINISHED,
} icl_item_state;

struct icl_work_stop;

typedef struct icl_work_list {
    size_t count;
    const char *noun; /* the items' name for people: "cells" */
    /* Sets *state to what the folder says about an item. Called once more when its lock is held, because its former
     * holder may have finished it. */
    icl_status (*look)(void *context, size_t item, icl_item_state *state, icl_error *error);
    /* Takes the item's lock; *lock stays NULL if another process holds it. */
    icl_status (*claim)(void *context, size_t item, icl_lock **lock, icl_error *error);
    /* Finishes the item. Gives its sessions icl_work_look as their report, `stop` as its user, and stop->stop. */
    icl_status (*work)(void *context, size_t item, struct icl_work_stop *stop, icl_error *error);
    void *context;
    const volatile sig_atomic_t *stop;         /* asks all of the work to stop; may be NULL */
    long parent;                               /* the process that this one must not outlive; 0: none */
    void (*say)(void *user, const char *text); /* receives progress, one line; may be NULL */
    void *user;                                /* passed to say */
} icl_work_list;

/* The stop flag of the sessions of a list of work. */
typedef struct icl_work_stop {
    const icl_work_list *list;
    volatile sig_atomic_t stop; /* read by sessions */
} icl_work_stop;

/* Checks whether the work is to stop: because somebody asked, or because the parent is gone and nobody would see the
 * work go on. `stop` is an icl_work_stop; progress is not read and may be NULL. */
void icl_work_look(void *stop, const icl_session_progress *progress);

/* Counts the items that are not finished. */
icl_status icl_work_count(const icl_work_list *list, size_t *unfinished, icl_error *error);

/* Does items until all are finished, those of other processes included. ICL_ERROR_INTERRUPTED when stopped. */
icl_status icl_work_finish(const icl_work_list *list, icl_error *error);

/* ---- Worker processes on one machine, each with a device of its own ---- */

typedef struct icl_workers {
    icl_backend_params device;                  /* spec is not read */
    size_t count;                               /* processes */
    const char (*specs)[ICL_NAME_CAPACITY];     /* [count]: each worker's device */
    const volatile sig_atomic_t *stop;          /* passed on to the workers; may be NULL */
    void (*fail)(void *user, const char *text); /* receives why a worker gives up, one line; may be NULL */
    void *user;                                 /* passed to fail */
    /* The work of each worker, with its device. parent: the process that it must not outlive; 0: it runs in this
     * one. */
    icl_status (*work)(const void *context, icl_backend *backend, long parent, icl_error *error);
    const void *context;
} icl_workers;

/* Runs `work` in `count` processes; with a count of 1 in this process. The process must have no device open and no
 * threads. The first worker's failure becomes the call's, after the others have finished what they can.
 * ICL_ERROR_INTERRUPTED when one was stopped. */
icl_status icl_workers_run(const icl_workers *workers, icl_error *error);

#endif
