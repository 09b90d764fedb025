/* Properties of every mixer: sequences do not affect each other, not even by a NaN; causal models do not depend on
 * later positions; the number of threads changes no bit; the start is a function of the seed. */
#include "fixture.h"

static const char *const settings[] = {
    "mixer=softmax",
    "mixer=linear",
    "mixer=retention",
    "mixer=gla",
    "mixer=mamba2",
    "mixer=mamba3 key_width=4",
    "mixer=mamba3 key_width=4 mimo_rank=2",
    "mixer=delta",
    "mixer=mesa",
    "mixer=gated-delta",
    "mixer=delta-product",
    "mixer=momentum",
    "mixer=kda",
    "mixer=gated-delta-2",
    "mixer=preconditioned-delta",
    "mixer=comba",
    "mixer=rwkv7",
    "mixer=titans",
    "mixer=longhorn",
    "mixer=gsa",
    "mixer=oja",
    "mixer=log-linear",
    "mixer=fox",
    "mixer=softmax sinks=true output_gate=true",
};

enum { T = 37, B = 5 };

/* Computes outputs with one input of sequence 1 at position `at` set to the value. */
static void outputs_with(icl_backend *backend, const setting *config, size_t at, double value, double *outputs) {
    static double inputs[MOST_NUMBERS];
    fixture f;

    fixture_open(&f, backend, config);
    tap_need(icl_tensor_read_double(f.inputs, inputs, tap_error()));
    inputs[(T + at) * small_shape.inputs] = value;
    tap_need(icl_tensor_write_double(f.inputs, inputs, tap_error()));
    read_outputs(&f, outputs);
    fixture_close(&f);
}

/* Returns whether outputs [from, to) are equal and none is NaN. */
static bool same(const double *a, const double *b, size_t from, size_t to) {
    return distance(a + from, b + from, to - from) == 0;
}

static void test_isolation(tap_run *tap, icl_backend *device, const char *overrides) {
    static double plain[MOST_NUMBERS], changed[MOST_NUMBERS];
    const size_t q = small_shape.outputs, one = T * q, all = B * one, at = 20;
    const setting is = long_setting(overrides, B);

    outputs_of(device, &is, plain);
    outputs_with(device, &is, at, (double)NAN, changed);
    tap_ok(tap, same(plain, changed, 0, one) && same(plain, changed, 2 * one, all), "%s: NaN stays in its sequence",
           overrides);
    tap_ok(tap, isnan(changed[one + at * q]), "%s: and is not lost", overrides);
    outputs_with(device, &is, at, 3.0, changed);
    tap_ok(tap, same(plain, changed, one, one + at * q), "%s: positions see none after them", overrides);
    tap_ok(tap, !same(plain, changed, 2 * one - q, 2 * one), "%s: but those before them", overrides);
}

static void test_threads(tap_run *tap, const char *overrides) {
    static double outputs[2][MOST_NUMBERS];
    static const char *const specs[] = {"cpu:threads=1", "cpu:threads=3"};
    const setting is = long_setting(overrides, B);

    for (int i = 0; i < 2; i++) {
        icl_backend *backend = NULL;
        tap_need(icl_backend_open(&(icl_backend_params){.spec = specs[i]}, &backend, tap_error()));
        outputs_of(backend, &is, outputs[i]);
        icl_backend_close(&backend);
    }
    tap_ok(tap, same(outputs[0], outputs[1], 0, B * T * small_shape.outputs), "%s: the same bits by 1 and 3 threads",
           overrides);
}

