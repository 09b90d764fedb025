#include "probe/activations.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/tape.h"

/* ---- Watching ---- */

icl_status icl_watched_run(const icl_model *model, icl_backend *backend, icl_tensor parameters, icl_tensor inputs,
                           const icl_sequence_watch *watch,
                           icl_status (*read)(void *user, const icl_tape *tape, icl_error *error), icl_error *error) {
    icl_tape *tape = NULL;
    icl_status status = ICL_OK;

    ICL_TRY(icl_tape_create(backend, &tape, error));
    ICL_TRY(icl_sequence_watch_run(model, tape, parameters, (icl_tensor){0}, inputs, watch, error));
    ICL_TRY(read(watch->user, tape, error));
done:
    icl_tape_destroy(&tape);
    return status;
}

/* ---- Attention ---- */

/* The queries and keys of a layer on the tape, [B, H, queries, m] and [B, H, sinks + keys, m]. */
typedef struct attention_layer {
    size_t layer, loop, sinks;
    const char *mixer;
    icl_attention_params params;
    icl_variable q, k;
} attention_layer;

typedef struct attention_watcher {
    icl_attention_maps *maps; /* maps of the layers seen */
    attention_layer *all;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
} attention_watcher;

static void see_attention(void *user, const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                          const icl_attention_params *params, const icl_sequence_heads *heads) {
    attention_watcher *w = user;

    if (w->status == ICL_OK)
        w->status = icl_grow(&w->all, w->count, &w->capacity, sizeof *w->all, "layers that attend", w->error);
    if (w->status == ICL_OK)
        w->all[w->count++] = (attention_layer){.layer = layer->index,
                                               .loop = pass->loop,
                                               .sinks = layer->sink > 0,
                                               .mixer = icl_sequence_word(layer),
                                               .params = *params,
                                               .q = heads->q,
                                               .k = heads->k};
}

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* weights [visible]: those of the `visible` keys behind the sinks, keys [sinks + visible][m]. The largest score
 * is subtracted first, so that no exponential overflows. */
static void weigh(const double *query, const double *keys, size_t sinks, size_t visible, size_t m, double scale,
                  double *weights) {
    double largest = -(double)INFINITY, total = 0;

    for (size_t j = 0; j < sinks + visible; j++)
        largest = fmax(largest, scale * dot(query, keys + j * m, m));
    for (size_t j = 0; j < sinks + visible; j++) {
        const double weight = exp(scale * dot(query, keys + j * m, m) - largest);
        total += weight;
        if (j >= sinks)
            weights[j - sinks] = weight;
    }
    for (size_t j = 0; j < visible; j++)
        weights[j] /= total;
}

/* The weights of keys that no query sees are 0 already. */
static void fill_map(const attention_layer *layer, const double *q, const double *k, size_t m, icl_attention_map *map) {
    const size_t before = map->keys - map->queries;

    for (size_t head = 0; head < map->sequences * map->heads; head++)
        for (size_t i = 0; i < map->queries; i++) {
            const size_t row = head * map->queries + i;
            const size_t window = layer->params.window;
            const size_t end = layer->params.mask == ICL_MASK_CAUSAL ? before + i + 1 : map->keys;
            const size_t begin = window > 0 && end > window ? end - window : 0;
            weigh(q + row * m, k + (head * (layer->sinks + map->keys) + begin) * m, layer->sinks, end - begin, m,
                  layer->params.scale, map->weights + row * map->keys + begin);
        }
}

static icl_status read_map(const icl_tape *tape, const attention_layer *layer, icl_attention_map *map,
                           icl_error *error) {
    const icl_tensor queries = icl_tape_value(tape, layer->q), keys = icl_tape_value(tape, layer->k);
    double *q = NULL, *k = NULL;
    icl_status status = ICL_OK;

    *map = (icl_attention_map){.layer = layer->layer,
                               .loop = layer->loop,
                               .mixer = layer->mixer,
                               .sequences = queries.shape[0],
                               .heads = queries.shape[1],
                               .queries = queries.shape[2],
                               .keys = keys.shape[2] - layer->sinks};
    ICL_TRY(icl_allocate(icl_tensor_count(&queries), sizeof *q, "queries", &q, error));
    ICL_TRY(icl_allocate(icl_tensor_count(&keys), sizeof *k, "keys", &k, error));
    ICL_TRY(icl_allocate(map->sequences * map->heads, map->queries * map->keys * sizeof *map->weights,
                         "attention weights", &map->weights, error));
    ICL_TRY(icl_tensor_read_double(queries, q, error));
    ICL_TRY(icl_tensor_read_double(keys, k, error));
    fill_map(layer, q, k, queries.shape[3], map);
done:
    icl_free(&q);
    icl_free(&k);
    return status;
}

