/*
 * Devices and backends.
 *
 * A device is something that exists on this machine; a backend is a device opened for work: it owns a queue, a
 * memory pool and compiled programs. Every op (ops.h) runs on one backend. A backend is used by one thread at a time.
 */
#ifndef ICLAB_BACKEND_H
#define ICLAB_BACKEND_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "iclab/export.h"
#include "iclab/log.h"
#include "iclab/status.h"

ICL_C_BEGIN

/* A device that was opened. */
typedef struct icl_backend icl_backend;

/* What kind of machine a device is. */
typedef enum icl_device_kind {
    ICL_DEVICE_HOST = 0, /* plain C on this process's own cores: "cpu" and "ref" */
    ICL_DEVICE_CPU,      /* a CPU driven through OpenCL */
    ICL_DEVICE_GPU,
    ICL_DEVICE_ACCELERATOR,
} icl_device_kind;

/* The word used in tables and JSON: "host", "cpu", "gpu", "accelerator". Never NULL. */
ICL_API const char *icl_device_kind_name(icl_device_kind kind);

/* Which matmul an OpenCL backend uses. */
typedef enum icl_gemm {
    ICL_GEMM_AUTO = 0, /* The device's and the shape's faster one, as measured. */
    ICL_GEMM_CLBLAST,
    ICL_GEMM_NATIVE,
} icl_gemm;

/* "auto", "clblast" or "native". */
ICL_API const char *icl_gemm_name(icl_gemm gemm);

/* The rounding of the operands of icl_matmul, and of the products of softmax attention. */
typedef enum icl_precision {
    ICL_PRECISION_FULL = 0, /* The device's elements as they are. */
    ICL_PRECISION_BF16,     /* Operands rounded to bfloat16, with sums in the device's element type. */
} icl_precision;

/* "full" or "bf16". */
ICL_API const char *icl_precision_name(icl_precision precision);

/* Bytes of a device's texts, the NUL at their end included. */
#define ICL_NAME_CAPACITY 128

/* Bytes of a device's verdict, the NUL at its end included. */
#define ICL_VERDICT_CAPACITY 512

/* What a device is and what it can hold. Sizes in bytes; 0 means unknown or without limit. */
typedef struct icl_capabilities {
    char spec[ICL_NAME_CAPACITY];     /* the shortest text that selects this device again: "cpu", "opencl:0.1" */
    char name[ICL_NAME_CAPACITY];     /* the device's own name */
    char platform[ICL_NAME_CAPACITY]; /* platform name and version; "C" for the host backends */
    char driver[ICL_NAME_CAPACITY];   /* driver version; of host backends the compiler's, and the instruction set */
    icl_device_kind kind;             /* host, CPU, GPU or accelerator */
    size_t element_size;              /* bytes of one tensor element: 4 (float), or 8 on "ref" (double) */
    size_t compute_units;             /* threads for the host backends */
    size_t max_work_group;            /* work-items */
    size_t vector_width;              /* preferred number of floats in a vector */
    size_t local_memory;              /* bytes for one work-group */
    size_t global_memory;             /* bytes of the device */
    size_t max_allocation;            /* bytes of one buffer */
    bool has_fp64;                    /* kernels could use doubles; ours do not */
    bool unified_memory;              /* shared with the host */
    icl_gemm gemm;                    /* the choice that it was opened with; 0 in lists */
    bool fast_math;                   /* likewise */
    icl_precision precision;          /* likewise */
} icl_capabilities;

/* A device as icl_devices_list found it. */
typedef struct icl_device {
    icl_capabilities capabilities;      /* its description; of a refused device, as far as it is known */
    bool usable;                        /* opened and passed its self-test */
    char verdict[ICL_VERDICT_CAPACITY]; /* "self-test passed", or why the device was refused: one line */
} icl_device;

/* Lists what exists, host backends first, and opens each for its self-test. No OpenCL driver is a normal state: the
 * list then holds only the host backends, and the log says why. The caller frees *devices with icl_devices_free. */
ICL_API icl_status icl_devices_list(const icl_log *log, icl_device **devices, size_t *count, icl_error *error);

/* As above, but OpenCL runs in a child process. If a driver crashes there or is silent for `seconds` (> 0), its device
 * is reported as failed; if that happens while devices are listed, all OpenCL devices are left out. The child is a
 * fork, so that this process must not have used OpenCL or OpenMP before. ICL_ERROR_INTERRUPTED if SIGINT, SIGTERM or
 * SIGHUP ends the child. */
ICL_API icl_status icl_devices_list_apart(const icl_log *log, double seconds, icl_device **devices, size_t *count,
                                          icl_error *error);
ICL_API void icl_devices_free(icl_device **devices);

