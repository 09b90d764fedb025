/* Models of one block by plain loops over tokens in double, which share nothing with the library but the names of the
 * parameters: their settings and parameters, and the queries, keys and values of a head. */
#ifndef ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_HEADS_H
#define ICLAB_TESTS_MODEL_SEQUENCE_PLAIN_HEADS_H

#include "plain.h"

enum { T = 37, B = 2, WIDTH = 6, INPUTS = 3, OUTPUTS = 2, MOST_HEADS = 3, MOST_STEPS = 3 };
enum { MOST_KEY = 16, MOST_VALUE = 5, GATE_RANK = 16, LEVELS = 16 };

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
    FOX,
    KDA,
    GATED_DELTA_2,
    PRECONDITIONED,
    COMBA,
    RWKV7,
    TITANS,
    LONGHORN,
    GSA,
    OJA,
    LOG_LINEAR,
    MAMBA3,
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
    P_ERASE,
    P_ERASE_BIAS,
    P_REMOVAL,
    P_BLEND,
    P_FEEDBACK,
    P_CORRECTION,
    P_SINK,
    P_CONDITION_WRITE,
    P_CONDITION_WRITE_BIAS,
    P_CONDITION_GATE,
    P_CONDITION_GATE_BIAS,
    P_CONDITION_GATE_RATE,
    P_CONDITION_CENTER,
    P_LEVEL,
    P_LEVEL_SCALE,
    P_STEP,
    P_STEP_BIAS,
    P_SHARE,
    P_ANGLE,
    P_QUERY_GAIN,
    P_KEY_GAIN,
    P_QUERY_OFFSET,
    P_KEY_OFFSET,
    P_SKIP,
    P_SPREAD,
    P_GATHER,
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
                                              "block.0.mixer.erase",
                                              "block.0.mixer.erase_bias",
                                              "block.0.mixer.removal",
                                              "block.0.mixer.blend",
                                              "block.0.mixer.feedback",
                                              "block.0.mixer.correction",
                                              "block.0.mixer.sink",
                                              "block.0.mixer.condition_write",
                                              "block.0.mixer.condition_write_bias",
                                              "block.0.mixer.condition_gate",
                                              "block.0.mixer.condition_gate_bias",
                                              "block.0.mixer.condition_gate_rate",
                                              "block.0.mixer.condition_center",
                                              "block.0.mixer.level",
                                              "block.0.mixer.level_scale",
                                              "block.0.mixer.step",
                                              "block.0.mixer.step_bias",
                                              "block.0.mixer.share",
                                              "block.0.mixer.angle",
                                              "block.0.mixer.query_gain",
                                              "block.0.mixer.key_gain",
                                              "block.0.mixer.query_offset",
                                              "block.0.mixer.key_offset",
                                              "block.0.mixer.skip",
                                              "block.0.mixer.spread",
                                              "block.0.mixer.gather",
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
    size_t heads, key, features, value, steps, taps, iterations, loops, slots; /* numbers of each */
    size_t gates;                                                              /* by channel, of a head */
    size_t window;                                                             /* T: none */
    enum { IDENTITY, ELU, RELU, TANH, FAVOR, DPFP, LEARNED_MAP } map;
    bool unit, sum, rotary, two_sided, normalizer, has_norm, has_sigmoid, is_layer_norm, injection;
    double scale, base, limit, root, strength, ridge, momentum, clip, dropout;
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
    const mixer_kind kind = p->mixer;
    const bool has_unit = kind == DELTA || kind == GATED_DELTA || kind == DELTA_PRODUCT || kind == MESA ||
                          kind == KDA || kind == GATED_DELTA_2 || kind == PRECONDITIONED || kind == COMBA ||
                          kind == TITANS || kind == OJA;

    read_map(p);
    p->heads = (size_t)number_of(p, "heads");
    p->value = (size_t)number_of(p, "value_width");
    p->steps = p->mixer == DELTA_PRODUCT ? (size_t)number_of(p, "delta_steps")
               : p->mixer == MAMBA3      ? (size_t)number_of(p, "mimo_rank")
                                         : 1;
    p->taps = (size_t)number_of(p, "convolution");
    p->iterations = (size_t)number_of(p, "iterations");
    p->loops = (size_t)number_of(p, "loops");
    p->unit = has(p, "normalize_keys", "unit") || (has_unit && has(p, "normalize_keys", "auto"));
    p->sum = has(p, "normalize_keys", "sum");
    p->rotary = has(p, "positions", "rotary");
    p->two_sided = has(p, "causal", "false");
    p->normalizer = has(p, "normalizer", "true");
    p->has_norm = !has(p, "output_norm", "none") && kind != SOFTMAX && kind != FOX;
    p->has_sigmoid = kind == SOFTMAX || kind == FOX || kind == KDA || kind == GATED_DELTA_2 || kind == COMBA;
    p->is_layer_norm = has(p, "output_norm", "layer");
    p->injection = has(p, "injection", "true");
    /* Products are scaled unless keys are mapped or normalized. */
    p->scale = p->map == IDENTITY && !p->unit && !p->sum && kind != MAMBA3 ? 1 / sqrt((double)p->key) : 1;
    p->base = number_of(p, "position_base");
    p->limit = number_of(p, "gate_limit");
    p->root = number_of(p, "gate_root");
    p->strength = p->mixer == MESA ? 1 : number_of(p, "write_strength");
    p->ridge = number_of(p, "ridge");
    p->momentum = p->mixer == MOMENTUM ? number_of(p, "momentum") : 0;
    p->clip = number_of(p, "activation_clip");
    p->dropout = number_of(p, "dropout");
    p->window = number_of(p, "window") > 0 ? (size_t)number_of(p, "window") : T;
    p->slots = number_of(p, "slots") > 0 ? (size_t)number_of(p, "slots") : p->features;
    p->gates = p->mixer == GSA ? p->slots : p->mixer == OJA ? p->value : p->features;
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
    double q[T][MOST_KEY], more_q[T][MOST_STEPS][MOST_KEY], k[T][MOST_STEPS][MOST_KEY], v[T][MOST_STEPS][MOST_VALUE],
        beta[T][MOST_STEPS];
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
    if (p->mixer != SOFTMAX && p->mixer != FOX && p->mixer != MAMBA3)
        map_key(p, h, x);
}

