/* The peak measurements of `iclab bench` do all the work that they count: a = b + s c for every element, and the stated
 * number of multiply-adds, each in its own chain. argv: device. */
#include <math.h>

#include "backend/contract.h"
#include "tap.h"

enum { COUNT = 4099, A = 0, B = 1, C = 2, OPERANDS = 3, MOST_LANES = 16 };

/* Returns the sum of twelve chains x <- 3/4 x + 1/2, from 0 to 11, after these rounds; the chains' fixed point is 2. */
static double sum_of_chains(size_t rounds) {
    return 24 + 42 * pow(.75, (double)rounds);
}

static icl_status run(icl_backend *backend, const icl_peak_params *params, const icl_tensor operands[OPERANDS],
                      double *amount, float a[COUNT], icl_error *error) {
    float b[COUNT], c[COUNT];

    for (int i = 0; i < COUNT; i++) {
        a[i] = -1;
        b[i] = (float)i;
        c[i] = 2 * (float)i;
    }
    ICL_CHECK(icl_tensor_write(operands[A], a, error));
    ICL_CHECK(icl_tensor_write(operands[B], b, error));
    ICL_CHECK(icl_tensor_write(operands[C], c, error));
    ICL_CHECK(backend->functions->peak(backend, params, operands, amount, error));
    return icl_tensor_read(operands[A], a, error);
}

/* A device may take whole vectors of lanes only, the host takes all elements; elements that are not counted are not
 * touched. */
static void check_triad(tap_run *tap, icl_backend *backend, const icl_tensor operands[OPERANDS], size_t threads) {
    const icl_capabilities *device = icl_backend_capabilities(backend);
    const icl_peak_params params = {.kind = ICL_PEAK_TRIAD, .threads = threads, .rounds = 3};
    const int least = device->kind == ICL_DEVICE_HOST ? COUNT : COUNT - MOST_LANES + 1;
    float a[COUNT];
    double amount = 0;
    icl_error error = {0};
    int done = 0;

    tap_status(tap, run(backend, &params, operands, &amount, a, &error), &error, "a triad");
    while (done < COUNT && a[done] == 2 * (float)done)
        done++;
    for (int i = done; i < COUNT; i++)
        if (a[i] != -1)
            done = -1;
    tap_ok(tap, done >= least && amount == 3.0 * 3 * (double)device->element_size * done,
           "%zu threads: three rounds over %d of %d elements are %g bytes", threads, done, (int)COUNT, amount);
}

/* On the host each thread leaves one sum; on a device each work-item leaves one for each lane. */
static void check_multiply_add(tap_run *tap, icl_backend *backend, const icl_tensor operands[OPERANDS], size_t threads,
                               size_t rounds) {
    const icl_capabilities *device = icl_backend_capabilities(backend);
    const bool is_host = device->kind == ICL_DEVICE_HOST;
    const size_t team = threads > 0 && threads < device->compute_units ? threads : device->compute_units;
    const icl_peak_params params = {.kind = ICL_PEAK_MULTIPLY_ADD, .threads = threads, .rounds = rounds};
    float a[COUNT];
    double amount = 0;
    icl_error error = {0};
    size_t done = 0, others = 0;

    tap_status(tap, run(backend, &params, operands, &amount, a, &error), &error, "multiply-adds");
    while (done < COUNT && fabs((double)a[done] - sum_of_chains(rounds)) < 1e-4)
        done++;
    for (size_t i = done; i < COUNT; i++)
        others += a[i] != -1;
    const double lanes = amount / (24.0 * (double)rounds * (double)done); /* lanes of each sum */
    tap_ok(tap, others == 0 && (is_host ? done == team && lanes >= 1 && lanes <= MOST_LANES : done > 0 && lanes == 1),
           "%zu threads, %zu rounds: %zu sums of %g lanes each", threads, rounds, done, lanes);
}

/* Nothing is done for an instruction set that the device lacks. */
static void check_sets(tap_run *tap, icl_backend *backend, const icl_tensor operands[OPERANDS]) {
    const bool is_host = icl_backend_capabilities(backend)->kind == ICL_DEVICE_HOST;
    double amounts[ICL_PEAK_AVX512 + 1] = {0}, most = 0;
    float a[COUNT];

    for (int isa = ICL_PEAK_WIDEST; isa <= ICL_PEAK_AVX512; isa++) {
        const icl_peak_params params = {.isa = (icl_peak_isa)isa, .rounds = 2};
        icl_error error = {0};
        tap_status(tap, run(backend, &params, operands, &amounts[isa], a, &error), &error, "an instruction set");
        most = isa > ICL_PEAK_WIDEST ? fmax(most, amounts[isa]) : most;
        tap_ok(tap, (a[0] == -1) == (amounts[isa] == 0), "set %d: %g flops", isa, amounts[isa]);
    }
    tap_ok(tap, is_host ? amounts[ICL_PEAK_BASE] > 0 && most == amounts[ICL_PEAK_WIDEST] : most == 0,
           "the widest of them all is the device's own");
}

int main(int argc, char **argv) {
    static const size_t rounds[] = {1, 3, 100};
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "cpu");
    icl_tensor operands[OPERANDS] = {{0}};
    icl_error error = {0};

    if (!backend)
        return tap_done(&tap);
    const icl_capabilities *device = icl_backend_capabilities(backend);
    const bool is_host = device->kind == ICL_DEVICE_HOST;
    for (int i = 0; i < OPERANDS; i++)
        tap_status(&tap, icl_tensor_create(backend, 1, (const size_t[]){COUNT}, &operands[i], &error), &error,
                   "an operand");
    for (size_t threads = 0; threads <= (is_host ? device->compute_units + 1 : 0); threads++) {
        check_triad(&tap, backend, operands, threads);
        for (size_t i = 0; i < sizeof rounds / sizeof *rounds; i++)
            check_multiply_add(&tap, backend, operands, threads, rounds[i]);
    }
    check_sets(&tap, backend, operands);
    for (int i = 0; i < OPERANDS; i++)
        icl_tensor_release(&operands[i]);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
