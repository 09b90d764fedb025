/* Writes to a device do not wait for its queue: they go through memory of the host that is not used again before the
 * device has read it. A gate in the queue holds the device back, and opens when the host waits, which the linker's
 * --wrap notes. */
#include "backend/opencl/queue.h"
#include "iclab/ops.h"
#include "tap.h"

enum { MOST = 30000 /* numbers of most writes */, LONGEST = 2 << 20 /* numbers of a write that does not wait */ };

/* ---- The gate, and waits that the linker sees ---- */

static cl_event gate; /* NULL: it is open */
static size_t waits;  /* while the gate was closed */
static bool refuses_host_memory;

static void open_gate(void) {
    if (gate) {
        clSetUserEventStatus(gate, CL_COMPLETE);
        clReleaseEvent(gate);
    }
    gate = NULL;
}

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
cl_mem __real_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code);
cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code);
cl_int __real_clWaitForEvents(cl_uint count, const cl_event *events);
cl_int __wrap_clWaitForEvents(cl_uint count, const cl_event *events);
cl_int __real_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
                                   const void *source, cl_uint count, const cl_event *before, cl_event *event);
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
                                   const void *source, cl_uint count, const cl_event *before, cl_event *event);

cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
    if (refuses_host_memory && (flags & CL_MEM_ALLOC_HOST_PTR)) {
        *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
        return NULL;
    }
    return __real_clCreateBuffer(context, flags, size, host, code);
}

cl_int __wrap_clWaitForEvents(cl_uint count, const cl_event *events) {
    waits += gate != NULL;
    open_gate();
    return __real_clWaitForEvents(count, events);
}

cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t bytes,
                                   const void *source, cl_uint count, const cl_event *before, cl_event *event) {
    if (blocking) {
        waits += gate != NULL;
        open_gate();
    }
    return __real_clEnqueueWriteBuffer(queue, memory, blocking, offset, bytes, source, count, before, event);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* Holds back what is queued from now on. */
static void close_gate(tap_run *tap, icl_backend *backend) {
    icl_opencl *opencl = icl_opencl_of(backend);
    cl_int code;

    open_gate();
    gate = clCreateUserEvent(opencl->context, &code);
    code = code == CL_SUCCESS ? clEnqueueBarrierWithWaitList(opencl->queue->handle, 1, &gate, NULL) : code;
    if (code != CL_SUCCESS)
        tap_ok(tap, false, "the driver gives a gate: code %d", code);
}

/* ---- Numbers ---- */

static float source[LONGEST + 1], seen[LONGEST + 1];

static float number_at(size_t write, size_t i) {
    return (float)((write * 7919 + i) % 8388593);
}

static icl_status make(icl_backend *backend, size_t count, icl_tensor *tensor) {
    return icl_tensor_create(backend, 1, &count, tensor, tap_error());
}

/* Writes numbers that are changed at once. */
static void write_numbers(icl_tensor tensor, size_t write) {
    for (size_t i = 0; i < tensor.shape[0]; i++)
        source[i] = number_at(write, i);
    tap_need(icl_tensor_write(tensor, source, tap_error()));
    memset(source, 0xff, tensor.shape[0] * sizeof *source);
}

static size_t count_wrong(icl_tensor tensor, size_t write) {
    size_t wrong = 0;

    open_gate();
    tap_need(icl_tensor_read(tensor, seen, tap_error()));
    for (size_t i = 0; i < tensor.shape[0]; i++)
        wrong += seen[i] != number_at(write, i);
    return wrong;
}

/* Writes one tensor behind the gate; returns how many of its numbers are wrong. */
static size_t write_one(tap_run *tap, icl_backend *backend, size_t count) {
    icl_tensor tensor = {0};

    tap_need(make(backend, count, &tensor));
    write_numbers(tensor, 0); /* makes room */
    close_gate(tap, backend);
    waits = 0;
    write_numbers(tensor, 1);
    const size_t wrong = count_wrong(tensor, 1);
    icl_tensor_release(&tensor);
    return wrong;
}

/* ---- The checks ---- */

static void check_batch(tap_run *tap, icl_backend *backend) {
    enum { PARTS = 3 };
    static const size_t sizes[PARTS] = {MOST, MOST, 7};
    icl_tensor parts[PARTS] = {{0}};
    size_t wrong = 0;

    for (size_t i = 0; i < PARTS; i++)
        tap_need(make(backend, sizes[i], &parts[i]));
    write_numbers(parts[0], 0);
    tap_need(icl_backend_sync(backend, tap_error()));
    close_gate(tap, backend);
    waits = 0;
    for (size_t i = 0; i < PARTS; i++)
        write_numbers(parts[i], 1 + i);
    tap_ok(tap, waits == 0, "a batch is written while the device still works (%zu waits)", waits);
    for (size_t i = 0; i < PARTS; i++)
        wrong += count_wrong(parts[i], 1 + i);
    tap_ok(tap, wrong == 0, "and arrives as it was then (%zu numbers are wrong)", wrong);
    for (size_t i = 0; i < PARTS; i++)
        icl_tensor_release(&parts[i]);
}

/* Compiles and tests what copies need, which waits. */
static void copy_once(icl_backend *backend, size_t count) {
    icl_tensor tensors[2] = {{0}};

    for (int i = 0; i < 2; i++)
        tap_need(make(backend, count, &tensors[i]));
    write_numbers(tensors[1], 0);
    tap_need(icl_copy(backend, tensors[0], tensors[1], tap_error()));
    tap_need(icl_backend_sync(backend, tap_error()));
    for (int i = 0; i < 2; i++)
        icl_tensor_release(&tensors[i]);
}

/* Writes one tensor again and again behind the gate, with copies between that show what it held. */
static void check_many(tap_run *tap, icl_backend *backend) {
    enum { KINDS = 3, ROUNDS = 7 * KINDS, WRITES = 24 };
    static const size_t most[KINDS] = {9, MOST, 2 * MOST};
    icl_tensor target = {0}, copies[WRITES] = {{0}};
    size_t wrong = 0, all_waits = 0;
    uint32_t state = 1;

    for (int i = 0; i < KINDS; i++)
        copy_once(backend, most[i]);
    tap_need(make(backend, 2 * MOST, &target));
    for (size_t round = 0; round < ROUNDS; round++) {
        close_gate(tap, backend);
        waits = 0;
        for (size_t i = 0; i < WRITES; i++) {
            state = state * 1664525U + 1013904223U;
            const size_t count = 1 + (state >> 8) % most[round % KINDS];
            const icl_tensor part = icl_tensor_slice(target, 0, 0, count);
            tap_need(make(backend, count, &copies[i]));
            write_numbers(part, round + i);
            tap_need(icl_copy(backend, copies[i], part, tap_error()));
        }
        all_waits += waits;
        for (size_t i = 0; i < WRITES; i++) {
            wrong += count_wrong(copies[i], round + i);
            icl_tensor_release(&copies[i]);
        }
    }
    tap_ok(tap, all_waits == ROUNDS, "more writes than fit wait, once behind each gate (%zu waits)", all_waits);
    tap_ok(tap, wrong == 0, "until the device has read what they replace (%zu numbers are wrong)", wrong);
    icl_tensor_release(&target);
}

static void check_longest(tap_run *tap, icl_backend *backend) {
    size_t wrong = write_one(tap, backend, LONGEST);

    tap_ok(tap, wrong == 0 && waits == 0, "8 MiB do not wait (%zu waits, %zu numbers are wrong)", waits, wrong);
    wrong = write_one(tap, backend, LONGEST + 1);
    tap_ok(tap, wrong == 0 && waits == 1, "a number more waits (%zu waits, %zu numbers are wrong)", waits, wrong);
}

static void check_refusal(tap_run *tap, const char *spec) {
    icl_backend *backend = NULL;

    refuses_host_memory = true;
    tap_need(icl_backend_open(&(icl_backend_params){.spec = spec}, &backend, tap_error()));
    const size_t wrong = write_one(tap, backend, MOST);
    tap_ok(tap, wrong == 0 && waits == 1,
           "a driver that gives no memory of the host has its writes waited for (%zu waits, %zu numbers are wrong)",
           waits, wrong);
    icl_backend_close(&backend);
    refuses_host_memory = false;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    const char *spec = tap_device_spec(argc > 1 ? argv[1] : "opencl");
    icl_backend *backend = tap_open_device(&tap, spec);

    if (!backend)
        return tap_done(&tap);
    check_batch(&tap, backend);
    check_many(&tap, backend);
    check_longest(&tap, backend);
    icl_backend_close(&backend);
    check_refusal(&tap, spec);
    return tap_done(&tap);
}
