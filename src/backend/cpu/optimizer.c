/* Clipping and optimizer steps. Constants are formed in double and rounded to the element type once. */
#include "backend/cpu/host.h"

icl_status HOST(clip)(icl_backend *backend, const void *params, const icl_tensor *operands,
                      icl_error *error) {
    const real limit = (real) * (const double *)params;
    const real norm = *host_elements(&operands[1]);
    const real factor = limit / norm;
    const icl_tensor in_place[2] = {operands[0], operands[0]};
    (void)error;
    /* Also false for a NaN. */
    if (factor < 1)
        HOST(elementwise)(backend, host_state(backend)->kernels->scale, &factor, in_place, 2);
    return ICL_OK;
}

icl_status HOST(adam_step)(icl_backend *backend, const void *params, const icl_tensor *operands,
                           icl_error *error) {
    const icl_adam_params *given = params;
    const HOST(adam_constants) constants = {
        .keep = (real)(1 - given->learning_rate * given->weight_decay),
        .beta1 = (real)given->beta1,
        .one_minus_beta1 = (real)(1 - given->beta1),
        .beta2 = (real)given->beta2,
        .one_minus_beta2 = (real)(1 - given->beta2),
        .correction1 = (real)(1 - pow(given->beta1, (double)given->step)),
        .correction2 = (real)(1 - pow(given->beta2, (double)given->step)),
        .learning_rate = (real)given->learning_rate,
        .epsilon = (real)given->epsilon,
    };
    (void)error;
    HOST(elementwise)(backend, host_state(backend)->kernels->adam_step, &constants, operands, 4);
    return ICL_OK;
}

icl_status HOST(sgd_step)(icl_backend *backend, const void *params, const icl_tensor *operands,
                          icl_error *error) {
    const icl_sgd_params *given = params;
    const real constants[2] = {(real)given->momentum, (real)given->learning_rate};
    (void)error;
    HOST(elementwise)(backend, host_state(backend)->kernels->sgd_step, constants, operands, 3);
    return ICL_OK;
}
