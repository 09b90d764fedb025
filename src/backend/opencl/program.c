/* Programs: kernels compiled once for each file and set of options, and kept on disk. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/opencl/program.h"
#include "backend/opencl/queue.h"
#include "core/allocate.h"
#include "core/cache.h"

/* ---- The folder of compiled programs, for drivers that do not keep them themselves ---- */

/*
 * The key is everything that a driver's compiler sees: the whole source with its includes resolved, the options, and
 * what names device and driver, versions included. The cache only ever saves time: if anything goes wrong with it, the
 * log says so, and the source is compiled.
 */

static const icl_cache_limits limits = {.bytes = UINT64_C(256) << 20, .seconds = 90 * UINT64_C(86400)};

#define INFO_CAPACITY 512

/* Warns of the first problem with the cache; later ones go to the debug log. */
static void complain(icl_opencl *opencl, const icl_error *why) {
    icl_program_cache *cache = &opencl->programs->cache;
    icl_log_write(&opencl->backend->log, cache->complained ? ICL_LOG_DEBUG : ICL_LOG_WARNING,
                  "program cache: %s; compiling from source", why->message);
    cache->complained = true;
}

/*
 * Returns whether the driver needs this cache. PoCL keeps programs by itself, down to each work-group size, and
 * compiles every kernel once more to give a binary; Oclgrind names lines of the source, and so needs the source.
 * ICLAB_PROGRAM_CACHE=always turns this cache on nevertheless, for tests.
 */
static bool is_wanted(const icl_opencl *opencl) {
    const char *when = getenv("ICLAB_PROGRAM_CACHE"), *platform = opencl->backend->capabilities.platform;
    return (!strstr(platform, "Portable Computing Language") && !strstr(platform, "Oclgrind")) ||
           (when && strcmp(when, "always") == 0);
}

static const cl_device_info device_infos[] = {CL_DEVICE_NAME, CL_DEVICE_VENDOR, CL_DEVICE_VERSION, CL_DRIVER_VERSION,
                                              CL_DEVICE_OPENCL_C_VERSION};
/* Apple's devices and drivers have had the same versions for years: only the platform's version names the system. */
static const cl_platform_info platform_infos[] = {CL_PLATFORM_NAME, CL_PLATFORM_VERSION};

enum {
    DEVICE_INFOS = sizeof device_infos / sizeof *device_infos,
    PLATFORM_INFOS = sizeof platform_infos / sizeof *platform_infos,
    INFOS = DEVICE_INFOS + PLATFORM_INFOS
};

/* Reads what device and platform say of themselves. texts: INFOS * INFO_CAPACITY bytes, all 0. */
static icl_status read_infos(const icl_opencl *opencl, char *texts, icl_error *error) {
    icl_status status = ICL_OK;
    cl_platform_id platform = NULL;
    size_t used = 0;

    ICL_CL_TRY(opencl, "clGetDeviceInfo",
               clGetDeviceInfo(opencl->device, CL_DEVICE_PLATFORM, sizeof(cl_platform_id), &platform, NULL));
    for (int i = 0; i < INFOS; i++) {
        if (i < DEVICE_INFOS)
            ICL_CL_TRY(opencl, "clGetDeviceInfo",
                       clGetDeviceInfo(opencl->device, device_infos[i], INFO_CAPACITY - 1, texts + used, NULL));
        else
            ICL_CL_TRY(
                opencl, "clGetPlatformInfo",
                clGetPlatformInfo(platform, platform_infos[i - DEVICE_INFOS], INFO_CAPACITY - 1, texts + used, NULL));
        used += strlen(texts + used);
        texts[used++] = '\n';
    }
done:
    return status;
}

void icl_program_cache_open(icl_opencl *opencl) {
    icl_program_cache *cache = &opencl->programs->cache;
    icl_status status = ICL_OK;
    icl_error why = {0};

    if (!is_wanted(opencl))
        return;
    ICL_TRY(icl_cache_folder(&cache->folder, &why));
    if (!cache->folder)
        return;
    ICL_TRY(icl_allocate(INFOS, INFO_CAPACITY, "names of device and platform", &cache->device, &why));
    ICL_TRY(read_infos(opencl, cache->device, &why));
    ICL_TRY(icl_cache_prepare(cache->folder, limits, &why));
done:
    if (status != ICL_OK) {
        complain(opencl, &why);
        icl_program_cache_close(opencl);
    }
}

