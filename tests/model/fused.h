/* A model's fixture for the ops of whole linear transformers, and what the tape makes of the same model. */
#ifndef ICLAB_TESTS_MODEL_FUSED_H
#define ICLAB_TESTS_MODEL_FUSED_H

#include "fixture.h"

#define MAX_PARAMETERS 20000
#define MAX_TOKENS     6144
#define MAX_BATCH      140
#define TARGET         0.7

typedef enum given { GIVEN_TOKENS, GIVEN_TOKENS_FOR_GRAM, GIVEN_GRAM, GIVEN_COUNT } given;

static const char *const given_names[] = {"tokens", "tokens for Gram space", "a Gram matrix"};

/* A model's fixture, with the tensors that the ops take besides. */
typedef struct fused {
    model_fixture model;
    icl_linear_transformer_params params;
    given given;
    icl_tensor gram, query, targets, threshold, predictions, losses, norms;
} fused;

static inline icl_status create_tensors(fused *f, icl_error *error) {
    const setting *is = &f->model.is;
    const size_t D = is->dimension + 1, gram[] = {is->batch, D, D}, one = 1;
    icl_tensor *const vectors[] = {&f->targets, &f->predictions, &f->losses, &f->norms};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(f->model.backend, 3, gram, &f->gram, error));
    ICL_TRY(icl_tensor_create(f->model.backend, 2, gram, &f->query, error));
    ICL_TRY(icl_tensor_create(f->model.backend, 1, &one, &f->threshold, error));
    for (int i = 0; i < 4; i++)
        ICL_TRY(icl_tensor_create(f->model.backend, 1, &is->batch, vectors[i], error));
done:
    return status;
}

/* G by the generic ops, and the query: what a sampler of Gram matrices would give. */
static inline icl_status fill_gram(fused *f, icl_error *error) {
    const setting *is = &f->model.is;
    const icl_tensor context = icl_tensor_slice(f->model.tokens, 1, 0, is->context);
    const icl_tensor query = icl_tensor_slice(f->model.tokens, 1, is->context, 1);
    icl_status status = ICL_OK;

    ICL_TRY(icl_matmul(f->model.backend, f->gram, 1.0, icl_tensor_swap_axes(context, 1, 2), context, 0.0, error));
    ICL_TRY(icl_copy(f->model.backend,
                     icl_tensor_reshape(f->query, 3, (const size_t[]){is->batch, 1, is->dimension + 1}), query, error));
done:
    return status;
}

static inline icl_status fused_open(fused *f, icl_backend *backend, const setting *is, size_t depth, given how,
                                    icl_error *error) {
    float values[MAX_PARAMETERS], tokens[MAX_TOKENS];
    icl_status status = ICL_OK;

    *f = (fused){.given = how};
    ICL_TRY(fixture_open(&f->model, backend, is, error));
    f->params = (icl_linear_transformer_params){
        .parameterization = (icl_parameterization)is->parameterization,
        .layers = is->layers,
        .depth = depth,
        .heads = is->heads,
        .factor = is->mean ? 1.0 / (double)is->context : 1.0,
        .space = how == GIVEN_TOKENS ? ICL_SPACE_TOKENS : ICL_SPACE_GRAM,
    };
    ICL_TRY(create_tensors(f, error));
    fill_parameters(f->model.model, is, values);
    fill_tokens(tokens, is);
    ICL_TRY(icl_tensor_write(f->model.parameters, values, error));
    ICL_TRY(icl_tensor_write(f->model.tokens, tokens, error));
    ICL_TRY(icl_fill(backend, f->targets, TARGET, error));
    ICL_TRY(fill_gram(f, error));
done:
    return status;
}

static inline void fused_close(fused *f) {
    icl_tensor *const own[] = {&f->gram, &f->query, &f->targets, &f->threshold, &f->predictions, &f->losses, &f->norms};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        icl_tensor_release(own[i]);
    fixture_close(&f->model);
}

static inline icl_status run_gradient(fused *f, icl_tensor threshold, icl_error *error) {
    const bool is_gram = f->given == GIVEN_GRAM;
    const icl_tensor none = {0};
    return icl_linear_transformer_gradient(f->model.backend, &f->params, f->losses, f->model.gradient, f->norms,
                                           f->model.parameters, is_gram ? none : f->model.tokens,
                                           is_gram ? f->gram : none, is_gram ? f->query : none, f->targets, threshold,
                                           error);
}

static inline icl_status run_predict(fused *f, double *predictions, icl_error *error) {
    const bool is_gram = f->given == GIVEN_GRAM;
    const icl_tensor none = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_linear_transformer_predict(f->model.backend, &f->params, f->predictions, f->model.parameters,
                                           is_gram ? none : f->model.tokens, is_gram ? f->gram : none,
                                           is_gram ? f->query : none, error));
    ICL_TRY(icl_tensor_read_double(f->predictions, predictions, error));
done:
    return status;
}

/* Makes the losses of predictions. */
static inline void square_misses(const double *predictions, size_t count, double *losses) {
    for (size_t b = 0; b < count; b++)
        losses[b] = (predictions[b] - TARGET) * (predictions[b] - TARGET);
}

/* The largest difference, relative to the largest of the expected numbers. Not finite: infinite. */
static inline double distance(const double *seen, const double *expected, size_t count) {
    double largest = 1e-6, worst = 0.0;
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(expected[i]));
        worst = isfinite(seen[i]) && isfinite(expected[i]) ? fmax(worst, fabs(seen[i] - expected[i])) : HUGE_VAL;
    }
    return worst / largest;
}

/* The same model composed of elementary ops on the tape: predictions, and the gradient. */
static inline icl_status composed(fused *f, size_t depth, double *predictions, double *gradient, icl_error *error) {
    model_fixture *m = &f->model;
    icl_status status = ICL_OK;

    ICL_TRY(icl_fill(m->backend, m->gradient, 0.0, error));
    const icl_variable prediction = fixture_predict(m, depth);
    const icl_variable target = icl_tape_filled(m->tape, 1, (const size_t[]){1}, TARGET);
    const icl_variable miss = icl_tape_binary(m->tape, ICL_SUBTRACT, prediction, target);
    const icl_variable loss =
        icl_tape_scale(m->tape, 1.0 / (double)m->is.batch, icl_tape_reduce(m->tape, ICL_SUM_OF_SQUARES, 7, miss));
    ICL_TRY(icl_tape_backward(m->tape, loss, error));
    ICL_TRY(icl_tensor_read_double(icl_tape_value(m->tape, prediction), predictions, error));
    ICL_TRY(icl_tensor_read_double(m->gradient, gradient, error));
done:
    return status;
}

#endif
