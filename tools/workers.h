/* Processes that work together: workers of a sweep or of the trainings of a study, and ranks by MPI. */
#ifndef ICLAB_TOOLS_WORKERS_H
#define ICLAB_TOOLS_WORKERS_H

#include "command.h"
#include "iclab/backend.h"
#include "iclab/ranks.h"

/* ---- Worker processes ---- */

/* The plan says which processes work on a sweep or on the trainings of a study, and on which devices. */

enum { MOST_WORKERS = 1024 };

/* The plan of this process: zero to begin with, released with worker_plan_release. */
typedef struct worker_plan {
    size_t count;
    char (*specs)[ICL_NAME_CAPACITY]; /* [count] */
} worker_plan;

/* The wishes that the plan is made from. */
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

/* ---- Ranks ---- */

/* Ranks by MPI (core/ranks.h): the one place that knows of it. */

/* Joins the processes that a launcher (mpirun, srun) started with this one. One that was started alone is alone, and
 * MPI, even where it is built in, is not touched. ICL_ERROR_INPUT under a launcher of several processes where this
 * build has no MPI. */
icl_status ranks_join(icl_ranks *ranks, icl_error *error);

/* Waits for the other ranks, at little cost, and leaves. Nothing before ranks_join. */
void ranks_leave(icl_ranks *ranks);

/* Returns how many processes the launcher started, as its environment variables have it; 0 without a launcher. */
size_t ranks_launched(void);

/* Ends work that the same command goes on with: says so where it was stopped, reports a failure on the first rank
 * alone, and leaves the ranks. Returns the exit code; it is `code` where nothing failed. */
int end_shared_work(icl_ranks *ranks, icl_status status, const icl_error *error, int code);

#endif
