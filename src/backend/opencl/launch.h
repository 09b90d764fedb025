/*
 * Launches of the OpenCL backend: the arguments of a kernel, how many work-items share its units, scratch memory, and
 * how long launches of GPUs are cut.
 */
#ifndef ICLAB_BACKEND_OPENCL_LAUNCH_H
#define ICLAB_BACKEND_OPENCL_LAUNCH_H

#include "backend/opencl/program.h"

struct icl_block; /* pool.h */

/* Launches of sizes drawn at random; see launch.c. */
typedef struct icl_random_launch {
    bool on;
    uint32_t seed;
    uint64_t draws; /* launches so far */
} icl_random_launch;

/* The state of launches: limits of the device, and measured rates of its kernels. */
typedef struct icl_launcher {
    double seconds;                  /* the most that a launch on a GPU may take; see launch.c */
    double rates[ICL_KERNEL_COUNT];  /* operations a second of each kernel when last measured; 0: never */
    bool launched[ICL_KERNEL_COUNT]; /* whether it ever was; a test asks whether it saw every kernel */
    icl_random_launch random;
} icl_launcher;

/* One argument of a kernel, as clSetKernelArg takes it. */
typedef struct icl_argument {
    size_t size;
    const void *value;
    double work;   /* operations of a unit; > 0 only for the number of units */
    bool by_group; /* on GPUs a work-group takes a unit, not a work-item */
} icl_argument;

#define ICL_ARGUMENT(variable)      ((icl_argument){.size = sizeof(variable), .value = &(variable)})
#define ICL_MEMORY_ARGUMENT(memory) ((icl_argument){.size = sizeof(cl_mem), .value = &(memory)}) /* of type cl_mem */

/*
 * These macros pass the number of units (a cl_uint; the kernel takes uint2 units, see FOR_EACH_UNIT in cl/common.h), by
 * which a launch that may take long is cut, and the approximate operations of a unit. A unit must not depend on another
 * one of the launch.
 */
#define ICL_UNITS(units, operations)       ((icl_argument){sizeof(cl_uint), &(units), 1 + (double)(operations), false})
#define ICL_GROUP_UNITS(units, operations) ((icl_argument){sizeof(cl_uint), &(units), 1 + (double)(operations), true})

/* Returns how many work-items a launch over `units` independent units uses. */
size_t icl_opencl_items(const icl_opencl *opencl, size_t units);

/* The same where a work-group takes a unit; kernels of GPUs. */
size_t icl_opencl_group_items(const icl_opencl *opencl, size_t groups);

/* As icl_opencl_items, but returns fewer if each needs so much scratch memory that all together would fill the
 * device. */
size_t icl_opencl_items_with_scratch(const icl_opencl *opencl, size_t units, size_t scratch_bytes);

/* Takes `group_bytes` of scratch memory for each work-group of a launch of `items` work-items. */
icl_status icl_opencl_take_scratch(icl_opencl *opencl, size_t items, size_t group_bytes, struct icl_block **block,
                                   icl_error *error);

/* Queues a kernel over `units` units of work. The arguments are in the kernel's order. */
icl_status icl_opencl_launch(icl_opencl *opencl, icl_kernel which, size_t units, const icl_argument *arguments,
                             size_t count, icl_error *error);
/* As above, with exactly this many work-items, a multiple of local_size. A single group stays a single group, even if
 * the kernel's groups must be smaller. */
icl_status icl_opencl_launch_items(icl_opencl *opencl, icl_kernel which, size_t items, const icl_argument *arguments,
                                   size_t count, icl_error *error);

/* As above, for a kernel that is compiled specially; NULL: with no options of its own. */
icl_status icl_opencl_launch_with(icl_opencl *opencl, icl_kernel which, const icl_specialization *special, size_t items,
                                  const icl_argument *arguments, size_t count, icl_error *error);

#define ICL_LAUNCH(opencl, which, units, error, ...)                                                                   \
    icl_opencl_launch(opencl, which, units, (const icl_argument[]){__VA_ARGS__},                                       \
                      sizeof((const icl_argument[]){__VA_ARGS__}) / sizeof(icl_argument), error)
