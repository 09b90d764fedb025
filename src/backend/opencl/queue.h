/*
 * The queue of the OpenCL backend: one in-order queue for each device, the hook by which waiting operations join it in
 * time, writes to device memory, and the time that kernels take. Events are kept only of writes and to measure.
 */
#ifndef ICLAB_BACKEND_OPENCL_QUEUE_H
#define ICLAB_BACKEND_OPENCL_QUEUE_H

#include "backend/opencl/device.h"

#define ICL_PROFILE_EVENTS 512

/* Events of the kernels queued since the last wait. */
typedef struct icl_profile {
    bool on;
    size_t count;
    cl_event events[ICL_PROFILE_EVENTS];
    size_t ops[ICL_PROFILE_EVENTS]; /* the row of icl_op_times that each belongs to */
} icl_profile;

#define ICL_STAGED_WRITES 16

/* Memory of the host, of the driver's kind, out of which the device takes writes when their turn in the queue comes, so
 * that the host goes on at once. Regions follow each other, and begin anew at the end. */
typedef struct icl_staging {
    cl_mem memory;
    char *bytes; /* [capacity], mapped; NULL: there is none yet */
    size_t capacity, next;
    bool refused; /* the driver gives none: writes wait */
    size_t oldest, count;
    struct icl_staged_write {
        size_t begin, end;
        cl_event written;
    } writes[ICL_STAGED_WRITES]; /* not known to be done: `count` of them from `oldest` on */
} icl_staging;

/* The queue of a device, and what waits to join it. */
typedef struct icl_queue {
    cl_command_queue handle;
    unsigned launches; /* since the last clFlush */
    icl_profile profile;
    icl_staging staging;
    /* Queues the operations that wait in the list of small.c, and clears itself; NULL: none waits. */
    icl_status (*flush)(icl_opencl *opencl, icl_error *error);
} icl_queue;

/* Keeps the order of all work: it is called before anything joins the queue, and before memory that waiting operations
 * may name goes back to the driver. */
static inline icl_status icl_queue_flush(icl_opencl *opencl, icl_error *error) {
    return opencl->queue->flush ? opencl->queue->flush(opencl, error) : ICL_OK;
}

/* Queues a write of `bytes` bytes to memory of the device, from the byte `offset` on, after all waiting operations. The
 * source may be changed at once. Only a long write waits for the device. */
icl_status icl_queue_write(icl_opencl *opencl, cl_mem memory, size_t offset, size_t bytes, const void *source,
                           icl_error *error);

/* Sets *event to where the next kernel's event goes, NULL without profiling. */
icl_status icl_profile_next(icl_opencl *opencl, cl_event **event, icl_error *error);

/* Counts a kernel that was queued with that event: as one of the op that is being issued, or of small operations. */
void icl_profile_add(icl_opencl *opencl, const cl_event *event, bool is_small);

/* Waits, and adds the kernels' times to the statistics. */
icl_status icl_profile_collect(icl_opencl *opencl, icl_error *error);

/* Frees the memory of writes and all events; the queue is empty. */
void icl_queue_release(icl_opencl *opencl);

#endif
