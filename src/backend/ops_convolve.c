/* The public ops of short convolutions: validation, then dispatch. */
#include "backend/dispatch.h"
#include "iclab/status.h"

static icl_status check_kernel(const char *op, const char *role, const icl_tensor *kernel, const icl_tensor *in,
                               icl_error *error) {
    if (in->rank != 3)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: in has rank %d, expected 3", op, in->rank);
    if (kernel->rank != 2)
        return icl_fail(error, ICL_ERROR_INPUT, "%s: %s has rank %d, expected 2", op, role, kernel->rank);
    return icl_check_shape(op, role, kernel, 2, (const size_t[]){kernel->shape[0], in->shape[2]}, error);
}

icl_status icl_convolve(icl_backend *backend, icl_tensor out, icl_tensor in, icl_tensor kernel, icl_error *error) {
    static const char op[] = "convolve";
    const icl_tensor operands[] = {out, in, kernel};

    ICL_CHECK(icl_check_output(backend, op, "out", &out, error));
    ICL_CHECK(icl_check_input(backend, op, "in", &in, error));
    ICL_CHECK(icl_check_input(backend, op, "kernel", &kernel, error));
    ICL_CHECK(check_kernel(op, "kernel", &kernel, &in, error));
    ICL_CHECK(icl_check_shape(op, "out", &out, 3, in.shape, error));
    ICL_CHECK(icl_check_overlap(op, &out, &in, false, error));
    ICL_CHECK(icl_check_overlap(op, &out, &kernel, false, error));
    if (icl_tensor_count(&out) == 0)
        return ICL_OK;
    return kernel.shape[0] > 0 ? icl_dispatch(backend, ICL_OP_convolve, NULL, operands, error)
                               : icl_fill(backend, out, 0, error);
}

/* What follows where a sum has no terms. */
static icl_status fill_wanted(icl_backend *backend, const icl_tensor *tensor, icl_error *error) {
    return tensor->buffer ? icl_fill(backend, *tensor, 0, error) : ICL_OK;
}

icl_status icl_convolve_backward(icl_backend *backend, icl_tensor d_in, icl_tensor d_kernel, icl_tensor d_out,
                                 icl_tensor in, icl_tensor kernel, icl_error *error) {
    static const char op[] = "convolve_backward";
    static const char *const roles[] = {"d_in", "d_kernel", "d_out", "in", "kernel"};
    const icl_tensor operands[] = {d_in, d_kernel, d_out, in, kernel};

    for (int i = 2; i < 5; i++)
        ICL_CHECK(icl_check_input(backend, op, roles[i], &operands[i], error));
    ICL_CHECK(check_kernel(op, "kernel", &kernel, &in, error));
    ICL_CHECK(icl_check_shape(op, "d_out", &d_out, 3, in.shape, error));
    for (int i = 0; i < 2; i++) {
        const icl_tensor *like = i == 0 ? &in : &kernel;
        if (!operands[i].buffer)
            continue;
        ICL_CHECK(icl_check_output(backend, op, roles[i], &operands[i], error));
        ICL_CHECK(icl_check_shape(op, roles[i], &operands[i], like->rank, like->shape, error));
        for (int j = i + 1; j < 5; j++)
            ICL_CHECK(icl_check_overlap(op, &operands[i], &operands[j], false, error));
    }
    if (!d_in.buffer && !d_kernel.buffer)
        return ICL_OK;
    if (icl_tensor_count(&in) > 0 && kernel.shape[0] > 0)
        return icl_dispatch(backend, ICL_OP_convolve_backward, NULL, operands, error);
    ICL_CHECK(fill_wanted(backend, &d_in, error));
    return fill_wanted(backend, &d_kernel, error);
}
