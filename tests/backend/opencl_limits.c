/* Limits of an OpenCL device, at their boundaries: blocks of the pool and the tensors that they can serve, a driver
 * that has no memory while the pool holds some, or that refuses launches; scratch memory of a launch. Also, a product
 * stays with the kernel asked for. */
#include "backend/opencl/launch.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/pool.h"
#include "iclab/ops.h"
#include "tap.h"

#define MIB ((size_t)1 << 20)

/* ---- A driver without memory, planted by the linker's --wrap ---- */

static const icl_opencl *hoarding; /* the device whose free blocks leave the driver no memory; NULL: there is enough */
static size_t refusals;
static bool refuses_launches;

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker's names */
cl_mem __real_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code);
cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code);

cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code) {
    for (size_t i = 0; hoarding && i < ICL_SIZE_CLASSES; i++)
        if (hoarding->pool->free_blocks[i]) {
            refusals++;
            *code = CL_MEM_OBJECT_ALLOCATION_FAILURE;
            return NULL;
        }
    return __real_clCreateBuffer(context, flags, size, host, code);
}

cl_int __real_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset,
                                     const size_t *global, const size_t *local, cl_uint count, const cl_event *waits,
                                     cl_event *event);
cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset,
                                     const size_t *global, const size_t *local, cl_uint count, const cl_event *waits,
                                     cl_event *event);

cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint rank, const size_t *offset,
                                     const size_t *global, const size_t *local, cl_uint count, const cl_event *waits,
                                     cl_event *event) {
    return refuses_launches
               ? CL_OUT_OF_RESOURCES
               : __real_clEnqueueNDRangeKernel(queue, kernel, rank, offset, global, local, count, waits, event);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static icl_status make(icl_backend *backend, size_t bytes, icl_tensor *tensor, icl_error *error) {
    return icl_tensor_create(backend, 1, (const size_t[]){bytes / sizeof(float)}, tensor, error);
}

static size_t block_bytes(icl_tensor tensor) {
    const icl_block *block = tensor.buffer ? tensor.buffer->handle : NULL;
    return block ? block->bytes : 0;
}

static void test_second_try(tap_run *tap, icl_backend *backend) {
    const icl_opencl *opencl = icl_opencl_of(backend);
    icl_tensor kept = {0}, tensor = {0};
    icl_error error = {0};

    tap_status(tap, make(backend, MIB, &kept, &error), &error, "a block");
    icl_tensor_release(&kept); /* back to the pool */
    hoarding = opencl;
    refusals = 0;
    tap_status(tap, make(backend, 5 * MIB, &tensor, &error), &error,
               "a driver that is short of memory is asked again without the pool's free blocks");
    hoarding = NULL;
    tap_ok(tap, refusals == 1, "after one refusal (%zu)", refusals);
    icl_tensor_release(&tensor);
}

/* Tests the codes of a device that has no memory left, and of one that fails. */
static void test_codes(tap_run *tap, icl_backend *backend) {
    static const struct {
        int code;
        icl_status status;
        const char *message;
    } codes[] = {{CL_MEM_OBJECT_ALLOCATION_FAILURE, ICL_ERROR_MEMORY, "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)"},
                 {CL_OUT_OF_HOST_MEMORY, ICL_ERROR_MEMORY, "CL_OUT_OF_HOST_MEMORY (-6)"},
                 {CL_INVALID_BUFFER_SIZE, ICL_ERROR_MEMORY, "CL_INVALID_BUFFER_SIZE (-61)"},
                 {CL_OUT_OF_RESOURCES, ICL_ERROR_DEVICE, "CL_OUT_OF_RESOURCES (-5)"},
                 {CL_MAP_FAILURE, ICL_ERROR_DEVICE, "CL_MAP_FAILURE (-12)"},
                 {-9999, ICL_ERROR_DEVICE, "unknown OpenCL error (-9999)"}};

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char expected[256 + ICL_NAME_CAPACITY];
        icl_error error = {0};
        snprintf(expected, sizeof expected, "clCall: %s on %s", codes[i].message,
                 icl_backend_capabilities(backend)->name);
        const icl_status status = icl_cl_fail(icl_opencl_of(backend), codes[i].code, "clCall", &error);
        tap_ok(tap, status == codes[i].status && strcmp(error.message, expected) == 0, "%s: %s", error.message,
               icl_status_name(status));
    }
}

/* If the largest class is beyond the limit, blocks are as small as possible: then the class does not tell whether a
 * free block fits. */
static void test_small_block(tap_run *tap, const char *spec) {
    const size_t limit = 15 * MIB / 2, small = 57 * MIB / 8, large = 59 * MIB / 8;
    icl_backend *backend = NULL;
    icl_tensor tensor = {0};
    icl_error error = {0};
    const icl_backend_params params = {.spec = spec, .memory_limit = limit};

    if (!tap_status(tap, icl_backend_open(&params, &backend, &error), &error, "a limit of 7.5 MiB"))
        return;
    icl_pool_trim(icl_opencl_of(backend));
    tap_status(tap, make(backend, small, &tensor, &error), &error, "7.125 MiB");
    tap_ok(tap, block_bytes(tensor) == small, "are a block of that size (%zu)", block_bytes(tensor));
    icl_tensor_release(&tensor);
    tap_status(tap, make(backend, large, &tensor, &error), &error, "7.375 MiB behind them");
    tap_ok(tap, block_bytes(tensor) >= large, "are no block that is too small (%zu)", block_bytes(tensor));
    icl_tensor_release(&tensor);
    tap_status(tap, make(backend, small, &tensor, &error), &error, "7.125 MiB again");
    tap_ok(tap, block_bytes(tensor) == large, "are the larger block (%zu)", block_bytes(tensor));
    icl_tensor_release(&tensor);
    tap_ok(tap, make(backend, limit, &tensor, &error) == ICL_OK, "the limit itself can be had");
    icl_tensor_release(&tensor);
    tap_ok(tap, make(backend, limit + sizeof(float), &tensor, &error) == ICL_ERROR_MEMORY, "and no number more: %s",
           error.message);
    icl_backend_close(&backend);
}