void icl_program_cache_close(icl_opencl *opencl) {
    icl_free(&opencl->programs->cache.folder);
    icl_free(&opencl->programs->cache.device);
}

/* Composes the key of a program from device, options and source, in new memory. */
static icl_status make_key(const icl_opencl *opencl, const char *text, size_t size, const char *options, char **key,
                           size_t *key_size, icl_error *error) {
    const char *const parts[] = {opencl->programs->cache.device, options, "\n", text};
    const size_t sizes[] = {strlen(parts[0]), strlen(options), 1, size};
    size_t used = 0;
    icl_status status;

    *key_size = sizes[0] + sizes[1] + sizes[2] + sizes[3];
    status = icl_allocate(*key_size, 1, "key of a program", key, error);
    for (size_t i = 0; i < 4 && status == ICL_OK; used += sizes[i++])
        memcpy(*key + used, parts[i], sizes[i]);
    return status;
}

/* Makes and builds a program from a binary of the driver's; NULL if the driver refuses it. */
static cl_program program_of(icl_opencl *opencl, const char *binary, size_t size, const char *options) {
    const unsigned char *bytes = (const unsigned char *)binary;
    cl_int code, accepted = CL_INVALID_BINARY;
    size_t kernels = 0;
    cl_program program =
        clCreateProgramWithBinary(opencl->context, 1, &opencl->device, &size, &bytes, &accepted, &code);

    if (code == CL_SUCCESS)
        code = accepted;
    if (code == CL_SUCCESS)
        code = clBuildProgram(program, 1, &opencl->device, options, NULL, NULL);
    if (code == CL_SUCCESS)
        code = clGetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof kernels, &kernels, NULL);
    if (code == CL_SUCCESS && kernels > 0)
        return program;
    if (program)
        clReleaseProgram(program);
    icl_log_write(&opencl->backend->log, ICL_LOG_DEBUG, "program cache: the driver refuses its own binary: %s (%d)",
                  icl_cl_error_name(code), code);
    return NULL;
}

/* Returns the built program of this source and options, or NULL. The caller owns it. */
static cl_program program_cache_load(icl_opencl *opencl, const char *text, size_t size, const char *options) {
    icl_status status = ICL_OK;
    icl_error why = {0};
    char *key = NULL, *binary = NULL;
    size_t key_size, binary_size;
    cl_program program = NULL;

    if (!opencl->programs->cache.folder || opencl->programs->cache.distrusted)
        return NULL;
    ICL_TRY(make_key(opencl, text, size, options, &key, &key_size, &why));
    ICL_TRY(icl_cache_load(opencl->programs->cache.folder, key, key_size, &binary, &binary_size, &why));
    if (binary)
        program = program_of(opencl, binary, binary_size, options);
    opencl->programs->cache.loaded += program != NULL;
done:
    if (status != ICL_OK)
        complain(opencl, &why);
    icl_free(&key);
    icl_free(&binary);
    return program;
}

/* Gets the binary of a program's only device, in new memory. */
static icl_status binary_of(const icl_opencl *opencl, cl_program program, char **binary, size_t *size,
                            icl_error *error) {
    icl_status status = ICL_OK;

    ICL_CL_TRY(opencl, "clGetProgramInfo",
               clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *size, size, NULL));
    if (*size == 0) {
        status =
            icl_fail(error, ICL_ERROR_DEVICE, "%s gives no binary of a program", opencl->backend->capabilities.name);
        goto done;
    }
    ICL_TRY(icl_allocate(*size, 1, "binary of a program", binary, error));
    ICL_CL_TRY(opencl, "clGetProgramInfo",
               clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof *binary, binary, NULL));
done:
    return status;
}

