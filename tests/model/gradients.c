/*
 * The gradient of a training loss through whole models: on "ref" against central differences in double
 * (tolerances as in tests/tape/gradients.c, relative to the largest element because losses of three layers
 * are steep), on other devices against "ref".
 */
#include "fixture.h"

#define MAX_SIZE   512
#define MAX_TOKENS 128

static icl_variable record_loss(model_fixture *f) {
    const icl_variable prediction = fixture_predict(f, f->is.layers);
    const icl_variable target = icl_tape_filled(f->tape, 1, (const size_t[]){1}, 0.7);
    const icl_variable miss = icl_tape_binary(f->tape, ICL_SUBTRACT, prediction, target);
    return icl_tape_scale(f->tape, 1.0 / (double)f->is.batch, icl_tape_reduce(f->tape, ICL_SUM_OF_SQUARES, 7, miss));
}

static icl_status open_filled(model_fixture *f, icl_backend *backend, const setting *is, float *values,
                              icl_error *error) {
    float tokens[MAX_TOKENS];
    icl_status status = ICL_OK;

    ICL_TRY(fixture_open(f, backend, is, error));
    fill_parameters(f->model, is, values);
    fill_tokens(tokens, is);
    ICL_TRY(icl_tensor_write(f->parameters, values, error));
    ICL_TRY(icl_tensor_write(f->tokens, tokens, error));
done:
    return status;
}

static icl_status gradient_on(icl_backend *backend, const setting *is, double *gradient, icl_error *error) {
    model_fixture f;
    float values[MAX_SIZE];
    icl_status status = ICL_OK;

    ICL_TRY(open_filled(&f, backend, is, values, error));
    ICL_TRY(icl_tape_backward(f.tape, record_loss(&f), error));
    ICL_TRY(icl_tensor_read_double(f.gradient, gradient, error));
done:
    fixture_close(&f);
    return status;
}

static icl_status differences_on(icl_backend *backend, const setting *is, double *gradient, icl_error *error) {
    const double h = 1e-5;
    model_fixture f;
    float values[MAX_SIZE] = {0};
    double point[MAX_SIZE], loss[2];
    icl_status status = ICL_OK;

    ICL_TRY(open_filled(&f, backend, is, values, error));
    for (size_t i = 0; i < icl_model_size(f.model); i++)
        point[i] = (double)values[i];
    for (size_t i = 0; i < icl_model_size(f.model); i++) {
        for (int side = 0; side < 2; side++) {
            point[i] = (double)values[i] + (side ? h : -h);
            ICL_TRY(icl_tensor_write_double(f.parameters, point, error));
            const icl_variable out = record_loss(&f);
            ICL_TRY(icl_tape_status(f.tape, error));
            ICL_TRY(icl_tensor_read_double(icl_tape_value(f.tape, out), &loss[side], error));
        }
        point[i] = (double)values[i];
        gradient[i] = (loss[1] - loss[0]) / (2.0 * h);
    }
done:
    fixture_close(&f);
    return status;
}

static void check(tap_run *tap, icl_backend *device, icl_backend *ref, const setting *is) {
    const double allowed = device == ref ? 1e-7 : 1e-4;
    double seen[MAX_SIZE] = {0}, expected[MAX_SIZE] = {0}, largest = 1e-2, worst = 0.0;
    icl_error error = {0};
    icl_status status = gradient_on(device, is, seen, &error);

    if (status == ICL_OK)
        status = device == ref ? differences_on(ref, is, expected, &error) : gradient_on(ref, is, expected, &error);
    for (size_t i = 0; i < MAX_SIZE; i++) {
        largest = fmax(largest, fabs(expected[i]));
        worst = isnan(seen[i]) ? HUGE_VAL : fmax(worst, fabs(seen[i] - expected[i]));
    }
    if (status != ICL_OK)
        tap_note("%s", error.message);
    tap_ok(tap, status == ICL_OK && worst <= allowed * largest, "%s, %s, %zu heads, %zu layers: %.2g of %.3g",
           parameterizations[is->parameterization], is->mean ? "mean" : "raw", is->heads, is->layers, worst, largest);
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
