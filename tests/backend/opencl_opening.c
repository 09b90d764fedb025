/* A device that was opened and closed leaves no queue and no context. If its queue or context cannot be made, it is
 * refused and leaves none either. argv: a device. */
#include "backend/opencl/device.h"
#include "tap.h"

enum { NOTHING = 0, CONTEXT, QUEUE };

static int refused; /* which call fails */
static int contexts, queues;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
typedef void CL_CALLBACK notify_function(const char *, const void *, size_t, void *);

cl_context __real_clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                                  notify_function *notify, void *user, cl_int *code);
cl_context __wrap_clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                                  notify_function *notify, void *user, cl_int *code);
cl_int __real_clReleaseContext(cl_context context);
cl_int __wrap_clReleaseContext(cl_context context);
cl_command_queue __real_clCreateCommandQueue(cl_context context, cl_device_id device,
                                             cl_command_queue_properties properties, cl_int *code);
cl_command_queue __wrap_clCreateCommandQueue(cl_context context, cl_device_id device,
                                             cl_command_queue_properties properties, cl_int *code);
cl_int __real_clReleaseCommandQueue(cl_command_queue queue);
cl_int __wrap_clReleaseCommandQueue(cl_command_queue queue);

cl_context __wrap_clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                                  notify_function *notify, void *user, cl_int *code) {
    if (refused == CONTEXT) {
        *code = CL_OUT_OF_RESOURCES;
        return NULL;
    }
    contexts++;
    return __real_clCreateContext(properties, count, devices, notify, user, code);
}

cl_int __wrap_clReleaseContext(cl_context context) {
    contexts--;
    return __real_clReleaseContext(context);
}

cl_command_queue __wrap_clCreateCommandQueue(cl_context context, cl_device_id device,
                                             cl_command_queue_properties properties, cl_int *code) {
    if (refused == QUEUE) {
        *code = CL_OUT_OF_RESOURCES;
        return NULL;
    }
    queues++;
    return __real_clCreateCommandQueue(context, device, properties, code);
}

cl_int __wrap_clReleaseCommandQueue(cl_command_queue queue) {
    queues--;
    return __real_clReleaseCommandQueue(queue);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static void test_refusal(tap_run *tap, const char *spec, int call, const char *name) {
    icl_backend *backend = NULL;
    icl_error error = {0};

    refused = call;
    const icl_status status = icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, &error);
    tap_ok(tap, status == ICL_ERROR_DEVICE && !backend && strstr(error.message, name), "refused: %s", error.message);
    tap_ok(tap, contexts == 0 && queues == 0, "%d contexts and %d queues are left", contexts, queues);
    icl_backend_close(&backend);
}

int main(int argc, char **argv) {
    const char *spec = tap_device_spec(argc > 1 ? argv[1] : "opencl");
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, spec);

    if (!backend)
        return tap_done(&tap);
    tap_ok(&tap, contexts == 1 && queues == 1, "open: %d contexts and %d queues", contexts, queues);
    icl_backend_close(&backend);
    tap_ok(&tap, contexts == 0 && queues == 0, "closed: %d contexts and %d queues", contexts, queues);
    test_refusal(&tap, spec, CONTEXT, "clCreateContext");
    test_refusal(&tap, spec, QUEUE, "clCreateCommandQueue");
    return tap_done(&tap);
}
