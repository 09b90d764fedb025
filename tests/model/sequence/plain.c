/*
 * Each mixer against plain loops over tokens in double, which share nothing with the library but the names of the
 * parameters: models of one block, z = e + mixer(e), e = x W + b, whose readout is linear.
 */
#include "plain.h"
#include "eliminate.h"

enum { T = 37, B = 2, WIDTH = 6, HEADS = 2, M = 4, N = 3, STEPS = 3, TAPS = 3, FEATURES = 3, INPUTS = 3, OUTPUTS = 2 };

static const char *const always = "layers=1 norm=none feed_forward=none key_width=4 value_width=3 ";

/* The formulas differ in these. */
typedef struct rule {
    const char *overrides;
    enum { SOFTMAX, LINEAR, RETENTION, GLA, MAMBA2, DELTA, GATED_DELTA, DELTA_PRODUCT, MESA, MOMENTUM, CONV } kind;
    bool two_sided, normalizer, elu, relu, learned, unit, rotary, filtered;
    double strength; /* of writing */
    double clip;     /* of what is behind the block */
} rule;

static const rule rules[] = {
    {"mixer=softmax", .kind = SOFTMAX},
    {"mixer=linear activation_clip=0.5", .kind = LINEAR, .clip = .5},
    {"mixer=softmax causal=false", .kind = SOFTMAX, .two_sided = true},
    {"mixer=linear", .kind = LINEAR},
    {"mixer=linear normalizer=true feature_map=elu+1", .kind = LINEAR, .normalizer = true, .elu = true},
    {"mixer=linear normalizer=true feature_map=relu", .kind = LINEAR, .normalizer = true, .relu = true},
    {"mixer=linear normalizer=true feature_map=learned:3", .kind = LINEAR, .normalizer = true, .learned = true},
    {"mixer=linear causal=false", .kind = LINEAR, .two_sided = true},
    {"mixer=linear causal=false normalizer=true feature_map=elu+1", .kind = LINEAR, .two_sided = true,
     .normalizer = true, .elu = true},
    {"mixer=retention", .kind = RETENTION},
    {"mixer=gla gate_root=4", .kind = GLA},
    {"mixer=mamba2", .kind = MAMBA2},
    {"mixer=delta", .kind = DELTA, .unit = true, .strength = 1},
    {"mixer=delta write_strength=2", .kind = DELTA, .unit = true, .strength = 2},
    {"mixer=gated-delta", .kind = GATED_DELTA, .unit = true, .strength = 1},
    {"mixer=delta-product delta_steps=3", .kind = DELTA_PRODUCT, .unit = true, .strength = 1},
    {"mixer=mesa ridge=0.5", .kind = MESA, .unit = true, .strength = 1},
    {"mixer=momentum momentum=0.7", .kind = MOMENTUM},
    {"mixer=conv convolution=3", .kind = CONV},
    {"mixer=softmax positions=rotary position_base=100", .kind = SOFTMAX, .rotary = true},
    {"mixer=linear convolution=3", .kind = LINEAR, .filtered = true},
    {"mixer=delta-product delta_steps=3 positions=rotary position_base=100 convolution=3", .kind = DELTA_PRODUCT,
     .unit = true, .strength = 1, .rotary = true, .filtered = true},
};

typedef struct plain {
    const rule *is;
    const icl_model *model;
    const double *values;
    double e[T][WIDTH], z[T][WIDTH]; /* of one sequence */
    size_t alone;                    /* queries whose weights are all 0 */
} plain;

