/* Properties of the OpenCL backend: opening and closing, the memory pool and its limit, build errors, both kernel
 * families, and the strict ops bit for bit. */
#include "backend/opencl/program.h"
#include "tap.h"

#define ROWS    64
#define COLUMNS 37

static icl_backend *open_with(tap_run *tap, icl_backend_params params, const char *what) {
    icl_backend *backend = NULL;
    icl_error error = {0};
    tap_status(tap, icl_backend_open(&params, &backend, &error), &error, what);
    return backend;
}

static icl_status make(icl_backend *backend, size_t rows, size_t columns, icl_tensor *tensor, icl_error *error) {
    return icl_tensor_create(backend, 2, (const size_t[]){rows, columns}, tensor, error);
}

static bool same_bits(float a, float b) {
    uint32_t a_bits, b_bits;
    memcpy(&a_bits, &a, sizeof a_bits);
    memcpy(&b_bits, &b, sizeof b_bits);
    return a_bits == b_bits;
}

/* Takes one step of mixed work: random numbers, products, a reduction through scratch memory, elementwise ops, reading
 * back. */
static icl_status work(icl_backend *backend, float *sum, icl_error *error) {
    const icl_random_params normal = {.key = {.seed = 5}, .distribution = ICL_NORMAL};
    icl_tensor a = {0}, product = {0}, total = {0};
    icl_status status = ICL_OK;

    ICL_TRY(make(backend, 6000, COLUMNS, &a, error));
    ICL_TRY(make(backend, COLUMNS, COLUMNS, &product, error));
    ICL_TRY(make(backend, 1, 1, &total, error));
    ICL_TRY(icl_random_fill(backend, &normal, a, error));
    ICL_TRY(icl_matmul(backend, product, 1, icl_tensor_swap_axes(a, 0, 1), a, 0, error));
    ICL_TRY(icl_scale_add(backend, product, 0.5, product, 0, (icl_tensor){0}, error));
    ICL_TRY(icl_reduce(backend, ICL_SUM, 3, total, product, error));
    ICL_TRY(icl_tensor_read(total, sum, error));
done:
    icl_tensor_release(&a);
    icl_tensor_release(&product);
    icl_tensor_release(&total);
    return status;
}

static void test_open_twice(tap_run *tap, const char *spec) {
    float sums[2] = {0, 1};
    icl_error error = {0};
    for (int i = 0; i < 2; i++) {
        icl_backend *backend = open_with(tap, (icl_backend_params){.spec = spec}, i ? "open again" : "open");
        if (!backend)
            return;
        tap_status(tap, work(backend, &sums[i], &error), &error, "work");
        icl_backend_close(&backend);
        tap_ok(tap, backend == NULL, "close clears the pointer");
    }
    tap_ok(tap, sums[0] == sums[1], "the same bits after opening again: %.9g and %.9g", (double)sums[0],
           (double)sums[1]);
}

static void test_two_at_once(tap_run *tap, const char *spec) {
    icl_backend *one = open_with(tap, (icl_backend_params){.spec = spec}, "open one");
    icl_backend *two = open_with(tap, (icl_backend_params){.spec = spec}, "open another beside it");
    float sums[2] = {0, 1};
    icl_error error = {0};
    if (one && two) {
        tap_status(tap, work(one, &sums[0], &error), &error, "work on one");
        icl_backend_close(&one);
        tap_status(tap, work(two, &sums[1], &error), &error, "work on the other after closing the one");
        tap_ok(tap, sums[0] == sums[1], "the same bits on both");
    }
    icl_backend_close(&one);
    icl_backend_close(&two);
}

/* A backend counts no op or launch of a self-test, neither of the one on opening nor of those at the first use of an
 * op. */
static void test_counts(tap_run *tap, const char *spec) {
    icl_backend *backend = open_with(tap, (icl_backend_params){.spec = spec}, "open to count");
    const float zeros[3 * 5] = {0};
    icl_backend_statistics s;
    icl_tensor t = {0};
    icl_error error = {0};

    if (!backend)
        return;
    tap_status(tap, make(backend, 3, 5, &t, &error), &error, "make a tensor");
    tap_status(tap, icl_tensor_write(t, zeros, &error), &error, "write it");
    icl_backend_statistics before = icl_backend_get_statistics(backend);
    tap_ok(tap, before.ops == 0 && before.launches == 0, "%llu ops, %llu launches after opening",
           (unsigned long long)before.ops, (unsigned long long)before.launches);
    for (int i = 0; i < 2; i++, before = s) {
        tap_status(tap, icl_binary(backend, ICL_ADD, t, t, t, &error), &error, "a sum");
        tap_status(tap, icl_backend_sync(backend, &error), &error, "wait for it");
        s = icl_backend_get_statistics(backend);
        tap_ok(tap, s.ops == before.ops + 1 && s.launches == before.launches + 1, "one op and one launch more");
    }
    icl_tensor_release(&t);
    icl_backend_close(&backend);
}

