/* What the device can do at best, measured by loops that do nothing else: the multiply-adds of
 * each instruction set, and memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "iclab/status.h"
#include "run/bench/bench.h"

/* Elements of each of the triad's three operands: beyond the caches of most machines. */
#define ELEMENTS ((size_t)16 << 20)

typedef struct peak_run {
    icl_backend *backend;
    icl_peak_params params;
    const icl_tensor *operands;
    double amount; /* of one call */
} peak_run;

static icl_status call_peak(void *context, size_t calls, icl_error *error) {
    peak_run *run = context;
    icl_status status = ICL_OK;
    for (size_t i = 0; i < calls && status == ICL_OK; i++)
        status = run->backend->functions->peak(run->backend, &run->params, run->operands, &run->amount, error);
    return status;
}

/* *rate stays NaN where the machine cannot do it. */
static icl_status measure(const icl_bench_params *params, const icl_tensor *operands, icl_peak_params what,
                          const char *name, double *rate, icl_error *error) {
    peak_run run = {.backend = params->device, .params = what, .operands = operands};
    icl_bench_contender contender = {.backend = params->device, .function = call_peak, .context = &run};

    ICL_CHECK(call_peak(&run, 1, error));
    if (run.amount <= 0)
        return ICL_OK;
    ICL_CHECK(icl_bench_take_turns(&contender, 1, params->seconds / 2, error));
    *rate = run.amount / contender.times.min; /* at best: what disturbs only lowers it */
    const bool flops = what.kind == ICL_PEAK_MULTIPLY_ADD;
    const icl_bench_row row = {
        .name = name,
        .device = params->device->capabilities.spec,
        .times = contender.times,
        .compile = (double)NAN,
        .on_device = (double)NAN,
        .gflops = flops ? 1e-9 * run.amount / contender.times.median : (double)NAN,
        .gbytes_per_s = flops ? (double)NAN : 1e-9 * run.amount / contender.times.median,
        .peak_share = contender.times.min / contender.times.median,
        .launches = (double)NAN,
        .ops = (double)NAN,
        .cpu_median = (double)NAN,
    };
    return params->callback ? params->callback(params->user, &row, error) : ICL_OK;
}

/* The numbers of threads to measure with: one and all on the host; 0, the whole device, elsewhere. */
static size_t thread_counts(const icl_capabilities *device, size_t counts[2]) {
    counts[0] = device->kind == ICL_DEVICE_HOST;
    counts[1] = device->compute_units;
    return counts[0] == 0 || counts[1] == 1 ? 1 : 2;
}

/* Each instruction set of the host, or the device's only one. */
static icl_status measure_arithmetic(const icl_bench_params *params, const icl_tensor *operands, double *rate,
                                     icl_error *error) {
    static const char *const sets[] = {"", ", base", ", avx2", ", avx512"}; /* by icl_peak_isa */
    const bool host = params->device->capabilities.kind == ICL_DEVICE_HOST;
    /* Mesa's llvmpipe leaves a work-item's loops after 65,535 turns. */
    const size_t rounds = params->seconds > 0 ? (host ? 100000 : 50000) : 1000;
    size_t threads[2];
    char name[64];

    const size_t counts = thread_counts(&params->device->capabilities, threads);
    for (int isa = host ? ICL_PEAK_BASE : ICL_PEAK_WIDEST; isa <= (host ? ICL_PEAK_AVX512 : ICL_PEAK_WIDEST); isa++)
        for (size_t i = 0; i < counts; i++) {
            const icl_peak_params what = {ICL_PEAK_MULTIPLY_ADD, (icl_peak_isa)isa, threads[i], rounds};
            double found = (double)NAN;
            snprintf(name, sizeof name, "peak multiply-add%s%s", sets[isa],
                     threads[i] == 0   ? ""
                     : threads[i] == 1 ? ", one thread"
                                       : ", all threads");
            ICL_CHECK(measure(params, operands, what, name, &found, error));
            *rate = fmax(*rate, found); /* fmax passes over NaN */
        }
    return ICL_OK;
}

static icl_status measure_memory(const icl_bench_params *params, const icl_tensor *operands, double *rate,
                                 icl_error *error) {
    size_t threads[2];
    char name[64];

    const size_t counts = thread_counts(&params->device->capabilities, threads);
    for (size_t i = 0; i < counts; i++) {
        double found = (double)NAN;
        snprintf(name, sizeof name, "peak triad%s",
                 threads[i] == 0   ? ""
                 : threads[i] == 1 ? ", one thread"
                                   : ", all threads");
        ICL_CHECK(measure(params, operands, (icl_peak_params){ICL_PEAK_TRIAD, ICL_PEAK_WIDEST, threads[i], 1}, name,
                          &found, error));
        *rate = fmax(*rate, found);
    }
    return ICL_OK;
}

icl_status icl_bench_measure_peaks(const icl_bench_params *params, icl_bench_peaks *peaks, icl_error *error) {
    icl_tensor operands[3] = {{0}};
    icl_status status = ICL_OK;
    const size_t elements = params->seconds > 0 ? ELEMENTS : ELEMENTS / 64;

    *peaks = (icl_bench_peaks){(double)NAN, (double)NAN};
    if (!params->device->functions->peak)
        return ICL_OK;
    for (int i = 0; i < 3; i++) {
        ICL_TRY(icl_tensor_create(params->device, 1, &elements, &operands[i], error));
        ICL_TRY(icl_fill(params->device, operands[i], 1, error));
    }
    ICL_TRY(measure_arithmetic(params, operands, &peaks->flops, error));
    ICL_TRY(measure_memory(params, operands, &peaks->bytes, error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&operands[i]);
    return status;
}
