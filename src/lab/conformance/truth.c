#include <float.h>
#include <math.h>

#include "core/status.h"
#include "lab/conformance/case.h"

double icl_gamma(double k, double unit) {
    return k * unit / (1 - k * unit);
}

double icl_device_rounded(const icl_truth *truth, double value) {
    return truth->unit > DBL_EPSILON ? (double)(float)value : value;
}

icl_status icl_truth_compute(icl_truth *truth, icl_error *error) {
    switch (truth->c->op) {
    case ICL_OP_fill:
    case ICL_OP_copy:
    case ICL_OP_unary:
    case ICL_OP_binary:
    case ICL_OP_scale_add:
        return icl_truth_elementwise(truth, error);
    case ICL_OP_random_fill:
        return icl_truth_random_fill(truth, error);
    case ICL_OP_gram_sample:
        return icl_truth_gram_sample(truth, error);
    case ICL_OP_spherical:
        return icl_truth_spherical(truth, error);
    case ICL_OP_reduce:
        return icl_truth_reduce(truth, error);
    case ICL_OP_matmul:
    case ICL_OP_matmul_strict:
        return icl_truth_matmul(truth, error);
    case ICL_OP_attention_forward:
    case ICL_OP_attention_backward:
        return icl_truth_attention(truth, error);
    case ICL_OP_clip:
    case ICL_OP_adam_step:
    case ICL_OP_sgd_step:
    case ICL_OP_track_threshold:
    case ICL_OP_update_step:
        return icl_truth_optimizer(truth, error);
    case ICL_OP_linear_transformer_predict:
    case ICL_OP_linear_transformer_gradient:
        return icl_truth_linear_transformer(truth, error);
    case ICL_OP_COUNT:
        break;
    }
    return icl_fail(error, ICL_ERROR_INPUT, "conformance: no truth for op %d", (int)truth->c->op);
}
