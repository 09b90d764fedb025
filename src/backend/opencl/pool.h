/* Device memory of the OpenCL backend: blocks of size classes, kept for the next tensor when one is released. */
#ifndef ICLAB_BACKEND_OPENCL_POOL_H
#define ICLAB_BACKEND_OPENCL_POOL_H

#include "backend/opencl/device.h"

#define ICL_SIZE_CLASSES 256

/* One device allocation: held by a tensor, or in the pool's list of its size class. */
typedef struct icl_block {
    cl_mem memory;
    size_t bytes; /* of its class */
    bool is_kept; /* it holds no tensor and does not count as live */
    struct icl_block *next;
} icl_block;

/* The memory of a device: its limit, and the blocks that no tensor holds. */
typedef struct icl_pool {
    size_t memory_limit; /* the most bytes of all blocks together */
    bool is_simulator;   /* Oclgrind, which checks accesses: each block has exactly its size and is used once */
    icl_block *free_blocks[ICL_SIZE_CLASSES];
} icl_pool;

static inline cl_mem icl_memory_of(const icl_tensor *tensor) {
    return ((icl_block *)tensor->buffer->handle)->memory;
}

/* Takes a block of at least `bytes` > 0 from the pool or the device, within the memory limit. */
icl_status icl_pool_take(icl_opencl *opencl, size_t bytes, icl_block **block, icl_error *error);
/* Gives a block back (NULL is allowed). Queued work may still use it: whoever takes it next queues later. */
void icl_pool_give(icl_opencl *opencl, icl_block *block);
/* Releases every free block to the driver. */
void icl_pool_trim(icl_opencl *opencl);

/* See icl_backend_functions. */
icl_status icl_opencl_trim(icl_backend *backend, icl_error *error);

#endif