static const double *get(const plain *p, const char *name) {
    return parameters_of(p->model, p->values, name);
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static double softplus(double x) {
    return log(1 + exp(x));
}

/* ---- Queries, keys and values of one head ---- */

typedef struct head {
    double q[T][M], k[T][STEPS][M], v[T][STEPS][N], beta[T][STEPS], decay[T][M], o[T][N];
} head;

/* Column j of the projection of token t, behind its short convolution and SiLU. */
static double project(const plain *p, const char *name, size_t t, size_t columns, size_t j) {
    char matrix[64], taps[64];
    double sum = 0;

    snprintf(matrix, sizeof matrix, "block.0.mixer.%s", name);
    snprintf(taps, sizeof taps, "block.0.mixer.%s_filter", name);
    if (!p->is->filtered)
        return column(p->e[t], get(p, matrix), WIDTH, columns, j);
    for (size_t back = 0; back < TAPS && back <= t; back++)
        sum +=
            get(p, taps)[(TAPS - 1 - back) * columns + j] * column(p->e[t - back], get(p, matrix), WIDTH, columns, j);
    return sum * sigmoid(sum);
}

/* relu(x W + b), FEATURES numbers, and 0 behind them. */
static void learn_features(const plain *p, size_t h, double *x) {
    const double *matrix = get(p, "block.0.mixer.features") + h * M * FEATURES;
    const double *bias = get(p, "block.0.mixer.features_bias") + h * FEATURES;
    double features[M] = {0};

    for (size_t j = 0; j < FEATURES; j++)
        features[j] = fmax(0, column(x, matrix, M, FEATURES, j) + bias[j]);
    memcpy(x, features, sizeof features);
}

static void finish_key(const plain *p, size_t h, size_t t, double *x) {
    double square = 0;

    for (size_t i = 0; p->is->rotary && i < M / 2; i++) {
        const double angle = (double)t * pow(100, -2.0 * (double)i / M), first = x[i], second = x[i + M / 2];
        x[i] = first * cos(angle) - second * sin(angle);
        x[i + M / 2] = first * sin(angle) + second * cos(angle);
    }

    for (size_t i = 0; p->is->elu && i < M; i++)
        x[i] = x[i] > 0 ? x[i] + 1 : exp(x[i]);
    for (size_t i = 0; p->is->relu && i < M; i++)
        x[i] = fmax(0, x[i]);
    if (p->is->learned)
        learn_features(p, h, x);
    for (size_t i = 0; i < M; i++)
        square += x[i] * x[i];
    for (size_t i = 0; p->is->unit && i < M; i++)
        x[i] /= sqrt(square + 1e-12);
}

/* The factors by which a state decays. */
static void fill_decay(const plain *p, size_t h, head *at) {
    const double *gate = get(p, "block.0.mixer.gate"), *bias = get(p, "block.0.mixer.gate_bias");
    const double *rate = get(p, "block.0.mixer.gate_rate");
    const double *down = get(p, "block.0.mixer.gate_down"), *up = get(p, "block.0.mixer.gate_up");

    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < M; i++) {
            double low[16], factor = 1;
            if (p->is->kind == RETENTION)
                factor = 1 - pow(2, -5 - (double)h);
            if (p->is->kind == MAMBA2 || p->is->kind == GATED_DELTA)
                factor = exp(-exp(rate[h]) * softplus(column(p->e[t], gate, WIDTH, HEADS, h) + bias[h]));
            if (p->is->kind == MESA)
                factor = sigmoid(column(p->e[t], gate, WIDTH, HEADS, h) + bias[h]);
            for (size_t j = 0; p->is->kind == GLA && j < 16; j++)
                low[j] = column(p->e[t], down, WIDTH, 16, j);
            if (p->is->kind == GLA)
                factor = pow(sigmoid(column(low, up, 16, HEADS * M, h * M + i) + bias[h * M + i]), 0.25);
            at->decay[t][i] = factor;
        }
}

