/*
 * model.family = fast-weights against its formulas in double precision, by plain loops over writes and queries; on
 * "ref" its gradient against central differences along a random direction; and its refusals.
 *
 * A float output passes through some hundred roundings of sums of order 1, and through divisors of order .1 or more.
 */
#include "fixture.h"
#include "model/sequence/sequence.h"

/* L: two whole blocks of fwm's memory, and a part of one. */
enum { S = 3, E = 6, L = 37, Q = 2, B = 2, M = 4, D = 8 * M, T = 2 * L + Q };

static const icl_task_shape retrieval = {
    .positions = T, .symbols = 2 * S, .outputs = S, .first_scored = 2 * L, .scored = Q, .loss = ICL_LOSS_SQUARED_ERROR};

/* Keys recur with other values; the second sequence asks twice for the same key. */
static void write_symbols(float symbols[B * T]) {
    for (size_t b = 0; b < B; b++) {
        for (size_t t = 0; t < L; t++) {
            const uint32_t word = icl_random_word((icl_random_key){.seed = 5}, b * L + t);
            symbols[b * T + 2 * t] = (float)(word % S);
            symbols[b * T + 2 * t + 1] = (float)(S + word / S % S);
        }
        symbols[b * T + 2 * L] = b == 0 ? 0 : 1;
        symbols[b * T + 2 * L + 1] = b == 0 ? 2 : 1;
    }
}

typedef enum rule { SUM, DELTA, FWM, SOFTMAX } rule;

typedef struct checked {
    const char *overrides;
    rule rule;
    size_t features; /* numbers after the map */
    bool tanh, favor;
} checked;

static const checked all[] = {
    {"family=fast-weights heads=1 layers=1 width=4 rule=sum feature_map=elu+1", SUM, M},
    {"family=fast-weights heads=1 layers=1 width=64 key_width=4 rule=sum feature_map=dpfp:2", SUM, 4 * M},
    {"family=fast-weights heads=1 layers=1 width=4 rule=delta feature_map=dpfp:1", DELTA, 2 * M},
    {"family=fast-weights heads=1 layers=1 width=4 rule=delta feature_map=elu+1", DELTA, M},
    {"family=fast-weights heads=1 layers=1 width=4 rule=softmax", SOFTMAX, M},
    {"family=fast-weights heads=1 layers=1 width=4 rule=sum feature_map=favor:3", SUM, 6, .favor = true},
    {"family=fast-weights heads=1 layers=1 width=4 rule=fwm feature_map=dpfp:1", FWM, 2 * M},
    {"family=fast-weights heads=1 layers=1 width=4 rule=fwm feature_map=tanh", FWM, M, true},
};

/* ---- The formulas ---- */

static const float *parameter(const icl_model *model, const float *values, const char *name) {
    for (size_t i = 0; i < icl_model_parameter_count(model); i++)
        if (strcmp(icl_model_parameter(model, i)->name, name) == 0)
            return values + icl_model_parameter(model, i)->offset;
    return NULL;
}

/* Computes [table row of the key; one-hot value] W + b; a query has no value. */
static void project(const icl_model *model, const float *values, const char *name, size_t key, size_t value,
                    size_t outputs, double *out) {
    char text[32];
    const float *table = parameter(model, values, "table");

    snprintf(text, sizeof text, "%s.weight", name);
    const float *weight = parameter(model, values, text);
    snprintf(text, sizeof text, "%s.bias", name);
    const float *bias = parameter(model, values, text);
    for (size_t j = 0; j < outputs; j++) {
        out[j] = (double)bias[j];
        for (size_t i = 0; i < E; i++)
            out[j] += (double)table[key * E + i] * (double)weight[i * outputs + j];
        if (value < S)
            out[j] += (double)weight[(E + value) * outputs + j];
    }
}

static void map(const checked *is, double *x, double *phi) {
    double r[2 * M];

    for (size_t i = 0; i < M; i++) {
        r[i] = fmax(x[i], 0);
        r[M + i] = fmax(-x[i], 0);
        phi[i] = is->tanh ? tanh(x[i]) : is->rule == SOFTMAX ? x[i] : x[i] > 0 ? x[i] + 1 : exp(x[i]);
    }
    for (size_t j = 1; is->features > M && 2 * M * j <= is->features; j++)
        for (size_t i = 0; i < 2 * M; i++)
            phi[2 * M * (j - 1) + i] = r[i] * r[(i + 2 * M - j) % (2 * M)];
}

