/*
 * The lowest floor of the OpenCL backend: the device that it runs on, and what every file needs of it. This is the one
 * place that includes OpenCL: version 1.2 and nothing newer, optional features left out, so that every driver of the
 * last decade serves.
 *
 * The floors above it: queue.h, program.h and pool.h, which do not need each other's types; launch.h and view.h, by
 * which ops launch kernels; small.h, clblast.h and ops.h. Each of them has a state of its own, to which icl_opencl
 * points; open.c alone knows all of them.
 */
#ifndef ICLAB_BACKEND_OPENCL_DEVICE_H
#define ICLAB_BACKEND_OPENCL_DEVICE_H

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define CL_SILENCE_DEPRECATION
#ifdef __APPLE__
#include <OpenCL/opencl.h>
#else
#include <CL/cl.h>
#endif

#include "backend/contract.h"
#include "backend/opencl/choices.h"
#include "iclab/status.h"

/* Kernels index elements with 32 bits. */
#define ICL_OPENCL_MAX_ELEMENTS ((size_t)INT32_MAX)

/* One device that is open. Its states live as long as it does; none is NULL. */
typedef struct icl_opencl {
    icl_backend *backend; /* for capabilities, statistics and the log */
    cl_device_id device;
    cl_context context;
    size_t lanes;        /* floats that one work-item computes at a time, see cl/common.h; 1: kernels of GPUs */
    size_t local_size;   /* of every kernel that the driver allows it, so that each is compiled once */
    size_t max_items;    /* work-items that a launch uses at most; they loop */
    bool fast_math;      /* kernels that are not strict get -cl-fast-relaxed-math as well */
    bool accepts_failed; /* a wrong answer of the self-test is logged, and no error */
    unsigned chosen[ICL_CHOICE_COUNT]; /* values in place of the table's, see choices.h */
    struct icl_queue *queue;           /* queue.h */
    struct icl_programs *programs;     /* program.h */
    struct icl_pool *pool;             /* pool.h */
    struct icl_launcher *launcher;     /* launch.h */
    struct icl_small *small;           /* small.h */
    struct icl_clblast *clblast;       /* clblast.h */
    struct icl_linear *linear;         /* linear_transformer/linear_transformer.h */
} icl_opencl;

static inline icl_opencl *icl_opencl_of(icl_backend *backend) {
    return backend->state;
}

/* Returns the value of a choice: what was asked for, or else the table's for this device and size. */
static inline unsigned icl_opencl_choose(const icl_opencl *opencl, icl_opencl_choice choice, size_t size) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    return opencl->chosen[choice] != ICL_BY_TABLE ? opencl->chosen[choice]
                                                  : icl_choice_by_table(choice, size, device->name, device->platform);
}

/* ---- errors.c ---- */

/* Returns "CL_OUT_OF_RESOURCES" for example; it knows CLBlast's codes, too. Never NULL. */
const char *icl_cl_error_name(int code);

/* Fails with the call, the error's name and the device; the status is ICL_ERROR_MEMORY where the code says so. `opencl`
 * may be NULL. */
icl_status icl_cl_fail(const icl_opencl *opencl, int code, const char *call, icl_error *error);

/* Runs an OpenCL call that returns its error code. Needs `status`, `error` and a label `done`. */
#define ICL_CL_TRY(opencl, call_name, call)                                                                            \
    do {                                                                                                               \
        const cl_int code_ = (call);                                                                                   \
        if (code_ != CL_SUCCESS) {                                                                                     \
            status = icl_cl_fail(opencl, code_, call_name, error);                                                     \
            goto done;                                                                                                 \
        }                                                                                                              \
    } while (0)

/* ---- requirements.c ---- */

/* Refuses a device that lacks what every kernel needs, with what was found and what is needed. An embedded profile,
 * which may compute less exactly than error bounds suppose, is accepted on request, and then logged. */
icl_status icl_opencl_require(const icl_opencl *opencl, bool accept_less_exact, icl_error *error);

#endif
