/*
 * Transformers whose attention weights are a softmax over the context (model.scale = softmax), against their formula in
 * double precision:
 *     a_i = softmax over j <= n of e_j^T Q e_i,  e_i <- e_i + P sum_j a_ij e_j,  prediction = -(last
 *                                                coordinate of the query).
 * A float prediction passes through fewer than 100 roundings, relative to magnitudes below 100 here.
 */
#include <string.h>

#include "fixture.h"

enum { D = 2, N = 6, WIDTH = D + 1, BATCH = 9, LAYERS = 3 };

/* P and Q of a layer from its parameters B and A: (B 0; 0 1) and (A 0; 0 0). */
static void layer_matrices(const float *parameters, double P[WIDTH][WIDTH], double Q[WIDTH][WIDTH]) {
    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++) {
            const bool inside = i < D && j < D;
            P[i][j] = inside ? (double)parameters[i * D + j] : i == D && j == D;
            Q[i][j] = inside ? (double)parameters[D * D + i * D + j] : 0;
        }
}

static void attend(double tokens[N + 1][WIDTH], double Q[WIDTH][WIDTH], size_t i, double sum[WIDTH]) {
    double weights[N], total = 0;
    for (size_t j = 0; j < N; j++) {
        double score = 0;
        for (size_t a = 0; a < WIDTH; a++)
            for (size_t b = 0; b < WIDTH; b++)
                score += tokens[j][a] * Q[a][b] * tokens[i][b];
        weights[j] = exp(score);
        total += weights[j];
    }
    for (size_t a = 0; a < WIDTH; a++) {
        sum[a] = 0;
        for (size_t j = 0; j < N; j++)
            sum[a] += weights[j] / total * tokens[j][a];
    }
}

static double predict(const float *sequence, const float *parameters) {
    double tokens[N + 1][WIDTH], next[N + 1][WIDTH], P[WIDTH][WIDTH], Q[WIDTH][WIDTH], sum[WIDTH];

    for (size_t i = 0; i < (N + 1) * WIDTH; i++)
        tokens[i / WIDTH][i % WIDTH] = (double)sequence[i];
    for (size_t layer = 0; layer < LAYERS; layer++) {
        layer_matrices(parameters + layer * 2 * D * D, P, Q);
        for (size_t i = 0; i <= N; i++) {
            attend(tokens, Q, i, sum);
            for (size_t a = 0; a < WIDTH; a++) {
                next[i][a] = tokens[i][a];
                for (size_t b = 0; b < WIDTH; b++)
                    next[i][a] += P[a][b] * sum[b];
            }
        }
        memcpy(tokens, next, sizeof tokens);
    }
    return -tokens[N][D];
}

static icl_status open_model(icl_backend *backend, model_fixture *f, icl_error *error) {
    static const char *const overrides[] = {"model.parameterization=sparse-b", "model.scale=softmax", "model.layers=3"};
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    *f = (model_fixture){.is = {.layers = LAYERS, .dimension = D, .context = N, .batch = BATCH}, .backend = backend};
    ICL_TRY(make_recipe(overrides, 3, &recipe, error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(D, N), &f->model, error));
    ICL_TRY(fixture_tensors(f, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static void check_predictions(tap_run *tap, icl_backend *backend) {
    float parameters[LAYERS * 2 * D * D], tokens[BATCH * (N + 1) * WIDTH];
    double seen[BATCH], worst = 0;
    icl_error error = {0};
    model_fixture f;

    fill_normal(parameters, LAYERS * 2 * D * D, 1, 0.5F);
    fill_normal(tokens, BATCH * (N + 1) * WIDTH, 2, 1.0F);
    for (size_t s = 0; s < BATCH; s++)
        tokens[(s * (N + 1) + N) * WIDTH + D] = 0;
    if (!tap_status(tap, open_model(backend, &f, &error), &error, "a model"))
        return;
    tap_ok(tap, !icl_model_can(f.model, ICL_MODEL_FUSED), "is composed on the tape");
    if (tap_status(tap, icl_tensor_write(f.parameters, parameters, &error), &error, "parameters") &&
        tap_status(tap, icl_tensor_write(f.tokens, tokens, &error), &error, "tokens") &&
        tap_status(tap, fixture_read(&f, LAYERS, seen, &error), &error, "predictions")) {
        for (size_t s = 0; s < BATCH; s++)
            worst = fmax(worst, fabs(seen[s] - predict(tokens + s * (N + 1) * WIDTH, parameters)));
        tap_ok(tap, worst < 100 * 6e-8 * 100, "they are those of the formula (%.1e)", worst);
    }
    fixture_close(&f);
}

static void check_refusal(tap_run *tap) {
    static const char *const overrides[] = {"model.scale=softmax", "model.space=gram"};
    icl_recipe *recipe = NULL;
    icl_model *model = NULL;
    icl_error error = {0};

    if (tap_status(tap, make_recipe(overrides, 2, &recipe, &error), &error, "a recipe"))
        tap_ok(tap,
               icl_model_create(recipe, icl_regression_shape(D, N), &model, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, "model.space"),
               "Gram matrices are refused: %s", error.message);
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
}

int main(int count, char **arguments) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, count > 1 ? arguments[1] : "cpu");

    if (backend) {
        check_predictions(&tap, backend);
        check_refusal(&tap);
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
