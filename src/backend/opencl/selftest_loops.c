/* Known answers, computed here by plain loops, and how answers are compared. */
#include <math.h>

#include "backend/opencl/clblast.h"
#include "backend/opencl/ops.h"
#include "backend/opencl/selftest.h"

icl_status icl_self_test_compare(const icl_opencl *opencl, const char *what, const float *got, const float *expected,
                                 size_t count, float tolerance, icl_error *error) {
    /* OpenCL 1.2 (5.6.4.2) lifts every promise of section 7.4 from relaxed functions, so that no bound follows from it:
     * Intel's exp on CPUs is off by 3e-4. A wrong formula or a miscompiled kernel is off by more than a thousandth. */
    const float allowed = opencl->fast_math ? 10 * tolerance : tolerance;

    for (size_t i = 0; i < count; i++)
        if (!(fabsf(got[i] - expected[i]) <= allowed * (1 + fabsf(expected[i]))))
            return icl_fail(error, ICL_ERROR_DEVICE, "self-test of %s: %s: element %zu is %.9g, expected %.9g",
                            opencl->backend->capabilities.name, what, i, (double)got[i], (double)expected[i]);
    return ICL_OK;
}

void icl_self_test_integers(float *values, size_t count, size_t step) {
    for (size_t i = 0; i < count; i++)
        values[i] = (float)(i * step % 11) - 5.0F;
}

icl_status icl_self_test_upload(icl_opencl *opencl, int rank, const size_t *shape, const float *values,
                                icl_tensor *tensor, icl_error *error) {
    icl_status status = icl_tensor_create(opencl->backend, rank, shape, tensor, error);
    return status == ICL_OK ? icl_tensor_write(*tensor, values, error) : status;
}

/* ---- Matrix product ---- */

enum { M = 37, N = 35, K = 41 };

icl_status icl_self_test_matmul(icl_opencl *opencl, bool clblast, icl_error *error) {
    const char *what = clblast ? "matmul through CLBlast" : "matmul";
    const icl_matmul_params params = {.alpha = 2, .beta = 0};
    float a[M * K], b[K * N], expected[M * N], got[M * N];
    icl_tensor operands[3] = {{0}};
    icl_status status = ICL_OK;

    icl_self_test_integers(a, M * K, 7);
    icl_self_test_integers(b, K * N, 3);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < N; j++) {
            float sum = 0;
            for (size_t l = 0; l < K; l++)
                sum += a[i * K + l] * b[l * N + j];
            expected[i * N + j] = 2 * sum;
        }
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){M, N}, &operands[0], error));
    ICL_TRY(icl_self_test_upload(opencl, 2, (const size_t[]){M, K}, a, &operands[1], error));
    ICL_TRY(icl_self_test_upload(opencl, 2, (const size_t[]){K, N}, b, &operands[2], error));
    ICL_TRY(clblast ? icl_clblast_matmul(opencl, &params, operands, error)
                    : icl_opencl_matmul_native(opencl, &params, operands, false, error));
    ICL_TRY(icl_tensor_read(operands[0], got, error));
    ICL_TRY(icl_self_test_compare(opencl, what, got, expected, M * N, 0, error));
done:
    for (int i = 0; i < 3; i++)
        icl_tensor_release(&operands[i]);
    return status;
}

/*
 * A strict product that a fused multiply-add would change, whichever product it takes in: x x = 1 + 2^-11 + 2^-24
 * rounds to r = 1 + 2^-11, so that x x - r and -r + x x vanish only where every product is rounded. What stays is a
 * small last term.
 */
