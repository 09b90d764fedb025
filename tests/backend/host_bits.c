/*
 * A host backend gives the same bits for any number of threads and any instruction set; but for softmax attention and whole linear
 * transformers, which fuse products with sums where the instruction set can, and there give the same bits for any number of
 * threads, and on different instruction sets what rounding allows. Compiled for each element type, because it reaches into the
 * backend to choose its kernels.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/host.h"
#include "backend/cpu/machine.h"
#include "backend/cpu/tables.h"
#include "every_op.h"
#include "tap.h"

#if ICL_CPU_DOUBLE
#define SPEC "ref"
#else
#define SPEC "cpu"
#endif

/* Bits that fit no arithmetic: any two NaNs count as the same. */
static bool same_values(const op_result *a, const op_result *b) {
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (memcmp(&a->values[i], &b->values[i], sizeof(double)) != 0 &&
            (a->values[i] == a->values[i] || b->values[i] == b->values[i]))
            return false;
    return true;
}

/* A few hundred roundings, relative to the largest value: sums of up to 130 terms behind weights with as many roundings each. */
static bool close_values(const op_result *a, const op_result *b) {
    const double unit = ICL_CPU_DOUBLE ? DBL_EPSILON : (double)FLT_EPSILON;
    double size = 0, worst = 0;
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const double x = a->values[i], y = b->values[i];
        if (isfinite(x) && isfinite(y)) {
            size = fmax(size, fabs(x));
            worst = fmax(worst, fabs(x - y));
        } else if (x != y && !(isnan(x) && isnan(y))) {
            return false;
        }
    }
    return worst <= 400 * unit * size;
}

static bool fuses(const op_result *result) {
    return strncmp(result->name, "softmax", strlen("softmax")) == 0 ||
           strncmp(result->name, "linear_transformer", strlen("linear_transformer")) == 0;
}

/* one_set: both come from the same instruction set. */
static void compare(tap_run *tap, const op_results *expected, const op_results *seen, bool one_set,
                    const char *how) {
    size_t different = 0;
    for (size_t i = 0; i < expected->count; i++) {
        const op_result *a = &expected->result[i], *b = &seen->result[i];
        if (i >= seen->count || !(one_set || !fuses(a) ? same_values(a, b) : close_values(a, b))) {
            tap_note("%s differs", a->name);
            different++;
        }
    }
    tap_ok(tap, different == 0 && expected->count == seen->count && expected->count > 100,
           "%zu results have the same bits %s", expected->count, how);
}

typedef struct kernel_variant {
    const char *name;
    icl_isa isa;
    const HOST(kernels) * kernels;
    const icl_strict_kernels *strict;
} kernel_variant;

static const kernel_variant variants[] = {
    {"base", ICL_ISA_BASE, &KERNEL(table), &STRICT_KERNEL(table)},
#if ICL_CPU_VARIANTS
    {"avx2", ICL_ISA_AVX2, &TABLE_OF(avx2), &icl_strict_kernel_avx2_table},
    {"avx512", ICL_ISA_AVX512, &TABLE_OF(avx512), &icl_strict_kernel_avx512_table},
#endif
};

static void run_variant(tap_run *tap, const char *spec, const kernel_variant *variant, op_results *results) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    if (!tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error), &error,
                    spec))
        return;
    if (variant) {
        host_state(backend)->kernels = variant->kernels;
        host_state(backend)->strict = variant->strict;
    }
    tap_status(tap, run_every_op(backend, results, &error), &error, "every op runs");
    tap_ok(tap, icl_backend_get_statistics(backend).fallbacks == 0, "no op fell back");
    icl_backend_close(&backend);
}

int main(void) {
    static op_results expected, seen, again;
    static const char *const specs[] = {SPEC ":threads=2", SPEC ":threads=3", SPEC ":threads=7"};
    tap_run tap = {0};

    run_variant(&tap, SPEC ":threads=1", NULL, &expected);
    for (size_t i = 0; i < sizeof specs / sizeof *specs; i++) {
        run_variant(&tap, specs[i], NULL, &seen);
        compare(&tap, &expected, &seen, true, specs[i]);
        free_results(&seen);
    }
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        if (variants[i].isa > icl_machine_isa()) {
            tap_skip(&tap, variants[i].name, "this processor lacks the instruction set");
            continue;
        }
        run_variant(&tap, SPEC ":threads=1", &variants[i], &seen);
        compare(&tap, &expected, &seen, false, variants[i].name);
        run_variant(&tap, SPEC ":threads=3", &variants[i], &again);
        compare(&tap, &seen, &again, true, "in three threads");
        free_results(&seen);
        free_results(&again);
    }
    free_results(&expected);
    return tap_done(&tap);
}
