/* Ops of the backend. The names __wrap_NAME and __real_NAME are the linker's. */
#include "backend/dispatch.h"
#include "iclab/tensor.h"
#include "plant.h"

static icl_status fail(const char *call, icl_error *error) {
    return icl_fail(error, ICL_ERROR_DEVICE, "%s: planted", call);
}

icl_status __real_icl_dispatch(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                               icl_error *error);
icl_status __wrap_icl_dispatch(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                               icl_error *error);
icl_status __real_icl_tensor_write(icl_tensor tensor, const float *values, icl_error *error);
icl_status __wrap_icl_tensor_write(icl_tensor tensor, const float *values, icl_error *error);
icl_status __real_icl_tensor_write_double(icl_tensor tensor, const double *values, icl_error *error);
icl_status __wrap_icl_tensor_write_double(icl_tensor tensor, const double *values, icl_error *error);
icl_status __real_icl_tensor_read(icl_tensor tensor, float *values, icl_error *error);
icl_status __wrap_icl_tensor_read(icl_tensor tensor, float *values, icl_error *error);
icl_status __real_icl_tensor_read_double(icl_tensor tensor, double *values, icl_error *error);
icl_status __wrap_icl_tensor_read_double(icl_tensor tensor, double *values, icl_error *error);

icl_status __wrap_icl_dispatch(icl_backend *backend, icl_op op, const void *params, const icl_tensor *operands,
                               icl_error *error) {
    return fault_strikes(FAULT_OP, "icl_dispatch") ? fail("icl_dispatch", error)
                                                   : __real_icl_dispatch(backend, op, params, operands, error);
}

icl_status __wrap_icl_tensor_write(icl_tensor tensor, const float *values, icl_error *error) {
    return fault_strikes(FAULT_OP, "icl_tensor_write") ? fail("icl_tensor_write", error)
                                                       : __real_icl_tensor_write(tensor, values, error);
}

icl_status __wrap_icl_tensor_write_double(icl_tensor tensor, const double *values, icl_error *error) {
    return fault_strikes(FAULT_OP, "icl_tensor_write_double") ? fail("icl_tensor_write_double", error)
                                                              : __real_icl_tensor_write_double(tensor, values, error);
}

icl_status __wrap_icl_tensor_read(icl_tensor tensor, float *values, icl_error *error) {
    return fault_strikes(FAULT_OP, "icl_tensor_read") ? fail("icl_tensor_read", error)
                                                      : __real_icl_tensor_read(tensor, values, error);
}

icl_status __wrap_icl_tensor_read_double(icl_tensor tensor, double *values, icl_error *error) {
    return fault_strikes(FAULT_OP, "icl_tensor_read_double") ? fail("icl_tensor_read_double", error)
                                                             : __real_icl_tensor_read_double(tensor, values, error);
}
