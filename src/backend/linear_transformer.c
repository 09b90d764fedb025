#include "backend/linear_transformer.h"

size_t icl_linear_p_size(icl_linear_form form, size_t d) {
    switch (form) {
    case ICL_LINEAR_FULL:
        return (d + 1) * (d + 1);
    case ICL_LINEAR_DIAG:
    case ICL_LINEAR_GDPP:
        return 2;
    case ICL_LINEAR_SPARSE_B:
        return d * d;
    case ICL_LINEAR_SPARSE:
    case ICL_LINEAR_FORM_COUNT:
        break;
    }
    return 0;
}

size_t icl_linear_q_size(icl_linear_form form, size_t d) {
    switch (form) {
    case ICL_LINEAR_FULL:
        return (d + 1) * (d + 1);
    case ICL_LINEAR_DIAG:
        return 2;
    case ICL_LINEAR_GDPP:
        return 1;
    case ICL_LINEAR_SPARSE:
    case ICL_LINEAR_SPARSE_B:
        return d * d;
    case ICL_LINEAR_FORM_COUNT:
        break;
    }
    return 0;
}

static size_t layer_size(const icl_linear_transformer_params *params, size_t d) {
    const size_t heads = params->heads > 0 ? params->heads : 1;
    return heads * (icl_linear_p_size(params->form, d) + icl_linear_q_size(params->form, d));
}

size_t icl_linear_transformer_size(const icl_linear_transformer_params *params, size_t d) {
    return params->layers * layer_size(params, d);
}

size_t icl_linear_layer_offset(const icl_linear_transformer_params *params, size_t d, size_t i) {
    return (i + 1 < params->depth ? i : params->layers - 1) * layer_size(params, d);
}

icl_linear_space icl_linear_choose_space(const icl_linear_transformer_params *params, size_t d, size_t n) {
    (void)params;
    return n < d ? ICL_SPACE_TOKENS : ICL_SPACE_GRAM;
}
