/* Decoding: whole models one position at a time against all positions at once; sequences after a reset; keys and values
 * beyond the room that was allocated; and refusals of a decoder. */
#include "fixture.h"

static const char *const settings[] = {
    "mixer=softmax positions=learned",
    "mixer=softmax norm=layer norm_place=after loops=2",
    "mixer=linear feature_map=elu+1 normalizer=true",
    "mixer=retention feed_forward=swiglu",
    "mixer=gla",
    "mixer=mamba2",
    "mixer=mamba3 key_width=4",
    "mixer=mamba3 key_width=4 mimo_rank=3 loops=2 convolution=3 positions=rotary",
    "mixer=delta write_strength=2",
    "mixer=gated-delta output_gate=true",
    "mixer=delta-product delta_steps=3",
    "mixer=kda write_strength=2 output_gate=true",
    "mixer=gated-delta-2",
    "mixer=preconditioned-delta",
    "mixer=comba convolution=2",
    "mixer=rwkv7 positions=rotary key_width=4",
    "mixer=titans gate_limit=0.9",
    "mixer=longhorn",
    "mixer=fox output_gate=true",
    "mixer=fox,kda layers=3 loops=2 convolution=3",
    "mixer=softmax sinks=true output_gate=true positions=rotary key_width=4",
    "mixer=mesa",
    "mixer=momentum",
    "mixer=gsa slots=5 gate_root=8 convolution=3",
    "mixer=log-linear convolution=2",
    "mixer=oja write_strength=2 value_width=3",
    "mixer=softmax,delta layers=3 loops=2",
    "mixer=delta,softmax window=1",
    "mixer=softmax window=2 positions=rotary key_width=4 loops=2",
    "mixer=gated-delta,softmax window=9 convolution=3",
    "mixer=softmax window=37",
    "mixer=softmax,delta window=1000 convolution=2",
    "mixer=conv heads=1 convolution=4",
    "mixer=gated-delta convolution=3 positions=rotary key_width=4",
    "mixer=delta-product convolution=2 positions=rotary key_width=4",
    "mixer=softmax positions=rotary key_width=4 convolution=2",
    "mixer=linear positions=sinusoidal feature_map=dpfp:3 normalize_keys=sum",
    "mixer=mesa,conv convolution=3 positions=sinusoidal feature_map=favor:4",
    "symbols mixer=retention positions=rotary key_width=4",
    "symbols mixer=gated-delta tied_embedding=true",
};

enum { T = 37, B = 3 };

/* Returns the inputs of one position: a view without the axis of positions. */
static icl_tensor at_position(icl_tensor all, size_t t) {
    icl_tensor view = icl_tensor_slice(all, 1, t, 1);
    view.rank--;
    for (int i = 1; i < view.rank; i++) {
        view.shape[i] = all.shape[i + 1];
        view.stride[i] = all.stride[i + 1];
    }
    return view;
}

/* Computes outputs [batch, count, q], starting at the first position of the fixture's inputs. */
static icl_status decode(icl_decoder *decoder, const fixture *f, size_t batch, size_t count, double *outputs,
                         icl_error *error) {
    const size_t q = f->outputs / (batch * T), shape[] = {batch, q};
    double step[B * 8];
    icl_tensor out = {0};
    icl_status status = ICL_OK;

    tap_need(icl_tensor_create(f->backend, 2, shape, &out, tap_error()));
    for (size_t t = 0; t < count && status == ICL_OK; t++) {
        status = icl_decoder_step(decoder, at_position(f->inputs, t), out, error);
        tap_need(icl_tensor_read_double(out, step, tap_error()));
        for (size_t b = 0; b < batch; b++)
            memcpy(outputs + (b * count + t) * q, step + b * q, q * sizeof *step);
    }
    icl_tensor_release(&out);
    return status;
}

static void check_equality(tap_run *tap, icl_backend *device, const char *overrides) {
    static double all[MOST_NUMBERS], once[MOST_NUMBERS], again[MOST_NUMBERS];
    const bool exact = icl_backend_capabilities(device)->element_size == sizeof(double);
    const setting is = long_setting(overrides, B);
    icl_decoder *decoder = NULL;
    fixture f;

    fixture_open(&f, device, &is);
    read_outputs(&f, all);
    tap_need(icl_decoder_create(f.model, device, f.parameters, B, &decoder, tap_error()));
    tap_need(decode(decoder, &f, B, T, once, tap_error()));
    icl_decoder_reset(decoder);
    tap_need(decode(decoder, &f, B, T, again, tap_error()));
    const double worst = distance(all, once, f.outputs);
    tap_ok(tap, worst <= (exact ? 1e-12 : 1e-4) && distance(once, again, f.outputs) == 0,
           "%s: %.2g from all at once, and again the same", overrides, worst);
    tap_ok(tap, icl_decoder_position(decoder) == T && icl_decoder_state_bytes(decoder) > 0, "position %zu, %zu bytes",
           icl_decoder_position(decoder), icl_decoder_state_bytes(decoder));
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
}

