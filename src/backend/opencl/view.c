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

/* ---- Runs ---- */

/* Returns whether every view's step along `axis` covers the whole of the axis `inner` (of extent `extent`). */
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

#define ACCESS 4 /* elements of 16 bytes, as in cl/elementwise.cl */

/* Returns whether every access of 16 bytes to the views' runs lies at a multiple of 16 bytes. Memory itself does. */
static bool is_wide(const icl_runs *runs, int count) {
    const int last = ICL_MAX_RANK - 1;

    for (int i = 0; i < count; i++) {
        const icl_view *view = &runs->views[i];
        cl_uint places = view->offset;
        for (int axis = 0; axis < last; axis++)
            places |= (cl_uint)view->stride.s[axis];
        if (view->stride.s[last] != 1 || places % ACCESS != 0)
            return false;
    }
    return runs->shape.s[last] % ACCESS == 0;
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
    /* A work-item of a GPU takes one element or one access, so that neighbours read neighbours; one of a CPU takes so
     * many that they hide the cost of finding its place. */
    const cl_uint run = runs.shape.s[ICL_MAX_RANK - 1];
    runs.segment = opencl->lanes > 1 ? 4096 : is_wide(&runs, count) ? ACCESS : 1;
    runs.segments = (run + runs.segment - 1) / runs.segment;
    runs.units = runs.shape.s[0] * runs.shape.s[1] * runs.shape.s[2] * runs.segments;
    return runs;
}

/* ---- Rows ---- */

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
