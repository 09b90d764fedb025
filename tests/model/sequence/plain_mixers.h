/* The mixers by plain loops over tokens in double, which share nothing with the library but the names of the
 * parameters: models of one block, z = e + mixer(e), e = x W + b, with a linear readout. */
#ifndef ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_MIXERS_H
#define ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_MIXERS_H

#include "eliminate.h"
#include "plain.h"

enum { T = 37, B = 2, WIDTH = 6, INPUTS = 3, OUTPUTS = 2, MOST_HEADS = 3, MOST_STEPS = 3 };
enum { MOST_KEY = 16, MOST_VALUE = 5, GATE_RANK = 16 };

/* The mixers, and the names of the parameters of all of them. */
typedef enum mixer_kind {
    SOFTMAX,
    LINEAR,
    RETENTION,
    GLA,
    MAMBA2,
    DELTA,
    GATED_DELTA,
    DELTA_PRODUCT,
    MESA,
    MOMENTUM,
    CONV,
    MIXERS
} mixer_kind;
enum {
    P_QUERY,
    P_KEY,
    P_VALUE,
    P_QUERY_FILTER,
    P_KEY_FILTER,
    P_VALUE_FILTER,
    P_DIRECTIONS,
    P_LEARNED,
    P_LEARNED_BIAS,
    P_GATE,
    P_GATE_BIAS,
    P_GATE_RATE,
    P_GATE_DOWN,
    P_GATE_UP,
    P_WRITE,
    P_WRITE_BIAS,
    P_RIDGE,
    P_GAIN,
    P_OUTPUT_GATE,
    P_FILTER,
    P_OUTPUT,
    P_OUTPUT_BIAS,
    P_EMBEDDING,
    P_EMBEDDING_BIAS,
    P_READOUT,
    P_READOUT_BIAS,
    PARTS
};

static const char *const part_names[PARTS] = {"block.0.mixer.query",
                                              "block.0.mixer.key",
                                              "block.0.mixer.value",
                                              "block.0.mixer.query_filter",
                                              "block.0.mixer.key_filter",
                                              "block.0.mixer.value_filter",
                                              "block.0.mixer.directions",
                                              "block.0.mixer.features",
                                              "block.0.mixer.features_bias",
                                              "block.0.mixer.gate",
                                              "block.0.mixer.gate_bias",
                                              "block.0.mixer.gate_rate",
                                              "block.0.mixer.gate_down",
                                              "block.0.mixer.gate_up",
                                              "block.0.mixer.write",
                                              "block.0.mixer.write_bias",
                                              "block.0.mixer.ridge",
                                              "block.0.mixer.output_gain",
                                              "block.0.mixer.output_gate",
                                              "block.0.mixer.filter",
                                              "block.0.mixer.output",
                                              "block.0.mixer.output_bias",
                                              "embedding.weight",
                                              "embedding.bias",
                                              "readout.weight",
                                              "readout.bias"};

typedef struct plain {
    const char *settings; /* if a key occurs twice, the last value counts */
    mixer_kind mixer;
    const double *values;
    bool has_part[PARTS];
    size_t places[PARTS];
    size_t heads, key, features, value, steps, taps, iterations, loops; /* numbers of each */
    enum { IDENTITY, ELU, RELU, TANH, FAVOR, DPFP, LEARNED_MAP } map;
    bool unit, sum, rotary, two_sided, normalizer, has_norm, is_layer_norm, injection;
    double scale, base, limit, root, strength, ridge, momentum, clip;
    double e[T][WIDTH], z[T][WIDTH], mixed[T][WIDTH]; /* of one sequence */
} plain;

static inline const char *text_of(const plain *p, const char *key) {
    const char *found = "";
    char text[64];

    snprintf(text, sizeof text, " %s=", key);
    for (const char *at = strstr(p->settings, text); at; at = strstr(at + 1, text))
        found = at + strlen(text);
    return found;
}

static inline bool has(const plain *p, const char *key, const char *word) {
    return strncmp(text_of(p, key), word, strlen(word)) == 0;
}

static inline double number_of(const plain *p, const char *key) {
    return strtod(text_of(p, key), NULL);
}

/* Reads the feature map and its count: 2 for "dpfp:2", 0 for "learned". */
static inline void read_map(plain *p) {
    static const char *const words[] = {"identity", "elu+1", "relu", "tanh", "favor", "dpfp", "learned"};
    const char *map = text_of(p, "feature_map"), *colon = strchr(map, ':');
    const size_t length = strcspn(map, " ");
    const size_t count = colon && colon < map + length ? (size_t)strtod(colon + 1, NULL) : 0;

    p->key = (size_t)number_of(p, "key_width");
    for (int kind = IDENTITY; kind <= LEARNED_MAP; kind++)
        if (has(p, "feature_map", words[kind]))
            p->map = kind;
    p->features = p->map == DPFP ? 2 * p->key * count : p->map == FAVOR ? 2 * count : count > 0 ? count : p->key;
}

