/* Ranks by MPI (core/ranks.h): the one place that knows of it. */
#ifndef ICLAB_TOOLS_RANKS_H
#define ICLAB_TOOLS_RANKS_H

#include "iclab/ranks.h"

/* Joins the processes that a launcher (mpirun, srun) started with this one. One that was started alone is alone, and
 * MPI, even where it is built in, is not touched. ICL_ERROR_INPUT under a launcher of several processes where this
 * build has no MPI. */
icl_status ranks_join(icl_ranks *ranks, icl_error *error);

/* Waits for the other ranks, at little cost, and leaves. Nothing before ranks_join. */
void ranks_leave(icl_ranks *ranks);

/* How many processes the launcher started, as its environment variables have it; 0 without a launcher. */
size_t ranks_launched(void);

#endif
