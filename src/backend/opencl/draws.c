/* Gamma draws, cumulative sums, symbols by their weights, different numbers and elements by number:
 * cl/random/draws.cl. */
#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "iclab/ops.h"

#define GAMMA_WORK 600.0 /* approximate operations of a gamma draw */

icl_status icl_opencl_random_gamma(icl_backend *backend, const void *params, const icl_tensor *operands,
                                   icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_draw_params *p = params;
    const icl_view out = icl_view_of(&operands[0]), shapes = icl_view_of(&operands[1]);
    const cl_uint4 shape = icl_shape_of(&operands[0]);
    const cl_uint count = (cl_uint)icl_tensor_count(&operands[0]), lanes = (cl_uint)opencl->lanes;
    const cl_uint units = (count + lanes - 1) / lanes, seed = p->key.seed, stream = p->key.stream;
    const cl_uint2 step = {{(cl_uint)p->key.step, (cl_uint)(p->key.step >> 32)}};
    const cl_ulong first = p->first_index;

    return ICL_LAUNCH(opencl, ICL_KERNEL_random_gamma, units, error, ICL_VIEW(out), ICL_VIEW(shapes),
                      ICL_ARGUMENT(shape), ICL_ARGUMENT(count), ICL_UNITS(units, GAMMA_WORK * (double)lanes),
                      ICL_ARGUMENT(seed), ICL_ARGUMENT(stream), ICL_ARGUMENT(step), ICL_ARGUMENT(first));
}

icl_status icl_opencl_cumulative_sum(icl_backend *backend, const void *params, const icl_tensor *operands,
                                     icl_error *error) {
    const icl_view out = icl_view_of(&operands[0]), in = icl_view_of(&operands[1]);
    const cl_uint4 shape = icl_shape_of(&operands[0]);
    const cl_uint rows = shape.s[0] * shape.s[1] * shape.s[2];

    (void)params;
    return ICL_LAUNCH(icl_opencl_of(backend), ICL_KERNEL_cumulative_sum, rows, error, ICL_VIEW(out), ICL_VIEW(in),
                      ICL_ARGUMENT(shape), ICL_UNITS(rows, shape.s[3]));
}

icl_status icl_opencl_categorical(icl_backend *backend, const void *params, const icl_tensor *operands,
                                  icl_error *error) {
    const icl_view out = icl_view_of(&operands[0]), in = icl_view_of(&operands[1]), sums = icl_view_of(&operands[2]);
    const cl_uint4 shape = icl_shape_of(&operands[0]);
    const cl_uint units = (cl_uint)icl_tensor_count(&operands[0]);
    const cl_uint symbols = (cl_uint)operands[2].shape[operands[2].rank - 1];
    const cl_float least = (cl_float)ICL_LEAST_WEIGHT;
    double work = 4;

    (void)params;
    for (cl_uint left = symbols; left > 0; left /= 2)
        work += 4;
    return ICL_LAUNCH(icl_opencl_of(backend), ICL_KERNEL_categorical, units, error, ICL_VIEW(out), ICL_VIEW(in),
                      ICL_VIEW(sums), ICL_ARGUMENT(shape), ICL_UNITS(units, work), ICL_ARGUMENT(symbols),
                      ICL_ARGUMENT(least));
}

icl_status icl_opencl_random_distinct(icl_backend *backend, const void *params, const icl_tensor *operands,
                                      icl_error *error) {
    const icl_distinct_params *p = params;
    const icl_view out = icl_view_of(&operands[0]);
    const cl_uint4 shape = icl_shape_of(&operands[0]);
    const cl_uint rows = shape.s[0] * shape.s[1] * shape.s[2], seed = p->key.seed, stream = p->key.stream;
    const cl_uint2 step = {{(cl_uint)p->key.step, (cl_uint)(p->key.step >> 32)}};
    const cl_ulong first = p->first_index, row_words = p->row_words;
    const cl_uint count = p->count;
    const cl_float least = (cl_float)p->least;
    const double work = (20 + (double)shape.s[3]) * (double)shape.s[3];

    return ICL_LAUNCH(icl_opencl_of(backend), ICL_KERNEL_random_distinct, rows, error, ICL_VIEW(out),
                      ICL_ARGUMENT(shape), ICL_UNITS(rows, work), ICL_ARGUMENT(seed), ICL_ARGUMENT(stream),
                      ICL_ARGUMENT(step), ICL_ARGUMENT(first), ICL_ARGUMENT(row_words), ICL_ARGUMENT(count),
                      ICL_ARGUMENT(least));
}

icl_status icl_opencl_take(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_view out = icl_view_of(&operands[0]), in = icl_view_of(&operands[1]), places = icl_view_of(&operands[2]);
    const cl_uint4 shape = icl_shape_of(&operands[0]);
    const cl_uint units = (cl_uint)icl_tensor_count(&operands[0]);
    const cl_uint count = (cl_uint)operands[1].shape[operands[1].rank - 1];

    (void)params;
    return ICL_LAUNCH(icl_opencl_of(backend), ICL_KERNEL_take, units, error, ICL_VIEW(out), ICL_VIEW(in),
                      ICL_VIEW(places), ICL_ARGUMENT(shape), ICL_UNITS(units, 4), ICL_ARGUMENT(count));
}

icl_status icl_opencl_put(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_view out = icl_view_of(&operands[0]), values = icl_view_of(&operands[1]);
    const icl_view places = icl_view_of(&operands[2]);
    const cl_uint4 shape = icl_shape_of(&operands[2]);
    const cl_uint rows = shape.s[0] * shape.s[1] * shape.s[2];
    const cl_uint count = (cl_uint)operands[0].shape[operands[0].rank - 1];

    (void)params;
    return ICL_LAUNCH(icl_opencl_of(backend), ICL_KERNEL_put, rows, error, ICL_VIEW(out), ICL_VIEW(values),
                      ICL_VIEW(places), ICL_ARGUMENT(shape), ICL_UNITS(rows, 4.0 * shape.s[3]), ICL_ARGUMENT(count));
}
