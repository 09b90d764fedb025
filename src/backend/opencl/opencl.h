/*
 * The OpenCL backend's own header: the one place that includes OpenCL, and what its files share.
 *
 * OpenCL 1.2 and nothing newer, optional features left out, so that every driver of the last decade serves. One
 * context, one in-order queue and one set of kernel objects for each backend; events are kept only to measure.
 */
#ifndef ICLAB_BACKEND_OPENCL_OPENCL_H
#define ICLAB_BACKEND_OPENCL_OPENCL_H

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
#include "backend/opencl/sources.h"
#include "config.h"
#include "core/allocate.h"
#include "iclab/status.h"

/* Kernels index elements with 32 bits. */
#define ICL_OPENCL_MAX_ELEMENTS ((size_t)INT32_MAX)

/*
 * Every kernel: identifier, the program that holds it, a file of cl/, the family of devices that has it (see
 * choose_family in open.c), and whether it is strict: one whose bits are the same on every device, so that it is never
 * compiled with relaxed arithmetic, which may reorder its sums. The identifier is the kernel's name.
 */
#define ICL_KERNEL_TABLE(KERNEL)                                                                                       \
    KERNEL(fill, "base", BOTH, false)                                                                                  \
    KERNEL(copy, "base", BOTH, false)                                                                                  \
    KERNEL(unary, "base", BOTH, false)                                                                                 \
    KERNEL(binary, "base", BOTH, false)                                                                                \
    KERNEL(binary_periodic, "base", CPU, false)                                                                        \
    KERNEL(scale_add, "base", BOTH, false)                                                                             \
    KERNEL(random_fill, "base", BOTH, true)                                                                            \
    KERNEL(spherical, "base", BOTH, true)                                                                              \
    KERNEL(reduce, "base", BOTH, false)                                                                                \
    KERNEL(argmax_chunks, "base", BOTH, false)                                                                         \
    KERNEL(argmax_final, "base", BOTH, false)                                                                          \
    KERNEL(matmul_lanes, "base", CPU, true)                                                                            \
    KERNEL(matmul_tiles, "base", GPU, true)                                                                            \
    KERNEL(matmul_wide, "base", GPU, false)                                                                            \
    KERNEL(matmul_combine, "base", BOTH, false)                                                                        \
    KERNEL(attention_linear, "base", BOTH, false)                                                                      \
    KERNEL(softmax_forward_lanes, "base", CPU, false)                                                                  \
    KERNEL(softmax_backward_queries_lanes, "base", CPU, false)                                                         \
    KERNEL(softmax_backward_keys_lanes, "base", CPU, false)                                                            \
    KERNEL(softmax_forward_tiles, "base", GPU, false)                                                                  \
    KERNEL(softmax_backward_queries_tiles, "base", GPU, false)                                                         \
    KERNEL(softmax_backward_keys_tiles, "base", GPU, false)                                                            \
    KERNEL(track_threshold, "base", BOTH, false)                                                                       \
    KERNEL(update_step, "base", BOTH, false)                                                                           \
    KERNEL(linear_transformer_sum, "base", BOTH, false)                                                                \
    KERNEL(linear_transformer, "linear_transformer", BOTH, false)                                                      \
    KERNEL(gram_lanes, "gram", CPU, true)                                                                              \
    KERNEL(gram_groups, "gram", GPU, true)                                                                             \
    KERNEL(look_up, "sequence", BOTH, false)                                                                           \
    KERNEL(look_up_keys, "sequence", BOTH, false)                                                                      \
    KERNEL(sort_count, "sequence", BOTH, false)                                                                        \
    KERNEL(sort_scan, "sequence", BOTH, false)                                                                         \
    KERNEL(sort_place, "sequence", BOTH, false)                                                                        \
    KERNEL(row_ends, "sequence", BOTH, false)                                                                          \
    KERNEL(sum_runs, "sequence", BOTH, false)                                                                          \
    KERNEL(sum_symbols, "sequence", BOTH, false)                                                                       \
    KERNEL(convolve, "sequence", BOTH, false)                                                                          \
    KERNEL(convolve_taps, "sequence", BOTH, false)                                                                     \
    KERNEL(convolve_sum, "sequence", BOTH, false)                                                                      \
    KERNEL(rotate_pairs, "sequence", BOTH, false)                                                                      \
    KERNEL(peak_multiply_add, "peak", BOTH, false)                                                                     \
    KERNEL(peak_triad, "peak", BOTH, false)                                                                            \
    KERNEL(recurrence_forward_lanes, "recurrence_forward_lanes", CPU, false)                                           \
    KERNEL(recurrence_forward_tiles, "recurrence_forward_tiles", GPU, false)                                           \
    KERNEL(recurrence_forward_chunks, "recurrence_forward_chunks", GPU, false)                                         \
    KERNEL(recurrence_chunk_products, "recurrence_forward_chunks", GPU, false)                                         \
    KERNEL(recurrence_backward_lanes, "recurrence_backward_lanes", CPU, false)                                         \
    KERNEL(recurrence_backward_tiles, "recurrence_backward_tiles", GPU, false)                                         \
    KERNEL(recurrence_backward_sum, "recurrence_backward_tiles", GPU, false)                                           \
    KERNEL(normalize_lanes, "normalize", CPU, false)                                                                   \
    KERNEL(normalize_backward_lanes, "normalize", CPU, false)                                                          \
    KERNEL(normalize_teams, "normalize", GPU, false)                                                                   \
    KERNEL(normalize_backward_teams, "normalize", GPU, false)                                                          \
    KERNEL(normalize_sums, "normalize", GPU, false)                                                                    \
    KERNEL(run_small, "small", CPU, false)                                                                             \
    KERNEL(normalize_add, "normalize", BOTH, false)                                                                    \
    KERNEL(cross_entropy_lanes, "cross_entropy", CPU, false)                                                           \
    KERNEL(cross_entropy_backward_lanes, "cross_entropy", CPU, false)                                                  \
    KERNEL(cross_entropy_teams, "cross_entropy", GPU, false)                                                           \
    KERNEL(cross_entropy_backward_teams, "cross_entropy", GPU, false)

