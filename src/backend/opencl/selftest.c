/*
 * Known answers, computed here by plain loops, on the way that users' work takes: the same op functions, kernels and pool. Drivers
 * have shipped with compilers that give wrong numbers and no error; such a device is refused.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/opencl/opencl.h"
#include "core/allocate.h"

/* The first element that is off by more than the tolerance. NaN is off. */
static icl_status compare(const icl_opencl *opencl, const char *what, const float *got, const float *expected,
                          size_t count, float tolerance, icl_error *error) {
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - expected[i]) <= tolerance * (1 + fabsf(expected[i]))))
            return icl_fail(error, ICL_ERROR_DEVICE,
                            "self-test of %s: %s: element %zu is %.9g, expected %.9g",
                            opencl->backend->capabilities.name, what, i, (double)got[i], (double)expected[i]);
    return ICL_OK;
}

/* Small whole numbers from -5 to 5: products and short sums of them are exact. */
static void fill_integers(float *values, size_t count, size_t step) {
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i * step % 11) - 5.0F;
}

static icl_status upload(icl_opencl *opencl, int rank, const size_t *shape, const float *values,
                         icl_tensor *tensor, icl_error *error) {
    icl_status status = icl_tensor_create(opencl->backend, rank, shape, tensor, error);
    return status == ICL_OK ? icl_tensor_write(*tensor, values, error) : status;
}

/* ---- Matrix product ---- */

enum { M = 37, N = 35, K = 41 };

static icl_status test_matmul(icl_opencl *opencl, bool clblast, icl_error *error) {
    const char *what = clblast ? "matrix product through CLBlast" : "matrix product";
    const icl_matmul_params params = {.alpha = 2, .beta = 0};
    float a[M * K], b[K * N], expected[M * N], got[M * N];
    icl_tensor operands[3] = {{0}};
    icl_status status = ICL_OK;

    fill_integers(a, M * K, 7);
    fill_integers(b, K * N, 3);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            float sum = 0;
            for (size_t l = 0; l < K; l++)
                sum += a[i * K + l] * b[l * N + j];
            expected[i * N + j] = 2 * sum;
        }
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){M, N}, &operands[0], error));
    ICL_TRY(upload(opencl, 2, (const size_t[]){M, K}, a, &operands[1], error));
    ICL_TRY(upload(opencl, 2, (const size_t[]){K, N}, b, &operands[2], error));
    ICL_TRY(clblast ? icl_clblast_matmul(opencl, &params, operands, error)
                    : icl_opencl_matmul_native(opencl, &params, operands, false, error));
    ICL_TRY(icl_tensor_read(operands[0], got, error));
    ICL_TRY(compare(opencl, what, got, expected, M * N, 0, error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&operands[i]);
    return status;
}

/* ---- Softmax attention, causal ---- */

enum { QUERIES = 5, KEYS = 7, D = 3, E = 2 };

static void attention_row(size_t i, const float *q, const float *k, const float *v, float scale, float *out,
                          float *log_sum_exp) {
    const size_t attended = i + 1 + KEYS - QUERIES;
    float scores[KEYS], max = -INFINITY, total = 0, sums[E] = {0};

    for (size_t j = 0; j < attended; j++) {
        float dot = 0;
        for (size_t c = 0; c < D; c++)
            dot += q[c] * k[j * D + c];
        scores[j] = scale * dot;
        max = fmaxf(max, scores[j]);
    }
    for (size_t j = 0; j < attended; j++) {
        const float weight = expf(scores[j] - max);
        total += weight;
        for (size_t c = 0; c < E; c++)
            sums[c] += weight * v[j * E + c];
    }
    for (size_t c = 0; c < E; c++)
        out[c] = sums[c] / total;
    *log_sum_exp = max + logf(total);
}

