/*
 * Blocks of host memory, kept when they are given back: in a steady state no op and no tensor reaches the allocator.
 *
 * Sizes are rounded up to four classes an octave, so that a block wastes at most a quarter of itself.
 */
#ifndef ICLAB_BACKEND_CPU_POOL_H
#define ICLAB_BACKEND_CPU_POOL_H

#include <stddef.h>

#include "iclab/backend.h"

typedef struct icl_host_block icl_host_block;

#define ICL_POOL_CLASSES 256

typedef struct icl_host_pool {
    icl_host_block *free[ICL_POOL_CLASSES];
    size_t limit; /* bytes that live and free blocks and scratch memory together may hold */
} icl_host_pool;

/* Memory for `bytes` > 0 bytes, aligned to 64, uninitialised. Free blocks of other sizes are returned to the system
 * before a request fails. ICL_ERROR_MEMORY names the sizes. Keeps the statistics. */
icl_status icl_host_pool_take(icl_host_pool *pool, icl_backend_statistics *statistics, const char *backend,
                              size_t bytes, void **memory, icl_error *error);

/* Returns free blocks to the system where `bytes` more would exceed the limit. ICL_ERROR_MEMORY, which names `what`,
 * where they exceed it all the same. */
icl_status icl_host_pool_make_room(icl_host_pool *pool, const char *backend, const char *what, size_t bytes,
                                   icl_backend_statistics *statistics, icl_error *error);

void icl_host_pool_give(icl_host_pool *pool, icl_backend_statistics *statistics, void *memory);

/* Returns every free block to the system. */
void icl_host_pool_trim(icl_host_pool *pool, icl_backend_statistics *statistics);

#endif
