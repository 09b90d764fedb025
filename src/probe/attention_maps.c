#include "probe/attention_maps.h"

#include <math.h>

#include "core/allocate.h"
#include "iclab/tape.h"
#include "probe/watched.h"

/* ---- Seeing ---- */

/* The queries and keys of a layer on the tape, [B, H, queries, m] and [B, H, keys, m]. */
typedef struct seen {
    size_t layer, loop;
    icl_attention_params params;
    icl_variable q, k;
} seen;

typedef struct watcher {
    icl_attention_maps *maps; /* of what was seen */
    seen *all;
    size_t count, capacity;
    icl_status status;
    icl_error *error;
} watcher;

static void see(void *user, const icl_sequence_pass *pass, const icl_sequence_layer *layer,
                const icl_attention_params *params, const icl_sequence_heads *heads) {
    watcher *w = user;

    if (w->status == ICL_OK)
        w->status = icl_grow(&w->all, w->count, &w->capacity, sizeof *w->all, "layers that attend", w->error);
    if (w->status == ICL_OK)
        w->all[w->count++] = (seen){layer->index, pass->loop, *params, heads->q, heads->k};
}

/* ---- Weights ---- */

static double dot(const double *a, const double *b, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* weights [keys], zeroed: of the first `visible` keys [keys][m]. The largest score is taken off, so that none
 * overflows. */
static void weigh(const double *query, const double *keys, size_t visible, size_t m, double scale, double *weights) {
    double largest = -(double)INFINITY, total = 0;

    for (size_t j = 0; j < visible; j++) {
        weights[j] = scale * dot(query, keys + j * m, m);
        largest = fmax(largest, weights[j]);
    }
    for (size_t j = 0; j < visible; j++) {
        weights[j] = exp(weights[j] - largest);
        total += weights[j];
    }
    for (size_t j = 0; j < visible; j++)
        weights[j] /= total;
}

static void fill_map(const seen *from, const double *q, const double *k, size_t m, icl_attention_map *map) {
    const size_t before = map->keys - map->queries;

    for (size_t head = 0; head < map->sequences * map->heads; head++)
        for (size_t i = 0; i < map->queries; i++) {
            const size_t row = head * map->queries + i;
            const size_t visible = from->params.mask == ICL_MASK_CAUSAL ? before + i + 1 : map->keys;
            weigh(q + row * m, k + head * map->keys * m, visible, m, from->params.scale,
                  map->weights + row * map->keys);
        }
}

static icl_status read_map(const icl_tape *tape, const seen *from, icl_attention_map *map, icl_error *error) {
    const icl_tensor queries = icl_tape_value(tape, from->q), keys = icl_tape_value(tape, from->k);
    double *q = NULL, *k = NULL;
    icl_status status = ICL_OK;

    *map = (icl_attention_map){.layer = from->layer,
                               .loop = from->loop,
                               .sequences = queries.shape[0],
                               .heads = queries.shape[1],
                               .queries = queries.shape[2],
                               .keys = keys.shape[2]};
    ICL_TRY(icl_allocate(icl_tensor_count(&queries), sizeof *q, "queries", &q, error));
    ICL_TRY(icl_allocate(icl_tensor_count(&keys), sizeof *k, "keys", &k, error));
    ICL_TRY(icl_allocate(map->sequences * map->heads, map->queries * map->keys * sizeof *map->weights,
                         "attention weights", &map->weights, error));
    ICL_TRY(icl_tensor_read_double(queries, q, error));
    ICL_TRY(icl_tensor_read_double(keys, k, error));
    fill_map(from, q, k, queries.shape[3], map);
done:
    icl_free(&q);
    icl_free(&k);
    return status;
}

/* ---- The whole ---- */

static icl_status read_maps(void *user, const icl_tape *tape, icl_error *error) {
    const watcher *w = user;
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
    watcher w = {.maps = maps, .error = error};
    const icl_sequence_watch watch = {.attention = see, .user = &w};
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
