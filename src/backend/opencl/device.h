/*
 * The lowest floor of the OpenCL backend: the device that it runs on, and what every file needs of it. Only this file
 * includes OpenCL: version 1.2 and nothing newer, without optional features, so that every driver of the last decade
 * serves.
 *
 * The floors above it: queue.h, program.h and pool.h, which do not need each other's types; launch.h, by which
 * ops launch kernels; small.h and ops.h. Each of them has a state of its own, to which icl_opencl points;
 * only open.c knows all of them.
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
#include "iclab/status.h"

/* ---- Choices ---- */

/*
 * Choices of the OpenCL backend that only times decide: each value gives right results, and which one is faster depends
 * on the device. One table in choices.c has them all. A report about a GPU changes rows there and nothing else.
 *
 * The first row that fits decides: it is a row of the requested choice, its text is part of the name of the device or
 * of the platform, and the size is at least its `least`. So rows of a device stand above those for all devices, and
 * larger sizes above smaller ones; a device that has rows for a choice has one of them for every size.
 *
 * If the chosen value cannot serve, such as chunks for wide keys, or CLBlast in a build without it, the other one does.
 * `collect` concerns the kernels of CPUs, `clblast` both families, and the others those of GPUs.
 */
#define ICL_CHOICES_VARIABLE "ICLAB_OPENCL_CHOICES"

typedef enum icl_opencl_choice {
    ICL_CHOICE_LINEAR = 0, /* program of a linear transformer; size: its launches so far */
    ICL_CHOICE_RECURRENCE, /* form of the forward recurrence; size: tokens */
    ICL_CHOICE_GEMM,       /* plain matrix products if the user leaves them to iclab; size: the least of m, n and k */
    ICL_CHOICE_CLBLAST,    /* parameters of CLBlast's products; no size */
    ICL_CHOICE_TILES,      /* tiles of our own matrix products; size: the number of wide tiles */
    ICL_CHOICE_TEAMS,      /* the most work-groups for each compute unit, a number; no size */
    ICL_CHOICE_COLLECT,    /* small operations in one launch (kernels of CPUs); no size */
    ICL_CHOICE_ATTENTION,  /* softmax attention; size: the number of keys */
    ICL_CHOICE_ATTENTION_GRADIENT, /* its backward pass; likewise */
    ICL_CHOICE_COUNT
} icl_opencl_choice;

/* The values of each choice, except those of ICL_CHOICE_GEMM, which are of icl_gemm. 0 in place of a value leaves the
 * decision to the table. */
enum { ICL_BY_TABLE = 0 };
enum { ICL_LINEAR_STEPS = 1, ICL_LINEAR_STRAIGHT };       /* an interpreter of steps, or a straight-line program */
enum { ICL_WALK_BY_TOKENS = 1, ICL_WALK_BY_CHUNKS };      /* see recurrence.c */
enum { ICL_CLBLAST_DEFAULT = 1, ICL_CLBLAST_A100 };       /* what CLBlast's database has: for the device, for an A100 */
enum { ICL_TILES_NARROW = 1, ICL_TILES_WIDE };            /* see matmul.c */
enum { ICL_COLLECT_ON = 1, ICL_COLLECT_OFF };             /* see small.c */
enum { ICL_ATTENTION_FUSED = 1, ICL_ATTENTION_PRODUCTS }; /* see attention.c */

/* Returns the table's value for a device and a platform of these names. */
unsigned icl_choice_by_table(icl_opencl_choice choice, size_t size, const char *device, const char *platform);

/* A class of sizes (icl_sizes) stands for all that are nearer to it than to others: extents of 16 (below 32), 64 (below
 * 128), 256 (below 512) or 1024, and counts of 1 (below 4), 16 (below 64) or 256. */
#define ICL_SHAPE_CLASSES 192

/* The number of the class that the sizes belong to, and the sizes of a class. */
size_t icl_size_class_of(const icl_sizes *sizes);
icl_sizes icl_size_class(size_t number);

/* Values of choices in place of the table's; ICL_BY_TABLE leaves one to it. */
typedef struct icl_choices {
    unsigned all[ICL_CHOICE_COUNT]; /* for all sizes */
    /* The choices for a class of sizes, which replace those above; GEMM and attention alone have them. */
    unsigned char of_class[ICL_CHOICE_COUNT][ICL_SHAPE_CLASSES];
} icl_choices;

/* Reads the values that a user asks for, CHOICE=VALUE or CHOICE:CLASS=VALUE separated by commas, such as
 * "linear=steps,gemm=native,gemm:1024x1024x1024x1=clblast", over those that are there; of two values for a choice the
 * last one counts, and one for all sizes ends those for classes before it. ICL_ERROR_INPUT says which word is wrong,
 * and what was expected. */
icl_status icl_choices_read(const char *text, icl_choices *choices, icl_error *error);

/* Adds the text that icl_choices_read reads as these choices: nothing where the table has all of them. */
icl_status icl_choices_write(const icl_choices *choices, icl_text *text, icl_error *error);

/* ---- The device ---- */

/* Kernels index elements with 32 bits. */
#define ICL_OPENCL_MAX_ELEMENTS ((size_t)INT32_MAX)

/* One open device. Its states live as long as it does; none is NULL. */
typedef struct icl_opencl {
    icl_backend *backend; /* for capabilities, statistics and the log */
    cl_device_id device;
    cl_context context;
    size_t lanes;        /* floats that one work-item computes at a time, see cl/common.h; 1: kernels of GPUs */
    size_t local_size;   /* group size of every kernel if the driver allows it, so that each is compiled once */
    size_t max_items;    /* the most work-items of a launch; they loop */
    size_t most_scores;  /* of attention by products in memory at once, unless a row has more */
    bool fast_math;      /* kernels that are not strict get -cl-fast-relaxed-math as well */
    bool accepts_failed; /* a wrong answer of the self-test is logged instead of refused */
    icl_choices opened_with, chosen;   /* values in place of the table's, when it was opened and now */
    bool has_choices;                  /* the above are read */
    unsigned forced[ICL_CHOICE_COUNT]; /* values in place of these while ways are compared */
    struct icl_queue *queue;           /* queue.h */
    struct icl_programs *programs;     /* program.h */
    struct icl_pool *pool;             /* pool.h */
    struct icl_launcher *launcher;     /* launch.h */
    struct icl_small *small;           /* small.h */
    struct icl_clblast *clblast;       /* ops.h */
    struct icl_linear *linear;         /* linear_transformer/linear_transformer.h */
} icl_opencl;

static inline icl_opencl *icl_opencl_of(icl_backend *backend) {
    return backend->state;
}

/* Returns the value of a choice: the one that was asked for, or else the table's for this device and size. */
unsigned icl_opencl_choose(const icl_opencl *opencl, icl_opencl_choice choice, size_t size);

/* Returns the value that was asked for, for the class of these sizes (NULL: for all); ICL_BY_TABLE if none was. */
unsigned icl_opencl_asked(const icl_opencl *opencl, icl_opencl_choice choice, const icl_sizes *sizes);

/* ---- Errors ---- */

/* Returns the name of an error, such as "CL_OUT_OF_RESOURCES"; it knows CLBlast's codes, too. Never NULL. */
const char *icl_cl_error_name(int code);

/* Fails with the call, the error's name and the device; the status is ICL_ERROR_MEMORY if the code means that. `opencl`
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

#endif