/* Returns the factor by which a state decays. */
static inline double decay_of(const plain *p, size_t h, size_t t, size_t i) {
    const double *gate = get(p, P_GATE), *bias = get(p, P_GATE_BIAS);
    const double *rate = get(p, P_GATE_RATE), limit = p->limit;
    const double *down = get(p, P_GATE_DOWN), *up = get(p, P_GATE_UP);
    const size_t gates = p->heads * p->gates, own = h * p->gates + i;
    double low[GATE_RANK];

    if (p->mixer == RETENTION)
        return 1 - pow(2, -5 - (double)h);
    if (p->mixer == MAMBA2 || p->mixer == GATED_DELTA || p->mixer == LOG_LINEAR)
        return limit * exp(-exp(rate[h]) * softplus(column(p->z[t], gate, WIDTH, p->heads, h) + bias[h]));
    if (p->mixer == MESA)
        return limit * sigmoid(column(p->z[t], gate, WIDTH, p->heads, h) + bias[h]);
    if (p->mixer == GSA || p->mixer == OJA)
        return limit * pow(sigmoid(column(p->z[t], gate, WIDTH, gates, own) + bias[own]), 1 / p->root);
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
    const size_t queries = p->mixer == MAMBA3 ? p->steps : 1, value_steps = p->steps / queries;

    for (size_t t = 0; t < T; t++) {
        for (size_t i = 0; i < p->key; i++)
            at->q[t][i] = project(p, P_QUERY, t, queries * keys, h * p->key + i);
        finish_key(p, h, t, at->q[t]);
        for (size_t s = 0; s < queries; s++) {
            for (size_t i = 0; i < p->key; i++)
                at->more_q[t][s][i] = project(p, P_QUERY, t, queries * keys, s * keys + h * p->key + i);
            finish_key(p, h, t, at->more_q[t][s]);
        }
        for (size_t s = 0; s < p->steps; s++) {
            for (size_t i = 0; i < p->key; i++)
                at->k[t][s][i] = project(p, P_KEY, t, p->steps * keys, s * keys + h * p->key + i);
            finish_key(p, h, t, at->k[t][s]);
            for (size_t j = 0; j < p->value && s < value_steps; j++)
                at->v[t][s][j] = project(p, P_VALUE, t, value_steps * values, s * values + h * p->value + j);
            at->beta[t][s] = beta_of(p, h, t, s);
        }
        for (size_t i = 0; i < p->gates; i++)
            at->decay[t][i] = decay_of(p, h, t, i);
    }
}

static inline double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

#endif
