/*
 * diag+lowrank: the ops for whole models, which make dense matrices first, against the same model composed on the tape;
 * its dense form predicts the same; and its gradient is that of the dense form, taken through diag(p) + U^T V.
 */
#include "outcome.h"

enum { RANK = 2, HEADS = 2, WIDTH = D + 1, MATRIX = WIDTH * WIDTH, PART = (1 + 2 * RANK) * WIDTH };

static icl_status make(const char *parameterization, icl_model **model, icl_error *error) {
    char text[64];
    const char *const overrides[] = {text, "model.heads=2", "model.layers=3", "model.scale=mean", "model.rank=2"};
    const bool is_low_rank = strcmp(parameterization, "diag+lowrank") == 0;
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "model.parameterization=%s", parameterization);
    ICL_TRY(make_recipe(overrides, is_low_rank ? 5 : 4, &recipe, error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(D, N), model, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

static double farthest(const double *a, const double *b, size_t count) {
    double worst = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        worst = fmax(worst, fabs(a[i] - b[i]));
        largest = fmax(largest, fabs(b[i]));
    }
    return worst / largest;
}

/* The gradient of one matrix's numbers (p; U; V) from g = d loss / d matrix: g_ii, sum_j g_ij v_j, sum_i g_ij u_i. */
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

typedef struct outcomes {
    outcome fused, composed, dense;
    double pulled[MOST]; /* the dense form's gradient, pulled back */
} outcomes;

static icl_status run_all(icl_backend *backend, outcomes *all, icl_error *error) {
    float values[MOST] = {0}, dense[MOST] = {0};
    icl_model *model = NULL, *full = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make("diag+lowrank", &model, error));
    ICL_TRY(make("full", &full, error));
    fill_normal(values, icl_model_size(model), 5, 0.3F);
    ICL_TRY(icl_model_embed(model, values, full, dense, error));
    ICL_TRY(run_outcome(backend, model, values, true, &all->fused, error));
    ICL_TRY(run_outcome(backend, model, values, false, &all->composed, error));
    ICL_TRY(run_outcome(backend, full, dense, true, &all->dense, error));
    for (size_t m = 0; m < 2 * HEADS * LAYERS; m++)
        pull_back(all->dense.gradient + m * MATRIX, values + m * PART, all->pulled + m * PART);
done:
    icl_model_destroy(&model);
    icl_model_destroy(&full);
    return status;
}

static void test_refusals(tap_run *tap) {
    static const char *const tied[] = {"model.parameterization=diag+lowrank", "model.tied=true"};
    icl_recipe *recipe = NULL;
    icl_model *model = NULL;
    icl_error error = {0};
    icl_status status = make_recipe(tied, 2, &recipe, &error);

    if (tap_status(tap, status, &error, "a recipe"))
        tap_ok(tap,
               icl_model_create(recipe, icl_regression_shape(D, N), &model, &error) == ICL_ERROR_INPUT &&
                   strstr(error.message, "model.tied"),
               "tied layers of it are refused: %s", error.message);
    icl_model_destroy(&model);
    icl_recipe_destroy(&recipe);
}

/* Noise alone in u and v: their products are what init_std says, and neither is zero, where gradients would vanish. */
static void test_initialization(tap_run *tap) {
    icl_model *model = NULL;
    float values[MOST] = {0};
    icl_error error = {0};
    bool right = true;

    if (tap_status(tap, make("diag+lowrank", &model, &error), &error, "a model")) {
        icl_model_initialize(model, 3, values);
        for (size_t i = WIDTH; i < PART; i++)
            right = right && values[i] != 0 && fabsf(values[i]) < 5 * sqrtf(0.002F);
        for (size_t i = 0; i + 1 < WIDTH; i++)
            right = right && fabsf(values[i] + 0.3F) < 5 * 0.002F;
        tap_ok(tap, right && fabsf(values[D] + 0.6F) < 5 * 0.002F, "it starts as a diagonal model does, with noise");
    }
    icl_model_destroy(&model);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");
    outcomes all = {.fused = {0}};
    icl_error error = {0};

    if (!backend)
        return tap_done(&tap);
    const bool is_ref = icl_backend_capabilities(backend)->element_size == sizeof(double);
    const double allowed = is_ref ? 1e-13 : 1e-5, rounded = is_ref ? 1e-6 : 1e-5; /* dense matrices are floats */
    if (tap_status(&tap, run_all(backend, &all, &error), &error, "predictions and gradients")) {
        const size_t size = all.fused.size;
        tap_ok(&tap, size == (size_t)PART * 2 * HEADS * LAYERS, "%zu parameters", size);
        double seen = farthest(all.fused.predictions, all.composed.predictions, BATCH);
        tap_ok(&tap, seen <= allowed, "predictions as composed (%.2g)", seen);
        seen = farthest(all.fused.gradient, all.composed.gradient, size);
        tap_ok(&tap, seen <= allowed, "gradient as composed (%.2g)", seen);
        seen = farthest(all.fused.predictions, all.dense.predictions, BATCH);
        tap_ok(&tap, seen <= rounded, "predictions of its dense form (%.2g)", seen);
        seen = farthest(all.fused.gradient, all.pulled, size);
        tap_ok(&tap, seen <= rounded, "gradient of its dense form, pulled back (%.2g)", seen);
    }
    test_refusals(&tap);
    test_initialization(&tap);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