/* exp(+-u - |x|^2 / 2) / sqrt(2 m), u = x W over m directions. */
static void map_favor(const checked *is, const icl_model *model, const float *values, const double *x, double *phi) {
    const float *directions = parameter(model, values, "block.0.mixer.directions");
    const size_t m = is->features / 2;

    for (size_t j = 0; j < m; j++) {
        double u = 0, square = 0;
        for (size_t i = 0; i < M; i++) {
            u += x[i] * (double)directions[i * m + j];
            square += x[i] * x[i];
        }
        phi[j] = exp(u - square / 2) / sqrt(2 * (double)m);
        phi[m + j] = exp(-u - square / 2) / sqrt(2 * (double)m);
    }
}

static double total(const double *x, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i];
    return sum;
}

static double product(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Computes the rule of fast weight memory: as delta, but with keys that are not normalized, a memory whose norm is at
 * most 1 from the second write on, and outputs of mean 0 and variance 1. */
static void answer_fwm(const checked *is, double keys[L][D], const size_t *written, const double *beta, const double *q,
                       double *y) {
    double memory[S][D] = {{0}}, mean = 0, variance = 0;

    for (size_t t = 0; t < L; t++) {
        double square = 0;
        for (size_t k = 0; k < S; k++) {
            const double miss = (k == written[t] ? 1 : 0) - product(memory[k], keys[t], is->features);
            for (size_t i = 0; i < is->features; i++) {
                memory[k][i] += beta[t] * miss * keys[t][i];
                square += memory[k][i] * memory[k][i];
            }
        }
        for (size_t k = 0; t > 0 && square > 1 && k < S; k++)
            for (size_t i = 0; i < is->features; i++)
                memory[k][i] /= sqrt(square);
    }
    for (size_t k = 0; k < S; k++) {
        y[k] = product(memory[k], q, is->features);
        mean += y[k] / S;
    }
    for (size_t k = 0; k < S; k++)
        variance += (y[k] - mean) * (y[k] - mean) / S;
    for (size_t k = 0; k < S; k++)
        y[k] = (y[k] - mean) / sqrt(variance + 1e-5);
}

/* Computes the answer to one query of a sequence: a weighted sum of its writes, or, for the delta rule, from the memory
 * [S][D]. */
static void answer(const checked *is, double keys[L][D], const size_t *written, const double *beta, const double *q,
                   double *y) {
    double memory[S][D] = {{0}}, sum = 0;

    memset(y, 0, S * sizeof *y);
    for (size_t t = 0; t < L; t++) {
        double weight = product(q, keys[t], is->features);
        if (is->rule == SOFTMAX)
            weight = exp(weight / sqrt((double)M));
        sum += weight;
        y[written[t]] += weight;
    }
    for (size_t k = 0; k < S; k++)
        y[k] /= is->rule == SUM ? sum + 1e-6 : sum;
    if (is->rule == FWM)
        answer_fwm(is, keys, written, beta, q, y);
    if (is->rule != DELTA)
        return;
    for (size_t t = 0; t < L; t++) {
        double unit[D];
        for (size_t i = 0; i < is->features; i++)
            unit[i] = keys[t][i] / (total(keys[t], is->features) + 1e-6);
        for (size_t k = 0; k < S; k++) {
            const double miss = (k == written[t] ? 1 : 0) - product(memory[k], unit, is->features);
            for (size_t i = 0; i < is->features; i++)
                memory[k][i] += beta[t] * miss * unit[i];
        }
    }
    for (size_t k = 0; k < S; k++)
        y[k] = product(memory[k], q, is->features) / (total(q, is->features) + 1e-6);
}

static void compute(const checked *is, const icl_model *model, const float *values, double *outputs) {
    float symbols[B * T];

    write_symbols(symbols);
    for (size_t b = 0; b < B; b++) {
        const float *in = symbols + b * T;
        double keys[L][D], beta[L] = {0}, x[M], q[D];
        size_t written[L];

        for (size_t t = 0; t < L; t++) {
            const size_t key = (size_t)in[2 * t];
            written[t] = (size_t)in[2 * t + 1] - S;
            project(model, values, "key", key, written[t], M, x);
            map(is, x, keys[t]);
            if (is->favor)
                map_favor(is, model, values, x, keys[t]);
            if (is->rule == DELTA || is->rule == FWM) {
                project(model, values, "write", key, written[t], 1, x);
                beta[t] = 1 / (1 + exp(-x[0]));
            }
        }
        for (size_t j = 0; j < Q; j++) {
            project(model, values, "query", (size_t)in[2 * L + j], S, M, x);
            map(is, x, q);
            if (is->favor)
                map_favor(is, model, values, x, q);
            answer(is, keys, written, beta, q, outputs + (b * Q + j) * S);
        }
    }
}

/* ---- The model ---- */

/* Sets initial parameters, all moved a little except the one-hot values. For fwm keys are made long and writes strong,
 * so that the first write by itself has a norm above 1. */
static void begin(fixture *f, const checked *is, float *values) {
    const float *one_hot, *key, *write;
    float symbols[B * T];

    write_symbols(symbols);
    icl_model_initialize(f->model, 3, values);
    one_hot = parameter(f->model, values, "values");
    for (size_t i = 0; i < icl_model_size(f->model); i++)
        if (values + i < one_hot || values + i >= one_hot + S * S)
            values[i] += 0.2F * noise(1, i);
    key = parameter(f->model, values, "key.bias");
    write = parameter(f->model, values, "write.bias");
    for (size_t i = 0; is->rule == FWM && i < M; i++)
        values[key - values + (ptrdiff_t)i] += 2;
    if (is->rule == FWM)
        values[write - values] += 3;
    tap_need(icl_tensor_write(f->inputs, symbols, tap_error()));
    tap_need(icl_tensor_write(f->parameters, values, tap_error()));
}

/* Compares the slope of the sum of cubes along a direction, by the tape and by differences; the sum of squares is fixed
 * for normed outputs. */
static void check_gradient(tap_run *tap, fixture *f, const checked *is, float *values) {
    const size_t size = icl_model_size(f->model);
    const double step = 1e-5;
    const float *one_hot = parameter(f->model, values, "values");
    const float *directions = parameter(f->model, values, "block.0.mixer.directions");
    double gradient[MOST_NUMBERS], outputs[2][B * Q * S], slope = 0, ahead = 0, frozen = 0;
    float moved[MOST_NUMBERS];
    const icl_variable out = record(f);

    const icl_variable cubes = icl_tape_binary(f->tape, ICL_MULTIPLY, out, icl_tape_unary(f->tape, ICL_SQUARE, out));
    tap_need(icl_tape_backward(f->tape, icl_tape_reduce(f->tape, ICL_SUM, 7, cubes), tap_error()));
    tap_need(icl_tensor_read_double(f->gradient, gradient, tap_error()));
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < size; i++)
            moved[i] = values[i] + (side == 0 ? 1 : -1) * (float)step * noise(4, i);
        memcpy(moved + (one_hot - values), one_hot, S * S * sizeof *moved);
        if (directions) /* no gradient reaches them either */
            memcpy(moved + (directions - values), directions, M * is->features / 2 * sizeof *moved);
        tap_need(icl_tensor_write(f->parameters, moved, tap_error()));
        read_outputs(f, outputs[side]);
        for (size_t i = 0; i < size; i++) /* use the actual step, as floats round it */
            slope += gradient[i] * ((double)moved[i] - (double)values[i]) * (side == 0 ? 1 : -1);
    }
    for (size_t i = 0; i < B * Q * S; i++)
        ahead += pow(outputs[0][i], 3) - pow(outputs[1][i], 3);
    for (size_t i = 0; i < S * S; i++)
        frozen = fmax(frozen, fabs(gradient[(size_t)(one_hot - values) + i]));
    tap_ok(tap, fabs(slope - ahead) < 1e-5 * fabs(ahead) + 1e-12, "%s: slope %.6g, by differences %.6g", is->overrides,
           slope, ahead);
    tap_ok(tap, frozen == 0, "no gradient reaches the one-hot values");
}

