/* Between host and device memory. Every call here waits. */
#include "backend/opencl/pool.h"
#include "backend/opencl/queue.h"

static cl_mem memory_of_buffer(const icl_buffer *buffer) {
    return ((icl_block *)buffer->handle)->memory;
}

icl_status icl_opencl_buffer_read(icl_backend *backend, const icl_buffer *buffer, size_t offset, size_t count,
                                  void *elements, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    icl_status status = ICL_OK;
    ICL_TRY(icl_queue_flush(opencl, error));
    ICL_CL_TRY(opencl, "clEnqueueReadBuffer",
               clEnqueueReadBuffer(opencl->queue->handle, memory_of_buffer(buffer), CL_TRUE, offset * sizeof(cl_float),
                                   count * sizeof(cl_float), elements, 0, NULL, NULL));
done:
    return status;
}

icl_status icl_queue_write(icl_opencl *opencl, cl_mem memory, size_t offset, size_t bytes, const void *source,
                           icl_error *error) {
    icl_status status = ICL_OK;
    ICL_TRY(icl_queue_flush(opencl, error));
    ICL_CL_TRY(opencl, "clEnqueueWriteBuffer",
               clEnqueueWriteBuffer(opencl->queue->handle, memory, CL_TRUE, offset, bytes, source, 0, NULL, NULL));
done:
    return status;
}

icl_status icl_opencl_buffer_write(icl_backend *backend, icl_buffer *buffer, size_t offset, size_t count,
                                   const void *elements, icl_error *error) {
    return icl_queue_write(icl_opencl_of(backend), memory_of_buffer(buffer), offset * sizeof(cl_float),
                           count * sizeof(cl_float), elements, error);
}

icl_status icl_opencl_buffer_map(icl_backend *backend, icl_buffer *buffer, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    cl_int code;
    ICL_CHECK(icl_queue_flush(opencl, error));
    void *mapped =
        clEnqueueMapBuffer(opencl->queue->handle, memory_of_buffer(buffer), CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                           buffer->elements * sizeof(cl_float), 0, NULL, NULL, &code);
    if (code != CL_SUCCESS)
        return icl_cl_fail(opencl, code, "clEnqueueMapBuffer", error);
    buffer->mapped = mapped;
    return ICL_OK;
}

icl_status icl_opencl_buffer_unmap(icl_backend *backend, icl_buffer *buffer, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    icl_status status = ICL_OK;
    ICL_TRY(icl_queue_flush(opencl, error));
    ICL_CL_TRY(opencl, "clEnqueueUnmapMemObject",
               clEnqueueUnmapMemObject(opencl->queue->handle, memory_of_buffer(buffer), buffer->mapped, 0, NULL, NULL));
done:
    buffer->mapped = NULL;
    return status;
}

icl_status icl_opencl_sync(icl_backend *backend, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    icl_status status = ICL_OK;
    ICL_TRY(icl_queue_flush(opencl, error));
    ICL_CL_TRY(opencl, "clFinish", clFinish(opencl->queue->handle));
    ICL_TRY(icl_profile_collect(opencl, error));
done:
    return status;
}
