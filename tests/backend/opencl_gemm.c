/* Matrix products through CLBlast and through our own kernel give the same whole numbers for any layout. */
#include "backend/opencl/ops.h"
#include "config.h"
#include "iclab/ops.h"
#include "iclab/status.h"
#include "tap.h"

enum { M = 70, N = 50, K = 80, BATCH = 3 }; /* beyond what CLBlast's first test covers */

static icl_status integers(icl_backend *backend, int rank, const size_t *shape, uint32_t stream, icl_tensor *tensor,
                           icl_error *error) {
    const icl_random_params params = {
        .key = {.seed = 3, .stream = stream}, .distribution = ICL_CHOICE, .choice_count = 4, .choices = {-2, -1, 1, 3}};
    icl_status status = icl_tensor_create(backend, rank, shape, tensor, error);
    return status == ICL_OK ? icl_random_fill(backend, &params, *tensor, error) : status;
}

/* Computes out = 2 a b - out for a contiguous product, for one with both inputs transposed, and for a batch with a
 * shared b. */
static icl_status products(icl_backend *backend, float *values, icl_error *error) {
    icl_tensor a = {0}, b = {0}, out = {0}, a_batch = {0}, out_batch = {0};
    icl_status status = ICL_OK;

    ICL_TRY(integers(backend, 2, (const size_t[]){M, K}, 1, &a, error));
    ICL_TRY(integers(backend, 2, (const size_t[]){K, N}, 2, &b, error));
    ICL_TRY(integers(backend, 2, (const size_t[]){M, N}, 3, &out, error));
    ICL_TRY(integers(backend, 3, (const size_t[]){BATCH, M, K}, 4, &a_batch, error));
    ICL_TRY(integers(backend, 3, (const size_t[]){BATCH, M, N}, 5, &out_batch, error));
    ICL_TRY(icl_matmul(backend, out, 2, a, b, -1, error));
    ICL_TRY(icl_tensor_read(out, values, error));
    a = icl_tensor_reshape(a, 2, (const size_t[]){K, M});
    b = icl_tensor_reshape(b, 2, (const size_t[]){N, K});
    ICL_TRY(icl_matmul(backend, out, 2, icl_tensor_swap_axes(a, 0, 1), icl_tensor_swap_axes(b, 0, 1), -1, error));
    ICL_TRY(icl_tensor_read(out, values + M * N, error));
    ICL_TRY(icl_matmul(backend, icl_tensor_slice(out_batch, 1, 5, 40), 2, icl_tensor_slice(a_batch, 1, 0, 40),
                       icl_tensor_reshape(b, 2, (const size_t[]){K, N}), -1, error));
    ICL_TRY(icl_tensor_read(out_batch, values + 2 * M * N, error));
done:
    icl_tensor_release(&a);
    icl_tensor_release(&b);
    icl_tensor_release(&out);
    icl_tensor_release(&a_batch);
    icl_tensor_release(&out_batch);
    return status;
}

/* Compares batched products that CLBlast gets in parts with those that it gets whole. The numbers are whole, so that
 * the order of the sums does not matter. */
static void test_parts(tap_run *tap, icl_backend *backend) {
    enum { ROWS = 300, COLUMNS = 280, TERMS = 20 };
    static float whole[2 * ROWS * COLUMNS], parts[2 * ROWS * COLUMNS];
    icl_opencl *opencl = icl_opencl_of(backend);
    icl_tensor a = {0}, b = {0}, out = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;
    size_t launches[3] = {0}; /* the first includes CLBlast's test by known answers */

    ICL_TRY(integers(backend, 3, (const size_t[]){2, ROWS, TERMS}, 6, &a, &error));
    ICL_TRY(integers(backend, 3, (const size_t[]){2, TERMS, COLUMNS}, 7, &b, &error));
    ICL_TRY(integers(backend, 3, (const size_t[]){2, ROWS, COLUMNS}, 8, &out, &error));
    for (int i = 0; i < 3; i++) {
        const size_t before = icl_backend_get_statistics(backend).launches;
        opencl->clblast->operations = i < 2 ? 1e30 : 2.0 * 256 * 256 * TERMS;
        ICL_TRY(icl_matmul(backend, out, 2, a, b, 0, &error));
        launches[i] = icl_backend_get_statistics(backend).launches - before;
        ICL_TRY(icl_tensor_read(out, i < 2 ? whole : parts, &error));
    }
done:
    tap_status(tap, status, &error, "products in parts");
    tap_ok(tap, launches[1] == 1 && launches[2] == 2 * 3,
           "%zu launches, 1 when whole, 6 in parts: 256 x 256, 256 x 24 and 44 x 280 of each matrix", launches[2]);
    tap_ok(tap, memcmp(whole, parts, sizeof whole) == 0, "the same numbers in parts");
    opencl->clblast->operations = ICL_CLBLAST_OPERATIONS;
    icl_tensor_release(&a);
    icl_tensor_release(&b);
    icl_tensor_release(&out);
}

int main(int argc, char **argv) {
    static const char *const names[] = {"auto", "clblast", "native"};
    static float values[3][(2 + BATCH) * M * N];
    tap_run tap = {0};
    const char *spec = argc > 1 ? argv[1] : "opencl";
    icl_backend *backend = tap_open_device(&tap, spec);

    if (!backend)
        return tap_done(&tap);
    icl_backend_close(&backend);
    for (int gemm = 0; gemm < 3; gemm++) {
        icl_error error = {0};
        size_t different = 0;
        const icl_status opened = icl_backend_open(
            &(icl_backend_params){.spec = tap_device_spec(spec), .gemm = (icl_gemm)gemm}, &backend, &error);
        if (!ICL_HAVE_CLBLAST && gemm == ICL_GEMM_CLBLAST) {
            tap_ok(&tap, opened == ICL_ERROR_INPUT, "without CLBlast, asking for it is refused: %s", error.message);
            memcpy(values[gemm], values[0], sizeof values[0]);
        } else if (tap_status(&tap, opened, &error, names[gemm])) {
            tap_status(&tap, products(backend, values[gemm], &error), &error, "products");
            if (gemm == ICL_GEMM_CLBLAST) {
                tap_ok(&tap, icl_opencl_of(backend)->clblast->tested != 0,
                       "a large product was tested before it was used");
                test_parts(&tap, backend);
            }
        }
        icl_backend_close(&backend);
        for (size_t i = 0; i < sizeof values[0] / sizeof *values[0]; i++)
            different += values[gemm][i] != values[0][i];
        tap_ok(&tap, different == 0, "gemm %s gives the same numbers", names[gemm]);
    }
    return tap_done(&tap);
}
