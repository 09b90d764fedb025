/*
 * The contract of a backend: one table of functions, documented slot by slot.
 *
 * The public functions (ops.h, tensor.h) validate everything once: kinds, shapes, broadcasting, strides, overlap,
 * overflow. They skip calls without elements, expand broadcast operands to the output's rank with stride 0, and then
 * jump through the table. A backend never validates again.
 *
 * All op slots have the same signature. `operands` lists the tensors of the op's row (op_table.h), outputs first; an
 * absent optional operand has a NULL buffer. `params` is the op's parameter struct. Because the signatures are the
 * same, the dispatcher can run any missing op on the host, count it and name it, without a line for each op: a slot may
 * be NULL.
 */
#ifndef ICLAB_BACKEND_CONTRACT_H
#define ICLAB_BACKEND_CONTRACT_H

#include "backend/choices.h"
#include "backend/host_spec.h"
#include "backend/op_table.h"
#include "core/threads.h"
#include "iclab/ops.h"

typedef icl_status icl_op_function(icl_backend *backend, const void *params, const icl_tensor *operands,
                                   icl_error *error);

/* ---- Params of ops that a public function takes one by one ---- */

typedef struct icl_scale_add_params {
    double alpha, beta;
} icl_scale_add_params;

typedef struct icl_reduce_params {
    icl_reduce_kind kind;
    unsigned axes;
} icl_reduce_params;

typedef struct icl_matmul_params {
    double alpha, beta;
} icl_matmul_params;

/* The memory of tensors. It is owned by the tensor that icl_tensor_create made. */
struct icl_buffer {
    icl_backend *backend;
    size_t elements;
    void *handle; /* the backend's own: a pointer on the host backends, a pool block on OpenCL */
    void *mapped; /* host address while mapped, else NULL */
};

/* Kinds of work of known amount, which measure the best that a device can do. */
typedef enum icl_peak_kind {
    ICL_PEAK_MULTIPLY_ADD = 0, /* x <- x f + g in registers */
    ICL_PEAK_TRIAD             /* a = b + s c in memory: two loads and a store for each element */
} icl_peak_kind;

/* Instruction sets of host backends; an OpenCL device has only ICL_PEAK_WIDEST. */
typedef enum icl_peak_isa { ICL_PEAK_WIDEST = 0, ICL_PEAK_BASE, ICL_PEAK_AVX2, ICL_PEAK_AVX512 } icl_peak_isa;

typedef struct icl_peak_params {
    icl_peak_kind kind;
    icl_peak_isa isa;
    size_t threads; /* 0: all; host backends only */
    size_t rounds;
} icl_peak_params;

typedef struct icl_backend_functions {
    /* Waits for everything and frees the backend's private state. */
    void (*close)(icl_backend *backend);

    /* Sets buffer->handle to memory for buffer->elements (> 0) elements, uninitialised. ICL_ERROR_MEMORY when the
     * device or its limit does not allow it. Served from a pool: no device allocation in a steady state. */
    icl_status (*buffer_create)(icl_backend *backend, icl_buffer *buffer, icl_error *error);

    /* Gives the memory back to the pool. Work already queued may still use it: the queue is in order, so the next
     * owner's work comes later. */
    void (*buffer_destroy)(icl_backend *backend, icl_buffer *buffer);

    /* Copies `count` elements from `offset` to or from host memory, in the backend's element type. Both return when
     * the host memory may be reused; a write may reach the device later, in its turn. */
    icl_status (*buffer_read)(icl_backend *backend, const icl_buffer *buffer, size_t offset, size_t count,
                              void *elements, icl_error *error);
    icl_status (*buffer_write)(icl_backend *backend, icl_buffer *buffer, size_t offset, size_t count,
                               const void *elements, icl_error *error);

    /* Makes buffer->mapped the address of the whole buffer, for reading and writing, after all queued work. Every map
     * is followed by an unmap before the next op. For the host fallback. */
    icl_status (*buffer_map)(icl_backend *backend, icl_buffer *buffer, icl_error *error);
    icl_status (*buffer_unmap)(icl_backend *backend, icl_buffer *buffer, icl_error *error);

    icl_status (*sync)(icl_backend *backend, icl_error *error);

    /* Frees the pool's blocks that are not in use; NULL if the backend keeps none. */
    icl_status (*trim)(icl_backend *backend, icl_error *error);

    /* Issues `rounds` rounds of the work over three contiguous operands of one axis and equal length (the multiply-adds
     * overwrite the first). *amount becomes the operations done or the bytes moved; 0 if the machine lacks the
     * instruction set. NULL if the device's peak is unknown. */
    icl_status (*peak)(icl_backend *backend, const icl_peak_params *params, const icl_tensor *operands, double *amount,
                       icl_error *error);

    const struct icl_choice_functions *choices; /* choices.h; NULL: there is one way of every op */

    /* Opens one of the workers of icl_backend_share, a backend of one thread with the same arithmetic, as
     * workers[number]. NULL: the backend is its own worker. */
    icl_status (*open_worker)(icl_backend *backend, size_t number, icl_error *error);

    /* Distributes the parts over the open workers. NULL exactly if open_worker is. */
    void (*share)(icl_backend *backend, size_t count, icl_thread_items *task, void *context);

    /* The ops, in the order of ICL_EVERY_OP. */
    icl_op_function *ops[ICL_OP_COUNT];
} icl_backend_functions;

