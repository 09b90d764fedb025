/* A host backend: its table of functions, opening and closing. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "backend/cpu/host.h"
#include "backend/host_spec.h"
#include "config.h"
#include "core/allocate.h"
#include "iclab/status.h"

#if ICL_CPU_DOUBLE
#define OPEN icl_ref_open
#else
#define OPEN icl_cpu_open
#endif

/* ---- Kernels of each instruction set ---- */

/* The kernels of each instruction set in this build: KERNEL(table) is compiled without options of its own; with
 * ICL_CPU_VARIANTS there are also those of AVX2 and AVX-512. */
#if ICL_CPU_VARIANTS
#if ICL_CPU_DOUBLE
#define TABLE_OF(isa)      icl_ref_kernel_##isa##_table
#define BF16_TABLE_OF(isa) icl_ref_kernel_##isa##_bf16_table
#else
#define TABLE_OF(isa)      icl_cpu_kernel_##isa##_table
#define BF16_TABLE_OF(isa) icl_cpu_kernel_##isa##_bf16_table
#endif
extern const HOST(kernels) TABLE_OF(avx2), TABLE_OF(avx512);
extern const HOST(bf16_kernels) BF16_TABLE_OF(avx2), BF16_TABLE_OF(avx512);
extern const icl_strict_kernels icl_strict_kernel_avx2_table, icl_strict_kernel_avx512_table;
#endif

#if ICL_CPU_BF16 && !ICL_CPU_DOUBLE
extern const icl_cpu_bf16_kernels icl_cpu_kernel_avx512bf16_bf16_table;
#endif
#if ICL_CPU_AMX && !ICL_CPU_DOUBLE
extern const icl_cpu_bf16_kernels icl_cpu_kernel_amx_bf16_table;
#endif

static void choose_kernels(HOST(state) * state) {
    state->kernels = &KERNEL(table);
    state->strict = &STRICT_KERNEL(table);
#if ICL_CPU_VARIANTS
    if (state->isa == ICL_ISA_AVX2) {
        state->kernels = &TABLE_OF(avx2);
        state->strict = &icl_strict_kernel_avx2_table;
    } else if (state->isa >= ICL_ISA_AVX512) {
        state->kernels = &TABLE_OF(avx512);
        state->strict = &icl_strict_kernel_avx512_table;
    }
#endif
}

static const HOST(bf16_kernels) * choose_bf16(icl_isa isa) {
#if ICL_CPU_AMX && !ICL_CPU_DOUBLE
    if (isa == ICL_ISA_AMX)
        return &icl_cpu_kernel_amx_bf16_table;
#endif
#if ICL_CPU_BF16 && !ICL_CPU_DOUBLE
    if (isa >= ICL_ISA_AVX512 && __builtin_cpu_supports("avx512bf16"))
        return &icl_cpu_kernel_avx512bf16_bf16_table;
#endif
#if ICL_CPU_VARIANTS
    if (isa > ICL_ISA_BASE)
        return isa == ICL_ISA_AVX2 ? &BF16_TABLE_OF(avx2) : &BF16_TABLE_OF(avx512);
#endif
    (void)isa;
    return &KERNEL(bf16_table);
}

/* ---- Buffers ---- */

static icl_status buffer_create(icl_backend *backend, icl_buffer *buffer, icl_error *error) {
    size_t bytes;
    if (!icl_multiply_sizes(buffer->elements, sizeof(real), &bytes))
        return icl_fail(error, ICL_ERROR_MEMORY, "%s: %zu elements overflow the address space", HOST_SPEC,
                        buffer->elements);
    return HOST(pool_take)(&host_state(backend)->pool, &backend->statistics, HOST_SPEC, bytes, &buffer->handle, error);
}

static void buffer_destroy(icl_backend *backend, icl_buffer *buffer) {
    HOST(pool_give)(&host_state(backend)->pool, &backend->statistics, buffer->handle);
    buffer->handle = NULL;
}

static icl_status buffer_read(icl_backend *backend, const icl_buffer *buffer, size_t offset, size_t count,
                              void *elements, icl_error *error) {
    (void)backend;
    (void)error;
    memcpy(elements, (const real *)buffer->handle + offset, count * sizeof(real));
    return ICL_OK;
}

static icl_status buffer_write(icl_backend *backend, icl_buffer *buffer, size_t offset, size_t count,
                               const void *elements, icl_error *error) {
    (void)backend;
    (void)error;
    memcpy((real *)buffer->handle + offset, elements, count * sizeof(real));
    return ICL_OK;
}

static icl_status buffer_map(icl_backend *backend, icl_buffer *buffer, icl_error *error) {
    (void)backend;
    (void)error;
    buffer->mapped = buffer->handle;
    return ICL_OK;
}

static icl_status buffer_unmap(icl_backend *backend, icl_buffer *buffer, icl_error *error) {
    (void)backend;
    (void)error;
    buffer->mapped = NULL;
    return ICL_OK;
}

