/* The attention ops: which kernels serve which kind. */
#include "backend/opencl/ops.h"

icl_status icl_opencl_attention_forward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                        icl_error *error) {
    const icl_attention_params *p = params;
    return p->kind == ICL_ATTENTION_LINEAR ? icl_opencl_linear_forward(icl_opencl_of(backend), p, operands, error)
                                           : icl_opencl_softmax_forward(icl_opencl_of(backend), p, operands, error);
}

icl_status icl_opencl_attention_backward(icl_backend *backend, const void *params, const icl_tensor *operands,
                                         icl_error *error) {
    const icl_attention_params *p = params;
    return p->kind == ICL_ATTENTION_LINEAR ? icl_opencl_linear_backward(icl_opencl_of(backend), p, operands, error)
                                           : icl_opencl_softmax_backward(icl_opencl_of(backend), p, operands, error);
}
