/* The queue: writes to memory of the device, and measures the time that kernels take. */
#include "backend/opencl/queue.h"

#include <string.h>

/* ---- Writes ---- */

#define LONGEST  ((size_t)8 << 20)  /* bytes of a write that does not wait */
#define SMALLEST ((size_t)64 << 10) /* bytes of the memory for writes */

enum { AT_ONCE = 4 /* writes of the longest so far that it holds */, ALIGNMENT = 64 };

/* Waits for the oldest write. */
static icl_status retire(icl_opencl *opencl, icl_error *error) {
    icl_staging *staging = &opencl->queue->staging;
    cl_event written = staging->writes[staging->oldest].written;
    icl_status status = ICL_OK;

    staging->oldest = (staging->oldest + 1) % ICL_STAGED_WRITES;
    staging->count--;
    ICL_CL_TRY(opencl, "clFlush", clFlush(opencl->queue->handle));
    ICL_CL_TRY(opencl, "clWaitForEvents", clWaitForEvents(1, &written));
done:
    clReleaseEvent(written);
    return status;
}

static void release_staging(icl_opencl *opencl) {
    icl_staging *staging = &opencl->queue->staging;

    for (; staging->count > 0; staging->count--) {
        clReleaseEvent(staging->writes[staging->oldest].written);
        staging->oldest = (staging->oldest + 1) % ICL_STAGED_WRITES;
    }
    if (staging->bytes)
        clEnqueueUnmapMemObject(opencl->queue->handle, staging->memory, staging->bytes, 0, NULL, NULL);
    if (staging->memory)
        clReleaseMemObject(staging->memory);
    *staging = (icl_staging){.refused = staging->refused};
}

/* Makes the memory large enough for writes of `bytes` bytes, or notes that there is none. */
static icl_status reserve(icl_opencl *opencl, size_t bytes, icl_error *error) {
    icl_staging *staging = &opencl->queue->staging;
    size_t capacity = SMALLEST;
    cl_int code;

    if (staging->refused || AT_ONCE * bytes <= staging->capacity)
        return ICL_OK;
    while (capacity < AT_ONCE * bytes)
        capacity *= 2;
    while (staging->count > 0)
        ICL_CHECK(retire(opencl, error));
    release_staging(opencl);
    staging->memory = clCreateBuffer(opencl->context, CL_MEM_ALLOC_HOST_PTR, capacity, NULL, &code);
    if (code == CL_SUCCESS)
        staging->bytes = clEnqueueMapBuffer(opencl->queue->handle, staging->memory, CL_TRUE, CL_MAP_WRITE, 0, capacity,
                                            0, NULL, NULL, &code);
    staging->capacity = code == CL_SUCCESS ? capacity : 0;
    staging->refused = code != CL_SUCCESS;
    return ICL_OK;
}

static bool is_in_use(const icl_staging *staging, size_t begin, size_t end) {
    for (size_t i = 0; i < staging->count; i++) {
        const struct icl_staged_write *write = &staging->writes[(staging->oldest + i) % ICL_STAGED_WRITES];
        if (write->begin < end && begin < write->end)
            return true;
    }
    return false;
}

/* Copies the source to a region that is free, and queues its write. */
static icl_status write_staged(icl_opencl *opencl, cl_mem memory, size_t offset, size_t bytes, const void *source,
                               icl_error *error) {
    icl_staging *staging = &opencl->queue->staging;
    const size_t begin = bytes > staging->capacity - staging->next ? 0 : staging->next, end = begin + bytes;
    icl_status status = ICL_OK;

    while (staging->count == ICL_STAGED_WRITES || is_in_use(staging, begin, end))
        ICL_CHECK(retire(opencl, error));
    memcpy(staging->bytes + begin, source, bytes);
    struct icl_staged_write *write = &staging->writes[(staging->oldest + staging->count) % ICL_STAGED_WRITES];
    ICL_CL_TRY(opencl, "clEnqueueWriteBuffer",
               clEnqueueWriteBuffer(opencl->queue->handle, memory, CL_FALSE, offset, bytes, staging->bytes + begin, 0,
                                    NULL, &write->written));
    write->begin = begin;
    write->end = end;
    staging->next = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    staging->count++;
done:
    return status;
}

icl_status icl_queue_write(icl_opencl *opencl, cl_mem memory, size_t offset, size_t bytes, const void *source,
                           icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(icl_queue_flush(opencl, error));
    if (bytes <= LONGEST)
        ICL_TRY(reserve(opencl, bytes, error));
    if (bytes <= LONGEST && opencl->queue->staging.bytes)
        return write_staged(opencl, memory, offset, bytes, source, error);
    ICL_CL_TRY(opencl, "clEnqueueWriteBuffer",
               clEnqueueWriteBuffer(opencl->queue->handle, memory, CL_TRUE, offset, bytes, source, 0, NULL, NULL));
done:
    return status;
}

/* ---- Profile: from the queue's events, only where it was asked for ---- */

static void drop_events(icl_opencl *opencl) {
    for (size_t i = 0; i < opencl->queue->profile.count; i++)
        clReleaseEvent(opencl->queue->profile.events[i]);
    opencl->queue->profile.count = 0;
}

icl_status icl_profile_collect(icl_opencl *opencl, icl_error *error) {
    icl_profile *profile = &opencl->queue->profile;
    icl_status status = ICL_OK;

    if (profile->count == 0)
        return ICL_OK;
    ICL_CL_TRY(opencl, "clFinish", clFinish(opencl->queue->handle));
    for (size_t i = 0; i < profile->count; i++) {
        cl_ulong start = 0, end = 0;
        ICL_CL_TRY(opencl, "clGetEventProfilingInfo",
                   clGetEventProfilingInfo(profile->events[i], CL_PROFILING_COMMAND_START, sizeof start, &start, NULL));
        ICL_CL_TRY(opencl, "clGetEventProfilingInfo",
                   clGetEventProfilingInfo(profile->events[i], CL_PROFILING_COMMAND_END, sizeof end, &end, NULL));
        const double seconds = end > start ? 1e-9 * (double)(end - start) : 0;
        opencl->backend->statistics.device_seconds += seconds;
        if (opencl->backend->times)
            opencl->backend->times->of[profile->ops[i]].seconds += seconds;
    }
done:
    drop_events(opencl);
    return status;
}

icl_status icl_profile_next(icl_opencl *opencl, cl_event **event, icl_error *error) {
    *event = NULL;
    if (!opencl->queue->profile.on)
        return ICL_OK;
    if (opencl->queue->profile.count == ICL_PROFILE_EVENTS)
        ICL_CHECK(icl_profile_collect(opencl, error));
    *event = &opencl->queue->profile.events[opencl->queue->profile.count];
    return ICL_OK;
}

void icl_profile_add(icl_opencl *opencl, const cl_event *event, bool is_small) {
    icl_profile *profile = &opencl->queue->profile;
    icl_op_times *times = opencl->backend->times;

    opencl->backend->statistics.launches++;
    if (!event)
        return;
    const size_t op = is_small ? ICL_OP_COUNT : times ? times->current : 0;
    if (times)
        times->of[op].launches++;
    profile->ops[profile->count++] = op;
}

void icl_queue_release(icl_opencl *opencl) {
    drop_events(opencl);
    release_staging(opencl);
}