/* Scratch memory takes up to half of the memory that is left, for whole groups, and for one group in any case. */
static void test_scratch(tap_run *tap, const char *spec) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    const icl_backend_params params = {.spec = spec, .memory_limit = 16 * MIB};

    if (!tap_status(tap, icl_backend_open(&params, &backend, &error), &error, "a limit of 16 MiB"))
        return;
    icl_opencl *opencl = icl_opencl_of(backend);
    const size_t group = opencl->local_size, most = opencl->max_items;
    const size_t left = (16 * MIB - icl_backend_get_statistics(backend).bytes_live) / 2;
    const size_t fitting = left / most; /* the most bytes for each if all items run */
    tap_ok(tap, icl_opencl_items_with_scratch(opencl, SIZE_MAX / 2, fitting) == most, "%zu bytes for each of %zu items",
           fitting, most);
    for (size_t times = 2; times <= 64; times *= 2) {
        const size_t items = icl_opencl_items_with_scratch(opencl, SIZE_MAX / 2, times * fitting);
        tap_ok(tap,
               items % group == 0 && items >= group && (items == group || items * times * fitting <= left) &&
                   (items + group) * times * fitting > left,
               "%zu times as many: for %zu items", times, items);
    }
    tap_ok(tap, icl_opencl_items_with_scratch(opencl, SIZE_MAX / 2, 64 * MIB) == group,
           "what does not fit is for one group");
    icl_backend_close(&backend);
}

/* Computes a product that CLBlast would get if the choice were free: the numbers are whole, and CLBlast is not even
 * tested. */
static void test_native(tap_run *tap, const char *spec) {
    enum { SIZE = 160 };
    static float out[SIZE * SIZE];
    icl_backend *backend = NULL;
    icl_tensor tensors[3] = {{0}};
    icl_error error = {0};
    size_t wrong = 0;
    const icl_backend_params params = {.spec = spec, .gemm = ICL_GEMM_NATIVE};
    icl_status status = icl_backend_open(&params, &backend, &error);

    for (int i = 0; i < 3 && status == ICL_OK; i++) {
        status = icl_tensor_create(backend, 2, (const size_t[]){SIZE, SIZE}, &tensors[i], &error);
        if (status == ICL_OK)
            status = icl_fill(backend, tensors[i], i, &error);
    }
    if (status == ICL_OK)
        status = icl_matmul(backend, tensors[0], 1, tensors[1], tensors[2], 0, &error);
    if (status == ICL_OK)
        status = icl_tensor_read(tensors[0], out, &error);
    for (size_t i = 0; i < (size_t)SIZE * SIZE; i++)
        wrong += out[i] != 2 * SIZE;
    if (tap_status(tap, status, &error, "a product by --gemm native")) {
        tap_ok(tap, icl_opencl_of(backend)->lanes == 1, "the kernels are those of GPUs");
        tap_ok(tap, wrong == 0, "it is right");
        tap_ok(tap,
               icl_opencl_of(backend)->clblast->tested == 0 &&
                   icl_opencl_of(backend)->clblast->state != ICL_CLBLAST_SERVES,
               "CLBlast had no part in it");
    }
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&tensors[i]);
    icl_backend_close(&backend);
}

/* The driver refuses a launch: the error names its group if that is larger than the kernel allows. */
static void test_refused_launch(tap_run *tap, icl_backend *backend) {
    icl_opencl *opencl = icl_opencl_of(backend);

    refuses_launches = true;
    for (size_t more = 0; more < 2; more++) {
        const icl_compiled none = {.kernel = NULL, .local_size = 64 + more, .limit = 64, .is_fixed = true};
        icl_error error = {0};
        const icl_status status = icl_opencl_enqueue(opencl, ICL_KERNEL_matmul_tiles, &none, 64 + more, &error);
        tap_ok(tap,
               status == ICL_ERROR_DEVICE && strstr(error.message, "matmul_tiles") &&
                   (strstr(error.message, "needs groups of") != NULL) == (more > 0),
               "a group of %zu where 64 are allowed: %s", none.local_size, error.message);
    }
    refuses_launches = false;
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    const char *spec = tap_device_spec(argc > 1 ? argv[1] : "opencl");
    icl_backend *backend = tap_open_device(&tap, spec);

    if (!backend)
        return tap_done(&tap);
    test_second_try(&tap, backend);
    test_refused_launch(&tap, backend);
    test_codes(&tap, backend);
    icl_backend_close(&backend);
    test_small_block(&tap, spec);
    test_scratch(&tap, spec);
    test_native(&tap, spec);
    return tap_done(&tap);
}
