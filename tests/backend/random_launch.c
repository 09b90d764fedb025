/* The kernels of GPUs give the same bits for any number of work-groups and, if a kernel leaves it open, any size of
 * them: ICLAB_OPENCL_LAUNCH=random:SEED draws both. Argument: an OpenCL device. */
#include "backend/opencl/launch.h"
#include "every_op.h"
#include "tap.h"

#define VARIABLE "ICLAB_OPENCL_LAUNCH"

/* Runs every op on the device. Returns how many launches had sizes that were drawn. */
static uint64_t run(tap_run *tap, const char *spec, op_results *results) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    uint64_t draws = 0;
    icl_status status = icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error);

    if (status == ICL_OK) {
        status = run_every_op(backend, results, &error);
        draws = icl_opencl_of(backend)->launcher->random.draws;
    }
    tap_status(tap, status, &error, "every op runs");
    icl_backend_close(&backend);
    return draws;
}

static size_t count_different(const op_results *expected, const op_results *seen) {
    size_t different = 0;
    for (size_t i = 0; i < expected->count; i++) {
        const op_result *a = &expected->result[i], *b = &seen->result[i];
        if (i < seen->count && a->count == b->count && memcmp(a->values, b->values, a->count * sizeof *a->values) == 0)
            continue;
        tap_note("%s differs", a->name);
        different++;
    }
    return different;
}

static void check_refusals(tap_run *tap, const char *spec) {
    static const char *const wrong[] = {"random", "random:", "random:-1", "random:1x", "often", "random: 1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        icl_backend *backend = NULL;
        icl_error error = {0};
        setenv(VARIABLE, wrong[i], 1);
        tap_ok(tap,
               icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, "expected random:SEED"),
               "%s", error.message);
        icl_backend_close(&backend);
    }
}

int main(int argc, char **argv) {
    static const char *const seeds[] = {"random:1", "random:2"};
    static op_results expected, seen;
    tap_run tap = {0};
    const char *spec = tap_device_spec(argc > 1 ? argv[1] : "opencl");

    setenv("ICLAB_OPENCL_KERNELS", "gpu", 1);
    unsetenv(VARIABLE);
    icl_backend *backend = tap_open_device(&tap, spec);
    if (!backend)
        return tap_done(&tap);
    icl_backend_close(&backend);
    tap_ok(&tap, run(&tap, spec, &expected) == 0 && expected.count > 100, "%zu results of plain launches",
           expected.count);
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++) {
        setenv(VARIABLE, seeds[i], 1);
        const uint64_t draws = run(&tap, spec, &seen);
        tap_ok(&tap, draws > 100, "%s: the sizes of %llu launches were drawn", seeds[i], (unsigned long long)draws);
        tap_ok(&tap, count_different(&expected, &seen) == 0, "%s: all results have the same bits", seeds[i]);
        free_results(&seen);
    }
    free_results(&expected);
    check_refusals(&tap, spec);
    return tap_done(&tap);
}
