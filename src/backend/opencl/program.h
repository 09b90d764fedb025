/* Programs of the OpenCL backend: kernels compiled from the files of cl/, each once for each set of options. Programs
 * are kept on disk, and tested before their first use. */
#ifndef ICLAB_BACKEND_OPENCL_PROGRAM_H
#define ICLAB_BACKEND_OPENCL_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "backend/opencl/device.h"
#include "backend/opencl/kernels.h"

/* ---- The kernels of cl/, embedded by tools/embed.py ---- */

typedef struct icl_kernel_source {
    const char *name;          /* of the file in cl/, without its extension */
    const unsigned char *data; /* includes resolved; followed by a NUL */
    size_t size;
    uint64_t hash; /* FNV-1a of the data */
} icl_kernel_source;

extern const icl_kernel_source icl_kernel_sources[];
extern const size_t icl_kernel_source_count;

/* A program: one file of cl/, with definitions in front of it or none, compiled with one set of options. */
typedef struct icl_program {
    const icl_kernel_source *source;
    char *options, *definitions; /* "": none */
    cl_program program;
    struct icl_program *next;
} icl_program;

/* The folder where compiled programs are kept; see program.c. */
typedef struct icl_program_cache {
    char *folder;    /* NULL: nowhere */
    char *device;    /* what the driver says about device and versions: part of every key */
    size_t loaded;   /* programs that were loaded from there */
    bool distrusted; /* nothing is loaded from there any more, only replaced */
    bool complained;
} icl_program_cache;

/* A kernel, and how many work-items a group of it has. */
typedef struct icl_compiled {
    cl_kernel kernel; /* NULL: not compiled yet */
    /* The size that the kernel was written for; else the backend's, or the power of two below it that the driver
     * allows. */
    size_t local_size;
    size_t limit;  /* as the driver gives it for the kernel; rusticl runs more */
    bool is_fixed; /* the kernel was written for one size */
} icl_compiled;

/* Further options that a kernel is compiled with, and definitions in front of its file ("#define X 1\n..."). NULL:
 * none. */
typedef struct icl_specialization {
    const char *options, *definitions;
} icl_specialization;

/* A kernel that was compiled with options or definitions of its own. */
typedef struct icl_variant {
    icl_kernel which;
    const icl_program *program;
    icl_compiled compiled;
    struct icl_variant *next;
} icl_variant;

/* All programs of a device. Kernels are compiled, and put here, at their first use. */
typedef struct icl_programs {
    char options[96];            /* of the compiler, for every program */
    const char *register_option; /* option that limits registers, if the compiler takes one; NULL: none */
    icl_program *list;
    icl_compiled kernels[ICL_KERNEL_COUNT];
    icl_variant *variants;
    icl_program_cache cache;
    bool tested[ICL_TESTED_COUNT]; /* passed, or under test */
    icl_self_test *self_test;
} icl_programs;

/* Chooses and prepares the folder. These two do not fail: the log says why programs are not kept. */
void icl_program_cache_open(icl_opencl *opencl);
void icl_program_cache_close(icl_opencl *opencl);

/* Returns the embedded file of that name, or NULL. */
const icl_kernel_source *icl_opencl_find_source(const char *name);

/* Sets the compiler options of every program, which follow from the lanes and from whether the device has fused
 * multiply-adds. */
void icl_opencl_set_options(icl_opencl *opencl, bool has_fma);

/* Bytes of all compiler options of a program. */
#define ICL_OPTIONS_CAPACITY (sizeof((icl_programs){0}.options) + 160)

/* Returns NVIDIA's option for the most registers with which half of the warps run that a multiprocessor of this compute
 * capability holds: 65,536 registers for 64, 48 or 32 warps. 0, 0: unknown. */
const char *icl_opencl_register_option(unsigned major, unsigned minor);

/* Writes all options of a kernel; `further`: its own, or NULL. Of the backend it reads only the options and whether
 * fast math is on. */
void icl_opencl_options_of(const icl_opencl *opencl, icl_kernel which, const char *further,
                           char options[ICL_OPTIONS_CAPACITY]);

/* Takes the program of any source from the cache, or compiles it; if that fails, the build log is in the error's
 * message. */
icl_status icl_opencl_build(icl_opencl *opencl, const char *name, const char *text, size_t size, const char *options,
                            cl_program *program, icl_error *error);

/* Finds the kernel; it is compiled at its first use. */
icl_status icl_opencl_kernel(icl_opencl *opencl, icl_kernel which, icl_compiled *compiled, icl_error *error);

/* Finds the kernel with further options, or with definitions in front of its file; it is compiled at its first use. */
icl_status icl_opencl_variant(icl_opencl *opencl, icl_kernel which, const icl_specialization *special,
                              icl_compiled *compiled, icl_error *error);
void icl_opencl_release_programs(icl_opencl *opencl);

/* ---- first_use.c ---- */

/* Tests the program, unless it has been tested; every op of such a program calls this first. The self-test runs the ops
 * themselves, in the same way as users' work, so the program is marked as tested before it begins. */
icl_status icl_opencl_test_program(icl_opencl *opencl, icl_tested which, icl_error *error);

#endif