/* Zero is a valid value for every member. */
typedef struct icl_backend_params {
    /* "auto" (also NULL), "cpu", "cpu:threads=N", "cpu:isa=SET" (base, avx2, avx512 or amx: kernels for that
     * instruction set, at most the machine's widest), "cpu:threads=N:isa=SET", "ref" and what may follow it
     * likewise, "opencl", "opencl:P.D" (indices), or "opencl:TEXT" (substring of platform or device name, case
     * ignored). "auto" takes the fastest of "cpu" and of the OpenCL GPUs and accelerators that pass their
     * self-test: a short training step of each is measured, and the answer remembered in the cache's folder. It
     * logs the choice and its reason. "opencl" and "opencl:TEXT" take a GPU before an accelerator before a CPU,
     * and the fastest of several GPUs or accelerators likewise. */
    const char *spec;
    icl_gemm gemm;                /* which matrix product */
    bool fast_math;               /* allow the device to relax arithmetic; off keeps every op inside its error bound */
    icl_precision precision;      /* of the operands of products; bf16 only on "cpu" and "ref" */
    bool accept_failed_self_test; /* open an OpenCL device that computes wrongly, and log what was wrong */
    bool profile;        /* measure how long kernels take on the device, which may slow it down; only for OpenCL */
    size_t memory_limit; /* bytes of device memory this backend may hold; 0 takes the device's own limit */
    icl_log log;         /* receives messages about the device */
    /* For "auto" only: if > 0, the OpenCL drivers are tried in a child process first, as icl_devices_list_apart does
     * and under its conditions. If a driver crashes there or is silent for that many seconds, "cpu" is taken. */
    double trial_seconds;
} icl_backend_params;

/* Opens a device. ICL_ERROR_INPUT for a spec that is malformed; ICL_ERROR_DEVICE for one that names no device of
 * this machine, or a device that failed its self-test (unless accept_failed_self_test is set). */
ICL_API icl_status icl_backend_open(const icl_backend_params *params, icl_backend **backend, icl_error *error);

/* Waits for the queue, then frees everything. Every tensor of the backend must have been released. NULL is allowed;
 * sets *backend to NULL. */
ICL_API void icl_backend_close(icl_backend **backend);

/* Returns a description of the opened device, which lives as long as the backend. */
ICL_API const icl_capabilities *icl_backend_capabilities(const icl_backend *backend);

/* Makes ops fail with ICL_ERROR_INTERRUPTED while *stop is not 0. So all work of the library that consists of ops, such
 * as icl_evaluate, can be stopped, even in calls that have no flag of their own. NULL: none. *stop is borrowed; another
 * thread or a signal handler may set it. */
ICL_API void icl_backend_stop_on(icl_backend *backend, const volatile sig_atomic_t *stop);

/* Writes the choices between ways of computing that the device takes in place of iclab's own, in the words that
 * icl_backend_take_choices reads; freed with icl_text_free. They come from a contest on this device (iclab devices
 * --gemm), from the environment or from a run's record. "": there are none, as on host backends. The bits of results
 * depend on the device and on these choices. */
ICL_API icl_status icl_backend_choices(const icl_backend *backend, char **words, icl_error *error);

/* Takes choices, as icl_backend_choices wrote them on a device of this kind, in place of all others. NULL: those with
 * which the backend was opened. ICL_ERROR_INPUT for words that mean nothing here; then all stays as it was. */
ICL_API icl_status icl_backend_take_choices(icl_backend *backend, const char *words, icl_error *error);

/* Waits until every op issued so far has finished, and reports the first failure among them. */
ICL_API icl_status icl_backend_sync(icl_backend *backend, icl_error *error);

/* Counters since the backend was opened. */
typedef struct icl_backend_statistics {
    uint64_t ops;         /* ops issued */
    uint64_t fallbacks;   /* the number of these that ran on the host because the backend lacks them */
    uint64_t allocations; /* device allocations made */
    uint64_t pool_hits;   /* buffers that were taken from the pool instead of allocated */
    uint64_t launches;    /* kernels queued; 0 on host backends */
    /* Seconds that kernels took on the device until the last icl_backend_sync; only with profiling. */
    double device_seconds;
    size_t bytes_live; /* bytes held by tensors now */
    /* The largest bytes_live since the backend was opened, or since icl_backend_forget_peak; it includes the scratch
     * memory of host ops. */
    size_t bytes_peak;
    size_t bytes_reserved; /* bytes held by the backend, free pool blocks and scratch memory included */
} icl_backend_statistics;

/* Computes part `part` with the ops of `worker`, which also accept tensors of the backend that shares out the parts.
 * `number` is the worker's, below icl_backend_workers. */
typedef icl_status icl_backend_part(void *context, icl_backend *worker, size_t number, size_t part, icl_error *error);

/* The number of workers that icl_backend_share hands parts to: the threads of a host backend; 1 for a device, which is
 * its own worker. */
ICL_API size_t icl_backend_workers(const icl_backend *backend);

/* Does `count` parts, none of which waits for another or writes what another one reads or writes. A host backend does
 * them on its threads, each with its own worker, a backend of one thread: so small ops run side by side, and the
 * threads need not wait for each other after every op. A device does the parts itself, one after another. Which worker
 * does a part is left to chance. Returns the failure of the first part that failed; all parts are done in any case.
 * Called by one thread at a time, and not from within a part. What a part creates on its worker is released before the
 * backend closes. */
ICL_API icl_status icl_backend_share(icl_backend *backend, size_t count, icl_backend_part *task, void *context,
                                     icl_error *error);

/* Sets bytes_peak to bytes_live. */
ICL_API void icl_backend_forget_peak(icl_backend *backend);

/* Frees the memory that the backend and its workers keep for future tensors, so that bytes_reserved holds only live
 * tensors and the scratch memory of ops. No tensor changes. An error is that of an op issued before, which a device may
 * have to finish first. */
ICL_API icl_status icl_backend_trim(icl_backend *backend, icl_error *error);

/* Returns the current counters, those of the workers included; bytes_peak is that of the backend without its
 * workers. */
ICL_API icl_backend_statistics icl_backend_get_statistics(const icl_backend *backend);

ICL_C_END

#endif