static inline void read_settings(plain *p) {
    const bool has_unit = p->mixer == DELTA || p->mixer == GATED_DELTA || p->mixer == DELTA_PRODUCT || p->mixer == MESA;

    read_map(p);
    p->heads = (size_t)number_of(p, "heads");
    p->value = (size_t)number_of(p, "value_width");
    p->steps = p->mixer == DELTA_PRODUCT ? (size_t)number_of(p, "delta_steps") : 1;
    p->taps = (size_t)number_of(p, "convolution");
    p->iterations = (size_t)number_of(p, "iterations");
    p->loops = (size_t)number_of(p, "loops");
    p->unit = has(p, "normalize_keys", "unit") || (has_unit && has(p, "normalize_keys", "auto"));
    p->sum = has(p, "normalize_keys", "sum");
    p->rotary = has(p, "positions", "rotary");
    p->two_sided = has(p, "causal", "false");
    p->normalizer = has(p, "normalizer", "true");
    p->has_norm = !has(p, "output_norm", "none") && p->mixer != SOFTMAX;
    p->is_layer_norm = has(p, "output_norm", "layer");
    p->injection = has(p, "injection", "true");
    /* Products are scaled unless keys are mapped or normalized. */
    p->scale = p->map == IDENTITY && !p->unit && !p->sum ? 1 / sqrt((double)p->key) : 1;
    p->base = number_of(p, "position_base");
    p->limit = number_of(p, "gate_limit");
    p->root = number_of(p, "gate_root");
    p->strength = p->mixer == MESA ? 1 : number_of(p, "write_strength");
    p->ridge = number_of(p, "ridge");
    p->momentum = p->mixer == MOMENTUM ? number_of(p, "momentum") : 0;
    p->clip = number_of(p, "activation_clip");
}

static inline void find_parts(plain *p, const icl_model *model) {
    for (size_t part = 0; part < PARTS; part++)
        for (size_t i = 0; i < icl_model_parameter_count(model); i++)
            if (strcmp(icl_model_parameter(model, i)->name, part_names[part]) == 0) {
                p->has_part[part] = true;
                p->places[part] = icl_model_parameter(model, i)->offset;
            }
}

static inline const double *get(const plain *p, size_t part) {
    return p->has_part[part] ? p->values + p->places[part] : NULL;
}

static inline double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static inline double softplus(double x) {
    return log(1 + exp(x));
}

/* ---- Queries, keys and values of one head ---- */

typedef struct head {
    double q[T][MOST_KEY], k[T][MOST_STEPS][MOST_KEY], v[T][MOST_STEPS][MOST_VALUE], beta[T][MOST_STEPS];
    double decay[T][MOST_KEY], o[T][MOST_VALUE];
} head;

/* Returns column j of the projection of token t, after its short convolution and SiLU. */
static inline double project(const plain *p, size_t part, size_t t, size_t columns, size_t j) {
    const double *weights = get(p, part), *filter = get(p, part + P_QUERY_FILTER - P_QUERY);
    double sum = 0;

    if (p->taps == 0)
        return column(p->z[t], weights, WIDTH, columns, j);
    for (size_t back = 0; back < p->taps && back <= t; back++)
        sum += filter[(p->taps - 1 - back) * columns + j] * column(p->z[t - back], weights, WIDTH, columns, j);
    return sum * sigmoid(sum);
}

static inline void turn(const plain *p, size_t t, double *x) {
    const size_t half = p->key / 2;

    for (size_t i = 0; i < half; i++) {
        const double angle = (double)t * pow(p->base, -2.0 * (double)i / (double)p->key);
        const double first = x[i], second = x[i + half];
        x[i] = first * cos(angle) - second * sin(angle);
        x[i + half] = first * sin(angle) + second * cos(angle);
    }
}

/* Computes exp(+-u - |x|^2 / 2) / sqrt(2 M), with x divided by the fourth root of its width. */
static inline void map_favor(const plain *p, const double *x, double *out) {
    const double *directions = get(p, P_DIRECTIONS);
    const size_t count = p->features / 2;
    double scaled[MOST_KEY], half = 0;

    for (size_t i = 0; i < p->key; i++) {
        scaled[i] = x[i] / sqrt(sqrt((double)p->key));
        half += scaled[i] * scaled[i] / 2;
    }
    for (size_t j = 0; j < count; j++) {
        const double u = column(scaled, directions, p->key, count, j);
        out[j] = exp(u - half) / sqrt(2.0 * (double)count);
        out[count + j] = exp(-u - half) / sqrt(2.0 * (double)count);
    }
}

