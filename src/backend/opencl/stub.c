/* The entry points of a build without OpenCL: there is no device. */
#include "backend/contract.h"
#include "iclab/status.h"

icl_status icl_opencl_list(const icl_log *log, icl_opencl_device **devices, size_t *count, icl_error *error) {
    (void)error;
    *devices = NULL;
    *count = 0;
    icl_log_write(log, ICL_LOG_INFO, "this build has no OpenCL; the host backends serve");
    return ICL_OK;
}

icl_status icl_opencl_open(const icl_backend_params *params, const icl_opencl_device *device, icl_self_test *self_test,
                           icl_backend **backend, icl_error *error) {
    (void)params;
    (void)self_test;
    *backend = NULL;
    return icl_fail(error, ICL_ERROR_DEVICE, "%s: this build has no OpenCL", device->capabilities.spec);
}

icl_status icl_opencl_test(icl_backend *backend, icl_error *error) {
    (void)backend;
    (void)error;
    return ICL_OK;
}
