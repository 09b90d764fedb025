/* Built without CLBlast: nothing fits it, so our own kernel serves every product. */
#include "backend/opencl/clblast.h"

bool icl_clblast_fits(const icl_tensor *operands) {
    (void)operands;
    return false;
}

icl_status icl_clblast_matmul(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                              icl_error *error) {
    (void)opencl;
    (void)params;
    (void)operands;
    return icl_fail(error, ICL_ERROR_DEVICE, "matmul: this build has no CLBlast");
}

void icl_clblast_use_a100(const icl_opencl *opencl) {
    (void)opencl;
}

void icl_clblast_forget(void) {
}