/* Keeps a program that was built from source. */
static void program_cache_store(icl_opencl *opencl, const char *text, size_t size, const char *options,
                                cl_program program) {
    icl_status status = ICL_OK;
    icl_error why = {0};
    char *key = NULL, *binary = NULL;
    size_t key_size, binary_size = 0;

    if (!opencl->programs->cache.folder)
        return;
    ICL_TRY(make_key(opencl, text, size, options, &key, &key_size, &why));
    ICL_TRY(binary_of(opencl, program, &binary, &binary_size, &why));
    ICL_TRY(icl_cache_store(opencl->programs->cache.folder, key, key_size, binary, binary_size, &why));
done:
    if (status != ICL_OK)
        complain(opencl, &why);
    icl_free(&key);
    icl_free(&binary);
}

/* ---- Compiling ---- */

const icl_kernel_info icl_kernel_infos[ICL_KERNEL_COUNT] = {
#define ICL_KERNEL_ROW(name, file, family, strict) {#name, file, ICL_FAMILY_##family, strict},
    ICL_KERNEL_TABLE(ICL_KERNEL_ROW)
#undef ICL_KERNEL_ROW
};

#define BUILD_LOG_LINES 8 /* of an error; the errors of a macro repeat themselves for pages */

/* Cuts the text before its line number `most`, counted from 0. */
static void keep_lines(char *text, int most) {
    while (most-- > 0 && *text) {
        text += strcspn(text, "\n");
        text += most > 0 && *text;
    }
    *text = '\0';
}

/* Says why a build failed, with the first lines of the compiler's log after the first line. The whole log is logged. */
static icl_status build_failed(const icl_opencl *opencl, int code, const char *name, const char *options,
                               cl_program program, icl_error *error) {
    char log[3072] = "the driver gives no build log";
    char *whole = NULL;
    size_t size = 0;

    if (clGetProgramBuildInfo(program, opencl->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) == CL_SUCCESS &&
        size > 1 && icl_allocate(size + 1, 1, "build log", &whole, NULL) == ICL_OK) {
        if (clGetProgramBuildInfo(program, opencl->device, CL_PROGRAM_BUILD_LOG, size, whole, NULL) == CL_SUCCESS) {
            icl_log_write(&opencl->backend->log, ICL_LOG_DEBUG, "build log of %s:\n%s", name, whole);
            snprintf(log, sizeof log, "%s", whole);
            keep_lines(log, BUILD_LOG_LINES);
        }
        icl_free(&whole);
    }
    return icl_fail(error, ICL_ERROR_DEVICE, "clBuildProgram of %s with \"%s\": %s (%d) on %s\nbuild log:\n%s", name,
                    options, icl_cl_error_name(code), code, opencl->backend->capabilities.name, log);
}

icl_status icl_opencl_build(icl_opencl *opencl, const char *name, const char *text, size_t size, const char *options,
                            cl_program *program, icl_error *error) {
    cl_int code;

    *program = program_cache_load(opencl, text, size, options);
    if (*program)
        return ICL_OK;
    *program = clCreateProgramWithSource(opencl->context, 1, &text, &size, &code);
    if (code != CL_SUCCESS)
        return icl_cl_fail(opencl, code, "clCreateProgramWithSource", error);
    code = clBuildProgram(*program, 1, &opencl->device, options, NULL, NULL);
    if (code != CL_SUCCESS) {
        const icl_status status = build_failed(opencl, code, name, options, *program, error);
        clReleaseProgram(*program);
        *program = NULL;
        return status;
    }
    program_cache_store(opencl, text, size, options, *program);
    return ICL_OK;
}

const icl_kernel_source *icl_opencl_find_source(const char *name) {
    for (size_t i = 0; i < icl_kernel_source_count; i++)
        if (strcmp(icl_kernel_sources[i].name, name) == 0)
            return &icl_kernel_sources[i];
    return NULL;
}

