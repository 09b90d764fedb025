/*
 * Decoding: whole models one position at a time against all positions at once; sequences after a reset; keys and values
 * beyond the room that was made for them; and what a decoder refuses.
 */
#include "fixture.h"

static const char *const settings[] = {
    "mixer=softmax positions=learned",
    "mixer=softmax norm=layer norm_place=after loops=2",
    "mixer=linear feature_map=elu+1 normalizer=true",
    "mixer=retention feed_forward=swiglu",
    "mixer=gla",
    "mixer=mamba2",
    "mixer=delta write_strength=2",
    "mixer=gated-delta output_gate=true",
    "mixer=delta-product delta_steps=3",
    "mixer=mesa",
    "mixer=momentum",
    "mixer=softmax,delta layers=3 loops=2",
    "mixer=conv heads=1 convolution=4",
    "mixer=gated-delta convolution=3 positions=rotary key_width=4",
    "mixer=delta-product convolution=2 positions=rotary key_width=4",
    "mixer=softmax positions=rotary key_width=4 convolution=2",
    "mixer=linear positions=sinusoidal feature_map=dpfp:3 normalize_keys=sum",
    "mixer=mesa,conv convolution=3 positions=sinusoidal feature_map=favor:4",
    "symbols mixer=retention positions=rotary key_width=4",
};

enum { T = 37, B = 3 };

static setting setting_of(const char *overrides) {
    setting is = {overrides, small_shape, B};
    is.shape.positions = is.shape.scored = T;
    is.shape.first_scored = 0;
    if (strncmp(overrides, "symbols ", 8) == 0) {
        is.overrides = overrides + 8;
        is.shape.symbols = 5;
        is.shape.inputs = 0;
    }
    return is;
}

/* Inputs of one position: a view without the axis of positions. */
static icl_tensor at_position(icl_tensor all, size_t t) {
    icl_tensor view = icl_tensor_slice(all, 1, t, 1);
    view.rank--;
    for (int i = 1; i < view.rank; i++) {
        view.shape[i] = all.shape[i + 1];
        view.stride[i] = all.stride[i + 1];
    }
    return view;
}

/* outputs [B, count, q], from position `first` of the fixture's inputs on. */
static icl_status decode(icl_decoder *decoder, const fixture *f, size_t first, size_t count, double *outputs,
                         icl_error *error) {
    const size_t q = small_shape.outputs, shape[] = {B, q};
    double made[B * 8];
    icl_tensor out = {0};
    icl_status status = ICL_OK;

    ICL_TRY(icl_tensor_create(f->backend, 2, shape, &out, error));
    for (size_t t = 0; t < count; t++) {
        ICL_TRY(icl_decoder_step(decoder, at_position(f->inputs, first + t), out, error));
        ICL_TRY(icl_tensor_read_double(out, made, error));
        for (size_t b = 0; b < B; b++)
            memcpy(outputs + (b * count + t) * q, made + b * q, q * sizeof *made);
    }
done:
    icl_tensor_release(&out);
    return status;
}

static icl_status compare(icl_backend *backend, const char *overrides, double worst[2], icl_error *error) {
    static double all[MOST_NUMBERS], once[MOST_NUMBERS], again[MOST_NUMBERS];
    const setting is = setting_of(overrides);
    icl_decoder *decoder = NULL;
    fixture f;
    icl_status status = ICL_OK;

    ICL_TRY(fixture_open(&f, backend, &is, error));
    ICL_TRY(read_outputs(&f, all, error));
    ICL_TRY(icl_decoder_create(f.model, backend, f.parameters, B, &decoder, error));
    ICL_TRY(decode(decoder, &f, 0, T, once, error));
    icl_decoder_reset(decoder);
    ICL_TRY(decode(decoder, &f, 0, T, again, error));
    worst[0] = distance(all, once, f.outputs);
    worst[1] = distance(once, again, f.outputs);
    if (icl_decoder_position(decoder) != T || icl_decoder_state_bytes(decoder) == 0)
        status = icl_fail(error, ICL_ERROR_INPUT, "position %zu, %zu bytes", icl_decoder_position(decoder),
                          icl_decoder_state_bytes(decoder));
done:
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
    return status;
}

static void test_equality(tap_run *tap, icl_backend *device) {
    const bool exact = icl_backend_capabilities(device)->element_size == sizeof(double);

    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        double worst[2] = {HUGE_VAL, HUGE_VAL};
        icl_error error = {0};
        const icl_status status = compare(device, settings[i], worst, &error);
        if (status != ICL_OK)
            tap_note("%s", error.message);
        tap_ok(tap, status == ICL_OK && worst[0] <= (exact ? 1e-12 : 1e-4) && worst[1] == 0, "%s: %.2g, again %.2g",
               settings[i], worst[0], worst[1]);
    }
}

/* Twice the positions of the task: the second half continues the first one's state. */
static icl_status decode_beyond(icl_backend *backend, const char *overrides, double *outputs, icl_error *error) {
    const setting is = setting_of(overrides);
    icl_decoder *decoder = NULL;
    fixture f;
    icl_status status = ICL_OK;

    ICL_TRY(fixture_open(&f, backend, &is, error));
    ICL_TRY(icl_decoder_create(f.model, backend, f.parameters, B, &decoder, error));
    ICL_TRY(decode(decoder, &f, 0, T, outputs, error));
    ICL_TRY(decode(decoder, &f, 0, T, outputs, error));
done:
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
    return status;
}

static void test_beyond(tap_run *tap, icl_backend *device) {
    static double outputs[MOST_NUMBERS];
    icl_error error = {0};
    icl_status status = decode_beyond(device, "mixer=softmax,delta", outputs, &error);

    tap_ok(tap, status == ICL_OK && isfinite(largest_of(outputs, B * T * 2)), "more positions than the task has %s",
           error.message);
    status = decode_beyond(device, "mixer=softmax positions=learned", outputs, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "learned"), "but not of learned ones: %s",
           error.message);
}

static void refuse(tap_run *tap, icl_backend *device, const char *overrides, const char *expected) {
    setting is = setting_of(overrides);
    icl_decoder *decoder = NULL;
    icl_error error = {0};
    fixture f;
    icl_status status;

    if (strstr(overrides, "pooled"))
        is.shape.scored = 1;
    status = fixture_open(&f, device, &is, &error);
    if (status == ICL_OK)
        status = icl_decoder_create(f.model, device, f.parameters, B, &decoder, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, expected), "%s: %s", overrides, error.message);
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
}

static void test_shapes(tap_run *tap, icl_backend *device) {
    const setting is = setting_of("mixer=linear");
    icl_decoder *decoder = NULL;
    icl_error error = {0};
    fixture f;
    icl_status status = fixture_open(&f, device, &is, &error);

    if (status == ICL_OK)
        status = icl_decoder_create(f.model, device, f.parameters, 0, &decoder, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "at least 1 sequence"), "%s", error.message);
    status = icl_decoder_create(f.model, device, f.parameters, B, &decoder, &error);
    if (status == ICL_OK)
        status = icl_decoder_step(decoder, f.inputs, f.inputs, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, "expected [3, 3]"), "%s", error.message);
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (device) {
        test_equality(&tap, device);
        test_beyond(&tap, device);
        refuse(&tap, device, "mixer=softmax causal=false", "expected a causal model");
        refuse(&tap, device, "mixer=softmax readout=pooled", "reads each position out");
        refuse(&tap, device, "mixer=softmax readout=last", "reads each position out");
        test_shapes(&tap, device);
    }
    icl_backend_close(&device);
    return tap_done(&tap);
}
