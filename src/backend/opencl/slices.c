/*
 * Long launches of GPUs in slices.
 *
 * Windows resets a GPU whose launch takes 2 seconds, and so does Intel's driver for Linux: the work is lost. So a
 * launch that may take long is cut by its units, which do not depend on each other: the bits are those of one launch.
 * How long it may take follows from its operations and from the rate that the kernel's last slices reached; at first a
 * low one. Only launches that may take a quarter of the bound are cut and measured, for which the host has to wait;
 * shorter ones stay asynchronous. The rate of one shape says little about another, so the first slice takes a quarter
 * of the bound, and none takes more than twice the units of the one before: where units grow longer, as under a causal
 * mask, the rate is known in time.
 */
#include "backend/opencl/launch.h"
#include "backend/opencl/queue.h"
#include "iclab/host.h"

#define START_RATE    2e9  /* operations a second that any GPU reaches */
#define FIRST_SHARE   .25  /* of the bound: of the first slice */
#define LEAST_SECONDS 1e-6 /* what a clock surely tells from nothing */

size_t icl_slice_units(size_t left, size_t least, size_t before, double units_per_second, double seconds) {
    const double affordable = units_per_second * seconds;
    size_t count = affordable < (double)left ? (size_t)affordable : left;

    if (before > 0 && count / 2 >= before)
        count = 2 * before;
    if (count < least)
        count = least;
    return count < left ? count : left;
}

static double rate_of(const icl_opencl *opencl, icl_kernel which) {
    return opencl->launcher->rates[which] > 0 ? opencl->launcher->rates[which] : START_RATE;
}

bool icl_opencl_is_long(const icl_opencl *opencl, icl_kernel which, double work) {
    return opencl->lanes == 1 && work > rate_of(opencl, which) * opencl->launcher->seconds * FIRST_SHARE;
}

icl_status icl_opencl_launch_slices(icl_opencl *opencl, icl_kernel which, const icl_slices *slices, icl_error *error) {
    const icl_compiled *compiled = &slices->compiled;
    const size_t group = compiled->is_fixed ? compiled->local_size : opencl->local_size,
                 least = slices->by_group ? 1 : group;
    double rate = rate_of(opencl, which) / slices->work, seconds = opencl->launcher->seconds * FIRST_SHARE;
    size_t count, before = 0;
    icl_status status = ICL_OK;

    ICL_CL_TRY(opencl, "clFinish", clFinish(opencl->queue->handle)); /* what was queued before is not measured */
    for (size_t first = 0; first < slices->units; first += count, before = count) {
        count = icl_slice_units(slices->units - first, least, before, rate, seconds);
        const cl_uint2 units = {{(cl_uint)first, (cl_uint)(first + count)}};
        const size_t wanted = slices->by_group ? count * group : (count + group - 1) / group * group;
        const double start = icl_clock_seconds();
        ICL_CL_TRY(opencl, "clSetKernelArg",
                   clSetKernelArg(slices->compiled.kernel, slices->argument, sizeof units, &units));
        ICL_TRY(icl_opencl_enqueue(opencl, which, &slices->compiled, wanted < slices->items ? wanted : slices->items,
                                   error));
        ICL_CL_TRY(opencl, "clFinish", clFinish(opencl->queue->handle));
        const double elapsed = icl_clock_seconds() - start;
        if (count >= before) /* a short last one does not fill the device */
            rate = (double)count / (elapsed > LEAST_SECONDS ? elapsed : LEAST_SECONDS);
        seconds = opencl->launcher->seconds;
    }
    opencl->launcher->rates[which] = rate * slices->work;
done:
    return status;
}
