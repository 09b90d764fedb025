/* The end of a training step: loss, norm, clipping, optimizer, threshold. */
#include <math.h>
#include <stdbool.h>

#include "backend/cpu/host.h"

/* update_step's operands. */
enum { PARAMETERS = 0, FIRST, SECOND, MEASURES, THRESHOLD, GRADIENT, LOSSES, NORMS, DECAYS };

#define SUMS 64 /* as ops.h promises */

/* sum_i scale x_i, or sum_i (scale x_i)^2. */
static real sum_of(const icl_tensor *x, real scale, bool is_squared) {
    const real *elements = host_elements(x);
    const size_t count = x->shape[0], stride = x->stride[0];
    real sums[SUMS] = {0};

    for (size_t first = 0; first < count; first += SUMS) {
        const size_t last = count - first < SUMS ? count - first : SUMS;
        for (size_t i = 0; i < last; i++) {
            const real term = elements[(first + i) * stride] * scale;
            sums[i] += is_squared ? term * term : term;
        }
    }
    for (size_t half = SUMS / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

icl_status HOST(update_step)(icl_backend *backend, const void *params, const icl_tensor *operands, icl_error *error) {
    const icl_update_params *given = params;
    const icl_tensor *measures = &operands[MEASURES], *losses = &operands[LOSSES];
    const real norm = REAL_SQRT(sum_of(&operands[GRADIENT], (real)0x1p-32, true)) * (real)0x1p32;
    const real limit = (real)given->clip, factor = limit > 0 && norm > limit ? limit / norm : 1;
    const real share_of_one = (real)(1 / (double)losses->shape[0]);
    real dropped = 0;
    (void)error;

    if (operands[THRESHOLD].buffer)
        dropped = HOST(follow_threshold)(given->fraction, &operands[NORMS], host_elements(&operands[THRESHOLD]));
    const real values[3] = {sum_of(losses, 1, false) * share_of_one, norm, dropped};
    for (size_t i = 0; i < 3; i++)
        host_elements(measures)[i * measures->stride[0]] = values[i];
    if (!isfinite(norm))
        return ICL_OK;
    if (given->kind == ICL_UPDATE_ADAM) {
        const icl_tensor vectors[5] = {operands[PARAMETERS], operands[FIRST], operands[SECOND], operands[GRADIENT],
                                       operands[DECAYS]};
        HOST(step_adam)(backend, &given->adam, factor, vectors);
    } else {
        const icl_tensor vectors[3] = {operands[PARAMETERS], operands[FIRST], operands[GRADIENT]};
        HOST(step_sgd)(backend, &given->sgd, factor, vectors);
    }
    return ICL_OK;
}
