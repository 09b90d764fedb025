/*
 * Graph transformers against their formula in plain loops, which add no 1e-12 to norms; their gradients on "ref"
 * against central differences in double (tolerances as in tests/model/gradients.c), on other devices against "ref".
 */
#include "fixture.h"

enum { N = 4, M = 3, K = 2, P = M + K, BATCH = 3, LAYERS = 2, FULL_WIDTH = M + 2 * K, MOST_SIZE = 512 };

static const icl_task_shape shape = {
    .positions = N, .inputs = P, .outputs = K, .scored = N, .loss = ICL_LOSS_SQUARED_ERROR};

/* ---- The formula ---- */

typedef double block[FULL_WIDTH][FULL_WIDTH];

/* Computes out [rows][width] = a [rows][width] b [width][width] for the parameter matrix b. */
static void multiply(size_t rows, size_t width, const block a, const float *b, block out) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < width; j++) {
            out[i][j] = 0;
            for (size_t l = 0; l < width; l++)
                out[i][j] += a[i][l] * (double)b[l * width + j];
        }
}

static void scale_to_norm(block z, size_t first, size_t count, double norm) {
    double squares = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t j = first; j < first + count; j++)
            squares += z[i][j] * z[i][j];
    for (size_t i = 0; i < N; i++)
        for (size_t j = first; j < first + count; j++)
            z[i][j] *= norm / sqrt(squares);
}

/* Computes Z <- Z + S V + Z R for scores S. */
static void move(size_t width, block z, const block scores, const float *values, const float *skip) {
    block mapped = {{0}}, skipped = {{0}};

    multiply(N, width, z, values, mapped);
    multiply(N, width, z, skip, skipped);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < width; j++) {
            z[i][j] += skipped[i][j];
            for (size_t l = 0; l < N; l++)
                z[i][j] += scores[i][l] * mapped[l][j];
        }
}

static void score(size_t width, const block queries, const block seen, block scores) {
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) {
            scores[i][j] = 0;
            for (size_t l = 0; l < width; l++)
                scores[i][j] += queries[i][l] * seen[j][l] / N;
        }
}

static void predict_full(const float *inputs, const float *parameters, double *out) {
    const size_t size = (size_t)FULL_WIDTH * FULL_WIDTH;
    block z = {{0}}, queries = {{0}}, seen = {{0}}, scores = {{0}};

    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < P; j++)
            z[i][j] = (double)inputs[i * P + j];
    scale_to_norm(z, 0, M, 1);
    for (size_t l = 0; l < LAYERS; l++) {
        const float *layer = parameters + l * 4 * size;
        multiply(N, FULL_WIDTH, z, layer, queries);
        multiply(N, FULL_WIDTH, z, layer + size, seen);
        score(FULL_WIDTH, queries, seen, scores);
        move(FULL_WIDTH, z, scores, layer + 2 * size, layer + 3 * size);
        scale_to_norm(z, 0, M, 1);
        scale_to_norm(z, P, K, l + 1 < LAYERS ? 1 : sqrt((double)N));
    }
    for (size_t i = 0; i < (size_t)N * K; i++)
        out[i] = z[i / K][P + i % K];
}

static void predict_demands(const float *inputs, const float *parameters, double *out) {
    const size_t width = 2 * K, size = width * width, layer_size = 2 + 2 * size;
    block incidence = {{0}}, y = {{0}}, shared = {{0}}, scores = {{0}};

    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < P; j++)
            *(j < M ? &incidence[i][j] : &y[i][j - M]) = (double)inputs[i * P + j];
    scale_to_norm(incidence, 0, M, 1);
    score(M, incidence, incidence, shared);
    for (size_t l = 0; l < LAYERS; l++) {
        const float *layer = parameters + l * layer_size;
        for (size_t i = 0; i < (size_t)N * N; i++)
            scores[i / N][i % N] = (double)layer[0] * (double)layer[1] * shared[i / N][i % N];
        move(width, y, scores, layer + 2, layer + 2 + size);
        scale_to_norm(y, K, K, l + 1 < LAYERS ? 1 : sqrt((double)N));
    }
    for (size_t i = 0; i < (size_t)N * K; i++)
        out[i] = y[i / K][K + i % K];
}