/* Computes r_i r_(i - j) for j = 1, 2, ..., with r = relu([x; -x]). */
static inline void map_dpfp(const plain *p, const double *x, double *out) {
    const size_t size = 2 * p->key;
    double r[2 * MOST_KEY];

    for (size_t i = 0; i < size; i++)
        r[i] = fmax(0, i < p->key ? x[i] : -x[i - p->key]);
    for (size_t i = 0; i < p->features; i++)
        out[i] = r[i % size] * r[(i % size + size - (1 + i / size)) % size];
}

/* relu(x W + b). */
static inline void map_learned(const plain *p, size_t h, const double *x, double *out) {
    const double *matrix = get(p, P_LEARNED) + h * p->key * p->features;
    const double *bias = get(p, P_LEARNED_BIAS) + h * p->features;

    for (size_t j = 0; j < p->features; j++)
        out[j] = fmax(0, column(x, matrix, p->key, p->features, j) + bias[j]);
}

static inline void map_key(const plain *p, size_t h, double *x) {
    double out[MOST_KEY], square = 0, sum = 0;

    memcpy(out, x, sizeof out);
    for (size_t i = 0; i < p->key; i++)
        out[i] = p->map == ELU    ? (x[i] > 0 ? x[i] + 1 : exp(x[i]))
                 : p->map == RELU ? fmax(0, x[i])
                 : p->map == TANH ? tanh(x[i])
                                  : x[i];
    if (p->map == FAVOR)
        map_favor(p, x, out);
    if (p->map == DPFP)
        map_dpfp(p, x, out);
    if (p->map == LEARNED_MAP)
        map_learned(p, h, x, out);
    for (size_t i = 0; i < p->features; i++) {
        square += out[i] * out[i];
        sum += out[i];
    }
    for (size_t i = 0; i < p->features; i++)
        x[i] = p->unit ? out[i] / sqrt(square + 1e-12) : p->sum ? out[i] / (sum + 1e-6) : out[i];
}

static inline void finish_key(const plain *p, size_t h, size_t t, double *x) {
    if (p->rotary)
        turn(p, t, x);
    if (p->mixer != SOFTMAX)
        map_key(p, h, x);
}

/* Returns the factor by which a state decays. */
static inline double decay_of(const plain *p, size_t h, size_t t, size_t i) {
    const double *gate = get(p, P_GATE), *bias = get(p, P_GATE_BIAS);
    const double *rate = get(p, P_GATE_RATE), limit = p->limit;
    const double *down = get(p, P_GATE_DOWN), *up = get(p, P_GATE_UP);
    const size_t gates = p->heads * p->features, own = h * p->features + i;
    double low[GATE_RANK];

    if (p->mixer == RETENTION)
        return 1 - pow(2, -5 - (double)h);
    if (p->mixer == MAMBA2 || p->mixer == GATED_DELTA)
        return limit * exp(-exp(rate[h]) * softplus(column(p->z[t], gate, WIDTH, p->heads, h) + bias[h]));
    if (p->mixer == MESA)
        return limit * sigmoid(column(p->z[t], gate, WIDTH, p->heads, h) + bias[h]);
    if (p->mixer != GLA)
        return 1;
    for (size_t j = 0; j < GATE_RANK; j++)
        low[j] = column(p->z[t], down, WIDTH, GATE_RANK, j);
    return limit * pow(sigmoid(column(low, up, GATE_RANK, gates, own) + bias[own]), 1 / p->root);
}

static inline double beta_of(const plain *p, size_t h, size_t t, size_t s) {
    const double *write = get(p, P_WRITE), *bias = get(p, P_WRITE_BIAS);
    const size_t place = s * p->heads + h;

    if (!write)
        return 1;
    return p->strength * sigmoid(column(p->z[t], write, WIDTH, p->steps * p->heads, place) + bias[place]);
}

