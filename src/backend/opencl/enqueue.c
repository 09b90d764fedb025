/* Queueing one kernel whose arguments are set: below launches, and the slices of long ones. */
#include <stdio.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/queue.h"

/* Some drivers start nothing before a flush; one this often costs nothing and keeps the device busy. */
#define LAUNCHES_PER_FLUSH 32

static icl_status launch_failed(const icl_opencl *opencl, cl_int code, const char *name, const icl_compiled *compiled,
                                icl_error *error) {
    char call[96];

    if (compiled->local_size > compiled->limit)
        return icl_fail(error, ICL_ERROR_DEVICE,
                        "kernel %s needs groups of %zu work-items, %s allows it at most %zu: %s (%d)", name,
                        compiled->local_size, opencl->backend->capabilities.name, compiled->limit,
                        icl_cl_error_name(code), code);
    snprintf(call, sizeof call, "clEnqueueNDRangeKernel of %s", name);
    return icl_cl_fail(opencl, code, call, error);
}

icl_status icl_opencl_enqueue(icl_opencl *opencl, icl_kernel which, const icl_compiled *compiled, size_t items,
                              icl_error *error) {
    icl_status status = ICL_OK;
    cl_event *event = NULL;
    size_t group = compiled->local_size;

    ICL_TRY(icl_profile_next(opencl, &event, error));
    if (items == opencl->local_size && !compiled->is_fixed) /* one group stays one */
        items = compiled->local_size;
    if (opencl->launcher->random.on)
        icl_opencl_draw_launch(opencl, which, compiled, &items, &group);
    const cl_int code =
        clEnqueueNDRangeKernel(opencl->queue->handle, compiled->kernel, 1, NULL, &items, &group, 0, NULL, event);
    if (code != CL_SUCCESS)
        return launch_failed(opencl, code, icl_kernel_infos[which].name, compiled, error);
    opencl->launcher->launched[which] = true;
    opencl->queue->profile.count += event != NULL;
    opencl->backend->statistics.launches++;
    if (++opencl->queue->launches >= LAUNCHES_PER_FLUSH) {
        opencl->queue->launches = 0;
        ICL_CL_TRY(opencl, "clFlush", clFlush(opencl->queue->handle));
    }
done:
    return status;
}
