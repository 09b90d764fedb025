/* Device memory: blocks of size classes, kept for the next tensor when one is released. */
#include "backend/opencl/pool.h"
#include "backend/opencl/queue.h"
#include "core/allocate.h"

#define SMALLEST ((size_t)256) /* bytes of the smallest class */

/* There are four classes for each doubling, so at most a quarter of a block is wasted. */
static size_t class_of(size_t bytes, size_t *class_bytes) {
    size_t size = SMALLEST, index = 0;
    while (size < bytes && index + 4 < ICL_SIZE_CLASSES) {
        for (size_t quarter = 1; quarter < 4; quarter++)
            if (bytes <= size + quarter * (size / 4)) {
                *class_bytes = size + quarter * (size / 4);
                return index + quarter;
            }
        size *= 2;
        index += 4;
    }
    *class_bytes = size;
    return index;
}

static void release_block(icl_opencl *opencl, icl_block *block) {
    opencl->backend->statistics.bytes_reserved -= block->bytes;
    clReleaseMemObject(block->memory);
    icl_free(&block);
}

void icl_pool_trim(icl_opencl *opencl) {
    for (size_t i = 0; i < ICL_SIZE_CLASSES; i++)
        while (opencl->pool->free_blocks[i]) {
            icl_block *block = opencl->pool->free_blocks[i];
            opencl->pool->free_blocks[i] = block->next;
            release_block(opencl, block);
        }
}

icl_status icl_opencl_trim(icl_backend *backend, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);

    ICL_CHECK(icl_queue_flush(opencl, error));
    icl_pool_trim(opencl);
    return ICL_OK;
}

/* Asks the driver for a new block. */
static icl_status make_block(icl_opencl *opencl, size_t bytes, icl_block **made, icl_error *error) {
    icl_backend *backend = opencl->backend;
    icl_status status = ICL_OK;
    icl_block *block = NULL;
    cl_int code;

    ICL_TRY(icl_allocate(1, sizeof *block, "memory block", &block, error));
    block->bytes = bytes;
    block->memory = clCreateBuffer(opencl->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    if (code != CL_SUCCESS) {
        icl_fail(error, ICL_ERROR_MEMORY, "clCreateBuffer of %zu bytes: %s (%d) on %s", bytes, icl_cl_error_name(code),
                 code, backend->capabilities.name);
        status = ICL_ERROR_MEMORY;
        goto done;
    }
    backend->statistics.allocations++;
    backend->statistics.bytes_reserved += bytes;
    *made = block;
    block = NULL;
done:
    icl_free(&block);
    return status;
}

static icl_status over_limit(const icl_opencl *opencl, size_t bytes, icl_error *error) {
    const icl_backend *backend = opencl->backend;
    const size_t most = backend->capabilities.max_allocation;
    if (bytes > most)
        return icl_fail(error, ICL_ERROR_MEMORY, "device memory: %zu bytes in one buffer, %s allows at most %zu", bytes,
                        backend->capabilities.name, most);
    return icl_fail(error, ICL_ERROR_MEMORY,
                    "device memory: %zu more bytes beside %zu in use exceed the limit of %zu on %s", bytes,
                    backend->statistics.bytes_live, opencl->pool->memory_limit, backend->capabilities.name);
}

icl_status icl_pool_take(icl_opencl *opencl, size_t bytes, icl_block **taken, icl_error *error) {
    icl_backend_statistics *statistics = &opencl->backend->statistics;
    const size_t limit = opencl->pool->memory_limit, most = opencl->backend->capabilities.max_allocation;
    icl_status status = ICL_OK;
    size_t class_bytes, index;

    if (bytes > most || bytes > limit)
        return over_limit(opencl, bytes, error);
    index = class_of(bytes, &class_bytes);
    if (class_bytes > most || class_bytes > limit || opencl->pool->is_simulator)
        class_bytes = bytes; /* the last members of the class are as small as possible */
    icl_block **head = &opencl->pool->free_blocks[index];
    while (*head && (*head)->bytes < bytes)
        head = &(*head)->next;
    if (*head && !opencl->pool->is_simulator) {
        *taken = *head;
        *head = (*head)->next;
        statistics->pool_hits++;
    } else {
        if (class_bytes > limit - statistics->bytes_reserved || statistics->bytes_reserved > limit)
            ICL_TRY(icl_opencl_trim(opencl->backend, error));
        if (statistics->bytes_reserved > limit || class_bytes > limit - statistics->bytes_reserved)
            return over_limit(opencl, bytes, error);
        status = make_block(opencl, class_bytes, taken, NULL);
        if (status != ICL_OK) {
            /* The free blocks may occupy the memory that the driver lacks, so it is asked once more without them. */
            ICL_TRY(icl_opencl_trim(opencl->backend, error));
            ICL_TRY(make_block(opencl, class_bytes, taken, error));
        }
    }
    (*taken)->next = NULL;
    statistics->bytes_live += (*taken)->bytes;
    if (statistics->bytes_live > statistics->bytes_peak)
        statistics->bytes_peak = statistics->bytes_live;
done:
    return status;
}

void icl_pool_give(icl_opencl *opencl, icl_block *block) {
    size_t class_bytes;
    if (!block)
        return;
    if (!block->is_kept)
        opencl->backend->statistics.bytes_live -= block->bytes;
    block->is_kept = false;
    icl_block **head = &opencl->pool->free_blocks[class_of(block->bytes, &class_bytes)];
    block->next = *head;
    *head = block;
}