typedef enum icl_kernel {
#define ICL_KERNEL_ENUM(name, file, family, strict) ICL_KERNEL_##name,
    ICL_KERNEL_TABLE(ICL_KERNEL_ENUM)
#undef ICL_KERNEL_ENUM
        ICL_KERNEL_COUNT
} icl_kernel;

typedef enum icl_kernel_family {
    ICL_FAMILY_CPU = 1,
    ICL_FAMILY_GPU = 2,
    ICL_FAMILY_BOTH = ICL_FAMILY_CPU | ICL_FAMILY_GPU
} icl_kernel_family;

typedef struct icl_kernel_info {
    const char *name, *file;
    icl_kernel_family family;
    bool strict;
} icl_kernel_info;

extern const icl_kernel_info icl_kernel_infos[ICL_KERNEL_COUNT];

/* One device allocation: in a tensor's hands, or in the pool's list of its size class. */
typedef struct icl_block {
    cl_mem memory;
    size_t bytes; /* of its class */
    bool is_kept; /* by icl_pool_keep */
    struct icl_block *next;
} icl_block;

#define ICL_SIZE_CLASSES 256

/* A program: one file of cl/, with definitions in front of it or none, compiled with one set of options. */
typedef struct icl_program {
    const icl_kernel_source *source;
    char *options, *definitions; /* "": none */
    cl_program program;
    struct icl_program *next;
} icl_program;

/* Whether matrix products may go through CLBlast. */
typedef enum icl_clblast_state {
    ICL_CLBLAST_UNTESTED = 0, /* not used yet */
    ICL_CLBLAST_SERVES,       /* was asked for, or gave the known answer */
    ICL_CLBLAST_REFUSED       /* not built in, not wanted, or gave another one */
} icl_clblast_state;

