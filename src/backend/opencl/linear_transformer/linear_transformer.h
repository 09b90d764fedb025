/* The programs of steps that a backend has used. */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_LINEAR_TRANSFORMER_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_LINEAR_TRANSFORMER_H

#include "backend/opencl/linear_transformer/cut.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/program.h"
#include "iclab/text.h"

/* The steps of a key. They are kept, because writing them waits for the queue. Behind those on the device stands a
 * number, 0 at first, that the teams of a CPU count up when they ask for a unit. */
typedef struct icl_linear_program {
    icl_linear_key key;
    size_t steps;
    cl_uint given;    /* what that number will be when all that is queued has run */
    bool is_lost;     /* unknown, because a launch failed */
    icl_block *block; /* NULL: not written yet */
    size_t launches;  /* that could have been of straight lines, so far */
    icl_text text;    /* of the straight lines; empty: not made yet */
    bool is_refused;  /* they do not fit, the driver does not compile them, or they gave other bits */
    bool is_compared; /* with what the interpreter gives */
    struct icl_linear_program *next;
} icl_linear_program;

typedef struct icl_linear {
    icl_linear_program *programs;
    size_t straight_launches; /* a test asks */
    size_t wave;              /* work-items of a GPU that run in step: 32 or 64; 0: not asked yet */
} icl_linear;

/* Releases all programs. */
void icl_linear_programs_forget(icl_opencl *opencl);

#endif
