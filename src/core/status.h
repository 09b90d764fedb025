/* Making and passing on errors. */
#ifndef ICLAB_CORE_STATUS_H
#define ICLAB_CORE_STATUS_H

#include "iclab/status.h"

/* Fills error (which may be NULL) and returns the status, so that a failure reads `return icl_fail(error, …)`. */
icl_status icl_fail(icl_error *error, icl_status status, const char *format, ...) ICL_PRINTF(3, 4);

/* Runs a call; on failure leaves for the function's cleanup. Needs `icl_status status` and a label `done`. */
#define ICL_TRY(call)                                                                                        \
    do {                                                                                                     \
        status = (call);                                                                                     \
        if (status != ICL_OK)                                                                                \
            goto done;                                                                                       \
    } while (0)

#endif