/* Where compiled programs are kept on disk: see program_cache.c. */
typedef struct icl_program_cache {
    char *folder;    /* NULL: nowhere */
    char *device;    /* what the driver says about device and versions: part of every key */
    size_t loaded;   /* programs that came from there */
    bool distrusted; /* nothing is taken from there any more, only replaced */
    bool complained;
} icl_program_cache;

/* A kernel, and how many work-items a group of it has. */
typedef struct icl_compiled {
    cl_kernel kernel; /* NULL: not compiled yet */
    /* The kernel's own; else the backend's, or the power of two below it that the driver allows. */
    size_t local_size;
    size_t limit;  /* what the driver says of the kernel; rusticl runs more */
    bool is_fixed; /* the kernel was written for one size */
} icl_compiled;

/* What a kernel is compiled with besides: options, and definitions in front of its file ("#define
 * X 1\n..."). NULL: none. */
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

/* Events of the kernels queued since the last wait; see profile.c. */
#define ICL_PROFILE_EVENTS 512

typedef struct icl_profile {
    bool on;
    size_t count;
    cl_event events[ICL_PROFILE_EVENTS];
} icl_profile;

/* Programs that are compiled, and tested, at their first use: see selftest.c. */
typedef enum icl_tested {
    ICL_TESTED_LINEAR_TRANSFORMER = 0,
    ICL_TESTED_GRAM,
    ICL_TESTED_SMALL,
    ICL_TESTED_RECURRENCE,
    ICL_TESTED_RECURRENCE_GRADIENT,
    ICL_TESTED_COUNT
} icl_tested;

/* Launches of sizes drawn at random; see random_launch.c. */
typedef struct icl_random_launch {
    bool on;
    uint32_t seed;
    uint64_t draws; /* launches so far */
} icl_random_launch;

/* Small operations that wait for their launch: see small.c. The buffers and the list are fewer than the 1024 bytes of
 * arguments that any device takes. */
#define ICL_SMALL_BUFFERS 16
#define ICL_SMALL_WORDS   208 /* as in cl/small.cl */
#define ICL_SMALL_ENTRY   20  /* words of an entry at most */

typedef struct icl_small {
    bool is_off;            /* each op is launched alone */
    cl_uint words, buffers; /* that wait */
    cl_mem memory[ICL_SMALL_BUFFERS];
    struct {
        cl_uint words, word[ICL_SMALL_WORDS];
    } list; /* as the kernel takes it */
} icl_small;

typedef struct icl_opencl {
    icl_backend *backend; /* for capabilities, statistics and the log */
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
    char options[96];               /* compiler options of every program */
    bool fast_math;                 /* kernels that are not strict get -cl-fast-relaxed-math as well */
    double clblast_operations;      /* of a launch, at most: see gemm_clblast.c */
    uint64_t clblast_tested;        /* powers of two of m n k for which its large products were right */
    size_t lanes;                   /* floats that one work-item computes at a time, see cl/common.h */
    size_t local_size;              /* of every kernel that the driver allows it, so that each is compiled once */
    size_t max_items;               /* work-items that a launch uses at most; they loop */
    size_t memory_limit;            /* bytes; 0: the device's */
    double launch_seconds;          /* that a launch on a GPU may take; see slices.c */
    double rates[ICL_KERNEL_COUNT]; /* operations a second of each kernel when it was measured; 0: never */
    bool accepts_failed;            /* a wrong answer of the self-test is logged, and no error */
    bool tested[ICL_TESTED_COUNT];  /* passed, or under test */
    bool is_simulator; /* Oclgrind, which watches memory: each block has exactly its size and is used once */
    unsigned chosen[ICL_CHOICE_COUNT]; /* values in place of the table's, see choices.h */
    icl_gemm gemm;
    icl_clblast_state clblast;
    icl_program *programs;
    icl_program_cache cache;
    icl_compiled kernels[ICL_KERNEL_COUNT];
    icl_variant *variants;
    struct icl_linear_program *linear_programs; /* see linear_transformer/programs.c */
    size_t straight_launches;                   /* a test asks */
    const char *register_option;                /* of the compiler, where it takes one; NULL: none */
    size_t wave;                                /* work-items of a GPU that run in step: 32 or 64; 0: not asked yet */
    icl_block *free_blocks[ICL_SIZE_CLASSES];
    unsigned launches;               /* since the last flush */
    bool launched[ICL_KERNEL_COUNT]; /* ever; a test asks whether it saw every kernel */
    icl_profile profile;
    icl_random_launch random_launch;
    icl_small small;
} icl_opencl;