static void test_pool(tap_run *tap, icl_backend *backend) {
    icl_error error = {0};
    icl_backend_statistics before, after;
    icl_tensor first = {0}, second = {0};
    float sum;
    icl_status status = work(backend, &sum, &error);

    before = icl_backend_get_statistics(backend);
    for (int i = 0; i < 10 && status == ICL_OK; i++)
        status = work(backend, &sum, &error);
    after = icl_backend_get_statistics(backend);
    tap_status(tap, status, &error, "ten steps");
    tap_ok(tap, after.allocations == before.allocations, "a steady state allocates nothing: %llu more",
           (unsigned long long)(after.allocations - before.allocations));
    tap_ok(tap, after.pool_hits > before.pool_hits, "it is served from the pool");
    tap_ok(tap, after.bytes_live == before.bytes_live && after.bytes_reserved == before.bytes_reserved,
           "nothing leaks: %zu bytes live, %zu reserved", after.bytes_live, after.bytes_reserved);

    tap_status(tap, make(backend, 100, 100, &first, &error), &error, "take a block");
    const void *block = first.buffer ? first.buffer->handle : NULL;
    icl_tensor_release(&first);
    tap_status(tap, make(backend, 99, 100, &second, &error), &error, "take a slightly smaller one");
    tap_ok(tap, second.buffer && second.buffer->handle == block, "it is the same block");
    icl_tensor_release(&second);
}

static void test_memory_limit(tap_run *tap, const char *spec) {
    const size_t limit = (size_t)8 << 20;
    icl_backend *backend =
        open_with(tap, (icl_backend_params){.spec = spec, .memory_limit = limit}, "open with a limit of 8 MiB");
    icl_tensor tensors[8] = {{0}}, large = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;
    int made = 0;

    if (!backend)
        return;
    for (; made < 8 && status == ICL_OK; made += status == ICL_OK)
        status = make(backend, 512, 1024, &tensors[made], &error); /* 2 MiB each */
    tap_note("%s", error.message);
    tap_ok(tap, status == ICL_ERROR_MEMORY && made >= 3 && made <= 4, "the limit stops after %d of 2 MiB", made);
    tap_ok(tap, strstr(error.message, "limit") != NULL, "the message names the limit");
    tap_ok(tap, icl_backend_get_statistics(backend).bytes_reserved <= limit, "no more is reserved");
    for (int i = 0; i < 8; i++)
        icl_tensor_release(&tensors[i]);
    tap_status(tap, make(backend, 1024, 1500, &large, &error), &error,
               "freed blocks of another size make room for 6 MB");
    icl_tensor_release(&large);
    tap_ok(tap, make(backend, 4096, 4096, &large, &error) == ICL_ERROR_MEMORY, "64 MiB are refused");
    icl_backend_close(&backend);
}

static void test_too_large(tap_run *tap, icl_backend *backend) {
    icl_tensor tensor = {0};
    icl_error error = {0};
    const size_t most = icl_backend_capabilities(backend)->max_allocation / sizeof(float);
    tap_ok(tap, make(backend, most, 2, &tensor, &error) == ICL_ERROR_MEMORY, "twice the largest allocation: %s",
           error.message);
    tap_ok(tap, make(backend, SIZE_MAX / 8, 1, &tensor, &error) == ICL_ERROR_MEMORY, "the address space: %s",
           error.message);
    tap_ok(tap, make(backend, SIZE_MAX / 2, 8, &tensor, &error) == ICL_ERROR_MEMORY, "overflow: %s", error.message);
    tap_ok(tap, tensor.buffer == NULL, "nothing was made");
}

static void test_build_failure(tap_run *tap, icl_backend *backend) {
    static const char broken[] = "__kernel void broken(__global float *x) { x[0] = no_such_name; }\n";
    icl_error error = {0};
    cl_program program = NULL;
    const icl_status status =
        icl_opencl_build(icl_opencl_of(backend), "broken", broken, strlen(broken), "-cl-std=CL1.2", &program, &error);
    tap_ok(tap, status == ICL_ERROR_DEVICE && program == NULL, "a kernel that does not compile is a device error");
    tap_ok(tap, strstr(error.message, "no_such_name") != NULL, "the message holds the build log");
    tap_ok(tap, strstr(error.message, "clBuildProgram") && strstr(error.message, "CL_BUILD_PROGRAM_FAILURE"),
           "and names the call and the error");
    tap_ok(tap, strstr(error.message, icl_backend_capabilities(backend)->name) != NULL, "and the device");
}