static void test_start(tap_run *tap) {
    static float values[3][MOST_NUMBERS];
    const setting is = long_setting("mixer=mesa,mamba2 layers=2 feature_map=favor:4", B);
    icl_model *model = NULL;
    bool finite = true, differ = false, again = true;

    tap_need(make_model(&is, &model, tap_error()));
    const size_t size = icl_model_size(model);
    for (uint32_t i = 0; i < 3; i++)
        icl_model_initialize(model, i == 1 ? 2 : 1, values[i]);
    for (size_t i = 0; i < size; i++) {
        finite = finite && isfinite(values[0][i]);
        differ = differ || values[0][i] != values[1][i];
        again = again && values[0][i] == values[2][i];
    }
    tap_ok(tap, finite && differ && again, "the start is finite and a function of the seed: %zu numbers", size);
    icl_model_destroy(&model);
}

/* A mesa layer begins with the requested ridge, even the largest that it takes. */
static void test_largest_ridge(tap_run *tap) {
    static const char *const ridges[] = {"53", "54", "947", "1e6"};
    static float values[MOST_NUMBERS];

    for (size_t i = 0; i < sizeof ridges / sizeof *ridges; i++) {
        const double ridge = strtod(ridges[i], NULL);
        char overrides[64];
        icl_model *model = NULL;
        size_t found = 0;
        snprintf(overrides, sizeof overrides, "mixer=mesa ridge=%s", ridges[i]);
        const setting is = long_setting(overrides, B);
        tap_need(make_model(&is, &model, tap_error()));
        icl_model_initialize(model, 1, values);
        for (size_t k = 0; k < icl_model_size(model); k++) {
            const double softplus = fmax((double)values[k], 0) + log1p(exp(-fabs((double)values[k])));
            found += fabs(softplus - .75 * ridge) < 1e-6 * ridge;
        }
        tap_ok(tap, found > 0, "%s: %zu numbers begin with three quarters of it", overrides, found);
        icl_model_destroy(&model);
    }
}

/* Dropout of the feed-forward part, the third call of a block: a model in which nothing but that part's bias, of ones,
 * reaches the outputs, which are sums of the factors of a position. */
static void test_feed_forward_dropout(tap_run *tap, icl_backend *device) {
    static double values[MOST_NUMBERS], seen[MOST_NUMBERS];
    const setting is = setting_of("mixer=linear layers=1 norm=none feed_forward=relu dropout=0.5", B);
    const size_t outputs = small_shape.outputs, scored = small_shape.scored, width = 6;
    size_t wrong = 0, dropped = 0;
    fixture f;

    fixture_open(&f, device, &is);
    memset(values, 0, sizeof values);
    for (size_t i = 0; i < icl_model_parameter_count(f.model); i++) {
        const icl_parameter_info *info = icl_model_parameter(f.model, i);
        if (strcmp(info->name, "block.0.feed_forward.down_bias") == 0 || strcmp(info->name, "readout.weight") == 0)
            for (size_t k = 0; k < info->count; k++)
                values[info->offset + k] = 1;
    }
    tap_need(icl_tensor_write_double(f.parameters, values, tap_error()));
    read_outputs(&f, seen);
    for (size_t row = 0; row < B * scored; row++) {
        double sum = 0;
        for (size_t i = 0; i < width; i++) {
            const uint32_t word =
                icl_random_word(fixture_dropout.key, 2 * (UINT64_C(1) << 40) + (uint64_t)(row * width + i));
            sum += word >> 31 ? 2 : 0;
        }
        dropped += sum != 2 * (double)width;
        for (size_t j = 0; j < outputs; j++)
            wrong += !(fabs(seen[row * outputs + j] - sum) < 1); /* another mask moves it by 2 */
    }
    tap_ok(tap, wrong == 0 && dropped > 0, "dropout of a feed-forward part: %zu outputs are wrong", wrong);
    fixture_close(&f);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    for (size_t i = 0; device && i < sizeof settings / sizeof *settings; i++) {
        test_isolation(&tap, device, settings[i]);
        if (argc > 1 && strcmp(argv[1], "cpu") == 0)
            test_threads(&tap, settings[i]);
    }
    if (device)
        test_feed_forward_dropout(&tap, device);
    test_start(&tap);
    test_largest_ridge(&tap);
    icl_backend_close(&device);
    return tap_done(&tap);
}
