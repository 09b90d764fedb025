/* A machine without any OpenCL driver is a normal state. The test runs with an OCL_ICD_VENDORS that points nowhere. */
#include "tap.h"

static bool said_why;

static void listen(void *user, icl_log_level level, const char *message) {
    (void)user;
    (void)level;
    tap_note("%s", message);
    said_why = said_why || strstr(message, "OpenCL");
}

int main(void) {
    const icl_log log = {listen, NULL, ICL_LOG_INFO};
    tap_run tap = {0};
    icl_device *devices = NULL;
    icl_backend *backend = NULL;
    icl_error error = {0};
    size_t count = 0;

    tap_status(&tap, icl_devices_list(&log, &devices, &count, &error), &error, "list the devices");
    tap_ok(&tap, count == 2 && devices[0].capabilities.kind == ICL_DEVICE_HOST, "the host backends alone: %zu", count);
    tap_ok(&tap, said_why, "the log says why");
    icl_devices_free(&devices);
    tap_ok(&tap, icl_backend_open(&(icl_backend_params){.spec = "opencl"}, &backend, &error) == ICL_ERROR_DEVICE,
           "opencl: %s", error.message);
    tap_ok(&tap, icl_backend_open(&(icl_backend_params){.spec = "opencl:0.0"}, &backend, &error) == ICL_ERROR_DEVICE,
           "opencl:0.0: %s", error.message);
    tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "auto", .log = log}, &backend, &error), &error,
               "auto takes the host");
    icl_backend_close(&backend);
    return tap_done(&tap);
}