/* ---- The model ---- */

static void open_model(model_fixture *f, icl_backend *backend, bool full) {
    icl_model *model = NULL;

    tap_need(make_model(full ? "family=graph layers=2 maps=full" : "family=graph layers=2 maps=demands", shape, &model,
                        tap_error()));
    fixture_create(f, backend, &(setting){.context = N - 1, .dimension = P - 1, .batch = BATCH}, model);
}

/* Fills parameters with the start plus noise, so that no entry is special, and inputs with normal numbers. */
static void fill(const icl_model *model, float *parameters, float *inputs) {
    float noise[MOST_SIZE] = {0};

    icl_model_initialize(model, 5, parameters);
    fill_normal(noise, icl_model_size(model), 6, 0.3F);
    for (size_t i = 0; i < icl_model_size(model); i++)
        parameters[i] += noise[i];
    fill_normal(inputs, (size_t)BATCH * N * P, 7, 1.0F);
}

static void check(tap_run *tap, icl_backend *device, icl_backend *ref, bool full) {
    const char *name = full ? "full" : "demands";
    const bool is_double = icl_backend_capabilities(device)->element_size == sizeof(double);
    static double predictions[2][BATCH * N * K], gradient[2][MOST_SIZE];
    float parameters[MOST_SIZE] = {0}, inputs[BATCH * N * P] = {0};
    model_fixture f, truth;

    open_model(&f, device, full);
    open_model(&truth, ref, full);
    fill(f.model, parameters, inputs);
    fixture_write(&f, parameters, inputs);
    fixture_write(&truth, parameters, inputs);
    fixture_gradient(&f, LAYERS, predictions[0], gradient[0]);
    for (size_t s = 0; s < BATCH; s++)
        (full ? predict_full : predict_demands)(inputs + s * N * P, parameters, predictions[1] + s * N * K);
    double miss = distance(predictions[0], predictions[1], (size_t)BATCH * N * K, 1e-2);
    tap_ok(tap, miss <= (is_double ? 1e-11 : 1e-4), "%s: outputs (%.2g)", name, miss);
    if (device == ref)
        fixture_differences(&truth, LAYERS, gradient[1]);
    else
        fixture_gradient(&truth, LAYERS, predictions[1], gradient[1]);
    miss = distance(gradient[0], gradient[1], icl_model_size(f.model), 1e-2);
    tap_ok(tap, miss <= (device == ref ? 1e-7 : 1e-4), "%s: gradient (%.2g)", name, miss);
    fixture_close(&f);
    fixture_close(&truth);
}

static void check_start(tap_run *tap, icl_backend *backend) {
    float values[MOST_SIZE];
    size_t wrong = 0;
    double squares = 0;
    model_fixture f;

    open_model(&f, backend, true);
    icl_model_initialize(f.model, 1, values);
    for (size_t i = 0; i < icl_model_size(f.model); i++) {
        const size_t size = (size_t)FULL_WIDTH * FULL_WIDTH, matrix = i / size % 4, at = i % size;
        const float expected = matrix < 2 && at / FULL_WIDTH == at % FULL_WIDTH ? 1 : 0;
        wrong += matrix != 2 && values[i] != expected;
        squares += matrix == 2 ? (double)values[i] * (double)values[i] / (double)(LAYERS * size) : 0;
    }
    /* A mean of 98 squares has a standard deviation of 14 %. */
    tap_ok(tap, wrong == 0 && squares > 0.4e-2 && squares < 1.6e-2, "the start: Q = K = I, R = 0, P of variance %.4f",
           squares);
    fixture_close(&f);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device, *ref;

    if (!tap_open_device_and_ref(&tap, argc > 1 ? argv[1] : "ref", &device, &ref))
        return tap_done(&tap);
    check(&tap, device, ref, true);
    check(&tap, device, ref, false);
    check_start(&tap, device);
    check_refusal(&tap, "family=graph", icl_regression_shape(3, 5), "model.family = graph");
    tap_close_device_and_ref(&device, &ref);
    return tap_done(&tap);
}
