/*
 * Models whose attention weights come from a softmax, against their formulas in double precision.
 *
 * model.family = softmax reads labels: predictions, and the gradient of the batch's mean of (prediction - target)^2
 * with respect to M. With scores s_i = x_i^T M x_q, p = softmax(s):
 *     softmax:  f = sum_i p_i y_i,         df/dM = sum_i p_i (y_i - f) x_i x_q^T
 *     linear:   f = (1/n) sum_i s_i y_i,   df/dM = (1/n) sum_i y_i x_i x_q^T
 * A float prediction passes through fewer than 10 (n + d) roundings, relative to the sum of absolute values, which is
 * below 50 here.
 *
 * model.scale = softmax, layers over the context:
 *     a_i = softmax over j <= n of e_j^T Q e_i,  e_i <- e_i + P sum_j a_ij e_j,  prediction = -(last coordinate of the
 *                                                query).
 * A float prediction passes through fewer than 100 roundings, relative to magnitudes below 100 here.
 */
#include <string.h>

#include "fixture.h"

enum { D = 3, N = 7, BATCH = 9, WIDTH = D + 1, SIZE = D * D, LAYERS = 3 };

static const setting sizes = {.context = N, .dimension = D, .batch = BATCH};

/* ---- The family softmax ---- */

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

/* Returns the prediction of one sequence, and factors [N] with df/dM = sum_i factors_i x_i x_q^T. */
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
                out->gradient[at] += 2.0 / BATCH * (out->predictions[s] - TARGET) * factors[i] *
                                     (double)sequence[i * WIDTH + at / D] * (double)query[at % D];
    }
}

static void check_family(tap_run *tap, icl_backend *backend, bool softmax) {
    const double unit = icl_backend_capabilities(backend)->element_size == sizeof(double) ? 0x1p-53 : 0x1p-24;
    const double allowed = 10 * (N + D) * unit;
    const char *overrides =
        softmax ? "family=softmax layers=1 attention=softmax" : "family=softmax layers=1 attention=linear";
    float tokens[BATCH * (N + 1) * WIDTH], M[SIZE];
    double exact[SIZE];
    truth seen, expected;
    icl_model *model = NULL;
    model_fixture f;

    fill_tokens(tokens, &sizes);
    fill_normal(M, SIZE, 12, 1.0F);
    for (size_t i = 0; i < SIZE; i++)
        exact[i] = (double)M[i];
    tap_need(make_model(overrides, icl_regression_shape(D, N), &model, tap_error()));
    fixture_create(&f, backend, &sizes, model);
    fixture_write(&f, M, tokens);
    fixture_gradient(&f, 1, seen.predictions, seen.gradient);
    compute_truth(tokens, exact, softmax, &expected);
    const double missed[] = {distance(seen.predictions, expected.predictions, BATCH, 50),
                             distance(seen.gradient, expected.gradient, SIZE, 50)};
    tap_ok(tap, missed[0] <= allowed, "%s: predictions (%.2g of %.2g)", overrides, missed[0], allowed);
    tap_ok(tap, missed[1] <= allowed, "%s: gradient (%.2g of %.2g)", overrides, missed[1], allowed);
    fixture_close(&f);
}

/* ---- Layers over the context ---- */

/* Makes P and Q of a layer from its parameters B and A: (B 0; 0 1) and (A 0; 0 0). */
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

static double predict_layers(const float *sequence, const float *parameters) {
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

static void check_layers(tap_run *tap, icl_backend *backend) {
    float parameters[LAYERS * 2 * D * D], tokens[BATCH * (N + 1) * WIDTH];
    double seen[BATCH], worst = 0;
    icl_model *model = NULL;
    model_fixture f;

    fill_normal(parameters, LAYERS * 2 * D * D, 1, 0.5F);
    fill_tokens(tokens, &sizes);
    tap_need(make_model("parameterization=sparse-b scale=softmax layers=3", icl_regression_shape(D, N), &model,
                        tap_error()));
    tap_ok(tap, !icl_model_can(model, ICL_MODEL_FUSED), "layers of softmax weights are composed on the tape");
    fixture_create(&f, backend, &sizes, model);
    fixture_write(&f, parameters, tokens);
    fixture_read(&f, LAYERS, seen);
    for (size_t s = 0; s < BATCH; s++)
        worst = fmax(worst, fabs(seen[s] - predict_layers(tokens + s * (N + 1) * WIDTH, parameters)));
    tap_ok(tap, worst < 100 * 6e-8 * 100, "they are those of the formula (%.1e)", worst);
    fixture_close(&f);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (backend) {
        check_family(&tap, backend, true);
        check_family(&tap, backend, false);
        check_refusal(&tap, "family=softmax layers=2", icl_regression_shape(D, N), "model.layers");
        check_refusal(&tap, "family=softmax layers=1 heads=2", icl_regression_shape(D, N), "model.heads");
        check_layers(&tap, backend);
        check_refusal(&tap, "scale=softmax space=gram", icl_regression_shape(D, N), "model.space");
        check_refusal(&tap, "scale=softmax space=tokens", icl_regression_shape(D, N), "model.space");
    }
    icl_backend_close(&backend);
    return tap_done(&tap);
}