static icl_status read_maps(void *user, const icl_tape *tape, icl_error *error) {
    const attention_watcher *w = user;
    icl_attention_maps *maps = w->maps;

    ICL_CHECK(w->status);
    for (size_t i = 0; i < w->count; i++) {
        ICL_CHECK(icl_grow(&maps->maps, maps->count, &maps->capacity, sizeof *maps->maps, "attention maps", error));
        ICL_CHECK(read_map(tape, &w->all[i], &maps->maps[maps->count++], error));
    }
    return ICL_OK;
}

icl_status icl_attention_maps_measure(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                      icl_tensor inputs, icl_attention_maps *maps, icl_error *error) {
    attention_watcher w = {.maps = maps, .error = error};
    const icl_sequence_watch watch = {.attention = see_attention, .user = &w};
    const icl_status status = icl_watched_run(model, backend, parameters, inputs, &watch, read_maps, error);

    icl_free(&w.all);
    return status;
}

void icl_attention_maps_release(icl_attention_maps *maps) {
    for (size_t i = 0; i < maps->count; i++)
        icl_free(&maps->maps[i].weights);
    icl_free(&maps->maps);
    maps->count = maps->capacity = 0;
}

double icl_attention_weight(const icl_attention_map *map, size_t sequence, size_t head, size_t query, size_t key) {
    return map->weights[((sequence * map->heads + head) * map->queries + query) * map->keys + key];
}

/* ---- Residual stream ---- */

/* The stages on the tape. */
typedef struct stage_watcher {
    icl_residual_stream *stream; /* the stages seen */
    icl_variable *stages;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
} stage_watcher;

static icl_variable see_stage(void *user, const icl_sequence_pass *pass, size_t stage, icl_variable z) {
    stage_watcher *w = user;

    (void)pass;
    if (w->status == ICL_OK)
        w->status =
            icl_grow(&w->stages, stage, &w->capacity, sizeof *w->stages, "stages of a residual stream", w->error);
    if (w->status != ICL_OK)
        return z;
    w->stages[stage] = z;
    w->count = stage + 1;
    return z;
}

static icl_status read_stages(void *user, const icl_tape *tape, icl_error *error) {
    const stage_watcher *w = user;
    icl_residual_stream *stream = w->stream;

    ICL_CHECK(w->status);
    const icl_tensor first = icl_tape_value(tape, w->stages[0]);

    stream->stages = w->count;
    stream->tokens = first.shape[0] * first.shape[1];
    stream->width = first.shape[2];
    ICL_CHECK(icl_allocate(w->count, icl_tensor_count(&first) * sizeof *stream->values, "residual stream",
                           &stream->values, error));
    for (size_t i = 0; i < w->count; i++)
        ICL_CHECK(icl_tensor_read(icl_tape_value(tape, w->stages[i]),
                                  stream->values + i * stream->tokens * stream->width, error));
    return ICL_OK;
}

icl_status icl_residual_stream_read(const icl_model *model, icl_backend *backend, icl_tensor parameters,
                                    icl_tensor inputs, icl_residual_stream *stream, icl_error *error) {
    stage_watcher w = {.stream = stream, .error = error};
    const icl_sequence_watch watch = {.stage = see_stage, .user = &w};
    icl_status status;

    *stream = (icl_residual_stream){0};
    status = icl_watched_run(model, backend, parameters, inputs, &watch, read_stages, error);
    icl_free(&w.stages);
    return status;
}

void icl_residual_stream_release(icl_residual_stream *stream) {
    icl_free(&stream->values);
}

const float *icl_residual_stream_stage(const icl_residual_stream *stream, size_t stage) {
    return stream->values + stage * stream->tokens * stream->width;
}
