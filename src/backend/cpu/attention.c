#include "backend/cpu/host.h"

icl_status HOST(attention_forward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                   icl_error *error) {
    const icl_attention_params *given = params;
    return given->kind == ICL_ATTENTION_SOFTMAX ? HOST(softmax_forward)(backend, params, operands, error)
                                                : HOST(linear_forward)(backend, params, operands, error);
}

icl_status HOST(attention_backward)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                    icl_error *error) {
    const icl_attention_params *given = params;
    return given->kind == ICL_ATTENTION_SOFTMAX ? HOST(softmax_backward)(backend, params, operands, error)
                                                : HOST(linear_backward)(backend, params, operands, error);
}
