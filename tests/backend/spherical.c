/* icl_spherical, whose bits the conformance cases define, is r x / ||x||: checked against double precision. */
#include <math.h>

#include "iclab/ops.h"
#include "iclab/status.h"
#include "tap.h"

enum { ROWS = 4096, LONGEST = 40 };

static const double UNIT = 0x1p-24;

/* Returns the largest relative error of a row of x, times its radius; roughly in units of gamma(d / 2 + 10). */
static double worst_error(const float *x, const float *out, size_t d, double radius) {
    double worst = 0;
    for (size_t row = 0; row < ROWS; row++) {
        double square = 0;
        for (size_t k = 0; k < d; k++)
            square += (double)x[row * d + k] * (double)x[row * d + k];
        for (size_t k = 0; k < d; k++) {
            const double exact = radius * (double)x[row * d + k] / sqrt(square);
            worst = fmax(worst, fabs((double)out[row * d + k] - exact) / fabs(exact));
        }
    }
    return worst / (((double)d / 2 + 10) * UNIT);
}

/* Runs with a table whose polynomials are the constant L, so that r = 2^L for any normal. */
static icl_status run(icl_backend *backend, size_t d, double exponent, double *worst, icl_error *error) {
    const icl_random_params normals = {.key = {3, 4, 5}, .distribution = ICL_NORMAL};
    static float x[ROWS * LONGEST], out[ROWS * LONGEST];
    icl_tensor rows = {0}, radii = {0}, table = {0};
    icl_status status;

    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){ROWS, d}, &rows, error));
    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){ROWS, 1}, &radii, error));
    ICL_TRY(icl_tensor_create(backend, 2, (size_t[]){ICL_CHI_PIECES, ICL_CHI_TERMS}, &table, error));
    ICL_TRY(icl_random_fill(backend, &normals, rows, error));
    ICL_TRY(icl_random_fill(backend, &normals, radii, error));
    ICL_TRY(icl_fill(backend, table, 0, error));
    ICL_TRY(icl_fill(backend, icl_tensor_slice(table, 1, 0, 1), exponent, error));
    ICL_TRY(icl_tensor_read(rows, x, error));
    ICL_TRY(icl_spherical(backend, rows, rows, radii, table, error));
    ICL_TRY(icl_tensor_read(rows, out, error));
    *worst = worst_error(x, out, d, exp2((double)(float)exponent));
done:
    icl_tensor_release(&rows);
    icl_tensor_release(&radii);
    icl_tensor_release(&table);
    return status;
}

int main(void) {
    static const size_t lengths[] = {1, 2, 5, LONGEST};
    static const double exponents[] = {0, 0.5, -0.4999, 7.3, -11.71, 61.9, -62};
    tap_run tap = {0};
    icl_backend *backend = NULL;
    icl_error error = {0};

    if (tap_status(&tap, icl_backend_open(&(icl_backend_params){.spec = "cpu"}, &backend, &error), &error, "open"))
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            for (size_t j = 0; j < sizeof exponents / sizeof *exponents; j++) {
                double worst = 0;
                if (tap_status(&tap, run(backend, lengths[i], exponents[j], &worst, &error), &error, "run"))
                    tap_ok(&tap, worst < 1, "d = %zu, r = 2^%g: %.2f of the bound", lengths[i], exponents[j], worst);
            }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