/* The time of one op since icl_backend_time_ops. Waiting for the device belongs to no op. */
typedef struct icl_op_time {
    uint64_t calls, launches; /* launches: kernels queued; 0 on host backends */
    double seconds;           /* of the kernels, by the device's clock; on a host backend of the calls, by its clock */
} icl_op_time;

/* The times of all ops. The last row has the small operations of OpenCL that one launch did together (small.c). */
typedef struct icl_op_times {
    size_t current; /* the row of the op that is being issued */
    icl_op_time of[ICL_OP_COUNT + 1];
} icl_op_times;

/* The part of a backend that every implementation shares. An implementation's open function allocates it. */
struct icl_backend {
    const icl_backend_functions *functions;
    void *state; /* the implementation's own */
    icl_capabilities capabilities;
    icl_backend_statistics statistics;
    icl_log log;
    const volatile sig_atomic_t *stop;  /* see icl_backend_stop_on; NULL: none; a worker asks its parent */
    icl_backend *parent;                /* in a worker: the backend whose tensors it also accepts; else NULL */
    icl_backend **workers;              /* [compute_units], or NULL: see icl_backend_share; owned */
    icl_backend *host;                  /* "cpu" or "ref", for the fallback; opened at its first use; owned */
    bool fallback_logged[ICL_OP_COUNT]; /* each missing op is announced once */
    icl_op_times *times;                /* NULL: ops are not timed; owned */
};

/* Times every op from now on. Kernels of an OpenCL device are timed only where it was opened with profiling. */
icl_status icl_backend_time_ops(icl_backend *backend, icl_error *error);

/* Returns the times so far, those of the workers included: seconds of all threads. Zero if ops are not timed. */
icl_op_times icl_backend_op_times(const icl_backend *backend);

/* ---- The implementations (cpu/, opencl/): how backend.c opens and lists them ---- */

/* Opens float ("cpu") or double ("ref") host arithmetic. ICL_ERROR_DEVICE if the instruction set is not available. */
icl_status icl_cpu_open(const icl_backend_params *params, const icl_host_spec *spec, icl_backend **backend,
                        icl_error *error);
icl_status icl_ref_open(const icl_backend_params *params, const icl_host_spec *spec, icl_backend **backend,
                        icl_error *error);

/* One OpenCL device, known but not opened. `handle` is the implementation's own (a cl_device_id). */
typedef struct icl_opencl_device {
    icl_capabilities capabilities;
    void *handle;
} icl_opencl_device;

/* Lists every device of every platform; *devices is freed with free(). No driver, or a build without OpenCL, is ICL_OK
 * with *count = 0 and a log line that says so. A platform that fails is logged and passed over. */
icl_status icl_opencl_list(const icl_log *log, icl_opencl_device **devices, size_t *count, icl_error *error);

/* Programs of an OpenCL device, each tested when it is compiled: those that every training needs when the device is
 * opened, the others before their first use. */
typedef enum icl_tested {
    ICL_TESTED_ON_OPENING = 0,
    ICL_TESTED_LINEAR_TRANSFORMER,
    ICL_TESTED_GRAM,
    ICL_TESTED_SMALL,
    ICL_TESTED_RECURRENCE,
    ICL_TESTED_RECURRENCE_GRADIENT,
    ICL_TESTED_ATTENTION_PRODUCTS,
    ICL_TESTED_CLBLAST,
    ICL_TESTED_COUNT
} icl_tested;

/* Compares the answers of a program's ops with exact ones. ICL_ERROR_DEVICE if some are wrong; the message lists
 * them. */
typedef icl_status icl_self_test(icl_backend *backend, icl_tested which, icl_error *error);

/* Opens one device. Its programs are tested by `self_test` when they are compiled, because the tests call the ops and
 * so belong to a higher layer. A device that fails is refused, unless it is opened to see how it fails. */
icl_status icl_opencl_open(const icl_backend_params *params, const icl_opencl_device *device, icl_self_test *self_test,
                           icl_backend **backend, icl_error *error);

/* Tests at once the programs that are otherwise compiled at their first use, except CLBlast. */
icl_status icl_opencl_test(icl_backend *backend, icl_error *error);

#endif