static inline icl_opencl *icl_opencl_of(icl_backend *backend) {
    return backend->state;
}

static inline cl_mem icl_memory_of(const icl_tensor *tensor) {
    return ((icl_block *)tensor->buffer->handle)->memory;
}

/* The value of a choice: what was asked for, or else the table's for this device and size. */
static inline unsigned icl_opencl_choose(const icl_opencl *opencl, icl_opencl_choice choice, size_t size) {
    const icl_capabilities *device = &opencl->backend->capabilities;
    return opencl->chosen[choice] != ICL_BY_TABLE ? opencl->chosen[choice]
                                                  : icl_choice_by_table(choice, size, device->name, device->platform);
}

/* ---- errors.c ---- */

/* "CL_OUT_OF_RESOURCES"; also CLBlast's codes. Never NULL. */
const char *icl_cl_error_name(int code);

/* Fails with the call, the error's name and the device; the status is ICL_ERROR_MEMORY where the code
 * says so. `opencl` may be NULL. */
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

/* ---- program_cache.c ---- */

/* Chooses and prepares the folder. None of these fails: the log says why a program is not kept. */
void icl_program_cache_open(icl_opencl *opencl);
void icl_program_cache_close(icl_opencl *opencl);

/* The program of this source and options, built, or NULL. The caller owns it. */
cl_program icl_program_cache_load(icl_opencl *opencl, const char *text, size_t size, const char *options);
/* Keeps one that was built from source. */
void icl_program_cache_store(icl_opencl *opencl, const char *text, size_t size, const char *options,
                             cl_program program);

/* ---- program.c ---- */

/* The embedded file of that name, or NULL. */
const icl_kernel_source *icl_opencl_find_source(const char *name);

/* Sets the compiler options of every program, which follow from the lanes and from whether the
 * device has fused multiply-adds. */
void icl_opencl_set_options(icl_opencl *opencl, bool has_fma);

/* Compiler options of a program, all of them. */
#define ICL_OPTIONS_CAPACITY (sizeof((icl_opencl){0}.options) + 160)

/* NVIDIA's option for as many registers as let half of the warps run that a multiprocessor of this compute capability
 * holds: 65,536 registers to 64 warps, to 48 or to 32. 0, 0: unknown. */
const char *icl_opencl_register_option(unsigned major, unsigned minor);

/* All options of a kernel; `further`: its own, or NULL. Reads of the backend only its options and whether it
 * is to be fast. */
void icl_opencl_options_of(const icl_opencl *opencl, icl_kernel which, const char *further,
                           char options[ICL_OPTIONS_CAPACITY]);

/* Takes the program of any source from the cache, or compiles it; the build log is in the error's message. */
icl_status icl_opencl_build(icl_opencl *opencl, const char *name, const char *text, size_t size, const char *options,
                            cl_program *program, icl_error *error);

/* The kernel, compiled at its first use. */
icl_status icl_opencl_kernel(icl_opencl *opencl, icl_kernel which, icl_compiled *compiled, icl_error *error);

/* The kernel with more options, or definitions in front of its file, compiled at their first use. */
icl_status icl_opencl_variant(icl_opencl *opencl, icl_kernel which, const icl_specialization *special,
                              icl_compiled *compiled, icl_error *error);
void icl_opencl_release_programs(icl_opencl *opencl);

/* ---- launch.c ---- */

typedef struct icl_argument {
    size_t size;
    const void *value;
    double work;   /* > 0 for the number of units: operations of a unit */
    bool by_group; /* on GPUs a work-group takes a unit, not a work-item */
} icl_argument;

