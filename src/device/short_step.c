/* A training step as users take it: the fused gradient of a linear transformer and the optimizer's step. */
#include "device/short_step.h"

#include "backend/contract.h"
#include "iclab/host.h"
#include "iclab/status.h"

enum { BATCH = 2048, INPUTS = 20, CONTEXT = 20, LAYERS = 4, MOST_TURNS = 5 };

#define MOST_SECONDS .3 /* of all turns, unless the first is longer */

static const icl_linear_transformer_params model = {
    .parameterization = ICL_LINEAR_FULL, .layers = LAYERS, .factor = 1.0 / CONTEXT, .space = ICL_SPACE_GRAM};
static const icl_update_params adam = {
    .kind = ICL_UPDATE_ADAM, .adam = {.learning_rate = 1e-4, .beta1 = .9, .beta2 = .999, .epsilon = 1e-8, .step = 1}};

/* Vectors of parameters, then of sequences, then what has a shape of its own. */
enum { PARAMETERS, FIRST, SECOND, GRADIENT, LOSSES, TARGETS, MEASURES, TOKENS, COUNT };

static icl_status create(icl_backend *backend, icl_tensor tensors[COUNT], icl_error *error) {
    const size_t size = icl_linear_transformer_size(&model, INPUTS);
    const size_t lengths[] = {size, size, size, size, BATCH, BATCH, 3};
    const size_t shape[] = {BATCH, CONTEXT + 1, INPUTS + 1};

    for (int i = 0; i < COUNT; i++) {
        const icl_random_params normal = {.key = {.seed = 1, .stream = (uint32_t)i}, .distribution = ICL_NORMAL};
        ICL_CHECK(i == TOKENS ? icl_tensor_create(backend, 3, shape, &tensors[i], error)
                              : icl_tensor_create(backend, 1, &lengths[i], &tensors[i], error));
        ICL_CHECK(icl_random_fill(backend, &normal, tensors[i], error));
    }
    ICL_CHECK(icl_scale_add(backend, tensors[PARAMETERS], .02, tensors[PARAMETERS], 0, (icl_tensor){0}, error));
    return icl_fill(backend, tensors[SECOND], 1, error);
}

static icl_status step(icl_backend *backend, const icl_tensor t[COUNT], icl_error *error) {
    const icl_tensor none = {0}, states[2] = {t[FIRST], t[SECOND]};

    ICL_CHECK(icl_linear_transformer_gradient(backend, &model, t[LOSSES], t[GRADIENT], none, t[PARAMETERS], t[TOKENS],
                                              none, none, t[TARGETS], none, error));
    ICL_CHECK(icl_update_step(backend, &adam, t[PARAMETERS], states, t[MEASURES], none, t[GRADIENT], t[LOSSES], none,
                              none, error));
    return icl_backend_sync(backend, error);
}

icl_status icl_time_short_step(icl_backend *backend, double *seconds, icl_error *error) {
    const icl_backend_statistics before = backend->statistics;
    icl_tensor tensors[COUNT] = {{0}};
    icl_status status = ICL_OK;

    ICL_TRY(create(backend, tensors, error));
    ICL_TRY(step(backend, tensors, error));
    const double begin = icl_clock_seconds();
    for (int turn = 0; turn < MOST_TURNS && (turn == 0 || icl_clock_seconds() - begin < MOST_SECONDS); turn++) {
        const double start = icl_clock_seconds();
        ICL_TRY(step(backend, tensors, error));
        const double taken = icl_clock_seconds() - start;
        *seconds = turn == 0 || taken < *seconds ? taken : *seconds;
    }
done:
    for (int i = 0; i < COUNT; i++)
        icl_tensor_release(&tensors[i]);
    backend->statistics.ops = before.ops;
    backend->statistics.fallbacks = before.fallbacks;
    backend->statistics.launches = before.launches;
    backend->statistics.device_seconds = before.device_seconds;
    return status;
}