/* Decodes twice as many positions as the task has: the second half continues from the first one's state. */
static icl_status decode_beyond(icl_backend *backend, const char *overrides, double *outputs, icl_error *error) {
    const setting is = long_setting(overrides, B);
    icl_decoder *decoder = NULL;
    fixture f;

    fixture_open(&f, backend, &is);
    tap_need(icl_decoder_create(f.model, backend, f.parameters, B, &decoder, tap_error()));
    tap_need(decode(decoder, &f, B, T, outputs, tap_error()));
    const icl_status status = decode(decoder, &f, B, T, outputs, error);
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
    return status;
}

/* Decodes the task's positions `rounds` times without a reset, and returns the bytes of the state at the end. */
static size_t state_after(icl_backend *device, const char *overrides, size_t rounds) {
    static double outputs[MOST_NUMBERS];
    const setting is = long_setting(overrides, B);
    icl_decoder *decoder = NULL;
    fixture f;

    fixture_open(&f, device, &is);
    tap_need(icl_decoder_create(f.model, device, f.parameters, B, &decoder, tap_error()));
    for (size_t i = 0; i < rounds; i++)
        tap_need(decode(decoder, &f, B, T, outputs, tap_error()));
    const size_t bytes = icl_decoder_state_bytes(decoder);
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
    return bytes;
}

/* Each of two layers keeps keys and values of 3 numbers for 2 heads and the W - 1 = 8 positions before the next. */
static void check_window_state(tap_run *tap, icl_backend *device) {
    const size_t element = icl_backend_capabilities(device)->element_size;
    const size_t expected = 2 * B * 2 * 8 * (3 + 3) * element;

    for (size_t rounds = 0; rounds < 3; rounds++) {
        const size_t bytes = state_after(device, "mixer=softmax window=9", rounds);
        tap_ok(tap, bytes == expected, "after %zu positions a window of 9 holds %zu bytes, expected %zu", rounds * T,
               bytes, expected);
    }
}

/* Two layers with a window of 3 and a filter of 2 see 6 positions back. So the inputs of the task, decoded again and
 * again, have the same outputs from the seventh on, while what is remembered moves to the beginning of its room. */
static void check_slide(tap_run *tap, icl_backend *device) {
    static double first[MOST_NUMBERS], later[MOST_NUMBERS];
    enum { ROUNDS = 8, SEEN = 6 };
    const setting is = long_setting("mixer=softmax window=3 convolution=2", 1);
    icl_decoder *decoder = NULL;
    fixture f;

    fixture_open(&f, device, &is);
    const size_t q = f.outputs / T;
    tap_need(icl_decoder_create(f.model, device, f.parameters, 1, &decoder, tap_error()));
    tap_need(decode(decoder, &f, 1, T, first, tap_error()));
    for (int round = 1; round < ROUNDS; round++) {
        tap_need(decode(decoder, &f, 1, T, later, tap_error()));
        tap_ok(tap, distance(first + SEEN * q, later + SEEN * q, (T - SEEN) * q) == 0 && distance(first, later, q) > 0,
               "round %d of a sliding window: the same after %d positions", round, SEEN);
    }
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
}

static void check_beyond(tap_run *tap, icl_backend *device) {
    static double outputs[MOST_NUMBERS];
    icl_error error = {0};

    tap_ok(tap,
           decode_beyond(device, "mixer=softmax,delta", outputs, &error) == ICL_OK &&
               isfinite(largest_of(outputs, B * T * 2)),
           "more positions than the task has %s", error.message);
    tap_ok(tap,
           decode_beyond(device, "mixer=softmax positions=learned", outputs, &error) == ICL_ERROR_INPUT &&
               strstr(error.message, "learned"),
           "but not of learned ones: %s", error.message);
}

/* Checks a refusal: of 0 sequences, of a model that cannot be decoded, or of inputs that do not fit. */
static void check_decoder(tap_run *tap, icl_backend *device, const char *overrides, size_t batch,
                          const char *expected) {
    const setting is = long_setting(overrides, B);
    icl_decoder *decoder = NULL;
    icl_error error = {0};
    fixture f;

    fixture_open(&f, device, &is);
    icl_status status = icl_decoder_create(f.model, device, f.parameters, batch, &decoder, &error);
    if (status == ICL_OK) /* with all positions at once */
        status = icl_decoder_step(decoder, f.inputs, f.inputs, &error);
    tap_ok(tap, status == ICL_ERROR_INPUT && strstr(error.message, expected), "%s: %s", overrides, error.message);
    icl_decoder_destroy(&decoder);
    fixture_close(&f);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    if (!device)
        return tap_done(&tap);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        check_equality(&tap, device, settings[i]);
    check_window_state(&tap, device);
    check_slide(&tap, device);
    check_beyond(&tap, device);
    check_decoder(&tap, device, "mixer=softmax causal=false", B, "expected a causal model");
    check_decoder(&tap, device, "mixer=softmax readout=pooled", B, "reads each position out");
    check_decoder(&tap, device, "mixer=softmax readout=last", B, "reads each position out");
    check_decoder(&tap, device, "mixer=linear", 0, "at least 1 sequence");
    check_decoder(&tap, device, "mixer=linear", B, "expected [3, 3]");
    icl_backend_close(&device);
    return tap_done(&tap);
}