/* Does nothing, because every op has finished when its call returns. */
static icl_status synchronize(icl_backend *backend, icl_error *error) {
    (void)backend;
    (void)error;
    return ICL_OK;
}

static icl_status trim(icl_backend *backend, icl_error *error) {
    (void)error;
    HOST(pool_trim)(&host_state(backend)->pool, &backend->statistics);
    return ICL_OK;
}

/* ---- Opening and closing ---- */

static void close_backend(icl_backend *backend) {
    HOST(state) *state = host_state(backend);
    HOST(pool_trim)(&state->pool, &backend->statistics);
    icl_threads_destroy(&state->team);
    icl_free(&state->scratch);
    icl_free(&backend->state);
}

static icl_status open_worker(icl_backend *backend, size_t number, icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const icl_backend_params params = {
        .log = backend->log, .memory_limit = state->pool.limit, .precision = backend->capabilities.precision};
    const icl_host_spec spec = {.threads = 1, .has_isa = true, .isa = state->isa};

    return OPEN(&params, &spec, &backend->workers[number], error);
}

static void share(icl_backend *backend, size_t count, icl_thread_items *task, void *context) {
    const HOST(state) *state = host_state(backend);

    icl_threads_share(state->team, state->threads < count ? state->threads : count, count, task, context);
}

static const icl_backend_functions functions = {
    .close = close_backend,
    .open_worker = open_worker,
    .share = share,
    .buffer_create = buffer_create,
    .buffer_destroy = buffer_destroy,
    .buffer_read = buffer_read,
    .buffer_write = buffer_write,
    .buffer_map = buffer_map,
    .buffer_unmap = buffer_unmap,
    .sync = synchronize,
    .trim = trim,
    .peak = HOST(peak),
    .ops =
        {
#define OP_ENTRY(name, ...) [ICL_OP_##name] = HOST(name),
            ICL_EVERY_OP(OP_ENTRY)
#undef OP_ENTRY
        },
};

static void describe(icl_capabilities *capabilities, const HOST(state) * state, const icl_host_spec *spec) {
    icl_host_spec_write(spec, HOST_SPEC, capabilities->spec, sizeof capabilities->spec);
    icl_machine_name(capabilities->name, sizeof capabilities->name);
    snprintf(capabilities->platform, sizeof capabilities->platform, "C");
    snprintf(capabilities->driver, sizeof capabilities->driver, "%s, %s", ICL_COMPILER, icl_isa_name(state->isa));
    capabilities->kind = ICL_DEVICE_HOST;
    capabilities->element_size = sizeof(real);
    capabilities->compute_units = state->threads;
    capabilities->max_work_group = 1;
    capabilities->vector_width = (size_t)4 << (state->isa < ICL_ISA_AVX512 ? state->isa : ICL_ISA_AVX512); /* floats */
    capabilities->global_memory = icl_machine_memory();
    capabilities->max_allocation = state->pool.limit == SIZE_MAX ? 0 : state->pool.limit;
    capabilities->has_fp64 = true;
    capabilities->unified_memory = true;
}

/* Returns the default memory limit: three quarters of the machine's memory, so that the rest is left to others. */
static size_t default_limit(void) {
    const size_t memory = icl_machine_memory();
    return memory > 0 ? memory / 4 * 3 : SIZE_MAX;
}

icl_status OPEN(const icl_backend_params *params, const icl_host_spec *spec, icl_backend **backend, icl_error *error) {
    const icl_isa widest = icl_machine_isa();
    icl_status status = ICL_OK;
    icl_backend *created = NULL;
    HOST(state) *state = NULL;

    if (spec->has_isa && spec->isa > widest)
        return icl_fail(error, ICL_ERROR_DEVICE,
                        "device \"%s:isa=%s\": this processor or this build lacks it: expected isa=%s or less",
                        HOST_SPEC, icl_isa_name(spec->isa), icl_isa_name(widest));
    ICL_TRY(icl_allocate(1, sizeof *created, "backend", &created, error));
    ICL_TRY(icl_allocate(1, sizeof *state, "state of a host backend", &state, error));
    state->threads = spec->threads > 0 ? spec->threads : icl_threads_available();
    state->isa = spec->has_isa ? spec->isa : widest;
    choose_kernels(state);
    state->bf16 = params->precision == ICL_PRECISION_BF16 ? choose_bf16(state->isa) : NULL;
    ICL_TRY(icl_threads_create(state->threads, &state->team, error));
    state->pool.limit = params->memory_limit > 0 ? params->memory_limit : default_limit();
    describe(&created->capabilities, state, spec);
    created->capabilities.precision = params->precision;
    created->functions = &functions;
    created->log = params->log;
    created->state = state;
    *backend = created;
    created = NULL;
    state = NULL;
done:
    icl_free(&state);
    icl_free(&created);
    return status;
}