static void test_random_bits(tap_run *tap, icl_backend *backend) {
    static const uint64_t firsts[] = {0, 3, (UINT64_C(1) << 34) - 7};
    enum { COUNT = 20011 };
    float *values = calloc(COUNT, sizeof *values);
    icl_tensor tensor = {0};
    icl_error error = {0};

    if (tap_status(tap, icl_tensor_create(backend, 1, (const size_t[]){COUNT}, &tensor, &error), &error, "tensor") &&
        values)
        for (int distribution = 0; distribution < ICL_DISTRIBUTION_COUNT; distribution++)
            for (int f = 0; f < 3; f++) {
                const icl_random_params params = {.key = {.seed = 0xdeadbeef, .stream = 9, .step = UINT64_MAX - 1},
                                                  .first_index = firsts[f],
                                                  .distribution = (icl_distribution)distribution,
                                                  .low = -0.3F,
                                                  .high = 1.7F,
                                                  .choice_count = 16,
                                                  .choices = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
                size_t different = 0;
                icl_status status = icl_random_fill(backend, &params, tensor, &error);
                if (status == ICL_OK)
                    status = icl_tensor_read(tensor, values, &error);
                for (size_t i = 0; i < COUNT; i++) {
                    const float expected = icl_random_value(&params, i);
                    different += !same_bits(values[i], expected);
                }
                tap_ok(tap, status == ICL_OK && different == 0,
                       "distribution %d from %llu: %zu of %d elements differ in a bit", distribution,
                       (unsigned long long)firsts[f], different, COUNT);
            }
    icl_tensor_release(&tensor);
    free(values);
}

/* Returns row times column, with each product and each sum rounded once. */
static float left_to_right(const float *row, const float *column, size_t count, size_t stride) {
    volatile float sum = row[0] * column[0];
    for (size_t l = 1; l < count; l++) {
        const volatile float product = row[l] * column[l * stride];
        sum += product;
    }
    return sum;
}

/* Strict products add left to right, and round each product and each sum once; k is longer than any block of the
 * kernels. */
static void test_strict_bits(tap_run *tap, icl_backend *backend) {
    enum { M = 9, K = 1100, N = 21 };
    const icl_random_params normal = {.key = {.seed = 11}, .distribution = ICL_NORMAL};
    float *a = calloc(M * K, sizeof *a), *b = calloc(K * N, sizeof *b), out[M * N] = {0};
    icl_tensor tensors[3] = {{0}};
    icl_error error = {0};
    icl_status status = ICL_OK;
    size_t different = 0;

    ICL_TRY(make(backend, M, N, &tensors[0], &error));
    ICL_TRY(make(backend, M, K, &tensors[1], &error));
    ICL_TRY(make(backend, K, N, &tensors[2], &error));
    ICL_TRY(icl_random_fill(backend, &normal, tensors[1], &error));
    ICL_TRY(icl_random_fill(backend, &normal, tensors[2], &error));
    ICL_TRY(icl_matmul_strict(backend, tensors[0], tensors[1], tensors[2], &error));
    ICL_TRY(icl_tensor_read(tensors[0], out, &error));
    ICL_TRY(icl_tensor_read(tensors[1], a, &error));
    ICL_TRY(icl_tensor_read(tensors[2], b, &error));
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            different += !same_bits(left_to_right(a + i * K, b + j, K, N), out[i * N + j]);
        }
done:
    tap_status(tap, status, &error, "strict product");
    tap_ok(tap, different == 0, "%zu of %d elements differ in a bit", different, M * N);
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&tensors[i]);
    free(a);
    free(b);
}

/* Returns 1 if the kernel's program was compiled with relaxed arithmetic, else 0; -1 if there is no such program. */
static int is_relaxed(icl_opencl *opencl, icl_kernel which, icl_error *error) {
    cl_program program = NULL;
    icl_compiled compiled;

    if (icl_opencl_kernel(opencl, which, &compiled, error) == ICL_OK)
        (void)clGetKernelInfo(compiled.kernel, CL_KERNEL_PROGRAM, sizeof(cl_program), &program, NULL);
    for (const icl_program *p = opencl->programs->list; p; p = p->next)
        if (p->program == program)
            return strstr(p->options, "-cl-fast-relaxed-math") ? 1 : 0;
    return -1;
}

