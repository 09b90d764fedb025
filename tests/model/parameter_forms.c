/*
 * Forms of a linear transformer's parameters, by the ops for whole models and composed on the tape.
 *
 * Tied layers: a model of L layers that share parameters equals the untied one whose layers all hold these, and its
 * gradient is the sum of the latter's over the layers. diag+lowrank, which the ops first turn into dense matrices: its
 * dense form predicts the same, and its gradient is that of the dense form, taken through diag(p) + U^T V.
 */
#include "fixture.h"
#include "model/model.h"

enum { LAYERS = 3, D = 3, N = 5, BATCH = 7, MOST = 512 };

static const setting sizes = {.dimension = D, .context = N, .batch = BATCH};

static icl_model *make(const char *overrides) {
    icl_model *model = NULL;

    tap_need(make_model(overrides, icl_regression_shape(D, N), &model, tap_error()));
    return model;
}

typedef struct outcome {
    double predictions[BATCH], gradient[MOST];
} outcome;

static void run_fused(model_fixture *f, outcome *out) {
    const size_t batch = BATCH;
    icl_model_tensors with = {.tokens = f->tokens, .parameters = f->parameters, .gradient = f->gradient};
    icl_tensor *const own[] = {&with.predictions, &with.losses, &with.targets, &with.norms};

    for (int i = 0; i < 4; i++)
        tap_need(icl_tensor_create(f->backend, 1, &batch, own[i], tap_error()));
    tap_need(icl_fill(f->backend, with.targets, TARGET, tap_error()));
    tap_need(icl_model_gradient_fused(f->model, f->backend, LAYERS, &with, tap_error()));
    tap_need(icl_tensor_read_double(with.gradient, out->gradient, tap_error()));
    tap_need(icl_model_predict_fused(f->model, f->backend, LAYERS, &with, tap_error()));
    tap_need(icl_tensor_read_double(with.predictions, out->predictions, tap_error()));
    for (int i = 0; i < 4; i++)
        icl_tensor_release(own[i]);
}

/* Computes predictions and gradient for parameters `values`, by the ops for whole models or on the tape. Destroys the
 * model. Returns its size. */
static size_t run(icl_backend *backend, icl_model *model, const float *values, bool fused, outcome *out) {
    const size_t size = icl_model_size(model);
    float tokens[BATCH * (N + 1) * (D + 1)];
    model_fixture f;

    fixture_create(&f, backend, &sizes, model);
    fill_tokens(tokens, &sizes);
    fixture_write(&f, values, tokens);
    if (fused)
        run_fused(&f, out);
    else
        fixture_gradient(&f, LAYERS, out->predictions, out->gradient);
    fixture_close(&f);
    return size;
}

/* ---- Tied layers ---- */

static icl_model *make_tied(const char *parameterization, bool tied) {
    char overrides[128];

    snprintf(overrides, sizeof overrides, "parameterization=%s tied=%s layers=3 scale=raw", parameterization,
             tied ? "true" : "false");
    return make(overrides);
}

static void check_tied(tap_run *tap, icl_backend *backend, const char *parameterization, bool fused) {
    const bool is_ref = icl_backend_capabilities(backend)->element_size == sizeof(double);
    outcome tied = {0}, untied = {0};
    float values[MOST];
    double sums[MOST] = {0}, largest = 0.0;
    icl_model *shared = make_tied(parameterization, true);
    const size_t size = icl_model_size(shared);

    for (size_t layer = 0; layer < LAYERS; layer++)
        fill_normal(values + layer * size, size, 21, 0.2F);
    run(backend, shared, values, fused, &tied);
    const size_t untied_size = run(backend, make_tied(parameterization, false), values, fused, &untied);
    for (size_t i = 0; i < untied_size; i++)
        sums[i % size] += untied.gradient[i];
    for (size_t i = 0; i < size; i++)
        largest = fmax(largest, fabs(sums[i]));
    const double miss = distance(tied.gradient, sums, size, 0);
    tap_ok(tap, LAYERS * size == untied_size && distance(tied.predictions, untied.predictions, BATCH, 0) == 0,
           "%s, %s: a third of the parameters, the same predictions", parameterization, fused ? "fused" : "composed");
    tap_ok(tap, largest > 0.1 && miss <= (is_ref ? 1e-13 : 1e-5),
           "%s, %s: the gradient is the sum over layers, within %.2g of %.3g", parameterization,
           fused ? "fused" : "composed", miss, largest);
}

/* A tied model starts with the values, and the noise, of the first of several layers. */
static void check_tied_start(tap_run *tap) {
    icl_model *tied = make_tied("gd++", true), *untied = make_tied("gd++", false);
    float one[MOST] = {0}, several[MOST] = {0};

    icl_model_initialize(tied, 3, one);
    icl_model_initialize(untied, 3, several);
    tap_ok(tap, memcmp(one, several, icl_model_size(tied) * sizeof(float)) == 0,
           "a tied model starts as the first layer of an untied one");
    icl_model_destroy(&tied);
    icl_model_destroy(&untied);
}

/* ---- diag+lowrank ---- */

enum { RANK = 2, HEADS = 2, WIDTH = D + 1, MATRIX = WIDTH * WIDTH, PART = (1 + 2 * RANK) * WIDTH };

