/* Filling, copying and elementwise arithmetic: cl/elementwise.cl. */
#include "backend/opencl/ops.h"
#include "backend/opencl/small.h"

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

/* Merges the axes of `count` tensors of one shape as far as their strides allow. */
static icl_runs runs_of(const icl_opencl *opencl, const icl_tensor *tensors, int count) {
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

/* ---- Ops ---- */

icl_status icl_opencl_fill(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_runs runs = runs_of(opencl, operands, 1);
    const cl_float value = (cl_float) * (const double *)params;
    return ICL_LAUNCH(opencl, ICL_KERNEL_fill, runs.units, error, ICL_VIEW(runs.views[0]), ICL_RUNS(runs),
                      ICL_ARGUMENT(value));
}

icl_status icl_opencl_copy(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_runs runs = runs_of(opencl, operands, 2);
    (void)params;
    if (icl_small_takes_runs(opencl, &runs))
        return icl_small_add_runs(opencl, ICL_SMALL_COPY, &runs, 2, &(icl_small_choice){0}, error);
    return ICL_LAUNCH(opencl, ICL_KERNEL_copy, runs.units, error, ICL_VIEW(runs.views[0]), ICL_VIEW(runs.views[1]),
                      ICL_RUNS(runs));
}

icl_status icl_opencl_unary(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_runs runs = runs_of(opencl, operands, 2);
    const cl_uint kind = (cl_uint) * (const icl_unary_kind *)params;
    if (icl_small_takes_runs(opencl, &runs))
        return icl_small_add_runs(opencl, ICL_SMALL_UNARY, &runs, 2, &(icl_small_choice){.kind = kind}, error);
    return ICL_LAUNCH(opencl, ICL_KERNEL_unary, runs.units, error, ICL_VIEW(runs.views[0]), ICL_VIEW(runs.views[1]),
                      ICL_RUNS(runs), ICL_ARGUMENT(kind));
}

#define MAX_PERIOD 256 /* as in cl/elementwise.cl */

/* Returns whether the view walks through the two inner axes as one run; is_repeated: whether it repeats the last axis
 * for each row. */
static bool is_run(const icl_view *view, cl_uint period) {
    return view->stride.s[3] == 1 && view->stride.s[2] == (cl_int)period;
}

static bool is_repeated(const icl_view *view) {
    return view->stride.s[3] == 1 && view->stride.s[2] == 0;
}

/* Launches a function of a short row and contiguous rows, as when parameters multiply tokens. */
static icl_status launch_periodic(icl_opencl *opencl, const icl_runs *runs, bool swapped, cl_uint kind,
                                  icl_error *error) {
    const icl_view *out = &runs->views[0], *a = &runs->views[swapped ? 2 : 1], *b = &runs->views[swapped ? 1 : 2];
    const cl_uint period = runs->shape.s[3], count = period * runs->shape.s[2], swap = swapped;
    const cl_uint segment = 4096, units = (count + segment - 1) / segment;
    return ICL_LAUNCH(opencl, ICL_KERNEL_binary_periodic, units, error, ICL_MEMORY_ARGUMENT(out->memory),
                      ICL_ARGUMENT(out->offset), ICL_MEMORY_ARGUMENT(a->memory), ICL_ARGUMENT(a->offset),
                      ICL_MEMORY_ARGUMENT(b->memory), ICL_ARGUMENT(b->offset), ICL_ARGUMENT(count),
                      ICL_ARGUMENT(period), ICL_ARGUMENT(segment), ICL_UNITS(units, segment), ICL_ARGUMENT(kind),
                      ICL_ARGUMENT(swap));
}

icl_status icl_opencl_binary(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_runs runs = runs_of(opencl, operands, 3);
    const icl_view *views = runs.views;
    const cl_uint kind = (cl_uint) * (const icl_binary_kind *)params, row = runs.shape.s[3];
    const bool two_axes = runs.shape.s[0] == 1 && runs.shape.s[1] == 1 && runs.shape.s[2] > 1;
    const bool worth_it = opencl->lanes > 1 && row % opencl->lanes != 0 && row <= MAX_PERIOD;

    if (icl_small_takes_runs(opencl, &runs))
        return icl_small_add_runs(opencl, ICL_SMALL_BINARY, &runs, 3, &(icl_small_choice){.kind = kind}, error);
    if (two_axes && worth_it && is_run(&views[0], row)) {
        if (is_run(&views[1], row) && is_repeated(&views[2]))
            return launch_periodic(opencl, &runs, false, kind, error);
        if (is_repeated(&views[1]) && is_run(&views[2], row))
            return launch_periodic(opencl, &runs, true, kind, error);
    }
    return ICL_LAUNCH(opencl, ICL_KERNEL_binary, runs.units, error, ICL_VIEW(views[0]), ICL_VIEW(views[1]),
                      ICL_VIEW(views[2]), ICL_RUNS(runs), ICL_ARGUMENT(kind));
}

icl_status icl_opencl_scale_add(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_scale_add_params *p = params;
    const icl_runs runs = runs_of(opencl, operands, 3);
    const cl_uint has_b = operands[2].buffer != NULL;
    const cl_float alpha = (cl_float)p->alpha, beta = (cl_float)p->beta;
    if (icl_small_takes_runs(opencl, &runs))
        return icl_small_add_runs(opencl, ICL_SMALL_SCALE_ADD, &runs, 3, &(icl_small_choice){has_b, alpha, beta},
                                  error);
    return ICL_LAUNCH(opencl, ICL_KERNEL_scale_add, runs.units, error, ICL_VIEW(runs.views[0]), ICL_VIEW(runs.views[1]),
                      ICL_VIEW(runs.views[2]), ICL_RUNS(runs), ICL_ARGUMENT(has_b), ICL_ARGUMENT(alpha),
                      ICL_ARGUMENT(beta));
}
