/* Concatenation: validation, then a copy of each part. */
#include <stdio.h>
#include <string.h>

#include "backend/dispatch.h"
#include "iclab/status.h"

/* That the part has out's shape but for its extent along the axis. */
static icl_status check_part(icl_backend *backend, const char *op, const icl_tensor *out, int axis, size_t number,
                             const icl_tensor *part, icl_error *error) {
    size_t shape[ICL_MAX_RANK];
    char role[32];

    snprintf(role, sizeof role, "part %zu", number);
    ICL_CHECK(icl_check_input(backend, op, role, part, error));
    memcpy(shape, out->shape, sizeof shape);
    shape[axis] = part->rank == out->rank ? part->shape[axis] : 1;
    ICL_CHECK(icl_check_shape(op, role, part, out->rank, shape, error));
    return icl_check_overlap(op, out, part, false, error);
}

icl_status icl_concatenate(icl_backend *backend, icl_tensor out, int axis, size_t count, const icl_tensor *ins,
                           icl_error *error) {
    static const char op[] = "concatenate";
    size_t extent = 0;

    ICL_CHECK(icl_check_output(backend, op, "out", &out, error));
    if (axis < 0 || axis >= out.rank)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: axis %d of a tensor of rank %d", op, axis, out.rank);
    for (size_t i = 0; i < count; i++) {
        ICL_CHECK(check_part(backend, op, &out, axis, i, &ins[i], error));
        if (ins[i].shape[axis] > out.shape[axis] - extent)
            return icl_fail(error, ICL_ERROR_INPUT, "%s: parts 0 to %zu are longer than out along axis %d, %zu", op, i,
                            axis, out.shape[axis]);
        extent += ins[i].shape[axis];
    }
    if (extent < out.shape[axis])
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu parts of %zu along axis %d in all, expected out's %zu", op,
                        count, extent, axis, out.shape[axis]);
    extent = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t own = ins[i].shape[axis];
        ICL_CHECK(icl_copy(backend, icl_tensor_slice(out, axis, extent, own), ins[i], error));
        extent += own;
    }
    return ICL_OK;
}
