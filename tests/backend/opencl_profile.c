/* Seconds that kernels take by the device's own clock, which the linker replaces here: each kernel takes half a
 * microsecond, except every third, whose clock runs backwards. argv: a device. */
#include <math.h>

#include "backend/opencl/queue.h"
#include "backend/opencl/small.h"
#include "iclab/ops.h"
#include "tap.h"

static size_t asked;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
cl_int __wrap_clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size, void *value,
                                      size_t *size_of_it);

cl_int __wrap_clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size, void *value,
                                      size_t *size_of_it) {
    const cl_ulong start = 1000, end = asked / 2 % 3 == 2 ? start - 1 : start + 500;

    (void)event;
    (void)size_of_it;
    asked++;
    memcpy(value, what == CL_PROFILING_COMMAND_START ? &start : &end, size);
    return CL_SUCCESS;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static icl_status launch(icl_backend *backend, size_t launches, icl_error *error) {
    icl_tensor tensor = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 1, (size_t[]){16}, &tensor, error));
    for (size_t i = 0; i < launches; i++)
        ICL_TRY(icl_fill(backend, tensor, (double)i, error));
    ICL_TRY(icl_backend_sync(backend, error));
done:
    icl_tensor_release(&tensor);
    return status;
}

static void test_launches(tap_run *tap, const char *spec, size_t launches, bool profile) {
    icl_backend *backend = NULL;
    icl_error error = {0};

    if (tap_status(tap, icl_backend_open(&(icl_backend_params){.spec = spec, .profile = profile}, &backend, &error),
                   &error, "a device")) {
        const double before = icl_backend_get_statistics(backend).device_seconds;
        icl_opencl_of(backend)->small->is_off = true; /* each op is its own launch */
        tap_status(tap, icl_backend_time_ops(backend, &error), &error, "ops are timed");
        asked = 0;
        tap_status(tap, launch(backend, launches, &error), &error, "launches");
        const double seconds = icl_backend_get_statistics(backend).device_seconds - before;
        const size_t events = profile ? launches : 0, forwards = events - events / 3;
        tap_ok(tap, asked == 2 * events && fabs(seconds - .5e-6 * (double)forwards) < 1e-12,
               "%zu launches, profile %s: %.4g seconds of %zu events", launches, profile ? "on" : "off", seconds,
               asked / 2);
        const icl_op_times times = icl_backend_op_times(backend);
        tap_ok(tap,
               times.of[ICL_OP_fill].calls == launches && times.of[ICL_OP_fill].launches == events &&
                   times.of[ICL_OP_copy].calls == 0 && fabs(times.of[ICL_OP_fill].seconds - seconds) < 1e-12,
               "all of them are fill's");
    }
    icl_backend_close(&backend);
}

int main(int argc, char **argv) {
    const char *spec = tap_device_spec(argc > 1 ? argv[1] : "opencl");
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, spec);

    if (!backend)
        return tap_done(&tap);
    icl_backend_close(&backend);
    test_launches(&tap, spec, 6, true);
    test_launches(&tap, spec, 6, false);
    test_launches(&tap, spec, ICL_PROFILE_EVENTS + 4, true); /* taken in two parts */
    return tap_done(&tap);
}
