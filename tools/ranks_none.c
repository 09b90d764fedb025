/* Built without MPI. */
#include "workers.h"

icl_status ranks_join(icl_ranks *ranks, icl_error *error) {
    const size_t launched = ranks_launched();

    *ranks = icl_ranks_alone();
    if (launched > 1)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "started as one of %zu processes, but built without MPI: expected one process, or a "
                        "build with -Dmpi=enabled",
                        launched);
    return ICL_OK;
}

void ranks_leave(icl_ranks *ranks) {
    *ranks = icl_ranks_alone();
}
