/* Rotary positions: cl/rotate.cl. */
#include "backend/opencl/opencl.h"

icl_status icl_opencl_rotate(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const icl_view out = icl_view_of(&operands[0]), in = icl_view_of(&operands[1]), angles = icl_view_of(&operands[2]);
    const cl_float sign = *(const bool *)params ? -1 : 1;
    cl_uint4 shape = icl_shape_of(&operands[0]);

    shape.s[3] /= 2;
    const cl_uint segment = opencl->lanes == 1 ? 1 : 4096, segments = (shape.s[3] + segment - 1) / segment;
    const cl_uint units = shape.s[0] * shape.s[1] * shape.s[2] * segments;
    return ICL_LAUNCH(opencl, ICL_KERNEL_rotate_pairs, units, error, ICL_VIEW(out), ICL_VIEW(in), ICL_VIEW(angles),
                      ICL_ARGUMENT(shape), ICL_ARGUMENT(segment), ICL_ARGUMENT(segments),
                      ICL_UNITS(units, 6.0 * segment), ICL_ARGUMENT(sign));
}