/* Builds definitions and source as one text. */
static icl_status build_text(icl_opencl *opencl, icl_program *program, icl_error *error) {
    const icl_kernel_source *source = program->source;
    const char *parts[] = {program->definitions, (const char *)source->data};
    const size_t front = strlen(parts[0]);
    icl_status status = ICL_OK;
    char *text = NULL;

    /* Nothing runs while the driver compiles: the compiler of Intel's runtime for CPUs reads memory that it has freed
     * just before (2026.2, its pass ReduceCrossBarrierValues), and crashes if a kernel's threads have written to that
     * memory since. */
    ICL_CL_TRY(opencl, "clFinish", clFinish(opencl->queue->handle));
    if (front > 0) {
        ICL_TRY(icl_allocate(front + source->size, 1, "source text", &text, error));
        memcpy(text, parts[0], front);
        memcpy(text + front, parts[1], source->size);
    }
    ICL_TRY(icl_opencl_build(opencl, source->name, text ? text : parts[1], front + source->size, program->options,
                             &program->program, error));
done:
    icl_free(&text);
    return status;
}

static void free_program(icl_program *program) {
    icl_free(&program->options);
    icl_free(&program->definitions);
    icl_free(&program);
}

/* Finds the program of a file, definitions and options; takes it from the cache, or compiles it. */
static icl_status find_program(icl_opencl *opencl, const char *file, const char *definitions, const char *options,
                               icl_program **found, icl_error *error) {
    icl_status status = ICL_OK;
    icl_program *created = NULL;
    const icl_kernel_source *source = icl_opencl_find_source(file);

    if (!source) {
        icl_fail(error, ICL_ERROR_DEVICE, "no kernel file %s is built in", file);
        return ICL_ERROR_DEVICE;
    }
    for (icl_program *p = opencl->programs->list; p; p = p->next)
        if (p->source == source && strcmp(p->options, options) == 0 && strcmp(p->definitions, definitions) == 0) {
            *found = p;
            return ICL_OK;
        }
    ICL_TRY(icl_allocate(1, sizeof *created, "program", &created, error));
    ICL_TRY(icl_duplicate(options, &created->options, error));
    ICL_TRY(icl_duplicate(definitions, &created->definitions, error));
    created->source = source;
    ICL_TRY(build_text(opencl, created, error));
    created->next = opencl->programs->list;
    opencl->programs->list = *found = created;
    created = NULL;
done:
    if (created)
        free_program(created);
    return status;
}

/* Chooses the size of a kernel's groups. Their limit depends on the compiled kernel: on some GPUs registers limit
 * them. */
static icl_status choose_local_size(const icl_opencl *opencl, const char *name, icl_compiled *compiled,
                                    icl_error *error) {
    const char *device = opencl->backend->capabilities.name;
    const size_t local_memory = opencl->backend->capabilities.local_memory;
    icl_status status = ICL_OK;
    size_t fixed[3] = {0};
    cl_ulong local_bytes = 0;
    const struct {
        cl_kernel_work_group_info what;
        size_t size;
        void *value;
    } infos[] = {{CL_KERNEL_WORK_GROUP_SIZE, sizeof compiled->limit, &compiled->limit},
                 {CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof fixed, fixed},
                 {CL_KERNEL_LOCAL_MEM_SIZE, sizeof local_bytes, &local_bytes}};

    for (size_t i = 0; i < sizeof infos / sizeof *infos; i++)
        ICL_CL_TRY(opencl, "clGetKernelWorkGroupInfo",
                   clGetKernelWorkGroupInfo(compiled->kernel, opencl->device, infos[i].what, infos[i].size,
                                            infos[i].value, NULL));
    /* A kernel that was written for one size is tried with it: rusticl gives 32 as the limit of kernels that it runs
     * with 64. */
    compiled->is_fixed = fixed[0] > 0;
    compiled->local_size = compiled->is_fixed ? fixed[0] : opencl->local_size;
    while (!compiled->is_fixed && compiled->local_size > compiled->limit && compiled->local_size > 1)
        compiled->local_size /= 2;
    if (opencl->lanes == 1 && local_bytes > local_memory)
        return icl_fail(error, ICL_ERROR_DEVICE, "kernel %s needs %llu bytes of local memory, %s has %zu", name,
                        (unsigned long long)local_bytes, device, local_memory);
done:
    return status;
}

