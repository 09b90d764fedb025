/*
 * The gradient of a training loss through whole models: on "ref" against central differences in double
 * (tolerances as in tests/tape/gradients.c, relative to the largest element because losses of three layers
 * are steep), on other devices against "ref".
 */
#include "fixture.h"

#define MAX_SIZE   512
#define MAX_TOKENS 128

static void run(icl_backend *backend, const setting *config, bool differences, double *gradient) {
    model_fixture f;
    float values[MAX_SIZE] = {0}, tokens[MAX_TOKENS];
    double predictions[MAX_TOKENS];

    fixture_open(&f, backend, config);
    fill_parameters(f.model, config, values);
    fill_tokens(tokens, config);
    fixture_write(&f, values, tokens);
    if (differences)
        fixture_differences(&f, config->layers, gradient);
    else
        fixture_gradient(&f, config->layers, predictions, gradient);
    fixture_close(&f);
}

static void check(tap_run *tap, icl_backend *device, icl_backend *ref, const setting *config) {
    double seen[MAX_SIZE] = {0}, expected[MAX_SIZE] = {0};

    run(device, config, false, seen);
    run(ref, config, device == ref, expected);
    const double miss = distance(seen, expected, MAX_SIZE, 1e-2);
    tap_ok(tap, miss <= (device == ref ? 1e-7 : 1e-4), "%s, %s, %zu heads, %zu layers: %.2g",
           parameterizations[config->parameterization], config->mean ? "mean" : "raw", config->heads, config->layers,
           miss);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device, *ref;

    if (!tap_open_device_and_ref(&tap, argc > 1 ? argv[1] : "ref", &device, &ref))
        return tap_done(&tap);
    for (int parameterization = 0; parameterization < PARAMETERIZATIONS; parameterization++)
        for (int mean = 0; mean < 2; mean++)
            for (size_t heads = 1; heads <= 2; heads++)
                for (size_t layers = 1; layers <= 3; layers++)
                    check(&tap, device, ref, &(setting){parameterization, mean, heads, layers, 2, 4, 3});
    tap_close_device_and_ref(&device, &ref);
    return tap_done(&tap);
}
