/* The programs of steps that a backend has used. */
#ifndef ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_LINEAR_TRANSFORMER_H
#define ICLAB_BACKEND_OPENCL_LINEAR_TRANSFORMER_LINEAR_TRANSFORMER_H

#include "backend/opencl/linear_transformer/cut.h"
#include "backend/opencl/pool.h"
#include "backend/opencl/program.h"
#include "iclab/text.h"

/* The steps of a key. They are kept, because writing them waits for the queue. After the steps on the device there is a
 * number, 0 at first, that the teams of a CPU count up when they ask for a unit. */
typedef struct icl_linear_program {
    icl_linear_key key;
    size_t steps;
    cl_uint given;    /* the value of that number once everything queued has run */
    bool is_lost;     /* the value is unknown, because a launch failed */
    icl_block *block; /* NULL: not written yet */
    size_t launches;  /* launches so far that could have been straight-line ones */
    icl_text text;    /* source of the straight-line program; empty: not made yet */
    bool is_refused;  /* the steps do not fit, the driver does not compile them, or they gave other bits */
    bool is_compared; /* its results were compared with the interpreter's */
    struct icl_linear_program *next;
} icl_linear_program;

typedef struct icl_linear {
    icl_linear_program *programs;
    size_t straight_launches; /* read by a test */
    bool has_complained;      /* that a driver does not compile a straight-line program */
    size_t wave;              /* work-items of a GPU that run in step: 32 or 64; 0: not asked yet */
} icl_linear;

/* Releases all programs. */
void icl_linear_programs_forget(icl_opencl *opencl);

#endif