static icl_status create_kernel(icl_opencl *opencl, icl_kernel which, const icl_program *program,
                                icl_compiled *compiled, icl_error *error) {
    const char *name = icl_kernel_infos[which].name;
    icl_compiled made = {0};
    icl_status status = ICL_OK;
    cl_int code;
    char call[96];

    made.kernel = clCreateKernel(program->program, name, &code);
    if (code != CL_SUCCESS) {
        snprintf(call, sizeof call, "clCreateKernel of %s", name);
        return icl_cl_fail(opencl, code, call, error);
    }
    ICL_TRY(choose_local_size(opencl, name, &made, error));
    *compiled = made;
    made.kernel = NULL;
done:
    if (made.kernel)
        clReleaseKernel(made.kernel);
    return status;
}

void icl_opencl_set_options(icl_opencl *opencl, bool has_fma) {
    snprintf(opencl->programs->options, sizeof opencl->programs->options, "-cl-std=CL1.2 -DLANES=%zu%s", opencl->lanes,
             has_fma ? " -DICL_FMA" : "");
}

const char *icl_opencl_register_option(unsigned major, unsigned minor) {
    if (major == 7 && minor == 5)
        return "-cl-nv-maxrregcount=128"; /* 32 warps */
    if ((major == 8 && minor > 0) || major == 12)
        return "-cl-nv-maxrregcount=80"; /* 48 warps */
    return "-cl-nv-maxrregcount=64";
}

void icl_opencl_options_of(const icl_opencl *opencl, icl_kernel which, const char *further,
                           char options[ICL_OPTIONS_CAPACITY]) {
    const bool relaxed = opencl->fast_math && !icl_kernel_infos[which].strict;
    snprintf(options, ICL_OPTIONS_CAPACITY, "%s%s%s%s", opencl->programs->options,
             relaxed ? " -cl-fast-relaxed-math" : "", further ? " " : "", further ? further : "");
}

icl_status icl_opencl_kernel(icl_opencl *opencl, icl_kernel which, icl_compiled *compiled, icl_error *error) {
    icl_program *program = NULL;

    if (!opencl->programs->kernels[which].kernel) {
        char options[ICL_OPTIONS_CAPACITY];
        icl_opencl_options_of(opencl, which, NULL, options);
        ICL_CHECK(find_program(opencl, icl_kernel_infos[which].file, "", options, &program, error));
        ICL_CHECK(create_kernel(opencl, which, program, &opencl->programs->kernels[which], error));
    }
    *compiled = opencl->programs->kernels[which];
    return ICL_OK;
}

icl_status icl_opencl_variant(icl_opencl *opencl, icl_kernel which, const icl_specialization *special,
                              icl_compiled *compiled, icl_error *error) {
    char options[ICL_OPTIONS_CAPACITY];
    icl_status status = ICL_OK;
    icl_program *program = NULL;
    icl_variant *created = NULL;

    icl_opencl_options_of(opencl, which, special->options, options);
    ICL_TRY(find_program(opencl, icl_kernel_infos[which].file, special->definitions ? special->definitions : "",
                         options, &program, error));
    for (const icl_variant *v = opencl->programs->variants; v; v = v->next)
        if (v->which == which && v->program == program) {
            *compiled = v->compiled;
            return ICL_OK;
        }
    ICL_TRY(icl_allocate(1, sizeof *created, "kernel", &created, error));
    *created = (icl_variant){.which = which, .program = program, .next = opencl->programs->variants};
    ICL_TRY(create_kernel(opencl, which, program, &created->compiled, error));
    *compiled = created->compiled;
    opencl->programs->variants = created;
    created = NULL;
done:
    icl_free(&created);
    return status;
}

void icl_opencl_release_programs(icl_opencl *opencl) {
    for (int i = 0; i < ICL_KERNEL_COUNT; i++) {
        if (opencl->programs->kernels[i].kernel)
            clReleaseKernel(opencl->programs->kernels[i].kernel);
        opencl->programs->kernels[i] = (icl_compiled){0};
    }
    while (opencl->programs->variants) {
        icl_variant *variant = opencl->programs->variants;
        opencl->programs->variants = variant->next;
        clReleaseKernel(variant->compiled.kernel);
        icl_free(&variant);
    }
    while (opencl->programs->list) {
        icl_program *program = opencl->programs->list;
        opencl->programs->list = program->next;
        clReleaseProgram(program->program);
        free_program(program);
    }
}
