/*
 * Each mixer with every pair of settings, its outputs and its gradient, against plain_mixers.h.
 *
 * On "ref" outputs differ by rounding only. A slope in a random direction is compared with central differences of the
 * plain loops, D(h) = D + c h^2 + O(h^4) and D(2h) = D + 4 c h^2 + O(h^4): (4 D(h) - D(2h)) / 3 has an error of O(h^4),
 * and |D(h) - D(2h)| = 3 |c| h^2 exceeds the error of D(h). Rounding adds 2^10 units of the loss over h. Of several h,
 * the one with the smallest allowed error counts.
 */
#include <float.h>

#include "plain_mixers.h"
#include "settings.h"

static const char *const always =
    " layers=1 norm=none feed_forward=none heads=2 key_width=4 value_width=3 feature_map=identity normalize_keys=auto"
    " convolution=0 write_strength=1 delta_steps=2 iterations=30 ridge=1 momentum=0.5 normalizer=false gate_limit=1"
    " gate_root=16 output_norm=rms output_gate=false causal=true positions=none loops=1 injection=true"
    " embedding_bias=true activation_clip=0 window=0 slots=0 mimo_rank=1 dropout=0";

static const char *const without_heads = " heads=1 key_width=0 value_width=0 convolution=2";

/* Groups of settings that a mixer may read, beside projections; every mixer reads those of ALL, convolutions
 * included. */
enum {
    HEADS = 1,
    FEATURES = 2,
    WRITES = 4,
    STEPS = 8,
    SOLVER = 16,
    BALL = 32,
    DIVISOR = 64,
    LIMIT = 128,
    ROOT = 256,
    OUTPUT = 512,
    SIDES = 1024,
    ALL = 2048,
    GATED = 4096,
    SINKS = 8192,
    SLOTS = 16384,
    WINDOWS = 32768,
    RANKS = 65536
};

static const struct {
    const char *word;
    unsigned reads;
} mixers[MIXERS] = {
    [SOFTMAX] = {"softmax", HEADS | SIDES | GATED | SINKS | WINDOWS},
    [LINEAR] = {"linear", HEADS | FEATURES | DIVISOR | OUTPUT | SIDES},
    [RETENTION] = {"retention", HEADS | FEATURES | OUTPUT},
    [GLA] = {"gla", HEADS | FEATURES | LIMIT | ROOT | OUTPUT},
    [MAMBA2] = {"mamba2", HEADS | FEATURES | LIMIT | OUTPUT},
    [MAMBA3] = {"mamba3", HEADS | OUTPUT | RANKS},
    [DELTA] = {"delta", HEADS | FEATURES | WRITES | OUTPUT},
    [GATED_DELTA] = {"gated-delta", HEADS | FEATURES | WRITES | LIMIT | OUTPUT},
    [DELTA_PRODUCT] = {"delta-product", HEADS | FEATURES | WRITES | STEPS | OUTPUT},
    [MESA] = {"mesa", HEADS | FEATURES | SOLVER | LIMIT | OUTPUT},
    [MOMENTUM] = {"momentum", HEADS | FEATURES | BALL | OUTPUT},
    [GSA] = {"gsa", HEADS | FEATURES | LIMIT | ROOT | OUTPUT | SLOTS},
    [OJA] = {"oja", HEADS | FEATURES | WRITES | LIMIT | ROOT | OUTPUT},
    [LOG_LINEAR] = {"log-linear", HEADS | FEATURES | LIMIT | OUTPUT},
    [CONV] = {"conv", 0},
    [FOX] = {"fox", HEADS | LIMIT | GATED},
    [KDA] = {"kda", HEADS | FEATURES | WRITES | LIMIT | OUTPUT},
    [GATED_DELTA_2] = {"gated-delta-2", HEADS | FEATURES | WRITES | LIMIT | OUTPUT},
    [PRECONDITIONED] = {"preconditioned-delta", HEADS | FEATURES | WRITES | LIMIT | OUTPUT},
    [COMBA] = {"comba", HEADS | FEATURES | WRITES | LIMIT | OUTPUT},
    [RWKV7] = {"rwkv7", HEADS | FEATURES | OUTPUT},
    [TITANS] = {"titans", HEADS | FEATURES | WRITES | LIMIT | OUTPUT},
    [LONGHORN] = {"longhorn", HEADS | FEATURES | WRITES | OUTPUT},
};

