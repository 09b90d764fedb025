/* A build with -Dperturbed=true rounds differently with each seed. If it did not, `tools/check perturbed` would show
 * nothing. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "backend/host_spec.h"
#include "iclab/ops.h"
#include "tap.h"

enum { COUNT = 64 };

/* Computes exp(x) and -x of COUNT numbers, in rows of `columns`, under the seed; NULL: no seed. The results are stored
 * column by column. */
static bool compute(icl_backend *backend, const char *seed, size_t columns, float exponentials[COUNT],
                    float negatives[COUNT]) {
    const size_t shape[] = {COUNT / columns, columns};
    icl_tensor x = {0}, y = {0};
    icl_error error = {0};
    icl_status status = ICL_OK;
    float values[COUNT];

    for (size_t i = 0; i < COUNT; i++)
        values[i] = (float)i / COUNT;
    (void)(seed ? setenv("ICLAB_PERTURB", seed, 1) : unsetenv("ICLAB_PERTURB"));
    ICL_TRY(icl_tensor_create(backend, 2, shape, &x, &error));
    ICL_TRY(icl_tensor_create(backend, 2, shape, &y, &error));
    y.stride[0] = 1;
    y.stride[1] = shape[0];
    ICL_TRY(icl_tensor_write(x, values, &error));
    ICL_TRY(icl_unary(backend, ICL_EXPONENTIAL, y, x, &error));
    ICL_TRY(icl_tensor_read(y, exponentials, &error));
    ICL_TRY(icl_unary(backend, ICL_NEGATE, y, x, &error));
    ICL_TRY(icl_tensor_read(y, negatives, &error));
done:
    icl_tensor_release(&x);
    icl_tensor_release(&y);
    return status == ICL_OK;
}

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "cpu");
    float plain[COUNT], one[COUNT], tall[COUNT], wide[COUNT], two[COUNT], exact[COUNT], negatives[COUNT];

    if (backend && tap_ok(&tap,
                          compute(backend, NULL, COUNT, plain, exact) && compute(backend, "2", COUNT, two, negatives) &&
                              compute(backend, "1", COUNT, one, negatives) &&
                              compute(backend, "1", 4, tall, negatives) && compute(backend, "1", 16, wide, negatives),
                          "exponentials are computed by two seeds and by none")) {
        size_t moved = 0, far = 0;
        for (size_t i = 0; i < COUNT; i++) {
            moved += one[i] != plain[i];
            far += !(fabsf(one[i] - plain[i]) <= 2.5F * FLT_EPSILON * plain[i]);
        }
        tap_ok(&tap, moved > COUNT / 2 && far == 0, "a seed moves %zu of %d of them, by two units at most", moved,
               COUNT);
        tap_ok(&tap, memcmp(one, tall, sizeof one) == 0 && memcmp(one, wide, sizeof one) == 0,
               "a seed repeats its bits, whatever the shape and the strides");
        tap_ok(&tap, memcmp(one, two, sizeof one) != 0, "another seed has other ones");
        tap_ok(&tap, memcmp(exact, negatives, sizeof exact) == 0, "an op that rounds in one way only is left alone");
    }
    setenv("ICLAB_PERTURB_ISA", "base", 1);
    tap_ok(&tap, icl_machine_isa() == ICL_ISA_BASE, "the processor can be taken for a lesser one");
    icl_backend_close(&backend);
    return tap_done(&tap);
}
