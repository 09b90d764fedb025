/*
 * Tied layers: a model of L layers that share parameters is the untied one whose layers all hold these, and its
 * gradient the sum of that one's over the layers; by the ops for whole models, and on the tape.
 */
#include "outcome.h"

static icl_status make(const char *parameterization, bool tied, icl_model **model, icl_error *error) {
    char text[64];
    const char *const overrides[] = {text, tied ? "model.tied=true" : "model.tied=false", "model.layers=3",
                                     "model.scale=raw"};
    icl_recipe *recipe = NULL;
    icl_status status = ICL_OK;

    snprintf(text, sizeof text, "model.parameterization=%s", parameterization);
    ICL_TRY(make_recipe(overrides, 4, &recipe, error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(D, N), model, error));
done:
    icl_recipe_destroy(&recipe);
    return status;
}

/* Predictions and gradient, with the same values in each layer of an untied model. */
static icl_status run(icl_backend *backend, const char *parameterization, bool tied, bool fused, outcome *out,
                      icl_error *error) {
    float values[MOST];
    icl_model *model = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(make(parameterization, tied, &model, error));
    const size_t size = icl_model_size(model), layer = tied ? size : size / LAYERS;
    for (size_t first = 0; first < size; first += layer)
        fill_normal(values + first, layer, 21, 0.2F);
    ICL_TRY(run_outcome(backend, model, values, fused, out, error));
done:
    icl_model_destroy(&model);
    return status;
}

static void check(tap_run *tap, icl_backend *backend, const char *parameterization, bool fused) {
    const bool is_ref = icl_backend_capabilities(backend)->element_size == sizeof(double);
    outcome tied = {0}, untied = {0};
    double worst = 0.0, worst_gradient = 0.0, largest = 0.0;
    icl_error error = {0};
    icl_status status = run(backend, parameterization, true, fused, &tied, &error);

    if (status == ICL_OK)
        status = run(backend, parameterization, false, fused, &untied, &error);
    if (!tap_status(tap, status, &error, parameterization))
        return;
    for (size_t b = 0; b < BATCH; b++)
        worst = fmax(worst, fabs(tied.predictions[b] - untied.predictions[b]));
    for (size_t i = 0; i < tied.size; i++) {
        double sum = 0.0;
        for (size_t layer = 0; layer < LAYERS; layer++)
            sum += untied.gradient[layer * tied.size + i];
        largest = fmax(largest, fabs(sum));
        worst_gradient = fmax(worst_gradient, fabs(sum - tied.gradient[i]));
    }
    tap_ok(tap, LAYERS * tied.size == untied.size && worst == 0.0,
           "%s, %s: a third of the parameters, the same predictions", parameterization, fused ? "fused" : "composed");
    tap_ok(tap, largest > 0.1 && worst_gradient <= (is_ref ? 1e-13 : 1e-5) * largest,
           "%s, %s: the gradient is the sum over layers, within %.2g of %.3g", parameterization,
           fused ? "fused" : "composed", worst_gradient, largest);
}

/* The noise of layer 0, and a start like that of the first of several layers. */
static void test_initialization(tap_run *tap) {
    icl_model *tied = NULL, *untied = NULL;
    float of_tied[MOST] = {0}, of_untied[MOST] = {0};
    icl_error error = {0};

    if (make("gd++", true, &tied, &error) == ICL_OK && make("gd++", false, &untied, &error) == ICL_OK) {
        icl_model_initialize(tied, 3, of_tied);
        icl_model_initialize(untied, 3, of_untied);
        tap_ok(tap, memcmp(of_tied, of_untied, icl_model_size(tied) * sizeof(float)) == 0,
               "a tied model starts as the first layer of an untied one");
    } else {
        tap_status(tap, ICL_ERROR_INPUT, &error, "models");
    }
    icl_model_destroy(&tied);
    icl_model_destroy(&untied);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (!backend)
        return tap_done(&tap);
    for (int parameterization = 0; parameterization < PARAMETERIZATIONS; parameterization++)
        for (int fused = 0; fused < 2; fused++)
            check(&tap, backend, parameterizations[parameterization], fused != 0);
    test_initialization(&tap);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
