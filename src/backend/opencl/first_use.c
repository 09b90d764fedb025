/*
 * Tests of programs at their first use: before an op whose program is newly compiled gives any answer of its own, its
 * answers are compared with known ones. The room `device` chooses these; see icl_self_test.
 */
#include <string.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/queue.h"

/* Refuses a device that computes wrongly, unless the user accepts failed devices. */
static icl_status check(icl_opencl *opencl, icl_tested which, icl_error *error) {
    icl_status status = opencl->programs->self_test(opencl->backend, which, error);

    /* A binary from disk is the first suspect: the driver may have changed under an unchanged version. */
    if (status == ICL_ERROR_DEVICE && opencl->programs->cache.loaded > 0) {
        icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s; compiling again from source", error->message);
        icl_opencl_release_programs(opencl);
        opencl->programs->cache.distrusted = true;
        if (opencl->clblast->state == ICL_CLBLAST_SERVES)
            opencl->clblast->state = ICL_CLBLAST_UNTESTED;
        status = opencl->programs->self_test(opencl->backend, which, error);
    }
    if (status != ICL_ERROR_DEVICE || !opencl->accepts_failed)
        return status;
    icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s; used nevertheless", error->message);
    return ICL_OK;
}

/* Runs `check` without counting what the self-test launches in the statistics. A way that was chosen stays chosen: the
 * self-test chooses others. */
static icl_status check_uncounted(icl_opencl *opencl, icl_tested which, icl_error *error) {
    icl_backend_statistics *statistics = &opencl->backend->statistics, before;
    icl_op_times *times = opencl->backend->times;
    icl_op_times times_before = {0};
    bool launched[ICL_KERNEL_COUNT];
    unsigned forced[ICL_CHOICE_COUNT];

    ICL_CHECK(icl_profile_collect(opencl, error));
    before = *statistics;
    if (times)
        times_before = *times;
    memcpy(launched, opencl->launcher->launched, sizeof launched);
    memcpy(forced, opencl->forced, sizeof forced);
    const icl_status status = check(opencl, which, error);
    memcpy(opencl->forced, forced, sizeof forced);
    ICL_CHECK(status);
    ICL_CHECK(icl_profile_collect(opencl, error));
    statistics->ops = before.ops;
    statistics->launches = before.launches;
    statistics->device_seconds = before.device_seconds;
    if (times)
        *times = times_before;
    memcpy(opencl->launcher->launched, launched, sizeof launched);
    return ICL_OK;
}

icl_status icl_opencl_test_program(icl_opencl *opencl, icl_tested which, icl_error *error) {
    bool *tested = &opencl->programs->tested[which];
    icl_status status;

    if (*tested)
        return ICL_OK;
    *tested = true;
    status = check_uncounted(opencl, which, error);
    *tested = status == ICL_OK;
    return status;
}
