/* Matrix products of the OpenCL backend through CLBlast. */
#ifndef ICLAB_BACKEND_OPENCL_CLBLAST_H
#define ICLAB_BACKEND_OPENCL_CLBLAST_H

#include "backend/opencl/device.h"

/* Operations of a launch of CLBlast's: .1 to .2 s of a small integrated GPU. */
#define ICL_CLBLAST_OPERATIONS 2e10

/* Whether matrix products may go through CLBlast. */
typedef enum icl_clblast_state {
    ICL_CLBLAST_UNTESTED = 0, /* not used yet */
    ICL_CLBLAST_SERVES,       /* was asked for, or gave the known answer */
    ICL_CLBLAST_REFUSED       /* not built in, not wanted, or gave another one */
} icl_clblast_state;

/* CLBlast for one device. */
typedef struct icl_clblast {
    icl_gemm wanted; /* by the user */
    icl_clblast_state state;
    double operations; /* of a launch, at most: see matmul.c */
    uint64_t tested;   /* powers of two of m n k for which its large products were right */
    bool serves_all;   /* while it is tested: products that our own kernel would get */
} icl_clblast;

/* Releases what CLBlast holds of this context; called before the context is released. */
void icl_clblast_forget(void);

/* Fails where CLBlast was asked for and this build lacks it; where it has it, CLBlast is tested. It compiles for
 * seconds, so that where it was not asked for it is tested before the first product that prefers it. */
icl_status icl_clblast_choose(icl_opencl *opencl, icl_error *error);

#endif
