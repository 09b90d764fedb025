/*
 * The self-test: known answers on the way that users' work takes, by the same op functions, kernels and pool. Drivers
 * have shipped with compilers that give wrong numbers and no error; such a device is refused.
 *
 * It stands above the ops. An op whose program is tested at its first use asks by icl_opencl_test_program, and matmul
 * by icl_clblast: pointers, which open.c sets to the functions here.
 */
#include <string.h>

#include "backend/opencl/clblast.h"
#include "backend/opencl/launch.h"
#include "backend/opencl/queue.h"
#include "backend/opencl/selftest.h"

typedef icl_status self_test(icl_opencl *opencl, icl_error *error);

static icl_status test_all(icl_opencl *opencl, icl_error *error) {
    ICL_CHECK(icl_self_test_by_loops(opencl, error));
    ICL_CHECK(icl_self_test_against_host(opencl, error));
    return icl_self_test_choose_clblast(opencl, error);
}

/* A device that computes wrongly is refused, except for those who want to see how. */
static icl_status check(icl_opencl *opencl, self_test *test, icl_error *error) {
    icl_status status = test(opencl, error);

    /* A binary on disk is the first suspect: the driver may have changed under an unchanged version. */
    if (status == ICL_ERROR_DEVICE && opencl->programs->cache.loaded > 0) {
        icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s; compiling again from source", error->message);
        icl_opencl_release_programs(opencl);
        opencl->programs->cache.distrusted = true;
        if (opencl->clblast->state == ICL_CLBLAST_SERVES)
            opencl->clblast->state = ICL_CLBLAST_UNTESTED;
        status = test(opencl, error);
    }
    if (status != ICL_ERROR_DEVICE || !opencl->accepts_failed)
        return status;
    icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s; used nevertheless", error->message);
    return ICL_OK;
}

/* The statistics do not count what a self-test launches. */
static icl_status check_uncounted(icl_opencl *opencl, self_test *test, icl_error *error) {
    icl_backend_statistics *statistics = &opencl->backend->statistics, before;
    bool launched[ICL_KERNEL_COUNT];

    ICL_CHECK(icl_profile_collect(opencl, error));
    before = *statistics;
    memcpy(launched, opencl->launcher->launched, sizeof launched);
    ICL_CHECK(check(opencl, test, error));
    ICL_CHECK(icl_profile_collect(opencl, error));
    statistics->ops = before.ops;
    statistics->launches = before.launches;
    statistics->device_seconds = before.device_seconds;
    memcpy(opencl->launcher->launched, launched, sizeof launched);
    return ICL_OK;
}

icl_status icl_self_test_all(icl_opencl *opencl, icl_error *error) {
    return check_uncounted(opencl, test_all, error);
}

icl_status icl_self_test_program(icl_opencl *opencl, icl_tested which, icl_error *error) {
    static self_test *const tests[] = {[ICL_TESTED_LINEAR_TRANSFORMER] = icl_self_test_linear_transformer,
                                       [ICL_TESTED_GRAM] = icl_self_test_gram,
                                       [ICL_TESTED_SMALL] = icl_self_test_small,
                                       [ICL_TESTED_RECURRENCE] = icl_self_test_recurrence,
                                       [ICL_TESTED_RECURRENCE_GRADIENT] = icl_self_test_recurrence_gradient};
    return check_uncounted(opencl, tests[which], error);
}

icl_status icl_opencl_test(icl_backend *backend, icl_error *error) {
    for (int which = 0; which < ICL_TESTED_COUNT; which++)
        ICL_CHECK(icl_opencl_test_program(icl_opencl_of(backend), (icl_tested)which, error));
    return ICL_OK;
}
