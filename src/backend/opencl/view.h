/* Tensors as arguments of the OpenCL backend's kernels: views, runs of elements, and rows. */
#ifndef ICLAB_BACKEND_OPENCL_VIEW_H
#define ICLAB_BACKEND_OPENCL_VIEW_H

#include "backend/opencl/launch.h"

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
