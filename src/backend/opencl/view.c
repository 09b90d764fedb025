/* Views of tensors, as kernels take them. */
#include "backend/opencl/view.h"

#include "backend/opencl/pool.h"

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
