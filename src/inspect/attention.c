/* Where the softmax layers of a sequence model look (probe/attention_maps.h). */
#include <math.h>
#include <stdio.h>

#include "core/allocate.h"
#include "inspect/inspecting.h"
#include "probe/attention_maps.h"

/* Heads that the picture shows. */
#define MOST_MAPS 8

/* Means over all queries of all sequences. */
typedef struct head_summary {
    double entropy;        /* of a query's weights, in nats */
    double largest;        /* weight of a query's first key by weight */
    double itself, before; /* weights of the query's own position and of the one before it */
    double distance;       /* positions back, weighted */
} head_summary;

static head_summary summarize(const icl_attention_map *map, size_t head) {
    const double share = 1 / (double)(map->sequences * map->queries);
    head_summary sum = {0};

    for (size_t b = 0; b < map->sequences; b++)
        for (size_t i = 0; i < map->queries; i++) {
            const size_t at = map->keys - map->queries + i;
            double largest = 0;
            for (size_t j = 0; j < map->keys; j++) {
                const double weight = icl_attention_weight(map, b, head, i, j);
                largest = fmax(largest, weight);
                sum.entropy -= weight > 0 ? share * weight * log(weight) : 0;
                sum.distance += share * weight * fabs((double)at - (double)j);
            }
            sum.largest += share * largest;
            sum.itself += share * icl_attention_weight(map, b, head, i, at);
            sum.before += at > 0 ? share * icl_attention_weight(map, b, head, i, at - 1) : 0;
        }
    return sum;
}

/* ---- Numbers ---- */

static icl_status add_head(icl_inspecting *run, const icl_attention_map *map, size_t head, icl_error *error) {
    const head_summary is = summarize(map, head);
    const struct {
        const char *quantity;
        double value;
    } numbers[] = {{"attention: effective number of keys", exp(is.entropy)},
                   {"attention: largest weight", is.largest},
                   {"attention: weight of its own position", is.itself},
                   {"attention: weight of the position before", is.before},
                   {"attention: mean distance in positions", is.distance}};
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    char layer[32], what[ICL_INSPECT_CELL], texts[NUMBERS][ICL_INSPECT_CELL];
    const char *cells[2 + NUMBERS] = {layer, what};

    snprintf(layer, sizeof layer, "%zu, softmax", map->layer + 1);
    icl_inspect_head(run, map->loop, head, what);
    for (size_t i = 0; i < NUMBERS; i++) {
        cells[2 + i] = icl_inspect_number(numbers[i].value, texts[i]);
        ICL_CHECK(ICL_INSPECT_FOUND(run, error, .layer = map->layer + 1, .what = what, .quantity = numbers[i].quantity,
                                    .value = numbers[i].value, .note = "softmax"));
    }
    return icl_inspect_table_row(run, ICL_TONE_PLAIN, cells, error);
}

static icl_status write_table(icl_inspecting *run, const icl_attention_maps *all, icl_error *error) {
    static const icl_report_column columns[] = {{"layer", false},         {"head", false},
                                                {"keys in effect", true}, {"largest weight", true},
                                                {"on itself", true},      {"on the one before", true},
                                                {"distance", true}};

    ICL_CHECK(icl_inspect_table_begin(run, columns, sizeof columns / sizeof *columns, error));
    for (size_t i = 0; i < all->count; i++)
        for (size_t head = 0; head < all->maps[i].heads; head++)
            ICL_CHECK(add_head(run, &all->maps[i], head, error));
    ICL_CHECK(icl_inspect_table_end(run, error));
    return icl_inspect_paragraph(run, error,
                                 "Means over queries: exp(entropy) of a query's weights, its largest weight, the "
                                 "weights of its own position and of the one before, and how many positions back it "
                                 "looks.");
}

/* ---- The picture ---- */

static icl_status draw(icl_inspecting *run, const icl_attention_maps *all, icl_error *error) {
    icl_heat_map maps[MOST_MAPS];
    char labels[MOST_MAPS][96], what[ICL_INSPECT_CELL];
    size_t count = 0, heads = 0;

    for (size_t i = 0; i < all->count; i++)
        for (size_t head = 0; head < all->maps[i].heads; head++, heads++) {
            const icl_attention_map *map = &all->maps[i];
            if (count == MOST_MAPS)
                continue;
            snprintf(labels[count], sizeof labels[0], "layer %zu, %s", map->layer + 1,
                     icl_inspect_head(run, map->loop, head, what));
            maps[count] = (icl_heat_map){.label = labels[count],
                                         .rows = map->queries,
                                         .columns = map->keys,
                                         .values = map->weights + head * map->queries * map->keys};
            count++;
        }
    ICL_CHECK(ICL_INSPECT_HEAT_MAPS(run, error, .name = "attention", .title = "Attention weights, the first sequence",
                                    .row_label = "query, the last one below",
                                    .column_label = "key, from the first position on", .count = count, .maps = maps));
    if (heads > MOST_MAPS)
        return icl_inspect_paragraph(run, error, "The picture has the first %d of %zu heads.", MOST_MAPS, heads);
    return ICL_OK;
}

/* ---- The whole ---- */

icl_status icl_inspect_attention(icl_inspecting *run, icl_tensor parameters, icl_tensor inputs, icl_error *error) {
    icl_attention_maps all = {0};
    icl_status status = ICL_OK;

    icl_inspect_progress(run, "attention", 0);
    ICL_TRY(icl_attention_maps_measure(run->model, run->params->backend, parameters, inputs, &all, error));
    if (all.count == 0)
        goto done;
    ICL_TRY(icl_inspect_section(run, "Attention: where softmax layers look", error));
    ICL_TRY(write_table(run, &all, error));
    ICL_TRY(draw(run, &all, error));
done:
    icl_attention_maps_release(&all);
    return status;
}