#define ICL_ARGUMENT(variable)      ((icl_argument){.size = sizeof(variable), .value = &(variable)})
#define ICL_MEMORY_ARGUMENT(memory) ((icl_argument){.size = sizeof(cl_mem), .value = &(memory)}) /* of type cl_mem */

/*
 * The number of units (a cl_uint; the kernel takes uint2 units, see FOR_EACH_UNIT in cl/common.h), by which a launch
 * that may take long is cut, and about how many operations one takes. A unit must not depend on another
 * one of the launch.
 */
#define ICL_UNITS(units, operations)       ((icl_argument){sizeof(cl_uint), &(units), 1 + (double)(operations), false})
#define ICL_GROUP_UNITS(units, operations) ((icl_argument){sizeof(cl_uint), &(units), 1 + (double)(operations), true})

/* How many work-items a launch over `units` independent units uses. */
size_t icl_opencl_items(const icl_opencl *opencl, size_t units);

/* The same, with fewer where each needs so much scratch memory that all together would fill the device. */
size_t icl_opencl_items_with_scratch(const icl_opencl *opencl, size_t units, size_t scratch_bytes);

/* Takes `group_bytes` of scratch memory for each work-group of a launch of so many work-items. */
icl_status icl_opencl_take_scratch(icl_opencl *opencl, size_t items, size_t group_bytes, icl_block **block,
                                   icl_error *error);

/* Queues a kernel over `units` units of work. Arguments in the kernel's order. */
icl_status icl_opencl_launch(icl_opencl *opencl, icl_kernel which, size_t units, const icl_argument *arguments,
                             size_t count, icl_error *error);
/* The same with exactly this many work-items, a multiple of local_size. One group stays one, also where
 * it must be smaller. */
icl_status icl_opencl_launch_items(icl_opencl *opencl, icl_kernel which, size_t items, const icl_argument *arguments,
                                   size_t count, icl_error *error);

/* The same for a kernel that is compiled specially; NULL: it is not. */
icl_status icl_opencl_launch_with(icl_opencl *opencl, icl_kernel which, const icl_specialization *special, size_t items,
                                  const icl_argument *arguments, size_t count, icl_error *error);

#define ICL_LAUNCH(opencl, which, units, error, ...)                                                                   \
    icl_opencl_launch(opencl, which, units, (const icl_argument[]){__VA_ARGS__},                                       \
                      sizeof((const icl_argument[]){__VA_ARGS__}) / sizeof(icl_argument), error)
#define ICL_LAUNCH_ITEMS(opencl, which, items, error, ...)                                                             \
    icl_opencl_launch_items(opencl, which, items, (const icl_argument[]){__VA_ARGS__},                                 \
                            sizeof((const icl_argument[]){__VA_ARGS__}) / sizeof(icl_argument), error)
#define ICL_LAUNCH_WITH(opencl, which, special, items, error, ...)                                                     \
    icl_opencl_launch_with(opencl, which, special, items, (const icl_argument[]){__VA_ARGS__},                         \
                           sizeof((const icl_argument[]){__VA_ARGS__}) / sizeof(icl_argument), error)

/* A view as kernels take it: memory, offset of its first element, strides of four axes (missing ones lead). */
typedef struct icl_view {
    cl_mem memory;
    cl_uint offset;
    cl_int4 stride;
} icl_view;

icl_view icl_view_of(const icl_tensor *tensor);

/* Three arguments of a kernel. */
#define ICL_VIEW(view) ICL_MEMORY_ARGUMENT((view).memory), ICL_ARGUMENT((view).offset), ICL_ARGUMENT((view).stride)

/* The extents of four axes, missing ones 1 and leading. */
cl_uint4 icl_shape_of(const icl_tensor *tensor);

/* Runs of elements that several views walk through together; see FOR_EACH_SEGMENT in cl/common.h. */
typedef struct icl_runs {
    cl_uint4 shape;
    cl_uint segment, segments, units;
    icl_view views[4];
} icl_runs;

