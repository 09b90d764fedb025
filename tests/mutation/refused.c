/* Tests that a device whose kernels have a planted fault is refused by its self-test, with the op and the wrong
 * numbers, and stays refused. With fast-math it is refused too, in spite of the wider tolerance; strict ops have no
 * such tolerance and are not tested again. argv: device, op. */
#include "backend/contract.h"
#include "tap.h"

/* Opens the device, which tests what is compiled then, and tests all the rest, as its first use would. */
static icl_status open_and_test(const char *spec, bool fast_math, icl_backend **backend, icl_error *error) {
    const icl_backend_params params = {.spec = spec, .fast_math = fast_math};
    const icl_status status = icl_backend_open(&params, backend, error);
    return status == ICL_OK ? icl_opencl_test(*backend, error) : status;
}

static bool is_strict(const char *op) {
    static const char *const strict[] = {"matmul_strict", "random_fill", "spherical", "gram_sample"};
    for (size_t i = 0; i < sizeof strict / sizeof *strict; i++)
        if (strncmp(op, strict[i], strlen(strict[i])) == 0)
            return true;
    return false;
}

static void check_refused(tap_run *tap, icl_status status, const char *op, const icl_error *error) {
    tap_ok(tap, status == ICL_ERROR_DEVICE, "the device is refused: %s", error->message);
    tap_ok(tap,
           strstr(error->message, "self-test of ") && strstr(error->message, op) &&
               strstr(error->message, ", expected "),
           "with the op %s and the numbers", op);
}

static bool is_usable(const char *spec) {
    icl_device *devices = NULL;
    icl_error error = {0};
    size_t count = 0;
    bool usable = true;

    if (icl_devices_list(NULL, &devices, &count, &error) != ICL_OK)
        tap_note("%s", error.message);
    for (size_t i = 0; i < count; i++)
        if (strcmp(devices[i].capabilities.spec, spec) == 0)
            usable = devices[i].usable;
    icl_devices_free(&devices);
    return usable;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = NULL, *fast = NULL, *accepted = NULL;
    icl_error error = {0}, again = {0};

    if (argc < 3)
        return 2;
    const char *spec = tap_device_spec(argv[1]), *op = argv[2];
    const icl_status opened =
        icl_backend_open(&(icl_backend_params){.spec = spec, .accept_failed_self_test = true}, &accepted, &error);
    if (!tap_status(&tap, opened, &error, "the device opens for those who want to see how it fails"))
        return tap_done(&tap);
    check_refused(&tap, open_and_test(spec, false, &backend, &error), op, &error);
    if (!is_strict(op))
        check_refused(&tap, open_and_test(spec, true, &fast, &again), op, &again);
    if (backend)
        tap_ok(&tap, icl_opencl_test(backend, &again) == ICL_ERROR_DEVICE, "and once more: %s", again.message);
    tap_ok(&tap, icl_opencl_test(accepted, &error) == ICL_OK, "who opened it nevertheless can use it");
    tap_ok(&tap, !is_usable(icl_backend_capabilities(accepted)->spec), "the list of devices calls it not usable");
    icl_backend_close(&backend);
    icl_backend_close(&fast);
    icl_backend_close(&accepted);
    return tap_done(&tap);
}