static inline void fill_head(const plain *p, size_t h, head *at) {
    const size_t keys = p->heads * p->key, values = p->heads * p->value;

    for (size_t t = 0; t < T; t++) {
        for (size_t i = 0; i < p->key; i++)
            at->q[t][i] = project(p, P_QUERY, t, keys, h * p->key + i);
        finish_key(p, h, t, at->q[t]);
        for (size_t s = 0; s < p->steps; s++) {
            for (size_t i = 0; i < p->key; i++)
                at->k[t][s][i] = project(p, P_KEY, t, p->steps * keys, s * keys + h * p->key + i);
            finish_key(p, h, t, at->k[t][s]);
            for (size_t j = 0; j < p->value; j++)
                at->v[t][s][j] = project(p, P_VALUE, t, p->steps * values, s * values + h * p->value + j);
            at->beta[t][s] = beta_of(p, h, t, s);
        }
        for (size_t i = 0; i < p->features; i++)
            at->decay[t][i] = decay_of(p, h, t, i);
    }
}

static inline double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- The formulas ---- */

/* Sums over all pairs of tokens: softmax, and both forms of linear attention. */
static inline void attend(const plain *p, head *at) {
    for (size_t t = 0; t < T; t++) {
        const size_t end = p->two_sided ? T : t + 1;
        double total = 0, sums[MOST_VALUE] = {0};
        for (size_t s = 0; s < end; s++) {
            const double score = p->scale * dot(at->q[t], at->k[s][0], p->features);
            const double weight = p->mixer == SOFTMAX ? exp(score) : score;
            total += weight;
            for (size_t j = 0; j < p->value; j++)
                sums[j] += weight * at->v[s][0][j];
        }
        for (size_t j = 0; j < p->value; j++)
            at->o[t][j] = p->mixer == SOFTMAX ? sums[j] / total : p->normalizer ? sums[j] / (total + 1e-6) : sums[j];
    }
}

/* Runs a state for each head. */
static inline void recur(const plain *p, head *at) {
    const double kept = p->momentum;
    const bool delta = p->mixer == DELTA || p->mixer == GATED_DELTA || p->mixer == DELTA_PRODUCT;
    double state[MOST_KEY][MOST_VALUE] = {{0}}, ball[MOST_KEY][MOST_VALUE] = {{0}};

    for (size_t t = 0; t < T; t++) {
        for (size_t i = 0; i < p->features; i++)
            for (size_t j = 0; j < p->value; j++)
                state[i][j] *= at->decay[t][i];
        for (size_t s = 0; s < p->steps; s++) {
            double miss[MOST_VALUE];
            for (size_t j = 0; j < p->value; j++) {
                miss[j] = at->v[t][s][j];
                for (size_t i = 0; delta && i < p->features; i++)
                    miss[j] -= state[i][j] * at->k[t][s][i];
            }
            for (size_t i = 0; i < p->features; i++)
                for (size_t j = 0; j < p->value; j++) {
                    ball[i][j] = kept * ball[i][j] + at->beta[t][s] * at->k[t][s][i] * miss[j];
                    state[i][j] += ball[i][j];
                }
        }
        for (size_t j = 0; j < p->value; j++) {
            at->o[t][j] = 0;
            for (size_t i = 0; i < p->features; i++)
                at->o[t][j] += p->scale * state[i][j] * at->q[t][i];
        }
    }
}

/* Replaces q by a^-1 q, by `steps` conjugate gradient steps that start at q over the diagonal (Hestenes and Stiefel
 * 1952). */
static inline void descend(size_t size, double a[MOST_KEY][MOST_KEY], double *q, size_t steps) {
    double x[MOST_KEY], r[MOST_KEY], d[MOST_KEY], product[MOST_KEY], square;

    for (size_t i = 0; i < size; i++)
        x[i] = q[i] / a[i][i];
    for (size_t i = 0; i < size; i++)
        d[i] = r[i] = q[i] - dot(a[i], x, size);
    square = dot(r, r, size);
    for (size_t n = 0; n < steps && square > 0; n++) {
        for (size_t i = 0; i < size; i++)
            product[i] = dot(a[i], d, size);
        const double step = square / dot(d, product, size), before = square;
        for (size_t i = 0; i < size; i++) {
            x[i] += step * d[i];
            r[i] -= step * product[i];
        }
        square = dot(r, r, size);
        for (size_t i = 0; i < size; i++)
            d[i] = r[i] + square / before * d[i];
    }
    memcpy(q, x, size * sizeof *q);
}

/* Replaces queries by (H_t + Lambda)^-1 q_t, with H_t as a sum over all keys up to t. */
static inline void solve_queries(const plain *p, size_t h, head *at) {
    const size_t size = p->features, steps = p->iterations;
    const double *ridge = get(p, P_RIDGE);

    for (size_t t = 0; t < T && steps > 0; t++) {
        double a[MOST_KEY][MOST_KEY] = {{0}}, weight = 1;
        for (size_t s = t + 1; s-- > 0;) {
            for (size_t i = 0; i < size; i++)
                for (size_t j = 0; j < size; j++)
                    a[i][j] += weight * at->beta[s][0] * at->k[s][0][i] * at->k[s][0][j];
            weight *= at->decay[s][0];
        }
        for (size_t i = 0; i < size; i++)
            a[i][i] += p->ridge / 4 + softplus(ridge[h * size + i]);
        if (steps < size)
            descend(size, a, at->q[t], steps);
        else
            eliminate(size, MOST_KEY, &a[0][0], at->q[t]);
    }
}

