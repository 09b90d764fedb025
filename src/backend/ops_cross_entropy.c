/* The public ops of the cross-entropy: validation, then dispatch. */
#include <math.h>

#include "backend/dispatch.h"
#include "iclab/status.h"

/* [..., 1] beside logits [..., V], or the logits' own shape. */
static icl_status check_beside(const char *op, const char *role, const icl_tensor *logits, bool is_single,
                               const icl_tensor *tensor, icl_error *error) {
    size_t shape[ICL_MAX_RANK];

    for (int axis = 0; axis < logits->rank; axis++)
        shape[axis] = is_single && axis + 1 == logits->rank ? 1 : logits->shape[axis];
    return icl_check_shape(op, role, tensor, logits->rank, shape, error);
}

static icl_status check_logits(icl_backend *backend, const char *op, const icl_tensor *logits, icl_error *error) {
    ICL_CHECK(icl_check_input(backend, op, "logits", logits, error));
    if (logits->rank < 1)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: logits of rank 0, expected a row for each loss", op);
    if (logits->shape[logits->rank - 1] > ICL_MAX_CLASSES)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %zu classes, expected at most %zu", op,
                        logits->shape[logits->rank - 1], ICL_MAX_CLASSES);
    return ICL_OK;
}

/* The output, and an input of one number a row: they share no element with what follows. */
static icl_status check_inputs(icl_backend *backend, const char *op, const icl_tensor *out, const icl_tensor *logits,
                               const icl_tensor *classes, icl_error *error) {
    ICL_CHECK(icl_check_input(backend, op, "classes", classes, error));
    ICL_CHECK(check_beside(op, "classes", logits, true, classes, error));
    ICL_CHECK(icl_check_overlap(op, out, logits, false, error));
    return icl_check_overlap(op, out, classes, false, error);
}

icl_status icl_cross_entropy(icl_backend *backend, icl_tensor losses, icl_tensor logits, icl_tensor classes,
                             icl_error *error) {
    static const char op[] = "cross_entropy";
    const icl_tensor operands[] = {losses, logits, classes};

    ICL_CHECK(check_logits(backend, op, &logits, error));
    ICL_CHECK(icl_check_output(backend, op, "losses", &losses, error));
    ICL_CHECK(check_beside(op, "losses", &logits, true, &losses, error));
    ICL_CHECK(check_inputs(backend, op, &losses, &logits, &classes, error));
    if (icl_tensor_count(&logits) > 0)
        return icl_dispatch(backend, ICL_OP_cross_entropy, NULL, operands, error);
    return icl_fill(backend, losses, (double)NAN, error); /* rows without a class */
}

icl_status icl_cross_entropy_backward(icl_backend *backend, icl_tensor d_logits, icl_tensor d_losses, icl_tensor logits,
                                      icl_tensor classes, icl_error *error) {
    static const char op[] = "cross_entropy_backward";
    const icl_tensor operands[] = {d_logits, d_losses, logits, classes};

    ICL_CHECK(check_logits(backend, op, &logits, error));
    ICL_CHECK(icl_check_output(backend, op, "d_logits", &d_logits, error));
    ICL_CHECK(check_beside(op, "d_logits", &logits, false, &d_logits, error));
    ICL_CHECK(icl_check_input(backend, op, "d_losses", &d_losses, error));
    ICL_CHECK(check_beside(op, "d_losses", &logits, true, &d_losses, error));
    ICL_CHECK(icl_check_overlap(op, &d_logits, &d_losses, false, error));
    ICL_CHECK(check_inputs(backend, op, &d_logits, &logits, &classes, error));
    if (icl_tensor_count(&d_logits) > 0)
        ICL_CHECK(icl_dispatch(backend, ICL_OP_cross_entropy_backward, NULL, operands, error));
    return ICL_OK;
}