/* Merges the axes of `count` tensors of one shape as far as their strides allow. */
icl_runs icl_runs_of(const icl_opencl *opencl, const icl_tensor *tensors, int count);

#define ICL_RUNS(runs)                                                                                                 \
    ICL_ARGUMENT((runs).shape), ICL_ARGUMENT((runs).segment), ICL_ARGUMENT((runs).segments),                           \
        ICL_UNITS((runs).units, (runs).segment)

/* Rows along the last axis, each of a team of work-items on GPUs; see cl/rows.h. */
typedef struct icl_teams {
    cl_uint4 shape;
    cl_uint rows, team, groups; /* groups: work-groups that the teams of all rows fill */
} icl_teams;

#define ICL_TEAM_GROUP 64 /* work-items of the group, as in cl/rows.h */

icl_teams icl_teams_of(const icl_tensor *rows);

/* Work-items of a launch over all rows. */
size_t icl_team_items(const icl_opencl *opencl, const icl_teams *teams);

/* Four arguments of a kernel; work: operations of a row. */
#define ICL_TEAMS(teams, work)                                                                                         \
    ICL_ARGUMENT((teams).shape), ICL_ARGUMENT((teams).rows), ICL_ARGUMENT((teams).team),                               \
        ICL_GROUP_UNITS((teams).groups, (work)*ICL_TEAM_GROUP / (teams).team)

/* ---- enqueue.c ---- */

/* Queues a kernel whose arguments are set. */
icl_status icl_opencl_enqueue(icl_opencl *opencl, icl_kernel which, const icl_compiled *compiled, size_t items,
                              icl_error *error);

/* ---- slices.c ---- */

/* Seconds that a launch may take, if its units are not longer. */
#define ICL_LAUNCH_SECONDS .1

/* Of a launch of CLBlast's: .1 to .2 s of a small integrated GPU. */
#define ICL_CLBLAST_OPERATIONS 2e10

/* A launch that can be cut: its kernel, with all other arguments set, and its units. */
typedef struct icl_slices {
    icl_compiled compiled;
    cl_uint argument; /* that takes the units */
    size_t units;
    double work;   /* operations of a unit */
    bool by_group; /* a work-group takes a unit */
    size_t items;  /* work-items at most */
} icl_slices;

/* How many of the `left` units the next slice takes: what the seconds allow, `least` or more, and at most twice as many
 * as the slice before it, if there was one. */
size_t icl_slice_units(size_t left, size_t least, size_t before, double units_per_second, double seconds);

/* Whether a launch of so many operations may take so long that it must be cut. */
bool icl_opencl_is_long(const icl_opencl *opencl, icl_kernel which, double work);

/* Runs the launch in slices, and waits for each. */
icl_status icl_opencl_launch_slices(icl_opencl *opencl, icl_kernel which, const icl_slices *slices, icl_error *error);

/* ---- small.c ---- */

/* As in cl/small.cl. */
typedef enum icl_small_kind {
    ICL_SMALL_COPY = 0,
    ICL_SMALL_UNARY,
    ICL_SMALL_BINARY,
    ICL_SMALL_SCALE_ADD,
    ICL_SMALL_MATMUL,
    ICL_SMALL_NORMALIZE
} icl_small_kind;

/* Queues what waits; everything that is queued otherwise calls it before. */
icl_status icl_small_launch(icl_opencl *opencl, icl_error *error);

/* Elementwise ops of one or two axes. */
bool icl_small_takes_runs(const icl_opencl *opencl, const icl_runs *runs);

typedef struct icl_small_choice {
    cl_uint kind; /* of the function; of icl_scale_add, whether there is a b */
    cl_float alpha, beta;
} icl_small_choice;

icl_status icl_small_add_runs(icl_opencl *opencl, icl_small_kind kind, const icl_runs *runs, int views,
                              const icl_small_choice *choice, icl_error *error);

/* One product of few rows; shape: of out. */
bool icl_small_takes_product(const icl_opencl *opencl, cl_uint4 shape, cl_uint terms);
icl_status icl_small_add_product(icl_opencl *opencl, const icl_view views[3], cl_uint4 shape, cl_uint terms,
                                 cl_float alpha, cl_float beta, icl_error *error);

