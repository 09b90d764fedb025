/* Rotary positions: cl/rotate.cl. */
#include "backend/opencl/ops.h"
#include "backend/opencl/view.h"

icl_status icl_opencl_rotate(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_view out = icl_view_of(&operands[0]), in = icl_view_of(&operands[1]), angles = icl_view_of(&operands[2]);
    const cl_float sign = *(const bool *)params ? -1 : 1;
    cl_uint4 shape = icl_shape_of(&operands[0]);

    shape.s[3] /= 2;
    const bool is_gpu = opencl->lanes == 1;
    const cl_uint rows = shape.s[0] * shape.s[1] * shape.s[2], units = is_gpu ? rows * shape.s[3] : rows;
    return ICL_LAUNCH(opencl, ICL_KERNEL_rotate_pairs, units, error, ICL_VIEW(out), ICL_VIEW(in), ICL_VIEW(angles),
                      ICL_ARGUMENT(shape), ICL_UNITS(units, is_gpu ? 6.0 : 6.0 * shape.s[3]), ICL_ARGUMENT(sign));
}
