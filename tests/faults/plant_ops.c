/* Ops of the backend. The names __wrap_NAME and __real_NAME are the linker's. */
#include "backend/call.h"
#include "iclab/tensor.h"
#include "plant.h"

#define OP_CALL(name, parameters, arguments)                                                                           \
    icl_status __real_##name parameters;                                                                               \
    icl_status __wrap_##name parameters;                                                                               \
    icl_status __wrap_##name parameters {                                                                              \
        return fault_strikes(FAULT_OP, #name) ? icl_fail(error, ICL_ERROR_DEVICE, "%s: planted", #name)                \
                                              : __real_##name arguments;                                               \
    }

OP_CALL(icl_dispatch,
        (icl_backend * backend, icl_op op, const void *params, const icl_tensor *operands, icl_error *error),
        (backend, op, params, operands, error))
OP_CALL(icl_tensor_write, (icl_tensor tensor, const float *values, icl_error *error), (tensor, values, error))
OP_CALL(icl_tensor_write_double, (icl_tensor tensor, const double *values, icl_error *error), (tensor, values, error))
OP_CALL(icl_tensor_read, (icl_tensor tensor, float *values, icl_error *error), (tensor, values, error))
OP_CALL(icl_tensor_read_double, (icl_tensor tensor, double *values, icl_error *error), (tensor, values, error))
