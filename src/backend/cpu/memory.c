/*
 * Memory and threads of a host backend.
 *
 * Blocks of memory are kept when they are given back, so that in a steady state no op and no tensor calls the
 * allocator. Sizes are rounded up to four classes an octave, so that a block wastes at most a quarter of itself.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "backend/cpu/host.h"
#include "core/allocate.h"
#include "iclab/status.h"

#define HEADER_BYTES 64 /* keeps what follows aligned */
#define LEAST_BYTES  256

/* The header, which stands right before the memory that it describes. */
struct icl_host_block {
    icl_host_block *next;
    size_t bytes; /* of the memory, without the header */
    int size_class;
};

_Static_assert(sizeof(icl_host_block) <= HEADER_BYTES, "the header fits");

/* Rounds bytes up to a class: LEAST_BYTES * 2^octave * (1 + quarter / 4). Returns false if there is no such size. */
static bool class_of(size_t bytes, size_t *rounded, int *size_class) {
    size_t base = LEAST_BYTES;
    int octave = 0;

    for (; base <= SIZE_MAX / 4; base *= 2, octave++)
        for (size_t quarter = 0; quarter < 4; quarter++)
            if (base + base / 4 * quarter >= bytes) {
                *rounded = base + base / 4 * quarter;
                *size_class = octave * 4 + (int)quarter;
                return true;
            }
    return false;
}

void HOST(pool_trim)(icl_host_pool *pool, icl_backend_statistics *statistics) {
    for (int i = 0; i < ICL_POOL_CLASSES; i++)
        while (pool->free[i]) {
            icl_host_block *block = pool->free[i];
            pool->free[i] = block->next;
            statistics->bytes_reserved -= block->bytes;
            icl_free(&block);
        }
}

static bool fits(const icl_host_pool *pool, const icl_backend_statistics *statistics, size_t bytes) {
    return statistics->bytes_reserved <= pool->limit && bytes <= pool->limit - statistics->bytes_reserved;
}

/* Returns free blocks to the system if `bytes` more would exceed the limit. ICL_ERROR_MEMORY, whose message names
 * `what`, if they still exceed it. */
static icl_status pool_make_room(icl_host_pool *pool, const char *backend, const char *what, size_t bytes,
                                 icl_backend_statistics *statistics, icl_error *error) {
    if (!fits(pool, statistics, bytes))
        HOST(pool_trim)(pool, statistics);
    return fits(pool, statistics, bytes)
               ? ICL_OK
               : icl_fail(error, ICL_ERROR_MEMORY,
                          "%s: %s of %zu bytes does not fit: %zu bytes are in use and the limit is %zu", backend, what,
                          bytes, statistics->bytes_reserved, pool->limit);
}

static icl_status allocate_block(icl_host_pool *pool, icl_backend_statistics *statistics, const char *backend,
                                 size_t bytes, icl_host_block **block, icl_error *error) {
    icl_status status;

    ICL_CHECK(pool_make_room(pool, backend, "a tensor", bytes, statistics, error));
    status = icl_allocate(1, HEADER_BYTES + bytes, "tensor memory", block, error);
    if (status != ICL_OK) {
        HOST(pool_trim)(pool, statistics);
        status = icl_allocate(1, HEADER_BYTES + bytes, "tensor memory", block, error);
    }
    return status;
}

icl_status HOST(pool_take)(icl_host_pool *pool, icl_backend_statistics *statistics, const char *backend, size_t bytes,
                           void **memory, icl_error *error) {
    icl_host_block *block;
    size_t rounded;
    int size_class;

    if (!class_of(bytes, &rounded, &size_class))
        return icl_fail(error, ICL_ERROR_MEMORY, "%s: a tensor of %zu bytes exceeds the address space", backend, bytes);
    block = pool->free[size_class];
    if (block) {
        pool->free[size_class] = block->next;
        statistics->pool_hits++;
    } else {
        ICL_CHECK(allocate_block(pool, statistics, backend, rounded, &block, error));
        assert(block);
        block->bytes = rounded;
        block->size_class = size_class;
        statistics->allocations++;
        statistics->bytes_reserved += rounded;
    }
    block->next = NULL;
    statistics->bytes_live += rounded;
    if (statistics->bytes_live > statistics->bytes_peak)
        statistics->bytes_peak = statistics->bytes_live;
    *memory = (char *)block + HEADER_BYTES;
    return ICL_OK;
}

void HOST(pool_give)(icl_host_pool *pool, icl_backend_statistics *statistics, void *memory) {
    icl_host_block *block = (icl_host_block *)(void *)((char *)memory - HEADER_BYTES);
    statistics->bytes_live -= block->bytes;
    block->next = pool->free[block->size_class];
    pool->free[block->size_class] = block;
}

/* ---- Threads and scratch memory of an op ---- */

#define WORK_WORTH_A_THREAD 16384

void HOST(run)(const HOST(state) * state, size_t items, size_t work, icl_thread_items *task, void *context) {
    size_t threads = state->threads < items ? state->threads : items;
    if (work / WORK_WORTH_A_THREAD < threads)
        threads = work / WORK_WORTH_A_THREAD;
    if (threads > 1)
        icl_threads_share(state->team, threads, items, task, context);
    else
        task(context, 0, items, 0);
}

icl_status HOST(scratch)(icl_backend *backend, size_t bytes, void *memory, icl_error *error) {
    HOST(state) *state = host_state(backend);
    icl_backend_statistics *statistics = &backend->statistics;

    if (bytes > state->scratch_bytes) {
        icl_free(&state->scratch);
        statistics->bytes_reserved -= state->scratch_bytes;
        state->scratch_bytes = 0;
        ICL_CHECK(pool_make_room(&state->pool, HOST_SPEC, "scratch memory of all threads", bytes, statistics, error));
        ICL_CHECK(icl_allocate(1, bytes, "scratch memory of an op", &state->scratch, error));
        state->scratch_bytes = bytes;
        statistics->bytes_reserved += bytes;
    }
    if (statistics->bytes_live + state->scratch_bytes > statistics->bytes_peak)
        statistics->bytes_peak = statistics->bytes_live + state->scratch_bytes;
    memcpy(memory, &state->scratch, sizeof state->scratch);
    return ICL_OK;
}
