/* Measures the best that the machine can do: see icl_peak_params. */
#include "backend/cpu/host.h"
#include "backend/cpu/kernels/parts.h"
#include "backend/host_spec.h"

#if ICL_CPU_VARIANTS
#if ICL_CPU_DOUBLE
#define PEAK_OF(isa) icl_ref_kernel_##isa##_peak
#else
#define PEAK_OF(isa) icl_cpu_kernel_##isa##_peak
#endif
extern const HOST(peak_kernels) PEAK_OF(avx2), PEAK_OF(avx512);
#endif

/* Returns the kernels of an instruction set, or NULL if it is wider than the backend's. */
static const HOST(peak_kernels) * kernels_of(icl_peak_isa isa, icl_isa widest) {
#if ICL_CPU_VARIANTS
    if (isa == ICL_PEAK_AVX512 || (isa == ICL_PEAK_WIDEST && widest >= ICL_ISA_AVX512))
        return widest >= ICL_ISA_AVX512 ? &PEAK_OF(avx512) : NULL;
    if (isa == ICL_PEAK_AVX2 || (isa == ICL_PEAK_WIDEST && widest == ICL_ISA_AVX2))
        return widest >= ICL_ISA_AVX2 ? &PEAK_OF(avx2) : NULL;
#endif
    (void)widest;
    return isa == ICL_PEAK_BASE || isa == ICL_PEAK_WIDEST ? &KERNEL(peak) : NULL;
}

/* One run: what all its threads share. */
typedef struct peak_run {
    const HOST(peak_kernels) * kernels;
    const icl_peak_params *params;
    real *a, *b, *c;
    size_t count; /* of elements */
} peak_run;

static void multiply_add(void *context, size_t thread, size_t count) {
    const peak_run *run = context;
    (void)count;
    run->a[thread % run->count] = run->kernels->multiply_add(run->params->rounds, (real)0.75, (real)0.5);
}

static void triad(void *context, size_t thread, size_t count) {
    const peak_run *run = context;
    const size_t first = run->count / count * thread;
    const size_t end = thread + 1 == count ? run->count : first + run->count / count;
    for (size_t round = 0; round < run->params->rounds; round++)
        run->kernels->triad(run->a + first, run->b + first, run->c + first, (real)0.5, end - first);
}

icl_status HOST(peak)(icl_backend *backend, const icl_peak_params *params, const icl_tensor *operands, double *amount,
                      icl_error *error) {
    const HOST(state) *state = host_state(backend);
    const size_t threads = params->threads > 0 && params->threads < state->threads ? params->threads : state->threads;
    peak_run run = {.kernels = kernels_of(params->isa, state->isa),
                    .params = params,
                    .a = host_elements(&operands[0]),
                    .b = host_elements(&operands[1]),
                    .c = host_elements(&operands[2]),
                    .count = operands[0].shape[0]};
    (void)error;

    *amount = 0;
    if (!run.kernels)
        return ICL_OK;
    const double rounds = (double)params->rounds;
    if (params->kind == ICL_PEAK_MULTIPLY_ADD) {
        icl_threads_run(state->team, threads, multiply_add, &run);
        *amount = rounds * (double)run.kernels->flops * (double)threads;
    } else {
        icl_threads_run(state->team, threads, triad, &run);
        *amount = rounds * 3 * (double)run.count * sizeof(real);
    }
    return ICL_OK;
}