static icl_status test_attention(icl_opencl *opencl, icl_error *error) {
    const icl_attention_params params = {ICL_ATTENTION_SOFTMAX, ICL_MASK_CAUSAL, 0.125};
    float q[QUERIES * D], k[KEYS * D], v[KEYS * E];
    float out[QUERIES * E], log_sum_exp[QUERIES], expected[QUERIES * E], expected_sum[QUERIES];
    icl_tensor operands[5] = {{0}};
    icl_status status = ICL_OK;

    fill_integers(q, QUERIES * D, 7);
    fill_integers(k, KEYS * D, 3);
    fill_integers(v, KEYS * E, 5);
    for (size_t i = 0; i < QUERIES; i++)
        attention_row(i, q + i * D, k, v, (float)params.scale, expected + i * E, &expected_sum[i]);
    ICL_TRY(icl_tensor_create(opencl->backend, 3, (const size_t[]){1, QUERIES, E}, &operands[0], error));
    ICL_TRY(icl_tensor_create(opencl->backend, 3, (const size_t[]){1, QUERIES, 1}, &operands[1], error));
    ICL_TRY(upload(opencl, 3, (const size_t[]){1, QUERIES, D}, q, &operands[2], error));
    ICL_TRY(upload(opencl, 3, (const size_t[]){1, KEYS, D}, k, &operands[3], error));
    ICL_TRY(upload(opencl, 3, (const size_t[]){1, KEYS, E}, v, &operands[4], error));
    ICL_TRY(icl_opencl_softmax_forward(opencl, &params, operands, error));
    ICL_TRY(icl_tensor_read(operands[0], out, error));
    ICL_TRY(icl_tensor_read(operands[1], log_sum_exp, error));
    ICL_TRY(compare(opencl, "softmax attention", out, expected, QUERIES * E, 1e-4F, error));
    ICL_TRY(
        compare(opencl, "softmax attention's log-sum-exp", log_sum_exp, expected_sum, QUERIES, 1e-4F, error));
done:
    for (int i = 0; i < 5; i++)
        icl_tensor_release(&operands[i]);
    return status;
}

/* ---- Random numbers, then their sum over an axis ---- */

enum { ROWS = 3, COLUMNS = 67 };

static icl_status test_random(icl_opencl *opencl, icl_error *error) {
    const icl_random_params params = {.key = {.seed = 1, .stream = 2, .step = UINT64_C(3) << 32},
                                      .first_index = 5,
                                      .distribution = ICL_NORMAL};
    float got[ROWS * COLUMNS], expected[ROWS * COLUMNS];
    icl_tensor numbers = {0};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        expected[i] = icl_random_value(&params, i);
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){ROWS, COLUMNS}, &numbers, error));
    ICL_TRY(icl_opencl_random_fill(opencl->backend, &params, &numbers, error));
    ICL_TRY(icl_tensor_read(numbers, got, error));
    ICL_TRY(compare(opencl, "random numbers", got, expected, ROWS * COLUMNS, 0, error));
done:
    icl_tensor_release(&numbers);
    return status;
}

static icl_status test_reduce(icl_opencl *opencl, icl_error *error) {
    const icl_reduce_params params = {ICL_SUM_OF_SQUARES, 2};
    float values[ROWS * COLUMNS], got[ROWS], expected[ROWS] = {0};
    icl_tensor operands[2] = {{0}};
    icl_status status = ICL_OK;

    fill_integers(values, ROWS * COLUMNS, 7);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        expected[i / COLUMNS] += values[i] * values[i];
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){ROWS, 1}, &operands[0], error));
    ICL_TRY(upload(opencl, 2, (const size_t[]){ROWS, COLUMNS}, values, &operands[1], error));
    ICL_TRY(icl_opencl_reduce(opencl->backend, &params, operands, error));
    ICL_TRY(icl_tensor_read(operands[0], got, error));
    ICL_TRY(compare(opencl, "sum of squares", got, expected, ROWS, 0, error));
done:
    icl_tensor_release(&operands[0]);
    icl_tensor_release(&operands[1]);
    return status;
}

/* ---- CLBlast ---- */

/* Where CLBlast was asked for, that is an error, which who opens a failed device nevertheless means to pass over. Otherwise our own
 * kernel takes its place, and the log says so. */