/* Settings. Keys divided by their sum, and weights that divide, need features that are not negative. */
static const struct {
    const char *text;
    unsigned readers; /* what reads it; mixers without any of these refuse it */
} settings[] = {
    {" heads=1", ALL},
    {" heads=3", HEADS},
    {" key_width=2", HEADS},
    {" value_width=2", HEADS},
    {" value_width=5", HEADS},
    {" feature_map=elu+1", FEATURES},
    {" feature_map=relu", FEATURES},
    {" feature_map=tanh", FEATURES},
    {" feature_map=dpfp:1", FEATURES},
    {" feature_map=dpfp:2", FEATURES},
    {" feature_map=favor:3", FEATURES},
    {" feature_map=learned:3", FEATURES},
    {" feature_map=learned", FEATURES},
    {" normalize_keys=none", FEATURES},
    {" normalize_keys=unit", FEATURES},
    {" feature_map=elu+1 normalize_keys=sum", FEATURES},
    {" feature_map=dpfp:1 normalize_keys=sum", FEATURES},
    {" convolution=2", ALL},
    {" convolution=3", ALL},
    {" write_strength=0.5", WRITES},
    {" write_strength=2", WRITES},
    {" delta_steps=1", STEPS},
    {" delta_steps=3", STEPS},
    {" iterations=0", SOLVER},
    {" iterations=2", SOLVER},
    {" ridge=0.3", SOLVER},
    {" ridge=4", SOLVER},
    {" momentum=0", BALL},
    {" momentum=0.7", BALL},
    {" feature_map=elu+1 normalizer=true", DIVISOR},
    {" feature_map=relu normalizer=true", DIVISOR},
    {" feature_map=learned:3 normalizer=true", DIVISOR},
    {" gate_limit=0.9", LIMIT},
    {" gate_limit=0.5", LIMIT},
    {" gate_root=4", ROOT},
    {" gate_root=0.5", ROOT},
    {" slots=1", SLOTS},
    {" slots=5", SLOTS},
    {" mimo_rank=2", RANKS},
    {" output_norm=none", OUTPUT},
    {" output_norm=layer", OUTPUT},
    {" output_gate=true", OUTPUT | GATED},
    {" sinks=true", SINKS},
    {" causal=false", SIDES},
    {" window=1", WINDOWS},
    {" window=3", WINDOWS},
    {" positions=rotary position_base=100", HEADS},
    {" positions=rotary position_base=5", HEADS},
    {" loops=2", ALL},
    {" loops=2 injection=false", ALL},
    {" embedding_bias=false", ALL},
    {" activation_clip=0.5", ALL},
    {" dropout=0.3", ALL},
};

enum { SETTINGS = sizeof settings / sizeof *settings };

/* ---- Comparisons ---- */

typedef struct comparison {
    double worst, largest;    /* largest difference, and size, of outputs */
    double slope, difference; /* slope of the outputs' mean square in one direction: by the library, and by the loops */
    double slack;             /* the largest allowed distance between the two */
} comparison;

/* Returns whether states may grow, and roundings with them: in delta rules whose keys may be longer than 1, and where a
 * step above 1 is more than the decay makes room for (comba, titans) or grows by a factor (preconditioned-delta). */
static bool can_grow(const plain *p) {
    const mixer_kind kind = p->mixer;
    const bool is_delta = kind == DELTA || kind == GATED_DELTA || kind == DELTA_PRODUCT || kind == KDA ||
                          kind == GATED_DELTA_2 || kind == PRECONDITIONED || kind == COMBA || kind == TITANS;
    const bool can_overshoot = (kind == PRECONDITIONED || kind == COMBA || kind == TITANS) && p->strength > 1;

    return can_overshoot || (is_delta && !p->unit && !p->sum);
}

/* Returns whether a slope is compared. The backward pass recomputes states from the last one, and so has the rounding
 * of the largest of them (iclab/ops_recurrence.h). The gradient of mesa is that of the exact solution, which is wrong
 * for few iterations, because they stop far from it. */