/* Sums over rows add in one tree, whether outputs are computed a vector at a time, as those of 32 columns are on CPUs,
 * or one by one, as those of 17 and 15. */
static void test_sums_of_columns(tap_run *tap, icl_backend *backend) {
    enum { HEIGHT = 1037, WIDE = 32, FIRST = 17 };
    const icl_random_params normal = {.key = {.seed = 5}, .distribution = ICL_NORMAL};
    float together[WIDE], apart[WIDE];
    icl_tensor in = {0}, out[2] = {{0}};
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(backend, 2, (const size_t[]){HEIGHT, WIDE}, &in, &error));
    for (int i = 0; i < 2; i++)
        ICL_TRY(icl_tensor_create(backend, 2, (const size_t[]){1, WIDE}, &out[i], &error));
    ICL_TRY(icl_random_fill(backend, &normal, in, &error));
    ICL_TRY(icl_reduce(backend, ICL_SUM, 1, out[0], in, &error));
    ICL_TRY(icl_reduce(backend, ICL_SUM, 1, icl_tensor_slice(out[1], 1, 0, FIRST), icl_tensor_slice(in, 1, 0, FIRST),
                       &error));
    ICL_TRY(icl_reduce(backend, ICL_SUM, 1, icl_tensor_slice(out[1], 1, FIRST, WIDE - FIRST),
                       icl_tensor_slice(in, 1, FIRST, WIDE - FIRST), &error));
    ICL_TRY(icl_tensor_read(out[0], together, &error));
    ICL_TRY(icl_tensor_read(out[1], apart, &error));
done:
    tap_status(tap, status, &error, "sums of columns");
    tap_ok(tap, status == ICL_OK && memcmp(together, apart, sizeof together) == 0, "they have the same bits in parts");
    icl_tensor_release(&in);
    icl_tensor_release(&out[0]);
    icl_tensor_release(&out[1]);
}

/* Fast math relaxes all kernels except the strict ones. */
static void test_fast_math(tap_run *tap, const char *spec) {
    icl_backend *backend = open_with(tap, (icl_backend_params){.spec = spec, .fast_math = true}, "open with fast math");
    icl_error error = {0};
    float sum = 0;
    if (backend) {
        icl_opencl *opencl = icl_opencl_of(backend);
        const bool has_lanes = opencl->lanes > 1;
        const icl_kernel strict[] = {ICL_KERNEL_random_fill, ICL_KERNEL_spherical,
                                     has_lanes ? ICL_KERNEL_gram_lanes : ICL_KERNEL_gram_groups,
                                     has_lanes ? ICL_KERNEL_matmul_lanes : ICL_KERNEL_matmul_tiles};
        for (size_t i = 0; i < sizeof strict / sizeof *strict; i++)
            tap_ok(tap, is_relaxed(opencl, strict[i], &error) == 0, "strict kernel %d is not relaxed", (int)strict[i]);
        tap_ok(tap, is_relaxed(opencl, ICL_KERNEL_unary, &error) == 1, "an elementwise one is");
        test_strict_bits(tap, backend);
        tap_status(tap, work(backend, &sum, &error), &error, "work");
    }
    icl_backend_close(&backend);
}

static void test_precision(tap_run *tap, const char *spec) {
    const icl_backend_params params = {.spec = spec, .precision = ICL_PRECISION_BF16};
    icl_backend *backend = NULL;
    icl_error error = {0};
    tap_ok(tap,
           icl_backend_open(&params, &backend, &error) == ICL_ERROR_INPUT && !backend &&
               strstr(error.message, "OpenCL devices lack precision bf16: expected cpu or ref"),
           "bf16 is refused: %s", error.message);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    const char *spec = tap_device_spec(argc > 1 ? argv[1] : "opencl");
    icl_backend *backend = tap_open_device(&tap, spec);

    if (backend) {
        tap_ok(&tap, strstr(icl_opencl_of(backend)->programs->options, "fast") == NULL, "strict by default: \"%s\"",
               icl_opencl_of(backend)->programs->options);
        test_pool(&tap, backend);
        test_too_large(&tap, backend);
        test_build_failure(&tap, backend);
        test_random_bits(&tap, backend);
        test_strict_bits(&tap, backend);
        test_sums_of_columns(&tap, backend);
        icl_backend_close(&backend);
        test_open_twice(&tap, spec);
        test_two_at_once(&tap, spec);
        test_counts(&tap, spec);
        test_memory_limit(&tap, spec);
        test_fast_math(&tap, spec);
        test_precision(&tap, spec);
    }
    return tap_done(&tap);
}