/* Divides o, less its mean for a layer norm, by the root of its mean square, and multiplies by the gain. */
static inline void normalize(const plain *p, double *o) {
    const double *gain = get(p, P_GAIN);
    const double count = (double)p->value;
    double mean = 0, square = 0;

    if (!p->has_norm)
        return;
    for (size_t j = 0; j < p->value && p->is_layer_norm; j++)
        mean += o[j] / count;
    for (size_t j = 0; j < p->value; j++)
        square += (o[j] - mean) * (o[j] - mean) / count;
    for (size_t j = 0; j < p->value; j++)
        o[j] = (o[j] - mean) / sqrt(square + 1e-5) * gain[j];
}

/* Computes (norm(o) of every head, gated by SiLU) W. */
static inline void mix_heads(plain *p) {
    const double *output = get(p, P_OUTPUT), *gate = get(p, P_OUTPUT_GATE);
    const size_t values = p->heads * p->value;
    static double joined[T][MOST_HEADS * MOST_VALUE];
    static head at;

    for (size_t h = 0; h < p->heads; h++) {
        fill_head(p, h, &at);
        if (p->mixer == MESA)
            solve_queries(p, h, &at);
        if (p->mixer == SOFTMAX || p->mixer == LINEAR)
            attend(p, &at);
        else
            recur(p, &at);
        for (size_t t = 0; t < T; t++) {
            normalize(p, at.o[t]);
            for (size_t j = 0; j < p->value; j++) {
                const double x = gate ? column(p->z[t], gate, WIDTH, values, h * p->value + j) : 0;
                joined[t][h * p->value + j] = at.o[t][j] * (gate ? x * sigmoid(x) : 1);
            }
        }
    }
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++)
            p->mixed[t][i] = column(joined[t], output, values, WIDTH, i);
}

static inline void mix_convolution(plain *p) {
    const double *filter = get(p, P_FILTER), *output = get(p, P_OUTPUT);
    const double *bias = get(p, P_OUTPUT_BIAS);

    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++) {
            double sum = 0;
            for (size_t back = 0; back < p->taps && back <= t; back++)
                sum += filter[(p->taps - 1 - back) * WIDTH + i] * p->z[t - back][i];
            p->mixed[t][i] = sum * (column(p->z[t], output, WIDTH, WIDTH, i) + bias[i]);
        }
}

/* Computes z <- z + mixer(z), cut to the clip; with injection, e is added to z before every loop but the first, where z
 * is e. */
static inline void run_loop(plain *p, bool is_first) {
    const double clip = p->clip;

    for (size_t t = 0; t < T && !is_first && p->injection; t++)
        for (size_t i = 0; i < WIDTH; i++)
            p->z[t][i] += p->e[t][i];
    if (p->mixer == CONV)
        mix_convolution(p);
    else
        mix_heads(p);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++) {
            p->z[t][i] += p->mixed[t][i];
            if (clip > 0)
                p->z[t][i] = fmin(clip, fmax(-clip, p->z[t][i]));
        }
}

/* Computes outputs [B][scored][OUTPUTS] at the last positions. */
static inline void run_plain(plain *p, const double *inputs, size_t scored, double *outputs) {
    const double *embedding = get(p, P_EMBEDDING), *bias = get(p, P_EMBEDDING_BIAS);
    const double *readout = get(p, P_READOUT), *last = get(p, P_READOUT_BIAS);

    for (size_t b = 0; b < B; b++) {
        for (size_t t = 0; t < T; t++)
            for (size_t i = 0; i < WIDTH; i++)
                p->e[t][i] = column(inputs + (b * T + t) * INPUTS, embedding, INPUTS, WIDTH, i) + (bias ? bias[i] : 0);
        memcpy(p->z, p->e, sizeof p->z);
        for (size_t loop = 0; loop < p->loops; loop++)
            run_loop(p, loop == 0);
        for (size_t t = T - scored; t < T; t++)
            for (size_t j = 0; j < OUTPUTS; j++)
                *outputs++ = column(p->z[t], readout, WIDTH, OUTPUTS, j) + last[j];
    }
}

#endif