/* Rows that are normalized: views of out, in, gain and shift, the last two with offset and last stride alone. */
typedef struct icl_small_norm {
    icl_view views[4];
    cl_uint rows, count, kind, flags;
    cl_float share, epsilon;
} icl_small_norm;

/* views: of out and in, whose third strides become those of rows. */
bool icl_small_takes_rows(const icl_opencl *opencl, icl_view views[2], cl_uint4 shape, cl_uint *rows);
icl_status icl_small_add_rows(icl_opencl *opencl, const icl_small_norm *norm, icl_error *error);

/* ---- random_launch.c ---- */

/* Reads the variable; one that cannot be understood is an error. */
icl_status icl_opencl_read_launch(icl_opencl *opencl, icl_error *error);

/* Draws the size of the groups, where the kernel takes any, and their number: no more items and
 * groups than were given. */
void icl_opencl_draw_launch(icl_opencl *opencl, icl_kernel which, const icl_compiled *compiled, size_t *items,
                            size_t *group);

/* ---- profile.c ---- */

/* Where the next kernel's event goes, to be counted in profile.count once it is there; NULL without profiling. */
icl_status icl_profile_next(icl_opencl *opencl, cl_event **event, icl_error *error);
/* Waits, and adds the kernels' times to the statistics. */
icl_status icl_profile_collect(icl_opencl *opencl, icl_error *error);
/* Forgets them. */
void icl_profile_drop(icl_opencl *opencl);

/* ---- peak.c ---- */

/* See icl_backend_functions. */
icl_status icl_opencl_peak(icl_backend *backend, const icl_peak_params *params, const icl_tensor *operands,
                           double *amount, icl_error *error);

/* ---- pool.c ---- */

/* Takes a block of at least `bytes` > 0 from the pool or the device, within the memory limit. */
icl_status icl_pool_take(icl_opencl *opencl, size_t bytes, icl_block **block, icl_error *error);
/* Says that a block holds no tensor: it does not count as live, until it is given back. */
void icl_pool_keep(icl_opencl *opencl, icl_block *block);
/* Gives it back (NULL is allowed). Queued work may still use it: whoever takes it next queues later. */
void icl_pool_give(icl_opencl *opencl, icl_block *block);
/* Releases every free block to the driver. */
void icl_pool_trim(icl_opencl *opencl);
icl_status icl_opencl_trim(icl_backend *backend, icl_error *error);

icl_status icl_opencl_buffer_create(icl_backend *backend, icl_buffer *buffer, icl_error *error);
void icl_opencl_buffer_destroy(icl_backend *backend, icl_buffer *buffer);

/* ---- transfer.c ---- */

icl_status icl_opencl_buffer_read(icl_backend *backend, const icl_buffer *buffer, size_t offset, size_t count,
                                  void *elements, icl_error *error);
icl_status icl_opencl_buffer_write(icl_backend *backend, icl_buffer *buffer, size_t offset, size_t count,
                                   const void *elements, icl_error *error);
icl_status icl_opencl_buffer_map(icl_backend *backend, icl_buffer *buffer, icl_error *error);
icl_status icl_opencl_buffer_unmap(icl_backend *backend, icl_buffer *buffer, icl_error *error);
icl_status icl_opencl_sync(icl_backend *backend, icl_error *error);

/* ---- One file for each family of ops ---- */

icl_op_function icl_opencl_fill, icl_opencl_copy, icl_opencl_unary, icl_opencl_binary, icl_opencl_scale_add;
icl_op_function icl_opencl_random_fill, icl_opencl_gram_sample, icl_opencl_spherical;
icl_op_function icl_opencl_normalize, icl_opencl_normalize_backward;
icl_op_function icl_opencl_cross_entropy, icl_opencl_cross_entropy_backward;
icl_op_function icl_opencl_reduce, icl_opencl_matmul, icl_opencl_matmul_strict;
icl_op_function icl_opencl_attention_forward, icl_opencl_attention_backward;
icl_op_function icl_opencl_linear_transformer_predict, icl_opencl_linear_transformer_gradient;
icl_op_function icl_opencl_track_threshold, icl_opencl_update_step;
icl_op_function icl_opencl_recurrence_forward, icl_opencl_recurrence_backward;
icl_op_function icl_opencl_look_up, icl_opencl_look_up_backward, icl_opencl_rotate;
icl_op_function icl_opencl_convolve, icl_opencl_convolve_backward;

