/* Rows on spheres: cl/random/spherical.cl. */
#include "backend/opencl/ops.h"
#include "backend/opencl/view.h"

#define ELEMENT_WORK 8.0 /* operations for an element, about */

/* spherical's operands. */
enum { OUT = 0, IN, NORMALS, TABLE };

icl_status icl_opencl_spherical(icl_backend *backend, const void *params, const icl_tensor *operands,
                                icl_error *error) {
    icl_opencl *opencl = icl_opencl_of(backend);
    const cl_uint4 shape = icl_shape_of(&operands[OUT]);
    const cl_uint rows = shape.s[0] * shape.s[1] * shape.s[2], lanes = (cl_uint)opencl->lanes;
    const cl_uint units = (rows + lanes - 1) / lanes, has_radius = operands[TABLE].buffer != NULL;
    icl_view views[4];

    (void)params;
    for (int i = OUT; i <= TABLE; i++) /* an absent operand is passed as any other memory */
        views[i] = icl_view_of(operands[i].buffer ? &operands[i] : &operands[IN]);
    return ICL_LAUNCH(opencl, ICL_KERNEL_spherical, units, error, ICL_VIEW(views[OUT]), ICL_VIEW(views[IN]),
                      ICL_VIEW(views[NORMALS]), ICL_VIEW(views[TABLE]), ICL_ARGUMENT(shape), ICL_ARGUMENT(rows),
                      ICL_UNITS(units, ELEMENT_WORK * (double)(lanes * shape.s[3])), ICL_ARGUMENT(has_radius));
}
