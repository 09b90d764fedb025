#include "backend/cpu/kernels/lanes.h"
#include "backend/cpu/kernels/parts.h"

#define ENTRY(name) KERNEL(name),

const HOST(kernels) KERNEL(table) = {
    .gemm = KERNEL(gemm),
    .pack = KERNEL(pack),
    .store = KERNEL(store),
    .gemm_store = KERNEL(gemm_store),
    .unary = {UNARY_KERNELS(ENTRY)},
    .binary = {BINARY_KERNELS(ENTRY)},
    .scale = KERNEL(scale),
    .scale_add = KERNEL(scale_add),
    .fill = KERNEL(fill),
    .copy = KERNEL(copy),
    .adam_step = KERNEL(adam_step),
    .sgd_step = KERNEL(sgd_step),
    .fold_run = {KERNEL(sum_run), KERNEL(squares_run), KERNEL(max_run)},
    .fold_columns = {KERNEL(sum_columns), KERNEL(squares_columns), KERNEL(max_columns)},
    .softmax_block = SOFTMAX_VECTORS * LANE_COUNT,
    .softmax_forward = KERNEL(softmax_forward),
    .softmax_backward_queries = KERNEL(softmax_backward_queries),
    .softmax_backward_keys = KERNEL(softmax_backward_keys),
    .softmax_backward_sequence = KERNEL(softmax_backward_sequence),
    .softmax_forward_workspace = KERNEL(softmax_forward_workspace),
    .softmax_backward_workspace = KERNEL(softmax_backward_workspace),
    .softmax_single_workspace = KERNEL(softmax_single_workspace),
    .softmax_single_forward = KERNEL(softmax_single_forward),
    .softmax_single_backward = KERNEL(softmax_single_backward),
    .linear_lanes = LANE_COUNT,
    .linear_workspace = KERNEL(linear_workspace),
    .linear_slice = KERNEL(linear_slice),
};