static icl_status test_strict(icl_opencl *opencl, icl_error *error) {
    enum { HEIGHT = 2, WIDTH = 3, TERMS = 5 };
    const float x = 1 + 0x1p-12F, r = 1 + 0x1p-11F;
    const float left[TERMS] = {x, -r, -r, x, 0x1p-20F}, right[TERMS] = {x, 1, 1, x, 1};
    float a[HEIGHT * TERMS], b[TERMS * WIDTH], expected[HEIGHT * WIDTH], got[HEIGHT * WIDTH];
    icl_tensor operands[3] = {{0}};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < HEIGHT * TERMS; i++)
        a[i] = left[i % TERMS] * (float)(1u << i / TERMS);
    for (size_t i = 0; i < TERMS * WIDTH; i++)
        b[i] = right[i / WIDTH] * (float)(1u << i % WIDTH);
    for (size_t i = 0; i < HEIGHT * WIDTH; i++)
        expected[i] = 0x1p-20F * (float)(1u << (i / WIDTH + i % WIDTH));
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){HEIGHT, WIDTH}, &operands[0], error));
    ICL_TRY(icl_self_test_upload(opencl, 2, (const size_t[]){HEIGHT, TERMS}, a, &operands[1], error));
    ICL_TRY(icl_self_test_upload(opencl, 2, (const size_t[]){TERMS, WIDTH}, b, &operands[2], error));
    ICL_TRY(icl_opencl_matmul_strict(opencl->backend, NULL, operands, error));
    ICL_TRY(icl_tensor_read(operands[0], got, error));
    ICL_TRY(icl_self_test_compare(opencl, "matmul_strict", got, expected, HEIGHT * WIDTH, 0, error));
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

    icl_self_test_integers(q, QUERIES * D, 7);
    icl_self_test_integers(k, KEYS * D, 3);
    icl_self_test_integers(v, KEYS * E, 5);
    for (size_t i = 0; i < QUERIES; i++)
        attention_row(i, q + i * D, k, v, (float)params.scale, expected + i * E, &expected_sum[i]);
    ICL_TRY(icl_tensor_create(opencl->backend, 4, (const size_t[]){1, 1, QUERIES, E}, &operands[0], error));
    ICL_TRY(icl_tensor_create(opencl->backend, 4, (const size_t[]){1, 1, QUERIES, 1}, &operands[1], error));
    ICL_TRY(icl_self_test_upload(opencl, 4, (const size_t[]){1, 1, QUERIES, D}, q, &operands[2], error));
    ICL_TRY(icl_self_test_upload(opencl, 4, (const size_t[]){1, 1, KEYS, D}, k, &operands[3], error));
    ICL_TRY(icl_self_test_upload(opencl, 4, (const size_t[]){1, 1, KEYS, E}, v, &operands[4], error));
    ICL_TRY(icl_opencl_attention_forward(opencl->backend, &params, operands, error));
    ICL_TRY(icl_tensor_read(operands[0], out, error));
    ICL_TRY(icl_tensor_read(operands[1], log_sum_exp, error));
    ICL_TRY(icl_self_test_compare(opencl, "attention_forward: softmax", out, expected, QUERIES * E, 1e-4F, error));
    ICL_TRY(icl_self_test_compare(opencl, "attention_forward: log-sum-exp of softmax", log_sum_exp, expected_sum,
                                  QUERIES, 1e-4F, error));
done:
    for (int i = 0; i < 5; i++)
        icl_tensor_release(&operands[i]);
    return status;
}

/* ---- Random numbers, then their sum over an axis ---- */

enum { ROWS = 3, COLUMNS = 67 };

static icl_status test_random(icl_opencl *opencl, icl_distribution distribution, icl_error *error) {
    const icl_random_params params = {.key = {.seed = 1, .stream = 2, .step = UINT64_C(3) << 32},
                                      .first_index = 5,
                                      .distribution = distribution,
                                      .low = -1.5F,
                                      .high = 2.7F};
    const char *what = distribution == ICL_NORMAL ? "random_fill: normal numbers" : "random_fill: uniform numbers";
    float got[ROWS * COLUMNS], expected[ROWS * COLUMNS];
    icl_tensor numbers = {0};
    icl_status status = ICL_OK;

    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        expected[i] = icl_random_value(&params, i);
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){ROWS, COLUMNS}, &numbers, error));
    ICL_TRY(icl_opencl_random_fill(opencl->backend, &params, &numbers, error));
    ICL_TRY(icl_tensor_read(numbers, got, error));
    ICL_TRY(icl_self_test_compare(opencl, what, got, expected, ROWS * COLUMNS, 0, error));
done:
    icl_tensor_release(&numbers);
    return status;
}

static icl_status test_reduce(icl_opencl *opencl, icl_error *error) {
    const icl_reduce_params params = {ICL_SUM_OF_SQUARES, 2};
    float values[ROWS * COLUMNS], got[ROWS], expected[ROWS] = {0};
    icl_tensor operands[2] = {{0}};
    icl_status status = ICL_OK;

    icl_self_test_integers(values, ROWS * COLUMNS, 7);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        expected[i / COLUMNS] += values[i] * values[i];
    ICL_TRY(icl_tensor_create(opencl->backend, 2, (const size_t[]){ROWS, 1}, &operands[0], error));
    ICL_TRY(icl_self_test_upload(opencl, 2, (const size_t[]){ROWS, COLUMNS}, values, &operands[1], error));
    ICL_TRY(icl_opencl_reduce(opencl->backend, &params, operands, error));
    ICL_TRY(icl_tensor_read(operands[0], got, error));
    ICL_TRY(icl_self_test_compare(opencl, "reduce: sum of squares", got, expected, ROWS, 0, error));
done:
    icl_tensor_release(&operands[0]);
    icl_tensor_release(&operands[1]);
    return status;
}

icl_status icl_self_test_by_loops(icl_opencl *opencl, icl_error *error) {
    ICL_CHECK(icl_self_test_matmul(opencl, false, error));
    ICL_CHECK(test_strict(opencl, error));
    ICL_CHECK(test_attention(opencl, error));
    ICL_CHECK(test_reduce(opencl, error));
    ICL_CHECK(test_random(opencl, ICL_UNIFORM, error));
    return test_random(opencl, ICL_NORMAL, error);
}
