/* Launches: their sizes, scratch memory and arguments, slices of long ones, and sizes drawn at random. */
#include "backend/opencl/launch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/pool.h"
#include "backend/opencl/queue.h"
#include "core/allocate.h"
#include "iclab/host.h"
#include "iclab/random.h"

/* ---- Launches of random sizes ---- */

/*
 * ICLAB_OPENCL_LAUNCH=random:SEED draws the sizes of launches at random, to test the kernels of GPUs.
 *
 * Results must depend neither on how many work-items share the units, nor on the size of their groups, unless a kernel
 * demands one. A GPU with other limits would choose other sizes; drawing them finds a kernel that relies on those of
 * the device at hand.
 */

#define LARGEST_GROUP 256 /* work-items; the most that kernels are written for */

enum { NUMBERS = 0, SIZES }; /* random streams: number of groups of each launch, group size of each kernel */

static size_t draw(const icl_random_launch *random, uint32_t stream, uint64_t index, size_t least, size_t most) {
    const icl_random_key key = {.seed = random->seed, .stream = stream};
    return least + icl_random_word(key, index) % (most - least + 1);
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

static bool is_intel_on_cpu(const icl_capabilities *device) {
    return device->kind == ICL_DEVICE_CPU && strncmp(device->platform, "Intel(R) OpenCL", 15) == 0;
}

/*
 * Draws the size of the groups, if the kernel takes any size, and their number: no more items and groups than were
 * given.
 *
 * Each kernel keeps to one size, because some drivers compile it anew for another. There is scratch memory only for the
 * given number of items, and a single group stays a single group. Two drivers get less of a choice:
 * - llvmpipe ends a work-item's loops after 65,535 turns (open.c), so that at least half of the items share the work;
 * - Intel's runtime for CPUs packs 16 work-items into vectors and compiles the rest of a group a second time, where it
 *   turns a sum in a loop into 16 partial sums. Strict arithmetic forbids that (OpenCL 1.2, 7.4); its machine code
 *   shows it. Groups of 16 have no rest.
 */
static void draw_launch(icl_opencl *opencl, icl_kernel which, const icl_compiled *compiled, size_t *items,
                        size_t *group) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    icl_random_launch *random = &opencl->launcher->random;
    const bool is_one = *items == compiled->local_size;

    if (!compiled->is_fixed) {
        const size_t unit = is_intel_on_cpu(device) ? 16 : 1;
        const size_t limit = smaller(smaller(compiled->limit, device->max_work_group), LARGEST_GROUP);
        *group = smaller(*items, unit * draw(random, SIZES, (uint64_t)which, 1, limit / unit));
    }
    const size_t most = is_one ? 1 : *items / *group, least = strstr(device->name, "llvmpipe") ? (most + 1) / 2 : 1;
    *items = *group * draw(random, NUMBERS, random->draws++, least, most);
}

/* ---- Queueing one kernel whose arguments are set ---- */

/* Some drivers start nothing before a flush; this rate of flushes costs nothing and keeps the device busy. */
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
        draw_launch(opencl, which, compiled, &items, &group);
    const cl_int code =
        clEnqueueNDRangeKernel(opencl->queue->handle, compiled->kernel, 1, NULL, &items, &group, 0, NULL, event);
    if (code != CL_SUCCESS)
        return launch_failed(opencl, code, icl_kernel_infos[which].name, compiled, error);
    opencl->launcher->launched[which] = true;
    icl_profile_add(opencl, event, which == ICL_KERNEL_run_small);
    if (++opencl->queue->launches >= LAUNCHES_PER_FLUSH) {
        opencl->queue->launches = 0;
        ICL_CL_TRY(opencl, "clFlush", clFlush(opencl->queue->handle));
    }
done:
    return status;
}

/* ---- Long launches of GPUs in slices ---- */

/*
 * Windows and Intel's driver for Linux reset a GPU whose launch takes 2 seconds, and the work is lost. So a launch that
 * may take long is cut into slices of its units; these do not depend on each other, so the bits are those of one
 * launch. Its time is estimated from its operations and from the rate of the kernel's last slices, or a low rate at
 * first. Only launches that may take a quarter of the bound are cut and measured, for which the host has to wait;
 * shorter ones stay asynchronous. The rate of one shape says little about another, so the first slice takes a quarter
 * of the bound, and none takes more than twice the units of the one before: if units grow longer, as under a causal
 * mask, the rate is known in time.
 */

#define START_RATE    2e9  /* operations a second that any GPU reaches */
#define FIRST_SHARE   .25  /* share of the bound that the first slice may take */
#define LEAST_SECONDS 1e-6 /* the shortest time that a clock surely measures */

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

/* Runs the launch in slices and waits for each. */
static icl_status launch_slices(icl_opencl *opencl, icl_kernel which, const icl_slices *slices, icl_error *error) {
    const icl_compiled *compiled = &slices->compiled;
    const size_t group = compiled->is_fixed ? compiled->local_size : opencl->local_size,
                 least = slices->by_group ? 1 : group;
    double rate = rate_of(opencl, which) / slices->work, seconds = opencl->launcher->seconds * FIRST_SHARE;
    size_t count, before = 0;
    icl_status status = ICL_OK;

    ICL_CL_TRY(opencl, "clFinish", clFinish(opencl->queue->handle)); /* earlier work in the queue is not measured */
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
        if (count >= before) /* a short last slice does not fill the device */
            rate = (double)count / (elapsed > LEAST_SECONDS ? elapsed : LEAST_SECONDS);
        seconds = opencl->launcher->seconds;
    }
    opencl->launcher->rates[which] = rate * slices->work;
done:
    return status;
}

/* ---- Launches ---- */

/* The most scratch memory of one launch, unless a single work-group needs more. */
#define SCRATCH_BYTES ((size_t)256 << 20)

static size_t round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

size_t icl_opencl_items(const icl_opencl *opencl, size_t units) {
    const size_t items = round_up(units, opencl->local_size);
    return items < opencl->max_items ? items : opencl->max_items;
}

size_t icl_opencl_group_items(const icl_opencl *opencl, size_t groups) {
    return icl_opencl_items(opencl, groups * opencl->local_size);
}

/* Returns at most half of the memory that is left, because the launch takes more than its scratch. */
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

/* Sets all arguments, with the number of units as for a launch over all of them, and notes how the launch can be
 * cut. */
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
        ICL_CHECK(launch_slices(opencl, which, &slices, error));
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

/* ---- Tensors as arguments ---- */

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

icl_teams icl_teams_of(const icl_tensor *rows) {
    const size_t n = rows->shape[rows->rank - 1];
    icl_teams teams = {.shape = icl_shape_of(rows), .rows = (cl_uint)(icl_tensor_count(rows) / n), .team = 1};

    while (teams.team < ICL_TEAM_GROUP && 4 * teams.team < n) /* four elements a member, unless a group is full */
        teams.team *= 2;
    teams.groups = (teams.rows + ICL_TEAM_GROUP / teams.team - 1) / (ICL_TEAM_GROUP / teams.team);
    return teams;
}

size_t icl_team_items(const icl_opencl *opencl, const icl_teams *teams) {
    return icl_opencl_group_items(opencl, teams->groups);
}
