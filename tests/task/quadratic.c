/*
 * Quadratic targets: the same bits on every device, and what they are by definition, in double precision from the
 * inputs of a batch and the random numbers of its weights and noise. A label is a sum of d^2 + 1 products of three
 * numbers, each through at most d + 4 roundings.
 */
#include <math.h>

#include "same_bits.h"
#include "task/streams.h"

enum { BATCH = 17, BATCHES = 6 };

#define FAMILY "task.family=quadratic-regression "

static const struct recipe {
    const char *overrides;
    double sigma;
} recipes[] = {
    {FAMILY "task.d=3 task.n=9 task.noise=fixed:0.5", .5},
    {FAMILY "task.d=1 task.n=1 task.noise=fixed:0", 0},
    {FAMILY "task.d=5 task.n=4 task.noise=fixed:2 task.inputs=sphere", 2},
    {FAMILY "task.d=2 task.n=6 task.noise=fixed:1 task.inputs=gamma:2,1", 1},
};

static double normal(icl_task_role role, uint64_t index) {
    const icl_random_key key = {SEED, icl_task_stream(ICL_FOR_TRAINING, role), 5};
    return (double)icl_normal_from_word(icl_random_word(key, index));
}

static icl_status check_definition(tap_run *tap, two_devices *both, const struct recipe *is, icl_error *error) {
    const size_t d = icl_task_dimension(both->task), n = icl_task_context(both->task);
    double worst = 0;
    icl_status status;

    ICL_TRY(two_devices_sample(both, 5, error));
    for (size_t s = 0; s < BATCH; s++)
        for (size_t i = 0; i <= n; i++) {
            const float *x = both->seen.values[TOKENS] + (s * (n + 1) + i) * (d + 1);
            double label = i < n ? is->sigma * normal(ICL_ROLE_LABEL_NOISE, s * n + i) : 0, size = fabs(label);
            for (size_t k = 0; k < d * d; k++) {
                const double weight = normal(ICL_ROLE_WEIGHTS, s * d * d + k) / sqrt((double)(d * (d + 2)));
                label += (double)x[k / d] * weight * (double)x[k % d];
                size += fabs((double)x[k / d] * weight * (double)x[k % d]);
            }
            const double seen = (double)(i < n ? x[d] : both->seen.values[TARGETS][s]);
            worst = fmax(worst, fabs(seen - label) / (size * 2 * (double)(d + 4) * 0x1p-24));
            if (i == n && x[d] != 0)
                worst = (double)INFINITY;
        }
    tap_ok(tap, worst <= 1, "labels and targets are x^T W x, noise beside the labels alone (%.2g)", worst);
done:
    return status;
}

static icl_status compare_recipe(tap_run *tap, const struct recipe *is, icl_backend *backend, icl_backend *cpu,
                                 icl_error *error) {
    two_devices both;
    size_t different = 0;
    icl_status status;

    ICL_TRY(two_devices_open(&both, is->overrides, BATCH, backend, cpu, error));
    for (uint64_t i = 0; i < BATCHES; i++) {
        ICL_TRY(two_devices_sample(&both, shuffled_step(i, 5, BATCHES), error));
        different += parts_differ(&both.seen, &both.expected);
    }
    tap_ok(tap, different == 0, "%d batches have the cpu's bits: %s (%zu elements differ)", BATCHES, is->overrides,
           different);
    ICL_TRY(check_definition(tap, &both, is, error));
done:
    two_devices_close(&both);
    return status;
}

static void check_all(tap_run *tap, icl_backend *backend, icl_backend *cpu) {
    icl_error error = {0};
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++)
        tap_status(tap, compare_recipe(tap, &recipes[i], backend, cpu, &error), &error, "sampling runs");
}

int main(int count, char **arguments) {
    return test_beside_cpu(count, arguments, check_all);
}
