/* The public op that puts rows on spheres: validation, then dispatch. */
#include "backend/dispatch.h"
#include "iclab/status.h"

static const char op[] = "spherical";

/* normals [..., 1] and table, both or neither. */
static icl_status check_radius(icl_backend *backend, const icl_tensor operands[4], icl_error *error) {
    const icl_tensor *out = &operands[0], *normals = &operands[2], *table = &operands[3];
    size_t shape[ICL_MAX_RANK];

    if (!normals->buffer != !table->buffer)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s without %s, expected both or neither", op,
                        normals->buffer ? "normals" : "a table", normals->buffer ? "a table" : "normals");
    if (!normals->buffer)
        return ICL_OK;
    for (int axis = 0; axis < out->rank; axis++)
        shape[axis] = axis + 1 < out->rank ? out->shape[axis] : 1;
    ICL_CHECK(icl_check_input(backend, op, "normals", normals, error));
    ICL_CHECK(icl_check_shape(op, "normals", normals, out->rank, shape, error));
    ICL_CHECK(icl_check_overlap(op, out, normals, false, error));
    ICL_CHECK(icl_check_input(backend, op, "table", table, error));
    ICL_CHECK(icl_check_shape(op, "table", table, 2, (const size_t[]){ICL_CHI_PIECES, ICL_CHI_TERMS}, error));
    return icl_check_overlap(op, out, table, false, error);
}

icl_status icl_spherical(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor normals, icl_tensor table,
                         icl_error *error) {
    const icl_tensor operands[4] = {out, in, normals, table};

    ICL_CHECK(icl_check_output(backend, op, "out", &out, error));
    ICL_CHECK(icl_check_input(backend, op, "in", &in, error));
    if (out.rank < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: out has rank 0, expected rows along its last axis", op);
    ICL_CHECK(icl_check_shape(op, "in", &in, out.rank, out.shape, error));
    ICL_CHECK(icl_check_overlap(op, &out, &in, true, error));
    ICL_CHECK(check_radius(backend, operands, error));
    if (icl_tensor_count(&out) > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_spherical, NULL, operands, error));
    return ICL_OK;
}