static icl_status refuse_clblast(icl_opencl *opencl, icl_status status, const icl_error *why,
                                 icl_error *error) {
    icl_clblast_forget();
    if (opencl->gemm == ICL_GEMM_CLBLAST)
        return icl_fail(error, status, "%s", why->message);
    opencl->clblast = status == ICL_ERROR_DEVICE ? ICL_CLBLAST_REFUSED : ICL_CLBLAST_UNTESTED;
    if (status != ICL_ERROR_DEVICE)
        return icl_fail(error, status, "%s", why->message);
    icl_log_write(&opencl->backend->log, ICL_LOG_WARNING, "%s; the native kernel serves instead",
                  why->message);
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
    fill_integers(a, left, 7);
    fill_integers(b, right, 3);
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){m, n}, &operands[0], error));
    ICL_TRY(upload(opencl, 2, (const size_t[]){m, k}, a, &operands[1], error));
    ICL_TRY(upload(opencl, 2, (const size_t[]){k, n}, b, &operands[2], error));
    ICL_TRY(icl_opencl_matmul_native(opencl, &params, operands, false, error));
    ICL_TRY(icl_tensor_read(operands[0], expected, error));
    ICL_TRY(icl_clblast_matmul(opencl, &params, operands, error));
    ICL_TRY(icl_tensor_read(operands[0], got, error));
    snprintf(what, sizeof what, "matrix product of %zu x %zu x %zu through CLBlast", m, k, n);
    ICL_TRY(compare(opencl, what, got, expected, count, 0, error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&operands[i]);
    icl_free(&values);
    return status;
}

/* No product of these extents is small enough for all devices to take the same of CLBlast's kernels as the first test did. */
#define SMALL_PRODUCT ((size_t)64 * 64 * 64)

/* Beyond this every device takes its kernels for large products, and sums of the test's whole numbers are exact up to it. */
#define MOST_TESTED ((size_t)2048)

static size_t tested_extent(size_t extent) {
    return extent < MOST_TESTED ? extent : MOST_TESTED;
}

/* CLBlast has one kind of kernels for small products and another for large ones, and which are large depends on the device. Those
 * before 1.6.3 gave wrong large products on some GPUs (its pull request 543). So each power of two of m n k is tested by its first
 * product. */
static icl_status test_class(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error) {
    const size_t extents[] = {tested_extent(m), tested_extent(n), tested_extent(k)};
    const size_t size = extents[0] * extents[1] * extents[2];
    icl_status status = ICL_OK;
    unsigned power = 0;

    while (size >> power > 1)
        power++;
    if (size <= SMALL_PRODUCT || opencl->clblast_tested >> power & 1u)
        return ICL_OK;
    ICL_TRY(test_extents(opencl, extents[0], extents[1], extents[2], error));
    opencl->clblast_tested |= UINT64_C(1) << power;
done:
    return status;
}

icl_status icl_opencl_test_clblast(icl_opencl *opencl, size_t m, size_t n, size_t k, icl_error *error) {
    icl_error why = {0};
    icl_status status = ICL_OK;

    if (opencl->clblast == ICL_CLBLAST_UNTESTED) {
        opencl->clblast = ICL_CLBLAST_SERVES;
        status = test_matmul(opencl, true, &why);
    }
    if (status == ICL_OK && opencl->clblast == ICL_CLBLAST_SERVES)
        status = test_class(opencl, m, n, k, &why);
    return status == ICL_OK ? ICL_OK : refuse_clblast(opencl, status, &why, error);
}

/* CLBlast compiles for seconds, so that it is tested before it is first used: here where it was asked for, else with the first
 * product that prefers it. */
static icl_status choose_clblast(icl_opencl *opencl, icl_error *error) {
    if (!ICL_HAVE_CLBLAST && opencl->gemm == ICL_GEMM_CLBLAST)
        return icl_fail(error, ICL_ERROR_INPUT,
                        "gemm clblast: this build has no CLBlast, expected auto or native");
    if (!ICL_HAVE_CLBLAST || opencl->gemm == ICL_GEMM_NATIVE)
        opencl->clblast = ICL_CLBLAST_REFUSED;
    return opencl->gemm == ICL_GEMM_CLBLAST ? icl_opencl_test_clblast(opencl, M, N, K, error) : ICL_OK;
}

icl_status icl_opencl_self_test(icl_opencl *opencl, icl_error *error) {
    icl_status status = ICL_OK;

    ICL_TRY(test_matmul(opencl, false, error));
    ICL_TRY(test_attention(opencl, error));
    ICL_TRY(test_reduce(opencl, error));
    ICL_TRY(test_random(opencl, error));
    ICL_TRY(choose_clblast(opencl, error));
done:
    return status;
}