static void check(tap_run *tap, icl_backend *backend, const checked *is) {
    const setting with = {is->overrides, retrieval, B};
    const bool exact = icl_backend_capabilities(backend)->element_size == sizeof(double);
    const double allowed = exact ? 1e-12 : 2e-5;
    double seen[B * Q * S], expected[B * Q * S];
    float values[MOST_NUMBERS];
    fixture f = {0};

    fixture_open(&f, backend, &with);
    begin(&f, is, values);
    read_outputs(&f, seen);
    compute(is, f.model, values, expected);
    const double missed = distance(seen, expected, B * Q * S);
    tap_ok(tap, missed <= allowed, "%s: outputs (%.2g of %.2g)", is->overrides, missed, allowed);
    if (exact)
        check_gradient(tap, &f, is, values);
    fixture_close(&f);
}

/* ---- Refusals ---- */

static const struct {
    const char *overrides, *expected;
    size_t positions, outputs;
} refusals[] = {
    {"layers=2 feature_map=elu+1", "1: model.family = fast-weights has one layer", T, S},
    {"layers=1", "another map beside model.rule = sum", T, S},
    {"layers=1 rule=delta", "another map beside model.rule = delta", T, S},
    {"layers=1 rule=softmax feature_map=relu", "identity beside model.rule = softmax", T, S},
    {"layers=1 rule=fwn", "softmax", T, S},
    {"layers=1 feature_map=tanh", "another map beside model.rule = sum", T, S},
    {"layers=1 feature_map=elu+1", "pairs of a key and a value", T + 1, S},
    {"layers=1 feature_map=elu+1", "pairs of a key and a value", T, S + 1},
};

