/* Matrix products through CLBlast and through our own kernel: the same whole numbers, whatever the layout. */
#include "backend/opencl/opencl.h"
#include "config.h"
#include "core/status.h"
#include "iclab/ops.h"
#include "tap.h"

enum { M = 70, N = 50, K = 80, BATCH = 3 }; /* beyond what CLBlast's first test covers */

static icl_status integers(icl_backend *backend, int rank, const size_t *shape, uint32_t stream,
                           icl_tensor *tensor, icl_error *error) {
    const icl_random_params params = {.key = {.seed = 3, .stream = stream},
                                      .distribution = ICL_CHOICE,
                                      .choice_count = 4,
                                      .choices = {-2, -1, 1, 3}};
    icl_status status = icl_tensor_create(backend, rank, shape, tensor, error);
    return status == ICL_OK ? icl_random_fill(backend, &params, *tensor, error) : status;
}

/* out = 2 a b - out for a contiguous product, one with both inputs transposed, and a batch with a shared b. */
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
    ICL_TRY(
        icl_matmul(backend, out, 2, icl_tensor_swap_axes(a, 0, 1), icl_tensor_swap_axes(b, 0, 1), -1, error));
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
            tap_ok(&tap, opened == ICL_ERROR_INPUT, "without CLBlast, asking for it is refused: %s",
                   error.message);
            memcpy(values[gemm], values[0], sizeof values[0]);
        } else if (tap_status(&tap, opened, &error, names[gemm])) {
            tap_status(&tap, products(backend, values[gemm], &error), &error, "products");
            if (gemm == ICL_GEMM_CLBLAST)
                tap_ok(&tap, icl_opencl_of(backend)->clblast_tested != 0,
                       "a large product was tested before it was used");
        }
        icl_backend_close(&backend);
        for (size_t i = 0; i < sizeof values[0] / sizeof *values[0]; i++)
            different += values[gemm][i] != values[0][i];
        tap_ok(&tap, different == 0, "gemm %s gives the same numbers", names[gemm]);
    }
    return tap_done(&tap);
}
