/* Tests attention maps against plain loops over tokens in double, for two layers: the output of the first one moves the
 * weights of the second. */
#include "probe/activations.h"

#include "../model/sequence/plain.h"

enum { T = 9, B = 3, WIDTH = 6, HEADS = 2, M = 4, N = 3, LAYERS = 2, INPUTS = 3, OUTPUTS = 2 };

static const char *const always = "layers=2 norm=none feed_forward=none key_width=4 value_width=3 ";

typedef struct plain {
    const icl_model *model;
    const double *values;
    bool two_sided, rotary;
    size_t window;                       /* T: none */
    double z[T][WIDTH];                  /* of one sequence */
    double weights[LAYERS][HEADS][T][T]; /* likewise */
} plain;

static const double *get(const plain *p, const char *name) {
    return parameters_of(p->model, p->values, name);
}

/* Turns the pairs (i, i + m / 2) of position t by t 100^(-2 i / m). */
static void turn(double *x, size_t t) {
    for (size_t i = 0; i < M / 2; i++) {
        const double angle = (double)t * pow(100, -2.0 * (double)i / M), first = x[i], second = x[i + M / 2];
        x[i] = first * cos(angle) - second * sin(angle);
        x[i + M / 2] = first * sin(angle) + second * cos(angle);
    }
}

/* Returns projection `name` of head h, [T][width]. */
static void project(const plain *p, size_t layer, const char *name, size_t h, size_t width, double out[T][M]) {
    char full[64];

    snprintf(full, sizeof full, "block.%zu.mixer.%s", layer, name);
    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < width; i++)
            out[t][i] = column(p->z[t], get(p, full), WIDTH, HEADS * width, h * width + i);
}

/* Returns exp of the logit of a head's sink; 0 without one. */
static double sink_of(const plain *p, size_t layer, size_t h) {
    char name[64];

    snprintf(name, sizeof name, "block.%zu.mixer.sink", layer);
    const double *logits = get(p, name);
    return logits ? exp(logits[h]) : 0;
}

/* Returns the product of the gates of fox behind token s, up to token t; 1 without gates. */
static double kept_between(const plain *p, size_t layer, size_t h, size_t s, size_t t) {
    char name[64], bias[64];
    double product = 1;

    snprintf(name, sizeof name, "block.%zu.mixer.gate", layer);
    snprintf(bias, sizeof bias, "block.%zu.mixer.gate_bias", layer);
    for (size_t i = s + 1; i <= t && get(p, name); i++)
        product /= 1 + exp(-column(p->z[i], get(p, name), WIDTH, HEADS, h) - get(p, bias)[h]);
    return product;
}

static void attend(plain *p, size_t layer, size_t h, double joined[T][HEADS * N]) {
    double q[T][M], k[T][M], v[T][M];

    project(p, layer, "query", h, M, q);
    project(p, layer, "key", h, M, k);
    project(p, layer, "value", h, N, v);
    for (size_t t = 0; t < T && p->rotary; t++) {
        turn(q[t], t);
        turn(k[t], t);
    }
    for (size_t t = 0; t < T; t++) {
        const size_t end = p->two_sided ? T : t + 1, first = end > p->window ? end - p->window : 0;
        double *weights = p->weights[layer][h][t], total = sink_of(p, layer, h);
        memset(weights, 0, T * sizeof *weights);
        for (size_t s = first; s < end; s++) {
            double score = 0;
            for (size_t i = 0; i < M; i++)
                score += q[t][i] * k[s][i];
            weights[s] = exp(score / sqrt(M)) * kept_between(p, layer, h, s, t);
            total += weights[s];
        }
        for (size_t s = first; s < end; s++)
            weights[s] /= total;
        for (size_t j = 0; j < N; j++) {
            joined[t][h * N + j] = 0;
            for (size_t s = 0; s < end; s++)
                joined[t][h * N + j] += weights[s] * v[s][j];
        }
    }
}

static void run_plain(plain *p, const double *inputs) {
    double joined[T][HEADS * N];

    for (size_t t = 0; t < T; t++)
        for (size_t i = 0; i < WIDTH; i++)
            p->z[t][i] =
                column(inputs + t * INPUTS, get(p, "embedding.weight"), INPUTS, WIDTH, i) + get(p, "embedding.bias")[i];
    for (size_t layer = 0; layer < LAYERS; layer++) {
        char name[64];
        snprintf(name, sizeof name, "block.%zu.mixer.output", layer);
        for (size_t h = 0; h < HEADS; h++)
            attend(p, layer, h, joined);
        for (size_t t = 0; t < T; t++)
            for (size_t i = 0; i < WIDTH; i++)
                p->z[t][i] += column(joined[t], get(p, name), HEADS * N, WIDTH, i);
    }
}

