/*
 * Gradients through whole sequence models: on "ref" against central differences in double, along random directions and
 * for single parameters; on other devices against "ref".
 */
#include "fixture.h"

static const char *const settings[] = {
    "mixer=softmax",
    "mixer=softmax causal=false positions=learned",
    "mixer=softmax norm=layer norm_place=after feed_forward=relu",
    "mixer=softmax norm=none feed_forward=none",
    "mixer=softmax readout=pooled causal=false",
    "mixer=softmax readout=last",
    "mixer=delta readout=last norm=layer norm_place=after",
    "mixer=softmax loops=3 layers=1",
    "mixer=softmax loops=3 layers=1 norm=layer loop_norm=true injection=false",
    "mixer=linear",
    "mixer=linear causal=false feature_map=elu+1 normalizer=true output_norm=none",
    "mixer=linear feature_map=elu+1 normalizer=true feed_forward=swiglu output_norm=layer",
    "mixer=linear feature_map=relu feed_forward=swiglu",
    "mixer=linear feature_map=dpfp:2 normalize_keys=sum feed_forward=quadratic",
    "mixer=linear causal=false embedding_bias=false norm=none output_norm=none feed_forward=quadratic",
    "mixer=linear feature_map=favor:3",
    "mixer=linear feature_map=learned output_gate=true",
    "mixer=linear feature_map=learned:5 output_norm=none",
    "mixer=linear feature_map=tanh",
    "mixer=linear feature_map=learned normalize_keys=unit key_width=4 value_width=2",
    "mixer=retention",
    "mixer=gla",
    "mixer=gla gate_limit=0.9 gate_root=2",
    "mixer=mamba2 gate_limit=0.95",
    "mixer=delta",
    "mixer=delta write_strength=2 feature_map=elu+1 normalize_keys=sum",
    "mixer=gated-delta output_gate=true",
    "mixer=delta-product delta_steps=3 write_strength=2",
    "mixer=mesa",
    "mixer=mesa gate_limit=0.9 ridge=0.3",
    "mixer=mesa iterations=0",
    "mixer=momentum momentum=0.7",
    "mixer=linear activation_clip=0.5",
    "mixer=softmax,delta layers=3",
    "mixer=linear,softmax feature_map=learned normalize_keys=unit",
    "mixer=conv heads=1 convolution=3",
    "mixer=softmax positions=rotary key_width=4 convolution=2",
    "mixer=delta-product convolution=3 positions=rotary key_width=4",
    "mixer=mesa convolution=4 positions=sinusoidal",
    "symbols mixer=delta positions=learned",
};

static setting setting_of(const char *overrides) {
    setting is = {overrides, small_shape, 2};
    if (strstr(overrides, "pooled"))
        is.shape.scored = 1;
    if (strstr(overrides, "symbols")) {
        is.overrides = overrides + strlen("symbols ");
        is.shape.symbols = 5;
        is.shape.inputs = 0;
    }
    return is;
}

/* The mean of (output - target)^2 with a target of its own for each output. */
static icl_variable record_loss(fixture *f, icl_tensor targets) {
    const icl_variable out = record(f);
    const icl_variable miss = icl_tape_binary(f->tape, ICL_SUBTRACT, out, icl_tape_constant(f->tape, targets));
    return icl_tape_reduce(f->tape, ICL_MEAN, 7, icl_tape_unary(f->tape, ICL_SQUARE, miss));
}

static icl_status make_targets(fixture *f, const setting *is, icl_tensor *targets, icl_error *error) {
    const size_t shape[] = {is->batch, is->shape.scored, is->shape.outputs};
    double values[64];

    ICL_CHECK(icl_tensor_create(f->backend, 3, shape, targets, error));
    for (size_t i = 0; i < f->outputs; i++)
        values[i] = (double)noise(5, i);
    return icl_tensor_write_double(*targets, values, error);
}

static icl_status gradient_on(icl_backend *backend, const setting *is, double *gradient, icl_error *error) {
    icl_tensor targets = {0};
    fixture f;
    icl_status status = ICL_OK;

    ICL_TRY(fixture_open(&f, backend, is, error));
    ICL_TRY(make_targets(&f, is, &targets, error));
    ICL_TRY(icl_tape_backward(f.tape, record_loss(&f, targets), error));
    ICL_TRY(icl_tensor_read_double(f.gradient, gradient, error));
done:
    icl_tensor_release(&targets);
    fixture_close(&f);
    return status;
}

static icl_status loss_at(fixture *f, icl_tensor targets, const double *point, double *loss, icl_error *error) {
    ICL_CHECK(icl_tensor_write_double(f->parameters, point, error));
    const icl_variable out = record_loss(f, targets);
    ICL_CHECK(icl_tape_status(f->tape, error));
    return icl_tensor_read_double(icl_tape_value(f->tape, out), loss, error);
}

/* Fixed directions of random features have no gradient, though the loss depends on them. */
static bool is_fixed(const icl_model *model, size_t index) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (index >= info->offset && index < info->offset + info->count)
            return strstr(info->name, "directions") != NULL;
    }
    return false;
}

static icl_status differences_on(icl_backend *backend, const setting *is, double *gradient, icl_error *error) {
    const double h = 1e-5;
    icl_tensor targets = {0};
    fixture f;
    double point[MOST_NUMBERS], loss[2];
    icl_status status = ICL_OK;

    ICL_TRY(fixture_open(&f, backend, is, error));
    ICL_TRY(make_targets(&f, is, &targets, error));
    ICL_TRY(icl_tensor_read_double(f.parameters, point, error));
    for (size_t i = 0; i < icl_model_size(f.model); i++) {
        const double value = point[i];
        for (int side = 0; side < 2; side++) {
            point[i] = value + (side ? h : -h);
            ICL_TRY(loss_at(&f, targets, point, &loss[side], error));
        }
        point[i] = value;
        gradient[i] = is_fixed(f.model, i) ? 0 : (loss[1] - loss[0]) / (2.0 * h);
    }
done:
    icl_tensor_release(&targets);
    fixture_close(&f);
    return status;
}

static void check(tap_run *tap, icl_backend *device, icl_backend *ref, const char *overrides) {
    /* Differences: h^2 times a third derivative, and rounding over h. Devices: some thousand roundings of float. */
    const double allowed = device == ref ? 1e-6 : 2e-4;
    static double seen[MOST_NUMBERS], expected[MOST_NUMBERS];
    const setting is = setting_of(overrides);
    icl_error error = {0};
    icl_model *model = NULL;
    size_t size = 0;
    icl_status status = make_model(&is, &model, &error);

    if (status == ICL_OK) {
        size = icl_model_size(model);
        status = gradient_on(device, &is, seen, &error);
    }
    if (status == ICL_OK)
        status = device == ref ? differences_on(ref, &is, expected, &error) : gradient_on(ref, &is, expected, &error);
    const double largest = largest_of(expected, size), worst = distance(seen, expected, size);
    if (status != ICL_OK)
        tap_note("%s", error.message);
    tap_ok(tap, status == ICL_OK && size > 0 && largest > 0 && worst <= allowed * fmax(largest, 0.1),
           "%s: %.2g of %.3g, %zu parameters", overrides, worst, largest, size);
    icl_model_destroy(&model);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device, *ref;

    if (!tap_open_device_and_ref(&tap, argc > 1 ? argv[1] : "ref", &device, &ref))
        return tap_done(&tap);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check(&tap, device, ref, settings[i]);
    tap_close_device_and_ref(&device, &ref);
    return tap_done(&tap);
}
