/*
 * Allocations and ops of the short step that devices are compared by fail, one for each path of calls that leads to
 * one. Each time the outcome is an error of one line, or for an allocation that of no fault, and nothing is held
 * afterwards.
 */
#include "attempts.h"
#include "core/allocate.h"
#include "device/short_step.h"

static icl_status tell(void *context, char **text, icl_error *error) {
    icl_backend *backend = NULL;
    double seconds = 0;
    icl_status status = ICL_OK;

    (void)context;
    ICL_TRY(icl_backend_open(&(icl_backend_params){.spec = "cpu:threads=1"}, &backend, error));
    ICL_TRY(icl_time_short_step(backend, &seconds, error));
    ICL_TRY(icl_allocate(2, 1, "an answer", text, error));
    **text = seconds > 0 ? 'y' : 'n';
done:
    icl_backend_close(&backend);
    return status;
}

int main(void) {
    tap_run tap = {0};

    fault_check_branches(&tap, tell, NULL, FAULT_ALLOCATION, "a short step");
    fault_check_branches(&tap, tell, NULL, FAULT_OP, "a short step");
    return tap_done(&tap);
}
