/* Shared by the files of a host backend: its state, threads, scratch memory, and the ops. */
#ifndef ICLAB_BACKEND_CPU_HOST_H
#define ICLAB_BACKEND_CPU_HOST_H

#include "arithmetic/real.h"
#include "backend/contract.h"
#include "backend/cpu/kernels/kernels.h"
#include "core/threads.h"

/* The backend's device, as specs and messages name it. */
#define HOST_SPEC (ICL_CPU_DOUBLE ? "ref" : "cpu")

/* Blocks of memory, see backend.c. */
typedef struct icl_host_block icl_host_block;

#define ICL_POOL_CLASSES 256

typedef struct icl_host_pool {
    icl_host_block *free[ICL_POOL_CLASSES];
    size_t limit; /* bytes that live and free blocks and scratch memory together may hold */
} icl_host_pool;

/* The state of a backend. */
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

/* Memory for `bytes` > 0 bytes, aligned to 64, uninitialised. Free blocks of other sizes are returned to the system
 * before a request fails. ICL_ERROR_MEMORY names the sizes. Keeps the statistics. */
icl_status HOST(pool_take)(icl_host_pool *pool, icl_backend_statistics *statistics, const char *backend, size_t bytes,
                           void **memory, icl_error *error);
void HOST(pool_give)(icl_host_pool *pool, icl_backend_statistics *statistics, void *memory);
void HOST(pool_trim)(icl_host_pool *pool, icl_backend_statistics *statistics);

/* At least `bytes` bytes, aligned to 64, that are the op's own until it returns. */
icl_status HOST(scratch)(icl_backend *backend, size_t bytes, void *memory, icl_error *error);

/* Runs a tile kernel over operands of one shape (the output first), in rectangles shared out among the threads. */
void HOST(elementwise)(icl_backend *backend, icl_tile_kernel *kernel, const void *params, const icl_tensor *operands,
                       int count);

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

#endif
