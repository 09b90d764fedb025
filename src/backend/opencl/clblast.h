/* Matrix products of the OpenCL backend through CLBlast. */
#ifndef ICLAB_BACKEND_OPENCL_CLBLAST_H
#define ICLAB_BACKEND_OPENCL_CLBLAST_H

#include "backend/opencl/device.h"

/* The most operations of one launch of CLBlast: .1 to .2 s on a small integrated GPU. */
#define ICL_CLBLAST_OPERATIONS 2e10

/* Whether matrix products may go through CLBlast. */
typedef enum icl_clblast_state {
    ICL_CLBLAST_UNTESTED = 0, /* not used yet */
    ICL_CLBLAST_SERVES,       /* it was asked for, or gave the known answer */
    ICL_CLBLAST_REFUSED       /* it is not built in, not wanted, or gave a wrong answer */
} icl_clblast_state;

/* CLBlast for one device. */
typedef struct icl_clblast {
    icl_gemm wanted; /* by the user */
    icl_clblast_state state;
    double operations;   /* the most of one launch: see matmul.c */
    unsigned parameters; /* the value of ICL_CHOICE_CLBLAST for which it was tested */
    uint64_t tested;     /* powers of two of m n k for which its large products were right */
    bool serves_all;     /* during its self-test it also gets the products that our own kernel would get */
} icl_clblast;

/* Releases what CLBlast holds of this context; called before the context is released. */
void icl_clblast_forget(void);

/* Fails if CLBlast was asked for and this build lacks it; if the build has it, it is tested. If it was not asked for,
 * it is tested before the first product that prefers it, because it compiles for seconds. */
icl_status icl_clblast_choose(icl_opencl *opencl, icl_error *error);

#endif
