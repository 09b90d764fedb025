/* CLBlast's known answers, before it is first used and before its first large products. */
#include <stdio.h>

#include "backend/opencl/clblast.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/selftest.h"
#include "config.h"
#include "core/allocate.h"

/* Where CLBlast was asked for, that is an error, which who opens a failed device nevertheless means to pass over.
 * Otherwise our own kernel takes its place, and the log says so. */
static icl_status refuse_clblast(icl_opencl *opencl, icl_status status, const icl_error *why, icl_error *error) {
    icl_clblast_forget();
    if (opencl->clblast->wanted == ICL_GEMM_CLBLAST)
        return icl_fail(error, status, "%s", why->message);
    opencl->clblast->state = status == ICL_ERROR_DEVICE ? ICL_CLBLAST_REFUSED : ICL_CLBLAST_UNTESTED;
    if (status != ICL_ERROR_DEVICE)
        return icl_fail(error, status, "%s", why->message);
    icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s; the native kernel serves instead", why->message);
    return ICL_OK;
}

/* Its answer for whole numbers of these extents, beside our own kernel's. */
static icl_status test_extents(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error) {
    const icl_matmul_params params = {.alpha = 2, .beta = 0};
    const size_t left = m * k, right = k * n, count = m * n;
    icl_tensor operands[3] = {{0}};
    icl_status status = ICL_OK;
    float *values = NULL;
    char what[96];

    ICL_TRY(icl_allocate(left + right + 2 * count, sizeof *values, "self-test", &values, error));
    float *const a = values, *const b = a + left, *const got = b + right, *const expected = got + count;
    icl_self_test_integers(a, left, 7);
    icl_self_test_integers(b, right, 3);
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){m, n}, &operands[0], error));
    ICL_TRY(icl_self_test_upload(opencl, 2, (const size_t[]){m, k}, a, &operands[1], error));
    ICL_TRY(icl_self_test_upload(opencl, 2, (const size_t[]){k, n}, b, &operands[2], error));
    ICL_TRY(icl_opencl_matmul_native(opencl, &params, operands, false, error));
    ICL_TRY(icl_tensor_read(operands[0], expected, error));
    ICL_TRY(icl_clblast_matmul(opencl, &params, operands, error));
    ICL_TRY(icl_tensor_read(operands[0], got, error));
    snprintf(what, sizeof what, "matmul of %zu x %zu x %zu through CLBlast", m, k, n);
    ICL_TRY(icl_self_test_compare(opencl, what, got, expected, count, 0, error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&operands[i]);
    icl_free(&values);
    return status;
}

/* No product of these extents is small enough for all devices to take the same of CLBlast's kernels as
 * the first test did. */
#define SMALL_PRODUCT ((size_t)64 * 64 * 64)

/* Beyond this every device takes its kernels for large products, and sums of the test's whole numbers are
 * exact up to it. */
#define MOST_TESTED ((size_t)2048)

static size_t tested_extent(size_t extent) {
    return extent < MOST_TESTED ? extent : MOST_TESTED;
}

/* CLBlast has one kind of kernels for small products and another for large ones, and which are large depends on the
 * device. Those before 1.6.3 gave wrong large products on some GPUs (its pull request 543). So each power of two of m n
 * k is tested by its first product. */
static icl_status test_class(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error) {
    const size_t extents[] = {tested_extent(m), tested_extent(n), tested_extent(k)};
    const size_t size = extents[0] * extents[1] * extents[2];
    unsigned power = 0;

    while (size >> power > 1)
        power++;
    if (size <= SMALL_PRODUCT || opencl->clblast->tested >> power & 1u)
        return ICL_OK;
    ICL_CHECK(test_extents(opencl, extents[0], extents[1], extents[2], error));
    opencl->clblast->tested |= UINT64_C(1) << power;
    return ICL_OK;
}

icl_status icl_self_test_clblast(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error) {
    icl_error why = {0};
    icl_status status = ICL_OK;

    if (opencl->clblast->state == ICL_CLBLAST_UNTESTED) {
        if (icl_opencl_choose(opencl, ICL_CHOICE_CLBLAST, 0) == ICL_CLBLAST_A100)
            icl_clblast_use_a100(opencl);
        opencl->clblast->state = ICL_CLBLAST_SERVES;
        status = icl_self_test_matmul(opencl, true, &why);
    }
    if (status == ICL_OK && opencl->clblast->state == ICL_CLBLAST_SERVES)
        status = test_class(opencl, m, n, k, &why);
    return status == ICL_OK ? ICL_OK : refuse_clblast(opencl, status, &why, error);
}

/* CLBlast compiles for seconds, so that it is tested before it is first used: here where it was asked for, else with
 * the first product that prefers it. */
icl_status icl_self_test_choose_clblast(icl_opencl *opencl, icl_error *error) {
    if (!ICL_HAVE_CLBLAST && opencl->clblast->wanted == ICL_GEMM_CLBLAST)
        return icl_fail(error, ICL_ERROR_INPUT, "gemm clblast: this build has no CLBlast, expected auto or native");
    if (!ICL_HAVE_CLBLAST || opencl->clblast->wanted == ICL_GEMM_NATIVE)
        opencl->clblast->state = ICL_CLBLAST_REFUSED;
    return opencl->clblast->wanted == ICL_GEMM_CLBLAST ? icl_self_test_clblast(opencl, 1, 1, 1, error) : ICL_OK;
}