#define LOW_RANK "parameterization=diag+lowrank heads=2 layers=3 scale=mean rank=2"

/* Computes the gradient of one matrix's numbers (p; U; V) from g = d loss / d matrix: g_ii, sum_j g_ij v_j, sum_i g_ij
 * u_i. */
static void pull_back(const double *g, const float *parameter, double *out) {
    memset(out, 0, PART * sizeof *out);
    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++) {
            out[i] += i == j ? g[i * WIDTH + j] : 0;
            for (size_t k = 0; k < RANK; k++) {
                const size_t left = (1 + k) * WIDTH, right = (1 + RANK + k) * WIDTH;
                out[left + i] += g[i * WIDTH + j] * (double)parameter[right + j];
                out[right + j] += g[i * WIDTH + j] * (double)parameter[left + i];
            }
        }
}

static void check_low_rank(tap_run *tap, icl_backend *backend) {
    const bool is_ref = icl_backend_capabilities(backend)->element_size == sizeof(double);
    const double allowed = is_ref ? 1e-13 : 1e-5, rounded = is_ref ? 1e-6 : 1e-5; /* dense matrices are floats */
    float values[MOST] = {0}, dense_values[MOST] = {0};
    double pulled[MOST]; /* the dense form's gradient, pulled back */
    outcome fused, composed, dense;
    icl_model *model = make(LOW_RANK), *full = make("parameterization=full heads=2 layers=3 scale=mean");

    fill_normal(values, icl_model_size(model), 5, 0.3F);
    tap_need(icl_model_embed(model, values, full, dense_values, tap_error()));
    const size_t size = run(backend, model, values, true, &fused);
    run(backend, make(LOW_RANK), values, false, &composed);
    run(backend, full, dense_values, true, &dense);
    for (size_t m = 0; m < 2 * HEADS * LAYERS; m++)
        pull_back(dense.gradient + m * MATRIX, values + m * PART, pulled + m * PART);
    tap_ok(tap, size == (size_t)PART * 2 * HEADS * LAYERS, "%zu parameters", size);
    double seen = distance(fused.predictions, composed.predictions, BATCH, 0);
    tap_ok(tap, seen <= allowed, "predictions as composed (%.2g)", seen);
    seen = distance(fused.gradient, composed.gradient, size, 0);
    tap_ok(tap, seen <= allowed, "gradient as composed (%.2g)", seen);
    seen = distance(fused.predictions, dense.predictions, BATCH, 0);
    tap_ok(tap, seen <= rounded, "predictions of its dense form (%.2g)", seen);
    seen = distance(fused.gradient, pulled, size, 0);
    tap_ok(tap, seen <= rounded, "gradient of its dense form, pulled back (%.2g)", seen);
}

/* At the start u and v have only noise: their products have the size that init_std says, and neither is zero, because
 * gradients would vanish. */
static void check_low_rank_start(tap_run *tap) {
    icl_model *model = make(LOW_RANK);
    float values[MOST] = {0};
    bool right = true;

    icl_model_initialize(model, 3, values);
    for (size_t i = WIDTH; i < PART; i++)
        right = right && values[i] != 0 && fabsf(values[i]) < 5 * sqrtf(0.002F);
    for (size_t i = 0; i + 1 < WIDTH; i++)
        right = right && fabsf(values[i] + 0.3F) < 5 * 0.002F;
    tap_ok(tap, right && fabsf(values[D] + 0.6F) < 5 * 0.002F, "it starts as a diagonal model does, with noise");
    icl_model_destroy(&model);
}

/* ---- Parameters by name ---- */

static void check_named_matrix(tap_run *tap) {
    icl_model *model = NULL;
    icl_error error = {0};
    double matrix[4] = {0};
    float values[16];

    for (int i = 0; i < 16; i++)
        values[i] = (float)i;
    tap_need(make_model("parameterization=sparse-b layers=2", icl_regression_shape(2, 3), &model, tap_error()));
    const icl_status status = icl_matrix_of_model(model, values, "layer.1.head.0.A", 2, 2, matrix, &error);
    tap_ok(tap, status == ICL_OK && matrix[0] == 12 && matrix[3] == 15, "the second layer's A is the last");
    tap_ok(tap,
           icl_matrix_of_model(model, values, "layer.2.head.0.A", 2, 2, matrix, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "layer.2.head.0.A"),
           "%s", error.message);
    tap_ok(tap, icl_matrix_of_model(model, values, "layer.1.head.0.A", 3, 3, matrix, &error) == ICL_ERROR_INPUT, "%s",
           error.message);
    icl_model_destroy(&model);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (!backend)
        return tap_done(&tap);
    for (int parameterization = 0; parameterization < PARAMETERIZATIONS; parameterization++)
        for (int fused = 0; fused < 2; fused++)
            check_tied(&tap, backend, parameterizations[parameterization], fused != 0);
    check_tied_start(&tap);
    check_low_rank(&tap, backend);
    check_refusal(&tap, "parameterization=diag+lowrank tied=true", icl_regression_shape(D, N), "model.tied");
    check_low_rank_start(&tap);
    check_named_matrix(&tap);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
