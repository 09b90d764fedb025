/* Shared by the files of a host backend: its state, threads, scratch memory, and the ops. */
#ifndef ICLAB_BACKEND_CPU_HOST_H
#define ICLAB_BACKEND_CPU_HOST_H

#include "arithmetic/real.h"
#include "backend/contract.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/pool.h"
#include "core/threads.h"

/* The backend's device, as specs and messages name it. */
#define HOST_SPEC (ICL_CPU_DOUBLE ? "ref" : "cpu")

typedef struct HOST(state) {
    size_t threads;
    icl_isa isa; /* of the kernels */
    icl_threads *team;
    const HOST(kernels) * kernels;
    const icl_strict_kernels *strict;
    icl_host_pool pool;
    void *scratch; /* grows to what the hungriest op needed, and stays */
    size_t scratch_bytes;
} HOST(state);

static inline HOST(state) * host_state(const icl_backend *backend) {
    return backend->state;
}

/* The address of a tensor's first element. */
static inline real *host_elements(const icl_tensor *tensor) {
    return (real *)tensor->buffer->handle + tensor->offset;
}

static inline size_t host_round_up(size_t count, size_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

/* Shares `items` out among the threads; one thread does everything where `work`, in elements touched or multiplied,
 * would not pay for waking the others. What an item computes must not depend on the shares: so results have the same
 * bits for any number of threads. */
void HOST(run)(const HOST(state) * state, size_t items, size_t work, icl_thread_items *task, void *context);

/* At least `bytes` bytes, aligned to 64, that are the op's own until it returns. */
icl_status HOST(scratch)(icl_backend *backend, size_t bytes, void *memory, icl_error *error);

/* Runs a tile kernel over operands of one shape (the output first), in rectangles shared out among the threads. */
void HOST(elementwise)(icl_backend *backend, icl_tile_kernel *kernel, const void *params, const icl_tensor *operands,
                       int count);

/* Optimizer steps along `factor` times the gradient, the last operand; Adam's has decays behind it, or no tensor
 * (optimizer.c). */
void HOST(step_adam)(icl_backend *backend, const icl_adam_params *params, real factor, const icl_tensor operands[5]);
void HOST(step_sgd)(icl_backend *backend, const icl_sgd_params *params, real factor, const icl_tensor operands[3]);

/* icl_track_threshold; returns how many norms are not finite. */
real HOST(follow_threshold)(double fraction, const icl_tensor *norms, real *threshold);

/* How many keys query i may see; they are the first ones. */
static inline size_t host_visible_keys(icl_attention_mask mask, size_t i, size_t queries, size_t keys) {
    if (mask == ICL_MASK_QUERY_EXCLUDED)
        return keys > 0 ? keys - 1 : 0;
    if (mask == ICL_MASK_CAUSAL)
        return i + 1 + keys <= queries ? 0 : i + 1 + keys - queries;
    return keys;
}

/* A matrix in memory, for the attention files. */
typedef struct HOST(matrix) {
    real *elements;
    size_t row_stride, column_stride;
} HOST(matrix);

/* One head of a rank-4 tensor. */
static inline HOST(matrix) host_matrix(const icl_tensor *tensor, size_t batch, size_t head) {
    return (HOST(matrix)){host_elements(tensor) + batch * tensor->stride[0] + head * tensor->stride[1],
                          tensor->stride[2], tensor->stride[3]};
}

/* See icl_backend_functions. */
icl_status HOST(peak)(icl_backend *backend, const icl_peak_params *params, const icl_tensor *operands, double *amount,
                      icl_error *error);

#define DECLARE_OP(name, ...) icl_op_function HOST(name);
ICL_EVERY_OP(DECLARE_OP)
#undef DECLARE_OP

icl_op_function HOST(linear_forward), HOST(linear_backward), HOST(softmax_forward), HOST(softmax_backward);

#endif