static void fill_head(const plain *p, size_t h, head *at) {
    const size_t steps = p->is->kind == DELTA_PRODUCT ? STEPS : 1;
    const double *write = get(p, "block.0.mixer.write"), *bias = get(p, "block.0.mixer.write_bias");

    for (size_t t = 0; t < T; t++) {
        for (size_t i = 0; i < M; i++)
            at->q[t][i] = project(p, "query", t, HEADS * M, h * M + i);
        finish_key(p, h, t, at->q[t]);
        for (size_t s = 0; s < steps; s++) {
            for (size_t i = 0; i < M; i++)
                at->k[t][s][i] = project(p, "key", t, steps * HEADS * M, (s * HEADS + h) * M + i);
            finish_key(p, h, t, at->k[t][s]);
            for (size_t j = 0; j < N; j++)
                at->v[t][s][j] = project(p, "value", t, steps * HEADS * N, (s * HEADS + h) * N + j);
            at->beta[t][s] = 1;
            if (write)
                at->beta[t][s] = p->is->strength * sigmoid(column(p->e[t], write, WIDTH, steps * HEADS, s * HEADS + h) +
                                                           bias[s * HEADS + h]);
        }
    }
    fill_decay(p, h, at);
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- The formulas ---- */

/* All pairs of tokens: softmax, and both forms of linear attention. */
static void attend(plain *p, head *at) {
    for (size_t t = 0; t < T; t++) {
        const size_t end = p->is->two_sided ? T : t + 1;
        double total = 0, sums[N] = {0};
        for (size_t s = 0; s < end; s++) {
            const double score = dot(at->q[t], at->k[s][0], M);
            const double weight = p->is->kind == SOFTMAX ? exp(score / sqrt(M)) : score;
            total += weight;
            for (size_t j = 0; j < N; j++)
                sums[j] += weight * at->v[s][0][j];
        }
        p->alone += total == 0;
        for (size_t j = 0; j < N; j++)
            at->o[t][j] = p->is->kind == SOFTMAX ? sums[j] / total
                          : p->is->normalizer    ? sums[j] / (total + 1e-6)
                          : p->is->elu           ? sums[j]
                                                 : sums[j] / sqrt(M);
    }
}

/* A state for each head. */
static void recur(const plain *p, head *at) {
    const bool delta = p->is->kind == DELTA || p->is->kind == GATED_DELTA || p->is->kind == DELTA_PRODUCT;
    const size_t steps = p->is->kind == DELTA_PRODUCT ? STEPS : 1;
    double state[M][N] = {{0}}, ball[M][N] = {{0}};

    for (size_t t = 0; t < T; t++) {
        for (size_t i = 0; i < M; i++)
            for (size_t j = 0; j < N; j++)
                state[i][j] *= at->decay[t][i];
        for (size_t s = 0; s < steps; s++) {
            double miss[N];
            for (size_t j = 0; j < N; j++) {
                miss[j] = at->v[t][s][j];
                for (size_t i = 0; delta && i < M; i++)
                    miss[j] -= state[i][j] * at->k[t][s][i];
            }
            for (size_t i = 0; i < M; i++)
                for (size_t j = 0; j < N; j++) {
                    const double written = at->beta[t][s] * at->k[t][s][i] * miss[j];
                    ball[i][j] = (p->is->kind == MOMENTUM ? 0.7 * ball[i][j] : 0) + written;
                    state[i][j] += ball[i][j];
                }
        }
        for (size_t j = 0; j < N; j++) {
            at->o[t][j] = 0;
            for (size_t i = 0; i < M; i++)
                at->o[t][j] += state[i][j] * at->q[t][i];
            at->o[t][j] /= p->is->unit ? 1 : sqrt(M);
        }
    }
}

/* Queries become (H_t + Lambda)^-1 q_t, with H_t as a sum over all keys before. */
static void solve_queries(const plain *p, size_t h, head *at) {
    const double *ridge = get(p, "block.0.mixer.ridge");

    for (size_t t = 0; t < T; t++) {
        double a[M][M] = {{0}};
        for (size_t s = 0; s <= t; s++) {
            double weight = at->beta[s][0];
            for (size_t later = s + 1; later <= t; later++)
                weight *= at->decay[later][0];
            for (size_t i = 0; i < M; i++)
                for (size_t j = 0; j < M; j++)
                    a[i][j] += weight * at->k[s][0][i] * at->k[s][0][j];
        }
        for (size_t i = 0; i < M; i++)
            a[i][i] += 0.125 + softplus(ridge[h * M + i]);
        eliminate(M, M, &a[0][0], at->q[t]);
    }
}

/* z += (norm(o) of every head) W. */
static void mix_heads(plain *p) {
    const double *output = get(p, "block.0.mixer.output"), *gain = get(p, "block.0.mixer.output_gain");
    static double joined[T][HEADS * N];
    static head at;

    for (size_t h = 0; h < HEADS; h++) {
        fill_head(p, h, &at);
        if (p->is->kind == MESA)
            solve_queries(p, h, &at);
        if (p->is->kind == SOFTMAX || p->is->kind == LINEAR)
            attend(p, &at);
        else
            recur(p, &at);
        for (size_t t = 0; t < T; t++) {
            const double root = sqrt(dot(at.o[t], at.o[t], N) / N + 1e-5);
            for (size_t j = 0; j < N; j++)
                joined[t][h * N + j] = gain ? at.o[t][j] / root * gain[j] : at.o[t][j];
        }
    }
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++)
            p->z[t][i] = p->e[t][i] + column(joined[t], output, HEADS * N, WIDTH, i);
}