static bool has_slope(const plain *p) {
    return !can_grow(p) && !(p->mixer == MESA && p->iterations > 0 && p->iterations < p->features);
}

static double mean_square(plain *p, const double *inputs, size_t scored, size_t count) {
    static double outputs[B * T * OUTPUTS];
    double sum = 0;

    run_plain(p, inputs, scored, outputs);
    for (size_t i = 0; i < count; i++)
        sum += outputs[i] * outputs[i] / (double)count;
    return sum;
}

/* Returns whether a parameter is a random direction of features, which is not trained. */
static bool is_fixed(const icl_model *model, size_t index) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++) {
        const icl_parameter_info *info = icl_model_parameter(model, i);
        if (index >= info->offset && index < info->offset + info->count)
            return strstr(info->name, "directions") != NULL;
    }
    return false;
}

/* Returns an element of a random direction whose length is about 1. */
static double direction_of(const icl_model *model, size_t index) {
    return is_fixed(model, index) ? 0 : (double)noise(11, index) / sqrt((double)icl_model_size(model));
}

/* Takes the difference with steps of h, if its slack is less than with earlier steps. */
static void take_difference(fixture *f, plain *p, const double *inputs, size_t scored, double h, comparison *out) {
    static const double steps[] = {-2, -1, 1, 2}; /* in units of h */
    static double moved[MOST_NUMBERS];
    const double *values = p->values;
    double loss[4];

    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < icl_model_size(f->model); i++)
            moved[i] = values[i] + steps[k] * h * direction_of(f->model, i);
        p->values = moved;
        loss[k] = mean_square(p, inputs, scored, f->outputs);
    }
    p->values = values;
    const double near = (loss[2] - loss[1]) / (2 * h), far = (loss[3] - loss[0]) / (4 * h);
    const double slack = fabs(near - far) + 0x1p10 * DBL_EPSILON * fmax(1, loss[2]) / h;
    if (out->slack == 0 || slack < out->slack) {
        out->difference = (4 * near - far) / 3;
        out->slack = slack;
    }
}

static void compare_slopes(fixture *f, plain *p, const double *inputs, size_t scored, comparison *out) {
    static double gradient[MOST_NUMBERS];
    const icl_variable squares = icl_tape_unary(f->tape, ICL_SQUARE, record(f));

    tap_need(icl_tape_backward(f->tape, icl_tape_reduce(f->tape, ICL_MEAN, 7, squares), tap_error()));
    tap_need(icl_tensor_read_double(f->gradient, gradient, tap_error()));
    for (size_t i = 0; i < icl_model_size(f->model); i++)
        out->slope += gradient[i] * direction_of(f->model, i);
    for (int k = 6; k <= 8 && (k == 6 || out->slack > 1e-6 * fmax(1, fabs(out->difference))); k++)
        take_difference(f, p, inputs, scored, pow(10, -k), out);
}

static void compare(icl_backend *backend, plain *p, size_t scored, comparison *out) {
    static double values[MOST_NUMBERS], inputs[B * T * INPUTS], seen[B * T * OUTPUTS], expected[B * T * OUTPUTS];
    char overrides[1024];
    setting of = {overrides, small_shape, B};
    fixture f;

    snprintf(overrides, sizeof overrides, "mixer=%s%s", mixers[p->mixer].word, p->settings);
    of.shape.positions = T;
    of.shape.first_scored = T - scored;
    of.shape.scored = scored;
    fixture_open(&f, backend, &of);
    tap_need(icl_tensor_read_double(f.parameters, values, tap_error()));
    tap_need(icl_tensor_read_double(f.inputs, inputs, tap_error()));
    read_outputs(&f, seen);
    find_parts(p, f.model);
    p->values = values;
    run_plain(p, inputs, scored, expected);
    out->worst = distance(seen, expected, f.outputs);
    out->largest = largest_of(expected, f.outputs);
    if (icl_backend_capabilities(backend)->element_size == sizeof(double) && has_slope(p))
        compare_slopes(&f, p, inputs, scored, out);
    fixture_close(&f);
}

/* ---- Pairs ---- */

/* Returns whether two settings exclude each other: short convolutions and windows look back, so that no mixer beside
 * them may look ahead, and a sink stands in front of all keys, where no window reaches. */
