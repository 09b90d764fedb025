/* Launches: their sizes, scratch memory and arguments, and what kernels are told about tensors. */
#include <stdio.h>

#include "backend/opencl/opencl.h"

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
    const size_t live = opencl->backend->statistics.bytes_live, limit = opencl->memory_limit;
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

    ICL_CHECK(icl_small_launch(opencl, error));
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

/* ---- Views ---- */

icl_view icl_view_of(const icl_tensor *tensor) {
    icl_view view = {.memory = icl_memory_of(tensor), .offset = (cl_uint)tensor->offset};
    for (int axis = 0; axis < tensor->rank; axis++)
        view.stride.s[ICL_MAX_RANK - tensor->rank + axis] = (cl_int)tensor->stride[axis];
    return view;
}

cl_uint4 icl_shape_of(const icl_tensor *tensor) {
    cl_uint4 shape = {{1, 1, 1, 1}};
    for (int axis = 0; axis < tensor->rank; axis++)
        shape.s[ICL_MAX_RANK - tensor->rank + axis] = (cl_uint)tensor->shape[axis];
    return shape;
}

/* Whether every view's step along `axis` equals walking the whole of the axis `inner` (of extent `extent`). */
static bool merges(const icl_runs *runs, int count, int axis, int inner, cl_uint extent) {
    for (int i = 0; i < count; i++) {
        const cl_int4 *stride = &runs->views[i].stride;
        if ((int64_t)stride->s[axis] != (int64_t)stride->s[inner] * (int64_t)extent)
            return false;
    }
    return true;
}

static void move_axis(icl_runs *runs, int count, int from, int to) {
    runs->shape.s[to] = runs->shape.s[from];
    for (int i = 0; i < count; i++)
        runs->views[i].stride.s[to] = runs->views[i].stride.s[from];
}

icl_runs icl_runs_of(const icl_opencl *opencl, const icl_tensor *tensors, int count) {
    icl_runs runs = {.shape = icl_shape_of(&tensors[0])};
    int inner = ICL_MAX_RANK - 1;

    runs.views[0] = icl_view_of(&tensors[0]);
    for (int i = 1; i < count; i++) /* an absent operand is passed as any other memory */
        runs.views[i] = tensors[i].buffer ? icl_view_of(&tensors[i]) : runs.views[0];
    for (int axis = inner - 1; axis >= 0; axis--) {
        if (runs.shape.s[axis] == 1)
            continue;
        if (runs.shape.s[inner] == 1) {
            move_axis(&runs, count, axis, inner);
        } else if (merges(&runs, count, axis, inner, runs.shape.s[inner])) {
            runs.shape.s[inner] *= runs.shape.s[axis];
        } else {
            inner--;
            move_axis(&runs, count, axis, inner);
        }
    }
    for (int axis = 0; axis < inner; axis++) {
        runs.shape.s[axis] = 1;
        for (int i = 0; i < count; i++)
            runs.views[i].stride.s[axis] = 0;
    }
    /* A work-item of a GPU takes one element, so that neighbours read neighbours; one of a CPU takes what hides the
     * cost of finding its place. */
    const cl_uint run = runs.shape.s[ICL_MAX_RANK - 1];
    runs.segment = opencl->lanes == 1 ? 1 : 4096;
    runs.segments = (run + runs.segment - 1) / runs.segment;
    runs.units = runs.shape.s[0] * runs.shape.s[1] * runs.shape.s[2] * runs.segments;
    return runs;
}

/* ---- Rows ---- */

icl_teams icl_teams_of(const icl_tensor *rows) {
    const size_t n = rows->shape[rows->rank - 1];
    icl_teams teams = {.shape = icl_shape_of(rows), .rows = (cl_uint)(icl_tensor_count(rows) / n), .team = 1};

    while (teams.team < ICL_TEAM_GROUP && 4 * teams.team < n) /* a member has four elements, or a team is a group */
        teams.team *= 2;
    teams.groups = (teams.rows + ICL_TEAM_GROUP / teams.team - 1) / (ICL_TEAM_GROUP / teams.team);
    return teams;
}

size_t icl_team_items(const icl_opencl *opencl, const icl_teams *teams) {
    return icl_opencl_items(opencl, (size_t)teams->groups * opencl->local_size);
}