static void check_refusals(tap_run *tap) {
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char overrides[128];
        setting is = {overrides, retrieval, B};
        snprintf(overrides, sizeof overrides, "family=fast-weights heads=1 %s", refusals[i].overrides);
        is.shape.positions = refusals[i].positions;
        is.shape.outputs = refusals[i].outputs;
        check_refusal(tap, &is, refusals[i].expected);
    }
}

/* Draws directions [2, 5], which come after 7 other parameters, in three blocks. The first direction of a block is the
 * vector that its own stream draws at this step; the second is orthogonal to it, and as long as the vector drawn for
 * it. */
static void check_redrawn(tap_run *tap) {
    enum { SIZE = 2, COUNT = 5, SEED = 3, STEP = 11 };
    const icl_parameter_info info = {.rank = 2, .shape = {SIZE, COUNT}, .offset = 7, .count = SIZE * COUNT};
    const icl_random_key key = {.seed = SEED, .stream = ICL_MODEL_STREAM + 1, .step = STEP};
    float values[SIZE * COUNT], other[SIZE * COUNT];
    double worst = 0;

    icl_sequence_redraw_directions(&info, SEED, STEP, values);
    icl_sequence_redraw_directions(&info, SEED, STEP + 1, other);
    for (size_t j = 0; j < COUNT; j++) {
        double drawn[SIZE], length = 0, drawn_length = 0, product = 0;
        for (size_t i = 0; i < SIZE; i++) {
            const float *own = &values[i * COUNT + j];
            drawn[i] = (double)icl_normal_from_word(icl_random_word(key, info.offset + i * COUNT + j));
            length += (double)*own * (double)*own;
            drawn_length += drawn[i] * drawn[i];
            product += j % SIZE == 1 ? (double)own[-1] * (double)*own : 0;
            worst = fmax(worst, j % SIZE == 0 ? fabs(drawn[i] - (double)*own) : 0);
        }
        worst = fmax(worst, fmax(fabs(length - drawn_length), fabs(product)));
    }
    tap_ok(tap, worst < 1e-5, "directions are drawn anew by their own stream, orthogonal in blocks: within %.1e",
           worst);
    tap_ok(tap, memcmp(values, other, sizeof values) != 0, "and others at the next step");
}

int main(int argc, char **argv) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, argc > 1 ? argv[1] : "ref");

    for (size_t i = 0; backend && i < sizeof all / sizeof *all; i++)
        check(&tap, backend, &all[i]);
    check_refusals(&tap);
    check_redrawn(&tap);
    icl_backend_close(&backend);
    return tap_done(&tap);
}