#define ICL_LAUNCH_ITEMS(opencl, which, items, error, ...)                                                             \
    icl_opencl_launch_items(opencl, which, items, (const icl_argument[]){__VA_ARGS__},                                 \
                            sizeof((const icl_argument[]){__VA_ARGS__}) / sizeof(icl_argument), error)
#define ICL_LAUNCH_WITH(opencl, which, special, items, error, ...)                                                     \
    icl_opencl_launch_with(opencl, which, special, items, (const icl_argument[]){__VA_ARGS__},                         \
                           sizeof((const icl_argument[]){__VA_ARGS__}) / sizeof(icl_argument), error)

/* Queues a kernel whose arguments are set. */
icl_status icl_opencl_enqueue(icl_opencl *opencl, icl_kernel which, const icl_compiled *compiled, size_t items,
                              icl_error *error);

/* The seconds that a launch may take, unless a single unit takes longer. */
#define ICL_LAUNCH_SECONDS .1

/* A launch that can be cut: its kernel, with all other arguments set, and its units. */
typedef struct icl_slices {
    icl_compiled compiled;
    cl_uint argument; /* the index of the argument that takes the units */
    size_t units;
    double work;   /* operations of a unit */
    bool by_group; /* a work-group takes a unit */
    size_t items;  /* work-items at most */
} icl_slices;

/* Returns how many of the `left` units the next slice takes: what the seconds allow, but `least` or more, and at most
 * twice as many as the slice before it, if there was one. */
size_t icl_slice_units(size_t left, size_t least, size_t before, double units_per_second, double seconds);

/* Returns whether a launch of `work` operations may take so long that it must be cut. */
bool icl_opencl_is_long(const icl_opencl *opencl, icl_kernel which, double work);

/* ---- Tensors as arguments: views, runs of elements, and rows ---- */

/* A view as kernels take it: memory, offset of its first element, strides of four axes (missing ones lead). */
typedef struct icl_view {
    cl_mem memory;
    cl_uint offset;
    cl_int4 stride;
} icl_view;

icl_view icl_view_of(const icl_tensor *tensor);

/* Passes a view as three arguments of a kernel. */
#define ICL_VIEW(view) ICL_MEMORY_ARGUMENT((view).memory), ICL_ARGUMENT((view).offset), ICL_ARGUMENT((view).stride)

/* Returns the extents of four axes, missing ones 1 and leading. */
cl_uint4 icl_shape_of(const icl_tensor *tensor);

/* Runs of elements that several views walk through together; see FOR_EACH_SEGMENT in cl/common.h. */
typedef struct icl_runs {
    cl_uint4 shape;
    cl_uint segment, segments, units;
    icl_view views[4];
} icl_runs;

#define ICL_RUNS(runs)                                                                                                 \
    ICL_ARGUMENT((runs).shape), ICL_ARGUMENT((runs).segment), ICL_ARGUMENT((runs).segments),                           \
        ICL_UNITS((runs).units, (runs).segment)

/* Rows along the last axis; on GPUs each has a team of work-items; see cl/rows.h. */
typedef struct icl_teams {
    cl_uint4 shape;
    cl_uint rows, team, groups; /* groups: work-groups that the teams of all rows fill */
} icl_teams;

#define ICL_TEAM_GROUP 64 /* work-items of the group, as in cl/rows.h */

icl_teams icl_teams_of(const icl_tensor *rows);

/* Returns the work-items of a launch over all rows. */
size_t icl_team_items(const icl_opencl *opencl, const icl_teams *teams);

/* Passes teams as four arguments of a kernel; work: operations of a row. */
#define ICL_TEAMS(teams, work)                                                                                         \
    ICL_ARGUMENT((teams).shape), ICL_ARGUMENT((teams).rows), ICL_ARGUMENT((teams).team),                               \
        ICL_GROUP_UNITS((teams).groups, (work)*ICL_TEAM_GROUP / (teams).team)

#endif
