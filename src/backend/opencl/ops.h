/* The ops of the OpenCL backend, and what their files call of each other. */
#ifndef ICLAB_BACKEND_OPENCL_OPS_H
#define ICLAB_BACKEND_OPENCL_OPS_H

#include "backend/opencl/device.h"

icl_op_function icl_opencl_fill, icl_opencl_copy, icl_opencl_unary, icl_opencl_binary, icl_opencl_scale_add;
icl_op_function icl_opencl_random_fill, icl_opencl_gram_sample, icl_opencl_spherical;
icl_op_function icl_opencl_normalize, icl_opencl_normalize_backward;
icl_op_function icl_opencl_cross_entropy, icl_opencl_cross_entropy_backward;
icl_op_function icl_opencl_reduce, icl_opencl_matmul, icl_opencl_matmul_strict;
icl_op_function icl_opencl_attention_forward, icl_opencl_attention_backward;
icl_op_function icl_opencl_linear_transformer_predict, icl_opencl_linear_transformer_gradient;
icl_op_function icl_opencl_track_threshold, icl_opencl_update_step;
icl_op_function icl_opencl_recurrence_forward, icl_opencl_recurrence_backward;
icl_op_function icl_opencl_look_up, icl_opencl_look_up_backward, icl_opencl_rotate;
icl_op_function icl_opencl_convolve, icl_opencl_convolve_backward;

/* A recurrence walks forward on GPUs token by token or by chunks: these are `ways` and `choose_way` of
 * icl_backend_functions. Where one was asked for, there is no choice. */
size_t icl_recurrence_ways(const icl_backend *backend, icl_op op, const char *const **names);
void icl_recurrence_choose_way(icl_backend *backend, icl_op op, size_t way);

/* Measures what the device could do at best: see icl_backend_functions. */
icl_status icl_opencl_peak(icl_backend *backend, const icl_peak_params *params, const icl_tensor *operands,
                           double *amount, icl_error *error);

#endif