/* Returns the largest difference of the map of sequence b from the plain loops. */
static double farthest(const plain *p, const icl_attention_map *map, size_t b) {
    double largest = 0;

    for (size_t h = 0; h < HEADS; h++)
        for (size_t i = 0; i < map->queries; i++)
            for (size_t j = 0; j < T; j++)
                largest = fmax(largest, fabs(icl_attention_weight(map, b, h, i, j) -
                                             p->weights[map->layer][h][T - map->queries + i][j]));
    return largest;
}

static icl_status compare(tap_run *tap, icl_backend *backend, const char *overrides, size_t scored, icl_error *error) {
    char all[256];
    const setting is = {
        all, {.positions = T, .inputs = INPUTS, .outputs = OUTPUTS, .first_scored = T - scored, .scored = scored}, B};
    static double values[MOST_NUMBERS], inputs[B * T * INPUTS];
    icl_attention_maps maps = {0};
    fixture f = {0};
    double largest = 0;
    icl_status status = ICL_OK;

    snprintf(all, sizeof all, "%s%s", always, overrides);
    fixture_open(&f, backend, &is);
    ICL_TRY(icl_tensor_read_double(f.parameters, values, error));
    ICL_TRY(icl_tensor_read_double(f.inputs, inputs, error));
    ICL_TRY(icl_attention_maps_measure(f.model, backend, f.parameters, f.inputs, &maps, error));
    tap_ok(tap, maps.count == LAYERS && maps.maps[0].layer == 0 && maps.maps[1].layer == 1,
           "%s, %zu scored: a map for each layer", overrides, scored);
    tap_ok(tap,
           maps.maps[0].queries == T && maps.maps[1].queries == scored && maps.maps[0].keys == T &&
               maps.maps[1].keys == T,
           "queries of the last layer at the scored positions");
    for (size_t b = 0; b < B; b++) {
        plain p = {.model = f.model,
                   .values = values,
                   .two_sided = strstr(overrides, "causal=false") != NULL,
                   .rotary = strstr(overrides, "rotary") != NULL,
                   .window = strstr(overrides, "window=4") ? 4 : T};
        run_plain(&p, inputs + b * T * INPUTS);
        for (size_t i = 0; i < maps.count; i++)
            largest = fmax(largest, farthest(&p, &maps.maps[i], b));
    }
    tap_ok(tap, largest < 1e-12, "weights as plain loops have them: %.3g", largest);
done:
    icl_attention_maps_release(&maps);
    fixture_close(&f);
    return status;
}

/* Mixers without softmax leave no map; other families are refused. */
static icl_status check_others(tap_run *tap, icl_backend *backend, icl_error *error) {
    const setting mixed = {"mixer=delta,softmax,delta layers=3", small_shape, 1};
    icl_attention_maps maps = {0};
    icl_recipe *recipe = NULL;
    icl_model *linear = NULL;
    fixture f = {0};
    icl_error refused = {0};
    icl_status status = ICL_OK;

    fixture_open(&f, backend, &mixed);
    ICL_TRY(icl_attention_maps_measure(f.model, backend, f.parameters, f.inputs, &maps, error));
    tap_ok(tap, maps.count == 1 && maps.maps[0].layer == 1, "the one softmax layer of three");
    ICL_TRY(icl_recipe_create_complete(&recipe, error));
    ICL_TRY(icl_model_create(recipe, icl_regression_shape(3, 5), &linear, error));
    tap_ok(tap,
           icl_attention_maps_measure(linear, backend, f.parameters, f.inputs, &maps, &refused) == ICL_ERROR_INPUT &&
               strstr(refused.message, "model.family = linear"),
           "%s", refused.message);
done:
    icl_attention_maps_release(&maps);
    tap_ok(tap, maps.count == 0 && maps.capacity == 0 && !maps.maps, "what is released is as it was to begin with");
    fixture_close(&f);
    icl_model_destroy(&linear);
    icl_recipe_destroy(&recipe);
    return status;
}

int main(void) {
    tap_run tap = {0};
    icl_backend *backend = tap_open_device(&tap, "ref");
    icl_error error = {0};
    icl_status status = ICL_OK;

    ICL_TRY(compare(&tap, backend, "mixer=softmax", 4, &error));
    ICL_TRY(compare(&tap, backend, "mixer=softmax causal=false", T, &error));
    ICL_TRY(compare(&tap, backend, "mixer=softmax sinks=true", 4, &error));
    ICL_TRY(compare(&tap, backend, "mixer=softmax sinks=true causal=false", T, &error));
    ICL_TRY(compare(&tap, backend, "mixer=fox", 4, &error));
    ICL_TRY(compare(&tap, backend, "mixer=softmax window=4", 2, &error));
    ICL_TRY(compare(&tap, backend, "mixer=softmax positions=rotary position_base=100", 1, &error));
    ICL_TRY(check_others(&tap, backend, &error));
done:
    tap_status(&tap, status, &error, "every map was measured");
    icl_backend_close(&backend);
    return tap_done(&tap);
}
