/* Which processes work on a sweep or on a reproduction's trainings, and on which devices. */
#ifndef ICLAB_TOOLS_WORKER_PLAN_H
#define ICLAB_TOOLS_WORKER_PLAN_H

#include "command.h"
#include "iclab/backend.h"
#include "iclab/ranks.h"

enum { MOST_WORKERS = 1024 };

/* Of this process: zero to begin with, released with worker_plan_release. */
typedef struct worker_plan {
    size_t count;
    char (*specs)[ICL_NAME_CAPACITY]; /* [count] */
} worker_plan;

/* What the plan is made from. */
typedef struct worker_wishes {
    const char *command;          /* for messages */
    const device_options *device; /* --device SPEC,SPEC */
    const option_count *workers;  /* --workers N */
    size_t left;                  /* pieces of work */
    const icl_ranks *ranks;
} worker_wishes;

/* But for the spec. */
icl_backend_params worker_device(const device_options *device);

icl_status worker_plan_make(const worker_wishes *wishes, worker_plan *plan, icl_error *error);
void worker_plan_release(worker_plan *plan);

/* ICL_ERROR_INPUT for a --workers that is none. */
icl_status check_workers(const char *command, const option_count *workers, icl_error *error);

#endif
