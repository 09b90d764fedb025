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
    size_t limit; /* the most bytes that used blocks, free blocks and scratch memory may have together */
} icl_host_pool;

/* The state of a backend. */
typedef struct HOST(state) {
    size_t threads;
    icl_isa isa; /* of the kernels */
    icl_threads *team;
    const HOST(kernels) * kernels;
    const icl_strict_kernels *strict;
    const HOST(bf16_kernels) * bf16; /* NULL: products and attention take their operands as they are */
    icl_host_pool pool;
    void *scratch; /* grows to the most that an op has needed, and stays */
    size_t scratch_bytes;
} HOST(state);

static inline HOST(state) * host_state(const icl_backend *backend) {
    return backend->state;
}

/* Returns the address of a tensor's first element. */
static inline real *host_elements(const icl_tensor *tensor) {
    return (real *)tensor->buffer->handle + tensor->offset;
}

static inline size_t host_round_up(size_t count, size_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

/* Distributes `items` over the threads. One thread does everything if `work`, in elements touched or multiplied, does
 * not justify waking the others. What an item computes must not depend on the distribution, so that results have the
 * same bits for any number of threads. */
void HOST(run)(const HOST(state) * state, size_t items, size_t work, icl_thread_items *task, void *context);

/* Takes `bytes` > 0 bytes, aligned to 64 and uninitialised, from the pool. Free blocks of other sizes are returned to
 * the system before a request fails. ICL_ERROR_MEMORY names the sizes. Updates the statistics. */
icl_status HOST(pool_take)(icl_host_pool *pool, icl_backend_statistics *statistics, const char *backend, size_t bytes,
                           void **memory, icl_error *error);
void HOST(pool_give)(icl_host_pool *pool, icl_backend_statistics *statistics, void *memory);
void HOST(pool_trim)(icl_host_pool *pool, icl_backend_statistics *statistics);

/* Provides at least `bytes` bytes, aligned to 64, which belong to the op until it returns. */
icl_status HOST(scratch)(icl_backend *backend, size_t bytes, void *memory, icl_error *error);

/* Runs a tile kernel over operands of one shape (the output first), in rectangles that the threads share. */
void HOST(elementwise)(icl_backend *backend, icl_tile_kernel *kernel, const void *params, const icl_tensor *operands,
                       int count);

/* Returns how many keys query i may see; they are the first ones. */
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

/* Returns one head of a rank-4 tensor as a matrix. */
static inline HOST(matrix) host_matrix(const icl_tensor *tensor, size_t batch, size_t head) {
    return (HOST(matrix)){host_elements(tensor) + batch * tensor->stride[0] + head * tensor->stride[1],
                          tensor->stride[2], tensor->stride[3]};
}

/* As HOST(matmul), with operands rounded to bfloat16. */
icl_op_function HOST(matmul_bf16);

/* See icl_backend_functions. */
icl_status HOST(peak)(icl_backend *backend, const icl_peak_params *params, const icl_tensor *operands, double *amount,
                      icl_error *error);

#define DECLARE_OP(name, ...) icl_op_function HOST(name);
ICL_EVERY_OP(DECLARE_OP)
#undef DECLARE_OP

#endif
