/* The public op of rotary positions: validation, then dispatch. */
#include "backend/dispatch.h"
#include "iclab/status.h"

icl_status icl_rotate(icl_backend *backend, bool inverse, icl_tensor out, icl_tensor in, icl_tensor angles,
                      icl_error *error) {
    static const char op[] = "rotate";
    const icl_tensor operands[] = {out, in, angles};

    ICL_CHECK(icl_check_output(backend, op, "out", &out, error));
    ICL_CHECK(icl_check_input(backend, op, "in", &in, error));
    ICL_CHECK(icl_check_input(backend, op, "angles", &angles, error));
    if (out.rank < 2)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: out has rank %d, expected 2 to %d", op, out.rank, ICL_MAX_RANK);
    const size_t tokens = out.shape[out.rank - 2], width = out.shape[out.rank - 1];
    if (width % 2 != 0)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: rows of %zu elements, expected an even number", op, width);
    ICL_CHECK(icl_check_shape(op, "in", &in, out.rank, out.shape, error));
    ICL_CHECK(icl_check_shape(op, "angles", &angles, 3, (const size_t[]){tokens, width / 2, 2}, error));
    ICL_CHECK(icl_check_overlap(op, &out, &in, true, error));
    ICL_CHECK(icl_check_overlap(op, &out, &angles, false, error));
    return icl_tensor_count(&out) > 0 ? icl_dispatch(backend, ICL_OP_rotate, &inverse, operands, error) : ICL_OK;
}