/* Forward on GPUs, token by token or by chunks: `ways` and `choose_way` of icl_backend_functions. Where one was asked
 * for, there is no choice. */
size_t icl_recurrence_ways(const icl_backend *backend, icl_op op, const char *const **names);
void icl_recurrence_choose_way(icl_backend *backend, icl_op op, size_t way);

/* One linear attention launch: see attention_linear.c. */
icl_status icl_opencl_linear_forward(icl_opencl *opencl, const icl_attention_params *params, const icl_tensor *operands,
                                     icl_error *error);
icl_status icl_opencl_linear_backward(icl_opencl *opencl, const icl_attention_params *params,
                                      const icl_tensor *operands, icl_error *error);
icl_status icl_opencl_softmax_forward(icl_opencl *opencl, const icl_attention_params *params,
                                      const icl_tensor *operands, icl_error *error);
icl_status icl_opencl_softmax_backward(icl_opencl *opencl, const icl_attention_params *params,
                                       const icl_tensor *operands, icl_error *error);

/* Releases the steps of linear transformers. */
void icl_linear_programs_forget(icl_opencl *opencl);

/* Our own kernel, whatever the backend's choice of GEMM. */
icl_status icl_opencl_matmul_native(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                                    bool strict, icl_error *error);

/* ---- gemm_clblast.c, or gemm_none.c ---- */

/* Whether CLBlast can express the product: rank 2, or rank 3 with no repeated out, and one contiguous
 * axis in each matrix. */
bool icl_clblast_fits(const icl_tensor *operands);
icl_status icl_clblast_matmul(icl_opencl *opencl, const icl_matmul_params *params, const icl_tensor *operands,
                              icl_error *error);
/* Has CLBlast take the parameters of an NVIDIA A100 for this device from now on, in the whole process: CLBlast cannot
 * take them back. Logs a failure, after which the device's own serve. */
void icl_clblast_use_a100(const icl_opencl *opencl);
/* Releases what CLBlast holds of this context; called before the context is released. */
void icl_clblast_forget(void);

/* ---- devices.c, requirements.c, selftest.c ---- */

/* Fills everything but spec. */
icl_status icl_opencl_describe(cl_platform_id platform, cl_device_id device, icl_capabilities *capabilities,
                               icl_error *error);

/* Refuses a device that lacks what every kernel needs, with what was found and what is needed. An embedded profile,
 * which may compute less exactly than error bounds suppose, is accepted on request, and then logged. */
icl_status icl_opencl_require(const icl_opencl *opencl, bool accept_less_exact, icl_error *error);

/*
 * Known answers of the ops whose kernels are compiled on opening, or of one program of its own. ICL_ERROR_DEVICE with
 * the numbers that were wrong: the device is refused, unless it was opened to see how it fails. CLBlast is among what
 * is tested only if it was asked for.
 */
icl_status icl_opencl_self_test(icl_opencl *opencl, icl_error *error);

/* Every op of such a program calls this first. The circle is meant: the self-test runs the ops themselves, on the way
 * that users' work takes, and notes that it began before it does. */
icl_status icl_opencl_test_program(icl_opencl *opencl, icl_tested which, icl_error *error);

/* Asks CLBlast for known answers before its first use, and before its first large product of each size. One that is
 * wrong fails if CLBlast was asked for; otherwise it is logged, and CLBlast is refused from then on. m, n, k: of the
 * product to come, [m, k] by [k, n]. */
icl_status icl_opencl_test_clblast(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error);

#endif