static void mix_convolution(plain *p) {
    const double *filter = get(p, "block.0.mixer.filter"), *output = get(p, "block.0.mixer.output");
    const double *bias = get(p, "block.0.mixer.output_bias");

    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++) {
            double sum = 0;
            for (size_t back = 0; back < TAPS && back <= t; back++)
                sum += filter[(TAPS - 1 - back) * WIDTH + i] * p->e[t - back][i];
            p->z[t][i] = p->e[t][i] + sum * (column(p->e[t], output, WIDTH, WIDTH, i) + bias[i]);
        }
}

static void run_plain(plain *p, const double *inputs, double *outputs) {
    const double *embedding = get(p, "embedding.weight"), *bias = get(p, "embedding.bias");
    const double *readout = get(p, "readout.weight"), *last = get(p, "readout.bias");

    for (size_t b = 0; b < B; b++) {
        for (size_t t = 0; t < T; t++)
            for (size_t i = 0; i < WIDTH; i++)
                p->e[t][i] = column(inputs + (b * T + t) * INPUTS, embedding, INPUTS, WIDTH, i) + bias[i];
        if (p->is->kind == CONV)
            mix_convolution(p);
        else
            mix_heads(p);
        for (size_t t = 0; t < T && p->is->clip > 0; t++)
            for (size_t i = 0; i < WIDTH; i++)
                p->z[t][i] = fmin(p->is->clip, fmax(-p->is->clip, p->z[t][i]));
        for (size_t t = 0; t < T; t++)
            for (size_t j = 0; j < OUTPUTS; j++)
                outputs[(b * T + t) * OUTPUTS + j] = column(p->z[t], readout, WIDTH, OUTPUTS, j) + last[j];
    }
}

/* The positions from first_scored on are scored: of the last layer, softmax computes no others. */
static icl_status compare(icl_backend *backend, const rule *is, size_t first_scored, double *worst, double *largest,
                          icl_error *error) {
    static double values[MOST_NUMBERS], inputs[B * T * INPUTS], seen[B * T * OUTPUTS], expected[B * T * OUTPUTS];
    const size_t scored = T - first_scored;
    static plain p;
    char overrides[512];
    setting of = {overrides, small_shape, B};
    fixture f;
    icl_status status = ICL_OK;

    snprintf(overrides, sizeof overrides, "%s%s",
             is->kind == CONV ? "layers=1 norm=none feed_forward=none heads=1 " : always, is->overrides);
    of.shape.positions = T;
    of.shape.first_scored = first_scored;
    of.shape.scored = scored;
    ICL_TRY(fixture_open(&f, backend, &of, error));
    ICL_TRY(icl_tensor_read_double(f.parameters, values, error));
    ICL_TRY(icl_tensor_read_double(f.inputs, inputs, error));
    ICL_TRY(read_outputs(&f, seen, error));
    p = (plain){.is = is, .model = f.model, .values = values};
    run_plain(&p, inputs, expected);
    if (is->relu && p.alone == 0)
        ICL_TRY(icl_fail(error, ICL_ERROR_INPUT, "every query meets a key: nothing is divided by 1e-6 alone"));
    for (size_t b = 0; b < B; b++)
        memmove(expected + b * scored * OUTPUTS, expected + (b * T + first_scored) * OUTPUTS,
                scored * OUTPUTS * sizeof *expected);
    *worst = distance(seen, expected, f.outputs);
    *largest = largest_of(expected, f.outputs);
done:
    fixture_close(&f);
    return status;
}

static void check(tap_run *tap, icl_backend *device, const rule *is, size_t first_scored) {
    const bool exact = icl_backend_capabilities(device)->element_size == sizeof(double);
    double worst = HUGE_VAL, largest = 0;
    icl_error error = {0};
    const icl_status status = compare(device, is, first_scored, &worst, &largest, &error);

    if (status != ICL_OK)
        tap_note("%s", error.message);
    tap_ok(tap, status == ICL_OK && largest > 0.1 && worst <= (exact ? 1e-12 : 1e-4) * fmax(1, largest),
           "%s, scored from %zu on: %.2g of %.3g", is->overrides, first_scored, worst, largest);
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *device = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    for (size_t i = 0; device && i < sizeof rules / sizeof *rules; i++) {
        check(&tap, device, &rules[i], 0);
        check(&tap, device, &rules[i], T - 3);
    }
    icl_backend_close(&device);
    return tap_done(&tap);
}
