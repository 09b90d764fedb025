/* The queue: writes to memory of the device, and measures the time that kernels take. */
#include "backend/opencl/queue.h"

icl_status icl_queue_write(icl_opencl *opencl, cl_mem memory, size_t offset, size_t bytes, const void *source,
                           icl_error *error) {
    icl_status status = ICL_OK;
    ICL_TRY(icl_queue_flush(opencl, error));
    ICL_CL_TRY(opencl, "clEnqueueWriteBuffer",
               clEnqueueWriteBuffer(opencl->queue->handle, memory, CL_TRUE, offset, bytes, source, 0, NULL, NULL));
done:
    return status;
}

/* ---- Profile: from the queue's events, only where it was asked for ---- */

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
        opencl->backend->statistics.device_seconds += end > start ? 1e-9 * (double)(end - start) : 0;
    }
done:
    icl_profile_drop(opencl);
    return status;
}

void icl_profile_drop(icl_opencl *opencl) {
    for (size_t i = 0; i < opencl->queue->profile.count; i++)
        clReleaseEvent(opencl->queue->profile.events[i]);
    opencl->queue->profile.count = 0;
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
