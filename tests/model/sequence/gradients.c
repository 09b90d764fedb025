/*
 * Gradients through whole sequence models: on "ref" against central differences in double, along random directions and
 * for single parameters; on other devices against "ref".
 */
#include "fixture.h"

static const char *const settings[] = {
    "mixer=softmax",
    "mixer=softmax causal=false positions=learned",
    "mixer=labelled causal=false",
    "mixer=labelled causal=false tokens=cells",
    "mixer=labelled causal=false tokens=cells label_inputs=1 norm=layer norm_place=after loops=2 dropout=0.3",
    "mixer=softmax norm=layer norm_place=after feed_forward=relu",
    "mixer=softmax norm=none feed_forward=none",
    "mixer=softmax readout=pooled causal=false",
    "mixer=softmax readout=last",
    "mixer=delta readout=last norm=layer norm_place=after",
    "mixer=softmax loops=3 layers=1",
    "mixer=softmax window=2",
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
    "mixer=mamba3 key_width=4",
    "mixer=mamba3 key_width=4 mimo_rank=3 output_gate=true convolution=2",
    "mixer=delta",
    "mixer=delta write_strength=2 feature_map=elu+1 normalize_keys=sum",
    "mixer=gated-delta output_gate=true",
    "mixer=delta-product delta_steps=3 write_strength=2",
    "mixer=kda",
    "mixer=kda output_gate=true gate_limit=0.9 write_strength=2",
    "mixer=gated-delta-2",
    "mixer=preconditioned-delta",
    "mixer=comba",
    "mixer=rwkv7",
    "mixer=rwkv7 feature_map=elu+1 convolution=2",
    "mixer=titans",
    "mixer=longhorn output_norm=none",
    "mixer=fox",
    "mixer=softmax sinks=true output_gate=true",
    "mixer=softmax sinks=true causal=false",
    "mixer=mesa",
    "mixer=mesa gate_limit=0.9 ridge=0.3",
    "mixer=mesa iterations=0",
    "mixer=momentum momentum=0.7",
    "mixer=gsa slots=3 gate_root=8 value_width=2",
    "mixer=log-linear",
    "mixer=oja write_strength=2 gate_limit=0.9 value_width=2",
    "mixer=linear activation_clip=0.5",
    "mixer=softmax,delta layers=3",
    "mixer=linear,softmax feature_map=learned normalize_keys=unit",
    "mixer=conv heads=1 convolution=3",
    "mixer=softmax positions=rotary key_width=4 convolution=2",
    "mixer=delta-product convolution=3 positions=rotary key_width=4",
    "mixer=mesa convolution=4 positions=sinusoidal",
    "mixer=delta dropout=0.3 feed_forward=swiglu",
    "mixer=softmax dropout=0.5 norm=layer norm_place=after loops=2",
    "symbols mixer=delta positions=learned",
    "symbols mixer=delta tied_embedding=true",
};

/* Returns whether a parameter is a fixed direction of random features, which has no gradient, although the loss depends
 * on it. */
static bool is_fixed(const icl_model *model, size_t index) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (index >= info->offset && index < info->offset + info->count)
            return strstr(info->name, "directions") != NULL;
    }
    return false;
}

static icl_variable record_outputs(fixture *f, icl_tensor targets, const void *how) {
    (void)how;
    return loss_of(f, record(f), targets);
}

/* Computes the gradient on the tape, or by differences. Returns the number of parameters. */
static size_t gradient_on(icl_backend *backend, const setting *config, bool differences, double *gradient) {
    fixture f;

    fixture_open(&f, backend, config);
    const size_t size = icl_model_size(f.model);
    icl_tensor targets = make_targets(&f, config);
    if (differences) {
        differentiate(&f, record_outputs, targets, NULL, gradient);
        for (size_t i = 0; i < size; i++)
            gradient[i] = is_fixed(f.model, i) ? 0 : gradient[i];
    } else {
        tap_need(icl_tape_backward(f.tape, record_outputs(&f, targets, NULL), tap_error()));
        tap_need(icl_tensor_read_double(f.gradient, gradient, tap_error()));
    }
    icl_tensor_release(&targets);
    fixture_close(&f);
    return size;
}

static void check(tap_run *tap, icl_backend *device, icl_backend *ref, const char *overrides) {
    /* Differences err by h^2 times a third derivative and by rounding over h; devices by some thousand roundings of
     * float. */
    const double allowed = device == ref ? 1e-6 : 2e-4;
    static double seen[MOST_NUMBERS], expected[MOST_NUMBERS];
    const setting is = setting_of(overrides, 2);
    const size_t size = gradient_on(device, &is, false, seen);

    gradient_on(ref, &is, device == ref, expected);
    const double largest = largest_of(expected, size), worst = distance(seen, expected, size);
    tap_ok(tap, size > 0 && largest > 0 && worst <= allowed * fmax(largest, 0.1), "%s: %.2g of %.3g, %zu parameters",
           overrides, worst, largest, size);
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
