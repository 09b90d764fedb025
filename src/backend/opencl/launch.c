/* Launches: their sizes, scratch memory and arguments. */
#include <stdio.h>

#include "backend/opencl/launch.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/queue.h"
#include "core/allocate.h"

/* Scratch memory of one launch at most, unless a single work-group needs more. */
#define SCRATCH_BYTES ((size_t)256 << 20)

static size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

size_t icl_opencl_items(const icl_opencl *opencl, size_t units) {
    const size_t items = round_up(units, opencl->local_size);
    return items < opencl->max_items ? items : opencl->max_items;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Half of the memory that is left, because the launch takes more than its scratch. */
static size_t scratch_limit(const icl_opencl *opencl) {
    const size_t live = opencl->backend->statistics.bytes_live, limit = opencl->pool->memory_limit;
    const size_t left = limit > live ? (limit - live) / 2 : 0;
    return smaller(SCRATCH_BYTES, smaller(left, opencl->backend->capabilities.max_allocation));
}

size_t icl_opencl_items_with_scratch(const icl_opencl *opencl, size_t units, size_t scratch_bytes) {
    const size_t items = icl_opencl_items(opencl, units), group = opencl->local_size;
    const size_t fit = scratch_limit(opencl) / (scratch_bytes > 0 ? scratch_bytes : 1) / group * group;
    return items <= fit ? items : fit > group ? fit : group;
}

icl_status icl_opencl_take_scratch(icl_opencl *opencl, size_t items, size_t group_bytes, icl_block **block,
                                   icl_error *error) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    size_t bytes;

    if (!icl_multiply_sizes(items / opencl->local_size, group_bytes, &bytes) || bytes > device->max_allocation)
        return icl_fail(error, ICL_ERROR_MEMORY,
                        "scratch memory: %zu bytes for a work-group, %s allows at most %zu in one buffer", group_bytes,
                        device->name, device->max_allocation);
    return icl_pool_take(opencl, bytes, block, error);
}

/* Sets all arguments, the number of units as a launch over all of them takes it, and notes how they can be cut. */
static icl_status set_arguments(const icl_opencl *opencl, icl_kernel which, cl_kernel kernel,
                                const icl_argument *arguments, size_t count, icl_slices *slices, icl_error *error) {
    char call[96];

    for (size_t i = 0; i < count; i++) {
        icl_argument argument = arguments[i];
        cl_uint2 units = {{0, 0}};
        if (argument.work > 0) {
            slices->argument = (cl_uint)i;
            slices->units = units.s[1] = *(const cl_uint *)argument.value;
            slices->work = argument.work;
            slices->by_group = argument.by_group;
            argument = ICL_ARGUMENT(units);
        }
        const cl_int code = clSetKernelArg(kernel, (cl_uint)i, argument.size, argument.value);
        if (code != CL_SUCCESS) {
            snprintf(call, sizeof call, "clSetKernelArg %zu of %s", i, icl_kernel_infos[which].name);
            return icl_cl_fail(opencl, code, call, error);
        }
    }
    return ICL_OK;
}

icl_status icl_opencl_launch_with(icl_opencl *opencl, icl_kernel which, const icl_specialization *special, size_t items,
                                  const icl_argument *arguments, size_t count, icl_error *error) {
    icl_slices slices = {.items = items};

    ICL_CHECK(icl_queue_flush(opencl, error));
    if (special)
        ICL_CHECK(icl_opencl_variant(opencl, which, special, &slices.compiled, error));
    else
        ICL_CHECK(icl_opencl_kernel(opencl, which, &slices.compiled, error));
    ICL_CHECK(set_arguments(opencl, which, slices.compiled.kernel, arguments, count, &slices, error));
    if (icl_opencl_is_long(opencl, which, slices.work * (double)slices.units))
        ICL_CHECK(icl_opencl_launch_slices(opencl, which, &slices, error));
    else
        ICL_CHECK(icl_opencl_enqueue(opencl, which, &slices.compiled, items, error));
    return ICL_OK;
}

icl_status icl_opencl_launch_items(icl_opencl *opencl, icl_kernel which, size_t items, const icl_argument *arguments,
                                   size_t count, icl_error *error) {
    return icl_opencl_launch_with(opencl, which, NULL, items, arguments, count, error);
}

icl_status icl_opencl_launch(icl_opencl *opencl, icl_kernel which, size_t units, const icl_argument *arguments,
                             size_t count, icl_error *error) {
    return icl_opencl_launch_items(opencl, which, icl_opencl_items(opencl, units), arguments, count, error);
}
