/* A model's fixture for the ops of whole linear transformers, and the results of the same model on the tape. */
#ifndef ICLAB_TESTS_MODEL_FUSED_H
#define ICLAB_TESTS_MODEL_FUSED_H

#include "fixture.h"

#define MAX_PARAMETERS 20000
#define MAX_TOKENS     6144
#define MAX_BATCH      140

typedef enum given { GIVEN_TOKENS, GIVEN_TOKENS_FOR_GRAM, GIVEN_GRAM, GIVEN_COUNT } given;

static const char *const given_names[] = {"tokens", "tokens for Gram space", "a Gram matrix"};

/* A model's fixture, with the other tensors that the ops take. */
typedef struct fused {
    model_fixture model;
    icl_linear_transformer_params params;
    given given;
    icl_tensor gram, query, targets, threshold, predictions, losses, norms;
} fused;

static inline void create_tensors(fused *f) {
    const setting *config = &f->model.is;
    const size_t D = config->dimension + 1, gram[] = {config->batch, D, D}, one = 1;
    icl_tensor *const vectors[] = {&f->targets, &f->predictions, &f->losses, &f->norms};

    tap_need(icl_tensor_create(f->model.backend, 3, gram, &f->gram, tap_error()));
    tap_need(icl_tensor_create(f->model.backend, 2, gram, &f->query, tap_error()));
    tap_need(icl_tensor_create(f->model.backend, 1, &one, &f->threshold, tap_error()));
    for (int i = 0; i < 4; i++)
        tap_need(icl_tensor_create(f->model.backend, 1, &config->batch, vectors[i], tap_error()));
}

/* Computes G by the generic ops and copies the query, as a sampler of Gram matrices would give them. */
static inline void fill_gram(fused *f) {
    const setting *config = &f->model.is;
    const icl_tensor context = icl_tensor_slice(f->model.tokens, 1, 0, config->context);
    const icl_tensor query = icl_tensor_slice(f->model.tokens, 1, config->context, 1);

    tap_need(
        icl_matmul(f->model.backend, f->gram, 1.0, icl_tensor_swap_axes(context, 1, 2), context, 0.0, tap_error()));
    tap_need(icl_copy(f->model.backend,
                      icl_tensor_reshape(f->query, 3, (const size_t[]){config->batch, 1, config->dimension + 1}), query,
                      tap_error()));
}

static inline void fused_open(fused *f, icl_backend *backend, const setting *config, size_t depth, given how) {
    float values[MAX_PARAMETERS], tokens[MAX_TOKENS];

    *f = (fused){.given = how};
    fixture_open(&f->model, backend, config);
    f->params = (icl_linear_transformer_params){
        .parameterization = (icl_parameterization)config->parameterization,
        .layers = config->layers,
        .depth = depth,
        .heads = config->heads,
        .factor = config->mean ? 1.0 / (double)config->context : 1.0,
        .space = how == GIVEN_TOKENS ? ICL_SPACE_TOKENS : ICL_SPACE_GRAM,
    };
    create_tensors(f);
    fill_parameters(f->model.model, config, values);
    fill_tokens(tokens, config);
    fixture_write(&f->model, values, tokens);
    tap_need(icl_fill(backend, f->targets, TARGET, tap_error()));
    fill_gram(f);
}

static inline void fused_close(fused *f) {
    icl_tensor *const own[] = {&f->gram, &f->query, &f->targets, &f->threshold, &f->predictions, &f->losses, &f->norms};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        icl_tensor_release(own[i]);
    fixture_close(&f->model);
}

static inline icl_status try_gradient(fused *f, icl_tensor threshold, icl_error *error) {
    const bool is_gram = f->given == GIVEN_GRAM;
    const icl_tensor none = {0};
    return icl_linear_transformer_gradient(f->model.backend, &f->params, f->losses, f->model.gradient, f->norms,
                                           f->model.parameters, is_gram ? none : f->model.tokens,
                                           is_gram ? f->gram : none, is_gram ? f->query : none, f->targets, threshold,
                                           error);
}

static inline void run_gradient(fused *f, icl_tensor threshold) {
    tap_need(try_gradient(f, threshold, tap_error()));
}

static inline void run_predict(fused *f, double *predictions) {
    const bool is_gram = f->given == GIVEN_GRAM;
    const icl_tensor none = {0};

    tap_need(icl_linear_transformer_predict(f->model.backend, &f->params, f->predictions, f->model.parameters,
                                            is_gram ? none : f->model.tokens, is_gram ? f->gram : none,
                                            is_gram ? f->query : none, tap_error()));
    tap_need(icl_tensor_read_double(f->predictions, predictions, tap_error()));
}

/* Computes the losses of predictions. */
static inline void square_misses(const double *predictions, size_t count, double *losses) {
    for (size_t b = 0; b < count; b++)
        losses[b] = (predictions[b] - TARGET) * (predictions[b] - TARGET);
}

/* Returns the largest relative difference of the op's predictions, losses and gradients from those of `truth`, which a
 * tape of elementary ops composes, on the same device or on another one. */
static inline double composed_distance(fused *f, fused *truth) {
    double predicted[2][MAX_BATCH], losses[2][MAX_BATCH], gradient[2][MAX_PARAMETERS];
    const size_t batch = f->model.is.batch, size = icl_model_size(f->model.model);

    fixture_gradient(&truth->model, truth->params.depth, predicted[1], gradient[1]);
    square_misses(predicted[1], batch, losses[1]);
    run_predict(f, predicted[0]);
    tap_need(icl_fill(f->model.backend, f->model.gradient, (double)NAN, tap_error()));
    run_gradient(f, (icl_tensor){0});
    tap_need(icl_tensor_read_double(f->losses, losses[0], tap_error()));
    tap_need(icl_tensor_read_double(f->model.gradient, gradient[0], tap_error()));
    return fmax(distance(gradient[0], gradient[1], size, 1e-6),
                fmax(distance(predicted[0], predicted[1], batch, 1e-6), distance(losses[0], losses[1], batch, 1e-6)));
}

#endif