static bool contradict(const char *a, const char *b) {
    return settings_contradict(a, b) || (strstr(a, "convolution") && strstr(b, "causal")) ||
           (strstr(b, "window") && (strstr(a, "causal") || strstr(a, "sinks")));
}

typedef struct tally {
    size_t wrong, compared;
    double worst, slope; /* in units of the allowed error */
} tally;

static void check_pair(icl_backend *device, mixer_kind mixer, const char *first, const char *second, size_t scored,
                       tally *counts) {
    const bool exact = icl_backend_capabilities(device)->element_size == sizeof(double);
    char text[1024];
    plain p = {.settings = text, .mixer = mixer};
    comparison seen = {.worst = HUGE_VAL};

    snprintf(text, sizeof text, "%s%s%s%s", always, mixer == CONV ? without_heads : "", first, second);
    read_settings(&p);
    compare(device, &p, scored, &seen);
    /* Roundings move a model as changes of its weights do, whose effect is the slope; they grow if states grow. */
    const double size = fmax(fmax(1, seen.largest), fabs(seen.difference)) * (exact && can_grow(&p) ? 100 : 1);
    const double worst = seen.worst / ((exact ? 1e-12 : 1e-4) * size);
    const double slope = seen.slack > 0 ? fabs(seen.slope - seen.difference) / seen.slack : 0;
    counts->compared++;
    counts->worst = fmax(counts->worst, worst);
    counts->slope = fmax(counts->slope, slope);
    if (worst <= 1 && slope <= 1 && seen.largest > 0.1 && (seen.slope != 0) == (exact && has_slope(&p)) &&
        seen.slack <= 1e-4 * fmax(1, fabs(seen.slope)))
        return;
    counts->wrong++;
    tap_note("%s%s%s: %.2g of %.3g, slopes %.9g and %.9g", mixers[mixer].word, first, second, seen.worst, seen.largest,
             seen.slope, seen.difference);
}

/* Returns whether a mixer refuses keys that it does not read, and names one of them. */
static bool refuses(mixer_kind mixer, const char *text) {
    char overrides[512], name[64];
    const setting is = {overrides, small_shape, B};
    icl_model *model = NULL;
    icl_error error = {0};
    bool is_named = false;

    snprintf(overrides, sizeof overrides, "mixer=%s%s%s", mixers[mixer].word, mixer == CONV ? without_heads : "", text);
    const icl_status status = make_model(&is, &model, &error);
    icl_model_destroy(&model);
    for (const char *word = text; *word; word += 1 + strcspn(word + 1, " ")) {
        snprintf(name, sizeof name, "model.%.*s = ", (int)strcspn(word + 1, "="), word + 1);
        is_named = is_named || strstr(error.message, name);
    }
    return status == ICL_ERROR_INPUT && is_named;
}

/* Checks a setting by itself, with all and with only the last positions scored, and, on devices of double precision,
 * together with each later setting. */
static void check(tap_run *tap, icl_backend *device, mixer_kind mixer, size_t a) {
    const char *word = mixers[mixer].word, *first = settings[a].text;
    const unsigned reads = mixers[mixer].reads | ALL;
    const bool exact = icl_backend_capabilities(device)->element_size == sizeof(double);
    tally of = {0};

    if (!(settings[a].readers & reads)) {
        tap_ok(tap, refuses(mixer, first), "%s refuses%s", word, first);
        return;
    }
    check_pair(device, mixer, first, "", T, &of);
    check_pair(device, mixer, first, "", 3, &of);
    for (size_t b = a + 1; b < SETTINGS && exact; b++)
        if ((settings[b].readers & reads) && !contradict(first, settings[b].text))
            check_pair(device, mixer, first, settings[b].text, T, &of);
    tap_ok(tap, of.wrong == 0, "%s,%s: %zu wrong of %zu; %.2g of the bound, slopes %.2g", word, first, of.wrong,
           of.compared, of.worst, of.slope);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    for (mixer_kind m = SOFTMAX; device && m < MIXERS; m++)
        for (size_t i = 0; i < SETTINGS; i++)
            check(&tap, device, m, i);
    icl_backend_close(&device);
    return tap_done(&tap);
}
