/* Processes that work together: workers of a sweep or of the trainings of a study, and ranks by MPI. */
#ifndef ICLAB_TOOLS_WORKERS_H
#define ICLAB_TOOLS_WORKERS_H

#include "command.h"
#include "iclab/backend.h"
#include "iclab/ranks.h"

/* ---- Worker processes ---- */

/* A plan says which processes work on a sweep or on the trainings of a study, and on which devices. */

enum { MOST_WORKERS = 1024 };

/* The plan of this process: zero at the beginning, released with worker_plan_release. */
typedef struct worker_plan {
    size_t count;
    char (*specs)[ICL_NAME_CAPACITY]; /* [count] */
} worker_plan;

/* The wishes from which the plan is made. */
typedef struct worker_wishes {
    const char *command;          /* for messages */
    const device_options *device; /* --device SPEC,SPEC */
    const option_count *workers;  /* --workers N */
    size_t left;                  /* pieces of work */
    const icl_ranks *ranks;
} worker_wishes;

/* Makes the parameters of a worker's device, without its spec. */
icl_backend_params worker_device(const device_options *device);

icl_status worker_plan_make(const worker_wishes *wishes, worker_plan *plan, icl_error *error);
void worker_plan_release(worker_plan *plan);

/* ICL_ERROR_INPUT if --workers is not a valid number. */
icl_status check_workers(const char *command, const option_count *workers, icl_error *error);

/* ---- Ranks ---- */

/* Ranks by MPI (core/ranks.h). No other file knows of MPI. */

/* Joins the processes that a launcher (mpirun, srun) started with this one. A process that was started alone has no
 * other ranks, and does not touch MPI even if it is built in. ICL_ERROR_INPUT under a launcher of several processes if
 * this build has no MPI. */
icl_status ranks_join(icl_ranks *ranks, icl_error *error);

/* Waits for the other ranks, at little cost, and leaves. Does nothing before ranks_join. */
void ranks_leave(icl_ranks *ranks);

/* Returns how many processes the launcher started, according to its environment variables; 0 without a launcher. */
size_t ranks_launched(void);

/* Ends shared work of a command: says if it was stopped, reports a failure only on the first rank, and leaves the
 * ranks. Returns the exit code, which is `code` if nothing failed. */
int end_shared_work(icl_ranks *ranks, icl_status status, const icl_error *error, int code);

#endif
