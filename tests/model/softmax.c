/*
 * Attention that reads labels against its formula in double precision: predictions, and the gradient of the batch's
 * mean of (prediction - target)^2 with respect to M. With scores s_i = x_i^T M x_q, p = softmax(s):
 *     softmax:  f = sum_i p_i y_i,         df/dM = sum_i p_i (y_i - f) x_i x_q^T
 *     linear:   f = (1/n) sum_i s_i y_i,   df/dM = (1/n) sum_i y_i x_i x_q^T
 * A float prediction passes through fewer than 10 (n + d) roundings, relative to the sum of absolute
 * values, which is below 50 here.
 */
#include "fixture.h"

enum { D = 3, N = 7, BATCH = 5, WIDTH = D + 1, SIZE = D * D };

static const double target = 0.7;

typedef struct truth {
    double predictions[BATCH], gradient[SIZE];
} truth;

static void score(const float *tokens, const double *M, double *scores) {
    const float *query = tokens + (size_t)N * WIDTH;
    for (size_t i = 0; i < N; i++) {
        scores[i] = 0;
        for (size_t a = 0; a < D; a++)
            for (size_t b = 0; b < D; b++)
                scores[i] += (double)tokens[i * WIDTH + a] * M[a * D + b] * (double)query[b];
    }
}

/* The prediction of one sequence, and factors [N] with df/dM = sum_i factors_i x_i x_q^T. */
static double predict_sequence(const float *tokens, const double *M, bool softmax, double *factors) {
    double scores[N], total = 0, prediction = 0;

    score(tokens, M, scores);
    for (size_t i = 0; i < N; i++)
        total += exp(scores[i]);
    for (size_t i = 0; i < N; i++)
        prediction += (softmax ? exp(scores[i]) / total : scores[i] / N) * (double)tokens[i * WIDTH + D];
    for (size_t i = 0; i < N; i++) {
        const double label = (double)tokens[i * WIDTH + D];
        factors[i] = softmax ? exp(scores[i]) / total * (label - prediction) : label / N;
    }
    return prediction;
}

static void compute_truth(const float *tokens, const double *M, bool softmax, truth *out) {
    *out = (truth){{0}, {0}};
    for (size_t s = 0; s < BATCH; s++) {
        const float *sequence = tokens + s * (N + 1) * WIDTH, *query = sequence + (size_t)N * WIDTH;
        double factors[N];
        out->predictions[s] = predict_sequence(sequence, M, softmax, factors);
        for (size_t i = 0; i < N; i++)
            for (size_t at = 0; at < SIZE; at++)
                out->gradient[at] += 2.0 / BATCH * (out->predictions[s] - target) * factors[i] *
                                     (double)sequence[i * WIDTH + at / D] * (double)query[at % D];
    }
}

static icl_status run_model(model_fixture *f, const float *tokens, const float *M, truth *seen, icl_error *error) {
    icl_status status = ICL_OK;
    icl_variable prediction, loss;

    ICL_TRY(icl_tensor_write(f->tokens, tokens, error));
    ICL_TRY(icl_tensor_write(f->parameters, M, error));
    prediction = fixture_predict(f, 1);
    loss = icl_tape_binary(f->tape, ICL_SUBTRACT, prediction, icl_tape_filled(f->tape, 1, (const size_t[]){1}, target));
    loss = icl_tape_scale(f->tape, 1.0 / BATCH, icl_tape_reduce(f->tape, ICL_SUM_OF_SQUARES, 7, loss));
    ICL_TRY(icl_tape_backward(f->tape, loss, error));
    ICL_TRY(icl_tensor_read_double(icl_tape_value(f->tape, prediction), seen->predictions, error));
    ICL_TRY(icl_tensor_read_double(f->gradient, seen->gradient, error));
done:
    return status;
}

static double largest_difference(const double *a, const double *b, size_t count) {
    double worst = 0;
    for (size_t i = 0; i < count; i++)
        worst = isnan(a[i]) ? HUGE_VAL : fmax(worst, fabs(a[i] - b[i]));
    return worst;
}

static icl_status check(tap_run *tap, icl_backend *backend, bool softmax, icl_error *error) {
    const char *overrides[] = {"model.family=softmax", "model.layers=1",
                               softmax ? "model.attention=softmax" : "model.attention=linear"};
    const double unit = icl_backend_capabilities(backend)->element_size == sizeof(double) ? 0x1p-53 : 0x1p-24;
    const double allowed = 50 * 10 * (N + D) * unit;
    model_fixture f = {.is = {.context = N, .dimension = D, .batch = BATCH}, .backend = backend};
    float tokens[BATCH * (N + 1) * WIDTH], M[SIZE];
    double exact[SIZE];
    truth seen, expected;
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    fill_tokens(tokens, &f.is);
    fill_normal(M, SIZE, 12, 1.0F);
    for (size_t i = 0; i < SIZE; i++)
        exact[i] = (double)M[i];
    ICL_TRY(make_recipe(overrides, 3, &recipe, error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(D, N), &f.model, error));
    ICL_TRY(fixture_tensors(&f, error));
    ICL_TRY(run_model(&f, tokens, M, &seen, error));
    compute_truth(tokens, exact, softmax, &expected);
    const double missed[] = {largest_difference(seen.predictions, expected.predictions, BATCH),
                             largest_difference(seen.gradient, expected.gradient, SIZE)};
    tap_ok(tap, missed[0] <= allowed, "%s: predictions (%.2g of %.2g)", overrides[2], missed[0], allowed);
    tap_ok(tap, missed[1] <= allowed, "%s: gradient (%.2g of %.2g)", overrides[2], missed[1], allowed);
done:
    icl_recipe_destroy(&recipe);
    fixture_close(&f);
    return status;
}

static void check_refusal(tap_run *tap, const char *override, const char *key) {
    const char *overrides[] = {"model.family=softmax", "model.layers=1", override};
    icl_model *model = NULL;
    icl_recipe *recipe = NULL;
    icl_error error = {0};
    icl_status status = make_recipe(overrides, 3, &recipe, &error);

    if (status == ICL_OK)
        status = icl_model_create(recipe, icl_regression_shape(D, N), &model, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, key), "%s: %s", override, error.message);
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_error error = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (backend) {
        tap_status(&tap, check(&tap, backend, true, &error), &error, "softmax attention runs");
        tap_status(&tap, check(&tap, backend, false, &error), &error, "linear attention runs");
        check_refusal(&tap, "model.layers=2", "model.layers");
        check_refusal(&tap, "model.heads=2", "model.heads");
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
