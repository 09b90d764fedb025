/* Optimizer steps and the thresholds of clipping. Constants are formed in double and rounded to
 * the element type once. */
#include <math.h>
#include <stdbool.h>

#include "backend/cpu/host.h"

static void step_adam(icl_backend *backend, const icl_adam_params *params, real factor, const icl_tensor operands[5]) {
    const HOST(adam_constants) constants = {
        .keep = (real)(1 - params->learning_rate * params->weight_decay),
        .beta1 = (real)params->beta1,
        .one_minus_beta1 = (real)(1 - params->beta1),
        .beta2 = (real)params->beta2,
        .one_minus_beta2 = (real)(1 - params->beta2),
        .correction1 = (real)(1 - pow(params->beta1, (double)params->step)),
        .correction2 = (real)(1 - pow(params->beta2, (double)params->step)),
        .learning_rate = (real)params->learning_rate,
        .epsilon = (real)params->epsilon,
        .factor = factor,
    };
    const HOST(kernels) *kernels = host_state(backend)->kernels;
    const bool masked = operands[4].buffer != NULL;

    HOST(elementwise)
    (backend, masked ? kernels->adam_step_masked : kernels->adam_step, &constants, operands, masked ? 5 : 4);
}

static void step_sgd(icl_backend *backend, const icl_sgd_params *params, real factor, const icl_tensor operands[3]) {
    const HOST(sgd_constants) constants = {
        .momentum = (real)params->momentum, .learning_rate = (real)params->learning_rate, .factor = factor};
    HOST(elementwise)(backend, host_state(backend)->kernels->sgd_step, &constants, operands, 3);
}

/* ---- Thresholds ---- */

#define SUMS 64 /* as ops.h promises */

/* Returns the sum of the finite norms, each times `factor`. */
static real sum_of_finite(const icl_tensor *norms, real factor) {
    const real *norm = host_elements(norms);
    real sums[SUMS] = {0};

    for (size_t i = 0; i < norms->shape[0]; i++)
        if (isfinite(norm[i * norms->stride[0]]))
            sums[i % SUMS] += norm[i * norms->stride[0]] * factor;
    for (size_t half = SUMS / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            sums[i] += sums[i + half];
    return sums[0];
}

static real follow_threshold(double fraction, const icl_tensor *norms, real *threshold) {
    const real *norm = host_elements(norms);
    const size_t count = norms->shape[0], stride = norms->stride[0];
    const real share_of_one = (real)(1 / (fraction * (double)count));
    size_t finite = 0, above = 0;

    for (size_t i = 0; i < count; i++) {
        finite += isfinite(norm[i * stride]) ? 1 : 0;
        above += isfinite(norm[i * stride]) && norm[i * stride] > *threshold ? 1 : 0;
    }
    if (*threshold > 0) {
        const real excess = (real)above * share_of_one - 1, most = (real)ICL_THRESHOLD_LEAP;
        *threshold *= REAL_EXP((real)ICL_THRESHOLD_RATE * (excess < most ? excess : most));
    } else if (finite > 0) {
        *threshold = (real)ICL_THRESHOLD_FIRST * sum_of_finite(norms, 1 / (real)finite);
    }
    return (real)(count - finite);
}

icl_status HOST(track_threshold)(icl_backend *backend, const void *params, const icl_tensor *operands,
                                 icl_error *error) {
    (void)backend;
    (void)error;
    *host_elements(&operands[1]) = follow_threshold(*(const double *)params, &operands[2], host_elements(&operands[0]));
    return ICL_OK;
}

/* ---- The end of a training step: loss, norm, clipping, optimizer, threshold ---- */

/* update_step's operands. */
enum { PARAMETERS = 0, FIRST, SECOND, MEASURES, THRESHOLD, GRADIENT, LOSSES, NORMS, DECAYS };

/* Returns sum_i scale x_i, or sum_i (scale x_i)^2. */
static real sum_of(const icl_tensor *tensor, real scale, bool is_squared) {
    const real *elements = host_elements(tensor);
    const size_t count = tensor->shape[0], stride = tensor->stride[0];
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
        dropped = follow_threshold(given->fraction, &operands[NORMS], host_elements(&operands[THRESHOLD]));
    const real values[3] = {sum_of(losses, 1, false) * share_of_one, norm, dropped};
    for (size_t i = 0; i < 3; i++)
        host_elements(measures)[i * measures->stride[0]] = values[i];
    if (!isfinite(norm))
        return ICL_OK;
    if (given->kind == ICL_UPDATE_ADAM) {
        const icl_tensor vectors[5] = {operands[PARAMETERS], operands[FIRST], operands[SECOND], operands[GRADIENT],
                                       operands[DECAYS]};
        step_adam(backend, &given->adam, factor, vectors);
    } else {
        const icl_tensor vectors[3] = {operands[PARAMETERS], operands[FIRST], operands[GRADIENT]};
        step_sgd(backend, &given->sgd, factor, vectors);
    }
    return ICL_OK;
}
